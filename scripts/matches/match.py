#!/usr/bin/env python3
"""Plays a match between two UCI engines. Each opening is played twice, with the colours swapped.

    scripts/matches/match.py --engine1 "target/release/rukh" --engine2 "lc0 --threads=2" \\
        --both WeightsFile=net.pb.gz --limit nodes=800 --games 200 --pgn match.pgn

Each game is appended to the PGN file when it ends. Run the same command again to play the games that are missing from
the file. A limit is nodes=N, depth=N, movetime=MS or clock=BASE+INCREMENT (seconds); --limit2 gives the second engine
another limit. An engine with a limit of nodes uses them all: Rukh and lc0 get SmartPruningFactor=0 unless an option
says otherwise. The script prints the first engine's wins, draws and losses, its Elo difference with a 95 % confidence
interval computed from the pairs of games, and the speeds that the engines report. An engine that plays an illegal move,
crashes or oversteps its clock loses the game, and so does one that is silent for --patience seconds beyond any clock or
movetime. With --resign or --draw, a game also ends when the scores of both engines agree on a win or on a draw. A line
on standard output that is not UCI is reported but does not lose the game, because some engines print a banner.

With --concurrency N, N games run at a time. Each has two engine processes of its own and a Python process as referee.
With --pin CORES, these three processes are bound to that many cores, which no other game uses. An engine's number of
threads is enough, because the two engines never think at the same time. After --seconds S no new game is started, and
running games are finished.

Needs python-chess (PyPI `chess`).
"""

import argparse
import asyncio
import math
import multiprocessing
import multiprocessing.connection
import os
import random
import sys
import time
from dataclasses import dataclass

import chess
import chess.engine
import chess.pgn

import uci_engine
from elo import elo

DEFAULT_OPENINGS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/data/openings.epd")


# The parts of `info` lines to parse. Principal variations would take longer to parse than a search of a few nodes.
INFO = chess.engine.INFO_BASIC | chess.engine.INFO_SCORE

#: A game ends as won when the last RESIGN_MOVES scores of each engine agree. It ends as drawn when the last DRAW_MOVES scores
#: of each do, after move DRAW_FROM_MOVE.
RESIGN_MOVES, DRAW_MOVES, DRAW_FROM_MOVE = 3, 10, 40


@dataclass
class Played:
    """A finished game, as its referee reports it."""

    number: int
    moves: list
    result: str
    reason: str
    # Nodes and seconds of the first and of the second engine.
    nodes: tuple
    seconds: tuple


class Side:
    """One of the two engines, in all games of one referee."""

    def __init__(self, name, command, options, limit):
        self.name, self.command, self.options, self.limit = name, command, options, limit
        self.transport = self.engine = None
        self.nodes = self.seconds = 0.0
        self.is_warned = False

    async def ready(self):
        """Starts the engine unless it is running."""
        if self.engine is None or self.engine.returncode.done():
            try:
                self.transport, self.engine = await uci_engine.start(
                    self.command, self.options, at_nodes=self.limit.nodes is not None
                )
            except (OSError, TimeoutError, asyncio.TimeoutError, chess.engine.EngineError) as error:
                reason = str(error) or "no answer to `uci`"
                raise SystemExit(f"{self.name}: cannot start {self.command!r}: {reason}") from error

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
        """Adds the speed of a move. It takes nodes from nps, because `nodes` includes the reused tree."""
        if "nps" in info and info.get("time", 0) > 0:
            self.nodes += info["nps"] * info["time"]
            self.seconds += info["time"]

    def take_count(self):
        """Nodes and seconds since the last call."""
        counted = self.nodes, self.seconds
        self.nodes = self.seconds = 0.0
        return counted


def make_sides(arguments):
    """The first and the second engine, not yet started."""
    both = uci_engine.parse_options(arguments.both)
    first, second = uci_engine.parse_options(arguments.option1), uci_engine.parse_options(arguments.option2)
    limits = [uci_engine.Limit(arguments.limit), uci_engine.Limit(arguments.limit2 or arguments.limit)]
    return (
        Side(arguments.name1, arguments.engine1, both | first, limits[0]),
        Side(arguments.name2, arguments.engine2, both | second, limits[1]),
    )


def end_of(board):
    """The result and its reason, or None while the game goes on. Draws that can be claimed are claimed."""
    outcome = board.outcome()
    if outcome is not None:
        return outcome.result(), outcome.termination.name.lower().replace("_", " ")
    if board.is_repetition(3):
        return "1/2-1/2", "threefold repetition"
    if board.halfmove_clock >= 100:
        return "1/2-1/2", "fifty moves"
    return None


async def play_game(sides, board, arguments):
    """Plays a game from a board; `sides` maps each colour to its side. Returns the result and its reason."""
    clocks = {color: side.limit.base for color, side in sides.items()}
    increments = {color: side.limit.increment for color, side in sides.items()}
    game, scores = object(), {chess.WHITE: [], chess.BLACK: []}
    while True:
        end = end_of(board)
        if end is not None:
            return end
        if board.ply() >= arguments.max_plies:
            return "1/2-1/2", "length"
        color = board.turn
        side = sides[color]
        loss = "0-1" if color == chess.WHITE else "1-0"
        limit = side.limit.for_move(clocks, increments)
        longest = (clocks[color] or side.limit.movetime or 0) + arguments.patience
        start = time.monotonic()
        try:
            played = await asyncio.wait_for(
                side.engine.play(board, limit, game=game, info=INFO), longest
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
            print(f"{side.name} printed a line that is not UCI: {side.engine.stray_lines[0]!r}", flush=True)
        if clocks[color] is not None:
            if spent > clocks[color] + arguments.margin / 1000:
                return loss, "time"
            clocks[color] = max(0.0, clocks[color] - spent) + side.limit.increment
        side.count(played.info)
        if played.move is None:
            return loss, "no move"
        board.push(played.move)
        if "score" in played.info:
            scores[color].append(played.info["score"].white().score(mate_score=100_000))
        else:
            scores[color].clear()
        agreed = agreed_result(scores, board.fullmove_number, arguments.resign, arguments.draw)
        if agreed:
            return agreed, "both agree"


def agreed_result(scores, move_number, resign, draw):
    """The result on which the last scores of both engines agree; None if there is none. `scores` has those of the moves of
    each colour, in centipawns from White's view. 0 as `resign` or `draw` means never."""

    def last(moves):
        enough = all(len(own) >= moves for own in scores.values())
        return [score for own in scores.values() for score in own[-moves:]] if enough else []

    if resign and (said := last(RESIGN_MOVES)):
        if min(said) >= resign:
            return "1-0"
        if max(said) <= -resign:
            return "0-1"
    if draw and move_number > DRAW_FROM_MOVE and (said := last(DRAW_MOVES)):
        if max(map(abs, said)) <= draw:
            return "1/2-1/2"
    return None


def read_openings(path, seed):
    """The boards of an EPD file, shuffled with the seed."""
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
    """The first engine's points in the games that are already in the file, by number."""
    points = {}
    if not os.path.exists(path):
        return points
    with open(path, encoding="utf-8") as file:
        while (headers := chess.pgn.read_headers(file)) is not None:
            if headers.get("Event") != signature:
                found = headers.get("Event")
                raise SystemExit(f"{path} contains the games of a different match: {found}\nexpected: {signature}")
            number = int(headers["Round"]) - 1
            points[number] = points_of(headers["Result"], is_first_white(number))
    return points


def is_first_white(number):
    """Whether the first engine has White. Games 2n and 2n + 1 are a pair: one opening, both colours."""
    return number % 2 == 0


def points_of(result, first_is_white):
    white = {"1-0": 1.0, "0-1": 0.0, "1/2-1/2": 0.5}[result]
    return white if first_is_white else 1.0 - white


def summary(points):
    """Wins, draws, losses, and Elo with its interval. `points` maps game numbers to the first engine's points."""
    results = list(points.values())
    text = f"+{results.count(1.0)} ={results.count(0.5)} -{results.count(0.0)} of {len(results)}"
    firsts = [number for number in points if number % 2 == 0 and number + 1 in points]
    pairs = [(points[number] + points[number + 1]) / 2 for number in firsts]
    if len(pairs) < 2:
        return text
    mean = sum(pairs) / len(pairs)
    # The two games of a pair share their opening, so that only pairs are independent.
    variance = sum((pair - mean) ** 2 for pair in pairs) / (len(pairs) - 1)
    error = math.sqrt(variance / len(pairs))
    if error == 0:
        return f"{text}, score {mean:.3f} (all pairs are equal: no interval)"
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


def referee(connection, arguments, cores):
    """The main function of a referee: plays the games whose numbers it receives, until the connection is closed."""
    try:
        if cores:
            # The engines inherit the affinity.
            os.sched_setaffinity(0, cores)
        asyncio.run(referee_games(connection, arguments))
    except (KeyboardInterrupt, EOFError):
        pass
    except SystemExit as error:
        connection.send(str(error))


async def referee_games(connection, arguments):
    sides = first, second = make_sides(arguments)
    openings = read_openings(arguments.openings, arguments.seed)
    try:
        while True:
            number = connection.recv()
            for side in sides:
                await side.ready()
            board = openings[number // 2 % len(openings)].copy()
            white, black = sides if is_first_white(number) else (second, first)
            result, reason = await play_game({chess.WHITE: white, chess.BLACK: black}, board, arguments)
            nodes, seconds = zip(*(side.take_count() for side in sides))
            connection.send(Played(number, board.move_stack, result, reason, nodes, seconds))
    finally:
        for side in sides:
            await side.stop()


def cores_of_games(count, cores_each):
    """A set of cores for each of `count` games; None for each if they are not bound."""
    if not cores_each:
        return [None] * count

    def whole_core_first(cpu):
        """A sort key that puts the hardware threads of a core together, so that games share few cores."""
        try:
            path = f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
            with open(path, encoding="ascii") as siblings:
                return int(siblings.read().replace("-", ",").split(",")[0]), cpu
        except (OSError, ValueError):
            return cpu, cpu

    cpus = sorted(os.sched_getaffinity(0), key=whole_core_first)
    if count * cores_each > len(cpus):
        raise SystemExit(f"--pin {cores_each} with --concurrency {count}: there are only {len(cpus)} cores")
    return [set(cpus[index * cores_each : (index + 1) * cores_each]) for index in range(count)]


class Match:
    """The results, and the games that are still to be played."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.sides = make_sides(arguments)
        first, second = self.sides
        rules = {"seed": arguments.seed, "resign": arguments.resign or None, "draw": arguments.draw or None}
        named = [f"{name} {value}" for name, value in rules.items() if value is not None]
        self.signature = f"{first.name} {first.limit.text} - {second.name} {second.limit.text}, {', '.join(named)}"
        self.openings = read_openings(arguments.openings, arguments.seed)
        self.points = read_results(arguments.pgn, self.signature)
        self.missing = [number for number in range(arguments.games) if number not in self.points]
        self.deadline = time.monotonic() + arguments.seconds if arguments.seconds else math.inf
        self.nodes, self.seconds = [0.0, 0.0], [0.0, 0.0]

    def next_game(self):
        """The number of the game to start next, or None."""
        return self.missing.pop(0) if self.missing and time.monotonic() < self.deadline else None

    def add(self, played):
        """Saves and prints a finished game."""
        number = played.number
        opening = self.openings[number // 2 % len(self.openings)]
        white, black = self.sides if is_first_white(number) else self.sides[::-1]
        sides = {chess.WHITE: white, chess.BLACK: black}
        board = opening.copy()
        for move in played.moves:
            board.push(move)
        result, reason = played.result, played.reason
        save_game(self.arguments.pgn, board, opening, sides, number + 1, result, reason, self.signature)
        self.points[number] = points_of(result, is_first_white(number))
        for index in (0, 1):
            self.nodes[index] += played.nodes[index]
            self.seconds[index] += played.seconds[index]
        print(f"game {number + 1}: {white.name} - {black.name} {result} ({reason}, {len(played.moves)} plies)")
        print(f"{self.sides[0].name}: {summary(self.points)}", flush=True)

    def print_speeds(self):
        for side, nodes, seconds in zip(self.sides, self.nodes, self.seconds):
            print(f"{side.name}: {nodes / seconds:.0f} nps" if seconds else f"{side.name}: reported no nps")


def run(arguments):
    match = Match(arguments)
    if match.points:
        print(f"continuing after {len(match.points)} games: {summary(match.points)}", flush=True)
    idle, busy = [], []
    # The processes are spawned, because a forked process would keep the other referees' connections open.
    context = multiprocessing.get_context("spawn")
    count = min(arguments.concurrency, len(match.missing))
    for cores in cores_of_games(count, arguments.pin):
        ours, theirs = context.Pipe()
        # A daemon does not outlive an interrupted match.
        process = context.Process(target=referee, args=(theirs, arguments, cores), daemon=True)
        process.start()
        theirs.close()
        idle.append((ours, process))
    processes = [process for _, process in idle]
    try:
        while True:
            while idle and (number := match.next_game()) is not None:
                ours, process = idle.pop()
                ours.send(number)
                busy.append((ours, process))
            if not busy:
                break
            ready = multiprocessing.connection.wait([ours for ours, _ in busy])
            for ours, process in [pair for pair in busy if pair[0] in ready]:
                try:
                    played = ours.recv()
                except EOFError:
                    played = "a referee process has died"
                if isinstance(played, str):
                    raise SystemExit(played)
                match.add(played)
                busy.remove((ours, process))
                idle.append((ours, process))
    finally:
        for ours, _ in idle + busy:
            ours.close()
        for process in processes:
            process.join(15)
        match.print_speeds()


def main():
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--engine1", required=True, help="command line of the first engine")
    parser.add_argument("--engine2", required=True, help="command line of the second engine")
    parser.add_argument("--name1", default="first", help="name of the first engine in the output")
    parser.add_argument("--name2", default="second", help="name of the second engine")
    parser.add_argument("--option1", action="append", default=[], metavar="Name=Value", help="option of engine 1")
    parser.add_argument("--option2", action="append", default=[], metavar="Name=Value", help="option of engine 2")
    parser.add_argument("--both", action="append", default=[], metavar="Name=Value", help="option of both engines")
    parser.add_argument("--limit", required=True, help="nodes=N, depth=N, movetime=MS or clock=BASE+INCREMENT (s)")
    parser.add_argument("--limit2", help="limit of the second engine, if it differs")
    parser.add_argument("--games", type=int, default=100, help="number of games")
    parser.add_argument("--concurrency", type=int, default=1, metavar="N", help="number of games played at a time")
    parser.add_argument("--pin", type=int, default=0, metavar="CORES", help="bind each game to this many cores")
    parser.add_argument("--seconds", type=float, default=0, metavar="S", help="start no new game after this time")
    parser.add_argument("--openings", default=DEFAULT_OPENINGS, help="EPD file of the openings")
    parser.add_argument("--seed", type=int, default=1, help="seed for shuffling the openings")
    parser.add_argument("--pgn", default="match.pgn", help="PGN file that the games are appended to")
    parser.add_argument("--max-plies", type=int, default=400, help="score a longer game as a draw")
    parser.add_argument(
        "--margin", type=int, default=0, metavar="MS", help="milliseconds by which an engine may overstep its time"
    )
    parser.add_argument(
        "--patience", type=float, default=60, metavar="S",
        help="seconds beyond its clock or movetime after which an engine that has not answered loses",
    )  # fmt: skip
    parser.add_argument(
        "--resign", type=int, default=0, metavar="CP",
        help="end a game as won when both engines' scores favour one side by this for three moves each (0: never)",
    )  # fmt: skip
    parser.add_argument(
        "--draw", type=int, default=0, metavar="CP",
        help="end a game as a draw after move 40 when both engines' scores are within this for ten moves each (0: never)",
    )  # fmt: skip
    arguments = parser.parse_args()
    try:
        run(arguments)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
