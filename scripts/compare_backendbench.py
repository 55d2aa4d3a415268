#!/usr/bin/env python3
"""Measures this engine's evaluator beside others, in turn, and prints medians and ratios.

    scripts/compare_backendbench.py --net NET --batch 8 --threads 1 \\
        'rukh=target/release/rukh --backend=cpu' 'lc0=lc0 --backend=blas'

Each engine is `NAME=COMMAND`, where the command may begin with environment variables (`OMP_NUM_THREADS=1 lc0 …`);
`backendbench`, the network, the batch size and the threads are added. The engines
take turns, `--rounds` times, so that a machine whose speed drifts is as unfair to one as to the other. Of each run
the median column counts (evaluations per second); printed are the median of those, their range, and the ratio of
the first engine's median to each other's.
"""

import argparse
import itertools
import os
import shlex
import statistics
import subprocess
import sys

MEDIAN_COLUMN = 6


def measure(command, arguments):
    """One run; returns the median column of its one row, in evaluations per second."""
    variables = list(itertools.takewhile(lambda word: "=" in word, command))
    program, *options = command[len(variables):]
    # lc0 wants its mode first.
    line = [program, "backendbench", *options, f"--weights={arguments.net}", f"--threads={arguments.threads}",
            f"--start-batch-size={arguments.batch}", f"--max-batch-size={arguments.batch}",
            f"--batches={arguments.batches}"]
    environment = os.environ | dict(word.split("=", 1) for word in variables)
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=environment)
    rows = [row.split(",") for row in done.stdout.splitlines() if row.strip().startswith(f"{arguments.batch},")]
    if len(rows) != 1:
        sys.exit(f"{shlex.join(line)} printed no row for batch {arguments.batch}:\n{done.stdout}{done.stderr}")
    return float(rows[0][MEDIAN_COLUMN])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engines", nargs="+", metavar="NAME=COMMAND")
    parser.add_argument("--net", required=True)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()

    engines = {}
    for engine in arguments.engines:
        name, _, command = engine.partition("=")
        engines[name] = shlex.split(command)
    figures = {name: [] for name in engines}
    for _ in range(arguments.rounds):
        for name, command in engines.items():
            figures[name].append(measure(command, arguments))

    first = statistics.median(next(iter(figures.values())))
    print(f"batch {arguments.batch}, {arguments.threads} thread(s), {arguments.rounds} rounds, evaluations/s")
    for name, values in figures.items():
        median = statistics.median(values)
        print(f"{name:<16} {median:>9.0f}  ({min(values):.0f} to {max(values):.0f})  x{first / median:.2f}")


if __name__ == "__main__":
    main()
