#!/usr/bin/env python3
"""Makes tests/data/openings.epd: short random openings that a strong engine finds about even.

Each line of play is random legal moves; what is left of it is its last position, if the judge's score is
within the bounds and no other line has led there. Varied on purpose: a match from few or natural openings
measures the book as much as the engines. Needs PyPI `chess` and a UCI engine as the judge; made with
Stockfish 15.1:

    scripts/make_openings.py --judge stockfish --count 240 > tests/data/openings.epd
"""

import argparse
import random
import sys

import chess
import chess.engine


def random_line(dice, plies):
    """A board after so many random legal moves, or None if the game ended before."""
    board = chess.Board()
    for _ in range(plies):
        moves = list(board.legal_moves)
        if not moves:
            return None
        board.push(dice.choice(moves))
    return board


def main():
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--judge", required=True, help="UCI engine that says what is even")
    parser.add_argument("--count", type=int, default=240)
    parser.add_argument("--plies", type=int, nargs="+", default=[6, 7, 8], help="lengths, in turn")
    parser.add_argument("--bound", type=int, default=80, help="centipawns")
    parser.add_argument("--depth", type=int, default=12, help="of the judge's search")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()

    dice = random.Random(arguments.seed)
    known, kept, tried = set(), 0, 0
    with chess.engine.SimpleEngine.popen_uci(arguments.judge) as judge:
        # One thread and a new game for each position: the same seed gives the same file again.
        judge.configure({"Threads": 1})
        while kept < arguments.count:
            tried += 1
            board = random_line(dice, arguments.plies[kept % len(arguments.plies)])
            if board is None or board.is_check() or not any(board.legal_moves) or board.epd() in known:
                continue
            info = judge.analyse(board, chess.engine.Limit(depth=arguments.depth), game=tried)
            score = info["score"].relative.score(mate_score=100_000)
            if abs(score) > arguments.bound:
                continue
            known.add(board.epd())
            kept += 1
            operations = {
                "acd": arguments.depth,
                "ce": score,
                "fmvn": board.fullmove_number,
                "hmvc": board.halfmove_clock,
                "id": f"random {kept}",
            }
            print(board.epd(**operations))
    print(f"{kept} of {tried} lines kept", file=sys.stderr)


if __name__ == "__main__":
    main()
