"""The checks of every kernel: shapes, arguments and expected results. hip/kernels/kernels.h documents the arguments."""
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

import references as reference
from bench import Array, Bench
from fault import Fault
from formats import F16, F32, FORMATS, Format

DEPTHS = (8, 16, 32, 64, 96, 128)
MISH, SWISH, RELU, NONE = 6, 7, 1, 0
# LayerNormArguments.
LAYER_NORM = "QQQQQQQQiiiiff"
EPSILON = 1e-3


@dataclass(frozen=True)
class Case:
    """A check of a kernel."""

    kernel: str
    label: str
    format: Format
    run: Callable[[Bench], None]
    matrix: bool = False  # the kernel exists only on machines with a matrix instruction
    lanes: int | None = None  # the kernel exists only on machines whose waves have so many lanes
    other: str = ""  # the kernel that takes its place on some machines


def attention(depth: int, logits: bool, heads: int, positions: int, b: Bench, *, together: int = 1) -> None:
    """The rows of Q, K and V lie side by side; the output's rows are longer than the result by eight elements. A block
    computes `together` heads."""
    width = heads * depth
    stride, output_stride = 3 * width, width + 8
    qkv = b.numbers(positions * 64, stride, scale=1.5)
    added = b.numbers(positions, heads, 64, 64, scale=2)
    output = b.output(positions * 64, output_stride)
    scale = depth**-0.5
    pointers = [qkv.address, added.address if logits else 0, output.address]
    counts = [heads, depth, stride, width, 2 * width, output_stride]
    b.run("QQQiiiiiif", [*pointers, *counts, scale], (-(-heads // together), positions), 128 * together)
    parts = qkv.values.reshape(positions, 64, 3, heads, depth)
    result = reference.attention(
        parts[:, :, 0], parts[:, :, 1], parts[:, :, 2], added.values if logits else 0.0, float(np.float32(scale))
    )
    want = np.zeros((positions * 64, output_stride))
    want[:, :width] = result.reshape(positions * 64, width)
    b.compare(output, want, written=np.arange(output_stride) < width)


def layer_norm(width: int, rows: int, wide: bool, kind: int, gates: bool, residual: bool, b: Bench) -> None:
    x, bias = b.numbers(rows, width, offset=3), b.numbers(width)
    added, gammas, betas = b.numbers(rows, width), b.numbers(width), b.numbers(width)
    multiply, add = b.numbers(64, width), b.numbers(64, width)
    output = b.output(rows, width)
    pointers = [x, bias, added if residual else None, gammas, betas, *((multiply, add) if gates else (None, None))]
    addresses = [each.address if each else 0 for each in pointers]
    grid = (rows if wide else -(-rows // 8), 1)
    b.run(LAYER_NORM, [*addresses, output.address, rows, width, 1, kind, 0.75, EPSILON], grid, 256)
    sums = 0.75 * reference.activate(kind, x.values + bias.values) + (added.values if residual else 0)
    want = reference.layer_norm(sums, gammas.values, betas.values, EPSILON)
    if gates:
        square = np.arange(rows) % 64
        want = want * multiply.values[square] + add.values[square]
    b.compare(output, want)


def activation(kind: int, gates: bool, b: Bench) -> None:
    """In place, with a bias for each of the 64 squares if there are gates."""
    rows, width = 70, 40
    output, x = b.in_place(b.random.standard_normal((rows, width)) * 3)
    bias_rows = 64 if gates else 1
    bias, multiply, add = b.numbers(bias_rows, width), b.numbers(64, width), b.numbers(64, width)
    pointers = [output.address, bias.address, *((multiply.address, add.address) if gates else (0, 0)), output.address]
    b.run("QQQQQiiii", [*pointers, rows, width, bias_rows, kind], (-(-rows * width // 2048), 1), 256)
    row = np.arange(rows)
    want = reference.activate(kind, x + bias.values[row % bias_rows])
    if gates:
        want = want * multiply.values[row % 64] + add.values[row % 64]
    b.compare(output, want)


def softmax(b: Bench) -> None:
    rows, width = 11, 77
    x, bias, output = b.numbers(rows, width, scale=2), b.numbers(width), b.output(rows, width)
    b.run("QQQQQiiii", [x.address, bias.address, 0, 0, output.address, rows, width, 1, 0], (-(-rows // 8), 1), 256)
    b.compare(output, reference.softmax(x.values + bias.values))


def dense(norm: bool, rows: int, inputs: int, outputs: int, kind: int, b: Bench) -> None:
    x, weights = b.numbers(rows, inputs), b.numbers(outputs, inputs, scale=inputs**-0.5)
    bias, gammas, betas = b.numbers(inputs), b.numbers(inputs), b.numbers(inputs)
    output = b.output(rows, outputs)
    pointers = [x.address, weights.address, output.address]
    pointers += [bias.address, gammas.address, betas.address] if norm else [0, 0, 0]
    grid = (outputs // 16, -(-rows // 16))
    b.run("QQQQQQiiiifi", [*pointers, rows, inputs, outputs, kind if norm else 0, EPSILON, 0], grid, 256)
    values = x.values
    if norm:
        sums = reference.activate(kind, values + bias.values)
        values = b.format.round(reference.layer_norm(sums, gammas.values, betas.values, EPSILON))
    b.compare(output, values @ weights.values.T)


# GemmArguments.
GEMM = "QQQQQQQQqqqiiiiiiiiii"
# ChainLink, and ChainArguments with three links.
LINK = GEMM + LAYER_NORM + "iiiiqiiii"
CHAIN = 3 * LINK + "QQiiiiii"


def preshuffled(weights: Array, element_bytes: int) -> Array:
    """The weights, [products][outputs][inputs], in pieces of 64 bytes of 16 outputs, with zeros beyond their ends."""
    products, outputs, inputs = weights.shape
    piece = 64 // element_bytes
    padded = np.zeros((products, -(-outputs // 16) * 16, -(-inputs // piece) * piece), weights.dtype)
    padded[:, :outputs, :inputs] = weights
    return padded.reshape(products, -1, 16, padded.shape[2] // piece, piece).transpose(0, 1, 3, 2, 4).copy()


def byte_weights(b: Bench, outputs: int, inputs: int) -> tuple[int, np.ndarray, int]:
    """Weights of 8 bits in pieces of 32 bytes of 16 outputs, and the outputs' scales: their address, values and row."""
    integers = b.random.integers(-128, 128, (outputs, inputs))
    row = -(-inputs // 32) * 32
    padded = np.full((-(-outputs // 16) * 16, row), 255, np.uint8)
    padded[:outputs, :inputs] = integers + 128
    pieces = padded.reshape(-1, 16, row // 32, 32).transpose(0, 2, 1, 3)
    scales = np.full(-(-outputs // 8) * 8, np.nan, np.float32)
    scales[:outputs] = (1 + np.arange(outputs) % 5) * 0.005 * inputs**-0.5
    memory = np.frombuffer(pieces.tobytes() + scales.tobytes(), np.uint8)
    return b.integers(memory), integers * scales[:outputs, None].astype(np.float64), row


def preshuffle(b: Bench) -> None:
    """Matrices whose rows are longer than what is used of them."""
    products, outputs, inputs, gap = 2, 21, 40, 8
    weights = b.numbers(products, outputs, inputs + gap)
    want = preshuffled(weights.values[:, :, :inputs], 4)
    output = b.output(*want.shape)
    distances = [outputs * (inputs + gap) * 4, want[0].size * 4]
    counts = [outputs, inputs * 4, (inputs + gap) * 4, 0]
    grid = (-(-want[0].size * 4 // 16 // 256), products)
    b.run("QQqqiiii", [weights.address, output.address, *distances, *counts], grid, 256)
    b.compare(output, want)


def gemm(
    tile: tuple[int, int, int],
    shape: tuple[int, int, int],
    products: int,
    kind: int,
    residual: bool,
    b: Bench,
    *,
    is_preshuffled: bool = False,
    is_gated: bool = False,
    has_bytes: bool = False,
) -> None:
    """Products in one part, of rows that are eight elements apart."""
    (tile_rows, tile_columns, threads), (rows, outputs, inputs) = tile, shape
    stride, output_stride = inputs + 8, outputs + 8
    x = b.numbers(products, rows, stride)
    weights, bias = b.numbers(products, outputs, inputs, scale=inputs**-0.5), b.numbers(outputs)
    added, output = b.numbers(products, rows, output_stride), b.output(products, rows, output_stride)
    address, weights_row, weights_batch = weights.address, inputs, outputs * inputs
    if is_preshuffled:
        copy = preshuffled(weights.values, np.dtype(b.format.storage).itemsize)
        address, weights_batch = b.put(copy).address, copy[0].size
        weights_row = copy.shape[2] * copy.shape[4]
    values = weights.values
    if has_bytes:
        address, rounded, weights_row = byte_weights(b, outputs, inputs)
        values = rounded[None]
    multiply, add = b.numbers(64, output_stride), b.numbers(64, output_stride)
    gates = [multiply.address, add.address] if is_gated else [0, 0]
    pointers = [x.address, address, output.address, bias.address, *gates, added.address if residual else 0, 0]
    distances = [rows * stride, weights_batch, rows * output_stride]
    counts = [rows, outputs, inputs, stride, weights_row, output_stride, products, 1, kind, int(is_preshuffled)]
    tiles = -(-rows // tile_rows) * -(-outputs // tile_columns)
    b.run(GEMM, [*pointers, *distances, *counts], (tiles, products), threads)
    sums = x.values[:, :, :inputs] @ values.transpose(0, 2, 1) + bias.values
    want = np.zeros((products, rows, output_stride))
    results = reference.activate(kind, sums)
    if is_gated:
        squares = np.arange(rows) % 64
        results = results * multiply.values[squares, :outputs] + add.values[squares, :outputs]
    want[:, :, :outputs] = results + (added.values[:, :, :outputs] if residual else 0)
    b.compare(output, want, written=np.arange(output_stride) < outputs)


def quantise(rows: int, width: int, has_factors: bool, b: Bench) -> None:
    """Numbers that are whole multiples of a row's scale, so that their bytes are known."""
    bytes_ = b.random.integers(-128, 128, (rows, width))
    bytes_[:, 0], bytes_[:, -1] = -128, 127
    zero = np.arange(rows)[:, None] / 4 - 1
    factors = 2.0 ** b.random.integers(-1, 2, width) if has_factors else np.ones(width)
    x = b.put((bytes_ / 64 + zero) / factors)
    scales, rounded = b.output(rows, 2, format=F32), b.memory.add(np.zeros((rows, width), np.int8), writable=True)
    address = b.put(factors, F32).address if has_factors else 0
    b.run("QQQQii", [x.address, address, rounded, scales.address, rows, width], (-(-rows // 8), 1), 256)
    b.compare(scales, np.concatenate([np.full((rows, 1), 1 / 64), zero], 1))
    if (b.memory.read_buffer(rounded, np.int8, rows * width).reshape(rows, width) != bytes_).any():
        raise Fault("a byte is wrong")


def gemm_bytes(tile: tuple[int, int, int], shape: tuple[int, int, int], kind: int, b: Bench) -> None:
    """A product of rows of bytes that are 16 apart."""
    (tile_rows, tile_columns, threads), (rows, outputs, inputs) = tile, shape
    stride, output_stride, width = inputs + 16, outputs + 8, -(-outputs // 8) * 8
    x, weights = (b.random.integers(-128, 128, size, np.int8) for size in ((rows, stride), (outputs, inputs)))
    of_rows = b.numbers(rows, 2, format=F32)
    of_outputs = b.numbers(2, width, scale=1e-4 * inputs**-0.5, format=F32)
    bias, added, output = b.numbers(outputs), b.numbers(rows, output_stride), b.output(rows, output_stride)
    pointers = [b.integers(x), b.integers(weights), output.address, bias.address, 0, 0, added.address, 0]
    counts = [rows, outputs, inputs, stride, inputs, output_stride, 1, 1, kind, 0]
    tiles = -(-rows // tile_rows) * -(-outputs // tile_columns)
    arguments = [*pointers, 0, 0, 0, *counts, of_rows.address, of_outputs.address]
    b.run(GEMM + "QQ", arguments, (tiles, 1), threads)
    sums = x[:, :inputs].astype(np.float64) @ weights.astype(np.float64).T
    scales, shares = of_outputs.values[:, :outputs]
    product = of_rows.values[:, :1] * scales * sums + of_rows.values[:, 1:] * shares
    want = np.zeros((rows, output_stride))
    want[:, :outputs] = reference.activate(kind, product + bias.values) + added.values[:, :outputs]
    b.compare(output, want, written=np.arange(output_stride) < outputs)


def gemm_sum(b: Bench) -> None:
    """The sum of three parts; the parts' rows are rounded up to a multiple of eight."""
    rows, outputs, splits, products = 5, 19, 3, 2
    partial = b.numbers(splits, products, rows, 24, format=F32)
    bias, output = b.numbers(outputs), b.output(products, rows, outputs)
    pointers = [0, 0, output.address, bias.address, 0, 0, 0, partial.address]
    counts = [rows, outputs, 96, 96, 96, outputs, products, splits, SWISH, 0]
    b.run(GEMM, [*pointers, 0, 0, rows * outputs, *counts], (1, products), 256)
    b.compare(output, reference.activate(SWISH, partial.values.sum(0)[:, :, :outputs] + bias.values))


def chain(
    tile: tuple[int, int, int], outputs: int, splits: int, b: Bench, *, has_bytes: bool = False
) -> None:
    """Two products: the second reads two rows of the first as one and is normalised, and the counters are zero again."""
    tile_rows, tile_columns, threads = tile
    squares, channels, inputs = 2, 24, 40
    rows, width = tile_rows + 6, squares * channels
    x, first = b.numbers(squares * rows, inputs), b.numbers(channels, inputs, scale=inputs**-0.5)
    weights = b.numbers(outputs, width, scale=width**-0.5)
    addresses, matrices, strides = [first.address, weights.address], [first.values, weights.values], [inputs, width]
    if has_bytes:
        of_first, of_second = byte_weights(b, channels, inputs), byte_weights(b, outputs, width)
        addresses, matrices, strides = ([*pair] for pair in zip(of_first, of_second, strict=True))
    gammas, betas, bias = b.numbers(outputs), b.numbers(outputs), b.numbers(outputs)
    added, partial = b.numbers(rows, outputs), b.output(splits, rows, outputs, format=F32)
    between, product, output = b.output(squares * rows, channels), b.output(rows, outputs), b.output(rows, outputs)
    # There are two groups of rows: one of a whole row of tiles, and the rest.
    across, together = -(-outputs // tile_columns), 1 if outputs > 1024 else threads // 32
    firsts = [squares, -(-squares * 6 // tile_rows)]
    norms = [tile_rows // together, -(-6 // together)]
    tiles = 2 * across
    zeros = np.zeros(3 + tiles, np.uint32)
    counters = b.memory.add(zeros, writable=True)
    link = [x.address, addresses[0], between.address, 0, 0, 0, 0, 0, 0, 0, 0]
    link += [squares * rows, channels, inputs, inputs, strides[0], channels, 1, 1, NONE, 0]
    link += 14 * [0] + [0, sum(firsts), squares * tile_rows, 0, 0, 0, 0, *firsts]
    second = [between.address, addresses[1], product.address, 0, 0, 0, 0, 0, 0, 0, 0]
    second += [rows, outputs, width, width, strides[1], outputs, 1, splits, NONE, 0]
    second += [product.address, bias.address, added.address, gammas.address, betas.address, 0, 0, output.address]
    second += [rows, outputs, 1, MISH, 0.75, EPSILON]
    first_norm = sum(firsts) + tiles * splits
    before_norm = [count + across for count in firsts]
    second += [sum(firsts), first_norm, tile_rows, 3, 0, *firsts, *before_norm]
    none = [*(21 * [0]), *(14 * [0]), *(9 * [0])]
    blocks = first_norm + sum(norms)
    all_blocks = [count + norm for count, norm in zip(before_norm, norms, strict=True)]
    end = [partial.address, counters, 2, blocks, 1, *all_blocks, 0]
    b.run(CHAIN, [*link, *second, *none, *end], (blocks, 1), threads)
    values = b.format.round(x.values @ matrices[0].T).reshape(rows, width)
    sums = reference.activate(MISH, b.format.round(values @ matrices[1].T) + bias.values)
    b.compare(output, reference.layer_norm(0.75 * sums + added.values, gammas.values, betas.values, EPSILON))
    if (b.memory.read_buffer(counters, np.uint32, len(zeros)) != zeros).any():
        raise Fault("leaves a counter that is not zero")


def planes(b: Bench) -> None:
    positions, count, extra, valued = 2, 112, 64, 109
    masks = b.random.integers(0, 1 << 64, (positions, count), dtype=np.uint64)
    values = np.array([0.25, 0.5], np.float32)
    table, output = b.numbers(64, extra), b.output(positions, 64, count + extra)
    pointers = [b.integers(masks), b.integers(values), table.address, output.address]
    b.run("QQQQiiii", [*pointers, count, count, extra, valued], (positions, 1), 256)
    want = np.zeros((positions, 64, count + extra))
    bits = masks[:, None, :] >> np.arange(64, dtype=np.uint64)[None, :, None] & np.uint64(1)
    want[:, :, :count] = bits
    want[:, :, valued] *= values[:, None]
    want[:, :, count:] = table.values
    b.compare(output, want)


def scalar_head(outputs: int, finish: int, b: Bench) -> None:
    positions, hidden = 5, 136
    x, hidden_bias = b.numbers(positions, hidden), b.numbers(hidden)
    weights, bias = b.numbers(outputs, hidden, scale=1 / 6), b.numbers(outputs, format=F32)
    output = b.output(positions, outputs, format=F32)
    pointers = [each.address for each in (x, hidden_bias, weights, bias, output)]
    b.run("QQQQQiiiiii", [*pointers, positions, hidden, outputs, MISH, finish, 0], (-(-positions // 8), 1), 256)
    sums = reference.activate(MISH, x.values + hidden_bias.values) @ weights.values.T + bias.values
    finishes = [lambda y: y, reference.softmax, np.tanh, lambda y: np.maximum(y, 0)]
    # The sums and the output are fp32 in every format.
    b.compare(output, finishes[finish](sums), 2e-5)


def legal_moves(b: Bench, counts: list[int], limit: int) -> tuple[list[np.ndarray], list[int], np.ndarray]:
    """Moves for positions with these counts of moves. Returns each position's moves, the addresses of places,
    first_moves and moves, and the places, which are below `limit`."""
    places = b.random.permutation(limit)[:1858].astype(np.uint16)
    moves = [b.random.integers(0, 1858, count).astype(np.uint16) for count in counts]
    first = np.array([0, *np.cumsum(counts)], np.uint32)
    return moves, [b.integers(places), b.integers(first), b.integers(np.concatenate(moves))], places


def attention_policy(b: Bench) -> None:
    """The second position has more moves than a block has threads. Queries and keys lie side by side."""
    counts, depth, scale, inverse_temperature = [37, 530], 72, 0.1, 0.7
    positions, stride = len(counts), 2 * depth
    x, promotions = b.numbers(positions * 64, stride), b.numbers(3, depth)
    moves, addresses, places = legal_moves(b, counts, 4096 + 192)
    output = b.output(sum(counts), format=F32)
    size = np.dtype(b.format.storage).itemsize
    pointers = [x.address, x.address + depth * size, promotions.address, *addresses, output.address]
    b.run("QQQQQQQiiff", [*pointers, stride, depth, scale, inverse_temperature], (positions, 1), 512)
    rows = x.values.reshape(positions, 64, 2, depth)
    want = []
    for position, own in enumerate(moves):
        logits = []
        for move in own:
            start, to, piece = reference.squares_of(int(places[move]))
            key = rows[position, to, 1]
            logit = scale * rows[position, start, 0] @ key
            logits.append(logit + (promotions.values[piece] @ key if piece >= 0 else 0))
        want.append(reference.softmax(inverse_temperature * np.array(logits)))
    b.compare(output, np.concatenate(want), 2e-5)


def policy(b: Bench) -> None:
    counts, width, inverse_temperature = [20, 530], 1858, 0.8
    logits, bias = b.numbers(len(counts), width, scale=2), b.numbers(width)
    moves, addresses, places = legal_moves(b, counts, width)
    output = b.output(sum(counts), format=F32)
    pointers = [logits.address, bias.address, *addresses, output.address]
    b.run("QQQQQQiifi", [*pointers, width, width, inverse_temperature, 0], (len(counts), 1), 512)
    sums = [(row + bias.values)[places[own]] for row, own in zip(logits.values, moves, strict=True)]
    b.compare(output, np.concatenate([reference.softmax(inverse_temperature * each) for each in sums]), 2e-5)


def winograd_input(b: Bench) -> None:
    positions, channels = 1, 72
    component = F32 if b.format is F32 else F16
    x = b.numbers(positions, 64, channels)
    stride = 4 * positions * channels + 8
    output = b.output(36, stride, format=component)
    grid = (-(-channels // 64), positions)
    b.run("QQQQQqii", [x.address, output.address, 0, 0, 0, stride, channels, 0], grid, 128)
    want = np.zeros((36, stride))
    want[:, :-8] = reference.winograd_input(x.values.reshape(positions, 8, 8, channels)).reshape(36, -1)
    b.compare(output, want, written=np.arange(stride) < stride - 8)


def winograd_output(b: Bench) -> None:
    positions, channels = 1, 72
    component = F32 if b.format is F32 else F16
    stride = 4 * positions * channels
    sums = b.numbers(36, positions, 4, channels, format=component)
    bias, residual = b.numbers(channels), b.numbers(positions, 64, channels)
    output, means = b.output(positions, 64, channels), b.output(positions, channels, format=F32)
    pointers = [each.address for each in (sums, output, bias, residual, means)]
    b.run("QQQQQqii", [*pointers, stride, channels, MISH], (-(-channels // 64), positions), 128)
    want = reference.winograd_output(sums.values) + bias.values + residual.values
    b.compare(output, reference.activate(MISH, want))
    b.compare(means, want.mean(1), 2e-5)


def convolution(columns: int, b: Bench) -> None:
    """All three steps in one launch, for two groups of 16 positions, of which the second has one position."""
    positions, inputs, outputs = 17, 8, 72
    component, rows = F32 if b.format is F32 else F16, 4 * positions
    x, bias = b.numbers(positions, 64, inputs), b.numbers(outputs)
    residual, weights = b.numbers(positions, 64, outputs), b.numbers(36, outputs, inputs, scale=0.2, format=component)
    transformed = b.output(36, rows, inputs, format=component)
    products = b.output(36, rows, outputs, format=component)
    output = b.output(positions, 64, outputs)
    counters = b.memory.add(np.zeros(3, np.uint32), writable=True)
    first = [x.address, transformed.address, 0, 0, 0, rows * inputs, inputs, 0]
    product = [transformed.address, weights.address, products.address, 0, 0, 0, 0, 0]
    product += [rows * inputs, outputs * inputs, rows * outputs]
    product += [rows, outputs, inputs, inputs, inputs, outputs, 36, 1, NONE, 0]
    last = [products.address, output.address, bias.address, residual.address, 0, rows * outputs, outputs, RELU]
    blocks = positions * (1 + 2) + 36 * 2 * -(-outputs // columns)
    transform = "QQQQQqii"
    arguments = [*first, *product, *last, counters, positions, blocks]
    b.run(transform + GEMM + transform + "Qii", arguments, (blocks, 1), 128)
    boards = x.values.reshape(positions, 8, 8, inputs)
    inner = component.round(reference.winograd_input(boards)).reshape(36, rows, inputs)
    sums = component.round(inner @ weights.values.transpose(0, 2, 1)).reshape(36, positions, 4, outputs)
    want = reference.activate(RELU, reference.winograd_output(sums) + bias.values + residual.values)
    # Components and sums are fp16 in the 16-bit formats, and the last step multiplies them by up to 3.4 in each direction.
    b.compare(output, want, 6e-5 if b.format is F32 else 8e-3)
    if b.memory.read_buffer(counters, np.uint32, 3).any():
        raise Fault("leaves a counter that is not zero")


def squeeze_excite(b: Bench) -> None:
    positions, channels, hidden = 1, 72, 24
    branch, residual = b.numbers(positions, 64, channels), b.numbers(positions, 64, channels)
    means = b.numbers(positions, channels, format=F32)
    squeeze, squeeze_bias = b.numbers(hidden, channels, scale=1 / 8), b.numbers(hidden)
    excite, excite_bias = b.numbers(hidden, 2 * channels, scale=1 / 4), b.numbers(2 * channels)
    output = b.output(positions, 64, channels)
    buffers = (branch, residual, output, means, squeeze, squeeze_bias, excite, excite_bias)
    b.run("QQQQQQQQiiii", [*(each.address for each in buffers), channels, hidden, RELU, 0], (positions, 1), 256)
    inner = np.maximum(means.values @ squeeze.values.T + squeeze_bias.values, 0)
    factors = (inner @ excite.values + excite_bias.values)[:, None]
    scales, shifts = reference.sigmoid(factors[..., :channels]), factors[..., channels:]
    b.compare(output, np.maximum(scales * branch.values + shifts + residual.values, 0))


def cases_of(format: Format) -> list[Case]:
    """All checks in one element type."""
    found: list[Case] = []

    def add(
        kernel: str,
        label: str,
        run: Callable[[Bench], None],
        matrix: bool = False,
        lanes: int | None = None,
        other: str = "",
    ) -> None:
        kernel, other = (name.replace("_T", f"_{format.name}") for name in (kernel, other))
        found.append(Case(kernel, label, format, run, matrix, lanes, other))

    if format is F32:
        add("preshuffle", "", preshuffle)
    if format is not F32:
        for depth in DEPTHS:
            heads, positions = (3, 2) if depth == 32 else (2, 1)
            small = depth <= 32
            kernel, pairs = f"attention_T_d{depth}", f"attention_T_d{depth}_x2" if small else ""
            add(kernel, "", partial(attention, depth, True, heads, positions), True, other=pairs)
            if small:
                add(pairs, "", partial(attention, depth, True, 3, positions, together=2), True, other=kernel)
                add(pairs, "without logits", partial(attention, depth, False, 2, 1, together=2), True, other=kernel)
        add("attention_T_d32", "without logits", partial(attention, 32, False, 2, 1), True, other="attention_T_d32_x2")
        add("attention_other_T_d32", "", partial(attention, 32, True, 3, 2), True)
        for rows, inputs, outputs in ((21, 512, 32), (3, 96, 16)):
            run = partial(dense, False, rows, inputs, outputs, NONE)
            add("dense_T", f"{rows} x {inputs} -> {outputs}", run, True)
        for rows, inputs, outputs in ((21, 256, 32), (16, 512, 16)):
            run = partial(dense, True, rows, inputs, outputs, SWISH)
            add("norm_dense_T", f"{rows} x {inputs} -> {outputs}", run, True)
        add("gemm_T_32x64_128", "", partial(gemm, (32, 64, 128), (37, 72, 72), 2, MISH, True))
        add("gemm_T_64x32_128", "", partial(gemm, (64, 32, 128), (69, 40, 72), 1, NONE, True))
        run = partial(gemm, (64, 32, 128), (69, 43, 72), 1, MISH, False, is_gated=True)
        add("gemm_T_64x32_128", "gates", run)
    for rows, threads in ((64, 128), (128, 256)):
        run = partial(gemm, (rows, rows, threads), (rows - 3, rows + 16, 40), 1, NONE, rows == 64)
        add(f"gemm_T_{rows}x{rows}_{threads}", "", run)
        run = partial(gemm, (rows, rows, threads), (37, rows + 24, 104), 2, MISH, True, is_preshuffled=True)
        add(f"gemm_T_{rows}x{rows}_{threads}", "preshuffled weights", run)
        run = partial(gemm, (rows, rows, threads), (rows + 5, rows + 8, 40), 1, MISH, rows == 64, is_gated=True)
        add(f"gemm_T_{rows}x{rows}_{threads}", "gates", run)
    if format is not F32:
        for outputs, splits in ((72, 1), (72, 2), (1032, 1)):
            run = partial(chain, (64, 64, 128), outputs, splits)
            add("gemm_chain_T_64x64_128", f"{outputs} outputs, {splits} parts", run)
        add("gemm_chain_T_128x128_256", "", partial(chain, (128, 128, 256), 136, 1))
        add("gemm_chain_T_64x32_128", "", partial(chain, (64, 32, 128), 40, 1))
        for rows, columns in ((64, 64), (64, 32), (32, 64)):
            size = (rows, columns, 128)
            name = f"gemm_byte_weights_T_{rows}x{columns}_128"
            add(name, "", partial(gemm, size, (rows + 5, columns + 8, 72), 1, MISH, True, has_bytes=True))
            add(name, "one row", partial(gemm, size, (1, 40, 40), 1, NONE, False, has_bytes=True))
        for outputs, splits in ((40, 1), (72, 2)):
            run = partial(chain, (64, 32, 128), outputs, splits, has_bytes=True)
            add("gemm_chain_byte_weights_T_64x32_128", f"{outputs} outputs, {splits} parts", run)
        for threads, lanes in ((128, 32), (256, 64)):
            size = (64, 128, threads)
            add(f"gemm_T_64x128_{threads}", "", partial(gemm, size, (61, 144, 40), 1, NONE, True), True, lanes)
            run = partial(gemm, size, (37, 152, 104), 2, MISH, True, is_preshuffled=True)
            add(f"gemm_T_64x128_{threads}", "preshuffled weights", run, True, lanes)
            add(f"gemm_chain_T_64x128_{threads}", "", partial(chain, size, 136, 1), True, lanes)
    if format is F16:
        add("quantise_T", "factors", partial(quantise, 9, 144, True))
        add("quantise_T", "width 1040", partial(quantise, 3, 1040, False))
        add("gemm_bytes_T_64x64_128", "", partial(gemm_bytes, (64, 64, 128), (67, 76, 144), MISH))
        add("gemm_bytes_T_128x128_256", "", partial(gemm_bytes, (128, 128, 256), (130, 136, 64), NONE))
    add("gemm_sum_T", "", gemm_sum)
    add("gemm_any_T", "", partial(gemm, (16, 16, 256), (18, 5, 27), 2, MISH, True))
    add("gemm_any_T", "gates", partial(gemm, (16, 16, 256), (66, 5, 27), 1, MISH, True, is_gated=True))
    for depth, logits in ((24, True), (40, True), (21, False)):
        add("attention_any_T", f"depth {depth}", partial(attention, depth, logits, 1 + depth % 2, 1))
    for limit, width, rows, kind, gates, residual in (
        (256, 248, 9, NONE, False, True),
        (512, 512, 9, NONE, False, True),
        (768, 768, 9, SWISH, True, True),
        (1024, 1024, 9, MISH, False, False),
        (8192, 1536, 2, NONE, False, True),
    ):
        run = partial(layer_norm, width, rows, limit == 8192, kind, gates, residual)
        add(f"layer_norm_T_w{limit}", f"width {width}", run)
    for kind in range(8):
        add("activation_T", f"function {kind}", partial(activation, kind, kind in (0, MISH)))
    add("softmax_T", "", softmax)
    add("planes_T", "", planes)
    for outputs, finish in ((3, 1), (1, 2), (1, 3), (1, 0)):
        add("scalar_head_T", f"{outputs} outputs, finish {finish}", partial(scalar_head, outputs, finish))
    add("attention_policy_T", "", attention_policy)
    add("policy_T", "", policy)
    add("winograd_input_T", "", winograd_input)
    add("winograd_output_T", "", winograd_output)
    for columns in (64,) if format is F32 else (64, 32):
        add(f"convolution_T_64x{columns}", "", partial(convolution, columns))
    add("squeeze_excite_T", "", squeeze_excite)
    return found


def all_cases() -> list[Case]:
    """All checks in all element types."""
    return [case for format in FORMATS.values() for case in cases_of(format)]
