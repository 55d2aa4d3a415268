#!/usr/bin/env python3
"""Counts the instructions of the innermost loops of matrix products in a program for 64-bit ARM.

usage: scripts/checks/arm64_loops.py PROGRAM

For each instruction that multiplies, the table has the loop with the most of them: how many multiplications and
instructions it has, how many pairs of numbers an instruction of the loop multiplies on average, and how many
instructions access the stack. The script fails if fewer than half of a loop are multiplications, because the loop then
waits for other instructions, or if it accesses the stack, because then the sums did not fit the registers.
"""

import re
import subprocess
import sys

# The instructions that multiply, each with the number of pairs of numbers that it multiplies.
MULTIPLICATIONS = {
    "fmla": ("NEON, fp32", re.compile(r"\bfmla\s+v\d+\.4s, v\d+\.4s, v\d+\.s\["), 4),
    "sdot": ("DotProd, int8", re.compile(r"\bsdot\s+v\d+\.4s, v\d+\.16b, v\d+\.4b\["), 16),
    "smmla": ("I8MM, int8", re.compile(r"\bsmmla\b"), 32),
    "bfmmla": ("BF16, bf16", re.compile(r"\bbfmmla\b"), 16),
}
INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\s+(\S.*)$")
BRANCH = re.compile(r"^(?:b|b\.\w+|cbn?z|tbn?z)\s+(?:.*,\s*)?([0-9a-f]+)(?:\s|$)")


def loops(program):
    """Yields the instructions of each loop that has no branch except the last instruction."""
    command = ["aarch64-linux-gnu-objdump", "--disassemble", "--no-show-raw-insn", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        # The instructions since the last branch.
        straight = []
        for line in process.stdout:
            found = INSTRUCTION.match(line)
            if not found:
                straight = []
                continue
            address, text = int(found[1], 16), found[2].replace("\t", " ")
            straight.append((address, text))
            branch = BRANCH.match(text)
            if branch:
                target = int(branch[1], 16)
                if straight[0][0] <= target <= address:
                    yield [text for at, text in straight if at >= target]
                straight = []
    if process.returncode != 0:
        sys.exit(f"{command[0]} ended with status {process.returncode}")


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__.strip())
    best = {}
    for loop in loops(sys.argv[1]):
        for name, (_, pattern, _) in MULTIPLICATIONS.items():
            count = sum(bool(pattern.search(text)) for text in loop)
            # Of loops with equally many multiplications, the longest is the slowest.
            if count > 0 and (count, len(loop)) > best.get(name, (0, 0, None))[:2]:
                best[name] = (count, len(loop), loop)
    failed = False
    print("| | multiplications | instructions | pairs an instruction | on the stack |")
    print("|---|---:|---:|---:|---:|")
    for name, (label, _, pairs) in MULTIPLICATIONS.items():
        if name not in best:
            print(f"| {label} (`{name}`) | no loop | | | |")
            failed = True
            continue
        count, total, loop = best[name]
        stack = sum("[sp" in text for text in loop)
        print(f"| {label} (`{name}`) | {count} | {total} | {count * pairs / total:.1f} | {stack} |")
        failed |= 2 * count < total or stack > 0
    sys.exit(failed)


if __name__ == "__main__":
    main()
