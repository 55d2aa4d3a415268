#!/usr/bin/env python3
"""Plays a match between two UCI engines, one game at a time, each opening with both colours.

    scripts/match.py --engine1 "target/release/rukh" --engine2 "lc0 --threads=2" \\
        --both WeightsFile=net.pb.gz --limit nodes=800 --games 200 --pgn match.pgn

Every game goes into the PGN file as it ends; the same command again goes on where that file stops. Limits are
nodes=N, movetime=MS or clock=BASE+INCREMENT (seconds), and may differ (--limit2). Prints wins, draws and
losses of the first engine, its Elo difference with a 95 % interval from the pairs of games, and both engines'
speed as they tell it themselves. An illegal move, a crash or a fallen flag is a loss, and is told; so is a
line on standard output that is not UCI, which costs nothing (some engines print a banner).

Needs PyPI `chess`.
"""

import argparse
import asyncio
import math
import os
import random
import sys
import time

import chess
import chess.engine
import chess.pgn

import uci_engine

DEFAULT_OPENINGS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/data/openings.epd")


class Side:
    """One of the two engines, over the whole match."""

    def __init__(self, name, command, options, limit):
        self.name, self.command, self.options, self.limit = name, command, options, limit
        self.transport = self.engine = None
        self.nodes = self.seconds = 0.0
        self.is_warned = False

    async def ready(self):
        """Starts the engine, unless it runs."""
        if self.engine is None or self.engine.returncode.done():
            self.transport, self.engine = await uci_engine.start(self.command, self.options)

    async def stop(self, kill=False):
        if self.engine is None or self.engine.returncode.done():
            return
        try:
            if kill:
                raise TimeoutError
            await asyncio.wait_for(self.engine.quit(), 10)
        except (TimeoutError, asyncio.TimeoutError, chess.engine.EngineError):
            self.transport.kill()

    def count(self, info):
        """Adds a move's speed. `nodes` counts a reused tree too, so that only nps tells what was done."""
        if "nps" in info and info.get("time", 0) > 0:
            self.nodes += info["nps"] * info["time"]
            self.seconds += info["time"]

    def speed(self):
        return f"{self.nodes / self.seconds:.0f} nps" if self.seconds else "no nps told"


async def play_game(sides, board, arguments):
    """Plays from a board; `sides` by colour. Returns the result and why it ended."""
    clocks = {color: side.limit.base for color, side in sides.items()}
    increments = {color: side.limit.increment for color, side in sides.items()}
    game, lost_for = object(), 0
    while True:
        outcome = board.outcome(claim_draw=True)
        if outcome is not None:
            return outcome.result(), outcome.termination.name.lower().replace("_", " ")
        if board.ply() >= arguments.max_plies:
            return "1/2-1/2", "length"
        color = board.turn
        side = sides[color]
        loss = "0-1" if color == chess.WHITE else "1-0"
        limit = side.limit.for_move(clocks, increments)
        longest = (clocks[color] or side.limit.movetime or arguments.patience) + arguments.patience
        start = time.monotonic()
        try:
            played = await asyncio.wait_for(
                side.engine.play(board, limit, game=game, info=chess.engine.INFO_ALL), longest
            )
        except (TimeoutError, asyncio.TimeoutError):
            await side.stop(kill=True)
            return loss, "no answer"
        except chess.engine.EngineError as error:
            await side.stop(kill=True)
            return loss, f"engine error: {error}"
        spent = time.monotonic() - start
        if side.engine.stray_lines and not side.is_warned:
            side.is_warned = True
            print(f"{side.name} says what is not UCI: {side.engine.stray_lines[0]!r}")
        if clocks[color] is not None:
            if spent > clocks[color] + arguments.margin / 1000:
                return loss, "time"
            clocks[color] = max(0.0, clocks[color] - spent) + side.limit.increment
        side.count(played.info)
        if played.move is None:
            return loss, "no move"
        board.push(played.move)
        if arguments.resign and "score" in played.info:
            score = played.info["score"].white().score(mate_score=100_000)
            same_side = score * lost_for > 0 or lost_for == 0
            beyond = abs(score) >= arguments.resign
            lost_for = (lost_for + (1 if score > 0 else -1)) if beyond and same_side else 0
            # Both engines have agreed three times each.
            if abs(lost_for) >= 6:
                return ("1-0" if lost_for > 0 else "0-1"), "both agree"


def read_openings(path, seed):
    """The boards of an EPD file, in an order that the seed gives."""
    boards = []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                board = chess.Board()
                operations = board.set_epd(line)
                board.fullmove_number = operations.get("fmvn", 1)
                board.halfmove_clock = operations.get("hmvc", 0)
                boards.append(board)
    random.Random(seed).shuffle(boards)
    return boards


def read_results(path, signature):
    """The first engine's points in the games that are in the file already."""
    points = []
    if not os.path.exists(path):
        return points
    with open(path, encoding="utf-8") as file:
        while (headers := chess.pgn.read_headers(file)) is not None:
            if headers.get("Event") != signature:
                found = headers.get("Event")
                raise SystemExit(f"{path}: holds another match: {found}\nexpected: {signature}")
            points.append(points_of(headers["Result"], len(points) % 2 == 0))
    return points


def points_of(result, first_is_white):
    white = {"1-0": 1.0, "0-1": 0.0, "1/2-1/2": 0.5}[result]
    return white if first_is_white else 1.0 - white


def elo(score):
    """The difference that gives this score."""
    score = min(max(score, 1e-6), 1 - 1e-6)
    return -400 * math.log10(1 / score - 1)


def summary(points):
    """Wins, draws, losses, Elo with its interval, from the first engine's points in the order of play."""
    wins, draws, losses = (sum(1 for point in points if point == value) for value in (1.0, 0.5, 0.0))
    text = f"+{wins} ={draws} -{losses} of {len(points)}"
    pairs = [(points[i] + points[i + 1]) / 2 for i in range(0, len(points) - 1, 2)]
    if len(pairs) < 2:
        return text
    mean = sum(pairs) / len(pairs)
    # The two games of a pair share their opening: only pairs are independent.
    variance = sum((pair - mean) ** 2 for pair in pairs) / (len(pairs) - 1)
    error = math.sqrt(variance / len(pairs))
    if error == 0:
        return f"{text}, score {mean:.3f} (all pairs alike: no error known)"
    low, high = elo(mean - 1.96 * error), elo(mean + 1.96 * error)
    likely = 0.5 * (1 + math.erf((mean - 0.5) / error / math.sqrt(2)))
    interval = f"Elo {elo(mean):+.1f} [{low:+.1f}, {high:+.1f}]"
    return f"{text}, score {mean:.3f}, {interval}, LOS {100 * likely:.1f} %"


def save_game(path, board, opening, sides, round_number, result, reason, signature):
    game = chess.pgn.Game.from_board(board)
    game.headers["Event"] = signature
    game.headers["Site"] = "-"
    game.headers["Date"] = time.strftime("%Y.%m.%d")
    game.headers["Round"] = str(round_number)
    game.headers["White"] = sides[chess.WHITE].name
    game.headers["Black"] = sides[chess.BLACK].name
    game.headers["Result"] = result
    game.headers["SetUp"], game.headers["FEN"] = "1", opening.fen()
    game.headers["Termination"] = reason
    with open(path, "a", encoding="utf-8") as file:
        print(game, file=file, end="\n\n", flush=True)


async def run(arguments):
    both = uci_engine.parse_options(arguments.both)
    first = Side(
        arguments.name1,
        arguments.engine1,
        both | uci_engine.parse_options(arguments.option1),
        uci_engine.Limit(arguments.limit),
    )
    second = Side(
        arguments.name2,
        arguments.engine2,
        both | uci_engine.parse_options(arguments.option2),
        uci_engine.Limit(arguments.limit2 or arguments.limit),
    )
    openings = read_openings(arguments.openings, arguments.seed)
    signature = f"{first.name} {first.limit.text} - {second.name} {second.limit.text}, seed {arguments.seed}"
    points = read_results(arguments.pgn, signature)
    if points:
        print(f"going on after {len(points)} games: {summary(points)}", flush=True)
    try:
        for number in range(len(points), arguments.games):
            opening = openings[number // 2 % len(openings)]
            first_is_white = number % 2 == 0
            sides = {chess.WHITE: first, chess.BLACK: second} if first_is_white else {
                chess.WHITE: second,
                chess.BLACK: first,
            }
            for side in (first, second):
                await side.ready()
            board = opening.copy()
            result, reason = await play_game(sides, board, arguments)
            save_game(arguments.pgn, board, opening, sides, number + 1, result, reason, signature)
            points.append(points_of(result, first_is_white))
            white, black = sides[chess.WHITE].name, sides[chess.BLACK].name
            print(f"game {number + 1}: {white} - {black} {result} ({reason}, {len(board.move_stack)} plies)")
            print(f"{first.name}: {summary(points)}", flush=True)
    finally:
        for side in (first, second):
            await side.stop()
            print(f"{side.name}: {side.speed()}")


def main():
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--engine1", required=True, help="command line of the first engine")
    parser.add_argument("--engine2", required=True)
    parser.add_argument("--name1", default="first")
    parser.add_argument("--name2", default="second")
    parser.add_argument("--option1", action="append", default=[], metavar="Name=Value")
    parser.add_argument("--option2", action="append", default=[], metavar="Name=Value")
    parser.add_argument("--both", action="append", default=[], metavar="Name=Value", help="for both")
    parser.add_argument("--limit", required=True, help="nodes=N, movetime=MS or clock=BASE+INCREMENT (s)")
    parser.add_argument("--limit2", help="of the second engine, if it is another")
    parser.add_argument("--games", type=int, default=100)
    parser.add_argument("--openings", default=DEFAULT_OPENINGS, help="EPD file")
    parser.add_argument("--seed", type=int, default=1, help="of the openings' order")
    parser.add_argument("--pgn", default="match.pgn")
    parser.add_argument("--max-plies", type=int, default=400, help="then it is a draw")
    parser.add_argument("--margin", type=int, default=0, metavar="MS", help="that a flag may be late")
    parser.add_argument("--patience", type=float, default=60, metavar="S", help="for an engine that hangs")
    parser.add_argument("--resign", type=int, default=0, metavar="CP", help="end what both call won")
    arguments = parser.parse_args()
    try:
        asyncio.run(run(arguments))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
