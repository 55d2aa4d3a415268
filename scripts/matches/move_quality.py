#!/usr/bin/env python3
"""Measures how much expected score the moves of engines lose, as a stronger engine judges them.

    scripts/matches/move_quality.py --pgn match.pgn --player rukh --positions 500 --nodes 1200 --judge stockfish \\
        'default=target/release/rukh -t 1' 'flat=target/release/rukh -t 1 --policy-softmax-temp=1.8' \\
        'twice:2400=target/release/rukh -t 1'

Each engine is `NAME=COMMAND` or `NAME:NODES=COMMAND`, and the command may begin with environment variables. The engines
take turns, position by position, each with a new tree. The positions are those of a match (`--pgn`) in which `--player`
was to move, without those in which the judge expects less than 5 or more than 95 %. The judge evaluates its own move
and every move that an engine chose, each with `--judge-nodes`. The loss of a move is the expected score of the best of
these moves minus that of the move. lichess's curve for games between people turns the judge's scores into expected
scores.

The script prints the mean loss of each engine, its blunders (moves that lose 0.1 or more), and the paired difference
from the first engine with its standard error. The result of a game depends on the sum of some forty such losses, so
this measurement tells settings apart with fewer searches than games need. After --seconds S no new position is started.

Needs python-chess (PyPI `chess`).
"""

import argparse
import math
import random
import statistics

import chess
import chess.engine
import chess.pgn

import uci_engine
from engine_figures import add_sharing, parse_engines, run_until_interrupted, share_out

DECIDED = 0.05
BLUNDER = 0.1


def positions_of(path, player):
    """The distinct boards of a PGN file in which `player` is to move, without their history."""
    seen = {}
    with open(path, encoding="utf-8") as file:
        while (game := chess.pgn.read_game(file)) is not None:
            board = game.board()
            for move in game.mainline_moves():
                if game.headers["White" if board.turn else "Black"] == player:
                    seen.setdefault(board.epd(), board.copy(stack=False))
                board.push(move)
    return list(seen.values())


class Judge:
    """Evaluates moves with an engine of its own."""

    def __init__(self, engine, nodes):
        self.engine, self.limit = engine, chess.engine.Limit(nodes=nodes)

    async def value(self, board, move=None):
        """The given move, or else the best one, and the expected score that it gives the side to move."""
        moves = [move] if move else None
        info = await self.engine.analyse(board, self.limit, game=object(), root_moves=moves)
        score = info["score"].relative
        return info["pv"][0], score.wdl(model="lichess").expectation()


def nodes_of(name, nodes):
    """The nodes of an engine: those in its name, `NAME:NODES`, or the default."""
    _, colon, own = name.partition(":")
    return int(own) if colon else nodes


async def work(engines, positions, losses, arguments):
    """Takes positions from the iterator, and gives each to all engines in turn."""
    _, judge_engine = await uci_engine.start(arguments.judge, {"Threads": "1", "Hash": "64"})
    judge = Judge(judge_engine, arguments.judge_nodes)
    players = {}
    for name, (environment, words) in engines.items():
        _, players[name] = await uci_engine.start(words, environment=environment, at_nodes=True)
    for board in positions:
        best, expected = await judge.value(board)
        if not DECIDED <= expected <= 1 - DECIDED:
            continue
        values, chosen = {best: expected}, {}
        for name, player in players.items():
            limit = chess.engine.Limit(nodes=nodes_of(name, arguments.nodes))
            chosen[name] = (await player.play(board, limit, game=object())).move
        for move in set(chosen.values()) - {best}:
            _, values[move] = await judge.value(board, move)
        top = max(values.values())
        losses.append({name: top - values[move] for name, move in chosen.items()})
        if arguments.verbose and len(losses) % 20 == 0:
            print_summary(engines, losses)
    for engine in [judge_engine, *players.values()]:
        await engine.quit()


def print_summary(engines, losses):
    """Prints mean losses, and paired differences from the first engine."""
    first = next(iter(engines))
    print(f"{len(losses)} positions; loss of expected score per move, in thousandths")
    for name in engines:
        own = [1000 * loss[name] for loss in losses]
        error = statistics.stdev(own) / math.sqrt(len(own))
        blunders = sum(loss >= 1000 * BLUNDER for loss in own)
        text = f"{name:<16} {statistics.mean(own):6.2f} ±{error:.2f}  blunders {blunders}"
        if name != first:
            apart = [1000 * (loss[name] - loss[first]) for loss in losses]
            error = statistics.stdev(apart) / math.sqrt(len(apart))
            others = sum(gap != 0 for gap in apart)
            text += f"  {statistics.mean(apart):+.2f} ±{error:.2f} ({others} positions differ)"
        print(text, flush=True)


async def run(arguments):
    boards = positions_of(arguments.pgn, arguments.player)
    random.Random(arguments.seed).shuffle(boards)
    engines = parse_engines(arguments.engines)
    losses = []
    try:
        boards = boards[: arguments.positions]
        await share_out(boards, arguments, lambda positions: work(engines, positions, losses, arguments))
    finally:
        if len(losses) > 1:
            print_summary(engines, losses)


def main():
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("engines", nargs="+", metavar="NAME=COMMAND")
    parser.add_argument("--pgn", required=True, help="games to take positions from")
    parser.add_argument("--player", default="first", help="the player whose positions are used, as the file names it")
    parser.add_argument("--positions", type=int, help="number of positions, before decided ones are left out")
    parser.add_argument("--seed", type=int, default=1, help="seed for shuffling the positions")
    parser.add_argument("--nodes", type=int, default=1000, help="nodes of an engine's search")
    parser.add_argument("--judge", default="stockfish", help="command of the engine that judges")
    parser.add_argument("--judge-nodes", type=int, default=200_000, help="nodes of the judge's search")
    add_sharing(parser)
    parser.add_argument("--verbose", action="store_true", help="print the summary after every 20 positions")
    run_until_interrupted(run(parser.parse_args()))


if __name__ == "__main__":
    main()
