"""How long a batch of T82 takes on a card, calculated from what RESOURCES.md has of the kernels: expected_times.py."""
import gzip
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, replace
from functools import cache
from math import ceil

import lanes
import loops
from cards import CARDS, Card

# As compile.sh looks for it: older versions do not know all architectures.
OBJDUMP = shutil.which("llvm-objdump", path=os.environ.get("LLVM_BIN", "/usr/lib/llvm-19/bin")) or "llvm-objdump"

STEP_BYTES = 64  # of each row, in one step of gemm.hip
SHARED_BYTES_PER_CYCLE = 128  # of a compute unit; AMD's ISA documents, "Local Data Share"
ELEMENT = 2  # bytes of fp16
# On gfx11 a matrix instruction takes MATRIX_CYCLES, and BANK_CYCLES more if two operands begin in one bank of registers
# (llvm-project #204254, measured on gfx1151).
MATRIX_CYCLES, BANK_CYCLES = 32, 2
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
LAUNCHES = {False: 207, "smolgen": 147, True: 84}


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


@dataclass(frozen=True)
class Kernel:
    """What RESOURCES.md has of a kernel."""

    registers: int
    shared_bytes: int
    waves: int  # on a SIMD
    vector: float | None  # vector instructions of a wave in a step that are no products; None if they are not counted
    one_bank: float  # share of the matrix instructions with two operands in one bank


def resources(text: str) -> dict[tuple[str, str], Kernel]:
    """(architecture, kernel) -> its resources, from the text of RESOURCES.md."""
    found, architecture = {}, ""
    for line in text.splitlines():
        if head := re.match(r"## (gfx\w+)", line):
            architecture = head.group(1)
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if architecture and len(cells) >= 8 and cells[1].isdigit():
            counts = cells[8].split() if len(cells) > 8 else []
            vector = float(counts[loops.KINDS.index("vector")]) if counts else None
            share = float(cells[9].rstrip(" %")) / 100 if len(cells) > 9 and cells[9] else 0.0
            registers = int(cells[1]) + int(cells[2])
            found[architecture, cells[0]] = Kernel(registers, int(cells[4]), int(cells[5]), vector, share)
    return found


def at_revision(revision: str) -> dict[tuple[str, str], Kernel]:
    """The kernels' resources at a revision of git. Counts that its RESOURCES.md lacks come from its code objects."""

    def stored(path: str) -> bytes:
        return subprocess.run(["git", "show", f"{revision}:hip/kernels/{path}"], check=True, stdout=subprocess.PIPE).stdout

    found = resources(stored("RESOURCES.md").decode())
    for code in {CODE_OF.get(card.architecture, card.architecture) for card in CARDS}:
        uncounted = [name for owner, name in found if owner == code and is_gemm(name) and found[owner, name].vector is None]
        if not uncounted:
            continue
        with tempfile.NamedTemporaryFile(suffix=".co") as file:
            file.write(gzip.decompress(stored(f"objects/{code}.co.gz")))
            file.flush()
            command = [OBJDUMP, "-d", "--no-show-raw-insn", file.name]
            text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        listing = lanes.parse(text.splitlines())
        for name in uncounted:
            counts = loops.step(listing[name])
            share = counts["in one bank"] / counts["products"] if code.startswith("gfx11") else 0.0
            found[code, name] = replace(found[code, name], vector=counts["vector"], one_bank=share)
    return found


def fuses_at(revision: str) -> dict[str, bool | str]:
    """Which GEMMs share launches by default at a revision of git, by architecture; empty if its sources do not say."""
    command = ["git", "show", f"{revision}:scripts/kernels/cards.py"]
    text = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    names: dict = {"__name__": "cards"}
    exec(text, names)
    return {card.architecture: card.fuses for card in names.get("CARDS", [])}


def is_gemm(kernel: str) -> re.Match | None:
    """A match, whose groups are rows, columns and threads, if the kernel is one of the GEMMs considered here."""
    return re.fullmatch(r"gemm_f16_(\d+)x(\d+)_(\d+)", kernel)


@dataclass(frozen=True)
class Step:
    """One step of a block: 64 bytes of each row of its tile."""

    peak_cycles: float  # of the products at the peak, on a compute unit that does nothing else
    vector_cycles: float  # of all vector instructions; on cards with one port products are among them
    shared_cycles: float  # reads by all waves, and writes
    cache_cycles: float | None  # of the loads, from the second-level cache at a compute unit's share of its bandwidth
    instructions_per_load: float  # matrix instructions for each vector of 16 bytes that a lane reads
    loaded_bytes: int  # from the caches or from memory
    operations_per_byte: float  # of these bytes

    def unit_cycles(self) -> float:
        """The cycles of the step if products and shared memory overlap and loads take no time."""
        return max(self.peak_cycles, self.vector_cycles, self.shared_cycles)

    def cycles(self) -> float:
        """The same if loads overlap as well, and all compute units share the second-level cache."""
        return max(self.unit_cycles(), self.cache_cycles or 0)

    def share(self) -> float:
        """The largest share of the card's peak rate, if all of these overlap."""
        return self.peak_cycles / self.cycles()


def step_of(card: Card, tile: Tile, known: dict) -> Step:
    kernel = kernel_of(card, tile, known)
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
    peak_cycles = operations / card.operations_per_cycle
    # A SIMD issues an instruction for 32 lanes in one cycle, and one for 64 in four.
    vector_cycles = tile.threads / card.lanes * (kernel.vector or 0) / card.simds * (1 if card.has_one_port() else 4)
    if card.has_one_port():
        vector_cycles += peak_cycles * (1 + kernel.one_bank * BANK_CYCLES / MATRIX_CYCLES)
    cache_cycles = None
    if card.measured:
        cache_cycles = writes / (card.measured.second_level / card.compute_units / card.gigahertz)
    return Step(
        peak_cycles,
        vector_cycles,
        (reads + writes) / SHARED_BYTES_PER_CYCLE,
        cache_cycles,
        instructions / vectors,
        writes,
        operations / writes,
    )


def tiles_of(card: Card, known: dict) -> list[Tile]:
    """The tiles that the card's code has in fp16, the largest first."""
    code = CODE_OF.get(card.architecture, card.architecture)
    names = [is_gemm(kernel) for owner, kernel in known if owner == code]
    tiles = [Tile(*map(int, name.groups())) for name in names if name]
    return sorted(tiles, key=lambda tile: (-tile.rows * tile.columns, tile.threads))


def kernel_of(card: Card, tile: Tile, known: dict) -> Kernel:
    code = CODE_OF.get(card.architecture, card.architecture)
    return known[code, f"gemm_f16_{tile.rows}x{tile.columns}_{tile.threads}"]


@cache
def moved_by_encoder(card: Card) -> dict[str, tuple[int, int]]:
    """Of each kind of launch of an encoder, the bytes that it moves, and those of them that come from memory or go there.

    The others are those of buffers that the last-level cache still holds: since their last use no more bytes have been
    used, with their own, than it has. One batch is in flight, and all but the weights have the same buffers in each
    encoder."""
    numbers = {
        "x": ROWS * WIDTH, "QKV": 3 * ROWS * WIDTH, "compressed": ROWS * CHANNELS, "hidden 1": POSITIONS * SMOLGEN_HIDDEN,
        "hidden 2": POSITIONS * HEADS * GENERATED, "normalised": POSITIONS * HEADS * GENERATED,
        "logits": POSITIONS * HEADS * SQUARES * SQUARES, "attended": ROWS * WIDTH, "result": ROWS * WIDTH,
        "y": ROWS * WIDTH, "hidden": ROWS * HIDDEN,
    } | {f"weights of {gemm.name}": gemm.outputs * gemm.inputs for gemm in GEMMS}
    # A LayerNorm in the launch of its GEMM reads the results from the second-level cache.
    result = [] if card.fuses is True else ["result"]
    launches = [
        ("QKV", ["x", "QKV"]), ("smolgen compress", ["x", "compressed"]), ("smolgen dense1", ["compressed", "hidden 1"]),
        ("smolgen dense2", ["hidden 1", "hidden 2"]), ("LayerNorms", ["hidden 2", "normalised"]),
        ("smolgen logits", ["normalised", "logits"]), ("attention", ["QKV", "logits", "attended"]),
        ("output", ["attended", "result"]), ("LayerNorms", [*result, "x", "y"]), ("FFN 1", ["y", "hidden"]),
        ("FFN 2", ["hidden", "result"]), ("LayerNorms", [*result, "y", "x"]),
    ]
    used: dict[tuple[str, int], int] = {}  # the bytes of each buffer, the last used at the end
    moved: dict[str, tuple[int, int]] = {}
    for encoder in range(ENCODERS):
        moved = {}
        for launch, buffers in launches:
            weights = f"weights of {launch}"
            for buffer in [*buffers[:-1], *([weights] if weights in numbers else []), buffers[-1]]:
                # Encoders share the weights of smolgen's logits only.
                key = buffer, encoder if buffer == weights and launch != "smolgen logits" else 0
                size = ELEMENT * numbers[buffer]
                order = list(used)
                since = sum(used[other] for other in order[order.index(key):]) if key in used else 0
                is_held = key in used and since <= card.last_level_megabytes << 20
                used.pop(key, None)
                used[key] = size
                total, memory = moved.get(launch, (0, 0))
                moved[launch] = total + size, memory + (0 if is_held else size)
    return moved


def moving_time(card: Card, total: int, memory: int) -> float:
    """The microseconds in which bytes are moved, some of them from or to memory."""
    return max(total / card.measured.last_level, memory / card.measured.memory) / 1e3


def gemm_choice(card: Card, known: dict, gemm: Gemm) -> tuple[float, Tile, int]:
    """The time of one GEMM in microseconds, the tile for which it is shortest, and the rounds: blocks run in rounds
    over all compute units. Where the traffic decides, it is the tile with the fewest cycles."""

    def by(tile: Tile) -> tuple[float, float, Tile, int]:
        blocks = ceil(gemm.rows / tile.rows) * ceil(gemm.outputs / tile.columns)
        steps = ceil(gemm.inputs * ELEMENT / STEP_BYTES)
        rounds = ceil(blocks / card.compute_units)
        step = step_of(card, tile, known)
        cycles = max(rounds * step.unit_cycles(), blocks / card.compute_units * step.cache_cycles) * steps
        return max(cycles / card.gigahertz / 1e3, traffic), cycles, tile, rounds

    traffic = moving_time(card, *moved_by_encoder(card).get(gemm.name, (gemm.bytes(), gemm.bytes())))
    microseconds, _, tile, rounds = min(map(by, tiles_of(card, known)), key=lambda choice: choice[:2])
    return microseconds, tile, rounds


def other_traffic(card: Card) -> list[tuple[str, int, int]]:
    """What the kernels between the GEMMs do: the bytes that a batch moves, and those of them from or to memory."""
    # A plane is a number of 64 bits for each position.
    planes = POSITIONS * (PLANES * 8 + SQUARES * INPUTS * ELEMENT)
    # Legal moves name a part of the queries and keys. Here it is all of them, as in kernel_work.rs.
    policy = 2 * ELEMENT * ROWS * WIDTH
    # The hidden layers and the weights are read, and the outputs are fp32.
    outputs = ELEMENT * HEAD_HIDDEN * (SCALAR_HEADS * POSITIONS + HEAD_OUTPUTS) + 4 * HEAD_OUTPUTS * POSITIONS
    encoders = [
        (name, *(ENCODERS * moved for moved in moved_by_encoder(card)[name])) for name in ("attention", "LayerNorms")
    ]
    return [
        ("planes", planes, planes),
        *encoders,
        ("policy of the legal moves", policy, policy),
        ("value and moves left, outputs", outputs, outputs),
    ]


def batch(card: Card, known: dict) -> dict[str, float]:
    """The microseconds of each part of a batch."""
    times = {gemm.name: gemm.count * gemm_choice(card, known, gemm)[0] for gemm in GEMMS}
    for name, total, memory in other_traffic(card):
        times[name] = moving_time(card, total, memory)
    heads = ceil(POSITIONS * HEADS / card.compute_units)
    arithmetic = ENCODERS * heads * card.attention_cycles / card.gigahertz / 1e3
    times["attention"] = max(times["attention"], arithmetic)
    return times | {"launches": LAUNCHES[card.fuses] * card.launch_microseconds}
