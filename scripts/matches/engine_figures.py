"""What the scripts that compare engines share: engines from the command line, work shared out, figures as ratios."""

import asyncio
import itertools
import os
import shlex
import statistics
import time


def parse_engines(arguments):
    """`NAME=COMMAND` each, the command perhaps with environment variables first: {name: (environment, words)}."""
    engines = {}
    for argument in arguments:
        name, _, command = argument.partition("=")
        words = shlex.split(command)
        variables = list(itertools.takewhile(lambda word: "=" in word, words))
        environment = os.environ | dict(word.split("=", 1) for word in variables)
        engines[name] = (environment, words[len(variables):])
    return engines


def add_sharing(parser):
    """The flags that `share_out` reads."""
    parser.add_argument("--concurrency", type=int, default=1, metavar="N", help="positions at a time")
    parser.add_argument("--seconds", type=float, default=0, metavar="S", help="then no position is begun")


async def share_out(positions, arguments, work):
    """Runs `work(positions)` as often at once as asked for, on one iterator: each position is taken once, in time."""
    end = time.monotonic() + arguments.seconds if arguments.seconds else float("inf")
    left = itertools.takewhile(lambda _: time.monotonic() < end, positions)
    await asyncio.gather(*(work(left) for _ in range(arguments.concurrency)))


def run_until_interrupted(main):
    """Ctrl-C ends it without a word: what there is has been printed on the way out."""
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
    """Median, range, and the ratio of the first engine's median to each."""
    first = statistics.median(next(iter(figures.values())))
    print(title)
    for name, values in figures.items():
        median = statistics.median(values)
        print(f"{name:<16} {median:>9.0f}  ({min(values):.0f} to {max(values):.0f})  x{first / median:.2f}")
