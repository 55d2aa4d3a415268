#!/usr/bin/env python3
"""Compares the speed of the Python package with that of `rukh backendbench`, in turn.

    scripts/matches/python_speed.py --net t1.pb.gz --net maia-1900.pb.gz --backend cuda-auto
    scripts/matches/python_speed.py --net t1.pb.gz --backend cuda-auto --calls 4096,65536 --threads 0,3,8
    scripts/matches/python_speed.py --net maia-1900.pb.gz --backend cpu --bench-threads 2 --calls 256 \\
        --ways packed,boards [--onnx maia.onnx] [--lczerolens maia.onnx]

Positions of random games, each with the moves before it, are given as boards of python-chess, packed, and as planes;
`dense` also makes the dense priors. Each row has a way, a value of `threads=` (own: the package's choice) and the
positions of a call, of which there are at most 4,096 for planes, 16,384 for `dense`, and 65,536 for boards. On a card
the package makes batches of 256, on a processor of at most 64; backendbench makes batches of 256 from the position with
the median number of pieces. onnxruntime, if a model is given, evaluates planes that are there already. lczerolens, if a
model is given, evaluates boards with torch on the processor, and its priors and win, draw and loss are compared with
the package's. Each round measures backendbench and then every row once; after the last round backendbench is measured
once more. The figures are the medians and the best of the rounds in positions per second, and their ratios to
backendbench. Needs numpy and the packages rukh and chess, and onnxruntime or lczerolens for their options; the unzipped
wheel on PYTHONPATH is enough. With two networks it takes less than two minutes if the device is ready within seconds.
"""

import argparse
import os
import random
import statistics
import subprocess
import sys
import time

import chess
import numpy as np

import rukh

BATCH = 256
#: The column of backendbench's mean: a call, too, waits for its slow batches.
MEAN_COLUMN = 1
#: The most positions of a call with planes, which take 28 KB each, with dense priors, which take 7 KB, and with boards.
MOST_PLANES, MOST_DENSE, MOST_BOARDS = 4096, 16384, 65536


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


def typical_fen(boards):
    """The FEN of the position with the median number of pieces. On a processor the first layer's time grows with them."""
    return sorted(boards, key=lambda board: len(board.piece_map()))[len(boards) // 2].fen()


def rate_of(work, positions, seconds):
    """The positions per second of calls of `work`, over at least so many seconds."""
    calls, begin = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - begin) < seconds or calls == 0:
        work()
        calls += 1
    return calls * positions / elapsed


def backendbench(arguments, net):
    """The figure of `rukh backendbench`: the mean of its batches."""
    program = [arguments.rukh] if arguments.rukh else [sys.executable, "-m", "rukh"]
    command = [*program, "backendbench", f"--weights={net}", f"--backend={arguments.backend}",
               f"--backend-opts={arguments.options}", f"--threads={arguments.bench_threads}",
               f"--start-batch-size={BATCH}", f"--max-batch-size={BATCH}", f"--batches={arguments.batches}",
               f"--fen={arguments.fen}"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    rows = [row.split(",") for row in done.stdout.splitlines()]
    found = [row[MEAN_COLUMN] for row in rows if len(row) > MEAN_COLUMN and row[0].strip() == str(BATCH)]
    if not found:
        sys.exit(f"backendbench says nothing of batches of {BATCH}:\n{done.stdout}{done.stderr}")
    return float(found[0])


def onnx_session(path, threads):
    """The model in onnxruntime, on a card if its package has one."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(path, options, providers=onnxruntime.get_available_providers())


def onnx_work(session, planes):
    """Evaluates the planes with onnxruntime, in batches."""
    name = session.get_inputs()[0].name
    return lambda: [session.run(None, {name: planes[at : at + BATCH]}) for at in range(0, len(planes), BATCH)]


def lczerolens_evaluate(path, threads):
    """A function that evaluates boards with the model in lczerolens, and returns its batches."""
    import lczerolens
    import torch

    torch.set_num_threads(threads)
    evaluator = lczerolens.LczeroEvaluator.from_path(path)

    def evaluate(boards):
        # Without it torch remembers what gradients would need.
        with torch.inference_mode():
            return [evaluator.evaluate(boards[at : at + BATCH]) for at in range(0, len(boards), BATCH)]

    return evaluate


def differences(found, batches):
    """The largest differences of priors, and of win, draw and loss (or of values), from what lczerolens found."""
    pairs = [(found.dense(), ("evaluation", "policy")), (found.wdl, ("network", "wdl"))]
    if ("network", "wdl") not in batches[0].tensors.keys(include_nested=True):
        pairs[1] = (found.q[:, None], ("evaluation", "value"))
    return [abs(ours - np.concatenate([batch.tensors[key].numpy() for batch in batches])).max() for ours, key in pairs]


class Rows:
    """The measurements of a network: the rates of each row, by (way, threads, positions of a call)."""

    def __init__(self, arguments, net, boards):
        self.net, self.work, self.differences = net, {}, None
        network = rukh.Network.open(net)
        for threads in arguments.threads:
            evaluator = rukh.Evaluator(network, arguments.backend, arguments.options, threads=threads or None)
            for count in arguments.calls:
                packed = np.resize(rukh.pack(boards[count]), (count, 8))
                planes = network.planes(packed[:MOST_PLANES]) if "planes" in arguments.ways else None
                self.add(arguments.ways, evaluator, threads, boards[count], packed, planes)
        if arguments.onnx:
            planes = network.planes(boards[arguments.calls[0]][:MOST_PLANES])
            work = onnx_work(onnx_session(arguments.onnx, arguments.bench_threads), planes)
            self.work["onnxruntime", arguments.bench_threads, len(planes)] = work
        if arguments.lczerolens:
            some, evaluate = boards[arguments.calls[0]], lczerolens_evaluate(arguments.lczerolens, arguments.bench_threads)
            self.work["lczerolens", arguments.bench_threads, len(some)] = lambda: evaluate(some)
            self.differences = differences(evaluator.evaluate(some), evaluate(some))
        self.name = evaluator.name
        self.rates = {row: [] for row in self.work}
        self.benches = []

    def add(self, wanted, evaluator, threads, boards, packed, planes):
        """Adds the ways to evaluate these positions."""
        ways = {
            "boards": (boards, lambda: evaluator.evaluate(boards)),
            "packed": (packed, lambda: evaluator.evaluate(packed)),
            "dense": (packed[:MOST_DENSE], lambda: evaluator.evaluate(packed[:MOST_DENSE]).dense()),
            "planes": (planes, lambda: evaluator.evaluate(planes)),
        }
        for way in wanted:
            positions, work = ways[way]
            work()
            self.work[way, threads, len(positions)] = work

    def measure(self, arguments):
        """A round."""
        self.benches.append(backendbench(arguments, self.net))
        for row, work in self.work.items():
            self.rates[row].append(rate_of(work, row[2], arguments.seconds))

    def print(self):
        """Prints the medians, the best, and their ratios to backendbench."""
        print(f"\n{os.path.basename(self.net)} on {self.name}\n{'':12} threads    call    median           best")
        median, best = statistics.median(self.benches), max(self.benches)
        print(f"{'backendbench':12} {'':7} {BATCH:7} {median:9.0f}          {best:9.0f}")
        for (way, threads, count), rates in self.rates.items():
            middle = statistics.median(rates)
            print(f"{way:12} {threads or 'own':>7} {count:7} {middle:9.0f} ({middle / median:6.1%}) {max(rates):9.0f} "
                  f"({max(rates) / best:6.1%})")
        if self.differences:
            print("lczerolens: priors differ by {:.1e} at most, values by {:.1e}".format(*self.differences))


def numbers(text):
    """The numbers of a list with commas."""
    return [int(number) for number in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rukh", help="program of backendbench (default: that of the package)")
    parser.add_argument("--net", required=True, action="append", help="network file; may be given several times")
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--options", default="", help="options of the backend")
    parser.add_argument("--bench-threads", type=int, default=3, help="batches at a time of backendbench")
    parser.add_argument("--threads", type=numbers, default=[0], help="numbers of threads of the package; 0: its choice")
    parser.add_argument("--calls", type=numbers, default=[4096, 65536], help="positions of a call")
    parser.add_argument("--ways", type=lambda text: text.split(","), default=["boards", "packed", "dense", "planes"])
    parser.add_argument("--seconds", type=float, default=0.6, help="time of a measurement")
    parser.add_argument("--batches", type=int, default=100, help="batches of backendbench")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--onnx", help="the network as an ONNX model for onnxruntime, with one --net")
    parser.add_argument("--lczerolens", help="likewise, for lczerolens")
    arguments = parser.parse_args()

    # Each call has whole games: the positions of a game share boards, which are read once.
    boards = {count: random_boards(min(count, MOST_BOARDS)) for count in arguments.calls}
    arguments.fen = typical_fen(boards[arguments.calls[0]])
    all_rows = [Rows(arguments, net, boards) for net in arguments.net]
    for _ in range(arguments.rounds):
        for rows in all_rows:
            rows.measure(arguments)
    for rows in all_rows:
        rows.benches.append(backendbench(arguments, rows.net))
    some = boards[arguments.calls[0]]
    alone = [board.copy(stack=False) for board in some]
    with_past, without = (rate_of(lambda: rukh.pack(part), len(part), 1) for part in (some, alone))
    print(f"{os.cpu_count()} cores, {arguments.rounds} rounds; boards are read at {with_past:.0f}/s, without moves "
          f"before them at {without:.0f}/s")
    for rows in all_rows:
        rows.print()


if __name__ == "__main__":
    main()
