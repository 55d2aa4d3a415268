#!/usr/bin/env python3
"""Calculates how long the kernels should take on four AMD GPUs, from their resources and from the GPUs' data. For two
more it calculates the steps of a GEMM only.

usage: expected_times.py RESOURCES.md > EXPECTED_TIMES.md

Nothing here is measured: every figure follows from the inputs below, each of which has its source. The calculation
leaves out latencies, caches that miss, clocks that fall under load, and work of the host. A real card is slower.
"""
import re
import sys
from dataclasses import dataclass
from math import ceil

STEP_BYTES = 64  # of each row, in one step of gemm.hip
SHARED_BYTES_PER_CYCLE = 128  # of a compute unit; AMD's ISA documents, "Local Data Share"
ELEMENT = 2  # bytes of fp16


@dataclass(frozen=True)
class Card:
    """A GPU. Compute units, clock and bandwidth are those of AMD's product pages, and the matrix rate is that of its
    peak fp16 figure, divided by compute units and clock."""

    architecture: str
    name: str
    compute_units: int
    gigahertz: float
    gigabytes_per_second: float
    operations_per_cycle: int  # fp16 with fp32 sums, per compute unit
    lanes: int
    operand_copies: int  # how many lanes read the same operand: 2 on gfx11, whose operands are replicated
    simds: int  # of a compute unit
    launch_microseconds: float
    launch_source: str
    fuses: bool  # whether GEMMs share launches with what follows them by default
    multiplies_matrices: bool = True  # otherwise products are dot products of two (PlainCore in gemm_cores.h)


MEASURED = "measured by others: rocm-systems #10834"
ASSUMED = "assumed to be that of gfx1100"
CARDS = [
    Card("gfx1151", "Radeon 8060S", 40, 2.9, 256, 512, 32, 2, 2, 1.84, MEASURED, True),
    Card("gfx1100", "RX 7900 XTX", 96, 2.5, 960, 512, 32, 2, 2, 3.87, MEASURED, True),
    Card("gfx1201", "RX 9070 XT", 64, 2.97, 640, 1024, 32, 1, 2, 3.87, ASSUMED, True),
    Card("gfx942", "MI300X", 304, 2.1, 5300, 2048, 64, 1, 4, 3.87, ASSUMED, False),
]
# Cards whose steps are calculated, too, but not the time of a batch.
MORE_CARDS = [
    Card("gfx90a", "MI210", 104, 1.7, 1638, 1024, 64, 1, 4, 3.87, ASSUMED, True),
    Card("gfx1030", "RX 6900 XT", 80, 2.25, 512, 256, 32, 1, 2, 3.87, ASSUMED, True, False),
]
# The architectures that have the code object of another one (objects/same_code.txt).
CODE_OF = {"gfx1201": "gfx1200"}

# T82: width, encoders, heads, hidden layer; smolgen's channels, hidden values, and values of a head; squares.
WIDTH, ENCODERS, HEADS, HIDDEN = 768, 15, 24, 1024
CHANNELS, SMOLGEN_HIDDEN, GENERATED, SQUARES = 32, 256, 256, 64
# Its input: planes, and with them the columns of each square's row in the table of positions. Its value and moves-left
# heads, as in tests/integration/rocm/true_widths.rs: how many, channels of a square, hidden layer, and outputs of both.
PLANES, INPUTS = 112, 176
SCALAR_HEADS, HEAD_CHANNELS, HEAD_HIDDEN, HEAD_OUTPUTS = 2, 32, 128, 3 + 1
POSITIONS = 64
# The launches of a batch with our own GEMMs, by `fuse`: tests/integration/rocm/launches.rs counts them.
LAUNCHES = {False: 207, True: 84}


@dataclass(frozen=True)
class Gemm:
    """A kind of GEMM of a T82 batch."""

    name: str
    rows: int
    outputs: int
    inputs: int
    count: int

    def operations(self) -> int:
        return 2 * self.rows * self.outputs * self.inputs

    def bytes(self) -> int:
        return ELEMENT * (self.rows * self.inputs + self.outputs * self.inputs + self.rows * self.outputs)


ROWS = POSITIONS * SQUARES
GEMMS = [
    Gemm("QKV", ROWS, 3 * WIDTH, WIDTH, ENCODERS),
    Gemm("output", ROWS, WIDTH, WIDTH, ENCODERS),
    Gemm("FFN 1", ROWS, HIDDEN, WIDTH, ENCODERS),
    Gemm("FFN 2", ROWS, WIDTH, HIDDEN, ENCODERS),
    Gemm("smolgen compress", ROWS, CHANNELS, WIDTH, ENCODERS),
    Gemm("smolgen dense1", POSITIONS, SMOLGEN_HIDDEN, SQUARES * CHANNELS, ENCODERS),
    Gemm("smolgen dense2", POSITIONS, HEADS * GENERATED, SMOLGEN_HIDDEN, ENCODERS),
    Gemm("smolgen logits", POSITIONS * HEADS, SQUARES * SQUARES, GENERATED, ENCODERS),
    Gemm("embedding", ROWS, WIDTH, INPUTS, 1),
    Gemm("policy embedding", ROWS, WIDTH, WIDTH, 1),
    Gemm("policy queries and keys", ROWS, 2 * WIDTH, WIDTH, 1),
    Gemm("value and moves left, embedding", ROWS, HEAD_CHANNELS, WIDTH, SCALAR_HEADS),
    Gemm("value and moves left, hidden layer", POSITIONS, HEAD_HIDDEN, SQUARES * HEAD_CHANNELS, SCALAR_HEADS),
]


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


@dataclass(frozen=True)
class Tile:
    """A kernel of gemm.hip, and how its waves divide the tile."""

    rows: int
    columns: int
    threads: int

    def wave(self, lanes: int) -> tuple[int, int]:
        """Rows and columns of a wave's part, as MatrixCore in gemm_cores.h chooses them."""
        waves = self.threads // lanes
        narrow = {1: 1, 2: 2 if self.columns > self.rows else 1, 4: 2 if self.columns >= 64 else 1}
        across = narrow.get(waves, 4 if self.columns >= 128 and self.rows <= self.columns else 2)
        return self.rows * across // waves, self.columns // across


def resources(path: str) -> dict[tuple[str, str], tuple[int, int, int]]:
    """(architecture, kernel) -> vector registers, shared bytes, waves on a SIMD; from RESOURCES.md."""
    found, architecture = {}, ""
    with open(path, encoding="utf-8") as text:
        for line in text:
            if head := re.match(r"## (gfx\w+)", line):
                architecture = head.group(1)
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if architecture and len(cells) >= 8 and cells[1].isdigit():
                registers = int(cells[1]) + int(cells[2])
                found[architecture, cells[0]] = registers, int(cells[4]), int(cells[5])
    return found


@dataclass(frozen=True)
class Step:
    """One step of a block: 64 bytes of each row of its tile."""

    matrix_cycles: float  # of a compute unit that does nothing else
    shared_cycles: float  # reads by all waves, and writes
    instructions_per_load: float  # matrix instructions for each vector of 16 bytes that a lane reads
    loaded_bytes: int  # from the caches or from memory
    operations_per_byte: float  # of these bytes

    def cycles(self) -> float:
        """The cycles of the step if matrix instructions and shared memory overlap."""
        return max(self.matrix_cycles, self.shared_cycles)

    def share(self) -> float:
        """The share of the peak."""
        return self.matrix_cycles / self.cycles()


def step_of(card: Card, tile: Tile) -> Step:
    depth = STEP_BYTES // ELEMENT
    operations = 2 * tile.rows * tile.columns * depth
    if card.multiplies_matrices:
        wave_rows, wave_columns = tile.wave(card.lanes)
        vectors = (wave_rows + wave_columns) * STEP_BYTES * card.operand_copies / 16 / card.lanes
        instructions = wave_rows * wave_columns * depth / 16**3
    else:
        # A thread owns eight columns of some rows.
        owned = tile.rows * tile.columns // tile.threads
        vectors = (owned // 8 + 8) * STEP_BYTES / 16
        instructions = owned * depth / 2
    reads = tile.threads * vectors * 16
    writes = (tile.rows + tile.columns) * STEP_BYTES
    return Step(
        operations / card.operations_per_cycle,
        (reads + writes) / SHARED_BYTES_PER_CYCLE,
        instructions / vectors,
        writes,
        operations / writes,
    )


def tiles_of(card: Card, known: dict) -> list[Tile]:
    """The tiles that the card's code has in fp16, the largest first."""
    code = CODE_OF.get(card.architecture, card.architecture)
    names = [re.fullmatch(r"gemm_f16_(\d+)x(\d+)_(\d+)", kernel) for owner, kernel in known if owner == code]
    tiles = [Tile(*map(int, name.groups())) for name in names if name]
    return sorted(tiles, key=lambda tile: (-tile.rows * tile.columns, tile.threads))


def gemm_choice(card: Card, tiles: list[Tile], gemm: Gemm) -> tuple[float, Tile, int]:
    """The time of one GEMM in microseconds, the tile for which it is shortest, and the rounds: blocks run in rounds
    over all compute units. Where the traffic decides, it is the tile with the fewest cycles."""

    def by(tile: Tile) -> tuple[float, float, Tile, int]:
        blocks = ceil(gemm.rows / tile.rows) * ceil(gemm.outputs / tile.columns)
        steps = ceil(gemm.inputs * ELEMENT / STEP_BYTES)
        rounds = ceil(blocks / card.compute_units)
        cycles = rounds * steps * step_of(card, tile).cycles()
        traffic = gemm.bytes() / card.gigabytes_per_second / 1e3
        return max(cycles / card.gigahertz / 1e3, traffic), cycles, tile, rounds

    microseconds, _, tile, rounds = min(map(by, tiles), key=lambda choice: choice[:2])
    return microseconds, tile, rounds


def gemm_table(known: dict) -> list[str]:
    """The intensity of each GEMM, and its tile, rounds and share of the peak on each card."""
    lines = [
        "",
        "## The GEMMs of this batch",
        "",
        "*Per byte* is the arithmetic intensity of the whole GEMM: its operations for each byte of its two factors and",
        "its results, each moved once. A GEMM with fewer than a card's *balance* (below) is limited by the memory. A cell",
        "has the tile that the calculation chooses, its rounds, and the share of the peak. It is less than 100% where the last",
        "round has fewer blocks than compute units, where tiles reach beyond the GEMM, and where shared memory or the",
        "memory takes longer.",
        "",
        "| GEMM | operations, 10^9 | MB | per byte | " + " | ".join(card.architecture for card in CARDS) + " |",
        "|---|---:|---:|---:|" + "---|" * len(CARDS),
    ]
    for gemm in GEMMS:
        cells = []
        for card in CARDS:
            microseconds, tile, rounds = gemm_choice(card, tiles_of(card, known), gemm)
            share = gemm.operations() / peak_of(card) / microseconds
            cells.append(f"{tile.rows} x {tile.columns}, {rounds}, {share:.0%}")
        operations, moved = gemm.operations(), gemm.bytes()
        lines.append(
            f"| {gemm.name} | {operations / 1e9:.2f} | {moved / 1e6:.1f} | {operations / moved:.0f} | "
            + " | ".join(cells) + " |"
        )
    return lines


def other_traffic(card: Card) -> list[tuple[str, int]]:
    """The bytes that are moved between the GEMMs."""
    attention = ELEMENT * (4 * ROWS * WIDTH + POSITIONS * HEADS * SQUARES * SQUARES)
    # A LayerNorm in the launch of its GEMM reads the results from the cache: only residual and output move.
    matrices = 2 if card.fuses else 3
    norms = 2 * ELEMENT * matrices * ROWS * WIDTH
    smolgen = 2 * ELEMENT * POSITIONS * HEADS * GENERATED
    # A plane is a number of 64 bits for each position.
    planes = POSITIONS * (PLANES * 8 + SQUARES * INPUTS * ELEMENT)
    # Legal moves name a part of the queries and keys. Here it is all of them, as in kernel_work.rs.
    policy = 2 * ELEMENT * ROWS * WIDTH
    # The hidden layers and the weights are read, and the outputs are fp32.
    outputs = ELEMENT * HEAD_HIDDEN * (SCALAR_HEADS * POSITIONS + HEAD_OUTPUTS) + 4 * HEAD_OUTPUTS * POSITIONS
    return [
        ("planes", planes),
        ("attention", ENCODERS * attention),
        ("LayerNorms", ENCODERS * (norms + smolgen)),
        ("policy of the legal moves", policy),
        ("value and moves left, outputs", outputs),
    ]


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
        "results and residuals, each read and written once. *All* is the sum of the GEMMs, *moved* and launches. Times",
        "are in microseconds.",
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
    traffic = [f"{smolgen / card.gigabytes_per_second / 1e3:.0f}" for card in CARDS[:2]]
    return [
        *lines,
        "",
        f"Encoders and smolgen have {', '.join(numbers[:-1])} and {numbers[-1]}.",
        "Bandwidths, peaks and launches are those of the cards below.",
        "",
        "The table leaves out caches. gfx1100's last one has 96 MB, which hold all of T1's weights and a part of T82's",
        "from one batch to the next, so that there 8 bits are worth less than the table says. It also leaves out that",
        "each byte is converted to fp16 by every block that reads it: with 64 rows, one vector instruction for a weight",
        "(two and a half in bf16) stands against 64 multiplications. And a tile has 64 rows, of which smolgen's hidden",
        f"layers use one to eight: at the peak T82's tiles take {' and '.join(padded)} us on the two cards, and",
        f"its weights of 8 bits {' and '.join(traffic)} us.",
        "",
        "So 8 bits are worth most for one and two positions on gfx1151 and for one on gfx1100. From four positions on, the",
        "GEMMs with 64 rows a position take as long as their operations, and only smolgen's hidden layers are still",
        "limited by their weights. On gfx1100, launches take longer than all GEMMs of one or two positions. 4 bits",
        "would save another quarter for one position of T82 on gfx1151, and at most 7 % elsewhere in T82. They round 16",
        "times as coarsely, and there is no kernel for them.",
    ]


def peak_of(card: Card) -> float:
    """Operations in a microsecond."""
    return card.compute_units * card.operations_per_cycle * card.gigahertz * 1e3


def small_batch(shape: Shape, card: Card, positions: int) -> str:
    """A row of the table."""
    peak = peak_of(card)
    bandwidth = card.gigabytes_per_second * 1e3  # bytes in a microsecond
    weights, operations = shape.weights(), shape.operations(positions)
    megabytes, gemms = [], []
    for bits in BITS.values():
        moved = {kind: count * (2.0 if kind in ("others", "heads") else bits / 8) for kind, count in weights.items()}
        megabytes.append(f"{sum(moved.values()) / 1e6:.0f}")
        gemms.append(sum(max(moved[kind] / bandwidth, operations[kind] / peak) for kind in weights))
    others = shape.moved(positions) / bandwidth
    launches = shape.launches() * card.launch_microseconds
    totals = [gemm + others + launches for gemm in gemms]
    cells = [*gemms, sum(operations.values()) / peak, others, launches, *totals]
    figures = " | ".join(f"{cell:.0f}" for cell in cells)
    gains = " | ".join(f"{totals[0] / total - 1:.0%}" for total in totals[1:])
    return f"| {shape.name}, {card.architecture}, {positions} | {', '.join(megabytes)} | {figures} | {gains} |"


def short(number: float) -> str:
    """With two significant digits at least, up to hundredths."""
    return f"{number:.{0 if number >= 9.95 else 1 if number >= 0.95 else 2}f}"


def report(path: str) -> str:
    known = resources(path)
    lines = [
        "# Calculated times",
        "",
        "scripts/kernels/expected_times.py made this file; do not edit it. It is a calculation, and nothing in it is a",
        "measured speed. Registers, shared memory and waves are those of RESOURCES.md. Compute units, clocks and",
        "bandwidths are AMD's figures for the card. Latencies, misses of the caches, and clocks that fall under load",
        "are left out, so that a real card is slower.",
        "",
        "## One step of a block",
        "",
        "A step is 64 bytes of each row in fp16. The cycles are those of a compute unit that has only this block.",
        "*Shared cycles* are those of the reads of all waves and of the writes, which have no bank conflicts (README.md).",
        "*Per load* has the matrix instructions per vector of 16 bytes that a lane reads, and *per byte* is the arithmetic",
        "intensity: the operations for each byte that a block loads from the caches or from memory. *Share* is the largest",
        "share of the peak that shared memory allows, if it overlaps with matrix instructions, and *bytes a cycle* are what",
        "the caches then have to give each compute unit. AMD's CDNA 3 white paper has 2048 bytes a cycle from the",
        "second-level cache for the 38 compute units of a die, 54 for each. There is no such figure here for the other",
        "cards. gfx1030 has no matrix instructions, and its figures are those of dot products of two. *Waves* are those of a",
        "SIMD.",
        "",
        "| card | tile | registers | waves | shared bytes | matrix cycles | shared cycles | per load | per byte | bytes a cycle"
        " | share |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for card in CARDS + MORE_CARDS:
        code = CODE_OF.get(card.architecture, card.architecture)
        for tile in tiles_of(card, known):
            registers, shared, waves = known[code, f"gemm_f16_{tile.rows}x{tile.columns}_{tile.threads}"]
            step = step_of(card, tile)
            lines.append(
                f"| {card.architecture} | {tile.rows} x {tile.columns} | {registers} | {waves} | {shared}"
                f" | {step.matrix_cycles:.0f} | {step.shared_cycles:.0f} | {step.instructions_per_load:.2f}"
                f" | {step.operations_per_byte:.0f} | {step.loaded_bytes / step.cycles():.0f} | {step.share():.0%} |"
            )
    lines += [
        "",
        f"## A T82 batch of {POSITIONS} positions",
        "",
        "Times are in microseconds for the whole batch. Blocks run in rounds: one block on each compute unit. A",
        "GEMM takes as long as its rounds or its traffic, whichever is longer, with the tile for which that is",
        "shortest. GEMMs share launches with what follows them (`fuse`) as they do by default: not on gfx942. The",
        "kernels for that have the shared memory and the waves of the kernels above.",
        "",
        "The policy's last kernel reads the queries and keys that the legal moves name, and here all of them, which is the",
        "most. The value and moves-left heads run beside the policy head, but here their times are added. Biases, gates and",
        "the list of moves are left out: they are small, and the caches hold them. So are copies from and to the host.",
        "",
        "| term | " + " | ".join(card.architecture for card in CARDS) + " | source |",
        "|---|" + "---:|" * len(CARDS) + "---|",
    ]
    totals = [0.0] * len(CARDS)

    def row(name: str, values: list[float], source: str) -> None:
        for k, value in enumerate(values):
            totals[k] += value
        lines.append(f"| {name} | " + " | ".join(map(short, values)) + f" | {source} |")

    for gemm in GEMMS:
        values = [
            gemm.count * gemm_choice(card, tiles_of(card, known), gemm)[0] for card in CARDS
        ]
        source = f"{gemm.count} x {gemm.rows} x {gemm.outputs} x {gemm.inputs}; steps above"
        row(gemm.name, values, source)
    for rows in zip(*(other_traffic(card) for card in CARDS)):
        values = [moved / card.gigabytes_per_second / 1e3 for card, (_, moved) in zip(CARDS, rows)]
        megabytes = sorted({short(moved / 1e6) for _, moved in rows})
        row(rows[0][0], values, f"{' or '.join(megabytes)} MB at the bandwidth")
    launches = [LAUNCHES[card.fuses] * card.launch_microseconds for card in CARDS]
    row(f"{LAUNCHES[True]} or {LAUNCHES[False]} launches", launches, "launches.rs; time of a graph's node below")
    lines.append("| **all** | " + " | ".join(f"**{total:.0f}**" for total in totals) + " | |")
    rates = [POSITIONS / total * 1e6 for total in totals]
    lines.append("| positions/s, at most | " + " | ".join(f"{rate:.0f}" for rate in rates) + " | |")
    operations = sum(gemm.count * gemm.operations() for gemm in GEMMS)
    shares = [
        operations / (total * 1e-6) / (card.compute_units * card.operations_per_cycle * card.gigahertz * 1e9)
        for card, total in zip(CARDS, totals)
    ]
    lines.append("| share of the peak | " + " | ".join(f"{share:.0%}" for share in shares) + " | |")
    lines += gemm_table(known)
    lines += small_batches()
    lines += [
        "",
        "## The cards",
        "",
        "*Balance* is the operations at the peak for each byte of the bandwidth.",
        "",
        "| card | compute units | GHz | GB/s | fp16 operations per cycle and unit | balance | a graph's node | its source |",
        "|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    for card in CARDS + MORE_CARDS:
        lines.append(
            f"| {card.architecture}, {card.name} | {card.compute_units} | {card.gigahertz}"
            f" | {card.gigabytes_per_second:.0f} | {card.operations_per_cycle}"
            f" | {peak_of(card) / card.gigabytes_per_second / 1e3:.0f}"
            f" | {card.launch_microseconds} us | {card.launch_source} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.stdout.write(report(sys.argv[1]))
