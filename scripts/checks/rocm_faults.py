#!/usr/bin/env python3
"""Plays games of the engine against itself on the emulator, with faults injected at random, and counts the games that a
fault would lose: on time, by an illegal move, or without a move. Needs only Python and a build of the engine.

usage: cargo build --workspace && scripts/checks/rocm_faults.py [--games 200] [--hangs] [--file target/rocm-faults.jsonl]

One engine plays both sides from a random opening, with a clock for each side. A second engine without a GPU checks
every move. In each game one to three calls of ROCm's libraries fail; the function, the number of the call and the
status are random. With --hangs, in every fourth game the card hangs instead. Each game is a line of the file. A run
that was interrupted goes on where it stopped.
"""
import argparse
import json
import os
import queue
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

LIBRARIES = ["libamdhip64.so", "libhiprtc.so", "librocblas.so", "libhipblaslt.so"]
BACKENDS = ["rocm-fp16", "rocm-bf16", "rocm", "auto"]
HIP_STATUSES = [1, 2, 700, 719, 999]
OTHER_STATUSES = [3, 6]
# The longest wait for any answer beyond the clock. An engine that is silent for longer has lost its game.
PATIENCE = 60.0


class Engine:
    """A running engine whose lines are read by a thread."""

    def __init__(self, command, settings):
        environment = {**os.environ, "XDG_CONFIG_HOME": "/dev/null/none", **settings}
        self.process = subprocess.Popen(
            command, env=environment, text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        self.lines, self.calls = queue.Queue(), []
        threading.Thread(target=self.read, daemon=True).start()
        threading.Thread(target=self.read_calls, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def read_calls(self):
        for line in self.process.stderr:
            if line.startswith("rocm-emulator: ") and line.endswith(" = 0\n"):
                self.calls.append(line[len("rocm-emulator: "):-len(" = 0\n")])

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

    def ask(self, line, seconds=PATIENCE):
        self.send(line)
        self.send("isready")
        return self.until("readyok", seconds)

    def close(self):
        self.send("quit")
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def options(rng):
    """Random options of the backend. Small batches keep the emulator quick."""
    return ",".join([
        "warm_up=" + rng.choice(["true", "false"]), "tune=off", "max_batch=2",
        "streams=" + rng.choice(["1", "2"]), "graph=" + rng.choice(["true", "false"]),
        "fork=" + rng.choice(["0", "2"]), "few_rows=" + rng.choice(["0", "8"]),
        "wait=" + rng.choice(["block", "spin"]),
    ])


def command(arguments, backend, chosen):
    network = ["-w", arguments.network, f"--backend={backend}", "--minibatch-size=2", "--move-overhead=50"]
    return [arguments.engine, *network, "-o", chosen]


def call_counts(arguments, settings):
    """How often each function is called in a short search without faults."""
    chosen = "warm_up=false,tune=off,max_batch=2,streams=1,graph=true,fork=2,few_rows=0,wait=block"
    engine = Engine(command(arguments, "rocm-fp16", chosen), {**settings, "RUKH_EMULATOR_LOG": "1"})
    engine.send("go nodes 12")
    lines = engine.until("bestmove", 10 * PATIENCE)
    engine.close()
    counts = {}
    for call in engine.calls:
        counts[call] = counts.get(call, 0) + 1
    if lines is None or "hipStreamCreateWithFlags" not in counts and len(counts) < 10:
        sys.exit(f"the engine does not use the emulator: {lines}")
    counts["execution"] = sum(counts.get(call, 0) for call in ["hipMemcpyAsync", "hipModuleLaunchKernel"])
    return counts


def faults(rng, counts):
    """A value of RUKH_EMULATOR_FAIL: one to three calls, each with a status."""
    entries = []
    for _ in range(rng.randint(1, 3)):
        function = rng.choice(sorted(counts))
        statuses = HIP_STATUSES if function.startswith(("hip", "exec")) else OTHER_STATUSES
        call = rng.randint(1, max(1, 2 * counts[function]))
        entries.append(f"{function}:{call}={rng.choice(statuses)}")
    return ",".join(entries)


def play(arguments, number, counts, base):
    rng = random.Random(f"{arguments.seed}-{number}")
    backend, chosen, settings = rng.choice(BACKENDS), options(rng), dict(base)
    hangs = arguments.hangs and number % 4 == 3
    if hangs:
        settings["RUKH_EMULATOR_HANG"] = str(rng.randint(1, 2 * counts["execution"]))
        chosen += ",timeout=2"
    else:
        settings["RUKH_EMULATOR_FAIL"] = faults(rng, counts)
    game = {
        "game": number, "backend": backend, "options": chosen,
        "fail": settings.get("RUKH_EMULATOR_FAIL", ""), "hang": settings.get("RUKH_EMULATOR_HANG", ""),
        "plies": 0, "said": [], "lost": None,
    }
    referee = Engine([arguments.engine, "--backend=trivial", "--threads=1"], {})
    engine = Engine(command(arguments, backend, chosen), settings)
    moves, clocks = [], [arguments.time_ms, arguments.time_ms]
    # A few moves of the referee, with different lengths of search, are the opening.
    for _ in range(rng.randint(2, 6)):
        referee.send("position startpos" + (" moves " + " ".join(moves) if moves else ""))
        referee.send(f"go nodes {rng.randint(1, 40)}")
        moves.append(referee.until("bestmove", PATIENCE)[-1].split()[1])
    # Half of the games are the second of a session, so that a lost device is tried again.
    rounds = rng.randint(1, 2)
    for round_number in range(rounds):
        game["lost"] = game["lost"] or play_round(arguments, engine, referee, list(moves), list(clocks), game)
        if round_number + 1 < rounds and game["lost"] is None and engine.ask("ucinewgame") is None:
            game["lost"] = "ucinewgame was not answered"
    engine.close()
    referee.close()
    return game


def play_round(arguments, engine, referee, moves, clocks, game):
    """Plays one game. Returns why it was lost, or None."""
    if engine.ask("isready", 3 * PATIENCE) is None:
        return "isready was not answered"
    for ply in range(arguments.plies):
        side, position = len(moves) % 2, "position startpos moves " + " ".join(moves)
        own = "w" if side == 0 else "b"
        other = "b" if side == 0 else "w"
        increments = f"{own}inc {arguments.increment_ms} {other}inc {arguments.increment_ms}"
        begin = time.monotonic()
        engine.send(position)
        engine.send(f"go {own}time {clocks[side]} {other}time {clocks[1 - side]} {increments}")
        lines = engine.until("bestmove", clocks[side] / 1000 + PATIENCE)
        elapsed = int(1000 * (time.monotonic() - begin))
        if lines is None:
            return f"no move at ply {ply}, status {engine.process.poll()}"
        game["said"] += [line for line in lines if line.startswith("info string")]
        game["plies"] += 1
        move = lines[-1].split()[1] if len(lines[-1].split()) > 1 else ""
        if elapsed > clocks[side]:
            return f"on time at ply {ply}: {elapsed} of {clocks[side]} ms"
        clocks[side] += arguments.increment_ms - elapsed
        complaint = referee.ask(f"{position} {move}")
        if move == "0000" or any("error" in line for line in complaint):
            # The referee knows whether the game was over.
            referee.ask(position)
            referee.send("go nodes 1")
            if referee.until("bestmove", PATIENCE)[-1].split()[1] != "0000":
                return f"by the move {move!r} at ply {ply}"
            return None
        moves.append(move)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=int, default=200)
    parser.add_argument("--engine", default="target/debug/rukh")
    parser.add_argument("--emulator", default=None, help="the emulator's library; by default beside the engine")
    parser.add_argument("--network", default="<embedded>")
    parser.add_argument("--plies", type=int, default=8)
    parser.add_argument("--time-ms", type=int, default=30_000)
    parser.add_argument("--increment-ms", type=int, default=1000)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--hangs", action="store_true")
    parser.add_argument("--file", default="target/rocm-faults.jsonl")
    arguments = parser.parse_args()
    beside = Path(arguments.engine).resolve().parent
    candidates = [Path(arguments.emulator)] if arguments.emulator else [
        beside / "librocm_emulator.so", beside / "deps" / "librocm_emulator.so"]
    library = next((path.resolve() for path in candidates if path.is_file()), None)
    if library is None:
        sys.exit(f"the emulator is not at {candidates[0]}: run `cargo build --workspace`")
    path = Path(arguments.file)
    path.parent.mkdir(parents=True, exist_ok=True)
    done = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    with tempfile.TemporaryDirectory() as folder:
        for name in LIBRARIES:
            (Path(folder) / name).symlink_to(library)
        kernels = Path(folder) / "rocblas" / "library"
        kernels.mkdir(parents=True)
        (kernels / "TensileLibrary_lazy_gfx1100.dat").touch()
        settings = {"RUKH_ROCM_LIBRARY_PATH": folder, "XDG_CACHE_HOME": folder}
        counts = call_counts(arguments, settings)
        print(f"{len(counts)} functions; {len(done)} games are done", flush=True)
        for number in range(len(done), arguments.games):
            game = play(arguments, number, counts, settings)
            done.append(game)
            with path.open("a") as file:
                file.write(json.dumps(game) + "\n")
            print(number + 1, game["plies"], "plies", game["lost"] or "fine", flush=True)
    lost = [game for game in done if game["lost"]]
    taken_over = sum(any("takes over" in line for line in game["said"]) for game in done)
    print(f"{len(done)} games, {sum(game['plies'] for game in done)} moves, "
          f"{taken_over} games in which the processor took over, {len(lost)} lost")
    for game in lost:
        print(json.dumps(game))
    sys.exit(1 if lost else 0)


if __name__ == "__main__":
    main()
