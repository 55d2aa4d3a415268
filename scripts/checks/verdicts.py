#!/usr/bin/env python3
"""Checks what `rukh profile` says limits each operation, by changing the term that it names.

    scripts/checks/verdicts.py target/release/rukh --weights t82.pb.gz --batch 256
    scripts/checks/verdicts.py target/release/rukh --weights t82.pb.gz --batch 1

Every operation of one batch is measured in fp16 and in fp32. fp32 moves twice as many bytes, and its GEMMs run at
another speed, which the profile measures. Batches of four times as many positions have four times as many operations
and activations; above 128 positions, batches of a quarter are compared instead.

| verdict | what is changed | what must follow |
|---|---|---|
| compute | fp32 | the time grows at least half as much as the speed of GEMMs falls, and more than twice |
| bandwidth | fp32 | the time grows to between 1.5 and 2.6 times |
| launches, latency of a part that does not grow | four times the batch | the time grows to less than 1.6 times |
| latency of a part that grows | fp32 | the time grows to less than 1.5 times |

Attention runs another kernel in fp32, which shows nothing of the one in fp16, so it is left out.

The operations that take most of the time are listed first. The script fails if fewer than `--least` operations with
clear verdicts (a share of at least 0.6) are confirmed, or if a quarter of them is not. It prints also how far the sum
of the operations is from the time of the whole pass. Needs only Python and a card.
"""
import argparse
import json
import subprocess
import sys

CLEAR = 0.6


def profile(arguments, backend, batch):
    words = [arguments.rukh, "profile", "--json", f"--weights={arguments.weights}", f"--batch={batch}",
             f"--backend={backend}", f"--passes={arguments.passes}", *arguments.option]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: {done.stderr.strip()}")
    found = json.loads(done.stdout)
    error = found["sum_of_steps"] / found["microseconds"] - 1
    print(f"# {found['backend']}, batch {batch}: {found['microseconds']:.0f} us, the steps add up to {error:+.1%} of it")
    return {operation["name"]: operation for operation in found["operations"]}, found["ceilings"], abs(error)


def verdict(operation, wide, by_batch, slower):
    """What the change did to an operation, what was expected, and whether they agree."""
    limit = operation["limit"]
    by_format = wide["microseconds"] / operation["microseconds"]
    if limit == "compute":
        return f"fp32 {by_format:.2f} times", f"over {max(2.0, slower / 2):.1f}", by_format > max(2.0, slower / 2)
    if limit == "bandwidth":
        return f"fp32 {by_format:.2f} times", "1.5 to 2.6", 1.5 <= by_format <= 2.6
    if limit == "latency" and by_batch > 2.5:
        return f"fp32 {by_format:.2f} times", "below 1.5", by_format < 1.5
    return f"batch {by_batch:.2f} times", "below 1.6", by_batch < 1.6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rukh", help="the engine")
    parser.add_argument("--weights", required=True, help="the network")
    parser.add_argument("--batch", type=int, default=256, help="positions in a batch")
    parser.add_argument("--passes", type=int, default=15, help="how often each time is measured")
    parser.add_argument("--least", type=int, default=5, help="the confirmed verdicts that are needed")
    parser.add_argument("--option", action="append", default=[], help="a flag of the engine")
    arguments = parser.parse_args()
    half, ceilings, error = profile(arguments, "rocm-fp16", arguments.batch)
    wide, wide_ceilings, _ = profile(arguments, "rocm", arguments.batch)
    is_large = arguments.batch > 128
    other, _, _ = profile(arguments, "rocm-fp16", arguments.batch // 4 if is_large else 4 * arguments.batch)
    slower = ceilings["operations_per_second"] / wide_ceilings["operations_per_second"]
    print(f"# GEMMs are {slower:.1f} times slower in fp32")
    right = wrong = 0
    print(f"{'operation':34} {'us':>8} {'limit':>10} {'share':>5}  {'measured':18} {'expected':11}")
    for operation in sorted(half.values(), key=lambda found: -found["microseconds"]):
        name = operation["name"]
        if name not in wide or name not in other or name.endswith(" attention"):
            continue
        grown = [other[name]["microseconds"], operation["microseconds"]]
        by_batch = grown[1] / grown[0] if is_large else grown[0] / grown[1]
        measured, expected, agrees = verdict(operation, wide[name], by_batch, slower)
        is_clear = operation["limit_share"] >= CLEAR
        right += is_clear and agrees
        wrong += is_clear and not agrees
        answer = "confirmed" if agrees else "NOT CONFIRMED"
        print(f"{name:34} {operation['microseconds']:8.1f} {operation['limit']:>10} {operation['limit_share']:5.2f}  "
              f"{measured:18} {expected:11} {answer if is_clear else '(not clear)'}")  # fmt: skip
    print(f"{right} clear verdicts confirmed, {wrong} not; the steps add up to {error:.1%} of the pass")
    sys.exit(0 if right >= arguments.least and 3 * wrong <= right and error <= 0.03 else 1)


if __name__ == "__main__":
    main()
