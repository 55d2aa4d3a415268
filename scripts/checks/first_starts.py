#!/usr/bin/env python3
"""Counts how often `cpu-auto` chooses each number format in first starts on a busy machine.

    scripts/checks/first_starts.py --rukh target/release/rukh --starts 16 --busy 16

Every start has an empty cache folder, while `--busy` processes keep the machine busy. Afterwards the speed of each format
is measured without them. If a start chose a format that is slower than a more accurate one, the exit code is 1.
"""

import argparse
import collections
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time

# From the most accurate to the least.
FORMATS = {"fp32": "cpu", "bf16": "cpu-bf16", "int8": "cpu-int8"}


def spin():
    while True:
        pass


def first_start(rukh, network):
    """The format that a start with an empty cache folder chooses, and its seconds to `readyok`."""
    with tempfile.TemporaryDirectory() as cache:
        begin = time.monotonic()
        command = [rukh, "--backend=cpu-auto", f"--weights={network}"]
        commands = "debug on\nisready\nquit\n"
        environment = {**os.environ, "XDG_CACHE_HOME": cache}
        done = subprocess.run(command, input=commands, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        found = re.search(r"cpu-auto uses (?:cpu-)?(\w+)", done.stdout)
        return {"cpu": "fp32"}.get(found[1], found[1]), time.monotonic() - begin


def speed(rukh, network, backend):
    """Evaluations per second at a batch of 64; the best of three."""
    flags = ["--batches=10", "--start-batch-size=64", "--max-batch-size=64", "--json"]
    command = [rukh, "backendbench", "--threads=1", f"--backend={backend}", f"--weights={network}", *flags]
    runs = [json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout) for _ in range(3)]
    return max(run["sizes"][0]["max_nps"] for run in runs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rukh", required=True)
    parser.add_argument("--network", default="<embedded>")
    parser.add_argument("--starts", type=int, default=16)
    parser.add_argument("--busy", type=int, default=os.cpu_count(), help="processes beside the starts")
    arguments = parser.parse_args()
    others = [multiprocessing.Process(target=spin, daemon=True) for _ in range(arguments.busy)]
    for other in others:
        other.start()
    starts = [first_start(arguments.rukh, arguments.network) for _ in range(arguments.starts)]
    for other in others:
        other.kill()
        other.join()
    speeds = {name: speed(arguments.rukh, arguments.network, backend) for name, backend in FORMATS.items()}
    counts = collections.Counter(name for name, _ in starts)
    seconds = sorted(seconds for _, seconds in starts)
    print(f"chosen: {dict(counts)}; seconds to readyok: {seconds[0]:.1f} to {seconds[-1]:.1f}")
    print("evaluations/s: " + ", ".join(f"{name} {value:.0f}" for name, value in speeds.items()))
    order = list(FORMATS)
    bad = [name for name in counts if any(speeds[better] > speeds[name] for better in order[: order.index(name)])]
    if bad:
        sys.exit(f"chosen although a more accurate format is faster: {', '.join(bad)}")


if __name__ == "__main__":
    main()
