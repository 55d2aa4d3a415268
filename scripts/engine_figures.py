"""What the scripts that compare engines share: engines from the command line, and figures printed as ratios."""

import itertools
import os
import shlex
import statistics


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
