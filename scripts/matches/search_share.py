#!/usr/bin/env python3
"""Measures which share of a backend's speed a search reaches.

    scripts/matches/search_share.py 'target/release/rukh --weights=t82.pb.gz --backend=rocm-fp16' --batches 256,512

For each batch size, `backendbench` measures the evaluations per second of the backend alone, and searches of
`--positions` positions of the openings those of a search (`UCI_ShowEPS`), `--milliseconds` each. They take turns
`--rounds` times, and the medians are compared. A search that meets a position again takes its evaluation from the
cache, so its nodes per second may be higher than its evaluations per second. Needs only Python.
"""
import argparse
import statistics

from plain_engine import OPENINGS, PlainEngine, backend_speed, number_after, read_positions


def search_speed(command, batch, positions, milliseconds, flags):
    """Evaluations and nodes per second of the searches, as means of what their last info lines say."""
    engine = PlainEngine(f"{command} --minibatch-size={batch} {flags}")
    # The device's clock and the search's measurement of it settle in the first search.
    engine.ask(f"go movetime {milliseconds}", "bestmove")
    found = [engine.search(fen, f"movetime {milliseconds}") for fen in positions]
    engine.quit()
    rates = [(number_after(last, "eps"), number_after(last, "nps")) for last in found]
    return [statistics.mean(column) for column in zip(*rates)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", help="the engine and its flags")
    parser.add_argument("--batches", default="256,512", help="batch sizes, separated by commas")
    parser.add_argument("--positions", type=int, default=4, help="positions of each round")
    parser.add_argument("--milliseconds", type=int, default=2000, help="time of each search")
    parser.add_argument("--rounds", type=int, default=3, help="rounds")
    parser.add_argument("--threads", type=int, default=3, help="threads of backendbench")
    parser.add_argument("--search-flags", default="", help="flags of the searches, which backendbench lacks")
    parser.add_argument("--file", default=OPENINGS, help="EPD file")
    arguments = parser.parse_args()
    positions = read_positions(arguments.file, arguments.positions)
    print(f"{'batch':>5} {'alone':>9} {'search':>9} {'share':>6} {'nodes/s':>9}")
    for batch in map(int, arguments.batches.split(",")):
        alone, searches = [], []
        for _ in range(arguments.rounds):
            alone.append(backend_speed(arguments.command, batch, arguments.threads))
            searches.append(search_speed(arguments.command, batch, positions, arguments.milliseconds,
                                         arguments.search_flags))
        rate, nodes = (statistics.median(column) for column in zip(*searches))
        print(f"{batch:5} {statistics.median(alone):9.0f} {rate:9.0f} {rate / statistics.median(alone):6.3f} {nodes:9.0f}",
              flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
