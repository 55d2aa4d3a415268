#!/usr/bin/env python3
"""Compares `rukh analyze` with one UCI engine that searches the same positions one after another.

    scripts/matches/analysis_speed.py target/release/rukh --nodes 100 --count 60
    scripts/matches/analysis_speed.py 'target/release/rukh --weights=t82.pb.gz --backend=rocm-fp16' --count 2000 --bench

Both run the same command (a program with flags) with the same number of nodes for each position. They take turns,
`--rounds` times. The evaluations of the UCI engine come from its info lines (`UCI_ShowEPS`); the time is from the first
`go` to the last `bestmove`, so that the start of the process does not count. `analyze` counts its evaluations itself,
from the first position to the last. With `--bench` the script also runs `backendbench` at the mean batch size that
`analyze` reached, with `--bench-threads` threads, and prints the share of its speed.
"""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import tempfile
import time

from plain_engine import OPENINGS, PlainEngine, backend_speed, number_after, read_positions


def one_after_another(command, positions, nodes):
    """Searches with a UCI engine. Returns evaluations and positions per second."""
    engine = PlainEngine(command)
    evaluations, begin = 0.0, time.monotonic()
    for fen in positions:
        last = engine.search(fen, f"nodes {nodes}")
        # Evaluations per second are counted from the first batch, whose position is the root's.
        evaluations += 1 + number_after(last, "eps") * number_after(last, "time") / 1000
    seconds = time.monotonic() - begin
    engine.quit()
    return evaluations / seconds, len(positions) / seconds, None


def all_at_once(command, positions, nodes):
    """Searches with `analyze`. Returns evaluations and positions per second, and the mean batch size."""
    program, *flags = shlex.split(command)
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "positions.epd")
        with open(source, "w", encoding="utf-8") as file:
            file.writelines(fen + "\n" for fen in positions)
        words = [program, "analyze", *flags, f"--nodes={nodes}", source, f"--output={folder}/out.jsonl", "--json"]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    evaluations, seconds = found["evaluations"], found["seconds"]
    return evaluations / seconds, found["positions"] / seconds, evaluations / found["batches"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", help="the engine and its flags")
    parser.add_argument("--nodes", type=int, default=100, help="nodes for each position")
    parser.add_argument("--count", type=int, default=100, help="positions of each round")
    parser.add_argument("--rounds", type=int, default=3, help="rounds")
    parser.add_argument("--positions", default=OPENINGS, help="EPD file")
    parser.add_argument("--bench", action="store_true", help="compare with backendbench as well")
    parser.add_argument("--bench-threads", type=int, default=2, help="threads of backendbench")
    arguments = parser.parse_args()
    positions = read_positions(arguments.positions, arguments.count)
    figures = {one_after_another: [], all_at_once: []}
    for _ in range(arguments.rounds):
        for measure, found in figures.items():
            found.append(measure(arguments.command, positions, arguments.nodes))
    print(f"{arguments.count} positions, {arguments.nodes} nodes each, {arguments.rounds} rounds, medians")
    medians = []
    for measure, found in figures.items():
        evaluations, rate = (statistics.median(column) for column in list(zip(*found))[:2])
        medians.append((evaluations, rate))
        name = "one after another" if measure is one_after_another else "all at once"
        print(f"{name:<18} {evaluations:9.0f} evaluations/s {rate:8.2f} positions/s")
    (one, one_rate), (many, many_rate) = medians
    print(f"ratio              {many / one:9.2f}               {many_rate / one_rate:8.2f}")
    batch = statistics.median(found[2] for found in figures[all_at_once])
    print(f"mean batch         {batch:9.1f}")
    if arguments.bench:
        size = max(1, round(batch))
        alone = backend_speed(arguments.command, size, arguments.bench_threads)
        print(f"of backendbench    {100 * many / alone:9.1f} %   ({alone:.0f} evaluations/s at batch {size})")


if __name__ == "__main__":
    main()
