#!/usr/bin/env python3
"""Trains a network on shards of labelled positions for a given time, and writes it as lc0's .pb.gz.

    scripts/training/train.py --data DIR --seconds 900 --checkpoint run.pt --export run.pb.gz --name run

With --chunks, it trains on the chunks of self-play games instead (`rukh selfplay --training`). The data may grow during
training. --seconds counts from the start of the program, including the wait for data and the compilation; a run that
continues from a checkpoint counts the earlier runs too. The learning rate depends on the time, and ends at a thousandth
of --learning-rate. After a loss that is not finite, training goes back to the last good state, and the rate is half as
high for the rest. The exported network has the moving average of the weights. SIGTERM and SIGINT end training early,
with a checkpoint and an export. Needs PyTorch and numpy.
"""

import argparse
import copy
import json
import os
import queue
import signal
import sys
import time
from dataclasses import asdict, fields
from pathlib import Path

import torch

import lc0_file
import optimizer
import peers
import batches
import chunk_batches
from chunks import Chunks
from data import DeviceData, ShardReader, Shards
from losses import Loss, Metrics, PolicyMap, Weights
from model import Network, Shape
from policy_map import MIRRORED_INDEX
from records import PLANES
from steps import Steps

PARTS = ("loss", "policy", "value", "moves_left")
#: Steps between two synchronisations with the device, after which times are meaningful.
STEPS_BETWEEN_LOOKS = 10
#: Held-out positions in a batch of the evaluation.
EVALUATION_BATCH = 2048
#: The plane that says that a position has occurred before.
REPEATED_PLANE = 12


def sizes(text):
    return tuple(int(size) for size in text.split(","))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    files = parser.add_argument_group("files")
    files.add_argument("--data", required=True, nargs="+", help="folders with train-*.bin and heldout-*.bin, or with chunks")
    files.add_argument("--chunks", action="store_true",
                       help="the folders and those below them hold chunks of games: files *.gz and archives *.tar")  # fmt: skip
    files.add_argument("--checkpoint", help="file to continue from, if it exists; written every --checkpoint-interval seconds")
    files.add_argument("--start-from", help="network file to start with, if there is no checkpoint yet")
    files.add_argument("--teacher", help="network made by train.py whose policy and value are mixed into the targets")
    files.add_argument("--export", help="network file to write with each checkpoint")
    files.add_argument("--log", help="file for the printed figures, one JSON object per line")
    files.add_argument("--name", default="network", help="name of the network in messages")

    shape = parser.add_argument_group("network")
    default = Shape()
    shape.add_argument("--width", type=int, default=default.width)
    shape.add_argument("--layers", type=int, default=default.layers)
    shape.add_argument("--heads", type=int, default=default.heads)
    shape.add_argument("--ffn", type=int, default=default.ffn)
    shape.add_argument("--smolgen", type=sizes, default=default.smolgen,
                       help="channels per square, hidden size, size per head; 0,0,0 without smolgen")  # fmt: skip
    shape.add_argument("--policy", type=int, help="width of the policy head (default: --width)")
    shape.add_argument("--value", type=sizes, default=default.value, help="channels per square, hidden size")
    shape.add_argument("--moves-left", type=sizes, default=default.moves_left, help="channels per square, hidden size")
    shape.add_argument("--ffn-activation", default=default.ffn_activation)
    shape.add_argument("--default-activation", default=default.default_activation)

    run = parser.add_argument_group("training")
    run.add_argument("--seconds", type=float, required=True, help="time of all runs together")
    run.add_argument("--batch", type=int, default=4096, help="positions per step")
    run.add_argument("--optimizer", choices=("adamw", "muon"), default="adamw")
    run.add_argument("--learning-rate", type=float, default=1e-3)
    run.add_argument("--weight-decay", type=float, default=0.05)
    run.add_argument("--warm-up", type=float, default=0.03, help="share of the time in which the rate rises")
    run.add_argument("--decay-from", type=float, default=0.3, help="share of the time after which the rate falls")
    run.add_argument("--ema", type=float, default=0.999, help="decay of the average of the weights, per step")
    run.add_argument("--clip", type=float, default=1.0, help="largest norm of the gradient")
    run.add_argument("--no-mirror", action="store_true", help="do not mirror files at random")
    run.add_argument("--repeated", type=float, default=0.1,
                     help="share of a batch that is shown again, as repeated positions; at most 0.5")  # fmt: skip
    run.add_argument("--seed", type=int, default=1)
    for one in fields(Weights):
        flag = f"--weight-{one.name.replace('_', '-')}"
        run.add_argument(flag, type=float, default=one.default, help=one.metadata["help"])

    machine = parser.add_argument_group("machine")
    machine.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    machine.add_argument("--processes", type=int, default=1,
                         help="number of processes, each with its own GPU and --batch positions per step")  # fmt: skip
    machine.add_argument("--no-compile", action="store_true", help="train without torch.compile")
    machine.add_argument("--capacity", type=int, default=16_000_000, help="records in the device's memory")
    machine.add_argument("--minimum-records", type=int, default=200_000, help="records to wait for before training starts")
    machine.add_argument("--heldout", type=int, default=50_000, help="held-out records to evaluate")
    machine.add_argument("--report-interval", type=float, default=10)
    machine.add_argument("--evaluation-interval", type=float, default=60)
    machine.add_argument("--checkpoint-interval", type=float, default=60)
    machine.add_argument("--rescan-interval", type=float, default=20)
    return parser.parse_args()


class Trainer:
    def __init__(self, peers, args):
        self.peers, self.args, self.started = peers, args, time.monotonic()
        self.device = torch.device(f"cuda:{peers.rank}" if args.device == "cuda" and peers.count > 1 else args.device)
        torch.manual_seed(args.seed)
        torch.set_float32_matmul_precision("high")
        self.network = self._network().to(self.device)
        self.average = copy.deepcopy(self.network).requires_grad_(False)
        self.weights = Weights(**{name: getattr(args, f"weight_{name}") for name in asdict(Weights())})
        teacher = lc0_file.read(args.teacher).requires_grad_(False) if args.teacher else None
        self.loss = self.plain_loss = Loss(self.network, self.weights, teacher).to(self.device)
        if not args.no_compile:
            self.loss = torch.compile(self.plain_loss)
        # Whether the optimisers are made so that steps can be captured as a graph. Gradients travel between processes
        # by calls that are not captured.
        self.captures = self.device.type == "cuda" and peers.count == 1
        self.optimizers = optimizer.build(
            self.network, args.optimizer, args.learning_rate, args.weight_decay, capturable=self.captures
        )
        self.policy_map = PolicyMap().to(self.device)
        # The positions of a batch that are shown again. Chunks have repeated ones of their own.
        self.repeats = 0 if args.chunks else int(args.batch * min(args.repeated, 0.5))
        self.steps = Steps(self)
        self.source = Chunks(*args.data) if args.chunks else Shards(*args.data)
        self.decode = chunk_batches.decode if args.chunks else batches.decode
        self.mirrored_index = torch.from_numpy(MIRRORED_INDEX).to(self.device)
        self.step, self.seconds_before, self.training_from = 0, 0.0, None
        self.is_compiled = False
        # Halved whenever the loss becomes infinite or NaN.
        self.rate_factor = 1.0
        self.metrics = {}
        self.stop = self.is_over = self.is_save_due = False
        self.learning_rate = None
        if args.checkpoint and Path(args.checkpoint).exists():
            self.restore(torch.load(args.checkpoint, map_location=self.device, weights_only=True))
            # Draws other random numbers than the earlier runs.
            torch.manual_seed(args.seed + self.step)
            self.say(f"continues from step {self.step}, after {self.seconds_before:.0f} s")
        self.safe = self.state()
        # From here on each process has its own random numbers.
        torch.manual_seed(torch.initial_seed() + (peers.rank << 32))

    def _network(self):
        if not self.args.start_from:
            return Network(self._shape())
        network = lc0_file.read(self.args.start_from)
        if network.shape != self._shape():
            sys.exit(f"{self.args.start_from} has a different shape: {network.shape}")
        return network

    def _shape(self):
        args = self.args
        return Shape(
            width=args.width, layers=args.layers, heads=args.heads, ffn=args.ffn, smolgen=args.smolgen,
            policy=args.policy or args.width, value=args.value, moves_left=args.moves_left,
            default_activation=args.default_activation, ffn_activation=args.ffn_activation,
        )  # fmt: skip

    def say(self, text, **figures):
        if not self.peers.is_first:
            return
        print(f"{self.args.name} {self.elapsed():6.0f} s  {text}", flush=True)
        if self.args.log and figures:
            with open(self.args.log, "a", encoding="utf-8") as file:
                print(json.dumps({"seconds": round(self.elapsed(), 1), "step": self.step} | figures), file=file)

    # Time

    def elapsed(self):
        """Seconds of this run and of those before it."""
        return self.seconds_before + time.monotonic() - self.started

    def rate(self):
        """The learning rate by the time since training began: warm-up, plateau, linear decay to a thousandth."""
        args = self.args
        length = max(args.seconds - self.training_from, 1e-9)
        share = min(max((self.elapsed() - self.training_from) / length, 0.0), 1.0)
        if share < args.warm_up:
            factor = share / args.warm_up
        else:
            factor = min(1.0, (1.0 - share) / max(1.0 - args.decay_from, 1e-9))
        return args.learning_rate * self.rate_factor * max(factor, 1e-3)

    # State

    def state(self):
        """A copy of everything that a later run needs, except the data."""
        copied = {
            "shape": self.network.shape.as_dict(),
            "network": self.network.state_dict(),
            "average": self.average.state_dict(),
            "optimizers": [one.state_dict() for one in self.optimizers],
            "step": self.step,
            "seconds": self.elapsed(),
            "training_from": self.training_from,
            "rate_factor": self.rate_factor,
        }
        return copy.deepcopy(copied)

    def restore(self, state):
        if state["shape"] != self.network.shape.as_dict():
            sys.exit(f"the checkpoint has a different shape: {state['shape']}")
        self.network.load_state_dict(state["network"])
        self.average.load_state_dict(state["average"])
        for one, saved in zip(self.optimizers, state["optimizers"], strict=True):
            one.load_state_dict(copy.deepcopy(saved))
            # The checkpoint may be of a run that captured no steps.
            for group in one.param_groups:
                if "capturable" in group:
                    group["capturable"] = self.captures
        self.steps.forget()
        self.step, self.training_from = state["step"], state["training_from"]
        self.rate_factor, self.seconds_before = state["rate_factor"], state["seconds"]

    def save(self):
        """Writes the checkpoint and the export; each file is replaced as a whole."""
        args = self.args
        self.safe = self.state()
        if not self.peers.is_first:
            return
        if args.checkpoint:
            part = f"{args.checkpoint}.part"
            torch.save(self.safe, part)
            os.replace(part, args.checkpoint)
        if args.export:
            part = f"{args.export}.part"
            figures = {"learning_rate": self.rate()}
            if self.metrics:
                figures["policy_loss"] = self.metrics["policy_cross_entropy"]
                figures["accuracy"] = 100 * self.metrics["top1"]
            description = f"Rukh, scripts/training; {json.dumps(self.network.shape.as_dict())}"
            lc0_file.write(part, self.average, training_steps=self.step, description=description, figures=figures)
            os.replace(part, args.export)

    # Work

    def autocast(self):
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.device.type == "cuda")

    def train_step(self, raw):
        """Takes a step; returns the parts of the loss, which the device may still be computing."""
        parts = self.steps.take(raw, self.step)
        self.step += 1
        return parts

    def careful_step(self, raw):
        """Takes a step; if torch.compile or Triton fails, it repeats the step and continues without them."""
        try:
            parts = self.train_step(raw)
            self.is_compiled = True
            return parts
        except Exception as error:  # Compilers may raise anything, and training works without torch.compile and Triton.
            networks = [self.network, self.average, self.plain_loss.teacher]
            encoders = [encoder for network in networks if network is not None for encoder in network.encoder]
            uses_kernels = self.device.type == "cuda" and any(encoder.uses_kernels for encoder in encoders)
            if self.loss is self.plain_loss and not uses_kernels:
                raise
            self.say(f"torch.compile or Triton failed, continuing without them: {str(error).splitlines()[:1]}")
            for encoder in encoders:
                encoder.uses_kernels = False
            self.loss, self.is_compiled = self.plain_loss, True
            elapsed = self.elapsed()
            self.restore(self.safe)
            self.seconds_before, self.started = elapsed, time.monotonic()
            return self.train_step(raw)

    @torch.no_grad()
    def evaluate(self, data):
        if not self.peers.is_first:
            return
        metrics = Metrics()
        for start in range(0, len(data.heldout), EVALUATION_BATCH):
            raw = data.heldout[start : start + EVALUATION_BATCH]
            batch = self.decode(raw)
            repeated = batch.planes.clone()
            repeated[:, :, PLANES.index(REPEATED_PLANE)] = 1
            with self.autocast():
                outputs = self.average(batch.planes)
                again, _, _ = self.average(repeated)
            metrics.add(outputs, batch, self.policy_map, again)
        self.metrics = metrics.means()
        if self.metrics:
            shown = "  ".join(f"{name} {value:.4f}" for name, value in self.metrics.items())
            self.say(f"held-out ({metrics.positions}): {shown}", heldout=metrics.positions, **self.metrics)

    def run(self):
        args = self.args
        machine = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "cpu"
        self.say(f"{self.network.parameter_count()} parameters on {machine}, PyTorch {torch.__version__}: {args}")
        reader = ShardReader(self.source, args.rescan_interval)
        reader.start()
        data = DeviceData(self.device, args.capacity, args.heldout, self.source.record_size)
        while data.count < args.minimum_records and self.elapsed() < args.seconds and not self.stop:
            self.take(reader, data, timeout_s=1.0)
        if not data.count and not self.step:
            sys.exit(f"{args.name}: no data in {' '.join(args.data)}")
        if self.training_from is None:
            self.training_from = self.safe["training_from"] = self.elapsed()
        # If any process has no data, none trains.
        if not self.peers.sum(torch.tensor(float(not data.count), device=self.device)):
            self.train(reader, data)
        reader.stopped.set()
        self.evaluate(data)
        self.save()
        self.say(f"ends after {self.step} steps, {self.epochs(data):.2f} epochs of {data.count} records")

    def take(self, reader, data, timeout_s=None):
        """Adds the data that the reader has prepared; with a timeout it waits for the first."""
        while True:
            try:
                generation = reader.ready.get(timeout=timeout_s) if timeout_s else reader.ready.get_nowait()
            except queue.Empty:
                return
            data.add(generation)
            self.say(f"{generation.shards} new {'games' if self.args.chunks else 'shards'}: {data.count} records, {len(data.heldout)} held out",
                     records=data.count)  # fmt: skip
            timeout_s = None

    def train(self, reader, data):
        args = self.args
        sums, steps, reported = torch.zeros(len(PARTS), device=self.device), 0, time.monotonic()
        evaluated = weighed = self.saved = reported
        while self.goes_on():
            raw = data.batch(args.batch - self.repeats)
            sums += self.train_step(raw) if self.is_compiled else self.careful_step(raw)
            steps += 1
            if self.step % STEPS_BETWEEN_LOOKS and self.device.type == "cuda":
                continue
            if self.device.type == "cuda":
                torch.cuda.synchronize()
            if not torch.isfinite(self.peers.sum(sums.clone())).all():
                self.fall_back()
                sums.zero_()
                steps, reported = 0, time.monotonic()
                continue
            now = time.monotonic()
            if now - weighed >= 2:
                weighed = now
                self.take(reader, data)
                data.weigh()
            if now - reported >= args.report_interval:
                means = dict(zip(PARTS, (sums / steps).tolist(), strict=True))
                self.report(means, steps * args.batch * self.peers.count / (now - reported), data)
                sums.zero_()
                steps, reported = 0, time.monotonic()
            if now - evaluated >= args.evaluation_interval:
                self.evaluate(data)
                evaluated = reported = time.monotonic()
                sums.zero_()
                steps = 0
            if self.is_save_due:
                self.save()
                self.saved, self.is_save_due = time.monotonic(), False

    def goes_on(self):
        """Whether there is time for another step. From time to time the first process also tells all others the learning
        rate and whether to save."""
        if self.peers.count == 1 or self.step % STEPS_BETWEEN_LOOKS == 0 or self.learning_rate is None:
            is_over = self.elapsed() >= self.args.seconds or self.stop
            is_save_due = time.monotonic() - self.saved >= self.args.checkpoint_interval
            said = self.peers.broadcast_from_first([self.rate(), float(is_over), float(is_save_due)], self.device)
            self.learning_rate, self.is_over, self.is_save_due = said[0], bool(said[1]), bool(said[2])
        return not self.is_over

    def epochs(self, data):
        """The average number of draws of a record, by all processes."""
        return data.epochs() * self.peers.count

    def report(self, means, samples_per_second, data):
        shown = "  ".join(f"{name} {value:.4f}" for name, value in means.items())
        self.say(
            f"step {self.step}  {samples_per_second:.0f} samples/s  {self.epochs(data):.2f} epochs of {data.count}  "
            f"rate {self.rate():.2e}  {shown}",
            samples_per_second=round(samples_per_second), epochs=round(self.epochs(data), 3), rate=self.rate(), **means,
        )  # fmt: skip

    def fall_back(self):
        """Restores the last good state with half the learning rate, after a loss that is not finite."""
        self.say("the loss is not finite: continuing from the last checkpoint with half the learning rate")
        elapsed = self.elapsed()
        self.restore(self.safe)
        self.seconds_before, self.started = elapsed, time.monotonic()
        self.rate_factor /= 2
        self.safe["rate_factor"] = self.rate_factor


def work(peers, args):
    trainer = Trainer(peers, args)

    def stop(*_):
        trainer.stop = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    trainer.run()


def main():
    args = arguments()
    peers.run(args.processes, args.device, work, args)


if __name__ == "__main__":
    main()
