#!/usr/bin/env python3
"""How much the moves of engines lose by a stronger engine's judgement, side by side on the same positions.

    scripts/matches/move_quality.py --pgn match.pgn --player rukh --positions 500 --nodes 1200 --judge stockfish \\
        'default=target/release/rukh -t 1' 'flat=target/release/rukh -t 1 --policy-softmax-temp=1.8' \\
        'twice:2400=target/release/rukh -t 1'

Each engine is `NAME=COMMAND` or `NAME:NODES=COMMAND`, the command perhaps with environment variables first. They
take turns, position by position, each with a fresh tree. The positions are those of a match (`--pgn`) in which
`--player` was to move, less those in which the judge gives under 5 or over 95 %. The judge values its own move and
every move that an engine chose, each alone, with `--judge-nodes`. A move's loss is the expected score of the best of
them less its own, on lichess's curve of games between people.

Printed are the mean loss of each engine, its blunders (moves that lose 0.1 or more), and the difference from the first
engine with its error. A game is the sum of some forty such losses, and the engines are paired: settings can be told
apart sooner than by games. --seconds S begins no position after that time.

Needs PyPI `chess`.
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
    """Values moves with an engine of its own."""

    def __init__(self, engine, nodes):
        self.engine, self.limit = engine, chess.engine.Limit(nodes=nodes)

    async def value(self, board, move=None):
        """The best move, or the one given, and the expected score of the side to move after it."""
        moves = [move] if move else None
        info = await self.engine.analyse(board, self.limit, game=object(), root_moves=moves)
        score = info["score"].relative
        return info["pv"][0], score.wdl(model="lichess").expectation()


def nodes_of(name, nodes):
    """`NAME:NODES` says its own number of nodes."""
    _, colon, own = name.partition(":")
    return int(own) if colon else nodes


async def work(engines, positions, losses, arguments):
    """Takes positions while there are any, and gives each to all engines in turn."""
    _, judge_engine = await uci_engine.start(arguments.judge, {"Threads": "1", "Hash": "64"})
    judge = Judge(judge_engine, arguments.judge_nodes)
    players = {}
    for name, (environment, words) in engines.items():
        _, players[name] = await uci_engine.start(words, environment=environment)
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
    """Mean losses, and paired differences from the first engine."""
    first = next(iter(engines))
    print(f"{len(losses)} positions; loss of expected score a move, in thousandths")
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
    parser.add_argument("--player", default="first", help="whose moves (the name in the file)")
    parser.add_argument("--positions", type=int, help="only so many (before the decided ones are left out)")
    parser.add_argument("--seed", type=int, default=1, help="of the positions' order")
    parser.add_argument("--nodes", type=int, default=1000, help="of the engines, a move")
    parser.add_argument("--judge", default="stockfish", help="command of the engine that judges")
    parser.add_argument("--judge-nodes", type=int, default=200_000)
    add_sharing(parser)
    parser.add_argument("--verbose", action="store_true", help="print the summary again and again")
    run_until_interrupted(run(parser.parse_args()))


if __name__ == "__main__":
    main()
