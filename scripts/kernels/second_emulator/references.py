"""The kernels' formulas in fp64. Most come from the comments of hip/kernels/kernels.h. The limit of attention's scores
comes from attention.hip, and the points of Winograd's method from convolution.hip.
"""
import numpy as np

Array = np.ndarray
LARGEST_HALF = 65504.0  # fp16's largest number
NEAR, FAR = 0.625, 1.5  # the positive points of Winograd's method


def activate(kind: int, x: Array) -> Array:
    """The activation functions, by their number in kernels.h."""
    with np.errstate(over="ignore"):
        if kind == 0:
            return x
        if kind == 1:
            return np.maximum(x, 0)
        if kind == 2:
            return np.maximum(x, 0) ** 2
        if kind == 3:
            return np.tanh(x)
        if kind == 4:
            return sigmoid(x)
        if kind == 5:
            scale, alpha = 1.05070098735548049342, 1.67326324235437728481
            return scale * np.where(x > 0, x, alpha * np.expm1(x))
        if kind == 6:
            return x * np.tanh(np.logaddexp(0, x))
        return x * sigmoid(x)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def softmax(x: Array) -> Array:
    """The softmax over the last axis."""
    power = np.exp(x - x.max(-1, keepdims=True))
    return power / power.sum(-1, keepdims=True)


def layer_norm(x: Array, gammas: Array, betas: Array, epsilon: float) -> Array:
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(x.var(-1, keepdims=True) + epsilon) * gammas + betas


def attention(queries: Array, keys: Array, values: Array, logits: Array | float, scale: float) -> Array:
    """The values, weighted by the softmax of the scores. Queries, keys, values and the result are
    [position][square][head][depth], and logits are [position][head][query][key]. Scores are limited to fp16's range, as
    in the kernels."""
    scores = np.einsum("bqhd,bkhd->bhqk", queries, keys) * scale + logits
    weights = softmax(np.clip(scores, -LARGEST_HALF, LARGEST_HALF))
    return np.einsum("bhqk,bkhd->bqhd", weights, values)


def squares_of(place: int) -> tuple[int, int, int]:
    """The two squares of a place in the policy, and the piece of a promotion or -1."""
    if place < 4096:
        return place // 64, place % 64, -1
    file_from, rest = divmod(place - 4096, 24)
    file_to, piece = divmod(rest, 3)
    return 48 + file_from, 56 + file_to, piece


def winograd_matrices() -> tuple[Array, Array]:
    """B^T and A^T for the points 0, +-5/8, +-3/2 and infinity."""
    points = [0, NEAR, -NEAR, FAR, -FAR]
    into = np.zeros((6, 6))
    for row, point in enumerate(points):
        # The coefficients of the polynomial that is zero at all other points, lowest power first.
        into[row, :5] = np.poly([other for other in points if other != point])[::-1]
    into[5] = np.poly(points)[::-1]
    back = np.array([[point**power for point in points] + [float(power == 3)] for power in range(4)])
    return into, back


def winograd_input(boards: Array) -> Array:
    """Transforms boards [position][8][8][channel] to components [36][position][tile][channel]."""
    into, _ = winograd_matrices()
    padded = np.pad(boards, ((0, 0), (1, 1), (1, 1), (0, 0)))
    tiles = [padded[:, top : top + 6, left : left + 6] for top in (0, 4) for left in (0, 4)]
    result = np.einsum("ik,jl,tbklc->ijbtc", into, into, np.stack(tiles))
    return result.reshape(36, *result.shape[2:])


def winograd_output(components: Array) -> Array:
    """Transforms components [36][position][tile][channel] to boards [position][64][channel]."""
    _, back = winograd_matrices()
    sums = components.reshape(6, 6, *components.shape[1:])
    tiles = np.einsum("ik,jl,klbtc->btijc", back, back, sums)
    count, channels = tiles.shape[0], tiles.shape[-1]
    boards = tiles.reshape(count, 2, 2, 4, 4, channels).transpose(0, 1, 3, 2, 4, 5)
    return boards.reshape(count, 64, channels)
