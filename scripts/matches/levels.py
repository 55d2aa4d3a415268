#!/usr/bin/env python3
"""Measures the levels of `UCI_Elo` against Stockfish 16 (or up to 17.1) at the same `UCI_Elo`.

    scripts/matches/levels.py --rukh target/release/rukh --stockfish stockfish --games 300 --concurrency 2 --output levels

The games of each level go to OUTPUT/ELO.pgn, and `match.py` plays those that are missing. Both engines play the same on
every machine and at any time control: Rukh searches a fixed number of nodes, and Stockfish is given the depth at which it
chooses its weakened move anyway, so that it does not spend its time on a search whose result it ignores.
"""

import argparse
import os
import subprocess
import sys

LEVELS = [1500, 1700, 1900, 2100, 2300, 2450, 2550]
MATCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "match.py")


def stockfish_depth(elo):
    """The depth, in plies, at which Stockfish 16 to 17.1 chooses its move: class `Skill` in its `search.h`."""
    share = (elo - 1320) / (3190 - 1320)
    level = ((37.2473 * share - 40.8525) * share + 22.2943) * share - 0.311438
    return 1 + int(min(max(level, 0), 19))


def measure(arguments, elo):
    """Plays the match of one level and returns its last line."""
    options = ["UCI_LimitStrength=true", f"UCI_Elo={elo}"]
    command = [sys.executable, MATCH, "--engine1", arguments.rukh, "--engine2", arguments.stockfish]
    command += ["--name1", f"rukh{elo}", "--name2", f"stockfish{elo}", "--option1", "Backend=cpu", "--option2", "Threads=1"]
    command += [word for option in options for word in ("--both", option)]
    # Rukh's levels ignore the clock.
    command += ["--limit", "clock=60+0.6", "--limit2", f"depth={stockfish_depth(elo)}"]
    command += ["--games", str(arguments.games), "--concurrency", str(arguments.concurrency)]
    command += ["--pgn", os.path.join(arguments.output, f"{elo}.pgn")]
    lines = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    return next((line for line in reversed(lines) if "score" in line), "no game ended")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rukh", required=True, help="command line of Rukh")
    parser.add_argument("--stockfish", required=True, help="command line of Stockfish")
    parser.add_argument("--levels", type=int, nargs="+", default=LEVELS, metavar="ELO", help="levels to measure")
    parser.add_argument("--games", type=int, default=300, help="games of each level")
    parser.add_argument("--concurrency", type=int, default=1, help="games at a time")
    parser.add_argument("--output", required=True, help="folder of the games")
    arguments = parser.parse_args()
    os.makedirs(arguments.output, exist_ok=True)
    for elo in arguments.levels:
        print(measure(arguments, elo), flush=True)


if __name__ == "__main__":
    main()
