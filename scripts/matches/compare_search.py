#!/usr/bin/env python3
"""Compares the speed of searches: nodes per second of `go nodes` on three positions, with several engines in turn.

    scripts/matches/compare_search.py --nodes 300000 --threads 1 --option MinibatchSize=256 \\
        'rukh=target/release/rukh --backend=random' 'lc0=lc0 --backend=random --task-workers=0'

Each engine is `NAME=COMMAND`, and the command may begin with environment variables. Smart pruning is off, so that an
engine searches all the nodes it is asked for. The engines take turns, `--rounds` times. The figure of a run is the sum
of nodes over the sum of seconds of all positions. With `--movetime MS` each search takes that many milliseconds, and the
figure is the mean number of nodes that a search reaches. The script prints the median of an engine's figures, their
range, and the ratio of the first engine's median to that of each engine. With several numbers of threads, such as
`--threads 1,2,16`, it prints them for each number.
"""

import argparse
import re
import shlex
import subprocess
import sys
import time

from engine_figures import measure_in_turn, parse_engines, print_figures

POSITIONS = [
    "startpos",
    "fen r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    "fen r1bq1rk1/pp2bppp/2n1pn2/2pp4/3P1B2/2PBPN2/PP1N1PPP/R2QK2R b KQ - 5 8",
]

# The searches of a position in one run with `--movetime`, which are short.
SHORT_SEARCHES = 8


class Engine:
    """The part of a UCI engine that this script needs."""

    def __init__(self, environment, words, options):
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, env=environment)
        for option in options:
            name, _, value = option.partition("=")
            self.send(f"setoption name {name} value {value}")

    def send(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def wait_for(self, word):
        """Reads up to the line that begins with `word`; returns the last node count before it."""
        nodes = 0
        for line in self.process.stdout:
            if found := re.search(r" nodes (\d+) ", line):
                nodes = int(found.group(1))
            if line.startswith(word):
                return nodes
        sys.exit(f"{shlex.join(self.process.args)} ended before `{word}`")

    def search(self, position, limit):
        """Searches a position with a new tree up to a limit like `nodes 1000`; returns nodes and seconds."""
        self.send("ucinewgame")
        self.send(f"position {position}")
        self.send("isready")
        self.wait_for("readyok")
        start = time.monotonic()
        self.send(f"go {limit}")
        searched = self.wait_for("bestmove")
        return searched, time.monotonic() - start

    def quit(self):
        self.send("quit")
        self.process.wait()


def measure(environment, words, options, arguments):
    """Searches all positions; returns nodes per second, or with `--movetime` the nodes of a search."""
    limit = f"movetime {arguments.movetime}" if arguments.movetime else f"nodes {arguments.nodes}"
    engine = Engine(environment, words, options)
    engine.search(POSITIONS[0], "nodes 1")
    repetitions = SHORT_SEARCHES if arguments.movetime else 1
    results = [engine.search(position, limit) for position in POSITIONS * repetitions]
    engine.quit()
    nodes = sum(count for count, _ in results)
    return nodes / (len(results) if arguments.movetime else sum(seconds for _, seconds in results))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engines", nargs="+", metavar="NAME=COMMAND")
    parser.add_argument("--nodes", type=int, default=300_000, help="nodes of a search")
    parser.add_argument("--movetime", type=int, metavar="MS", help="time of a search, instead of nodes")
    parser.add_argument("--threads", default="1", help="threads of the engine: a number, or several separated by commas")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="UCI option of all engines")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each engine")
    arguments = parser.parse_args()

    limit = f"{arguments.movetime} ms" if arguments.movetime else f"{arguments.nodes} nodes"
    unit = "nodes" if arguments.movetime else "nodes/s"
    for threads in map(int, arguments.threads.split(",")):
        options = [f"Threads={threads}", "SmartPruningFactor=0", *arguments.option]
        figures = measure_in_turn(
            parse_engines(arguments.engines), arguments.rounds,
            lambda environment, words, options=options: measure(environment, words, options, arguments))
        print_figures(f"{limit}, {threads} thread(s), {arguments.rounds} rounds, {unit}", figures)


if __name__ == "__main__":
    main()
