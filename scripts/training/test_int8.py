#!/usr/bin/env python3
"""Tests of the training for 8-bit integers: the engine's levels, gradients, and a whole run. They take half a minute.

Needs PyTorch, numpy and python-chess; without PyTorch they are skipped.

    python -m unittest discover scripts/training --pattern test_int8.py
"""

import gzip
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

try:
    import torch
except ImportError as error:
    raise unittest.SkipTest("PyTorch is missing") from error

import lc0_file
import model
import rounding
from batches import decode
from model import Network, Shape
from positions import chunk_record, random_games, raw_records

SMALL = Shape(width=32, layers=2, heads=2, ffn=48, smolgen=(4, 16, 8), policy=32, value=(4, 16), moves_left=(2, 8))


def rounded_row(row):
    """A row [inputs] as `rounding.rs` rounds it, in fp32: the bytes, and the numbers that they stand for."""
    row = row.astype(np.float32)
    least, extent = row.min(), row.max() - row.min()
    inverse = np.float32(255) / extent if extent > 0 else np.float32(0)
    # The engine's multiplication and addition are fused; fp64 rounds nowhere near as early either.
    whole = np.rint(row.astype(np.float64) * inverse - np.float64(least * inverse))
    return whole, whole * np.float64(extent * np.float32(1 / 255)) + least


def compensated(weights, mean_products, factors):
    """Weights [outputs][inputs] as `quantise.rs` rounds them, weight by weight: bytes [outputs][inputs], scales."""
    divided = (weights / factors).astype(np.float64)
    products = mean_products * np.outer(factors, factors)
    order = np.argsort(-np.diag(products), kind="stable")
    matrix = products[np.ix_(order, order)] + 0.01 * np.diag(products).mean() * np.eye(len(order))
    for last in reversed(range(len(order))):
        column = matrix[:last, last].copy()
        matrix[:last, last] /= matrix[last, last]
        matrix[:last, :last] -= np.outer(matrix[:last, last], column)
    scales = np.abs(divided).max(axis=1) / 127
    whole = np.zeros_like(divided)
    for output, row in enumerate(divided):
        targets = row[order].copy()
        for i, place in enumerate(order):
            whole[output, place] = np.clip(np.rint(targets[i] / scales[output]), -127, 127)
            targets[i + 1 :] += (row[place] - whole[output, place] * scales[output]) * matrix[i, i + 1 :]
    return whole, scales


def calibrated(network):
    planes = decode(torch.from_numpy(raw_records(list(random_games(2))))).planes
    product = rounding.Rounding()
    product.calibrate(network, planes)
    return product, planes


class RoundingTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)

    def test_inputs_have_the_engines_levels(self):
        x = torch.randn(50, 37) * torch.logspace(-3, 3, 50)[:, None] + 1
        x[0] = 5.0
        whole, scale, least, rounded = rounding.round_inputs(x)
        for i, row in enumerate(x.numpy()):
            bytes_, numbers = rounded_row(row)
            # A number halfway between two levels may be rounded to either.
            self.assertLess(np.mean(bytes_ != whole[i].numpy()), 0.03)
            np.testing.assert_allclose((whole[i] * scale[i] + least[i]).numpy(), numbers, atol=1.01 * scale[i].item())
        self.assertEqual((whole.min().item(), whole[1:].max().item()), (0, 255))
        np.testing.assert_allclose(rounded.numpy(), (whole * scale + least).numpy(), rtol=1e-4, atol=1e-5)
        self.assertEqual(rounded[0, 0].item(), 5)

    def test_weights_have_the_engines_levels(self):
        rows = torch.randn(1000, 8) @ torch.randn(8, 24) + 0.2 * torch.randn(1000, 24)
        rows[:, ::8] *= 12
        weights = torch.randn(10, 24)
        statistics = rounding.InputStatistics.of(rows)
        factors = rounding.input_factors(weights, statistics.largest)
        ratios = (weights.abs().amax(0) / rows.abs().amax(0)).sqrt()
        np.testing.assert_allclose(factors, (ratios / ratios.log().mean().exp()).clamp(max=4), rtol=1e-5)
        order, shares = rounding.compensation(statistics.mean_products, factors)
        ordered = rounding.as_multiples(weights / factors)[:, order]
        offsets = torch.zeros_like(weights)
        offsets[:, order] = rounding.compensating_offsets(ordered.T[None].contiguous(), shares[None])[0].T
        whole, scales, _ = rounding.round_weights(weights, factors, offsets)
        wanted, wanted_scales = compensated(weights.numpy(), statistics.mean_products.numpy(), factors.numpy())
        np.testing.assert_allclose(scales[:, 0], wanted_scales, rtol=1e-5)
        self.assertGreater(np.mean(whole.numpy() == wanted), 0.98)
        self.assertEqual(whole.abs().max().item(), 127)
        # It is not the same as rounding to the nearest, and better.
        nearest, _, _ = rounding.round_weights(weights, factors, torch.zeros_like(weights))
        errors = [((one * scales * factors - weights) @ rows.T).square().mean().item() for one in (whole, nearest)]
        self.assertLess(errors[0], 0.8 * errors[1])

    def test_a_product_is_that_of_the_rounded_numbers(self):
        layers = [torch.nn.Linear(24, 7), torch.nn.Linear(24, 5)]
        x = torch.randn(6, 64, 24)
        product = rounding.Rounding()
        factors, offsets = torch.rand(24) + 0.5, torch.zeros(12, 24)
        product.known[id(layers[0])] = factors, offsets
        got = product(x, layers, 0.5)
        weights = torch.cat([layer.weight for layer in layers]).detach()
        whole, scales, _ = rounding.round_weights(weights, factors, offsets)
        x_whole, x_scale, least, _ = rounding.round_inputs((x * factors).flatten(0, 1))
        wanted = (x_whole * x_scale + least).double() @ (whole * scales).double().T
        wanted = wanted + torch.cat([layer.bias for layer in layers])
        np.testing.assert_allclose(got.detach().flatten(0, 1).numpy(), wanted.detach().numpy(), atol=1e-5)

    def test_outputs_are_near_the_plain_ones_and_gradients_pass(self):
        network = Network(SMALL)
        product, planes = calibrated(network)
        rounded, plain = (network(planes[:8], one) for one in (product, model.product))
        gradients = []
        for outputs in (rounded, plain):
            network.zero_grad()
            sum(output.square().mean() for output in outputs).backward()
            named = network.named_parameters()
            gradients.append({name: one.grad.clone() for name, one in named if one.grad is not None})
        for a, b in zip(rounded, plain, strict=True):
            difference = (a - b).abs().max().item()
            self.assertGreater(difference, 0)
            self.assertLess(difference, 0.05 * b.abs().max().item())
        self.assertEqual(gradients[0].keys(), gradients[1].keys())
        for name, gradient in gradients[0].items():
            wanted = gradients[1][name]
            self.assertLess((gradient - wanted).norm().item(), 0.2 * wanted.norm().item() + 1e-6, name)


class RunTest(unittest.TestCase):
    def test_a_run_makes_the_error_smaller_and_keeps_the_header(self):
        torch.manual_seed(1)
        network = Network(SMALL)
        # Some inputs are far larger than others, as in a trained network.
        with torch.no_grad():
            for encoder in network.encoder:
                encoder.ln1.weight[::8] *= 30
                encoder.ln2.weight[::8] *= 30
        boards = list(random_games(12))
        records = np.stack([chunk_record(board, np.ones(board.legal_moves.count(), int)) for board in boards])
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            games = directory / "games"
            games.mkdir()
            for game in range(60):
                (games / f"game_{game:06}.gz").write_bytes(gzip.compress(records[game::60].tobytes()))
            old, new, log = directory / "old.pb.gz", directory / "new.pb.gz", directory / "log.jsonl"
            lc0_file.write(old, network, training_steps=7, description="a test", figures={"accuracy": 12.5})
            done = subprocess.run(
                [sys.executable, Path(__file__).with_name("finetune_int8.py"), old, new, "--data", games, "--log", log,
                 "--steps=40", "--batch=32", "--device=cpu", "--learning-rate=2e-5", "--heldout=100", "--readers=1"],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            self.assertEqual(done.returncode, 0, done.stderr)
            header, shape = lc0_file.read_header(new), lc0_file.read(new).shape
            lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        self.assertEqual(header, {"training_steps": 7, "description": "a test", "figures": {"accuracy": 12.5}})
        self.assertEqual(shape, SMALL)
        kl = {line["name"]: line["kl"] for line in lines if "name" in line}
        self.assertEqual(set(kl), {"rounded original", "rounded student", "unrounded student"})
        self.assertLess(kl["rounded student"], 0.8 * kl["rounded original"])
        self.assertLess(kl["unrounded student"], 0.2 * kl["rounded original"])


if __name__ == "__main__":
    unittest.main()
