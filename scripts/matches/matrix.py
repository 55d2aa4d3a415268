#!/usr/bin/env python3
"""Plays one feature after another against the default search, for several networks and numbers of visits.

    scripts/matches/matrix.py --engine target/release/rukh --save matrix.jsonl --sprt=0,10 --games 960 \\
        --network weights/rukh-128x6.pb.gz --network maia-1900.pb.gz --visits 400 --visits 3000 \\
        --feature use-variance-scaling=true --feature root-policy-temperature=1.6 -- --backend=rocm-fp16

A feature is FLAG=VALUE[,FLAG=VALUE] of player 1 of `rukh selfplay`; player 2 has the flags after `--` alone. Each match
is a pair of games from each opening. It ends when the SPRT decides, after `--games` games, or after `--match-seconds`,
with the games that are finished by then. Every match is appended to the file `--save`, and the same command plays the
matches that are missing there, until `--seconds` are over. Prints the rows of a table in Markdown.
"""

import argparse
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

from saved_results import SavedResults

OPENINGS = Path(__file__).resolve().parents[2] / "tests/data/openings.epd"


def play(arguments, match, seconds):
    """Plays one match and returns its result, or nothing if it was ended before a game was finished."""
    network, visits, feature = match
    command = [arguments.engine, "selfplay", "--mirror-openings", "--json", f"--weights={network}"]
    command += [f"--visits={visits}", f"--games={arguments.games}", f"--openings-pgn={OPENINGS}"]
    command += ["--openings-mode=shuffled", f"--seed={arguments.seed}", "--temperature=0", "--smart-pruning-factor=0"]
    if arguments.sprt:
        command.append(f"--sprt={arguments.sprt}")
    command += [f"--player1.{flag}" for flag in feature.split(",")] + arguments.flags
    engine = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        output, errors = engine.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        # The engine ends the games and writes the result of those that are finished.
        engine.send_signal(signal.SIGINT)
        output, errors = engine.communicate()
    try:
        return json.loads(output)
    except ValueError:
        print(f"{' '.join(command)}\n{errors}", file=sys.stderr)
        return None


def row(match, result):
    """A row of the table of matches."""
    network, visits, feature = match
    name = Path(network).name.removesuffix(".gz").removesuffix(".pb")
    options = ", ".join(f"`{option}`" for option in feature.split(","))
    figures = [float("nan") if figure is None else figure for figure in map(result.get, ["elo", "elo_low", "elo_high"])]
    score = (result["wins"] + result["draws"] / 2) / max(result["games"], 1)
    pairs = " ".join(map(str, result["pairs"]))
    test = result.get("sprt")
    verdict = {"elo0": ", H0", "elo1": ", H1", "undecided": ""}
    llr = f"{test['llr']:.2f}{verdict[test['verdict']]}" if test else ""
    columns = [
        options, name, f"{visits:,}", result["games"],
        f"+{result['wins']} ={result['draws']} −{result['losses']}", f"{100 * score:.1f} %",
        "{:.0f} [{:.0f}, {:.0f}]".format(*figures), pairs, llr,
    ]  # fmt: skip
    return f"| {' | '.join(map(str, columns))} |"


def main():
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--engine", required=True)
    parser.add_argument("--network", action="append", required=True)
    parser.add_argument("--visits", action="append", type=int, required=True)
    parser.add_argument("--feature", action="append", required=True, help="FLAG=VALUE[,FLAG=VALUE] of player 1")
    parser.add_argument("--games", type=int, default=960, help="most games of a match")
    parser.add_argument("--sprt", help="ELO0,ELO1: the two Elo differences of the test")
    parser.add_argument("--seed", type=int, default=1, help="seed of the order of the openings")
    parser.add_argument("--match-seconds", type=float, default=60, help="longest time of a match")
    parser.add_argument("--seconds", type=float, default=1e9, help="longest time of all matches")
    parser.add_argument("--save", type=Path, help="file of the results, for going on later")
    parser.add_argument("flags", nargs="*", help="flags of `rukh selfplay` for both players, after --")
    arguments = parser.parse_args()

    end = time.monotonic() + arguments.seconds
    saved = SavedResults(arguments.save)
    print("| player 1 | network | visits | games | result | score | Elo [95 %] | pairs 0 ½ 1 1½ 2 | LLR |")
    print("|---|---|---:|---:|---|---:|---|---|---|", flush=True)
    matches = [(n, v, f) for v in arguments.visits for n in arguments.network for f in arguments.feature]
    for match in matches:
        described = {"match": [Path(match[0]).name, *match[1:]], "flags": arguments.flags}
        described["settings"] = [arguments.seed, arguments.games, arguments.sprt]
        result = saved.get(described)
        if result is None:
            left = end - time.monotonic()
            # A shorter match would say nothing, because only short games would be finished.
            if left < arguments.match_seconds:
                print(f"NOT PLAYED for lack of time: {' '.join(map(str, match))}", file=sys.stderr)
                continue
            result = play(arguments, match, arguments.match_seconds)
            if result is None:
                continue
            saved.add(described, result)
        print(row(match, result), flush=True)


if __name__ == "__main__":
    main()
