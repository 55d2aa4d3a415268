#!/usr/bin/env python3
"""Calculates how long the kernels should take on four AMD GPUs, from their resources and from the GPUs' data. For two
more it calculates the steps of a GEMM only.

usage: expected_times.py RESOURCES.md > EXPECTED_TIMES.md
       expected_times.py --against REVISION [RESOURCES.md]

With --against it prints the times with the kernels and the shared launches of a revision of git, and with those of
RESOURCES.md (by default the stored one) and cards.py, by the same calculation. Where RESOURCES.md of that revision has no
counts of instructions, it takes them from the revision's code objects, for which it needs llvm-objdump.

Nothing here is measured on these kernels: every figure follows from the inputs below, each of which has its source. The
calculation leaves out latencies, clocks that fall under load, and work of the host. A real card is slower.
"""
import sys
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path

from batch_time import (
    CHANNELS, ELEMENT, ENCODERS, GEMMS, GENERATED, HEAD_CHANNELS, HEAD_HIDDEN, HEADS, HIDDEN, INPUTS, LAUNCHES, POSITIONS,
    SCALAR_HEADS, SMOLGEN_HIDDEN, SQUARES, WIDTH, at_revision, batch, fuses_at, gemm_choice, kernel_of, other_traffic, resources,
    step_of, tiles_of,
)
from cards import CARDS, MORE_CARDS, Card, peak_of

# The clock that a laptop's 8060S kept in long GEMMs (kroqueta-s/gfx1151-gemm).
LOADED_GIGAHERTZ = 1.9
# lc0's backend for ROCm (lc0 #2375) on an 8060S, T82, 64 positions: microseconds of an encoder's kernels by its trace,
# its launches, and the gap before each.
LC0_MICROSECONDS = {
    "QKV": 530, "output": 194, "FFN 1": 239, "FFN 2": 241, "smolgen compress": 38, "smolgen dense1": 114,
    "smolgen dense2": 65, "smolgen logits": 158, "LayerNorms": 69 + 57 + 17 + 12, "biases": 62 + 39,
}
LC0_LAUNCHES, LC0_GAP_MICROSECONDS = 249, 5.8


@dataclass(frozen=True)
class Shape:
    """The layers of a network of encoders with smolgen. `board` is the width of a dense position embedding, or 0."""

    name: str
    width: int
    encoders: int
    heads: int
    hidden: int
    board: int

    def weights(self) -> dict[str, int]:
        """The numbers of weights of the GEMMs with 64 rows a position, of smolgen's GEMMs with one row a position
        or one for each of its heads, and of those that always have 16 bits: with 64 rows a position, and with one."""
        encoder = self.width * (4 * self.width + 2 * self.hidden + CHANNELS)
        smolgen = SQUARES * CHANNELS * SMOLGEN_HIDDEN + SMOLGEN_HIDDEN * self.heads * GENERATED
        logits = GENERATED * SQUARES * SQUARES
        others = 3 * self.width**2 + (INPUTS + SCALAR_HEADS * HEAD_CHANNELS) * self.width + 12 * SQUARES * self.board
        heads = SCALAR_HEADS * SQUARES * HEAD_CHANNELS * HEAD_HIDDEN
        encoders = {"squares": self.encoders * encoder, "smolgen": self.encoders * smolgen}
        return encoders | {"logits": logits, "others": others, "heads": heads}

    def operations(self, positions: int) -> dict[str, int]:
        """The operations with these weights. All encoders use the same weights for smolgen's logits."""
        weights = self.weights()
        rows = {"squares": SQUARES, "smolgen": 1, "logits": self.encoders * self.heads, "others": SQUARES, "heads": 1}
        return {kind: 2 * positions * rows[kind] * count for kind, count in weights.items()}

    def moved(self, positions: int) -> int:
        """The bytes that are moved beside the weights. Each encoder reads x for Q, K and V, smolgen and the hidden layer
        (3 widths), writes and reads Q, K and V (6), attention's result (2), the hidden layer's and the logits, and its
        LayerNorms read and write the residual (4). The embedding reads what the planes' kernel has written, and writes x
        (1). The heads read x (3), the policy writes and reads its embedding (2) and queries and keys (4), and the others
        their channels."""
        values = SQUARES * (15 * self.width + 2 * self.hidden + 2 * self.heads * SQUARES)
        ends = SQUARES * (10 * self.width + 2 * INPUTS + 2 * SCALAR_HEADS * HEAD_CHANNELS)
        return ELEMENT * positions * (self.encoders * values + ends)

    def launches(self) -> int:
        """The launches of a batch: 5 for each encoder, and those of the embedding and the heads, which T82 shows."""
        return LAUNCHES[True] + 5 * (self.encoders - ENCODERS)


SHAPES = [
    Shape("T82", WIDTH, ENCODERS, HEADS, HIDDEN, 0),
    Shape("T1", 256, 10, 8, 512, 0),
    Shape("BT4", 1024, 15, 32, 1536, SQUARES * 512),
]
SMALL_BATCHES = [1, 2, 4, 8]
# The bits of a weight in memory: 4 bits in blocks of 32 have a scale of 16 bits each. The scales of 8 bits are one of 32
# bits for each output, which is left out.
BITS = {"16": 16.0, "8": 8.0, "4": 4.0 + 16 / 32}


def gemm_table(known: dict) -> list[str]:
    """The intensity of each GEMM, and its tile, rounds and share of the peak on each card."""
    lines = [
        "",
        "## The GEMMs of this batch",
        "",
        "*Per byte* is the arithmetic intensity of the whole GEMM: its operations for each byte of its two factors and",
        "its results, each moved once. A GEMM with fewer than a card's *balance* (below) is limited by the memory. A cell",
        "has the tile that the calculation chooses, its rounds, and the share of the peak. It is less than 100% where the last",
        "round has fewer blocks than compute units, where tiles reach beyond the GEMM, and where shared memory, caches or",
        "the memory take longer.",
        "",
        "| GEMM | operations, 10^9 | MB | per byte | " + " | ".join(card.architecture for card in CARDS) + " |",
        "|---|---:|---:|---:|" + "---|" * len(CARDS),
    ]
    for gemm in GEMMS:
        cells = []
        for card in CARDS:
            microseconds, tile, rounds = gemm_choice(card, known, gemm)
            share = gemm.operations() / peak_of(card) / microseconds
            cells.append(f"{tile.rows} x {tile.columns}, {rounds}, {share:.0%}")
        operations, moved = gemm.operations(), gemm.bytes()
        lines.append(
            f"| {gemm.name} | {operations / 1e9:.2f} | {moved / 1e6:.1f} | {operations / moved:.0f} | "
            + " | ".join(cells) + " |"
        )
    return lines


def small_batches() -> list[str]:
    """What weights of 8 and of 4 bits are worth where weights are what is moved."""
    lines = [
        "",
        "## Weights of fewer bits at small batches",
        "",
        "What it is worth if the weights of encoders and of smolgen have 8 bits (`weight_bits=8`, gemm_byte_weights.hip) or 4",
        "bits in blocks of 32 with a scale of 16 bits each (no kernel), and the arithmetic is in fp16. The weights of",
        "the embedding and of the heads stay in fp16. *Weights* are the megabytes of all weights that a batch reads.",
        "",
        "GEMMs of a kind take as long as their weights' traffic or their operations at the peak, whichever is longer:",
        "those with 64 rows a position, smolgen's hidden layers with one row, smolgen's logits, and, of the embedding and the",
        "heads, those with 64 rows and those with one. *Operations* is the time of all operations at the peak. *Moved* are",
        "results and residuals, each read and written once, in the last-level cache, which holds them. *All* is the sum of the",
        "GEMMs, *moved* and launches. Times are in microseconds.",
        "",
        "| network, card, positions | weights, MB, with 16, 8, 4 bits | GEMMs, 16 bits | 8 bits | 4 bits | operations | moved"
        " | launches | all, 16 bits | 8 bits | 4 bits | 8 bits are faster by | 4 bits by |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for shape in SHAPES:
        for card in CARDS[:2]:
            for positions in SMALL_BATCHES:
                lines.append(small_batch(shape, card, positions))
    numbers = [
        f"{(shape.weights()['squares'] + shape.weights()['smolgen']) / 1e6:.0f} million weights in {shape.name}"
        for shape in SHAPES
    ]
    t82, tile_rows = SHAPES[0], 64
    smolgen = t82.weights()["smolgen"]
    padded = [f"{2 * tile_rows * smolgen / peak_of(card):.0f}" for card in CARDS[:2]]
    traffic = [f"{smolgen / card.measured.memory / 1e3:.0f}" for card in CARDS[:2]]
    return [
        *lines,
        "",
        f"Encoders and smolgen have {', '.join(numbers[:-1])} and {numbers[-1]}.",
        "Bandwidths, peaks and launches are those of the cards below.",
        "",
        "The table leaves out weights in caches. gfx1100's last one has 96 MB, which hold all of T1's weights and a part of",
        "T82's from one batch to the next, so that there 8 bits are worth less than the table says. It also leaves out that",
        "each byte is converted to fp16 by every block that reads it: with 64 rows, one vector instruction for a weight",
        "(two and a half in bf16) stands against 64 multiplications. And a tile has 64 rows, of which smolgen's hidden",
        f"layers use one to eight: at the peak T82's tiles take {' and '.join(padded)} us on the two cards, and",
        f"its weights of 8 bits {' and '.join(traffic)} us.",
        "",
        "So 8 bits are worth most for one and two positions on gfx1151 and for one on gfx1100. With them, from four positions",
        "on, the GEMMs with 64 rows a position take as long as their operations, and only smolgen's hidden layers are still",
        "limited by their weights. On gfx1100, launches then take longer than all GEMMs of one or two positions. 4 bits",
        "would save another 29 % for one position of T82 on gfx1151, and at most 12 % elsewhere in T82. They round 16",
        "times as coarsely, and there is no kernel for them.",
    ]


def small_batch(shape: Shape, card: Card, positions: int) -> str:
    """A row of the table."""
    peak = peak_of(card)
    bandwidth = card.measured.memory * 1e3  # bytes in a microsecond
    weights, operations = shape.weights(), shape.operations(positions)
    megabytes, gemms = [], []
    for bits in BITS.values():
        moved = {kind: count * (2.0 if kind in ("others", "heads") else bits / 8) for kind, count in weights.items()}
        megabytes.append(f"{sum(moved.values()) / 1e6:.0f}")
        gemms.append(sum(max(moved[kind] / bandwidth, operations[kind] / peak) for kind in weights))
    others = shape.moved(positions) / card.measured.last_level / 1e3
    launches = shape.launches() * card.launch_microseconds
    totals = [gemm + others + launches for gemm in gemms]
    cells = [*gemms, sum(operations.values()) / peak, others, launches, *totals]
    figures = " | ".join(f"{cell:.0f}" for cell in cells)
    gains = " | ".join(f"{totals[0] / total - 1:.0%}" for total in totals[1:])
    return f"| {shape.name}, {card.architecture}, {positions} | {', '.join(megabytes)} | {figures} | {gains} |"


def short(number: float) -> str:
    """With two significant digits at least, up to hundredths."""
    return f"{number:.{0 if number >= 9.95 else 1 if number >= 0.95 else 2}f}"


def batch_table(known: dict) -> list[str]:
    """The time of each part of a batch on each card, and the positions a second."""
    lines = ["| term | " + " | ".join(card.architecture for card in CARDS) + " | source |"]
    lines.append("|---|" + "---:|" * len(CARDS) + "---|")
    times = [batch(card, known) for card in CARDS]
    sources = {
        gemm.name: f"{gemm.count} x {gemm.rows} x {gemm.outputs} x {gemm.inputs}; steps above" for gemm in GEMMS
    }
    for rows in zip(*map(other_traffic, CARDS)):
        total = " or ".join(sorted({short(total / 1e6) for _, total, _ in rows}))
        memory = [f"{memory / 1e6:.0f}" for _, _, memory in rows]
        of_these = f", of them {', '.join(memory)} MB from or to memory" if len(set(memory)) > 1 else " from or to memory"
        sources[rows[0][0]] = f"{total} MB{of_these}"
    sources["attention"] += "; the vector unit's cycles for a head (README.md)"
    sources["launches"] = f"{LAUNCHES[True]} or {LAUNCHES['smolgen']} (launches.rs); a graph's node below"
    for name in times[0]:
        lines.append(f"| {name} | " + " | ".join(short(card[name]) for card in times) + f" | {sources[name]} |")
    totals = [sum(card.values()) for card in times]
    lines.append("| **all** | " + " | ".join(f"**{total:.0f}**" for total in totals) + " | |")
    rates = [f"{POSITIONS / total * 1e6:.0f}" for total in totals]
    lines.append("| positions/s, at most | " + " | ".join(rates) + " | |")
    operations = sum(gemm.count * gemm.operations() for gemm in GEMMS)
    shares = [f"{operations / total / peak_of(card):.0%}" for card, total in zip(CARDS, totals)]
    lines.append("| share of the peak | " + " | ".join(shares) + " | |")
    return lines


def beside_lc0(known: dict) -> list[str]:
    """What is calculated for gfx1151, beside what is published for lc0's backend for ROCm there."""
    card = CARDS[0]
    loaded = replace(card, gigahertz=LOADED_GIGAHERTZ)
    times, slower = batch(card, known), batch(loaded, known)
    rates = [f"{POSITIONS / sum(t.values()) * 1e6:,.0f}" for t in (times, slower)]
    operations = {gemm.name: gemm.operations() for gemm in GEMMS}
    lines = [
        "",
        f"## {card.architecture} beside lc0's kernels",
        "",
        *wrapped(
            "For lc0's backend for ROCm ([2375](https://github.com/LeelaChessZero/lc0/pull/2375), closed) with T82 in batches "
            "of 64 on an 8060S, over 2,000, 2,333 and 2,500 nodes/s are published. The calculation allows Rukh's kernels "
            f"{rates[0]} positions/s at {card.gigahertz} GHz, and {rates[1]} at {LOADED_GIGAHERTZ} GHz, the clock that a laptop's 8060S kept in "
            "long GEMMs ([gfx1151-gemm](https://github.com/kroqueta-s/gfx1151-gemm)). The table has microseconds of one "
            "encoder: calculated, and as a trace of lc0's kernels has them."
        ),
        "",
        f"| | {card.gigahertz} GHz | {LOADED_GIGAHERTZ} GHz | lc0's trace | its TFLOP/s |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, microseconds in LC0_MICROSECONDS.items():
        rate = f"{operations[name] / microseconds / 1e6:.1f}" if name in operations else ""
        cells = [short(t[name] / ENCODERS) if name in t else "in GEMMs" for t in (times, slower)]
        lines.append(f"| {name} | {' | '.join(cells)} | {microseconds} | {rate} |")
    attention = " | ".join(short(t["attention"] / ENCODERS) for t in (times, slower))
    nodes = short(times["launches"] / ENCODERS)
    gaps = LC0_LAUNCHES * LC0_GAP_MICROSECONDS / ENCODERS
    kernels = sum(LC0_MICROSECONDS.values())
    large = GEMMS[:4]
    ratios = [sum(LC0_MICROSECONDS[g.name] for g in large) * ENCODERS / sum(t[g.name] for g in large) for t in (times, slower)]
    points = [
        "**Attention**: 2,333 is from sources in which the body of the attention kernel stands behind a macro that nothing "
        "defines, and smolgen's logits do not reach it. Those of 2,500 are not known here. The figure 'over 2,000' is that of a complete pass, with "
        f"rocBLAS. The trace's kernels alone, without any gaps, would allow {POSITIONS / (kernels * ENCODERS) * 1e6:,.0f}.",
        f"**Large GEMMs** (the first four) took {ratios[0]:.1f} times as long as calculated, and {ratios[1]:.1f} times at {LOADED_GIGAHERTZ} GHz. They "
        "are a library's. Rukh's steps have no other vector instructions and no conflicts of registers, and no cache or "
        "memory limits them. What is not counted is latency, and what a tile does before and after its steps.",
        f"**The rest**: lc0 has biases, activations and LayerNorms in launches of their own, two blocks for smolgen dense1, "
        f"and {LC0_LAUNCHES} launches with gaps of {LC0_GAP_MICROSECONDS} us; Rukh has {LAUNCHES[True]} nodes of a graph.",
    ]
    return [
        *lines,
        f"| attention | {attention} | not computed | |",
        f"| launches | {nodes} | {nodes} | {short(gaps)} | |",
        "",
        "So the two differ by what lc0 leaves out, by what it takes longer for, and by what the calculation leaves out:",
        "",
        *(line for point in points for line in wrapped(point, "- ")),
        "",
        *wrapped(
            f"If all of Rukh's GEMMs took {ratios[1]:.1f} times as long as calculated at {LOADED_GIGAHERTZ} GHz, as lc0's large ones do, there "
            f"would be {POSITIONS / (sum(slower.values()) + (ratios[1] - 1) * sum(slower[g.name] for g in GEMMS)) * 1e6:,.0f} positions/s."
        ),
    ]


def wrapped(text: str, head: str = "") -> list[str]:
    return textwrap.wrap(text, 120, initial_indent=head, subsequent_indent=" " * len(head), break_on_hyphens=False)


def against(revision: str, path: str) -> str:
    """The times with the kernels of a revision and with the present ones."""
    known = [at_revision(revision), stored_resources(path)]
    before = fuses_at(revision)
    former = [replace(card, fuses=before.get(card.architecture, card.fuses)) for card in CARDS]
    lines = [
        f"Calculated, not measured: {revision} -> {path}",
        "",
        "| | " + " | ".join(card.architecture for card in CARDS) + " |",
        "|---|" + "---:|" * len(CARDS),
    ]

    def row(name: str, pairs: list[tuple[float, float]]) -> None:
        cells = [short(old) if short(old) == short(new) else f"{short(old)} -> {short(new)}" for old, new in pairs]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")

    for tile in tiles_of(CARDS[0], known[1]):
        cells = []
        for card in CARDS:
            there = [next((t for t in tiles_of(card, k) if (t.rows, t.columns) == (tile.rows, tile.columns)), None) for k in known]
            cells.append(tuple(step_of(card, t, k).cycles() if t else 0.0 for t, k in zip(there, known)))
        row(f"cycles of a step, {tile.rows} x {tile.columns}", cells)
    times = [[batch(old, known[0]), batch(new, known[1])] for old, new in zip(former, CARDS)]
    for name in times[0][0]:
        row(f"{name}, us", [(old[name], new[name]) for old, new in times])
    row("all, us", [(sum(old.values()), sum(new.values())) for old, new in times])
    row("positions/s, at most", [tuple(POSITIONS / sum(t.values()) * 1e6 for t in pair) for pair in times])
    return "\n".join(lines) + "\n"


def stored_resources(path: str) -> dict:
    return resources(Path(path).read_text(encoding="utf-8"))


def report(path: str) -> str:
    known = stored_resources(path)
    lines = [
        "# Calculated times",
        "",
        "scripts/kernels/expected_times.py made this file; do not edit it. It is a calculation, and nothing in it is a",
        "measured speed of these kernels. Registers, shared memory, waves and instructions are those of RESOURCES.md, and",
        "bandwidths and the time of a launch are what AMD and others have measured (below). Latencies, epilogues, and clocks",
        "that fall under load are left out, so that a real card is slower.",
        "`python3 scripts/kernels/expected_times.py --against REVISION` compares with the kernels of another revision.",
        "",
        "## One step of a block",
        "",
        "A step is 64 bytes of each row in fp16. The cycles are those of a compute unit that has only this block. *Vector",
        "cycles* are those of all vector instructions. On gfx10 to gfx12 products are among them; on gfx11 one takes 34 cycles",
        "instead of 32 if two operands begin in one bank of registers. gfx9 executes the others beside products. *Shared",
        "cycles* are those of the reads of all waves and of the writes, which have no bank conflicts (README.md). *Cache cycles* are those of",
        "the loads, at a compute unit's share of the second-level cache's bandwidth, without hits in caches before it. *Per",
        "load* has the matrix instructions per vector of 16 bytes that a lane reads, and *per byte* is the arithmetic",
        "intensity: the operations for each byte that a block loads. *Share* is the largest share of the peak, if all of these",
        "overlap. gfx1030 has no matrix instructions, and its figures are those of dot products of two. *Waves* are those of a",
        "SIMD.",
        "",
        "| card | tile | registers | waves | shared bytes | peak's cycles | vector cycles | shared cycles | cache cycles"
        " | per load | per byte | share |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for card in CARDS + MORE_CARDS:
        for tile in tiles_of(card, known):
            kernel, step = kernel_of(card, tile, known), step_of(card, tile, known)
            lines.append(
                f"| {card.architecture} | {tile.rows} x {tile.columns} | {kernel.registers} | {kernel.waves}"
                f" | {kernel.shared_bytes} | {step.peak_cycles:.0f} | {step.vector_cycles:.0f} | {step.shared_cycles:.0f}"
                f" | {'' if step.cache_cycles is None else f'{step.cache_cycles:.0f}'} | {step.instructions_per_load:.2f}"
                f" | {step.operations_per_byte:.0f} | {step.share():.0%} |"
            )
    lines += [
        "",
        f"## A T82 batch of {POSITIONS} positions",
        "",
        "Times are in microseconds for the whole batch. Blocks run in rounds: one block on each compute unit. A",
        "GEMM takes as long as its rounds or its traffic, whichever is longer, with the tile for which that is",
        "shortest. GEMMs share launches with what follows them (`fuse`) as they do by default: on gfx942 only",
        "smolgen's. The kernels for that have the shared memory and the waves of the kernels above.",
        "",
        "An encoder's buffer is in the last-level cache if, since its last use, no more bytes were used than the cache holds.",
        "All else that is moved comes from memory or goes there. One batch is in flight; with the usual three, the caches",
        "hold less.",
        "",
        "The policy's last kernel reads the queries and keys that the legal moves name, and here all of them, which is the",
        "most. The value and moves-left heads run beside the policy head, but here their times are added. Biases, gates and",
        "the list of moves are left out: they are small, and the caches hold them. So are copies from and to the host.",
        "",
        *batch_table(known),
        *beside_lc0(known),
        *gemm_table(known),
        *small_batches(),
        "",
        "## The cards",
        "",
        "*Memory* is AMD's figure. *Measured* are the second-level cache, the last-level cache and the memory, as AMD has",
        "measured them for hipBLASLt's cost model (Origami,",
        "[hardware.hpp](https://github.com/ROCm/rocm-libraries/blob/develop/shared/origami/include/origami/hardware.hpp)).",
        "*Balance* is the operations at the peak for each byte that the memory is measured to give.",
        "",
        "| card | compute units | GHz | last-level cache, MB | memory, GB/s | measured, GB/s | fp16 operations per cycle and unit"
        " | balance | a graph's node | measured by others |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---|",
    ]
    for card in CARDS + MORE_CARDS:
        figures = [card.measured.second_level, card.measured.last_level, card.measured.memory] if card.measured else []
        measured = ", ".join(f"{figure:.0f}" if figure else "-" for figure in figures)
        memory = card.measured.memory if card.measured else card.gigabytes_per_second
        node = f"{card.launch_microseconds} us" if card.launch_microseconds else ""
        lines.append(
            f"| {card.architecture}, {card.name} | {card.compute_units} | {card.gigahertz} | {card.last_level_megabytes or ''}"
            f" | {card.gigabytes_per_second} | {measured} | {card.operations_per_cycle}"
            f" | {peak_of(card) / memory / 1e3:.0f} | {node} | {card.launch_source} |"
        )
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> str:
    match arguments:
        case ["--against", revision, *rest] if len(rest) <= 1:
            return against(revision, *rest or ["hip/kernels/RESOURCES.md"])
        case [path] if not path.startswith("-"):
            return report(path)
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.stdout.write(main(sys.argv[1:]))
