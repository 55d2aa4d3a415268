"""Helpers of the scripts that compare engines: parsing of NAME=COMMAND, concurrent work, and the output of figures."""

import asyncio
import itertools
import os
import shlex
import statistics
import time


def parse_engines(arguments):
    """Parses arguments `NAME=COMMAND`, whose command may begin with variables: {name: (environment, words)}."""
    engines = {}
    for argument in arguments:
        name, _, command = argument.partition("=")
        words = shlex.split(command)
        variables = list(itertools.takewhile(lambda word: "=" in word, words))
        environment = os.environ | dict(word.split("=", 1) for word in variables)
        engines[name] = (environment, words[len(variables):])
    return engines


def add_sharing(parser):
    """Adds the flags that `share_out` reads."""
    parser.add_argument("--concurrency", type=int, default=1, metavar="N", help="positions to search at a time")
    parser.add_argument("--seconds", type=float, default=0, metavar="S", help="start no new position after this time")


async def share_out(positions, arguments, work):
    """Runs `--concurrency` tasks `work(positions)` on one iterator, which ends after `--seconds`."""
    end = time.monotonic() + arguments.seconds if arguments.seconds else float("inf")
    left = itertools.takewhile(lambda _: time.monotonic() < end, positions)
    await asyncio.gather(*(work(left) for _ in range(arguments.concurrency)))


def run_until_interrupted(main):
    """Runs `main`; Ctrl-C ends it without a traceback, after its `finally` has printed the results so far."""
    try:
        asyncio.run(main)
    except KeyboardInterrupt:
        pass


def measure_in_turn(engines, rounds, measure):
    """Calls `measure(environment, words)` for each engine in turn, `rounds` times: {name: [figure]}."""
    figures = {name: [] for name in engines}
    for _ in range(rounds):
        for name, (environment, words) in engines.items():
            figures[name].append(measure(environment, words))
    return figures


def print_figures(title, figures):
    """Prints median, range, and the ratio of the first engine's median to that of each engine."""
    first = statistics.median(next(iter(figures.values())))
    print(title)
    for name, values in figures.items():
        median = statistics.median(values)
        print(f"{name:<16} {median:>9.0f}  ({min(values):.0f} to {max(values):.0f})  x{first / median:.2f}")
