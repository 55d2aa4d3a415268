#!/usr/bin/env python3
"""Measures how much faster a search is with more threads, beside as many searches with one thread at the same time.

    scripts/matches/thread_scaling.py 'target/release/rukh --backend=random' --counts 1,2,4,8,16

Processes with one thread share nothing but the machine: hardware threads of one core, clock, caches and memory. So their
speed together, divided by that of one, is what the machine gives, and what a search with as many threads lacks to it is
the cost of sharing a tree. Each figure is the median of `--rounds` runs in turn; a run searches `--nodes` nodes for each
thread of three positions. Linux only: with `--pin`, process n runs on processor n.
"""

import argparse
import os
import shlex
import statistics
import threading
import time

from compare_search import POSITIONS, Engine


def start(words, threads, processor=None):
    """Starts an engine that has searched once, so that its memory is there."""
    words = ["taskset", "-c", str(processor), *words] if processor is not None else words
    engine = Engine(os.environ, words, [f"Threads={threads}", "SmartPruningFactor=0", "MinibatchSize=256"])
    engine.search(POSITIONS[0], 1)
    return engine


def together(engines, nodes):
    """Searches all positions with all engines at the same time; returns their nodes per second together."""
    total = 0.0
    for position in POSITIONS:
        found = [None] * len(engines)
        barrier = threading.Barrier(len(engines))

        def search(index, engine, position=position, found=found, barrier=barrier):
            barrier.wait()
            found[index] = engine.search(position, nodes)

        tasks = [threading.Thread(target=search, args=pair) for pair in enumerate(engines)]
        for task in tasks:
            task.start()
        for task in tasks:
            task.join()
        total += sum(count / seconds for count, seconds in found)
    return total / len(POSITIONS)


def measure(words, threads, processes, nodes, pin):
    """Nodes per second of so many processes with so many threads each."""
    engines = [start(words, threads, index if pin else None) for index in range(processes)]
    time.sleep(0.2)
    speed = together(engines, nodes * threads)
    for engine in engines:
        engine.quit()
    return speed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", help="the engine and its flags")
    parser.add_argument("--counts", default="1,2,4,8,16", help="numbers of threads, separated by commas; the first is 1")
    parser.add_argument("--nodes", type=int, default=200_000, help="nodes of a search for each thread")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each")
    parser.add_argument("--pin", action="store_true", help="run process n on processor n")
    arguments = parser.parse_args()
    counts = [int(count) for count in arguments.counts.split(",")]
    words = shlex.split(arguments.command)
    cases = [(count, 1) for count in counts] + [(1, count) for count in counts if count > 1]
    figures = {case: [] for case in cases}
    for _ in range(arguments.rounds):
        for threads, processes in cases:
            figures[threads, processes].append(measure(words, threads, processes, arguments.nodes, arguments.pin and threads == 1))
    medians = {case: statistics.median(values) for case, values in figures.items()}
    one = medians[1, 1]
    print("| threads | nodes/s | of one | as many processes, nodes/s | of one | share |")
    print("|---:|---:|---:|---:|---:|---:|")
    for count in counts:
        shared, apart = medians[count, 1], medians[1, count]
        print(f"| {count} | {shared:,.0f} | {shared / one:.2f} | {apart:,.0f} | {apart / one:.2f} | {shared / apart:.0%} |")


if __name__ == "__main__":
    main()
