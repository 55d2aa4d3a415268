#!/usr/bin/env python3
"""Measures how an engine answers while its tree is full, and how fast it then searches.

    scripts/checks/full_tree.py --megabytes 600 --storm 10000 target/release/rukh --backend=random --threads=2

The engine searches until it says that its tree has reached the limit (`RamLimitMb`), and goes on for `--seconds` more,
a second at a time. Then follows a storm: `--storm` commands, drawn at random, each of which must be answered in time:

| command | answer | limit |
|---|---|---|
| `stop`, at a random moment of `go infinite` | `bestmove` | 50 ms |
| `go movetime N` | `bestmove` | N + 20 ms |
| `position` with another root, `isready` | `readyok` | 50 ms |
| `ucinewgame`, `isready`, once in a thousand commands | `readyok` | 50 ms |
| `quit`, at the end | the process has ended | 50 ms |

The script prints the nodes per second before and after the tree was full, the slowest second, the greatest delay of each
command, how many were too late, and the process's greatest resident memory. It fails if a command was too late, if the
speed falls below 80 % (in a second: 50 %) of that of a tree that is not full, or if memory exceeds the limit by more
than `--extra` megabytes. Needs Linux and Python's standard library only.
"""

import argparse
import random
import re
import subprocess
import sys
import time

from process_memory import FULL, megabytes

LIMITS = {"stop": 0.050, "movetime": 0.020, "position": 0.050, "ucinewgame": 0.050, "quit": 0.050}
MOVES = ["e2e4 e7e5 g1f3 b8c6 f1b5 a7a6 b5a4 g8f6 e1g1 f8e7", "d2d4 d7d5 c2c4 e7e6 b1c3 g8f6 c1g5 f8e7 e2e3 e8g8",
         "c2c4 e7e5 b1c3 g8f6 g2g3 d7d5 c4d5 f6d5 f1g2 d5b6"]


class Engine:
    """The part of a UCI engine that this script needs."""

    def __init__(self, words):
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.nodes = 0
        self.is_full = False

    def send(self, *lines):
        self.process.stdin.write("".join(line + "\n" for line in lines))
        self.process.stdin.flush()

    def wait_for(self, word):
        for line in self.process.stdout:
            if found := re.search(r" nodes (\d+) ", line):
                self.nodes = int(found.group(1))
            self.is_full |= FULL in line
            if line.startswith(word):
                return line
        sys.exit(f"the engine ended before `{word}`")

    def ready(self):
        self.send("isready")
        self.wait_for("readyok")

    def peak_megabytes(self):
        return megabytes(self.process.pid, "VmHWM")


def search_for(engine, seconds):
    """Nodes per second of a search of about this time, which goes on with the last one."""
    before, start = engine.nodes, time.monotonic()
    engine.send(f"go movetime {round(seconds * 1000)}")
    engine.wait_for("bestmove")
    return (engine.nodes - before) / (time.monotonic() - start)


def fill(engine, longest):
    """Searches until the tree is full; returns the nodes per second of the seconds before."""
    speeds = []
    start = time.monotonic()
    while not engine.is_full:
        speeds.append(search_for(engine, 1))
        if time.monotonic() - start > longest:
            sys.exit(f"the tree is not full after {longest} seconds")
    return speeds[:-1] or speeds


class Storm:
    """Random commands, and how late their answers came."""

    def __init__(self, engine, rng):
        self.engine = engine
        self.rng = rng
        self.delays = {name: [] for name in LIMITS}
        self.plies = 0
        self.line = MOVES[0].split()

    def note(self, name, start, expected=0.0):
        self.delays[name].append(time.monotonic() - start - expected)

    def stop(self):
        self.engine.send("go infinite")
        time.sleep(self.rng.choice([0, 0.001, 0.01, 0.05]) * self.rng.random())
        start = time.monotonic()
        self.engine.send("stop")
        self.engine.wait_for("bestmove")
        self.note("stop", start)

    def movetime(self):
        milliseconds = self.rng.randint(1, 40)
        start = time.monotonic()
        self.engine.send(f"go movetime {milliseconds}")
        self.engine.wait_for("bestmove")
        self.note("movetime", start, milliseconds / 1000)

    def position(self):
        """Goes one move on in the game, or begins another one."""
        if self.plies >= len(self.line) or self.rng.random() < 0.02:
            self.line, self.plies = self.rng.choice(MOVES).split(), 0
        self.plies += self.rng.random() < 0.3
        start = time.monotonic()
        self.engine.send(f"position startpos moves {' '.join(self.line[:self.plies])}")
        self.engine.ready()
        self.note("position", start)

    def ucinewgame(self):
        start = time.monotonic()
        self.engine.send("ucinewgame")
        self.engine.ready()
        self.note("ucinewgame", start)

    def run(self, count):
        for number in range(1, count + 1):
            if number % 1000 == 0:
                self.ucinewgame()
            self.rng.choice([self.stop, self.movetime, self.position])()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=600)
    parser.add_argument("--seconds", type=int, default=20, help="how long the full tree is searched")
    parser.add_argument("--storm", type=int, default=1000, help="the number of commands")
    parser.add_argument("--longest-fill", type=int, default=900, help="seconds until the tree must be full")
    parser.add_argument("--extra", type=float, default=48, help="megabytes that the process may take beside the limit")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("engine", nargs=argparse.REMAINDER, help="the engine's command")
    arguments = parser.parse_args()
    engine = Engine(arguments.engine)
    engine.send(f"setoption name RamLimitMb value {arguments.megabytes}", "setoption name MoveOverheadMs value 0",
                "setoption name SmartPruningFactor value 0", "position startpos")
    engine.ready()
    before = fill(engine, arguments.longest_fill)
    after = [search_for(engine, 1) for _ in range(arguments.seconds)]
    usual = sorted(before)[len(before) // 2]
    mean = sum(after) / len(after)
    print(f"not full: {usual:,.0f} nodes/s; full: {mean:,.0f} ({mean / usual:.0%}), "
          f"slowest second {min(after):,.0f} ({min(after) / usual:.0%})", flush=True)
    storm = Storm(engine, random.Random(arguments.seed))
    storm.run(arguments.storm)
    peak = engine.peak_megabytes()
    start = time.monotonic()
    engine.send("quit")
    engine.process.wait()
    storm.note("quit", start)
    failed = mean < 0.8 * usual or min(after) < 0.5 * usual or peak > arguments.megabytes + arguments.extra
    for name, delays in storm.delays.items():
        if delays:
            late = sum(delay > LIMITS[name] for delay in delays)
            failed |= late > 0
            ordered = sorted(delays)
            print(f"{name:10} {len(delays):6} times, median {1e3 * ordered[len(ordered) // 2]:6.1f} ms, "
                  f"greatest {1e3 * ordered[-1]:8.1f} ms, {late} too late")
    print(f"greatest resident memory {peak:,.0f} MB, limit {arguments.megabytes} MB")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
