#!/usr/bin/env python3
"""Compares the speed of evaluators: runs `backendbench` of several engines in turn, and prints medians and ratios.

    scripts/matches/compare_backendbench.py --net NET --batch 8 --threads 1 \\
        'rukh=target/release/rukh --backend=cpu' 'lc0=lc0 --backend=blas'

Each engine is `NAME=COMMAND`, and the command may begin with environment variables (`OMP_NUM_THREADS=1 lc0 …`). The
script adds `backendbench`, the network, the batch sizes and the number of threads. The engines take turns, `--rounds`
times, so that a drift in the machine's speed affects all of them alike. The figure of a run is its median column, in
evaluations per second. The script prints the median of an engine's figures, their range, and the ratio of the first
engine's median to that of each engine.
"""

import argparse
import itertools
import shlex
import subprocess
import sys

from engine_figures import measure_in_turn, parse_engines, print_figures

MEDIAN_COLUMN = 6


def sizes(text):
    """Parses batch sizes, which must have equal distances, because lc0 takes the first, the last and the step."""
    numbers = [int(word) for word in text.split(",")]
    distances = {after - before for before, after in itertools.pairwise(numbers)}
    if len(distances) > 1 or min(distances, default=1) < 1:
        raise argparse.ArgumentTypeError("the sizes must be in order and have equal distances: 16,264,512")
    return numbers


def measure(environment, words, arguments):
    """Runs an engine once, and returns the median column of each size's row, in evaluations per second."""
    program, *options = words
    # lc0 expects its mode first.
    line = [program, "backendbench", *options, f"--weights={arguments.net}", f"--threads={arguments.threads}",
            f"--start-batch-size={arguments.batch[0]}", f"--max-batch-size={arguments.batch[-1]}",
            f"--batches={arguments.batches}"]
    if len(arguments.batch) > 1:
        line.append(f"--batch-step={arguments.batch[1] - arguments.batch[0]}")
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=environment)
    rows = (row.split(",") for row in done.stdout.splitlines())
    found = {row[0].strip(): row[MEDIAN_COLUMN] for row in rows if len(row) > MEDIAN_COLUMN}
    if any(str(size) not in found for size in arguments.batch):
        sys.exit(f"{shlex.join(line)} lacks rows for batches of {arguments.batch}:\n{done.stdout}{done.stderr}")
    return [float(found[str(size)]) for size in arguments.batch]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engines", nargs="+", metavar="NAME=COMMAND")
    parser.add_argument("--net", required=True, help="network file")
    parser.add_argument("--batch", type=sizes, default=[8], metavar="N[,N ...]", help="positions in a batch; evenly spaced")
    parser.add_argument("--threads", type=int, default=1, help="threads of the engine")
    parser.add_argument("--batches", type=int, default=60, help="batches in a run")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each engine")
    arguments = parser.parse_args()

    figures = measure_in_turn(parse_engines(arguments.engines), arguments.rounds,
                              lambda environment, words: measure(environment, words, arguments))
    for index, size in enumerate(arguments.batch):
        title = f"batch {size}, {arguments.threads} thread(s), {arguments.rounds} rounds, evaluations/s"
        print_figures(title, {name: [row[index] for row in rows] for name, rows in figures.items()})


if __name__ == "__main__":
    main()
