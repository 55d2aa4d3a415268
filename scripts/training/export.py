#!/usr/bin/env python3
"""Writes a checkpoint as a network file (.pb.gz), or a network with random weights, to measure its size and speed.

Needs PyTorch and numpy.

scripts/training/export.py --checkpoint small.pt small.pb.gz
scripts/training/export.py --random '{"width": 192, "layers": 8, "ffn": 384, "policy": 192}' random.pb.gz
"""

import argparse
import json

import torch

import lc0_file
from model import Network, Shape


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--checkpoint", help="file that train.py wrote")
    source.add_argument("--random", help="fields of model.Shape as JSON", type=json.loads)
    parser.add_argument("network", help="network file to write")
    arguments = parser.parse_args()
    if arguments.checkpoint:
        state = torch.load(arguments.checkpoint, map_location="cpu", weights_only=True)
        network, steps = Network(Shape(**state["shape"])), state["step"]
        network.load_state_dict(state["average"])
        origin = "Rukh, scripts/training"
    else:
        torch.manual_seed(1)
        network, steps, origin = Network(Shape(**arguments.random)), 0, "random weights"
    description = f"{origin}; {json.dumps(network.shape.as_dict())}"
    size = lc0_file.write(arguments.network, network, training_steps=steps, description=description)
    print(f"{arguments.network}: {network.parameter_count()} parameters, {size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
