#!/usr/bin/env python3
"""Measures where the server of rukh-fleet becomes the limit, with up to 1,000 simulated workers, and prints a table of
Markdown. Linux only; needs Python and nats-server.

usage: cargo build --profile quick -p rukh-fleet && scripts/checks/fleet_model.py [--workers 1,8,64,250,1000]
       [--milliseconds 0,10,100,1000] [--seconds 6]

A simulated worker has a connection of its own, pulls pieces, waits for the time of a piece, stores a result and
acknowledges the piece, as a real one does. The model is

    pieces a second = min(workers / (time of a piece + delay), capacity)

The delay is that of one worker whose pieces take no time. The capacity is that of the workers together whose pieces take
no time, on this machine, which the server shares with them. The processor time of the server for a piece says what
another machine can do.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fleet", default=ROOT / "target/quick/rukh-fleet", type=Path)
    parser.add_argument("--nats-server", default="nats-server")
    parser.add_argument("--workers", default="1,8,64,250,1000")
    parser.add_argument("--milliseconds", default="0,10,100,1000")
    parser.add_argument("--seconds", default=6.0, type=float)
    parser.add_argument("--port", default=14444, type=int)
    options = parser.parse_args()
    environment = {**os.environ, "RUKH_FLEET_SERVER": f"nats://127.0.0.1:{options.port}"}

    def call(*command, check=True):
        command = [options.fleet, *map(str, command)]
        return subprocess.run(command, env=environment, check=check, capture_output=True, text=True)

    with tempfile.TemporaryDirectory() as folder:
        listen = ["--listen", f"127.0.0.1:{options.port}", "--store", f"{folder}/store"]
        command = [options.fleet, "serve", *listen, "--nats-server", options.nats_server]
        serve = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            while call("status", check=False).returncode != 0:
                time.sleep(0.1)
            children = Path(f"/proc/{serve.pid}/task/{serve.pid}/children").read_text(encoding="ascii")
            rows = measure(options, call, int(children.split()[0]))
        finally:
            serve.terminate()
            serve.wait()
    print_table(rows)


def measure(options, call, server):
    """A row for each time of a piece and each number of workers."""
    rows = []
    for milliseconds in [float(text) for text in options.milliseconds.split(",")]:
        for workers in [int(text) for text in options.workers.split(",")]:
            longest = options.seconds + 4.0
            rate = min(40_000.0, workers / (milliseconds / 1000.0)) if milliseconds else 40_000.0
            pieces = int(rate * longest) + 2 * workers * 5
            job = f"model-{len(rows)}"
            call("submit", "test", "--job", job, "--pieces", pieces, "--milliseconds", milliseconds)
            before = cpu_seconds(server)
            found = json.loads(call("simulate", job, "--workers", workers, "--seconds", options.seconds).stdout)
            after = cpu_seconds(server)
            results = json.loads(call("status", job, "--json").stdout)["jobs"][0]["results"]
            call("remove", job)
            # The processor time includes that of connecting and of the warm-up, and so do the results.
            cost = (after - before) / max(1, results)
            rows.append((milliseconds, workers, found["pieces_per_second"], cost))
            print(rows[-1], file=sys.stderr, flush=True)
    return rows


def print_table(rows):
    no_time = [row for row in rows if row[0] == 0.0]
    delay = min(workers / rate for _, workers, rate, _ in no_time if workers == min(row[1] for row in no_time))
    print("| time of a piece | workers | pieces/s | model | server, µs of processor time a piece |")
    print("|--:|--:|--:|--:|--:|")
    for milliseconds, workers, rate, cost in rows:
        # Many connections cost the server more, so the capacity is that with as many workers.
        capacity = next((row[2] for row in no_time if row[1] == workers), max(row[2] for row in no_time))
        model = min(workers / (milliseconds / 1000.0 + delay), capacity)
        shown = "" if milliseconds == 0.0 else f"{model:,.0f}"
        print(f"| {milliseconds:g} ms | {workers:,} | {rate:,.0f} | {shown} | {1e6 * cost:.0f} |")
    print(f"\ndelay: {1000 * delay:.2f} ms")


if __name__ == "__main__":
    main()
