#!/usr/bin/env python3
"""Solves puzzles of lichess by a network's policy alone, and prints the share that it solves by rating.

    examples/puzzles.py lichess_db_puzzle.csv --network maia-1900.pb.gz --count 1000

The file is that of https://database.lichess.org/#puzzles: columns `FEN`, `Moves` and `Rating` with a header. The first move
leads to the puzzle. It is solved if each move of the solver has the largest prior, or gives mate.
"""

import argparse
import csv
from collections import defaultdict

import chess

import rukh


def read(path, count):
    """The first puzzles: rating, and the positions of the solver, each with the move to find."""
    with open(path, newline="", encoding="utf-8") as file:
        for _, row in zip(range(count), csv.DictReader(file)):
            board, asked = chess.Board(row["FEN"]), []
            for nth, move in enumerate(row["Moves"].split()):
                if nth % 2 == 1:
                    asked.append((board.copy(), move))
                board.push_uci(move)
            yield int(row["Rating"]), asked


def is_right(board, move, expected):
    """Whether a move solves a position: several moves may give mate."""
    if move == expected:
        return True
    board.push_uci(move)
    return board.is_checkmate()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("puzzles", help="CSV file of lichess")
    parser.add_argument("--network", help="network file (default: Rukh's own)")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--count", type=int, default=1000, help="puzzles")
    arguments = parser.parse_args()

    network = rukh.Network.open(arguments.network) if arguments.network else rukh.Network.embedded()
    puzzles = list(read(arguments.puzzles, arguments.count))
    asked = [(nth, board, move) for nth, (_, positions) in enumerate(puzzles) for board, move in positions]
    found = rukh.Evaluator(network, arguments.backend).evaluate([board for _, board, _ in asked])
    solved = [True] * len(puzzles)
    for i, (nth, board, move) in enumerate(asked):
        solved[nth] &= is_right(board, found.best_move(i), move)
    by_rating = defaultdict(list)
    for (rating, _), is_solved in zip(puzzles, solved):
        by_rating[rating // 200 * 200].append(is_solved)
    print("rating      puzzles  solved")
    for rating, results in sorted(by_rating.items()):
        print(f"{rating:4}-{rating + 199:4}  {len(results):8}  {sum(results) / len(results):6.1%}")
    print(f"all        {len(solved):8}  {sum(solved) / max(len(solved), 1):6.1%}")


if __name__ == "__main__":
    main()
