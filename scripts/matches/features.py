#!/usr/bin/env python3
"""Measures search features: many variants of one binary play against its classic search, with an SPRT for each.
With `--base-engine` they play against another engine instead, such as lc0.

    scripts/matches/features.py --engine target/release/rukh --weights net.pb.gz --nodes 800 --pairs 200 \\
        --concurrency 16 --save features.jsonl --table features.md

A variant is a set of options. `--list` shows the known ones; `--variant NAME` plays one of them, and
`--variant 'NAME:Option=Value,Option=Value'` a new one. Without `--variant`, all known ones are played. Each opening is
played twice, with the colours swapped; the two games are a pair. The variants take turns, so that a run that is cut
short by `--seconds` has played about as many pairs of each. A variant is done when its SPRT has accepted a hypothesis,
or after `--pairs` pairs.

The SPRT is the generalised one on pairs (the five results of a pair count as numbers): with the mean score m and the
variance v of n pairs, the log likelihood ratio is n (s1 - s0) (2 m - s0 - s1) / (2 v), where s0 and s1 are the expected
scores at `--elo0` and `--elo1`.

Every pair is appended to the file `--save` when it ends. The same command plays the pairs that are missing there. With
`--table`, each variant's result is written to a Markdown table, with the seed, the network and the commit; a later run
of the same match replaces its row.

    scripts/matches/features.py --engine "target/release/rukh --backend=rocm-fp16" --base-engine lc0 \\
        --base-option Backend=cuda-fp16 --variant default: --weights net.pb.gz --nodes 800

With a limit of nodes, Rukh and lc0 get SmartPruningFactor=0 unless an option says otherwise, so that they use them all.
lc0 goes beyond the limit by up to one batch. The mean of what each side reports is saved with every pair, and `--base-nodes` gives the base engine another number.

Each of the `--concurrency` referees is a Python process with two engines, which stay alive from game to game. Options
that the last variant changed are set back to their defaults.

Needs python-chess (PyPI `chess`).
"""

import argparse
import concurrent.futures
import hashlib
import json
import math
import multiprocessing
import os
import random
import shlex
import subprocess
import sys
import time

import chess

import match

# What can be measured: the name, and the options that turn the feature on.
VARIANTS = {
    "classic": "",
    "rule50-exact": "MoveRuleBucketSize=1",
    "rule50-shared": "MoveRuleBucketSize=16",
    "uncertainty-weighting": "UseUncertaintyWeighting=true",
    "cpuct-uncertainty": "UseCpuctUncertainty=true",
    "variance-cpuct": "UseVarianceScaling=true",
    "variance-cpuct-katago": "UseVarianceScaling=true,CpuctUtilityStdevPrior=0.4,"
    "CpuctUtilityStdevPriorWeight=2,CpuctUtilityStdevScale=0.85",
    "optimistic-policy": "PolicyOptimism=0.5",
    "moves-left-wide": "MovesLeftThreshold=0.5",
    "moves-left-strong": "MovesLeftMaxEffect=0.07,MovesLeftSlope=0.0054",
    "prefetch-classic": "PrefetchByVisits=false",
    "root-temperature-1.2": "RootPolicyTemperature=1.2",
    "root-temperature-1.5": "RootPolicyTemperature=1.5",
    "graph-backup": "UseGraphBackup=true",
    "value-weights": "ValueWeightExponent=0.25",
    "katago": "UseVarianceScaling=true,CpuctUtilityStdevPrior=0.4,CpuctUtilityStdevPriorWeight=2,"
    "CpuctUtilityStdevScale=0.85,ValueWeightExponent=0.25",
}


class Engine:
    """An engine process. It is driven directly, because python-chess takes longer than a short search."""

    def __init__(self, command):
        self.process = subprocess.Popen(
            shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.defaults, self.changed = {}, set()
        self.send("uci")
        for line in self.until("uciok"):
            words = line.split()
            if words[:2] == ["option", "name"] and "default" in words:
                name = " ".join(words[2 : words.index("type")])
                after = words[words.index("default") + 1 :]
                end = min((after.index(word) for word in ("min", "var") if word in after), default=len(after))
                self.defaults[name.lower()] = " ".join(after[:end])

    def send(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def until(self, last):
        """The lines up to the one that begins with `last`."""
        lines = []
        for line in self.process.stdout:
            lines.append(line.rstrip("\n"))
            if line.startswith(last):
                return lines
        raise EOFError(f"the engine ended: {lines[-3:]}")

    def configure(self, fixed, options, at_nodes):
        """Sets `options`, and all others that were changed before back to their defaults. `at_nodes` says that searches
        are limited by nodes.
        """
        given = fixed | options
        if at_nodes and match.uci_engine.PRUNING.lower() in self.defaults:
            given = match.uci_engine.exact_nodes(given)
        wanted = {name.lower(): (name, value) for name, value in given.items()}
        for name in self.changed - wanted.keys():
            self.send(f"setoption name {name} value {self.defaults[name]}")
        for name, value in wanted.values():
            if name.lower() not in self.defaults:
                raise SystemExit(f"the engine has no option {name}")
            self.send(f"setoption name {name} value {value}")
        self.changed = set(wanted)
        self.send("ucinewgame")
        self.send("isready")
        for line in self.until("readyok"):
            if "error" in line:
                raise SystemExit(f"{options}: {line}")

    def play(self, position, go):
        """The best move, and nodes per second, score and the search's evaluations."""
        self.send(position)
        self.send(go)
        lines = self.until("bestmove")
        facts = {}
        for line in reversed(lines):
            words = line.split()
            if words[0] == "info" and "score" in words:
                for word in ("nodes", "nps", "time", "cp", "mate"):
                    if word in words:
                        facts[word] = int(words[words.index(word) + 1])
                break
        return lines[-1].split()[1], facts

    def end(self):
        try:
            self.send("quit")
            self.process.wait(10)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()


class Count:
    """What an engine reports about its searches in one game."""

    def __init__(self):
        self.moves = self.visits = 0
        self.new_nodes = self.seconds = 0.0

    def add(self, facts):
        if "nodes" in facts:
            # `nodes` includes the part of the tree that was kept from earlier moves, as the limit does.
            self.moves += 1
            self.visits += facts["nodes"]
        if "nps" in facts and "time" in facts:
            self.new_nodes += facts["nps"] * facts["time"] / 1000
            self.seconds += facts["time"] / 1000

    def speed(self):
        return round(self.new_nodes / self.seconds) if self.seconds else 0

    def mean_visits(self):
        return round(self.visits / self.moves, 1) if self.moves else 0


def play_game(engines, board, go, arguments):
    """Plays a game; `engines` are White's and Black's, and `go` their commands. Returns the result, the counts of both
    sides, and the game's length."""
    start = f"position fen {board.fen()}"
    moves, lost_for = [], 0
    counts = Count(), Count()
    while True:
        end = match.end_of(board)
        if end is not None:
            return end[0], counts, board.ply()
        if board.ply() >= arguments.max_plies:
            return "1/2-1/2", counts, board.ply()
        side = 0 if board.turn == chess.WHITE else 1
        move, facts = engines[side].play(f"{start} moves {' '.join(moves)}" if moves else start, go[side])
        counts[side].add(facts)
        try:
            board.push_uci(move)
        except ValueError:
            return ("0-1" if side == 0 else "1-0"), counts, board.ply()
        moves.append(move)
        score = facts.get("cp", 0) or 100_000 * (facts.get("mate", 0) > 0) - 100_000 * (facts.get("mate", 0) < 0)
        white_score = score if side == 0 else -score
        if arguments.resign and abs(white_score) >= arguments.resign:
            same_side = white_score * lost_for >= 0
            lost_for = (lost_for if same_side else 0) + (1 if white_score > 0 else -1)
            # Each engine has reported such a score in three moves in a row.
            if abs(lost_for) >= 6:
                return ("1-0" if lost_for > 0 else "0-1"), counts, board.ply()
        else:
            lost_for = 0


# The engines and the openings of this referee process.
REFEREE = {}


def begin_referee(arguments):
    REFEREE["arguments"] = arguments
    REFEREE["openings"] = match.read_openings(arguments.openings, arguments.seed)


def play_pair(name, options, number):
    """Plays both games of a pair. Returns the variant's points in each, and what the engines report."""
    arguments = REFEREE["arguments"]
    if "engines" not in REFEREE:
        ours = f"{arguments.engine} --show-hidden"
        REFEREE["engines"] = [Engine(ours), Engine(arguments.base_engine or ours)]
    variant, base = REFEREE["engines"]
    openings = REFEREE["openings"]
    if arguments.movetime:
        go = [f"go movetime {arguments.movetime}"] * 2
    else:
        go = [f"go nodes {arguments.nodes}", f"go nodes {arguments.base_nodes or arguments.nodes}"]
    record = {"variant": name, "pair": number, "points": [], "plies": [], "nps": [], "visits": []}
    for game in (0, 1):
        variant.configure(arguments.fixed, parsed(options), not arguments.movetime)
        base.configure(arguments.fixed, arguments.base, not arguments.movetime)
        board = openings[number % len(openings)].copy()
        # The variant has White in the first game, and Black in the second.
        order = 1 if game == 0 else -1
        result, counts, plies = play_game((variant, base)[::order], board, go[::order], arguments)
        record["points"].append(match.points_of(result, game == 0))
        record["plies"].append(plies)
        record["nps"].append([count.speed() for count in counts[::order]])
        record["visits"].append([count.mean_visits() for count in counts[::order]])
    return record


def parsed(options):
    """Turns `Name=Value,Name=Value` into a dict."""
    return match.uci_engine.parse_options([setting for setting in options.split(",") if setting])


def expected_score(elo):
    return 1 / (1 + 10 ** (-elo / 400))


def log_likelihood_ratio(pairs, elo0, elo1):
    """The ratio of the generalised SPRT. `pairs` are the scores of pairs, 0 to 1."""
    if len(pairs) < 2:
        return 0.0
    mean = sum(pairs) / len(pairs)
    # A pair of each result is added to the variance, so that a few equal pairs decide nothing.
    squares = sum((pair - mean) ** 2 for pair in pairs) + sum((pair - 0.5) ** 2 for pair in (0, 0.25, 0.75, 1))
    variance = squares / (len(pairs) + 4)
    s0, s1 = expected_score(elo0), expected_score(elo1)
    return len(pairs) * (s1 - s0) * (2 * mean - s0 - s1) / (2 * variance)


def verdict(pairs, arguments):
    """H1, H0, or nothing while the SPRT has not decided."""
    ratio = log_likelihood_ratio(pairs, arguments.elo0, arguments.elo1)
    bound = math.log((1 - arguments.error) / arguments.error)
    return "H1" if ratio >= bound else "H0" if ratio <= -bound else ""


class Progress:
    """The finished pairs of all variants."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.pairs = {name: {} for name in arguments.variants}
        self.records = {name: [] for name in arguments.variants}
        if os.path.exists(arguments.save):
            with open(arguments.save, encoding="utf-8") as lines:
                for line in lines:
                    record = json.loads(line)
                    # The file may hold other matches too.
                    if record["match"] == arguments.match and record["variant"] in self.pairs:
                        self.keep(record)

    def keep(self, record):
        self.pairs[record["variant"]][record["pair"]] = sum(record["points"]) / 2
        self.records[record["variant"]].append(record)

    def add(self, record):
        record["match"] = self.arguments.match
        with open(self.arguments.save, "a", encoding="utf-8") as file:
            print(json.dumps(record), file=file, flush=True)
        self.keep(record)

    def scores(self, name):
        return list(self.pairs[name].values())

    def is_done(self, name):
        return len(self.pairs[name]) >= self.arguments.pairs or bool(verdict(self.scores(name), self.arguments))

    def missing(self, running):
        """The variant and the number of the pair to play next: one of the variant with the fewest pairs. None if all are
        done or running."""
        best = None
        for name in self.pairs:
            busy = {number for other, number in running if other == name}
            taken = len(self.pairs[name]) + len(busy)
            if self.is_done(name) or taken >= self.arguments.pairs or (best and best[0] <= taken):
                continue
            number = next(number for number in range(taken + 1) if number not in self.pairs[name] and number not in busy)
            best = taken, name, number
        return best and best[1:]

    def summary(self, name):
        points = {}
        for record in self.records[name]:
            points |= {2 * record["pair"] + game: record["points"][game] for game in (0, 1)}
        if not points:
            return "no games"
        ratio = log_likelihood_ratio(self.scores(name), self.arguments.elo0, self.arguments.elo1)
        return f"{match.summary(points)}, LLR {ratio:+.2f} {verdict(self.scores(name), self.arguments)}".rstrip()

    def pentanomial(self, name):
        counts = [0] * 5
        for score in self.scores(name):
            counts[round(score * 4)] += 1
        return counts

    def means(self, name, what):
        """The means over all games of what the variant and the base report."""
        games = [game for record in self.records[name] for game in record.get(what, [])]
        return [sum(side) / len(games) for side in zip(*games)] or [0, 0]

    def row(self, name):
        arguments = self.arguments
        pairs = self.scores(name)
        mean = sum(pairs) / len(pairs)
        variance = sum((pair - mean) ** 2 for pair in pairs) / max(len(pairs) - 1, 1)
        error = math.sqrt(variance / len(pairs))
        # Adding 0 turns a negative zero into a positive one.
        low, middle, high = (round(match.elo(mean + factor * error)) + 0 for factor in (-1.96, 0, 1.96))
        ratio = log_likelihood_ratio(pairs, arguments.elo0, arguments.elo1)
        options = arguments.variants[name].replace(",", " ") or "-"
        ours, theirs = self.means(name, "nps")
        return (
            f"| {name} | {options} | {arguments.network} | {arguments.limit} | {2 * len(pairs)} | {100 * mean:.1f} % "
            f"| {middle:+d} [{low:+d}, {high:+d}] | {' '.join(map(str, self.pentanomial(name)))} "
            f"| {ratio:+.2f} {verdict(pairs, arguments)} | {ours / theirs if theirs else 0:.2f} "
            f"| {arguments.seed} | {arguments.commit} | {arguments.machine} |"
        )


HEADER = (
    "| variant | options | network | limit | games | score | Elo [95 %] | pairs 0 ½ 1 1½ 2 | LLR | speed | seed | commit "
    "| machine |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n"
)
TITLE = (
    "# Strength of the search's features\n\n"
    "Each row is a match of a variant against the classic search of the same binary, by `scripts/matches/features.py`: the\n"
    "same openings with both colours, and the same nodes or time for both. The LLR is that of the SPRT; H1 means that it\n"
    "has accepted the gain, H0 that it has rejected it. The speed is that of the variant, with the classic search as 1.\n\n"
)


def write_table(path, progress):
    """Replaces or appends the rows of this run's matches in the table at the end of the file."""
    text = TITLE + HEADER
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            text = file.read()
    lines = text.rstrip("\n").split("\n")
    for name in progress.pairs:
        if not progress.pairs[name]:
            continue
        row = progress.row(name)

        def key(line):
            cells = [cell.strip() for cell in line.split("|")]
            # Variant, options, network, limit, seed, commit and machine identify a match.
            return cells[1:5] + cells[11:14] if len(cells) == 15 else None

        places = [place for place, line in enumerate(lines) if key(line) == key(row)]
        if places:
            lines[places[0]] = row
        else:
            lines.append(row)
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def run(arguments):
    progress = Progress(arguments)
    deadline = time.monotonic() + arguments.seconds if arguments.seconds else math.inf
    running = {}
    begun, finished = time.monotonic(), 0
    context = multiprocessing.get_context("spawn")
    pool = concurrent.futures.ProcessPoolExecutor(
        arguments.concurrency, mp_context=context, initializer=begin_referee, initargs=(arguments,)
    )
    try:
        while True:
            while len(running) < arguments.concurrency and time.monotonic() < deadline:
                task = progress.missing(running.values())
                if task is None:
                    break
                name, number = task
                running[pool.submit(play_pair, name, arguments.variants[name], number)] = task
            if not running:
                break
            done, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in done:
                name, _ = running.pop(future)
                progress.add(future.result())
                finished += 1
                minutes = (time.monotonic() - begun) / 60
                rate = 2 * finished / minutes
                print(f"{name}: {progress.summary(name)} ({rate:.0f} games a minute)", flush=True)
                if arguments.table and finished % 20 == 0:
                    write_table(arguments.table, progress)
    finally:
        # Referees that are still playing end with this process; their engines see the end of their input.
        pool.shutdown(wait=False, cancel_futures=True)
        if arguments.table:
            write_table(arguments.table, progress)
        print("\nresults:")
        for name in progress.pairs:
            speeds, visits = progress.means(name, "nps"), progress.means(name, "visits")
            print(
                f"  {name:24} {progress.summary(name)}; {speeds[0]:.0f} and {speeds[1]:.0f} nodes/s; "
                f"{visits[0]:.1f} and {visits[1]:.1f} visits a move"
            )


def network_name(path):
    """The file's name and the first digits of its SHA-256."""
    if not path:
        return "embedded"
    with open(path, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    return f"{os.path.basename(path).split('.')[0]} {digest[:8]}"


def commit_here():
    command = ["git", "-C", os.path.dirname(os.path.abspath(__file__)), "rev-parse", "--short", "HEAD"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def parse_variants(chosen):
    variants = {}
    for text in chosen or [name for name in VARIANTS if name != "classic"]:
        name, colon, options = text.partition(":")
        if not colon and name not in VARIANTS:
            raise SystemExit(f"unknown variant {name!r}; --list shows the known ones")
        variants[name] = options if colon else VARIANTS[name]
    return variants


def main():
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--list", action="store_true", help="print the known variants and their options")
    parser.add_argument("--engine", default="target/release/rukh", help="command line of the engine")
    parser.add_argument("--weights", default="", help="network file of both sides")
    parser.add_argument("--both", action="append", default=[], metavar="Name=Value", help="option of both sides")
    parser.add_argument(
        "--base-option", action="append", metavar="Name=Value", help="options of the base side (Search=classic)"
    )
    parser.add_argument("--base-engine", default="", help="command line of the base side, if it is another engine")
    parser.add_argument("--variant", action="append", metavar="NAME[:OPTIONS]", help="variant to play (all)")
    parser.add_argument("--nodes", type=int, default=800, help="visits for each move")
    parser.add_argument("--base-nodes", type=int, default=0, metavar="N", help="visits of the base side, if they differ")
    parser.add_argument("--movetime", type=int, default=0, metavar="MS", help="time for each move, instead of nodes")
    parser.add_argument("--pairs", type=int, default=200, help="most pairs of games for each variant")
    parser.add_argument("--concurrency", type=int, default=1, metavar="N", help="number of games at a time")
    parser.add_argument("--seconds", type=float, default=0, metavar="S", help="start no new pair after this time")
    parser.add_argument("--elo0", type=float, default=0, help="the SPRT's hypothesis H0")
    parser.add_argument("--elo1", type=float, default=15, help="the SPRT's hypothesis H1")
    parser.add_argument("--error", type=float, default=0.05, help="the SPRT's error probabilities")
    parser.add_argument("--openings", default=match.DEFAULT_OPENINGS, help="EPD file of the openings")
    parser.add_argument("--seed", type=int, default=1, help="seed for shuffling the openings")
    parser.add_argument("--save", default="features.jsonl", help="file that finished pairs are appended to")
    parser.add_argument("--table", help="Markdown file with the table of results")
    parser.add_argument("--commit", default="", help="commit of the binary (default: that of this checkout)")
    parser.add_argument("--machine", default="-", help="name of the machine, for the table")
    parser.add_argument("--max-plies", type=int, default=400, help="score a longer game as a draw")
    parser.add_argument("--resign", type=int, default=0, metavar="CP", help="end a game when both agree (0: never)")
    arguments = parser.parse_args()
    if arguments.list:
        for name, options in VARIANTS.items():
            print(f"{name:28} {options}")
        return
    arguments.variants = parse_variants(arguments.variant)
    arguments.fixed = match.uci_engine.parse_options(arguments.both)
    if arguments.weights:
        arguments.fixed["WeightsFile"] = os.path.abspath(arguments.weights)
    if arguments.base_option is None:
        arguments.base_option = [] if arguments.base_engine else ["Search=classic"]
    arguments.base = match.uci_engine.parse_options([text for text in arguments.base_option if text])
    arguments.network = network_name(arguments.weights)
    arguments.limit = f"{arguments.movetime} ms" if arguments.movetime else f"{arguments.nodes} nodes"
    if arguments.base_nodes and not arguments.movetime:
        arguments.limit += f", base {arguments.base_nodes}"
    arguments.commit = arguments.commit or commit_here()
    # Pairs of another match in the same file are not counted.
    arguments.match = (
        f"{arguments.network}, {arguments.limit}, seed {arguments.seed}, commit {arguments.commit}, both "
        f"{sorted(arguments.both)}, base {arguments.base_engine}{sorted(arguments.base.items())}"
    )
    try:
        run(arguments)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
