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
import itertools
import json
import os
import shlex
import statistics
import subprocess
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def read_positions(path, count):
    """The first `count` positions of an EPD file, as FENs with counters; from the beginning again if there are fewer."""
    with open(path, encoding="utf-8") as file:
        boards = [" ".join(line.split()[:4]) + " 0 1" for line in file if line.strip()]
    return list(itertools.islice(itertools.cycle(boards), count))


def number_after(words, name):
    """The number after a word of an info line; 0 if the word is missing."""
    return int(words[words.index(name) + 1]) if name in words else 0


def one_after_another(command, positions, nodes):
    """Searches with a UCI engine. Returns evaluations and positions per second."""
    engine = subprocess.Popen(
        shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )

    def ask(line, end):
        engine.stdin.write(line + "\n")
        engine.stdin.flush()
        lines = []
        for answer in engine.stdout:
            lines.append(answer.split())
            if answer.startswith(end):
                return lines
        raise RuntimeError(f"the engine has ended after {line}")

    options = {"UCI_ShowEPS": "true", "SmartPruningFactor": "0"}
    ask("\n".join(f"setoption name {name} value {value}" for name, value in options.items()) + "\nisready", "readyok")
    ask("go nodes 1", "bestmove")
    evaluations, begin = 0.0, time.monotonic()
    for fen in positions:
        lines = ask(f"ucinewgame\nposition fen {fen}\ngo nodes {nodes}", "bestmove")
        last = [words for words in lines if words[:2] == ["info", "depth"]][-1]
        # Evaluations per second are counted from the first batch, whose position is the root's.
        evaluations += 1 + number_after(last, "eps") * number_after(last, "time") / 1000
    seconds = time.monotonic() - begin
    engine.communicate("quit\n")
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


def backend_speed(command, batch, threads):
    """The evaluations per second of the backend alone at a batch size."""
    program, *flags = shlex.split(command)
    sizes = [f"--start-batch-size={batch}", f"--max-batch-size={batch}", f"--threads={threads}"]
    done = subprocess.run([program, "backendbench", *flags, *sizes, "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["sizes"][0]["mean_nps"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", help="the engine and its flags")
    parser.add_argument("--nodes", type=int, default=100, help="nodes for each position")
    parser.add_argument("--count", type=int, default=100, help="positions of each round")
    parser.add_argument("--rounds", type=int, default=3, help="rounds")
    parser.add_argument("--positions", default=os.path.join(HERE, "../../tests/data/openings.epd"), help="EPD file")
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
