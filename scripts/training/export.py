#!/usr/bin/env python3
"""Writes a checkpoint as a network file (.pb.gz), or a network for measurements: one with random weights, or one that
gives the outputs of another and is several times as wide (`widen.py`).

Needs PyTorch and numpy.

scripts/training/export.py --checkpoint small.pt small.pb.gz
scripts/training/export.py --random '{"width": 192, "layers": 8, "ffn": 384, "policy": 192}' random.pb.gz
scripts/training/export.py --widen weights/rukh-128x6.pb.gz --factor 8 wide.pb.gz
"""

import argparse
import json
import os

import torch

import lc0_file
from model import Network, Shape
from widen import widen


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--checkpoint", help="file that train.py wrote")
    source.add_argument("--random", help="fields of model.Shape as JSON", type=json.loads)
    source.add_argument("--widen", help="network file that export.py or train.py wrote")
    parser.add_argument("--factor", type=int, help="with --widen: how many times as wide")
    parser.add_argument("network", help="network file to write")
    arguments = parser.parse_args()
    if arguments.widen and (arguments.factor or 0) < 1:
        parser.error("--widen needs a --factor of at least 1")
    if arguments.factor is not None and not arguments.widen:
        parser.error("--factor belongs to --widen")
    if arguments.checkpoint:
        state = torch.load(arguments.checkpoint, map_location="cpu", weights_only=True)
        network, steps = Network(Shape(**state["shape"])), state["step"]
        network.load_state_dict(state["average"])
        origin = "Rukh, scripts/training"
    elif arguments.widen:
        network, steps = widen(lc0_file.read(arguments.widen), arguments.factor), 0
        origin = f"{os.path.basename(arguments.widen)}, {arguments.factor} times as wide"
    else:
        torch.manual_seed(1)
        network, steps, origin = Network(Shape(**arguments.random)), 0, "random weights"
    description = f"{origin}; {json.dumps(network.shape.as_dict())}"
    size = lc0_file.write(arguments.network, network, training_steps=steps, description=description)
    print(f"{arguments.network}: {network.parameter_count()} parameters, {size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
