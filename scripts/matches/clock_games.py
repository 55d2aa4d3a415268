#!/usr/bin/env python3
"""Plays games of an engine against itself with very little time, and counts those that are lost on time. Needs only
Python and a build of the engine.

    scripts/matches/clock_games.py --engine target/release/rukh --option MoveOverheadMs=20 --clock 1+0.01 \\
        --games 1000 --concurrency 8 --pin 2 --busy 4 --file busy.jsonl

Each game has two engine processes and a referee. With --pin CORES they are bound to that many cores, which no other
game uses. With --busy N, N other processes keep the cores of each game busy as a build does: some compute, some write to
fresh memory, some start short processes. Without --pin all games and the N processes share all cores.

The referee's clock runs from before it sends `position` until it has read `bestmove`, so that it includes the pipes and
the referee's own wait for a core, as a chess program's clock does. It checks no rules: an engine that gets an illegal
move says so. Repeated positions and long games are draws.

Each game is a line of the file when it ends, and a run that was interrupted goes on where it stopped. --games 0 only
reports. With --plans the engine writes a log, from which the report takes how late each move was by the engine's own
plan, and how long it was on the way to the referee. Logging takes a little time itself.
"""

import argparse
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
import zlib

OPENINGS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/data/openings.epd")
# The longest wait for an answer beyond the clock, in seconds. It ends a game whose engine hangs.
PATIENCE = 30.0
# The bounds of the histograms' rows, in milliseconds.
ROWS_MS = [0, 1, 2, 5, 10, 20, 50, 100, 200, 500]
# The note about a move in the engine's log.
NOTE = re.compile(r"time: planned (\S+) ms, stopped after (\S+) ms, answered after (\S+) ms, first batch after (\S+) ms")


class Engine:
    """A running engine."""

    def __init__(self, arguments, log):
        environment = {**os.environ, "XDG_CONFIG_HOME": "/dev/null/none"}
        self.process = subprocess.Popen(
            arguments.engine.split(), env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.log = log
        for setting in arguments.option + ([f"LogFile={log}"] if log else []):
            name, _, value = setting.partition("=")
            self.send(f"setoption name {name} value {value}")

    def send(self, text):
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()

    def until(self, word):
        """The lines up to the one that begins with `word`, which is the last."""
        lines = []
        while not lines or not lines[-1].startswith(word):
            line = self.process.stdout.readline()
            if not line:
                raise EngineError("the engine ended")
            lines.append(line.decode().rstrip())
        return lines

    def new_game(self):
        self.send("ucinewgame\nisready")
        self.until("readyok")

    def notes(self):
        """The notes about the moves since the last call, in milliseconds: planned, stopped, answered, and
        the end of the first batch (0 if the root was known)."""
        if not self.log:
            return []
        with open(self.log, encoding="utf-8", errors="replace") as file:
            notes = NOTE.findall(file.read())
        os.truncate(self.log, 0)
        return [tuple(float(number) for number in note) for note in notes]

    def close(self):
        try:
            self.send("quit")
            self.process.wait(PATIENCE)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()


class EngineError(Exception):
    """The reason why an engine cannot go on."""


def read_openings():
    """The positions of the file of openings as FENs."""
    with open(OPENINGS, encoding="utf-8") as lines:
        return [" ".join(line.split()[:4]) + " 0 1" for line in lines if line.strip()]


def play(engines, opening, number, arguments):
    """Plays one game, and returns its record. Odd games have the colours swapped."""
    base_ms, increment_ms = arguments.clock
    clocks, moves, record = [base_ms, base_ms], [], []
    first = 0 if opening.split()[1] == "w" else 1
    end = "length"
    for engine in engines:
        engine.new_game()
    begin = time.monotonic()
    for ply in range(arguments.plies):
        side = (first + ply) % 2
        engine = engines[(side + number) % 2]
        position = f"position fen {opening}" + (" moves " + " ".join(moves) if moves else "")
        # Chess programs send whole milliseconds.
        white, black = (int(clock) for clock in clocks)
        go = f"go wtime {white} btime {black} winc {increment_ms:g} binc {increment_ms:g}"
        start = time.perf_counter()
        engine.send(f"{position}\n{go}")
        lines = engine.until("bestmove")
        spent = 1000 * (time.perf_counter() - start)
        move = lines[-1].split()[1]
        if any("error" in line for line in lines if line.startswith("info string")):
            end = "error: " + " / ".join(line for line in lines if "error" in line)
            break
        if move == "0000":
            end = "mate or stalemate"
            break
        record.append([round(clocks[side], 2), round(spent, 2), (side + number) % 2])
        if spent > clocks[side]:
            end = "time"
            break
        clocks[side] += increment_ms - spent
        moves.append(move)
        # Both sides have gone back and forth twice.
        if len(moves) >= 8 and moves[-4:] == moves[-8:-4] and moves[-2] != moves[-4]:
            end = "repetition"
            break
    if arguments.plans:
        add_plans(record, engines)
    return {
        "game": number, "end": end, "plies": len(moves), "seconds": round(time.monotonic() - begin, 2),
        "last_move": move, "moves": record,
    }  # fmt: skip


def add_plans(record, engines):
    """Adds the engine's notes to each move."""
    time.sleep(0.05)
    notes = [engine.notes() for engine in engines]
    for move in record:
        if notes[move[2]]:
            move.extend(notes[move[2]].pop(0))


def referee(numbers, results, cores, arguments, folder):
    """The main function of a referee process: plays games until there is none left."""
    if cores:
        # The engines inherit the affinity.
        os.sched_setaffinity(0, cores)
    openings = read_openings()
    logs = [os.path.join(folder, f"{os.getpid()}-{index}.log") if arguments.plans else None for index in (0, 1)]
    engines = [Engine(arguments, log) for log in logs]
    try:
        while (number := numbers.get()) is not None:
            results.put(play(engines, openings[number // 2 % len(openings)], number, arguments))
    except (EngineError, OSError) as error:
        results.put(f"referee: {error}")
    finally:
        for engine in engines:
            engine.close()


def work(kind, cores):
    """The main function of a process that keeps a core busy."""
    if cores:
        os.sched_setaffinity(0, cores)
    text = os.urandom(1 << 16) * 4
    while True:
        if kind % 4 == 1:
            memory = bytearray(48 << 20)
            memory[:: 1 << 12] = bytes(len(memory) >> 12)
            zlib.compress(text)
        elif kind % 4 == 2:
            subprocess.run(["/bin/true"], check=False)
            zlib.compress(text)
        else:
            zlib.compress(text, 9)


def core_sets(arguments):
    """The cores of each game that runs at a time; None if they are not bound."""
    if not arguments.pin:
        return [None] * arguments.concurrency
    cores = sorted(os.sched_getaffinity(0))
    if arguments.concurrency * arguments.pin > len(cores):
        sys.exit(f"--pin {arguments.pin} with --concurrency {arguments.concurrency}: there are {len(cores)} cores")
    return [set(cores[index * arguments.pin :][: arguments.pin]) for index in range(arguments.concurrency)]


def histogram(title, figures):
    """Prints how many of the figures (milliseconds) lie in each row."""
    if not figures:
        return
    figures = sorted(figures)
    parts = ", ".join(
        f"{name} {figures[min(len(figures) - 1, int(share * len(figures)))]:.1f}"
        for name, share in [("median", 0.5), ("99 %", 0.99), ("99.9 %", 0.999), ("most", 1)]
    )
    print(f"{title}: {len(figures)} moves; {parts} ms")
    bounds = [float("-inf"), *ROWS_MS, float("inf")]
    for low, high in zip(bounds, bounds[1:]):
        count = sum(low <= figure < high for figure in figures)
        if count:
            print(f"  {low:6g} to {high:4g} ms  {count:8}  {'#' * (60 * count // len(figures))}")


def report(games):
    """Prints the results. Returns the games that were lost on time or broken off by an error."""
    ends = {}
    for game in games:
        kind = game["end"].partition(":")[0]
        ends[kind] = ends.get(kind, 0) + 1
    moves = [move for game in games for move in game["moves"]]
    print(f"{len(games)} games, {len(moves)} moves: " + ", ".join(f"{ends[end]} {end}" for end in sorted(ends)))
    histogram("left on the clock after a move", [move[0] - move[1] for move in moves])
    histogram("spent on a move", [move[1] for move in moves])
    planned = [move for move in moves if len(move) == 7]
    histogram("stopped later than planned", [move[4] - move[3] for move in planned])
    histogram("from the stop to the answer", [move[5] - move[4] for move in planned])
    histogram("until the first batch was done", [move[6] for move in planned if move[6]])
    histogram("on the clock but not seen by the engine", [move[1] - move[5] for move in planned])
    used = [sum(move[1] for move in game["moves"]) / max(1, len(game["moves"])) for game in games]
    if used:
        print(f"mean time of a move: {sum(used) / len(used):.2f} ms")
    bad = [game for game in games if game["end"] == "time" or game["end"].startswith("error")]
    for game in bad:
        print(f"game {game['game']} at ply {game['plies']}: {game['end']}; last moves {game['moves'][-3:]}")
    print(f"lost on time: {ends.get('time', 0)} of {len(games)}")
    return bad


def run(arguments, done):
    """Plays the games that are not in `done`, and adds them to it and to the file."""
    missing = [number for number in range(arguments.games) if number not in {game["game"] for game in done}]
    context = multiprocessing.get_context("fork")
    numbers, results = context.SimpleQueue(), context.SimpleQueue()
    sets = core_sets(arguments)
    places = sets if arguments.pin else [None]
    workers = [
        context.Process(target=work, args=(kind, cores), daemon=True)
        for cores in places for kind in range(arguments.busy)
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        referees = [
            context.Process(target=referee, args=(numbers, results, cores, arguments, folder)) for cores in sets
        ]
        for process in workers + referees:
            process.start()
        deadline = time.monotonic() + (arguments.seconds or float("inf"))
        running = 0
        try:
            while True:
                while running < len(referees) and missing and time.monotonic() < deadline:
                    numbers.put(missing.pop(0))
                    running += 1
                if not running:
                    break
                game = results.get()
                running -= 1
                if isinstance(game, str):
                    sys.exit(game)
                done.append(game)
                with open(arguments.file, "a", encoding="utf-8") as file:
                    file.write(json.dumps(game) + "\n")
                if game["end"] == "time" or len(done) % 10 == 0:
                    lost = sum(game["end"] == "time" for game in done)
                    print(f"{len(done)} games, lost on time: {lost}", flush=True)
        finally:
            for _ in referees:
                numbers.put(None)
            for process in workers:
                process.terminate()
            for process in referees:
                process.join(PATIENCE)


def clock(text):
    """Reads `1+0.01` as milliseconds."""
    base, _, increment = text.partition("+")
    return round(1000 * float(base)), round(1000 * float(increment or 0))


def main():
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--engine", default="target/release/rukh", help="command line of the engine")
    parser.add_argument("--option", action="append", default=[], metavar="Name=Value")
    parser.add_argument("--clock", type=clock, default=(1000, 10), metavar="BASE+INCREMENT", help="in seconds")
    parser.add_argument("--games", type=int, default=100)
    parser.add_argument("--concurrency", type=int, default=1, metavar="N", help="number of games played at a time")
    parser.add_argument("--pin", type=int, default=0, metavar="CORES", help="bind each game to this many cores")
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="busy processes on the cores of each game")
    parser.add_argument("--plies", type=int, default=400, help="a longer game is a draw")
    parser.add_argument("--plans", action="store_true", help="compare with the engine's own times")
    parser.add_argument("--seconds", type=float, default=0, metavar="S", help="start no new game after this time")
    parser.add_argument("--file", default="target/clock-games.jsonl", help="file that the games are appended to")
    arguments = parser.parse_args()
    done = []
    if os.path.exists(arguments.file):
        with open(arguments.file, encoding="utf-8") as lines:
            done = [json.loads(line) for line in lines]
    run(arguments, done)
    sys.exit(1 if report(done) else 0)


if __name__ == "__main__":
    main()
