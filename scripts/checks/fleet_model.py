#!/usr/bin/env python3
"""Measures where the server of rukh-fleet becomes the limit, with up to 1,000 simulated workers, and prints a table of
Markdown. Linux only; needs Python and nats-server.

usage: cargo build --profile quick -p rukh-fleet && scripts/checks/fleet_model.py [--workers 1,8,64,250,1000]
       [--milliseconds 0,1,10,100,1000] [--seconds 6]

A simulated worker has a connection of its own, pulls pieces, waits for the time of a piece, stores a result and
acknowledges the piece. Like a real one it holds pieces ahead and stores results while it works on the next piece, so
that storing takes none of its time. The model is

    pieces a second = min(workers / time of a piece, workers * pieces a second that one worker can store, capacity)

What one worker can store is measured with pieces that take no time, and so is the capacity, with as many workers. It is
that of this machine, which the server shares with the workers. The processor time of the server for a piece says what
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

# More pieces a second than the server of a small machine does.
MOST_RATE = 60_000.0


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fleet", default=ROOT / "target/quick/rukh-fleet", type=Path)
    parser.add_argument("--nats-server", default="nats-server")
    parser.add_argument("--workers", default="1,8,64,250,1000")
    parser.add_argument("--milliseconds", default="0,1,10,100,1000")
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
    # The model needs pieces that take no time.
    for milliseconds in sorted({0.0, *map(float, options.milliseconds.split(","))}):
        for workers in [int(text) for text in options.workers.split(",")]:
            longest = options.seconds + 4.0
            rate = min(MOST_RATE, workers / (milliseconds / 1000.0)) if milliseconds else MOST_RATE
            # A worker holds work for a quarter of a second ahead, and at most 256 pieces.
            held = 2 + min(256.0, 250.0 / milliseconds) if milliseconds else 258
            pieces = int(rate * longest + workers * held)
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
    no_time = {row[1]: row[2] for row in rows if row[0] == 0.0}
    fewest = min(no_time)
    stored_by_one = no_time[fewest] / fewest
    numbers = sorted(no_time)
    print("pieces a second, and in brackets those of the model:\n")
    print("| time of a piece | workers: " + " | ".join(f"{workers:,}" for workers in numbers) + " |")
    print("|--:" * (1 + len(numbers)) + "|")
    costs = []
    for milliseconds in sorted({row[0] for row in rows}):
        cells, own_costs = [], []
        for workers, rate, cost in [row[1:] for row in rows if row[0] == milliseconds]:
            # Many connections cost the server more, so the capacity is that with as many workers.
            limits = [workers * stored_by_one, no_time[workers]]
            model = f" ({min([1000.0 * workers / milliseconds, *limits]):,.0f})" if milliseconds else ""
            cells.append(f"{rate:,.0f}{model}")
            own_costs.append(f"{1e6 * cost:.0f}")
        print(f"| {milliseconds:g} ms | " + " | ".join(cells) + " |")
        costs.append(f"{milliseconds:g} ms: " + ", ".join(own_costs))
    print("\nprocessor time of the server for a piece, in µs:\n" + "\n".join(costs))


if __name__ == "__main__":
    main()
