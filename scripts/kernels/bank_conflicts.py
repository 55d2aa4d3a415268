#!/usr/bin/env python3
"""Counts the cycles that each access of the kernels to shared memory takes, from the addresses of a wave's lanes.

usage: bank_conflicts.py                prints the table of hip/kernels/README.md
       bank_conflicts.py --check FILE   fails if FILE does not have that table

Nothing here is measured. Shared memory has 32 banks of four bytes. A bank gives or takes one word in a cycle, and lanes
that read the same word share it. An instruction takes its lanes in groups of 128 bytes: 32, 16 or 8 lanes, for 4, 8 or
16 bytes a lane. A group takes as many cycles as the largest number of different words that its lanes want of one bank.
The addresses are those of the sources, written once more: a change of a layout has to be made here, too.
"""
import sys
from math import ceil

# The groups of lanes for reads of 16 bytes on gfx9, from the documentation of AMD's Composable Kernel: "Understanding
# AMD GPU LDS and Bank Conflicts". Its groups for writes are neighbours. It has none for waves of 32 lanes.
GFX9_READS = [[*range(first, first + 4), *range(other, other + 4)]
              for half in (0, 32) for first, other in ((half, half + 20), (half + 4, half + 16),
                                                        (half + 8, half + 28), (half + 12, half + 24))]


def cycles(words, size, groups=None):
    """Cycles and least cycles of an access of `size` bytes a lane. words[lane] is the lane's first word, or None."""
    together = 128 // size
    groups = groups or [range(first, first + together) for first in range(0, len(words), together)]
    total = 0
    for group in groups:
        banks = [set() for _ in range(32)]
        for lane in group:
            for word in range(size // 4) if words[lane] is not None else ():
                banks[(words[lane] + word) % 32].add(words[lane] + word)
        total += max(map(len, banks))
    return total, ceil(sum(word is not None for word in words) * size / 128)


class Layout:
    """How lanes share a matrix: hip/kernels/matrix.h."""

    def __init__(self, name, lanes, groups=1):
        self.name, self.lanes, self.groups = name, lanes, groups

    def row(self, lane):
        return lane // 4 if self.name == "sm_90" else lane % 16

    def group(self, lane):
        return lane % 4 if self.name == "sm_90" else lane // 16

    def spread(self, tiles, n, r):
        length = min(8, tiles * 16 // self.groups)
        owner, j = {
            "gfx11": (r & 1, 8 * n + (r >> 1)),
            "gfx12": (r >> 3, 8 * n + (r & 7)),
            "gfx9": (r >> 2, 4 * n + (r & 3)),
            "sm_90": ((r & 7) >> 1, 4 * n + 2 * (r >> 3) + (r & 1)),
        }[self.name]
        return length * (self.groups * (j // length) + owner) + j % length

    def vectors(self, lane, steps):
        """The vectors of its row that a lane loads for `steps` fragments (load_rows)."""
        if self.name == "gfx11":
            return list(range(2 * steps))
        if self.name == "gfx12":
            return [2 * step + self.group(lane) for step in range(steps)]
        if steps == 1:
            return [self.group(lane) // 2]
        return [4 * pair + self.group(lane) for pair in range(steps // 2)]


MATRIX = [Layout("gfx11", 32, 2), Layout("gfx12", 32, 2), Layout("gfx9", 64, 4), Layout("sm_90", 32, 4)]
# What does not depend on the layout of a matrix is the same wherever waves have as many lanes.
PLAIN = [Layout("32 lanes", 32), Layout("64 lanes", 64)]
COLUMNS = {"gfx11": "32 lanes", "gfx12": "32 lanes", "gfx9": "64 lanes", "sm_90": "32 lanes"}
counted = {}  # (kernel, variant, access, bytes) -> {layout: (cycles, least)}


def count(kernel, access, size, layout, accesses, reads=False, variant=""):
    """Counts the worst of several accesses of a wave."""
    groups = GFX9_READS if reads and size == 16 and layout.lanes == 64 else None
    worst = max(cycles(words, size, groups) for words in accesses)
    found = counted.setdefault((kernel, variant, access, size), {})
    found[layout.name] = max(worst, found.get(layout.name, (0, 0)))


def place(vectors, row, vector):
    """The first word of a vector (gemm_place in gemm_cores.h)."""
    return 4 * (row * vectors + (vector ^ (row & 7 if vectors == 8 else row >> 1 & 3)))


def waves(layout, threads):
    return [range(first, first + layout.lanes) for first in range(0, threads, layout.lanes)]


def gemms():
    every = "all GEMMs"
    for layout in MATRIX + PLAIN:
        for vectors in (4, 8) if layout.name == "sm_90" else (4,):
            count(every, "writes of a step", 16, layout,
                  [[place(vectors, t // vectors, t % vectors) for t in wave] for wave in waves(layout, 128)])
        count(every, "results in the epilogue, written and read", 16, layout,
              [[4 * t for t in wave] for wave in waves(layout, 128)], True)
    for layout in MATRIX[:3]:
        loads = [[layout.vectors(lane, 2)[i] for lane in range(layout.lanes)]
                 for i in range(len(layout.vectors(0, 2)))]
        count("GEMMs with matrix instructions", "reads of fragments", 16, layout,
              [[place(4, tile + layout.row(lane), load[lane]) for lane in range(layout.lanes)]
               for tile in range(0, 128, 16) for load in loads], True)
    halves = [[place(4, tile + lane % 16, lane // 16) + half for lane in range(64)]
              for tile in range(0, 128, 16) for half in (0, 2)]
    count("GEMMs of 8-bit integers and e4m3 on gfx942", "reads of half vectors", 8, MATRIX[2], halves)
    for vectors in (4, 8):
        for own in (True, False):
            accesses = []
            for fragment in range(vectors // 2):
                for tile in range(0, 128, 16):
                    parts = [(lane >> 3 & 1, lane >> 4) if own else (lane >> 4, lane >> 3 & 1) for lane in range(32)]
                    accesses.append([place(vectors, tile + 8 * low + lane % 8, 2 * fragment + high)
                                     for lane, (low, high) in enumerate(parts)])
            count("GEMMs with matrix instructions", "reads of fragments", 16, MATRIX[3], accesses, True)
    for layout in PLAIN:
        for columns, threads in ((128, 256), (64, 128), (32, 128)):
            across, apart = columns // 8, threads // (columns // 8)
            for k in range(8):
                count("GEMMs without them", "reads of x and of weights", 16, layout,
                      [[place(4, t // across + k * apart, v) for t in wave]
                       for wave in waves(layout, threads) for v in range(4)], True)
                count("GEMMs without them", "reads of x and of weights", 16, layout,
                      [[place(4, t % across + k * across, v) for t in wave]
                       for wave in waves(layout, threads) for v in range(4)], True)


def attention():
    for layout in MATRIX:
        for depth in (16, 32, 64, 96, 128):
            kernel, variant = "attention, heads of", "8, 16" if depth == 16 else str(depth)
            steps, vectors = depth // 16, depth // 8
            across = 8 if vectors % 8 == 0 else 4 if vectors % 4 == 0 else 2
            # K goes through shared memory on gfx11 and gfx12, and elsewhere only in attention_other, for heads of 32.
            if layout.name in ("gfx11", "gfx12") or depth == 32:
                writes, reads = [], []
                for i in range(vectors // 2):
                    slots = [[i // (vectors // across) * (128 // across) + t // across for t in wave]
                             for wave in waves(layout, 128)]
                    for wave, slot in zip(waves(layout, 128), slots):
                        writes.append([4 * (s * (vectors + 1) + i % (vectors // across) * across + t % across)
                                       for t, s in zip(wave, slot)])
                slice_steps = 1 if steps == 1 else 2
                for part in range(2 if layout.name == "sm_90" else 1):
                    for i in range(len(layout.vectors(0, slice_steps))):
                        reads.append([4 * ((layout.row(lane) + 8 * part) * (vectors + 1)
                                           + layout.vectors(lane, slice_steps)[i]) for lane in range(layout.lanes)])
                count(kernel, "writes of K", 16, layout, writes, variant=variant)
                count(kernel, "reads of K", 16, layout, reads, True, variant)
            row_words, kinds = 48 if layout.name == "sm_90" else 36, min(vectors, 8)

            def transposed(column, word):
                return column * row_words + (word ^ 4 * (column // 8 * (8 // kinds) % 8))

            writes, reads = [], []
            for unit in range(ceil(32 * vectors / 128)):
                for wave in waves(layout, 128):
                    index = [unit * 128 + t for t in wave]
                    writes += [[transposed(x % vectors * 8 + i, x // vectors) if x < 32 * vectors else None
                                for x in index] for i in range(8)]
            for m in range(steps):
                for part in range(2 if layout.name == "sm_90" else 1):
                    for i in range(len(layout.vectors(0, 4))):
                        reads.append([transposed(layout.spread(steps, m, layout.row(lane) + 8 * part),
                                                 4 * layout.vectors(lane, 4)[i]) for lane in range(layout.lanes)])
            count(kernel, "writes of V^T", 4, layout, writes, variant=variant)
            count(kernel, "reads of V^T", 16, layout, reads, True, variant)


def attention_any():
    for layout in PLAIN:
        every = waves(layout, 128)
        for kind, width in (("16 bits", 8), ("fp32", 4)):
            def count_any(access, size, accesses, reads=False):
                count("attention_any in", access, size, layout, accesses, reads, kind)

            count_any("writes of Q and K", 16, [[place(4, t // 4, t % 4) for t in w] for w in every])
            count_any("reads of Q and K", 16,
                  [[place(4, t // 8 + i * 16, v) for t in w] for w in every for v in range(4) for i in range(4)]
                  + [[place(4, t % 8 + k * 8, v) for t in w] for w in every for v in range(4) for k in range(8)], True)
            for vector in range(8 // width):
                spots = [(t // 8, t % 8 * 8 // width + vector) for t in range(128)]
                count_any("writes of probabilities", 16,
                      [[place(8, spots[t][0] + 16 * i, spots[t][1] % 8) if spots[t][1] // 8 == part else None
                        for t in w] for w in every for part in range(8 // width) for i in range(4)])
            count_any("reads of probabilities and V^T", 16,
                  [[place(8, t // 4 + i * 32, v) for t in w] for w in every for v in range(8) for i in range(2)]
                  + [[place(8, t % 4 + k * 4, v) for t in w] for w in every for v in range(8) for k in range(8)], True)

            def value(row, word):
                return place(8, row % 8 * 4 + row // 8, word // 4) + word % 4

            across = 32 // width
            count_any("writes of V^T", 4,
                  [[value(t % across * width + k, t // across) for t in w] for w in every for k in range(width)])
            count_any("writes of V^T, rows at any address", 4,
                  [[value(t % 32, t // 32 + 4 * i) for t in w] for w in every for i in range(8)])
            count_any("writes of Q and K, rows at any address", 4,
                  [[place(4, t // 16, t % 16 // 4) + t % 4 for t in w] for w in every])
            count_any("sums, written and read", 4,
                  [[t // 8 if t % 8 == 0 else None for t in w] for w in every] + [[t // 4 for t in w] for w in every])


def others():
    for layout in MATRIX[:3]:
        length = 16 // layout.groups
        count("dense, norm_dense", "writes of sums", 16, layout,
              [[layout.row(lane) * 16 + length * layout.group(lane) + k for lane in range(layout.lanes)]
               for k in range(0, length, 4)])
        count("dense, norm_dense", "reads of sums", 8, layout, [[2 * lane for lane in range(layout.lanes)]])
        for inputs in range(32, 513, 32):
            row = inputs // 8 + 1
            count("norm_dense", "writes of normalised rows", 16, layout,
                  [[4 * (t // 16 * row + t % 16) for t in w] for w in waves(layout, 256)])
            count("norm_dense", "reads of normalised rows", 16, layout,
                  [[4 * (layout.row(lane) * row + layout.vectors(lane, 2)[i]) for lane in range(layout.lanes)]
                   for i in range(len(layout.vectors(0, 2)))], True)
    for layout in PLAIN:
        lanes = range(layout.lanes)
        count("layer_norm of more than 1024, chains, policies", "writes of a sum of 32 lanes", 4, layout,
              [[lane // 32 if lane % 32 == 0 else None for lane in lanes]])
        count("layer_norm of more than 1024, chains, policies", "reads of the sums, the same in all lanes", 16, layout,
              [[0 for _ in lanes]], True)
        count("chains, convolution", "a block's number, the same in all lanes", 4, layout, [[0 for _ in lanes]])
        count("policy, attention_policy", "logits, written and read", 4, layout, [list(lanes)])
        count("squeeze_excite", "writes of means", 4, layout, [list(lanes)])
        count("squeeze_excite", "reads of means", 16, layout, [[8 * lane + k for lane in lanes] for k in (0, 4)], True)
        count("squeeze_excite", "reads of a hidden value, the same in all lanes", 4, layout, [[0 for _ in lanes]])
        count("squeeze_excite", "writes of factors", 8, layout, [[2 * lane for lane in lanes]])
        for channels in (64, 128, 256):
            more = " or more" if channels == 256 else ""
            count("squeeze_excite", f"reads of factors, {channels} channels{more}", 4, layout,
                  [[lane * 8 % channels + k for lane in lanes] for k in range(8)])
        count("planes", "writes of masks", 8, layout, [[2 * lane for lane in lanes]])
        reads = []
        for first in range(0, 8 * 112, layout.lanes):
            reads += [[2 * ((first + lane) * 8 % 112 + k) + (first + lane) * 8 // 112 // 32 for lane in lanes]
                      for k in range(8)]
        count("planes", "reads of masks, 112 planes", 4, layout, reads)
        count("winograd_output, convolution", "sums, written and read", 8, layout, [[2 * lane for lane in lanes]])


def table():
    gemms()
    attention()
    attention_any()
    others()
    merged = {}  # what differs in the variant only
    for (kernel, variant, access, size), found in counted.items():
        cells = []
        for name, lanes in COLUMNS.items():
            taken, least = found.get(name) or found.get(lanes) or (0, 0)
            cells.append("-" if not taken else f"{taken} / {least}" if taken == least else f"**{taken}** / {least}")
        merged.setdefault((kernel, access, size, *cells), []).append(variant)
    lines = ["| kernel | access | bytes a lane | " + " | ".join(COLUMNS) + " |"]
    lines.append("|---|---|---:|" + "---:|" * len(COLUMNS))
    for (kernel, access, size, *cells), variants in merged.items():
        lines.append(f"| {kernel} {', '.join(variants)}".rstrip() + f" | {access} | {size} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--check"] and len(sys.argv) == 3:
        if table() not in open(sys.argv[2], encoding="utf-8").read():
            sys.exit(f"{sys.argv[2]} does not have the table of bank_conflicts.py")
    elif len(sys.argv) == 1:
        sys.stdout.write(table())
    else:
        sys.exit(__doc__)
