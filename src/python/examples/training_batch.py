#!/usr/bin/env python3
"""Makes a batch of lc0's training data (V6 chunks), and prints a network's losses on it.

    rukh selfplay --training --training-input-format=2 --games=100 --training-dir=data
    examples/training_batch.py data --batch 1024

`batch_of` gives what a trainer needs: planes, the policy's target, and win, draw and loss. Records must have the input
format of the network; Rukh's own has 2. Needs only numpy.
"""

import argparse
import gzip
import random
from pathlib import Path

import numpy as np

import rukh

#: lc0's V6TrainingData.
RECORD = np.dtype(
    [
        ("version", "<u4"), ("input_format", "<u4"), ("probabilities", "<f4", 1858), ("planes", "u1", (104, 8)),
        ("castling", "u1", 4), ("side_or_en_passant", "u1"), ("rule50", "u1"), ("invariance", "u1"), ("unused", "u1"),
        ("root_q", "<f4"), ("best_q", "<f4"), ("root_d", "<f4"), ("best_d", "<f4"), ("root_m", "<f4"), ("best_m", "<f4"),
        ("plies_left", "<f4"), ("result_q", "<f4"), ("result_d", "<f4"), ("played_q", "<f4"), ("played_d", "<f4"),
        ("played_m", "<f4"), ("orig_q", "<f4"), ("orig_d", "<f4"), ("orig_m", "<f4"), ("visits", "<u4"),
        ("played_index", "<u2"), ("best_index", "<u2"), ("policy_kld", "<f4"), ("reserved", "<u4"),
    ]
)


def read(folder, count, seed):
    """So many records of the chunks of a folder, in random order."""
    paths = sorted(Path(folder).rglob("*.gz"))
    random.Random(seed).shuffle(paths)
    records = []
    for path in paths:
        records.extend(np.frombuffer(gzip.decompress(path.read_bytes()), RECORD))
        # Neighbours of a game are alike, so the batch is chosen from more.
        if len(records) >= 4 * count:
            break
    return np.array(random.Random(seed).sample(records, min(count, len(records))), RECORD)


def planes_of(records):
    """The input planes of records, float32 (N, 112, 8, 8)."""
    planes = np.zeros((len(records), 112, 8, 8), np.float32)
    # The highest bit of a byte is the file a.
    planes[:, :104] = np.unpackbits(records["planes"], axis=2).reshape(-1, 104, 8, 8)
    classical = records["input_format"] == 1
    planes[classical, 104:108] = records["castling"][classical][:, :, None, None]
    # Other formats have the files of our rooks on our rank, and those of their rooks on theirs.
    files = np.unpackbits(records["castling"][~classical][:, :, None], axis=2, bitorder="little")
    planes[~classical, 104, 0], planes[~classical, 105, 0] = files[:, 0], files[:, 1]
    planes[~classical, 104, 7], planes[~classical, 105, 7] = files[:, 2], files[:, 3]
    canonical = records["input_format"] > 2
    planes[~canonical, 108] = records["side_or_en_passant"][~canonical][:, None, None]
    en_passant = records["side_or_en_passant"][canonical][:, None]
    planes[canonical, 108, 7] = np.unpackbits(en_passant, axis=1, bitorder="little")
    scale = np.where(records["input_format"] <= 3, 1, 100)
    planes[:, 109] = (records["rule50"] / scale)[:, None, None]
    planes[:, 111] = 1
    return planes


def batch_of(records):
    """Planes (N, 112, 8, 8), the policy's target (N, 1858), and the searches' win, draw and loss (N, 3)."""
    q, d = records["best_q"], records["best_d"]
    # Moves that are not legal have the probability -1.
    policy = np.maximum(records["probabilities"], 0)
    return planes_of(records), policy, np.stack([(1 + q - d) / 2, d, (1 - q - d) / 2], axis=1)


def cross_entropy(target, probabilities):
    """The mean of the cross-entropies of rows."""
    return float(-(target * np.log(np.maximum(probabilities, 1e-12))).sum(1).mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="folder with chunks (.gz)")
    parser.add_argument("--network", help="network file (default: Rukh's own)")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--batch", type=int, default=256, help="records")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()

    network = rukh.Network.open(arguments.network) if arguments.network else rukh.Network.embedded()
    records = read(arguments.folder, arguments.batch, arguments.seed)
    if len(records) == 0 or (records["version"] != 6).any():
        parser.error(f"{arguments.folder} has no chunks of version 6")
    if (records["input_format"] != network.input_format).any():
        parser.error(f"the records do not have the input format {network.input_format} of the network")
    planes, policy, wdl = batch_of(records)
    found = rukh.Evaluator(network, arguments.backend).evaluate(planes)
    legal = records["probabilities"] >= 0
    print(f"{len(records)} records; legal moves as the chunks say: {((found.dense() > 0) <= legal).all(1).mean():.1%}")
    print(f"cross-entropy of the policy {cross_entropy(policy, found.dense()):.4f}, of the value {cross_entropy(wdl, found.wdl):.4f}")


if __name__ == "__main__":
    main()
