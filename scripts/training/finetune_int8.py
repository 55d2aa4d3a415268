#!/usr/bin/env python3
"""Trains a network so that it loses less when the engine computes it with 8-bit integers (`--backend=cpu-int8`).

    scripts/training/finetune_int8.py network.pb.gz better.pb.gz --data GAMES --seconds 90

The network that it starts with, without any rounding, is the teacher. The student is rounded as the engine rounds it
(`rounding.py`), and learns the teacher's policy, win, draw and loss, and moves left, on positions of self-play games
(`rukh selfplay --training`) or, with --shards, on labelled positions. In another term of the loss the student is not
rounded, so that it stays as strong in fp32. The factors and the compensation of the rounding are found anew every few
steps, from other positions each time, because the engine finds its own when it loads the network.

It prints how far the outputs are from the teacher's on held-out positions, before and after. Needs PyTorch and numpy.
"""

import argparse
import contextlib
import copy
import json
import math
import multiprocessing
import os
import sys
import tarfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

import batches
import chunk_batches
import chunks
import lc0_file
import model
from data import Shards
from losses import HUBER_DELTA, PolicyMap
from policy_map import MIRRORED_INDEX
from rounding import Rounding

#: Every so manyth game is held out.
HELD_OUT = 20
#: Batches from which the usual size of gradients is estimated, and the least square of it, as a share of the mean.
SPREAD_BATCHES, LEAST_SPREAD = 16, 1e-3
FIGURES = ("dq", "dd", "dm", "kl", "other_best")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", help="network file to start with")
    parser.add_argument("export", help="network file to write")
    parser.add_argument("--data", required=True, nargs="+", help="folders with chunks of games, or with shards")
    parser.add_argument("--shards", action="store_true", help="the folders hold train-*.bin and heldout-*.bin")
    parser.add_argument("--positions", type=int, default=500_000, help="the most positions to train on")
    parser.add_argument("--heldout", type=int, default=8000, help="the most held-out positions")
    parser.add_argument("--log", help="file for the printed figures, one JSON object per line")

    run = parser.add_argument_group("training")
    length = run.add_mutually_exclusive_group(required=True)
    length.add_argument("--seconds", type=float, help="time from the start of the program until training ends")
    length.add_argument("--steps", type=int, help="steps of the training, instead of its time")
    run.add_argument("--batch", type=int, default=1024, help="positions per step")
    run.add_argument("--learning-rate", type=float, default=3e-5)
    run.add_argument("--warm-up", type=float, default=0.05, help="share of the time in which the rate rises")
    run.add_argument("--ema", type=float, default=0.98, help="decay of the average of the weights, per step")
    run.add_argument("--weight-value", type=float, default=10.0, help="weight of the divergence of win, draw and loss")
    run.add_argument("--weight-moves-left", type=float, default=0.05)
    run.add_argument("--weight-plain", type=float, default=0.5, help="weight of the student without rounding")
    run.add_argument("--calibration-positions", type=int, default=136)
    run.add_argument("--calibration-interval", type=int, default=20, help="steps until the rounding is found anew")
    run.add_argument("--seed", type=int, default=1)
    run.add_argument("--report-interval", type=float, default=10)

    machine = parser.add_argument_group("machine")
    machine.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    machine.add_argument("--readers", type=int, default=os.cpu_count(), help="processes that read games")
    return parser.parse_args()


# Positions


def games_of(path):
    """The name and the records of each game in a file, or the error of a damaged one."""
    if path.suffix == ".tar":
        try:
            yield from chunks.read_tar(path)
        except (OSError, tarfile.TarError) as error:
            yield path.name, OSError(str(error))
    else:
        try:
            yield path.name, chunks.read_chunk(path)
        except OSError as error:
            yield path.name, error


def read_games(number, path):
    """The rows of file `number`: those to train on, and those held out."""
    nothing = chunks.rows(np.zeros(0, chunks.RECORD))
    training, heldout = [nothing], [nothing]
    for game, (name, records) in enumerate(games_of(path), number):
        if isinstance(records, OSError):
            print(f"cannot read {path}: {name}: {records}", file=sys.stderr)
            continue
        (heldout if game % HELD_OUT == 1 else training).append(chunks.rows(records[chunks.usable(records)]))
    return np.concatenate(training), np.concatenate(heldout)


def read_positions(args):
    """Shuffled rows to train on, and held-out rows."""
    if args.shards:
        training, heldout, _ = Shards(*args.data).read_new()
    else:
        paths = sorted(path for folder in args.data for kind in ("*.tar", "*.gz") for path in Path(folder).rglob(kind))
        # The processes use no PyTorch, which has no threads yet.
        with ProcessPoolExecutor(min(args.readers, max(len(paths), 1)), multiprocessing.get_context("fork")) as pool:
            found = list(pool.map(read_games, range(len(paths)), paths))
        training, heldout = zip(*found, strict=True) if found else ((), ())
    random = np.random.default_rng(args.seed)
    limits = (args.positions, args.heldout)
    shuffled = []
    for parts, limit in zip((training, heldout), limits, strict=True):
        rows = np.concatenate(parts) if len(parts) else np.zeros((0, 1), np.uint8)
        shuffled.append(torch.from_numpy(rows[random.permutation(len(rows))[:limit]]))
    if not len(shuffled[0]) or not len(shuffled[1]):
        raise SystemExit(f"too few positions in {' '.join(args.data)}: {len(shuffled[0])}, held out {len(shuffled[1])}")
    return shuffled


# Distances


@contextlib.contextmanager
def matmul_precision(name):
    """Products of fp32 in TF32 (`high`), or in fp32 (`highest`), where the device has the choice."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(name)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def q_and_d(value):
    wdl = torch.softmax(value, dim=1)
    return wdl[:, 0] - wdl[:, 2], wdl[:, 1]


class Distances:
    """How far outputs are from the teacher's."""

    def __init__(self, args, decode, device):
        self.args, self.decode, self.policy_map = args, decode, PolicyMap().to(device)

    def loss(self, outputs, target, legal):
        """The divergences of the policy over the legal moves and of win, draw and loss, and the moves-left error."""
        policy, wdl = self.policy_map.log_probabilities(outputs[0], legal), F.log_softmax(outputs[1], dim=1)
        wanted, wanted_wdl = self.policy_map.log_probabilities(target[0], legal), F.log_softmax(target[1], dim=1)
        moves_left = F.huber_loss(outputs[2], target[2], delta=HUBER_DELTA)
        return (
            (wanted.exp() * (wanted - policy)).sum(1).mean()
            + self.args.weight_value * (wanted_wdl.exp() * (wanted_wdl - wdl)).sum(1).mean()
            + self.args.weight_moves_left * moves_left
        )

    @torch.no_grad()
    def measure(self, teacher, student, product, rows):
        """The mean distances on rows: of q, d, plies, the policy in nats, and the share of other best moves."""
        sums = torch.zeros(len(FIGURES), dtype=torch.float64)
        with matmul_precision("highest"):
            for part in rows.split(256):
                batch = self.decode(part.to(self.policy_map.index_of_logit.device))
                legal = self.policy_map.legal(batch)
                wanted, got = teacher(batch.planes), student(batch.planes, product)
                (q, d), (wanted_q, wanted_d) = q_and_d(got[1]), q_and_d(wanted[1])
                policy, wanted_policy = (self.policy_map.log_probabilities(one[0], legal) for one in (got, wanted))
                each = [
                    (q - wanted_q).abs(),
                    (d - wanted_d).abs(),
                    (model.plies_left(got[2]) - model.plies_left(wanted[2])).abs(),
                    (wanted_policy.exp() * (wanted_policy - policy)).sum(1),
                    (policy.argmax(1) != wanted_policy.argmax(1)).float(),
                ]
                sums += torch.stack([one.sum() for one in each]).double().cpu()
        return dict(zip(FIGURES, (sums / len(rows)).tolist(), strict=True))


# Training


def rate(args, share):
    """The learning rate at a share of the time: warm-up, then a cosine to zero."""
    if share < args.warm_up:
        return args.learning_rate * share / args.warm_up
    return args.learning_rate * (1 + math.cos(math.pi * min((share - args.warm_up) / (1 - args.warm_up), 1))) / 2


class ScaledDescent:
    """Gradient descent with momentum, in which the unit of each parameter's gradient is fixed.

    Adam divides by the gradients that it sees. Here these are small from the start, because the student is the teacher,
    and consist of noise, so that Adam's steps of the usual length would first of all move the student away."""

    def __init__(self, parameters, units, momentum=0.9):
        self.parameters, self.units, self.momentum, self.rate = parameters, units, momentum, 0.0
        self.averages = [torch.zeros_like(parameter) for parameter in parameters]

    def zero_grad(self):
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self):
        gradients = [parameter.grad for parameter in self.parameters]
        torch._foreach_lerp_(self.averages, gradients, 1 - self.momentum)
        torch._foreach_addcdiv_(self.parameters, self.averages, self.units, -self.rate)


class Run:
    def __init__(self, args):
        self.args, self.started, self.device = args, time.monotonic(), torch.device(args.device)
        self.training, self.heldout = read_positions(args)
        torch.manual_seed(args.seed)
        self.teacher = lc0_file.read(args.network).to(self.device).requires_grad_(False)
        self.student = copy.deepcopy(self.teacher).requires_grad_(True)
        self.average = copy.deepcopy(self.teacher)
        self.training = self.training.to(self.device)
        self.decode = batches.decode if args.shards else chunk_batches.decode
        self.mirrored_index = torch.from_numpy(MIRRORED_INDEX).to(self.device)
        self.distances = Distances(args, self.decode, self.device)
        self.calibration = self.decode(self.training[: args.calibration_positions]).planes
        self.say(f"{len(self.training)} positions, {len(self.heldout)} held out, on {self.device}")

    def say(self, text, **figures):
        seconds = time.monotonic() - self.started
        print(f"{seconds:6.1f} s  {text}", flush=True)
        if self.args.log and figures:
            with open(self.args.log, "a", encoding="utf-8") as file:
                print(json.dumps({"seconds": round(seconds, 1)} | figures), file=file)

    def rounding_of(self, network, planes):
        rounding = Rounding()
        with matmul_precision("highest"):
            rounding.calibrate(network, planes)
        return rounding

    def report(self, name, network, is_rounded):
        product = self.rounding_of(network, self.calibration) if is_rounded else model.product
        found = self.distances.measure(self.teacher, network, product, self.heldout)
        self.say(
            f"{name:19}  q {found['dq']:.5f}  d {found['dd']:.5f}  moves left {found['dm']:.3f}  "
            f"policy {found['kl']:.6f} nats  another best move {100 * found['other_best']:.2f} %",
            name=name, **found,
        )  # fmt: skip
        return found

    def draw(self, count):
        rows = self.training[torch.randint(len(self.training), (count,), device=self.device)]
        return self.decode(rows, torch.rand(count, device=self.device) < 0.5, self.mirrored_index)

    def spreads(self):
        """For each parameter, the root mean square of a position's gradient in ordinary training: that of moves and
        results which are drawn by the network's own probabilities."""
        args, sums = self.args, [torch.zeros_like(parameter) for parameter in self.student.parameters()]
        for _ in range(SPREAD_BATCHES):
            batch = self.draw(args.batch)
            logits, value, moves_left = self.student(batch.planes)
            policy = self.distances.policy_map.log_probabilities(logits, self.distances.policy_map.legal(batch))
            wdl = F.log_softmax(value, dim=1)
            moves, results = (torch.multinomial(one.detach().exp(), 1) for one in (policy, wdl))
            # Squared gradients are in proportion to the weights of the loss, as its curvature is.
            loss = policy.gather(1, moves) + args.weight_value**0.5 * wdl.gather(1, results)
            loss = loss[:, 0] + args.weight_moves_left**0.5 * torch.randn_like(moves_left) * moves_left
            gradients = torch.autograd.grad(loss.mean(), list(self.student.parameters()), allow_unused=True)
            for total, gradient in zip(sums, gradients, strict=True):
                if gradient is not None:
                    # The gradients of positions are independent.
                    total += gradient.square() * (args.batch / SPREAD_BATCHES)
        count = sum(total.numel() for total in sums)
        mean = sum(total.sum() for total in sums) / count
        return [(total + LEAST_SPREAD * mean).sqrt() for total in sums]

    def step(self, optimizer, rounding):
        """Takes a step; returns the losses of the rounded and of the plain student."""
        batch = self.draw(self.args.batch)
        legal = self.distances.policy_map.legal(batch)
        with torch.no_grad():
            target = self.teacher(batch.planes)
        losses = []
        optimizer.zero_grad()
        for product, weight in ((rounding, 1.0), (model.product, self.args.weight_plain)):
            loss = self.distances.loss(self.student(batch.planes, product), target, legal)
            (weight * loss).backward()
            losses.append(loss.detach())
        optimizer.step()
        return torch.stack(losses)

    def train(self):
        args = self.args
        optimizer = ScaledDescent(list(self.student.parameters()), self.spreads())
        begun = reported = time.monotonic()
        length = None if args.steps else max(args.seconds - (begun - self.started), 1e-3)
        sums, since, steps = torch.zeros(2, device=self.device), 0, 0
        with matmul_precision("high"):
            while (share := (time.monotonic() - begun) / length if length else steps / args.steps) < 1:
                if steps % args.calibration_interval == 0:
                    rounding = self.rounding_of(self.student, self.draw(args.calibration_positions).planes)
                optimizer.rate = rate(args, share)
                sums += self.step(optimizer, rounding)
                steps, since = steps + 1, since + 1
                decay = min(args.ema, (1 + steps) / (10 + steps))
                with torch.no_grad():
                    torch._foreach_lerp_(list(self.average.parameters()), list(self.student.parameters()), 1 - decay)
                now = time.monotonic()
                if now - reported >= args.report_interval:
                    rounded, plain = (sums / since).tolist()
                    if not math.isfinite(rounded + plain):
                        raise SystemExit("the loss is not finite: use a lower --learning-rate")
                    speed = since * args.batch / (now - reported)
                    self.say(f"step {steps}  {speed:.0f} positions/s  loss rounded {rounded:.6f}  plain {plain:.6f}",
                             step=steps, rounded=rounded, plain=plain)  # fmt: skip
                    sums.zero_()
                    since, reported = 0, now
                elif self.device.type == "cuda":
                    # Otherwise the device would have hundreds of steps to do when the time is over.
                    torch.cuda.synchronize()
        self.say(f"{steps} steps of {args.batch} positions")

    def run(self):
        before = self.report("rounded original", self.teacher, True)
        self.train()
        # The file has 16 bits for each weight, so what it holds is measured.
        header = lc0_file.read_header(self.args.network)
        part = f"{self.args.export}.part"
        lc0_file.write(part, self.average, **header)
        os.replace(part, self.args.export)
        written = lc0_file.read(self.args.export).to(self.device).requires_grad_(False)
        after = self.report("rounded student", written, True)
        self.report("unrounded student", written, False)
        self.say(f"q differs {after['dq'] / max(before['dq'], 1e-9):.2f} times as much as before, "
                 f"the policy {after['kl'] / max(before['kl'], 1e-12):.2f} times")  # fmt: skip


if __name__ == "__main__":
    Run(arguments()).run()
