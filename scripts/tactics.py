#!/usr/bin/env python3
"""Counts how many positions of a tactics suite engines solve, side by side, at so many nodes.

    scripts/tactics.py --nodes 10000 --option WeightsFile=net.pb.gz \\
        'rukh=target/release/rukh' 'lc0=lc0 --backend=blas'

Each engine is `NAME=COMMAND`, the command perhaps with environment variables first. The engines take turns, position
by position, each with a fresh tree. A position is solved if the move played is one of its `bm` moves. Printed are
the solved ones of each engine, how many of them the first engine solved alone and the other alone, and the nodes
that were really searched: engines may go beyond a limit by a batch, or stop where a move is certain. Broken off
with Ctrl-C, it prints what it has.

Needs PyPI `chess`.
"""

import argparse
import asyncio
import os
import time

import chess
import chess.engine

import uci_engine
from engine_figures import parse_engines

DEFAULT_SUITE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/data/tactics.epd")


class Solver:
    """An engine and what it has done."""

    def __init__(self, name):
        self.name = name
        self.transport = self.engine = None
        self.solved = []
        self.nodes = 0
        self.seconds = 0.0

    async def start(self, environment, words, options):
        self.transport, self.engine = await uci_engine.start(words, options, environment=environment)

    async def solve(self, board, best_moves, limit):
        start = time.monotonic()
        # Another game for every position: nothing is left from the last one.
        played = await self.engine.play(board, limit, game=object(), info=chess.engine.INFO_BASIC)
        self.seconds += time.monotonic() - start
        self.nodes += played.info.get("nodes", 0)
        self.solved.append(played.move in best_moves)
        return played.move

    def summary(self, first):
        count = len(self.solved)
        share = 100 * sum(self.solved) / count
        pairs = list(zip(first.solved, self.solved))
        alone = f"  {first.name} alone {pairs.count((True, False))}, {self.name} alone {pairs.count((False, True))}"
        figures = f"{self.nodes / count:.0f} nodes, {self.seconds / count:.2f} s each"
        text = f"{self.name:<12} solved {sum(self.solved)} of {count} ({share:.1f} %), {figures}"
        return text if self is first else text + alone


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


async def run(arguments):
    options = uci_engine.parse_options(arguments.option)
    suite = read_suite(arguments.suite)[: arguments.positions]
    solvers = []
    try:
        for name, (environment, words) in parse_engines(arguments.engines).items():
            solvers.append(Solver(name))
            await solvers[-1].start(environment, words, options)
        limit = chess.engine.Limit(nodes=arguments.nodes)
        for board, best_moves, name in suite:
            moves = [await solver.solve(board, best_moves, limit) for solver in solvers]
            if arguments.verbose:
                marks = [f"{board.san(move)}{'' if move in best_moves else '?'}" for move in moves]
                print(f"{name:<16} {' '.join(f'{mark:<8}' for mark in marks)}", flush=True)
    finally:
        count = min((len(solver.solved) for solver in solvers), default=0)
        for solver in solvers:
            # Broken off, some have had a position more.
            solver.solved = solver.solved[:count]
            if count:
                print(solver.summary(solvers[0]))
            if solver.engine is not None:
                await solver.engine.quit()


def main():
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("engines", nargs="+", metavar="NAME=COMMAND")
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--suite", default=DEFAULT_SUITE, help="EPD file")
    parser.add_argument("--positions", type=int, help="only so many, from the first")
    parser.add_argument("--verbose", action="store_true", help="print every move played")
    arguments = parser.parse_args()
    try:
        asyncio.run(run(arguments))
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
