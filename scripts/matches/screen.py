#!/usr/bin/env python3
"""Measures the effects of many options at once, by matches of `rukh selfplay` between option sets and one opponent.

    scripts/matches/screen.py --engine target/release/rukh --save screen.jsonl \\
        --factor root-policy-temperature=1.6 --factor fpu-value=0.22 --factor value-weight-exponent=0.25 \\
        -- --weights=net.pb.gz --visits=800 --games=480 --openings-pgn=tests/data/openings.epd

In each match player 1 has about half of the factors, and player 2 has none of them. Which ones is laid down by a design
of Plackett and Burman (Biometrika 33, 1946): any two factors are together in a quarter of the matches. So the effect of
a factor is the mean score of the matches with it less that of the matches without it, and every match counts for every
factor. This holds if the factors do not influence each other's effects much. With 11 factors, 12 matches measure each
effect as precisely as 11 pairs of matches of six times the length would.

The flags after `--` are those of `rukh selfplay` for all matches. The games are played with both colours. Every match
is appended to the file `--save` when it ends, and the same command plays the matches that are missing there.
"""

import argparse
import json
import math
import subprocess
import sys
from pathlib import Path

from elo import elo
from saved_results import SavedResults

# The first rows of the cyclic designs, by the number of matches.
GENERATORS = {
    8: "+++-+--",
    12: "++-+++---+-",
    16: "++++-+-++--+---",
    20: "++--++++-+-+----++-",
    24: "+++++-+-++--++--+-+----",
}


def design(matches, factors):
    """For each match, whether player 1 has each of the factors."""
    generator = [sign == "+" for sign in GENERATORS[matches]]
    rows = [generator[-shift:] + generator[:-shift] if shift else generator for shift in range(matches - 1)]
    return [row[:factors] for row in rows] + [[False] * factors]


def mean_and_variance(pairs):
    """The mean score of pairs of games, and the variance of that mean. `pairs` counts the pairs with 0, ½, …, 2."""
    count = sum(pairs)
    mean = sum(number * half / 4 for half, number in enumerate(pairs)) / count
    variance = sum(number * (half / 4 - mean) ** 2 for half, number in enumerate(pairs)) / count
    return mean, variance / count


def play(arguments, flags):
    """Plays one match and returns its result."""
    command = [arguments.engine, "selfplay", *arguments.flags, "--mirror-openings", "--json"]
    command += [f"--player1.{flag}" for flag in flags]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout)


def report(factors, rows, results):
    """Prints the effect of each factor, the largest first."""
    scores = [mean_and_variance(result["pairs"]) for result in results]
    effects = []
    for index, factor in enumerate(factors):
        sides = {True: [], False: []}
        for row, score in zip(rows, scores):
            sides[row[index]].append(score)
        means = {side: sum(mean for mean, _ in some) / len(some) for side, some in sides.items()}
        variance = sum(sum(variance for _, variance in some) / len(some) ** 2 for some in sides.values())
        # Near even scores, one hundredth of score is 695 / 100 Elo.
        effects.append((elo(means[True]) - elo(means[False]), 1.96 * 695 * math.sqrt(variance), factor))
    print(f"{sum(result['games'] for result in results)} games in {len(results)} matches")
    print("| option | Elo [95 %] |\n|---|---|")
    for effect, margin, factor in sorted(effects, reverse=True):
        print(f"| `{factor}` | {effect:.0f} [{effect - margin:.0f}, {effect + margin:.0f}] |")


def main():
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--engine", required=True)
    parser.add_argument("--factor", action="append", required=True, help="FLAG=VALUE[,FLAG=VALUE] of player 1")
    parser.add_argument("--save", type=Path, help="file of the results, for going on later")
    parser.add_argument("flags", nargs="*", help="flags of `rukh selfplay`, after --")
    arguments = parser.parse_args()

    matches = next((size for size in GENERATORS if size > len(arguments.factor)), None)
    if matches is None:
        parser.error(f"at most {max(GENERATORS) - 1} factors can be measured at once")
    rows = design(matches, len(arguments.factor))
    saved = SavedResults(arguments.save)
    results = []
    for number, row in enumerate(rows, 1):
        chosen = [factor for factor, is_on in zip(arguments.factor, row) if is_on]
        flags = [flag for factor in chosen for flag in factor.split(",")]
        match = {"player1": flags, "flags": arguments.flags}
        if saved.get(match) is None:
            saved.add(match, play(arguments, flags))
        results.append(saved.get(match))
        mean, _ = mean_and_variance(results[-1]["pairs"])
        print(f"{number}/{matches}: {100 * mean:.1f} % with {' '.join(flags) or 'none'}", file=sys.stderr, flush=True)
    report(arguments.factor, rows, results)


if __name__ == "__main__":
    main()
