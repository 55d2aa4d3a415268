#!/usr/bin/env python3
"""Counts how many positions of a tactics suite each engine solves with a given number of nodes.

    scripts/matches/tactics.py --nodes 10000 --option WeightsFile=net.pb.gz \\
        'rukh=target/release/rukh' 'lc0=lc0 --backend=blas'

Each engine is `NAME=COMMAND`, and the command may begin with environment variables. The engines take turns, position by
position, each with a new tree. A position is solved if the engine plays one of its `bm` moves. For each engine, the
script prints how many positions it solved, and its mean nodes and seconds per position. (lc0 may exceed the limit by a
batch. Rukh and lc0 get SmartPruningFactor=0 unless --option says otherwise.) For each engine but the first, it also
prints how many positions only the first engine solved, and how many only this engine solved. With --concurrency N, N
positions are searched at a time, each by its own processes. After --seconds S no new position is started. Ctrl-C ends
the run; the script then prints the results so far.

Needs python-chess (PyPI `chess`).
"""

import argparse
import os
import time

import chess
import chess.engine

import uci_engine
from engine_figures import add_sharing, parse_engines, run_until_interrupted, share_out

DEFAULT_SUITE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/data/tactics.epd")


class Contestant:
    """An engine and its results."""

    def __init__(self, name, environment, words):
        self.name, self.environment, self.words = name, environment, words
        # Maps a position's number to (whether it was solved, nodes, seconds).
        self.results = {}

    async def start(self, options):
        _, engine = await uci_engine.start(self.words, options, environment=self.environment, at_nodes=True)
        return engine

    async def solve(self, engine, number, board, best_moves, limit):
        start = time.monotonic()
        # A new game for each position clears the tree.
        played = await engine.play(board, limit, game=object(), info=chess.engine.INFO_BASIC)
        seconds = time.monotonic() - start
        self.results[number] = played.move in best_moves, played.info.get("nodes", 0), seconds
        return played.move

    def summary(self, numbers, first):
        """A line of results for the positions with these numbers."""
        solved, nodes, seconds = zip(*(self.results[number] for number in numbers))
        count, share = len(numbers), 100 * sum(solved) / len(numbers)
        figures = f"{sum(nodes) / count:.0f} nodes, {sum(seconds) / count:.2f} s each"
        text = f"{self.name:<12} solved {sum(solved)} of {count} ({share:.1f} %), {figures}"
        if self is first:
            return text
        pairs = list(zip((first.results[number][0] for number in numbers), solved))
        alone = pairs.count((True, False)), pairs.count((False, True))
        return f"{text}; {first.name} alone {alone[0]}, {self.name} alone {alone[1]}"


def read_suite(path):
    """A list of (board, best moves, name) from an EPD file."""
    suite = []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                board = chess.Board()
                operations = board.set_epd(line)
                suite.append((board, operations["bm"], operations.get("id", line.strip())))
    return suite


async def work(contestants, positions, arguments):
    """Takes positions from the iterator, and gives each to all contestants in turn."""
    options = uci_engine.parse_options(arguments.option)
    limit = chess.engine.Limit(nodes=arguments.nodes)
    engines = [await contestant.start(options) for contestant in contestants]
    for number, (board, best_moves, name) in positions:
        moves = []
        for contestant, engine in zip(contestants, engines):
            moves.append(await contestant.solve(engine, number, board, best_moves, limit))
        if arguments.verbose:
            marks = [f"{board.san(move)}{'' if move in best_moves else '?'}" for move in moves]
            print(f"{name:<16} {' '.join(f'{mark:<8}' for mark in marks)}", flush=True)
    for engine in engines:
        await engine.quit()


async def run(arguments):
    suite = read_suite(arguments.suite)[: arguments.positions]
    engines = parse_engines(arguments.engines).items()
    contestants = [Contestant(name, environment, words) for name, (environment, words) in engines]
    try:
        await share_out(enumerate(suite), arguments, lambda positions: work(contestants, positions, arguments))
    finally:
        numbers = sorted(set.intersection(*(set(contestant.results) for contestant in contestants)))
        for contestant in contestants if numbers else []:
            print(contestant.summary(numbers, contestants[0]))


def main():
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("engines", nargs="+", metavar="NAME=COMMAND")
    parser.add_argument("--nodes", type=int, default=10_000, help="nodes per position")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="UCI option of all engines")
    parser.add_argument("--suite", default=DEFAULT_SUITE, help="EPD file")
    parser.add_argument("--positions", type=int, help="use only the first positions of the suite")
    add_sharing(parser)
    parser.add_argument("--verbose", action="store_true", help="print every move played")
    run_until_interrupted(run(parser.parse_args()))


if __name__ == "__main__":
    main()
