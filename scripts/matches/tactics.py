#!/usr/bin/env python3
"""Counts how many positions of a tactics suite engines solve, side by side, at so many nodes.

    scripts/matches/tactics.py --nodes 10000 --option WeightsFile=net.pb.gz \\
        'rukh=target/release/rukh' 'lc0=lc0 --backend=blas'

Each engine is `NAME=COMMAND`, the command perhaps with environment variables first. The engines take turns, position
by position, each with a fresh tree. A position is solved if the move played is one of its `bm` moves. Printed are
the solved ones of each engine, how many of them the first engine solved alone and the other alone, and the nodes
that were really searched: engines may go beyond a limit by a batch, or stop where a move is certain. With
--concurrency N, N positions are searched at a time, each by processes of its own. --seconds S begins no position
after that time; broken off with Ctrl-C, too, it prints what it has.

Needs PyPI `chess`.
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
    """An engine, and what its processes have done."""

    def __init__(self, name, environment, words):
        self.name, self.environment, self.words = name, environment, words
        # Whether it was solved, nodes and seconds, by the position's number.
        self.results = {}

    async def start(self, options):
        _, engine = await uci_engine.start(self.words, options, environment=self.environment)
        return engine

    async def solve(self, engine, number, board, best_moves, limit):
        start = time.monotonic()
        # Another game for every position: nothing is left from the last one.
        played = await engine.play(board, limit, game=object(), info=chess.engine.INFO_BASIC)
        seconds = time.monotonic() - start
        self.results[number] = played.move in best_moves, played.info.get("nodes", 0), seconds
        return played.move

    def summary(self, numbers, first):
        """Over the positions with these numbers."""
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
    """The boards, their best moves and names."""
    suite = []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                board = chess.Board()
                operations = board.set_epd(line)
                suite.append((board, operations["bm"], operations.get("id", line.strip())))
    return suite


async def work(contestants, positions, arguments):
    """Takes positions while there are any, and gives each to all contestants in turn."""
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
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--suite", default=DEFAULT_SUITE, help="EPD file")
    parser.add_argument("--positions", type=int, help="only so many, from the first")
    add_sharing(parser)
    parser.add_argument("--verbose", action="store_true", help="print every move played")
    run_until_interrupted(run(parser.parse_args()))


if __name__ == "__main__":
    main()
