#!/usr/bin/env python3
"""Measures whether the engine keeps to its memory limit, and prints a table. Linux only; needs only Python.

usage: cargo build --release && scripts/checks/memory.py [--engine FILE] [--limits 32,64] [--threads 1,8] [--seconds 5]
       [--networks random,<embedded>,FILE] [--mappings]

Each row is one process with a limit, a number of threads and a network. It searches three positions in turn with
`go infinite`: each until the engine says that the tree is full, and some seconds more, or until the longest time is
over. The base of a row is the peak of the same process with `Hash=1` after a few batches: what the program, its threads
and the network take. The process may take the limit, the base and 16 MB. The exit status says whether all rows keep to
that. With --mappings, a line below each row says which memory the process has at the end.
"""
import argparse
import os
import queue
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from process_memory import FULL, megabytes

SLACK_MB = 16.0
POSITIONS = [
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    "r1bq1rk1/pp2bppp/2n1pn2/2pp4/3P1B2/2PBPN2/PP1N1PPP/R2QK2R w KQ - 2 8",
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1",
]
# The visits of the base: full batches on all threads, and less than two megabytes of tree.
FEW_VISITS = 2000
PATIENCE = 120.0


class Engine:
    """A running engine whose lines are read by a thread."""

    def __init__(self, command):
        environment = {**os.environ, "XDG_CONFIG_HOME": "/dev/null/none"}
        self.process = subprocess.Popen(
            command, env=environment, text=True, bufsize=1, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line)

    def send(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def until(self, text, seconds):
        """Waits for a line that contains `text`. Returns whether it came in time."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            try:
                if text in self.lines.get(timeout=left):
                    return True
            except queue.Empty:
                break
        return False

    def search(self, position, go):
        self.send(f"position fen {position}")
        self.send(go)

    def answer(self):
        if not self.until("bestmove", PATIENCE):
            sys.exit("the engine did not answer")

    def peak_mb(self):
        """The most memory that the process has had in RAM so far."""
        return megabytes(self.process.pid, "VmHWM")

    def quit(self):
        self.send("quit")
        self.process.wait(PATIENCE)


def mappings(pid):
    """The megabytes of RAM by kind of mapping."""
    sizes, kind = Counter(), "other"
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        words = line.split()
        if not words[0].endswith(":"):
            name = words[5] if len(words) > 5 else ""
            size = (lambda a, b: int(b, 16) - int(a, 16))(*words[0].split("-"))
            if name == "[heap]" or name == "[stack]":
                kind = name.strip("[]")
            elif name:
                kind = "files"
            # glibc gives each thread's arena a reservation that ends at a multiple of 64 MiB.
            elif int(words[0].split("-")[0], 16) % (64 << 20) == 0:
                kind = "threads' arenas"
            else:
                kind = "large pieces" if size > (128 << 10) else "small pieces"
        elif words[0] == "Rss:":
            sizes[kind] += int(words[1]) * 1024 / 1e6
    return ", ".join(f"{kind} {size:.1f}" for kind, size in sizes.most_common())


def command(arguments, network, threads, limit):
    words = [arguments.engine, f"--threads={threads}", f"--hash={limit}", "--smart-pruning-factor=0"]
    if network in ("random", "trivial"):
        return [*words, f"--backend={network}"]
    return [*words, "--backend=cpu", f"--weights={network}"]


def base_mb(arguments, network, threads):
    engine = Engine(command(arguments, network, threads, 1))
    for position in POSITIONS:
        engine.send("ucinewgame")
        engine.search(position, f"go nodes {FEW_VISITS}")
        engine.answer()
    peak = engine.peak_mb()
    engine.quit()
    return peak


def measure(arguments, network, threads, limit, base):
    engine = Engine(command(arguments, network, threads, limit))
    filled = 0
    for position in POSITIONS:
        engine.search(position, "go infinite")
        if engine.until(FULL, arguments.longest):
            filled += 1
            time.sleep(arguments.seconds)
        engine.send("stop")
        engine.answer()
    peak = engine.peak_mb()
    excess = peak - base - limit
    name = Path(network).name
    mark = "" if excess <= SLACK_MB else "  TOO MUCH"
    print(f"{name:20} {threads:7} {limit:6} {base:8.1f} {peak:8.1f} {excess:8.1f} {filled:6}{mark}", flush=True)
    if arguments.mappings:
        print("    " + mappings(engine.process.pid), flush=True)
    engine.quit()
    return excess <= SLACK_MB


def numbers(text):
    return [int(word) for word in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", default="target/release/rukh")
    parser.add_argument("--limits", type=numbers, default=[32, 64, 128, 200, 600])
    parser.add_argument("--threads", type=numbers, default=[1, 2, 8])
    parser.add_argument("--networks", type=lambda text: text.split(","), default=["random", "<embedded>"])
    parser.add_argument("--seconds", type=float, default=5.0, help="the time that a full tree is searched")
    parser.add_argument("--longest", type=float, default=60.0, help="the longest time to fill the tree, in seconds")
    parser.add_argument("--mappings", action="store_true")
    arguments = parser.parse_args()
    print("network              threads  limit     base     peak   excess   full   (MB)")
    is_kept = True
    for network in arguments.networks:
        for threads in arguments.threads:
            base = base_mb(arguments, network, threads)
            for limit in arguments.limits:
                is_kept &= measure(arguments, network, threads, limit, base)
    sys.exit(not is_kept)


if __name__ == "__main__":
    main()
