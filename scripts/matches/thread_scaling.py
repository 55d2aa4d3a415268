#!/usr/bin/env python3
"""Measures how much faster a search is with more threads, beside as many searches with one thread at the same time.

    scripts/matches/thread_scaling.py 'target/release/rukh --backend=random' --counts 1,2,4,8,16

A run searches `--nodes` nodes for each thread in three positions. Two things besides other threads change with their
number. The tree becomes larger, and a larger tree is slower to search: one thread also searches as many nodes as all
threads together. And the machine may be slower when all of it works: as many processes with one thread each share nothing
else than the machine. Each figure is the median of `--rounds` runs in turn. Linux only: with `--pin`, process n runs on
processor n.
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
    engine.search(POSITIONS[0], "nodes 1")
    return engine


def together(engines, nodes):
    """Searches all positions with all engines at the same time; returns their nodes per second together."""
    total = 0.0
    for position in POSITIONS:
        found = [None] * len(engines)
        barrier = threading.Barrier(len(engines))

        def search(index, engine, position=position, found=found, barrier=barrier):
            barrier.wait()
            found[index] = engine.search(position, f"nodes {nodes}")

        tasks = [threading.Thread(target=search, args=pair) for pair in enumerate(engines)]
        for task in tasks:
            task.start()
        for task in tasks:
            task.join()
        total += sum(count / seconds for count, seconds in found)
    return total / len(POSITIONS)


def measure(words, threads, processes, nodes, pin):
    """Nodes per second of so many processes with so many threads, each of which searches so many nodes."""
    engines = [start(words, threads, index if pin else None) for index in range(processes)]
    time.sleep(0.2)
    speed = together(engines, nodes)
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
    words, nodes = shlex.split(arguments.command), arguments.nodes
    # A case is a number of threads, of processes, and of nodes for each process.
    cases = list(dict.fromkeys(
        case for count in counts
        for case in [(count, 1, nodes * count), (1, 1, nodes * count), (1, count, nodes)]))
    figures = {case: [] for case in cases}
    for _ in range(arguments.rounds):
        for threads, processes, each in cases:
            pin = arguments.pin and threads == 1
            figures[threads, processes, each].append(measure(words, threads, processes, each, pin))
    medians = {case: statistics.median(values) for case, values in figures.items()}
    one = medians[1, 1, nodes]
    print("| threads | nodes/s | of one | one thread, as many nodes | of this | as many processes | of one |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    for count in counts:
        shared, alone, apart = medians[count, 1, nodes * count], medians[1, 1, nodes * count], medians[1, count, nodes]
        print(f"| {count} | {shared:,.0f} | {shared / one:.2f} | {alone:,.0f} | {shared / alone:.2f} "
              f"| {apart:,.0f} | {apart / one:.2f} |")


if __name__ == "__main__":
    main()
