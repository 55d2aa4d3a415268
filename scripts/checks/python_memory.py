#!/usr/bin/env python3
"""Evaluates ten million packed positions with the Python package, and checks that its memory does not grow.

    PYTHONPATH=unzipped-wheel scripts/checks/python_memory.py [--backend random] [--options times=256:0] [--millions 10]

The default is a simulated card that takes no time. The first two million count as the start. Linux only; needs numpy and
the packages rukh and chess.
"""

import argparse
import os
import sys
import time

import chess
import numpy as np

import rukh
from process_memory import megabytes

CALL = 50_000
MILLION = 1_000_000
#: The growth that is allowed, in megabytes: less than the results of one call.
ALLOWED_MB = 8


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--net", help="network file (default: the package's own)")
    parser.add_argument("--backend", default="random")
    parser.add_argument("--options", default="times=256:0,slots=3", help="options of the backend")
    parser.add_argument("--millions", type=int, default=10)
    arguments = parser.parse_args()

    network = rukh.Network.open(arguments.net) if arguments.net else rukh.Network.embedded()
    evaluator = rukh.Evaluator(network, arguments.backend, arguments.options)
    board, boards = chess.Board(), []
    while len(boards) < 100 and (moves := list(board.legal_moves)):
        boards.append(board.copy())
        board.push(moves[len(boards) % len(moves)])
    packed = np.resize(rukh.pack(boards), (CALL, 8))
    begin, used = time.perf_counter(), []
    for million in range(1, arguments.millions + 1):
        for _ in range(MILLION // CALL):
            assert len(evaluator.evaluate(packed)) == CALL
        used.append(megabytes(os.getpid(), "VmRSS"))
        print(f"{million} million, {time.perf_counter() - begin:.0f} s: {used[-1]:.1f} MB", flush=True)
    growth = max(used) - used[:2][-1]
    if growth > ALLOWED_MB:
        sys.exit(f"the memory grows by {growth:.1f} MB")


if __name__ == "__main__":
    main()
