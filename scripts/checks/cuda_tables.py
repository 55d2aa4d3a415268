#!/usr/bin/env python3
"""Prints the tables of scripts/checks/cuda.sh. Needs only Python.

usage: cuda_tables.py speed FILE ...             the fastest options of each network, beside lc0's speed and our target
       cuda_tables.py compare THIS OTHER         the median speed of one version, its ratio to that of the other, and the
                                                 lowest ratio
       cuda_tables.py own FILE.json ...          our own kernels beside the libraries, from reports of `rukh doctor`
       cuda_tables.py own_markdown FILE.json ... the ratios of the same, as tables for docs/benchmarks.md
       cuda_tables.py passes FILE                whole passes with libraries and with our own kernels, as such a table
"""
import json
import os
import re
import statistics
import sys

# Evaluations per second on one H200, by batch size: the speed of lc0's fastest backend, and our target.
TARGETS = {
    "t82-like": {16: (12033, 16000), 64: (23163, 33000), 256: (29346, 40000), 512: (30093, 42000)},
    "bt4-full": {16: (9821, 13000), 64: (17128, 23000), 256: (20791, 26000), 512: (21652, 27000)},
    "t1-like": {16: (30369, 50000), 64: (69961, 130000), 256: (114486, 200000), 512: (126951, 230000)},
}


def measurements(file):
    """The lines of `sweep`: (network, options, {batch size: positions per second})."""
    with open(file) as stream:
        lines = [line.split() for line in stream if not line.startswith("#")]
    for words in lines:
        # network, options, seconds "s", then sizes and positions per second
        if len(words) >= 6 and words[3] == "s" and words[0] in TARGETS:
            yield words[0], words[1], {int(size): float(rate) for size, rate in zip(words[4::2], words[5::2])}


def compare(this, other):
    """Prints the median speed of two versions that were measured in turn, and the ratio of the medians."""
    rates = [{}, {}]
    for found, file in zip(rates, (this, other)):
        for name, _, sizes in measurements(file):
            for size, rate in sizes.items():
                found.setdefault((name, size), []).append(rate)
    print(f"{'network':9} {'batch':>5} {'this':>7} {'other':>7} {'ratio':>6}  rounds")
    lowest = (2.0, None)
    for key in sorted(rates[0].keys() & rates[1].keys()):
        medians = [statistics.median(found[key]) for found in rates]
        rounds = min(len(found[key]) for found in rates)
        ratio = medians[0] / medians[1]
        lowest = min(lowest, (ratio, key))
        print(f"{key[0]:9} {key[1]:5} {medians[0]:7.0f} {medians[1]:7.0f} {ratio:6.3f}  {rounds}")
    if lowest[1]:
        print(f"the lowest ratio is {lowest[0]:.3f}, {lowest[1][0]} at batch {lowest[1][1]}")


def speed(files):
    """Prints the highest speed of each network and batch size, with the options that gave it."""
    best, sets = {}, 0
    for file in files:
        for name, options, sizes in measurements(file):
            sets += 1
            options = f"{options} ({os.path.basename(file).removesuffix('.txt')})"
            for size, rate in sizes.items():
                best[name, size] = max(best.get((name, size), (0.0, "")), (rate, options))
    print(f"best of {sets} sets of options")
    print(f"{'network':9} {'batch':>5} {'ours':>7} {'lc0':>7} {'target':>7} {'of lc0':>6} {'of tgt':>6}  options")
    for name, targets in TARGETS.items():
        for size, (lc0, target) in targets.items():
            rate, options = best.get((name, size), (0.0, "not measured"))
            print(f"{name:9} {size:5} {rate:7.0f} {lc0:7} {target:7} {rate / lc0:6.2f} {rate / target:6.2f}  {options}")


OWN = {"Rukh's tiles": "own", "Rukh's tiles, preshuffled weights": "shuffled", "Rukh's kernel": "few rows"}


def gemms(file):
    """The rows of a report's GEMM table, as dictionaries."""
    with open(file) as stream:
        stages = json.load(stream)["stages"]
    for table in (table for stage in stages for table in stage["tables"] if table["name"] == "gemms"):
        for cells in table["rows"]:
            yield dict(zip(table["columns"], cells))


def fastest(file):
    """The fastest row of each GEMM by our tiles (`own`), by our tiles with preshuffled weights (`shuffled`), by our
    kernel for few rows (`few rows`), and by a library (`library`): {GEMM: {by: row}}."""
    found = {}
    for row in gemms(file):
        if row["µs"] is not None:
            known = found.setdefault(row["gemm"], {})
            by = OWN.get(row["by"], "library")
            if by not in known or row["µs"] < known[by]["µs"]:
                known[by] = row
    return found


def own(files):
    """Prints the time of each GEMM by our tiles, with plain and with preshuffled weights, and by the fastest library,
    and the geometric means of the ratios. Fails if a result is wrong."""
    wrong = 0
    for file in files:
        for row in gemms(file):
            if row["verdict"] == "wrong":
                print(f"WRONG {row['by']} {row['gemm']}: {row['detail']}")
                wrong += row["by"].startswith("Rukh")
        print(f"\n{os.path.basename(file)}, microseconds; rows x columns of the fastest tile, and its threads")
        print(
            f"{'library':>8} {'own':>8} {'ratio':>6} {'TFLOP/s':>8} {'shuffled':>8} {'few rows':>8}"
            f" {'tile':24} layers, GEMM"
        )
        ratios, gains = [], []
        for name, found in fastest(file).items():
            if "own" in found and "shuffled" in found:
                gains.append(found["own"]["µs"] / found["shuffled"]["µs"])
            if "library" not in found or "own" not in found:
                continue
            library, mine = found["library"]["µs"], found["own"]["µs"]
            ratios.append(library / mine)
            others = (f"{found[by]['µs']:8.2f}" if by in found else " " * 8 for by in ("shuffled", "few rows"))
            tile, layers = found["own"]["detail"], found["own"]["layers"]
            cells = f"{library:8.2f} {mine:8.2f} {library / mine:6.2f} {found['own']['TFLOP/s']:8.1f} {' '.join(others)}"
            print(f"{cells} {tile:24} {layers} x {name}")
        if ratios:
            print(f"geometric mean of {len(ratios)} GEMMs: {statistics.geometric_mean(ratios):.3f}")
        if gains:
            # `rukh tune` takes preshuffled weights where they are faster by 2 %.
            wins = sum(gain > 1.02 for gain in gains)
            print(
                f"preshuffled weights: faster by 2 % for {wins} of {len(gains)} GEMMs, geometric mean"
                f" {statistics.geometric_mean(gains):.3f}, from {min(gains):.3f} to {max(gains):.3f}"
            )
    sys.exit(1 if wrong else 0)


def shape_and_rows(gemm):
    """A GEMM without its number of rows, as outputs x inputs and what else is special, and the number of rows."""
    outputs, rows, inputs, rest = re.fullmatch(r"m=(\d+) n=(\d+) k=(\d+)(.*)", gemm).groups()
    # The distances between the GEMMs of a batch may depend on the number of rows.
    rest = re.sub(r"(batch=.*) \[[^]]*\]", r"\1", rest)
    words = [word for word in rest.split() if word not in ("f16", "bf16")]
    return " ".join([f"{outputs} x {inputs}", *words]), int(rows)


def tables_of_rows(ratios):
    """Puts {shape: {rows: ratios}} into tables whose shapes have the same numbers of rows: [(numbers of rows, shapes)].
    A shape of which not all were measured is with those that have all of its numbers."""
    tables = []
    for shape, found in sorted(ratios.items(), key=lambda item: -len(item[1])):
        table = next((table for table in tables if found.keys() <= table[0]), None)
        if table is None:
            tables.append((set(found), [shape]))
        else:
            table[1].append(shape)
    return [(sorted(rows), shapes) for rows, shapes in tables]


def own_markdown(files):
    """Prints tables for docs/benchmarks.md: the library's time divided by ours, for each GEMM and number of rows."""
    everything, summary, details = [], [], []
    for file in files:
        network = os.path.basename(file).removeprefix("own-").removesuffix(".json")
        ratios, tiles = {}, {}
        for name, found in fastest(file).items():
            if "library" not in found or "own" not in found:
                continue
            shape, rows = shape_and_rows(name)
            ratio = found["library"]["µs"] / found["own"]["µs"]
            ratios.setdefault(shape, {}).setdefault(rows, []).append(ratio)
            tile = found["own"]["detail"].split(" in ")[0]
            tiles[tile] = tiles.get(tile, 0) + 1
        all_ratios = [ratio for found in ratios.values() for some in found.values() for ratio in some]
        if not all_ratios:
            continue
        everything += all_ratios
        fastest_tiles = ", ".join(f"{tile} {count}" for tile, count in sorted(tiles.items(), key=lambda item: -item[1]))
        mean = statistics.geometric_mean(all_ratios)
        summary.append(
            f"| {network} | {len(all_ratios)} | {mean:.2f} | {min(all_ratios):.2f} | {max(all_ratios):.2f} | {fastest_tiles} |"
        )
        for rows, shapes in tables_of_rows(ratios):
            details += ["", f"| {network}: outputs x inputs; rows | " + " | ".join(map(str, rows)) + " |"]
            details.append("|---|" + "---:|" * len(rows))
            for shape in shapes:
                cells = (", ".join(f"{ratio:.2f}" for ratio in ratios[shape].get(count, [])) for count in rows)
                details.append(f"| {shape} | " + " | ".join(cells) + " |")
            columns = ([ratio for shape in shapes for ratio in ratios[shape].get(count, [])] for count in rows)
            means = (f"{statistics.geometric_mean(column):.2f}" for column in columns)
            details.append("| geometric mean | " + " | ".join(means) + " |")
    print("The library's time divided by ours. A tile is named by its rows and columns and the threads of its block.")
    print()
    print("| network | GEMMs | geometric mean | lowest | highest | the fastest of our tiles |")
    print("|---|---:|---:|---:|---:|---|")
    print("\n".join(summary))
    if everything:
        print(f"| all | {len(everything)} | {statistics.geometric_mean(everything):.2f} | {min(everything):.2f} |", end="")
        print(f" {max(everything):.2f} | |")
    print("\n".join(details))


# The columns of the table of whole passes, by the options that begin so.
PASSES = {"gemm=library": "library", "gemm=own,fuse=false": "own", "gemm=own,fuse=true": "own, `fuse=true`", "gemm=auto": "auto"}


def passes(file):
    """Prints a table for docs/benchmarks.md: evaluations per second in whole passes."""
    rates = {}
    for name, options, sizes in measurements(file):
        way = next((way for start, way in PASSES.items() if options.startswith(start)), None)
        for size, rate in sizes.items():
            rates.setdefault((name, size), {})[way] = rate
    ways = list(PASSES.values())
    print("| | batch | " + " | ".join(ways) + " | own / library |")
    print("|---|---:|" + "---:|" * (len(ways) + 1))
    last = None
    for (name, size), found in rates.items():
        cells = [f"{found[way]:,.0f}" if way in found else "-" for way in ways]
        both = "library" in found and "own" in found
        ratio = f"{found['own'] / found['library']:.2f}" if both else "-"
        print(f"| {name if name != last else ''} | {size} | " + " | ".join([*cells, ratio]) + " |")
        last = name


def main():
    if sys.argv[1:2] == ["speed"]:
        speed(sys.argv[2:])
    elif sys.argv[1:2] == ["own"]:
        own(sys.argv[2:])
    elif sys.argv[1:2] == ["own_markdown"]:
        own_markdown(sys.argv[2:])
    elif sys.argv[1:2] == ["passes"] and len(sys.argv) == 3:
        passes(sys.argv[2])
    elif sys.argv[1:2] == ["compare"] and len(sys.argv) == 4:
        compare(*sys.argv[2:])
    else:
        sys.exit(__doc__)


main()
