#!/usr/bin/env python3
"""Tests of the trainer: decoding, losses, network files, data, optimisers, and whole runs. They take about a minute.

Needs PyTorch, numpy and python-chess; the tests in `test_records.py` do not need PyTorch.

    python -m unittest discover scripts/training
"""

import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock
from pathlib import Path

import chess
import numpy as np
import torch

import attention
import batches
import chunk_batches
import chunks
import lc0_file
import optimizer
import peers
import repetition
import train
from batches import decode
from data import DeviceData, ShardReader, Shards
from losses import Loss, PolicyMap, Weights, expected_score, label_weights
from model import Network, Shape
from policy_map import MIRRORED_INDEX
from positions import chunk_record, policy_index, random_games, raw_records
from records import PLANES, RULE50_SCALE, plausible, position_hash
from widen import widen

SMALL = Shape(width=32, layers=2, heads=2, ffn=48, smolgen=(4, 16, 8), policy=32, value=(4, 16), moves_left=(2, 8))
#: The shape that `program` trains.
SMALLEST = Shape(width=32, layers=1, heads=2, ffn=32, smolgen=(2, 8, 8), policy=32, value=(2, 8))


class DecodeTest(unittest.TestCase):
    def planes(self, board):
        """The planes [64][17] by the definition of the input format."""
        us = board.turn
        seen = board if us else board.mirror()
        planes = np.zeros((64, 17), dtype=np.float32)
        for square, piece in seen.piece_map().items():
            planes[square, piece.piece_type - 1 + (0 if piece.color else 6)] = 1
        for square in chess.SquareSet(seen.clean_castling_rights()):
            king = seen.king(chess.WHITE if square < 8 else chess.BLACK)
            planes[square, 14 if square % 8 > king % 8 else 13] = 1
        planes[:, 15] = min(board.halfmove_clock, 100) / RULE50_SCALE
        planes[:, 16] = 1
        return planes

    def test_records_are_decoded_to_the_positions_planes_and_moves(self):
        boards = [*random_games(10), *random_games(10, seed=2, chess960=True)]
        raw = raw_records(boards)
        self.assertTrue(plausible(raw).all())
        batch = decode(torch.from_numpy(raw))
        for i, board in enumerate(boards):
            np.testing.assert_array_equal(batch.planes[i].numpy(), self.planes(board), board.fen())
            legal = {policy_index(board, move) for move in board.legal_moves}
            self.assertEqual(set(torch.nonzero(batch.legal[i])[:, 0].tolist()), legal)

    def test_mirrored_records_are_the_mirrored_positions(self):
        boards = [board for board in random_games(20, plies=200) if not board.castling_rights]
        self.assertGreater(len(boards), 100)
        index = torch.from_numpy(MIRRORED_INDEX)
        every = torch.ones(len(boards), dtype=torch.bool)
        got = decode(torch.from_numpy(raw_records(boards)), every, index)
        flipped = [board.transform(chess.flip_horizontal) for board in boards]
        wanted = decode(torch.from_numpy(raw_records(flipped)))
        self.assertTrue(torch.equal(got.planes, wanted.planes))
        self.assertTrue(torch.equal(got.legal, wanted.legal))

    def test_positions_with_castling_rights_are_not_mirrored(self):
        raw = torch.from_numpy(raw_records([chess.Board()]))
        one = torch.ones(1, dtype=torch.bool)
        mirrored = decode(raw, one, torch.from_numpy(MIRRORED_INDEX))
        self.assertTrue(torch.equal(mirrored.planes, decode(raw).planes))

    def test_repeated_positions_differ_only_in_the_repetition_plane(self):
        raw = torch.from_numpy(raw_records(list(random_games(2))))
        planes, again = decode(raw).planes, decode(repetition.as_repeated(raw)).planes
        self.assertTrue((again[:, :, PLANES.index(12)] == 1).all())
        again[:, :, PLANES.index(12)] = 0
        self.assertTrue(torch.equal(planes, again))


class ChunkTest(unittest.TestCase):
    """The decoding of chunks, against that of the labelled records."""

    def setUp(self):
        rng = np.random.default_rng(1)
        self.boards = [*random_games(10), *random_games(4, plies=250, seed=2)]
        self.visits = [rng.integers(0, 50, board.legal_moves.count()) + 1 for board in self.boards]
        self.records = np.stack([chunk_record(*pair, best_q=0.25, best_d=0.5, result_q=-1) for pair in self.pairs()])

    def pairs(self):
        return zip(self.boards, self.visits, strict=True)

    def test_rows_are_decoded_to_the_positions_planes_and_shares(self):
        self.assertTrue(chunks.usable(self.records).all())
        batch = chunk_batches.decode(torch.from_numpy(chunks.rows(self.records)))
        wanted = batches.decode(torch.from_numpy(raw_records(self.boards)))
        self.assertTrue(torch.equal(batch.planes, wanted.planes))
        self.assertTrue(torch.equal(batch.legal, wanted.legal))
        np.testing.assert_allclose(batch.shares.numpy(), self.records["probabilities"].clip(0), atol=1e-4)
        np.testing.assert_allclose(batch.shares.sum(1).numpy(), 1, atol=1e-5)
        best = self.records["probabilities"].max(axis=1)
        np.testing.assert_allclose(batch.shares.gather(1, batch.moves[:, :1])[:, 0].numpy(), best, atol=1e-4)
        np.testing.assert_allclose(batch.wdl[0].numpy(), [0.375, 0.5, 0.125])
        np.testing.assert_allclose(batch.result[0].numpy(), [0, 0, 1])

    def test_mirrored_rows_are_the_mirrored_positions(self):
        kept = [i for i, board in enumerate(self.boards) if not board.castling_rights]
        self.assertGreater(len(kept), 100)
        every, index = torch.ones(len(kept), dtype=torch.bool), torch.from_numpy(MIRRORED_INDEX)
        raw = torch.from_numpy(chunks.rows(self.records[kept]))
        got, plain = chunk_batches.decode(raw, every, index), chunk_batches.decode(raw)
        flipped = [self.boards[i].transform(chess.flip_horizontal) for i in kept]
        wanted = batches.decode(torch.from_numpy(raw_records(flipped)))
        self.assertTrue(torch.equal(got.planes, wanted.planes))
        self.assertTrue(torch.equal(got.legal, wanted.legal))
        self.assertTrue(torch.equal(got.shares, plain.shares[:, index]))

    def test_the_policy_target_is_the_distribution_of_visits(self):
        class Network(torch.nn.Module):
            def forward(self, planes):
                logits = torch.full((len(planes), 4288), -30.0)
                logits[:, PolicyMap().logit_of_index] = batch.shares.clamp(min=1e-9).log()
                return logits, batch.wdl.log().clamp(min=-30), batch.plies_left / 20

        batch = chunk_batches.decode(torch.from_numpy(chunks.rows(self.records[:50])))
        _, parts = Loss(Network(), Weights(smoothing=0.0, result=0.0))(batch)
        entropy = -(batch.shares * batch.shares.clamp(min=1e-9).log()).sum(1).mean()
        self.assertAlmostEqual(parts[1].item(), entropy.item(), places=4)

    def test_a_network_learns_from_chunks(self):
        with tempfile.TemporaryDirectory() as directory:
            directory = Path(directory)
            for game in range(40):
                (directory / f"game_{game:06}.gz").write_bytes(gzip.compress(self.records[game::40].tobytes()))
            network = directory / "network.pb.gz"
            shape = ["--width=32", "--layers=1", "--heads=2", "--ffn=32", "--smolgen=2,8,8", "--policy=32", "--value=2,8"]
            done = subprocess.run(
                [sys.executable, Path(__file__).with_name("train.py"), "--chunks", "--data", directory, *shape,
                 "--seconds=8", "--batch=64", "--minimum-records=1000", "--capacity=5000", "--no-compile",
                 "--device=cpu", "--export", network],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("40 new games", done.stdout)
            self.assertEqual(lc0_file.read(network).shape.width, 32)


class LossTest(unittest.TestCase):
    def test_expected_scores_increase_with_the_score(self):
        scores = torch.tensor([-31999.0, -31990, -3000, -300, 0, 300, 900, 31970, 31990, 31999])
        expected = expected_score(scores)
        self.assertTrue((expected.diff() > 0).all(), expected)
        self.assertAlmostEqual(expected[4].item(), 0.5)

    def test_soft_labels_prefer_the_better_move(self):
        board = chess.Board()
        moves = list(board.legal_moves)[:3]
        raw = raw_records([board], moves=moves, scores=[40, 30, -200], flags=4)
        weights = label_weights(decode(torch.from_numpy(raw)))[0]
        self.assertAlmostEqual(weights.sum().item(), 1, places=5)
        self.assertTrue(weights[0] > weights[1] > weights[2] > weights[3])
        self.assertEqual(weights[3].item(), 0)

    def test_a_perfect_network_has_no_loss(self):
        class Perfect(torch.nn.Module):
            def forward(self, planes):
                logits = torch.full((len(planes), 4288), -30.0)
                logits[:, PolicyMap().logit_of_index[batch.moves[:, 0]]] = 30.0
                return logits, batch.wdl.log().clamp(min=-30), batch.plies_left / 20

        board = chess.Board()
        raw = raw_records([board], moves=[chess.Move.from_uci("e2e4")], result=255, win=1000, loss=0, plies_left=80)
        batch = decode(torch.from_numpy(raw))
        _, parts = Loss(Perfect(), Weights(smoothing=0.0))(batch)
        np.testing.assert_allclose(parts.numpy(), 0, atol=1e-6)

    def test_a_network_learns_its_teachers_outputs(self):
        network, teacher = Network(SMALL), Network(SMALL).requires_grad_(False)
        batch = decode(torch.from_numpy(raw_records(list(random_games(2, plies=20)))))

        def gradient(weights):
            network.zero_grad()
            Loss(network, weights, teacher)(batch)[0].backward()
            return torch.cat([parameter.grad.flatten() for parameter in network.parameters() if parameter.grad is not None])

        only_teacher = Weights(teacher=1.0, moves_left=0.0)
        self.assertGreater(gradient(only_teacher).norm().item(), 1e-3)
        # With its teacher's weights it has nothing more to learn, except from labels.
        network.load_state_dict(teacher.state_dict())
        self.assertLess(gradient(only_teacher).norm().item(), 1e-5)
        self.assertGreater(gradient(Weights(teacher=0.5, moves_left=0.0)).norm().item(), 1e-3)

    def again(self, scores, first, **fields):
        """Returns the move whose logit a gradient step raises most when the starting position occurs again. e2e4, d2d4
        and c2c4 are labelled with `scores`; a single score labels e2e4 alone. The network prefers `first`, and a2a3
        next."""
        board = chess.Board()
        moves = [board.parse_uci(move) for move in ("e2e4", "d2d4", "c2c4")][: len(scores)]
        raw = torch.from_numpy(raw_records([board], moves=moves, scores=scores, flags=4 if len(scores) > 1 else 0))
        batch = decode(repetition.show_again(raw, 1))
        place = {move: PolicyMap().logit_of_index[policy_index(board, board.parse_uci(move))]
                 for move in ("e2e4", "d2d4", "c2c4", "a2a3")}  # fmt: skip
        logits = torch.zeros(2, 4288)
        logits[:, place["a2a3"]], logits[:, place[first]] = 2.0, 4.0
        logits.requires_grad_()

        class Fixed(torch.nn.Module):
            def forward(self, _):
                return logits, torch.zeros(2, 3), torch.zeros(2)

        Loss(Fixed(), Weights())(batch, repeats=1)[0].backward()
        return min(place, key=lambda move: logits.grad[1, place[move]].item())

    def test_a_won_position_that_occurs_again_has_another_move_as_its_target(self):
        self.assertEqual(self.again([300, 280, -50], first="e2e4"), "d2d4")
        # The move that was played before was not the best.
        self.assertEqual(self.again([300, 120, -50], first="d2d4"), "e2e4")
        # All other moves lose, so the same move is played again.
        self.assertEqual(self.again([300, -300, -400], first="e2e4"), "e2e4")
        # The other moves have no label, so the network's second choice is the target.
        self.assertEqual(self.again([300], first="e2e4"), "a2a3")
        self.assertEqual(self.again([300], first="d2d4"), "e2e4")

    def test_a_lost_position_may_occur_again(self):
        self.assertEqual(self.again([-200, -220, -600], first="e2e4"), "e2e4")
        self.assertEqual(self.again([-200, -240, -600], first="d2d4"), "d2d4")
        self.assertEqual(self.again([-200], first="e2e4"), "e2e4")

    def test_illegal_moves_get_no_gradient(self):
        network = Network(SMALL)
        batch = decode(torch.from_numpy(raw_records(list(random_games(1, plies=8)))))
        logits = network(batch.planes)[0].detach().requires_grad_()

        class Fixed(torch.nn.Module):
            def forward(self, _):
                return logits, torch.zeros(len(logits), 3), torch.zeros(len(logits))

        Loss(Fixed(), Weights())(batch)[0].backward()
        illegal = ~PolicyMap().legal(batch)
        self.assertEqual(logits.grad[illegal].abs().max().item(), 0)


class AttentionTest(unittest.TestCase):
    """Triton's interpreter runs the GPU's kernels on the processor, in fp32 and in a process of its own."""

    PROGRAM = """
import torch
from attention import attend
torch.manual_seed(1)
for heads, width in (8, 128), (2, 64):
    qkv, bias = torch.randn(2, 64, 3 * width), torch.randn(2, heads, 64, 64)
    gradient, results = torch.randn(2, 64, width), []
    for kind in (torch.float, torch.double):
        given = [tensor.detach().to(kind).requires_grad_() for tensor in (qkv, bias)]
        if kind == torch.float:
            mixed = attend(*given, heads)
        else:
            q, k, v = given[0].view(2, 64, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
            logits = q @ k.transpose(2, 3) * (width // heads) ** -0.5 + given[1]
            mixed = (logits.softmax(3) @ v).transpose(1, 2).reshape(2, 64, width)
        results.append((mixed, *torch.autograd.grad(mixed, given, gradient.to(kind))))
    for got, wanted in zip(*results, strict=True):
        torch.testing.assert_close(got.double(), wanted, atol=1e-5, rtol=1e-4)
"""

    def test_the_kernels_compute_attention_and_its_gradients(self):
        if attention.triton is None:
            self.skipTest("the GPU's attention kernels need Triton (pip install triton)")
        environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": str(Path(__file__).parent)}
        run = subprocess.run([sys.executable, "-c", self.PROGRAM], env=environment, capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)


class FileTest(unittest.TestCase):
    def test_a_network_is_read_back(self):
        for shape in (SMALL, Shape(width=32, layers=1, heads=4, ffn=32, smolgen=(0, 0, 0), policy=16)):
            torch.manual_seed(1)
            network = Network(shape)
            with tempfile.TemporaryDirectory() as directory:
                paths = [Path(directory) / name for name in ("a.pb.gz", "b.pb.gz", "c.pb.gz")]
                for path in paths[:2]:
                    lc0_file.write(path, network, training_steps=5, description="test")
                self.assertEqual(paths[0].read_bytes(), paths[1].read_bytes())
                back = lc0_file.read(paths[0])
            self.assertEqual(back.shape, shape)
            planes = decode(torch.from_numpy(raw_records(list(random_games(2))))).planes
            with torch.no_grad():
                for a, b in zip(network(planes), back(planes), strict=True):
                    self.assertLess((a - b).abs().max().item(), 5e-3)

    def test_planes_that_no_record_fills_have_zero_weights(self):
        matrix = lc0_file._embedding(Network(SMALL))
        unseen = [plane for plane in range(112) if plane not in PLANES]
        self.assertEqual(np.abs(matrix[:, unseen]).max(), 0)


class WidenTest(unittest.TestCase):
    def test_a_wider_network_has_the_same_outputs(self):
        torch.manual_seed(3)
        network = Network(Shape(width=32, layers=2, heads=4, ffn=48, smolgen=(4, 16, 8), policy=32))
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
        wide = widen(network, 3)
        self.assertEqual((wide.shape.width, wide.shape.heads, wide.shape.ffn), (96, 12, 144))
        planes = torch.rand(2, 64, len(PLANES))
        with torch.no_grad():
            for expected, found in zip(network(planes), wide(planes)):
                torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


class DataTest(unittest.TestCase):
    def write(self, path, raw):
        part = path.with_suffix(".part")
        raw.tofile(part)
        part.rename(path)

    def test_shards_are_found_once_and_held_out_positions_are_never_trained_on(self):
        boards = list(random_games(10))
        raw = raw_records(boards)
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            reader = ShardReader(Shards(directory))
            data = DeviceData(torch.device("cpu"), 10_000, 1_000)
            self.assertIsNone(reader.look())
            self.write(directory / "train-1.bin", raw[:400])
            raw[:5].tofile(directory / "train-2.part")
            data.add(reader.look())
            self.assertIsNone(reader.look())
            before = data.count
            self.write(directory / "heldout-1.bin", raw[390:450])
            self.write(directory / "train-2.bin", raw[400:])
            data.add(reader.look())
            heldout = set(position_hash(data.heldout.numpy()).tolist())
            seen = set(position_hash(data.records[: data.count].numpy()).tolist())
        self.assertEqual((len(data.heldout), before), (60, 400))
        self.assertFalse(heldout & seen)

    def test_new_data_is_drawn_more_often_until_it_has_its_share(self):
        with tempfile.TemporaryDirectory() as name:
            directory, raw = Path(name), raw_records(list(random_games(4)))
            reader, data = ShardReader(Shards(directory)), DeviceData(torch.device("cpu"), 10_000, 0)
            self.write(directory / "train-1.bin", raw[:200])
            data.add(reader.look())
            for _ in range(20):
                data.batch(100)
            self.write(directory / "train-2.bin", raw[200:300])
            data.add(reader.look())
            first = data.shares[1]
            for _ in range(40):
                data.batch(100)
                data.weigh()
        self.assertGreater(first, 2 / 3)
        visits = np.array(data.draws) / np.array(data.sizes)
        self.assertLess(visits.max() / visits.min(), 1.2)


class OptimizerTest(unittest.TestCase):
    def test_orthogonalised_matrices_keep_their_directions(self):
        torch.manual_seed(1)
        for rows, columns in ((16, 16), (8, 32), (32, 8)):
            matrices = torch.randn(3, rows, columns)
            got = optimizer.orthogonalise(matrices).float()
            u, _, v = torch.linalg.svd(matrices, full_matrices=False)
            values = torch.linalg.svdvals(got)
            self.assertTrue((values > 0.5).all() and (values < 1.4).all(), values)
            alignment = torch.nn.functional.cosine_similarity(got.flatten(1), (u @ v).flatten(1))
            self.assertTrue((alignment > 0.9).all(), alignment)

    def test_both_optimisers_learn_a_position(self):
        batch = decode(torch.from_numpy(raw_records(list(random_games(1, plies=30)))))
        for kind in ("adamw", "muon"):
            torch.manual_seed(1)
            network = Network(SMALL)
            loss = Loss(network, Weights())
            optimizers = optimizer.build(network, kind, 3e-3, 0.01)
            first = loss(batch)[0].item()
            for _ in range(60):
                for one in optimizers:
                    one.zero_grad()
                loss(batch)[0].backward()
                for one in optimizers:
                    one.step()
            self.assertLess(loss(batch)[0].item(), 0.5 * first, kind)


def average_and_check(peers):
    parameters = [torch.nn.Parameter(torch.zeros(shape)) for shape in ((2, 3), (5,))]
    for parameter in parameters:
        parameter.grad = torch.full_like(parameter, float(peers.rank))
    peers.average_gradients(parameters)
    assert all((parameter.grad == 0.5).all() for parameter in parameters), parameters
    assert peers.sum(torch.tensor([1.0 + peers.rank])).item() == 3
    assert peers.broadcast_from_first([7.5 + peers.rank], "cpu") == [7.5]


class PeersTest(unittest.TestCase):
    def test_gradients_are_averaged_and_all_get_the_figures_of_the_first(self):
        peers.run(2, "cpu", average_and_check)


def shards(directory):
    """Writes 300 training records and some held-out ones; returns all of them."""
    raw = raw_records(list(random_games(3)))
    raw[:300].tofile(directory / "train-1.bin")
    raw[300:].tofile(directory / "heldout-1.bin")
    return raw


def program(directory, *arguments):
    """The command that trains a very small network on the shards in a directory, and writes its files there."""
    return [
        sys.executable, Path(__file__).with_name("train.py"), f"--data={directory}", "--device=cpu", "--no-compile",
        "--batch=16", "--capacity=1000", "--minimum-records=10", f"--export={directory / 'network.pb.gz'}",
        f"--log={directory / 'log'}", "--report-interval=1", "--width=32", "--layers=1", "--heads=2", "--ffn=32",
        "--smolgen=2,8,8", "--value=2,8", *arguments,
    ]  # fmt: skip


class ProgramTest(unittest.TestCase):
    def test_two_processes_make_one_network(self):
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            shards(directory)
            command = program(directory, "--processes=2", "--checkpoint-interval=1", "--seconds=10")
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=300)
            entries = [json.loads(line) for line in (directory / "log").read_text().splitlines()]
            self.assertGreater(entries[-1]["step"], 0)
            self.assertEqual(lc0_file.read(directory / "network.pb.gz").shape.width, 32)

    def test_a_run_ends_in_time_and_can_be_continued(self):
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            raw = shards(directory)
            # A truncated shard, with half a record at its end.
            (directory / "train-2.bin").write_bytes(raw[:3].tobytes()[:700])
            start = directory / "start.pb.gz"
            lc0_file.write(start, Network(SMALLEST))
            command = program(
                directory, f"--checkpoint={directory / 'checkpoint'}", f"--start-from={start}", f"--teacher={start}"
            )
            steps = []
            for seconds in (8, 24):
                started = time.monotonic()
                subprocess.run([*command, f"--seconds={seconds}"], check=True, stdout=subprocess.DEVNULL)
                # The limit leaves time for the start of the interpreter and for a busy machine.
                self.assertLess(time.monotonic() - started, seconds + 120)
                entries = [json.loads(line) for line in (directory / "log").read_text().splitlines()]
                steps.append(entries[-1]["step"])
                self.assertGreaterEqual(entries[-1]["seconds"], seconds)
                self.assertEqual(entries[-1]["heldout"], len(raw) - 300)
                self.assertEqual(lc0_file.read(directory / "network.pb.gz").shape.width, 32)
            # The second run continued the first.
            self.assertGreater(steps[1], steps[0])

    def trainer(self, directory):
        shards(directory)
        with unittest.mock.patch.object(sys, "argv", [str(word) for word in program(directory, "--seconds=5")[1:]]):
            trainer = train.Trainer(peers.Peers(), train.arguments())
        trainer.say = lambda *_, **__: None
        return trainer

    def test_a_new_run_goes_on_without_a_compiler(self):
        def fails(*_):
            raise RuntimeError("there is no C compiler")

        with tempfile.TemporaryDirectory() as name:
            trainer = self.trainer(Path(name))
            trainer.loss = fails
            trainer.run()
        self.assertGreater(trainer.step, 0)

    def test_a_new_run_goes_on_with_half_the_rate_after_a_loss_that_is_no_number(self):
        with tempfile.TemporaryDirectory() as name:
            trainer = self.trainer(Path(name))
            take, factors = trainer.steps.take, iter([float("nan")])
            trainer.steps.take = lambda raw, step: take(raw, step) * next(factors, 1.0)
            trainer.run()
        self.assertGreater(trainer.step, 0)
        self.assertEqual(trainer.rate_factor, 0.5)


if __name__ == "__main__":
    unittest.main()
