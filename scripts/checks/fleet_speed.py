"""The part `speed` of fleet.py: workers beside one process, and beside as many processes without a server.

Pieces are lines with a few positions each, so that many of them end in the time of a measurement. The ways are measured
in turn, several times, and the share is that of the medians. The time of processor that each way needs for a position
says where the difference is: in the engines, in the workers or in the server.
"""
import json
import os
import shlex
import signal
import statistics
import subprocess
import time

#: The seconds that a worker needs for a piece of an analysis.
PIECE_SECONDS = 1.0

#: The most positions of a piece, which is the default of `submit`.
MOST_POSITIONS = 256

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def processor_seconds(pids):
    """The time of processor that processes have used, without their children."""
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS_PER_SECOND


def make_lines(options, folder, games, number):
    """A file with at least so many positions of games, a line each."""
    path = folder / "positions.fen"
    epd = folder / "positions.epd"
    command = [options.engine, "analyze", "--backend=trivial", "--nncache=0", "--nodes=1", "--format=epd", games]
    subprocess.run([*command, f"--output={epd}", "--overwrite", "--json"], check=True, capture_output=True)
    lines = [" ".join(line.split()[:4]) + " 0 1\n" for line in epd.read_text(encoding="utf-8").splitlines()]
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(1 + number // len(lines)):
            file.writelines(lines)
    return path


def run_processes(options, lines, flags, seconds, number):
    """The positions a second of so many processes with --shard, and the microseconds of processor for each."""
    command = [options.engine, "analyze", *flags, lines, "--json", "--output=/dev/null"]
    processes = [
        subprocess.Popen(
            command + ([f"--shard={index + 1}/{number}"] if number > 1 else []),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        for index in range(number)
    ]
    time.sleep(seconds)
    used = processor_seconds(process.pid for process in processes)
    for process in processes:
        process.send_signal(signal.SIGINT)
    found = [json.loads(process.communicate()[0]) for process in processes]
    positions = sum(figures["positions"] for figures in found)
    rate = sum(figures["positions_per_second"] for figures in found)
    return {"positions_per_second": rate, "engine_us": 1e6 * used / max(1, positions)}


def look(fleet, name):
    """The figures of a job, and the time that belongs to them: the middle of the question and the answer."""
    begun = time.monotonic()
    job = fleet.job(name)
    return job, (begun + time.monotonic()) / 2


def run_workers(fleet, lines, flags, seconds, workers, per_piece, worker_flags):
    """The same of workers. They are measured from the time when each has had some pieces."""
    common = ["--positions", per_piece, "--engine", fleet.options.engine]
    fleet.call("submit", "analyze", lines, "--job", "speed2", *common, "--", *flags)
    for _ in range(workers):
        fleet.start_worker(worker_flags)
    while not (job := fleet.job("speed2")) or job["results"] < 2 * workers:
        time.sleep(0.1)
    kinds = {"engine_us": fleet.engines(), "worker_us": [worker.pid for worker in fleet.workers]}
    kinds["server_us"] = [fleet.nats_server()]
    before = {kind: processor_seconds(pids) for kind, pids in kinds.items()}
    first, begun = look(fleet, "speed2")
    time.sleep(seconds)
    job, ended = look(fleet, "speed2")
    after = {kind: processor_seconds(pids) for kind, pids in kinds.items()}
    fleet.stop_workers()
    fleet.call("remove", "speed2")
    assert job["waiting"] > 0, "the workers had nothing left to do"
    positions = (job["results"] - first["results"]) * per_piece
    figures = {kind: 1e6 * (after[kind] - before[kind]) / max(1, positions) for kind in kinds}
    return {"positions_per_second": positions / (ended - begun), **figures}


def check_waiting(fleet, options, report):
    """Pieces that wait for a millisecond."""
    seconds, workers = options.speed_seconds, options.workers
    fleet.call("submit", "test", "--job", "speed", "--pieces", int(seconds * 1000 * workers * 2))
    local = fleet.call("simulate", "speed", "--local", "--workers", workers, "--seconds", seconds)
    local = json.loads(local.stdout)["pieces_per_second"]
    for _ in range(workers):
        fleet.start_worker()
    # The window begins when all workers are at work.
    while not (job := fleet.job("speed")) or job["results"] < 500 * workers:
        time.sleep(0.2)
    before, begun = look(fleet, "speed")
    time.sleep(seconds)
    after, ended = look(fleet, "speed")
    pieces = (after["results"] - before["results"]) / (ended - begun)
    fleet.stop_workers()
    fleet.call("remove", "speed")
    figures = {"pieces_per_second": round(pieces), "local": round(local), "share": round(pieces / local, 3)}
    report("speed of pieces that wait for a millisecond", figures, True)


def check_analysis(fleet, options, folder, games, report):
    """An analysis by one process, by processes with --shard, by workers, and by one worker with as many searches."""
    seconds, workers = options.speed_seconds, options.workers
    flags = [*shlex.split(options.engine_flags), f"--nodes={options.nodes}"]
    together, alone = f"--parallelism={workers}", "--parallelism=1"
    lines = make_lines(options, folder, games, 0)
    rate = run_processes(options, lines, [*flags, together], 4.0, 1)["positions_per_second"]
    lines = make_lines(options, folder, games, int(3 * rate * (seconds + 5)))
    per_piece = max(1, min(MOST_POSITIONS, int(PIECE_SECONDS * rate / workers)))
    ways = {
        "one process": lambda: run_processes(options, lines, [*flags, together], seconds, 1),
        "processes": lambda: run_processes(options, lines, [*flags, alone], seconds, workers),
        "workers": lambda: run_workers(fleet, lines, flags, seconds, workers, per_piece, [alone]),
        "one worker": lambda: run_workers(fleet, lines, flags, seconds, 1, per_piece, [together]),
    }
    found = {name: [] for name in ways}
    for _ in range(options.rounds):
        for name, measure in ways.items():
            found[name].append(measure())
    figures = {"positions_of_a_piece": per_piece}
    for name, rounds in found.items():
        names = rounds[0].keys()
        figures[name] = {key: round(statistics.median(each[key] for each in rounds), 1) for key in names}
        figures[name]["all"] = [round(each["positions_per_second"], 1) for each in rounds]
    for name in ("processes", "workers", "one worker"):
        share = figures[name]["positions_per_second"] / figures["one process"]["positions_per_second"]
        figures[name]["share"] = round(share, 3)
    share = figures["workers"]["positions_per_second"] / figures["processes"]["positions_per_second"]
    figures["workers"]["share_of_processes"] = round(share, 3)
    report("speed of analysis", figures, True)
