#!/usr/bin/env python3
"""Calculates how long the kernels should take on four AMD GPUs, from their resources and from the GPUs' data.

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
    fuses: bool  # whether products share launches with what follows them by default


MEASURED = "measured by others: rocm-systems #10834"
ASSUMED = "assumed to be that of gfx1100"
CARDS = [
    Card("gfx1151", "Radeon 8060S", 40, 2.9, 256, 512, 32, 2, 2, 1.84, MEASURED, True),
    Card("gfx1100", "RX 7900 XTX", 96, 2.5, 960, 512, 32, 2, 2, 3.87, MEASURED, True),
    Card("gfx1201", "RX 9070 XT", 64, 2.97, 640, 1024, 32, 1, 2, 3.87, ASSUMED, True),
    Card("gfx942", "MI300X", 304, 2.1, 5300, 2048, 64, 1, 4, 3.87, ASSUMED, False),
]
# The architectures that have the code object of another one (objects/same_code.txt).
CODE_OF = {"gfx1201": "gfx1200"}

# T82: width, encoders, heads, hidden layer; smolgen's channels, hidden values, and values of a head; squares.
WIDTH, ENCODERS, HEADS, HIDDEN = 768, 15, 24, 1024
CHANNELS, SMOLGEN_HIDDEN, GENERATED, SQUARES = 32, 256, 256, 64
POSITIONS = 64
# The launches of a batch with our own products, by `fuse`: tests/integration/rocm/launches.rs counts them.
LAUNCHES = {False: 207, True: 84}


@dataclass(frozen=True)
class Product:
    """A kind of matrix product of a T82 batch."""

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
PRODUCTS = [
    Product("QKV", ROWS, 3 * WIDTH, WIDTH, ENCODERS),
    Product("output", ROWS, WIDTH, WIDTH, ENCODERS),
    Product("FFN 1", ROWS, HIDDEN, WIDTH, ENCODERS),
    Product("FFN 2", ROWS, WIDTH, HIDDEN, ENCODERS),
    Product("smolgen compress", ROWS, CHANNELS, WIDTH, ENCODERS),
    Product("smolgen dense1", POSITIONS, SMOLGEN_HIDDEN, SQUARES * CHANNELS, ENCODERS),
    Product("smolgen dense2", POSITIONS, HEADS * GENERATED, SMOLGEN_HIDDEN, ENCODERS),
    Product("smolgen logits", POSITIONS * HEADS, SQUARES * SQUARES, GENERATED, ENCODERS),
    Product("embedding", ROWS, WIDTH, 176, 1),
    Product("policy embedding", ROWS, WIDTH, WIDTH, 1),
    Product("policy queries and keys", ROWS, 2 * WIDTH, WIDTH, 1),
]


@dataclass(frozen=True)
class Shape:
    """The layers of a network of encoders with smolgen. `board` is the width of a dense position embedding, or 0."""

    name: str
    width: int
    heads: int
    hidden: int
    board: int

    def weights(self) -> dict[str, int]:
        """The numbers of weights of an encoder's products and of the others."""
        encoder = self.width * (4 * self.width + 2 * self.hidden)
        smolgen = CHANNELS * self.width + SQUARES * CHANNELS * SMOLGEN_HIDDEN
        smolgen += SMOLGEN_HIDDEN * self.heads * GENERATED
        shared = GENERATED * SQUARES * SQUARES + 3 * self.width**2 + 176 * self.width
        return {"encoders": ENCODERS * encoder, "smolgen": ENCODERS * smolgen, "others": shared + 12 * SQUARES * self.board}

    def operations(self, positions: int) -> int:
        """The operations of the encoders' products."""
        return 2 * positions * SQUARES * self.weights()["encoders"]

    def moved(self, positions: int) -> int:
        """The bytes that are moved beside the weights. Each encoder reads x for Q, K and V, smolgen and the hidden layer
        (3 widths), writes and reads Q, K and V (6), attention's result (2), the hidden layer's and the logits, and its
        LayerNorms read and write the residual (4)."""
        values = SQUARES * (15 * self.width + 2 * self.hidden + 2 * self.heads * SQUARES)
        return ENCODERS * ELEMENT * positions * values


SHAPES = [Shape("T82", WIDTH, HEADS, HIDDEN, 0), Shape("BT4", 1024, 32, 1536, SQUARES * 512)]
SMALL_BATCHES = [1, 2, 4, 8]


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
        across = narrow.get(waves, 4 if self.columns >= 128 else 2)
        return self.rows * across // waves, self.columns // across


def resources(path: str) -> dict[tuple[str, str], tuple[int, int, int]]:
    """(architecture, kernel) -> vector registers, shared bytes, waves on a SIMD; from RESOURCES.md."""
    found, architecture = {}, ""
    with open(path, encoding="utf-8") as text:
        for line in text:
            if head := re.match(r"## (gfx\w+)", line):
                architecture = head.group(1)
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if architecture and len(cells) == 8 and cells[1].isdigit():
                registers = int(cells[1]) + int(cells[2])
                found[architecture, cells[0]] = registers, int(cells[4]), int(cells[5])
    return found


@dataclass(frozen=True)
class Step:
    """One step of a block: 64 bytes of each row of its tile."""

    matrix_cycles: float  # of a compute unit that does nothing else
    shared_cycles: float  # reads by all waves, and writes
    instructions_per_load: float  # matrix instructions for each vector of 16 bytes that a lane reads
    operations_per_byte: float  # of global memory

    def share(self) -> float:
        """The share of the peak if matrix instructions and shared memory overlap."""
        return self.matrix_cycles / max(self.matrix_cycles, self.shared_cycles)


def step_of(card: Card, tile: Tile) -> Step:
    depth = STEP_BYTES // ELEMENT
    wave_rows, wave_columns = tile.wave(card.lanes)
    waves = tile.threads // card.lanes
    operations = 2 * tile.rows * tile.columns * depth
    reads = waves * (wave_rows + wave_columns) * STEP_BYTES * card.operand_copies
    writes = (tile.rows + tile.columns) * STEP_BYTES
    instructions = wave_rows * wave_columns * depth / 16**3
    vectors = (wave_rows + wave_columns) * STEP_BYTES * card.operand_copies / 16 / card.lanes
    return Step(
        operations / card.operations_per_cycle,
        (reads + writes) / SHARED_BYTES_PER_CYCLE,
        instructions / vectors,
        operations / writes,
    )


def tiles_of(card: Card, known: dict) -> list[Tile]:
    """The tiles that the card's code has in fp16, the largest first."""
    code = CODE_OF.get(card.architecture, card.architecture)
    names = [re.fullmatch(r"gemm_f16_(\d+)x(\d+)_(\d+)", kernel) for owner, kernel in known if owner == code]
    tiles = [Tile(*map(int, name.groups())) for name in names if name]
    return sorted(tiles, key=lambda tile: (-tile.rows * tile.columns, tile.threads))


def product_microseconds(card: Card, tiles: list[Tile], product: Product) -> float:
    """The time of one product with the tile for which it is shortest. Blocks run in rounds over all compute units."""

    def by(tile: Tile) -> float:
        step = step_of(card, tile)
        blocks = ceil(product.rows / tile.rows) * ceil(product.outputs / tile.columns)
        steps = ceil(product.inputs * ELEMENT / STEP_BYTES)
        rounds = ceil(blocks / card.compute_units)
        cycles = rounds * steps * max(step.matrix_cycles, step.shared_cycles)
        traffic = product.bytes() / card.gigabytes_per_second / 1e3
        return max(cycles / card.gigahertz / 1e3, traffic)

    return min(map(by, tiles))


def other_traffic(card: Card) -> list[tuple[str, int]]:
    """The bytes that are moved between the products."""
    attention = ELEMENT * (4 * ROWS * WIDTH + POSITIONS * HEADS * SQUARES * SQUARES)
    # A LayerNorm in the launch of its product reads the results from the cache: only residual and output move.
    matrices = 2 if card.fuses else 3
    norms = 2 * ELEMENT * matrices * ROWS * WIDTH
    smolgen = 2 * ELEMENT * POSITIONS * HEADS * GENERATED
    return [("attention", ENCODERS * attention), ("LayerNorms", ENCODERS * (norms + smolgen))]


def small_batches() -> list[str]:
    """What weights of 8 bits are worth where weights are what is moved."""
    lines = [
        "",
        "## Weights of 8 bits at small batches",
        "",
        "What it is worth if the weights of the encoders' products have 8 bits and the arithmetic is in fp16. No kernel",
        "does that yet: int8 (bytes.hip) also rounds the inputs. The encoders' products take as long as their weights'",
        "traffic or their operations at the peak, whichever is longer. All other weights stay in fp16. *Moved* are results",
        "and residuals, each read and written once. Times are in microseconds.",
        "",
        "| network, card, positions | encoders' weights, fp16 | 8 bits | operations | other weights | moved | launches | all, fp16"
        " | all, 8 bits | faster by |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for shape in SHAPES:
        for card in CARDS[:2]:
            for positions in SMALL_BATCHES:
                weights = shape.weights()
                megabytes = card.gigabytes_per_second * 1e3
                fp16, bytes_ = (weights["encoders"] * size / megabytes for size in (ELEMENT, 1))
                peak = card.compute_units * card.operations_per_cycle * card.gigahertz * 1e3
                operations = shape.operations(positions) / peak
                others = ELEMENT * (weights["smolgen"] + weights["others"]) / megabytes
                moved = shape.moved(positions) / megabytes
                launches = LAUNCHES[True] * card.launch_microseconds
                totals = [max(time, operations) + others + moved + launches for time in (fp16, bytes_)]
                cells = [fp16, bytes_, operations, others, moved, launches, *totals]
                figures = " | ".join(f"{cell:.0f}" for cell in cells)
                head = f"{shape.name}, {card.architecture}, {positions}"
                lines.append(f"| {head} | {figures} | {totals[0] / totals[1] - 1:.0%} |")
    t82, bt4 = (shape.weights()["encoders"] / 1e6 for shape in SHAPES)
    return [
        *lines,
        "",
        f"The encoders' products have {t82:.0f} million weights in T82 and {bt4:.0f} million in BT4. Bandwidths, peaks and",
        "launches are those of the cards below. The table leaves out caches: gfx1100's last one has 96 MB. It also leaves",
        "out that each byte is converted to fp16 by every block that reads it: with 64 rows, two or three vector",
        "instructions for two weights stand against 128 multiplications.",
    ]


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
        "*Share* is the largest share of the peak that shared memory allows, if its reads overlap with matrix",
        "instructions. *Per load* has the matrix instructions per vector of 16 bytes that a lane reads, and *per byte*",
        "is the arithmetic intensity: the operations for each byte of global memory.",
        "",
        "| card | tile | registers | waves | shared bytes | matrix cycles | shared cycles | per load | per byte | share |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for card in CARDS:
        code = CODE_OF.get(card.architecture, card.architecture)
        for tile in tiles_of(card, known):
            registers, shared, waves = known[code, f"gemm_f16_{tile.rows}x{tile.columns}_{tile.threads}"]
            step = step_of(card, tile)
            lines.append(
                f"| {card.architecture} | {tile.rows} x {tile.columns} | {registers} | {waves} | {shared}"
                f" | {step.matrix_cycles:.0f} | {step.shared_cycles:.0f} | {step.instructions_per_load:.2f}"
                f" | {step.operations_per_byte:.0f} | {step.share():.0%} |"
            )
    lines += [
        "",
        f"## A T82 batch of {POSITIONS} positions",
        "",
        "Times are in microseconds for the whole batch. Blocks run in rounds: one block on each compute unit. A",
        "product takes as long as its rounds or its traffic, whichever is longer, with the tile for which that is",
        "shortest. Products share launches with what follows them (`fuse`) as they do by default: not on gfx942. The",
        "kernels for that have the shared memory and the waves of the kernels above.",
        "",
        "| term | " + " | ".join(card.architecture for card in CARDS) + " | source |",
        "|---|" + "---:|" * len(CARDS) + "---|",
    ]
    totals = [0.0] * len(CARDS)

    def row(name: str, values: list[float], source: str) -> None:
        for k, value in enumerate(values):
            totals[k] += value
        lines.append(f"| {name} | " + " | ".join(f"{value:.0f}" for value in values) + f" | {source} |")

    for product in PRODUCTS:
        values = [
            product.count * product_microseconds(card, tiles_of(card, known), product) for card in CARDS
        ]
        source = f"{product.count} x {product.rows} x {product.outputs} x {product.inputs}; steps above"
        row(product.name, values, source)
    for rows in zip(*(other_traffic(card) for card in CARDS)):
        values = [moved / card.gigabytes_per_second / 1e3 for card, (_, moved) in zip(CARDS, rows)]
        megabytes = sorted({f"{moved / 1e6:.0f}" for _, moved in rows})
        row(rows[0][0], values, f"{' or '.join(megabytes)} MB at the bandwidth")
    launches = [LAUNCHES[card.fuses] * card.launch_microseconds for card in CARDS]
    row(f"{LAUNCHES[True]} or {LAUNCHES[False]} launches", launches, "launches.rs; time of a graph's node below")
    lines.append("| **all** | " + " | ".join(f"**{total:.0f}**" for total in totals) + " | |")
    rates = [POSITIONS / total * 1e6 for total in totals]
    lines.append("| positions/s, at most | " + " | ".join(f"{rate:.0f}" for rate in rates) + " | |")
    operations = sum(product.count * product.operations() for product in PRODUCTS)
    shares = [
        operations / (total * 1e-6) / (card.compute_units * card.operations_per_cycle * card.gigahertz * 1e9)
        for card, total in zip(CARDS, totals)
    ]
    lines.append("| share of the peak | " + " | ".join(f"{share:.0%}" for share in shares) + " | |")
    lines += small_batches()
    lines += [
        "",
        "## The cards",
        "",
        "| card | compute units | GHz | GB/s | fp16 operations per cycle and unit | a graph's node | its source |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    for card in CARDS:
        lines.append(
            f"| {card.architecture}, {card.name} | {card.compute_units} | {card.gigahertz}"
            f" | {card.gigabytes_per_second:.0f} | {card.operations_per_cycle}"
            f" | {card.launch_microseconds} us | {card.launch_source} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.stdout.write(report(sys.argv[1]))
