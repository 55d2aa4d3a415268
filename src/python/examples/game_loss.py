#!/usr/bin/env python3
"""Prints what each player of a PGN lost by moves that a network thinks worse than its best, and plots the games.

    examples/game_loss.py games.pgn --network t1.pb.gz --plot games.svg

The loss of a move is the expected score before it less that after it, as the network alone sees both; never below 0. The
plot, which needs matplotlib, shows White's expected score.
"""

import argparse
from collections import defaultdict

import chess.pgn
import numpy as np

import rukh


def read(path):
    """The games with their boards, from the first position to the last."""
    with open(path, encoding="utf-8") as file:
        while (game := chess.pgn.read_game(file)) is not None:
            boards = [game.board()]
            for move in game.mainline_moves():
                boards.append(boards[-1].copy())
                boards[-1].push(move)
            yield game, boards


def plot(path, curves):
    """Draws White's expected score of each game by ply."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 4))
    for name, curve in curves:
        axes.plot(range(len(curve)), curve, label=name)
    axes.set(xlabel="ply", ylabel="White's expected score", ylim=(0, 1))
    if len(curves) <= 8:
        axes.legend()
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pgn", help="games")
    parser.add_argument("--network", help="network file (default: Rukh's own)")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--plot", help="file of the picture (.svg, .png)")
    arguments = parser.parse_args()

    network = rukh.Network.open(arguments.network) if arguments.network else rukh.Network.embedded()
    games = list(read(arguments.pgn))
    found = rukh.Evaluator(network, arguments.backend).evaluate([board for _, boards in games for board in boards])
    scores = (found.wdl[:, 0] + found.wdl[:, 1] / 2).astype(float)
    losses, curves, start = defaultdict(list), [], 0
    for game, boards in games:
        of_game = scores[start : start + len(boards)]
        start += len(boards)
        names = {color: game.headers[color.title()] for color in ("white", "black")}
        for board, before, after in zip(boards, of_game, of_game[1:]):
            losses[names["white" if board.turn else "black"]].append(max(0.0, before - (1 - after)))
        of_white = np.array([score if board.turn else 1 - score for board, score in zip(boards, of_game)])
        curves.append((f"{names['white']} - {names['black']}", of_white))
    print("moves  mean loss  largest  player")
    for name, of_player in sorted(losses.items(), key=lambda item: np.mean(item[1])):
        print(f"{len(of_player):5}  {np.mean(of_player):9.4f}  {max(of_player):7.3f}  {name}")
    if arguments.plot:
        plot(arguments.plot, curves)


if __name__ == "__main__":
    main()
