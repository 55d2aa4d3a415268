"""The engine's 8-bit integers in PyTorch: what the backend `cpu-int8` computes in place of the dense layers.

A row of x is rounded to 256 multiples between its least and its largest number, and the weights of an output to 255
multiples of a scale. Before that each input is multiplied by a factor, and its weights are divided by it. The factors,
and how the error of a weight is compensated by those after it, depend on what the inputs are on some positions. This
follows `src/backend/cpu/kernels/matrix/quantise.rs`, which explains it, and `statistics.rs`.

The products are exact: their operands are whole numbers below 256, which TF32 holds, and the sums are below 2^24.
Gradients go through the rounding as if it were not there (the straight-through estimator), except that a coarser scale
makes larger errors, which the least and the largest number feel (Esser and others, *Learned step size quantization*,
2020).
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F

import model

#: The steps between the least and the largest number of a row of x.
INPUT_STEPS = 255
#: The largest 8-bit weight, on processors with VNNI or AMX and on 64-bit ARM.
LARGEST_WEIGHT = 127
#: The share of the inputs' mean square that is added to each mean square.
DAMPING = 0.01
LARGEST_FACTOR = 4.0
#: A weight or an input that is never larger has no influence on the factors.
LEAST_RANGE = 1e-9
#: Rows of a layer's x that statistics are made from, and the step between them where the rows are squares.
MOST_ROWS, ROW_STEP = 4096, 3
#: The most inputs whose products with each other are known.
MOST_INPUTS = 512


@dataclass
class InputStatistics:
    """What the inputs of a layer are."""

    #: [inputs] the largest absolute value of each
    largest: torch.Tensor
    #: [inputs][inputs] mean products of two inputs; None if there are too many inputs or too few rows
    mean_products: torch.Tensor | None

    @staticmethod
    def of(rows):
        """Statistics of rows [rows][inputs]."""
        rows, inputs = rows.double(), rows.shape[1]
        is_known = inputs <= MOST_INPUTS and len(rows) >= 2 * inputs
        return InputStatistics(rows.abs().amax(0).float(), rows.T @ rows / len(rows) if is_known else None)


def input_factors(weights, largest):
    """The factors [inputs] for weights [outputs][inputs] and the largest absolute value of each input."""
    most = weights.abs().amax(0)
    known = (most > LEAST_RANGE) & (largest > LEAST_RANGE)
    logarithm = torch.where(known, (most / largest).sqrt(), torch.ones_like(most)).double().log()
    mean = (logarithm * known).sum() / known.sum().clamp(min=1)
    factors = (logarithm - mean).exp().float().clamp(max=LARGEST_FACTOR)
    return torch.where(known, factors, torch.ones_like(factors))


def compensation(mean_products, factors):
    """The order [inputs] in which weights are rounded, and by how much of the error of the first weight of a pair the
    second one changes [inputs][inputs], in this order. It is zero unless the second comes later: this is U of
    (U + I) D (U + I)^T."""
    products = mean_products * factors.double() * factors.double()[:, None]
    order = products.diagonal().argsort(descending=True)
    damping = DAMPING * products.diagonal().mean() + torch.finfo(torch.float32).tiny
    products = products[order][:, order] + damping * torch.eye(len(order), dtype=torch.float64, device=order.device)
    # The Cholesky decomposition has the lower triangle first.
    upper = torch.linalg.cholesky(products.flip(0, 1)).flip(0, 1)
    return order, (upper / upper.diagonal()).triu(1).float()


def compensating_offsets(multiples, shares):
    """For weights [layers][inputs][outputs] in multiples of their scales: how much is added to each before it is
    rounded, [layers][inputs][outputs], to compensate the errors of those before it. `shares` is
    [layers][inputs][inputs]."""
    errors, offsets = torch.zeros_like(multiples), torch.zeros_like(multiples)
    shares = shares.transpose(1, 2).contiguous()
    for i in range(multiples.shape[1]):
        offsets[:, i] = (shares[:, i, None, :i] @ errors[:, :i])[:, 0]
        rounded = (multiples[:, i] + offsets[:, i]).round().clamp(-LARGEST_WEIGHT, LARGEST_WEIGHT)
        errors[:, i] = multiples[:, i] - rounded
    return offsets


def weight_scales(divided):
    """The scale [outputs][1] of each output's weights, which are divided by their factors."""
    return divided.abs().amax(1, keepdim=True) / LARGEST_WEIGHT


def as_multiples(divided):
    """Weights [outputs][inputs] in multiples of their scales."""
    return divided / weight_scales(divided).clamp(min=torch.finfo(torch.float32).tiny)


def round_weights(weights, factors, offsets):
    """Rounds weights [outputs][inputs]. Returns the whole numbers, the scales [outputs][1], and the product of both,
    which is the rounded weights divided by their factors, with their gradients."""
    divided = weights / factors
    scales = weight_scales(divided)
    multiples = as_multiples(divided.detach())
    whole = (multiples + offsets).round().clamp(-LARGEST_WEIGHT, LARGEST_WEIGHT)
    return whole, scales, divided + (whole - multiples) * scales


def round_inputs(x):
    """Rounds each row of x [rows][inputs]. Returns whole numbers from 0 to 255, the scale [rows][1] of each row and the
    number that 0 stands for [rows][1], and the rounded numbers, with their gradients."""
    # aminmax has no gradient on NVIDIA cards.
    least, most = x.amin(1, keepdim=True), x.amax(1, keepdim=True)
    scale = (most - least) / INPUT_STEPS
    with torch.no_grad():
        extent = most - least
        inverse = torch.where(extent > 0, INPUT_STEPS / extent, torch.zeros_like(extent))
        multiples = torch.addcmul(-least * inverse, x, inverse)
        whole = multiples.round()
    return whole, scale.detach(), least.detach(), torch.addcmul(x, whole - multiples, scale)


class IntegerProduct(torch.autograd.Function):
    """y [rows][outputs] = x w^T from the whole numbers of x and w, with the gradients of the rounded numbers."""

    @staticmethod
    def forward(ctx, x, w, x_parts, w_parts):
        ctx.save_for_backward(x, w)
        (x_whole, x_scale, least), (w_whole, w_scale) = x_parts, w_parts
        sums = (w_whole.sum(1, keepdim=True) * w_scale).T
        return torch.addcmul(least * sums, x_whole @ w_whole.T, x_scale * w_scale.T)

    @staticmethod
    def backward(ctx, gradient):
        x, w = ctx.saved_tensors
        return gradient @ w, gradient.T @ x, None, None


class Rounding:
    """How the layers of a network are rounded. The object takes the place of `model.product`."""

    def __init__(self):
        #: By the identity of the first layer of a product: the factors [inputs] and the offsets [outputs][inputs].
        self.known = {}

    @torch.no_grad()
    def calibrate(self, network, planes):
        """Finds factors and offsets for the network's present weights, by what its inputs are on some positions. The
        engine takes 136."""
        seen = {}

        def record(x, layers, first_scale=1.0):
            rows = x.flatten(0, -2)
            # One of three squares, so that all squares have their turn.
            rows = rows[::ROW_STEP] if x.ndim == 3 and x.shape[1] == 64 else rows
            seen.setdefault(id(layers[0]), (layers, first_scale, []))[2].append(rows)
            return model.product(x, layers)

        network(planes, product=record)
        waiting = {}
        for key, (layers, first_scale, parts) in seen.items():
            # Several encoders share smolgen's last layer.
            rows = torch.cat(parts)
            statistics = InputStatistics.of(rows[:: -(-len(rows) // MOST_ROWS)])
            weights = torch.cat([layer.weight for layer in layers])
            scaled = weights.clone()
            scaled[: layers[0].out_features] *= first_scale
            factors = input_factors(scaled, statistics.largest)
            self.known[key] = factors, torch.zeros_like(weights)
            if statistics.mean_products is not None:
                order, shares = compensation(statistics.mean_products, factors)
                waiting.setdefault(len(factors), []).append((key, weights, order, shares))
        # Layers with equally many inputs are rounded together, because each step is small.
        for jobs in waiting.values():
            self._compensate(jobs)

    def _compensate(self, jobs):
        most = max(len(weights) for _, weights, _, _ in jobs)
        multiples = torch.stack([
            F.pad(as_multiples(weights / self.known[key][0]).T[order], (0, most - len(weights)))
            for key, weights, order, _ in jobs
        ])  # fmt: skip
        offsets = compensating_offsets(multiples, torch.stack([shares for _, _, _, shares in jobs]))
        for (key, weights, order, _), found in zip(jobs, offsets, strict=True):
            self.known[key][1][:, order] = found[:, : len(weights)].T

    def __call__(self, x, layers, first_scale=1.0):
        """Does the same as `model.product` with integers."""
        factors, offsets = self.known[id(layers[0])]
        weights = torch.cat([layer.weight for layer in layers]) if len(layers) > 1 else layers[0].weight
        w_whole, w_scale, w = round_weights(weights, factors, offsets)
        x_whole, x_scale, least, rounded = round_inputs((x * factors).flatten(0, -2))
        y = IntegerProduct.apply(rounded, w, (x_whole, x_scale, least), (w_whole.detach(), w_scale.detach()))
        if layers[0].bias is not None:
            y = y + torch.cat([layer.bias for layer in layers])
        return y.view(*x.shape[:-1], -1)
