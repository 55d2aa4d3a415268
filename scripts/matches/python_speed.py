#!/usr/bin/env python3
"""Compares the speed of the Python package with that of `backendbench`, in turn.

    scripts/matches/python_speed.py --net t1.pb.gz --backend cuda-auto [--rukh target/release/rukh] [--onnx t1.onnx]

Positions of random games, each with the moves before it, are given as boards of python-chess, packed, and as planes, in
calls of `--positions`; `dense` also makes the dense priors. On a card the package makes batches of 256, on a processor
of at most 64; backendbench makes batches of 256, with as many threads. onnxruntime, if a model is given, evaluates planes that are there already. Each round measures every
way once; the figures are the medians and the best of the rounds in positions per second, and their ratios to
backendbench. Needs the packages rukh and chess, and onnxruntime for --onnx.
"""

import argparse
import random
import statistics
import subprocess
import sys
import time

import chess
import numpy as np

import rukh

BATCH = 256
MEDIAN_COLUMN = 6


def random_boards(count):
    """Positions of random games."""
    chance, boards, board = random.Random(1), [], chess.Board()
    while len(boards) < count:
        moves = list(board.legal_moves)
        if not moves or board.ply() > 120:
            board = chess.Board()
            continue
        board.push(chance.choice(moves))
        if any(board.legal_moves):
            boards.append(board.copy())
    chance.shuffle(boards)
    return boards


def rate_of(work, positions, seconds):
    """The positions per second of calls of `work`, over at least so many seconds."""
    calls, begin = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - begin) < seconds or calls == 0:
        work()
        calls += 1
    return calls * positions / elapsed


def backendbench(arguments):
    """The figure of `rukh backendbench`: the median of its batches."""
    program = [arguments.rukh] if arguments.rukh else [sys.executable, "-m", "rukh"]
    command = [*program, "backendbench", f"--weights={arguments.net}", f"--backend={arguments.backend}",
               f"--backend-opts={arguments.options}", f"--threads={arguments.threads}", f"--start-batch-size={BATCH}",
               f"--max-batch-size={BATCH}", f"--batches={arguments.batches}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    rows = [row.split(",") for row in done.stdout.splitlines()]
    found = [row[MEDIAN_COLUMN] for row in rows if len(row) > MEDIAN_COLUMN and row[0].strip() == str(BATCH)]
    if not found:
        sys.exit(f"backendbench says nothing of batches of {BATCH}:\n{done.stdout}{done.stderr}")
    return float(found[0])


def onnx_session(path, threads):
    """The model in onnxruntime, on a card if its package has one."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(path, options, providers=onnxruntime.get_available_providers())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rukh", help="program (default: that of the package)")
    parser.add_argument("--net", required=True, help="network file")
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--options", default="", help="options of the backend")
    parser.add_argument("--threads", type=int, default=1, help="batches at a time, of the package and of backendbench")
    parser.add_argument("--positions", type=int, default=BATCH, help="positions of a call")
    parser.add_argument("--seconds", type=float, default=3, help="time of a measurement")
    parser.add_argument("--batches", type=int, default=100, help="batches of backendbench")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--onnx", help="the same network as an ONNX model")
    arguments = parser.parse_args()

    network = rukh.Network.open(arguments.net)
    evaluator = rukh.Evaluator(network, arguments.backend, arguments.options, threads=arguments.threads)
    boards = random_boards(arguments.positions)
    packed, planes = rukh.pack(boards), network.planes(boards)
    ways = {
        "boards": lambda: evaluator.evaluate(boards),
        "packed": lambda: evaluator.evaluate(packed),
        "planes": lambda: evaluator.evaluate(planes),
        "dense": lambda: evaluator.evaluate(packed).dense(),
    }
    if arguments.onnx:
        session = onnx_session(arguments.onnx, arguments.threads)
        name = session.get_inputs()[0].name
        ways["onnxruntime"] = lambda: [session.run(None, {name: planes[at : at + BATCH]}) for at in range(0, len(planes), BATCH)]
    for work in ways.values():
        work()
    rates = {"backendbench": [], **{way: [] for way in ways}}
    for _ in range(arguments.rounds):
        rates["backendbench"].append(backendbench(arguments))
        for way, work in ways.items():
            rates[way].append(rate_of(work, len(boards), arguments.seconds))
    # How fast boards alone are read, without an evaluation.
    print(f"{evaluator.name}, {arguments.threads} thread(s), calls of {len(boards)}, {arguments.rounds} rounds; packing "
          f"{rate_of(lambda: rukh.pack(boards), len(boards), 1):.0f} boards/s")
    median, best = statistics.median(rates["backendbench"]), max(rates["backendbench"])
    for way, found in rates.items():
        print(f"{way:13} median {statistics.median(found):9.1f} ({statistics.median(found) / median:6.1%})  best "
              f"{max(found):9.1f} ({max(found) / best:6.1%})  from {min(found):.1f}")


if __name__ == "__main__":
    main()
