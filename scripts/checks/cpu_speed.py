#!/usr/bin/env python3
"""Fails if the processor's products have become slow, whatever the machine is. Needs only Python.

usage: cpu_speed.py RUKH [WEIGHTS]

RUKH must be an optimized build. `rukh profile` measures the ceiling of the processor's arithmetic and the time of each
operation in the same run, so that the share of the ceiling that a product reaches depends little on the processor. Other
processes can only lower it: the best of several runs counts, the limits are less than half of what a quiet machine
reaches, and a machine that has more to do than it has processors fails nothing.
"""
import json
import os
import subprocess
import sys

# The most runs, and the positions in a batch.
RUNS, POSITIONS = 20, 16
# The least share of the compute ceiling, for the network of the repository. A quiet Xeon with AVX-512 reaches 0.84 to 0.93.
LIMITS = {"encoder QKV": 0.4, "encoder output": 0.4, "encoder FFN 1": 0.4, "encoder FFN 2": 0.4}
# The most part of the pass that all other operations may take.
MOST_OTHERS = 0.65


def profile(rukh, weights):
    command = [rukh, "profile", "--json", "--backend=cpu", f"--weights={weights}", f"--batch={POSITIONS}", "--passes=9"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = json.loads(output)["operations"]
    shares = {row["name"]: row["floors"]["compute"] / row["microseconds"] for row in rows if row["name"] in LIMITS}
    others = sum(row["share"] for row in rows if row["name"] not in LIMITS)
    return shares, others


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    weights = sys.argv[2] if len(sys.argv) == 3 else "weights/rukh-128x6.pb.gz"
    best, fewest = dict.fromkeys(LIMITS, 0.0), 1.0
    slow = []
    for run in range(RUNS):
        shares, others = profile(sys.argv[1], weights)
        best = {name: max(best[name], shares.get(name, 0.0)) for name in best}
        fewest = min(fewest, others)
        slow = [f"{name} ({best[name]:.2f} of the ceiling, at least {least})"
                for name, least in LIMITS.items() if best[name] < least]
        slow += [f"all else ({fewest:.2f} of the pass, at most {MOST_OTHERS})"] if fewest > MOST_OTHERS else []
        if not slow:
            break
    found = ", ".join(f"{name} {share:.2f}" for name, share in best.items())
    print(f"shares of the compute ceiling: {found}; all else {fewest:.2f} of the pass; {run + 1} runs")
    if slow and os.getloadavg()[0] > os.cpu_count() + 0.5:
        print(f"skipped: the machine is too busy to tell ({os.getloadavg()[0]:.1f} processes): {', '.join(slow)}")
    elif slow:
        sys.exit("slow: " + ", ".join(slow))


main()
