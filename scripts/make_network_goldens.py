#!/usr/bin/env python3
"""Compact lc0's own network outputs into the goldens of tests/data.

    scripts/make_network_goldens.py NETS GOLDENS

NETS holds the networks (micro-*.pb.gz), GOLDENS the JSON files that a program linked to lc0 wrote: for each
position its input planes, raw policy logits, priors, q, d and m. Every figure is lc0's (the commit is in each
file, its fp32 CPU backend computed them); this program only drops what the tests do not read and compresses the
rest. It also copies the networks that the tests need. Goldens that differ from another network's by one header
field (input formats 2 to 133) have no network of their own in tests/data: the tests write that field.

The result is deterministic: same input, same bytes.
"""
import gzip
import json
import shutil
import sys
from pathlib import Path

# Together they cover every format, encoding and head.
NETWORKS = [
    "micro-attn",
    "micro-bf16",
    "micro-classical-wdl",
    "micro-f16",
    "micro-multihead",
    "micro-relu-nogate",
    "micro-se-attnpol",
    "micro-se-conv",
    "micro-se-old",
    "micro-smolgen",
    "micro-smolgen-old",
]
# Golden sets of those networks with other heads, and of micro-attn with another input format.
VARIANTS = [
    "micro-in132",
    "micro-in133",
    "micro-in2",
    "micro-in3",
    "micro-in4",
    "micro-in5",
    "micro-multihead.policy-opponent",
    "micro-multihead.policy-optimistic",
    "micro-multihead.policy-soft",
    "micro-multihead.value-q",
    "micro-multihead.value-st",
]
SET_FIELDS = ["network", "backend_opts", "lc0", "input_format", "has_wdl", "has_mlh", "history_fill"]
POSITION_FIELDS = ["id", "fen", "frc", "moves", "policy_raw", "q", "d", "m"]


def compact(golden):
    """The fields that the tests read, in a fixed order."""
    positions = [{field: position[field] for field in POSITION_FIELDS if field in position} for position in golden["positions"]]
    return {field: golden[field] for field in SET_FIELDS} | {"positions": positions}


def write_gzip(path, data):
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as file:
        file.write(data)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    nets, goldens = map(Path, sys.argv[1:])
    data = Path(__file__).resolve().parent.parent / "tests" / "data"
    data.mkdir(parents=True, exist_ok=True)
    for name in NETWORKS:
        target = data / f"{name}.pb.gz"
        shutil.copyfile(nets / target.name, target)
    for name in NETWORKS + VARIANTS:
        golden = json.loads((goldens / f"{name}.json").read_text())
        write_gzip(data / f"{name}.json.gz", json.dumps(compact(golden), separators=(",", ":")).encode())
    total = sum(file.stat().st_size for file in data.glob("micro-*"))
    print(f"{len(NETWORKS)} networks, {len(NETWORKS + VARIANTS)} golden sets, {total / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
