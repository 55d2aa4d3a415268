#!/usr/bin/env python3
"""Measures how a search scales with the number of cards, simulated or real.

    scripts/matches/many_cards.py target/release/rukh --cards 1,2,4,8 --shapes t82,bt4,t1 --seconds 1,3,10
    scripts/matches/many_cards.py target/release/rukh --cards 1,2 --weights t82.pb.gz --alone

A simulated card is the backend `trivial`, which plays sane chess, with the times of a measured card (`RATES`). Each
search is made twice (see --trees): from an empty tree, and, after its first two moves, from what is left of it. A figure
is the mean of `--positions` openings, and the median of the `--rounds` rounds in which the numbers of cards take turns.
The openings are usual ones, because a search with one clearly best move finds few leaves for many cards.
The columns: visits a second; these as a multiple of the visits per card with the first number of cards; the share of the
time in which a card had no batch, of the least and of the most idle card; positions in a batch; evaluations a second, and
those of them that were for leaves (the others fill batches, and some are used later); visits a second for each
evaluation; microseconds of processor time for a visit, and how many cores are busy. Linux only; needs only Python.

`--slower 4` simulates cards that take four times as long, in searches four times as long: a machine with few cores
then shows what stops a machine with four times as many, except that more cores disturb each other more.
"""

import argparse
import os
import re
import shlex
import statistics
import tempfile

from plain_engine import PlainEngine, backend_speed

# Evaluations a second in fp16 by batch size: one H100, the driver alone, three batches in flight (`rukh backendbench
# --threads=3 --batches=100 --start-batch-size=SIZE --max-batch-size=SIZE`, 26 November 2026). A card takes as long for one
# position as for 16.
RATES = {
    "t82": {16: 22_500, 64: 36_900, 256: 37_200, 512: 40_000},
    "bt4": {16: 15_500, 64: 21_800, 256: 23_200, 512: 23_700},
    "t1": {16: 72_200, 64: 144_000, 256: 203_000, 512: 214_000},
}
STREAMS = 3

# The moves of the openings. The first is the start position, as in lc0's `benchmark`.
OPENINGS = ["", "d2d4 g8f6 c2c4 e7e6", "e2e4 c7c5 g1f3 d7d6", "e2e4 e7e5 g1f3 b8c6"]

COLUMNS = ["cards", "seconds", "tree", "visits/s", "of one", "idle %", "batch", "evals/s", "leaves %", "visits/eval",
           "us/visit", "cores"]  # fmt: skip


def simulated(shape, slower):
    """The options of a simulated card."""
    times = "/".join(f"{size}:{round(1e6 * size / rate * slower)}" for size, rate in RATES[shape].items())
    return f"times={times}"


def backend_flags(combined, backend, options, children):
    """The flags for cards, several of them behind the backend `combined`; `children` has the options of each."""
    if len(children) == 1:
        options = ",".join(filter(None, [options, children[0]]))
        return [f"--backend={backend}", f"--backend-opts={options}"]
    inside = ",".join([f"backend={backend}", *filter(None, [options]), *(f"({child})" for child in children)])
    return [f"--backend={combined}", f"--backend-opts={inside}"]


class Search:
    """What an engine has done in a search."""

    def __init__(self, engine, position, milliseconds, log):
        before, end_of_log = processor_seconds(engine.process.pid), os.path.getsize(log)
        engine.ask(f"{position}\nisready", "readyok")
        info = engine.ask(f"go movetime {milliseconds}", "bestmove")
        self.line = info[info.index("pv") + 1 :] if "pv" in info else []
        self.seconds = milliseconds / 1000
        self.processor = processor_seconds(engine.process.pid) - before
        with open(log, encoding="utf-8") as file:
            file.seek(end_of_log)
            notes = re.findall(r"devices: visits (\d+), evaluations (\d+), of leaves (\d+), waited ([\d. ]*)%, "
                               r"positions a batch ([\d. ]*)", file.read())  # fmt: skip
        visits, evaluations, leaves, waited, batches = notes[-1]
        self.visits, self.evaluations, self.leaves = int(visits), int(evaluations), int(leaves)
        self.waited = [float(share) for share in waited.split()]
        self.batches = [float(size) for size in batches.split()]


def processor_seconds(process):
    """The processor time of a process so far."""
    with open(f"/proc/{process}/stat", encoding="ascii") as file:
        user, system = file.read().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def measure(program, flags, openings, milliseconds, trees):
    """Searches all openings with an empty tree, and again after two moves if `trees` says so. Returns the searches of each kind."""
    with tempfile.NamedTemporaryFile(suffix=".log") as log:
        engine = PlainEngine(shlex.join([program, *flags, f"--logfile={log.name}"]))
        fresh, reused = [], []
        for opening in openings:
            engine.ask("ucinewgame\nisready", "readyok")
            position = f"position startpos moves {opening}"
            first = Search(engine, position, milliseconds, log.name)
            fresh.append(first)
            if "reused" in trees and len(first.line) >= 2:
                moves = f"{position} {first.line[0]} {first.line[1]}"
                reused.append(Search(engine, moves, milliseconds, log.name))
        engine.quit()
    return {"empty": fresh, "reused": reused}


def row(cards, seconds, tree, searches, one):
    """The columns of one run, and its visits a second."""
    total = sum(search.seconds for search in searches)
    visits, evaluations = (sum(getattr(search, name) for search in searches) for name in ("visits", "evaluations"))
    processor = sum(search.processor for search in searches)
    leaves = sum(search.leaves for search in searches)
    waited = [statistics.mean(shares) for shares in zip(*(search.waited for search in searches))]
    batches = [size for search in searches for size in search.batches]
    return [cards, seconds, tree, visits / total, visits / total / one,
            (min(waited), max(waited)) if waited else None, statistics.mean(batches) if batches else None,
            evaluations / total, 100 * leaves / evaluations, visits / evaluations, 1e6 * processor / visits,
            processor / total]  # fmt: skip


def median(values):
    """The median of figures, of pairs or of missing ones."""
    if values[0] is None:
        return None
    if isinstance(values[0], tuple):
        return tuple(statistics.median(column) for column in zip(*values))
    return statistics.median(values) if isinstance(values[0], float) else values[0]


def shown(value):
    """A figure as text."""
    if value is None:
        return "—"
    if isinstance(value, tuple):
        return " … ".join(f"{part:.1f}" for part in value)
    return f"{value:,.0f}" if isinstance(value, float) and value >= 1000 else f"{value:.2f}" if isinstance(value, float) else str(value)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", help="the engine's program")
    parser.add_argument("--cards", default="1,2,4,8,16", help="numbers of cards; the others are compared with the first")
    parser.add_argument("--shapes", default="t82,bt4,t1", help="networks of the simulated cards")
    parser.add_argument("--evaluator", default="trivial", help="backend of the simulated cards: trivial or random")
    parser.add_argument("--weights", action="append", default=[], help="networks for real cards")
    parser.add_argument("--backend", default="cuda-auto", help="backend of real cards")
    parser.add_argument("--options", default="", help="its options")
    parser.add_argument("--combined", default="multiplexing", help="backend in front of several cards")
    parser.add_argument("--seconds", default="1,3,10", help="times of a search")
    parser.add_argument("--positions", type=int, default=2, choices=range(1, len(OPENINGS) + 1), help="openings of each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--slower", type=float, default=1.0, help="multiple of the time of all batches and searches")
    parser.add_argument("--flags", default="", help="more flags of the engine, such as --flags='--threads=8'")
    parser.add_argument("--trees", default="empty,reused", help="those that are printed; `empty` is searched in any case")
    parser.add_argument("--alone", action="store_true", help="also print the evaluations of the cards without a search")
    arguments = parser.parse_args()
    counts = [int(count) for count in arguments.cards.split(",")]
    openings = OPENINGS[: arguments.positions]
    trees = arguments.trees.split(",")
    networks = arguments.weights or arguments.shapes.split(",")
    print("| network | " + " | ".join(COLUMNS) + " |\n" + "|---" + "|---:" * len(COLUMNS) + "|")
    for network in networks:
        def flags(count, network=network):
            if arguments.weights:
                children = [f"gpu={card}" for card in range(count)]
                return [f"--weights={network}", *backend_flags(arguments.combined, arguments.backend, arguments.options, children)]
            card = simulated(network, arguments.slower)
            return backend_flags(arguments.combined, arguments.evaluator, card, [f"slots={STREAMS}"] * count)

        if arguments.alone:
            for count in counts:
                speed = backend_speed(shlex.join([arguments.engine, *flags(count)]), 256, STREAMS * count)
                print(f"{network}, {count} cards alone: {speed:,.0f} evaluations/s in batches of 256")
        for seconds in map(float, arguments.seconds.split(",")):
            rows = {(count, tree): [] for count in counts for tree in trees}
            for _ in range(arguments.rounds):
                one = {}
                for count in counts:
                    found = measure(arguments.engine, [*flags(count), *arguments.flags.split()], openings,
                                    round(1000 * seconds * arguments.slower), trees)  # fmt: skip
                    for tree in trees:
                        searches = found[tree]
                        speed = sum(search.visits for search in searches) / sum(search.seconds for search in searches)
                        unit = one.setdefault(tree, speed / count)
                        rows[count, tree].append(row(count, seconds, tree, searches, unit))
            for tree in trees:
                for count in counts:
                    figures = [median(column) for column in zip(*rows[count, tree])]
                    name = os.path.basename(network)
                    print(f"| {name} | " + " | ".join(shown(figure) for figure in figures) + " |", flush=True)


if __name__ == "__main__":
    main()
