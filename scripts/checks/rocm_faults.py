#!/usr/bin/env python3
"""Plays games of the engine against itself on the emulator, with faults injected at random, and counts the games that a
fault would lose: on time, by an illegal move, or without a move. Needs only Python and a build of the engine.

usage: cargo build --workspace && scripts/checks/rocm_faults.py [--games 200] [--hangs] [--file FILE]

One engine plays both sides from a random opening, with a clock for each side and few evaluations a move. A second
engine without a GPU checks every move. In each game one to three calls of ROCm's libraries fail; the function, the
number of the call and the status are random. With --hangs, in every fourth game the card hangs instead. Each game is a
line of the file. A run that was interrupted goes on where it stopped, and --games 0 only reports what the file has.
"""
import argparse
import json
import math
import os
import queue
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

LIBRARIES = ["libamdhip64.so", "libhiprtc.so", "librocblas.so", "libhipblaslt.so"]
BACKENDS = ["rocm-fp16", "rocm-bf16", "rocm", "auto"]
HIP_STATUSES = [1, 2, 700, 719, 999]
OTHER_STATUSES = [3, 6]
# With the shortest clock, a move is due before a hang is noticed; with the longest, a busy machine has time enough.
CLOCKS_MS = [10_000, 40_000, 160_000]
INCREMENT_MS = 500
# The longest wait for any answer beyond the clock. An engine that is silent for longer has lost its game.
PATIENCE = 60.0
# The longest wait for the engine's end after `quit`.
QUIT_PATIENCE = 60.0
# The beginnings of the emulator's lines about a fault that has happened and about a call.
INJECTED = "rocm-emulator injected "
CALL = "rocm-emulator: "


class Engine:
    """A running engine whose lines are read by threads."""

    def __init__(self, command, settings):
        environment = {**os.environ, "XDG_CONFIG_HOME": "/dev/null/none", **settings}
        self.process = subprocess.Popen(
            command, env=environment, text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        self.lines, self.calls, self.injected = queue.Queue(), [], []
        self.readers = [threading.Thread(target=read, daemon=True) for read in (self.read, self.read_stderr)]
        for reader in self.readers:
            reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def read_stderr(self):
        for line in self.process.stderr:
            if line.startswith(INJECTED):
                self.injected.append(line[len(INJECTED):].strip())
            elif line.startswith(CALL) and line.endswith(" = 0\n"):
                self.calls.append(line[len(CALL):-len(" = 0\n")])

    def send(self, line):
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass

    def until(self, prefix, seconds):
        """The lines up to the one that begins with `prefix`; None if it does not come in time."""
        end, lines = time.monotonic() + seconds, []
        while True:
            try:
                line = self.lines.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                return None
            if line is None:
                return None
            lines.append(line)
            if line.startswith(prefix):
                return lines

    def ready(self, seconds=PATIENCE):
        self.send("isready")
        return self.until("readyok", seconds)

    def ask(self, line):
        self.send(line)
        return self.ready()

    def close(self):
        """Ends the engine. Returns its exit status; None if it had to be killed."""
        self.send("quit")
        try:
            status = self.process.wait(QUIT_PATIENCE)
        except subprocess.TimeoutExpired:
            status = None
            self.process.kill()
            self.process.wait()
        for reader in self.readers:
            reader.join(PATIENCE)
        return status


def options(rng):
    """Random options of the backend. Small batches keep the emulator quick."""
    return ",".join([
        "warm_up=" + rng.choice(["true", "false"]), "tune=off", "max_batch=2",
        "streams=" + rng.choice(["1", "2"]), "graph=" + rng.choice(["true", "false"]),
        "fork=" + rng.choice(["0", "2"]), "few_rows=" + rng.choice(["0", "8"]),
        "wait=" + rng.choice(["block", "spin"]), "attention=" + rng.choice(["auto", "matrix", "other", "any"]),
    ])


def command(arguments, backend, chosen):
    network = ["-w", arguments.network, f"--backend={backend}", "-o", chosen]
    return [arguments.engine, *network, "--minibatch-size=2", "--move-overhead=50", "--nodes-as-playouts"]


def call_counts(arguments, settings):
    """How often each function is called in a short search without faults."""
    chosen = "warm_up=false,tune=off,max_batch=2,streams=1,graph=true,fork=2,few_rows=0,wait=block"
    engine = Engine(command(arguments, "rocm-fp16", chosen), {**settings, "RUKH_EMULATOR_LOG": "1"})
    engine.send("go nodes 12")
    lines = engine.until("bestmove", 10 * PATIENCE)
    engine.close()
    counts = Counter(engine.calls)
    if lines is None or len(counts) < 10:
        sys.exit(f"the engine does not use the emulator: {lines}")
    counts["execution"] = counts["hipMemcpyAsync"] + counts["hipModuleLaunchKernel"]
    return counts


def any_call(rng, count):
    """The number of a call: one of the first, or one later in the game."""
    if rng.random() < 0.5:
        return rng.randint(1, 2 * count)
    return int(math.exp(rng.uniform(0, math.log(30 * count))))


def faults(rng, counts):
    """A value of RUKH_EMULATOR_FAIL: one to three calls, each with a status."""
    entries = []
    for _ in range(rng.randint(1, 3)):
        function = rng.choice(sorted(counts))
        statuses = HIP_STATUSES if function.startswith(("hip", "exec")) else OTHER_STATUSES
        entries.append(f"{function}:{any_call(rng, counts[function])}={rng.choice(statuses)}")
    return ",".join(entries)


def play(arguments, number, counts, base):
    rng = random.Random(f"{arguments.seed}-{number}")
    backend, chosen, settings = rng.choice(BACKENDS), options(rng), dict(base)
    if arguments.hangs and number % 4 == 3:
        settings["RUKH_EMULATOR_HANG"] = str(any_call(rng, counts["execution"]))
        chosen += ",timeout=1"
    else:
        settings["RUKH_EMULATOR_FAIL"] = faults(rng, counts)
    moves, clocks = [], 2 * [rng.choice(CLOCKS_MS)]
    game = {
        "game": number, "backend": backend, "options": chosen,
        "fail": settings.get("RUKH_EMULATOR_FAIL", ""), "hang": settings.get("RUKH_EMULATOR_HANG", ""),
        "clock": clocks[0], "plies": 0, "unsearched": [], "said": [], "lost": None,
    }
    referee = Engine([arguments.engine, "--backend=trivial", "--threads=1"], {})
    engine = Engine(command(arguments, backend, chosen), settings)
    # A few moves of the referee, with different lengths of search, are the opening.
    for _ in range(rng.randint(2, 6)):
        referee.send("position startpos" + (" moves " + " ".join(moves) if moves else ""))
        referee.send(f"go nodes {rng.randint(1, 40)}")
        moves.append(referee.until("bestmove", PATIENCE)[-1].split()[1])
    # Half of the games are the second of a session, so that a lost device is tried again.
    rounds = rng.randint(1, 2)
    begin = time.monotonic()
    for round_number in range(rounds):
        game["lost"] = game["lost"] or play_round(arguments, engine, referee, list(moves), list(clocks), game)
        if round_number + 1 < rounds and game["lost"] is None:
            lines = engine.ask("ucinewgame")
            if lines is None:
                game["lost"] = "ucinewgame was not answered"
            else:
                game["said"] += messages(lines)
    status = engine.close()
    if status != 0 and game["lost"] is None:
        game["lost"] = f"status {status} after quit"
    referee.close()
    game["injected"], game["seconds"] = engine.injected, round(time.monotonic() - begin, 1)
    return game


def messages(lines):
    return [line for line in lines if line.startswith("info string")]


def is_searched(lines):
    """Whether a line reports the result of a search."""
    return any(line.startswith("info ") and " nodes " in line and " pv " in line for line in lines)


def play_round(arguments, engine, referee, moves, clocks, game):
    """Plays one game. Returns why it was lost, or None."""
    lines = engine.ready(3 * PATIENCE)
    if lines is None:
        return "isready was not answered"
    game["said"] += messages(lines)
    for ply in range(arguments.plies):
        side, position = len(moves) % 2, "position startpos moves " + " ".join(moves)
        own = "w" if side == 0 else "b"
        other = "b" if side == 0 else "w"
        increments = f"{own}inc {INCREMENT_MS} {other}inc {INCREMENT_MS}"
        begin = time.monotonic()
        engine.send(position)
        clock = f"{own}time {clocks[side]} {other}time {clocks[1 - side]} {increments}"
        engine.send(f"go {clock} nodes {arguments.nodes}")
        lines = engine.until("bestmove", clocks[side] / 1000 + PATIENCE)
        elapsed = int(1000 * (time.monotonic() - begin))
        if lines is None:
            return f"no move at ply {ply}, status {engine.process.poll()}"
        game["said"] += messages(lines)
        game["plies"] += 1
        move = lines[-1].split()[1] if len(lines[-1].split()) > 1 else ""
        if elapsed > clocks[side]:
            return f"on time at ply {ply}: {elapsed} of {clocks[side]} ms"
        clocks[side] += INCREMENT_MS - elapsed
        complaint = referee.ask(f"{position} {move}")
        if move == "0000" or any("error" in line for line in complaint):
            # The referee knows whether the game was over.
            referee.ask(position)
            referee.send("go nodes 1")
            if referee.until("bestmove", PATIENCE)[-1].split()[1] != "0000":
                return f"by the move {move!r} at ply {ply}"
            return None
        if not is_searched(lines):
            game["unsearched"].append([ply, elapsed, lines[-3:]])
        moves.append(move)
    return None


def library(function):
    known = [name for name in ("hiprtc", "hipblasLt", "hip", "rocblas") if function.startswith(name)]
    return known[0] if known else function


def report(games):
    """Prints what happened. Returns the lost games."""
    lost = [game for game in games if game["lost"]]
    kinds = Counter()
    functions = set()
    for fault in (fault for game in games for fault in game["injected"]):
        function, _, rest = fault.partition(":")
        functions.add(function)
        kinds["hang" if function == "hang" else f"{library(function)}={rest.split('=')[1]}"] += 1
    taken_over = sum(any("takes over" in line for line in game["said"]) for game in games)
    again = sum(any("evaluates again" in line for line in game["said"]) for game in games)
    on_time = sum(game["lost"].startswith("on time") for game in lost)
    by_move = sum(game["lost"].startswith(("by the move", "no move")) for game in lost)
    unsearched = Counter(bool(game["hang"]) for game in games for _ in game["unsearched"])
    print(f"{len(games)} games, {sum(game['plies'] for game in games)} moves; no evaluation was done in time for "
          f"{unsearched[True]} moves with a hang and {unsearched[False]} without")
    print(f"{sum(kinds.values())} faults happened in {sum(bool(game['injected']) for game in games)} games, "
          f"in {len(functions)} functions; by library and status: "
          + ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items())))
    print(f"the processor took over in {taken_over} games, and the card came back in {again}")
    print(f"lost: {on_time} on time, {by_move} by an illegal or no move, {len(lost) - on_time - by_move} otherwise")
    return lost


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=int, default=200)
    parser.add_argument("--engine", default="target/debug/rukh")
    parser.add_argument("--emulator", default=None, help="the emulator's library; by default beside the engine")
    parser.add_argument("--network", default="<embedded>")
    parser.add_argument("--plies", type=int, default=6)
    parser.add_argument("--nodes", type=int, default=6, help="the most evaluations for a move")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--hangs", action="store_true")
    parser.add_argument("--file", default="target/rocm-faults.jsonl")
    arguments = parser.parse_args()
    beside = Path(arguments.engine).resolve().parent
    candidates = [Path(arguments.emulator)] if arguments.emulator else [
        beside / "librocm_emulator.so", beside / "deps" / "librocm_emulator.so"]
    emulator = next((path.resolve() for path in candidates if path.is_file()), None)
    if emulator is None:
        sys.exit(f"the emulator is not at {candidates[0]}: run `cargo build --workspace`")
    path = Path(arguments.file)
    path.parent.mkdir(parents=True, exist_ok=True)
    done = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    with tempfile.TemporaryDirectory() as folder:
        for name in LIBRARIES:
            (Path(folder) / name).symlink_to(emulator)
        kernels = Path(folder) / "rocblas" / "library"
        kernels.mkdir(parents=True)
        (kernels / "TensileLibrary_lazy_gfx1100.dat").touch()
        settings = {"RUKH_ROCM_LIBRARY_PATH": folder, "XDG_CACHE_HOME": folder}
        counts = call_counts(arguments, settings) if len(done) < arguments.games else Counter()
        print(f"{len(counts)} functions; {len(done)} games are done", flush=True)
        for number in range(len(done), arguments.games):
            game = play(arguments, number, counts, settings)
            done.append(game)
            with path.open("a") as file:
                file.write(json.dumps(game) + "\n")
            print(number + 1, game["plies"], "plies", game["seconds"], "s", *game["injected"],
                  game["lost"] or "fine", flush=True)
    lost = report(done)
    for game in lost:
        print(json.dumps(game))
    sys.exit(1 if lost else 0)


if __name__ == "__main__":
    main()
