#!/usr/bin/env python3
"""Watches one long search whose tree is full: its speed, its memory, and its best line.

    scripts/checks/long_search.py --megabytes 1000 --minutes 60 target/release/rukh --backend=random --threads=2

The script asks for `go infinite` and prints a line for each tenth of the time: nodes per second of processor time (which
other programs on the machine hardly change), resident memory, and the principal variation. It fails if, once the tree
is full, a tenth is slower than 80 % of the first full one, if memory grows by more than 2 % of the limit, or if the
principal variation becomes shorter than three moves. Needs Linux and Python's standard library only.
"""

import argparse
import os
import re
import subprocess
import sys
import threading
import time

from process_memory import FULL, megabytes

PARTS = 10
LEAST_PV = 3


class Search:
    """An engine under `go infinite`, and the last line of information that it sent."""

    def __init__(self, words, megabytes):
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.nodes, self.pv, self.is_full = 0, [], False
        self.process.stdin.write(f"setoption name RamLimitMb value {megabytes}\nsetoption name SmartPruningFactor value 0\n"
                                 "position startpos\ngo infinite\n")
        self.process.stdin.flush()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.is_full |= FULL in line
            if found := re.search(r" nodes (\d+) .* pv (.*)", line):
                self.nodes, self.pv = int(found.group(1)), found.group(2).split()

    def processor_seconds(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_megabytes(self):
        return megabytes(self.process.pid, "VmRSS")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("engine", nargs=argparse.REMAINDER, help="the engine's command")
    arguments = parser.parse_args()
    search = Search(arguments.engine, arguments.megabytes)
    full = []
    failed = False
    for part in range(PARTS):
        was_full = search.is_full
        nodes, seconds = search.nodes, search.processor_seconds()
        time.sleep(60 * arguments.minutes / PARTS)
        speed = (search.nodes - nodes) / (search.processor_seconds() - seconds)
        memory = search.resident_megabytes()
        state = "full" if was_full else "filling"
        print(f"{part + 1:3} of {PARTS}, {state}: {search.nodes:,} nodes, {speed:,.0f} nodes/s of processor time, "
              f"{memory:,.0f} MB, pv {' '.join(search.pv[:8])}", flush=True)
        if was_full:
            full.append((speed, memory))
            failed |= speed < 0.8 * full[0][0] or memory > full[0][1] + 0.02 * arguments.megabytes
            failed |= len(search.pv) < LEAST_PV
    search.process.stdin.write("quit\n")
    search.process.stdin.flush()
    search.process.wait()
    if not full:
        sys.exit("the tree was never full")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
