"""Tests of the wheel as a program uses it: scripts/check.sh python."""

import dataclasses
import gzip
import importlib.util
import json
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import chess
import chess.engine
import numpy as np

import rukh

DATA = Path(__file__).parents[3] / "tests/data"
# A search or a call that hangs fails after this.
SOON_S = 60
# In the background of a shell the tests would ignore Ctrl+C, and the programs that they start would do so too.
signal.signal(signal.SIGINT, signal.default_int_handler)


def network_of(golden, folder):
    """The network of a golden set; those named micro-in are micro-attn with another input format."""
    path = DATA / golden["network"]
    if path.exists():
        return rukh.Network.open(path)
    number = golden["input_format"]
    varint = bytes([number]) if number < 128 else bytes([number & 127 | 128, number >> 7])
    content = gzip.decompress((DATA / "micro-attn.pb.gz").read_bytes())
    # The lengths of the format and of the network's format, and its input.
    before, after = b"\x22\x16\x08\x01\x12\x12\x08\x01\x10", b"\x08\x01\x12%c\x08%b\x10" % (0x11 + len(varint), varint)
    assert content.count(before) == 1
    path = Path(folder) / "network.pb"
    path.write_bytes(content.replace(before, b"\x22%c" % (0x15 + len(varint)) + after))
    return rukh.Network.open(path)


def board_of(fen, moves=(), chess960=False):
    board = chess.Board(fen, chess960=chess960)
    for move in moves:
        board.push_uci(move)
    return board


def random_boards(count, seed=1, chess960=False):
    """Positions of random games, many of which repeat an earlier one."""
    chance, boards = random.Random(seed), []
    while len(boards) < count:
        board = chess.Board.from_chess960_pos(chance.randrange(960)) if chess960 else chess.Board()
        for _ in range(chance.randrange(20, 120)):
            moves = list(board.legal_moves)
            if not moves:
                break
            back = [move for move in moves if board.move_stack[-2:-1] and move == reverse(board.move_stack[-2])]
            board.push(chance.choice(back if back and chance.random() < 0.5 else moves))
            boards.append(board.copy())
    return chance.sample(boards, count)


def reverse(move):
    return chess.Move(move.to_square, move.from_square)


class Evaluations(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.network = rukh.Network.open(DATA / "micro-attn.pb.gz")
        cls.evaluator = rukh.Evaluator(cls.network, "cpu")

    def assert_same(self, ours, others):
        for name in ("wdl", "offsets", "moves", "indices", "priors"):
            np.testing.assert_allclose(getattr(ours, name), getattr(others, name), atol=1e-5, err_msg=name)

    def test_figures_are_those_of_lc0(self):
        compared = 0
        for path in sorted(DATA.glob("micro-*.json.gz")):
            golden = json.loads(gzip.decompress(path.read_bytes()))
            if golden["backend_opts"]:
                continue
            with tempfile.TemporaryDirectory() as folder:
                evaluator = rukh.Evaluator(network_of(golden, folder), "cpu")
            positions = [position for position in golden["positions"] if position["policy_raw"]]
            boards = [board_of(position["fen"], position["moves"], position["frc"]) for position in positions]
            found = evaluator.evaluate(boards)
            self.assertEqual(found.moves_left is not None, golden["has_mlh"])
            dense = found.dense()
            for i, position in enumerate(positions):
                what = f"{path.name} {position['id']}"
                np.testing.assert_allclose(found.q[i], position["q"], atol=1e-4, err_msg=what)
                np.testing.assert_allclose(found.wdl[i, 1], position["d"], atol=1e-4, err_msg=what)
                logits = np.array([logit for _, _, logit in position["policy_raw"]])
                indices = [index for _, index, _ in position["policy_raw"]]
                expected = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
                np.testing.assert_allclose(dense[i, indices], expected, atol=1e-4, err_msg=what)
                self.assertAlmostEqual(dense[i].sum(), 1, places=4, msg=what)
                compared += 1
        self.assertGreater(compared, 500)

    def test_boards_packed_positions_and_planes_agree(self):
        boards = random_boards(300) + random_boards(60, chess960=True)
        found = self.evaluator.evaluate(boards)
        packed = rukh.pack(boards)
        self.assertTrue((packed["repetitions"] > 0).any())
        self.assert_same(found, self.evaluator.evaluate(packed))
        for board, fen in zip(boards, rukh.fens(packed)):
            self.assertEqual(chess.Board(fen, chess960=True).board_fen(), board.board_fen())
        standard = [i for i, board in enumerate(boards) if not board.chess960 and not board.is_game_over()]
        planes = self.network.planes([boards[i] for i in standard])
        shown = self.evaluator.evaluate(planes)
        np.testing.assert_allclose(shown.wdl, found.wdl[standard], atol=1e-5)
        np.testing.assert_allclose(shown.dense(), found.dense()[standard], atol=1e-5)
        self.assert_same(shown, self.evaluator.evaluate(planes.astype(np.uint8)))

    def test_calls_of_every_size_have_all_results(self):
        """Calls are split in several ways, by their size and the number of threads."""
        packed = np.resize(rukh.pack(random_boards(300)), (600, 8))
        all_found = self.evaluator.evaluate(packed)
        for threads in (1, 2, 5):
            evaluator = rukh.Evaluator(self.network, "cpu", threads=threads)
            for count in (0, 1, 8, 9, 17, 63, 64, 65, 159, 160, 161, 599):
                found = evaluator.evaluate(packed[:count])
                np.testing.assert_allclose(found.wdl, all_found.wdl[:count], atol=1e-5, err_msg=f"{threads} {count}")
                np.testing.assert_array_equal(found.offsets, all_found.offsets[: count + 1])

    def test_many_boards_have_their_results_in_order(self):
        """Many boards are read in the order of their addresses; several threads put the results in the list's order."""
        boards = random_boards(5000)
        parts = [boards[at : at + 500] for at in range(0, len(boards), 500)]
        evaluator = rukh.Evaluator(self.network, "cpu", threads=2)
        found, expected = evaluator.evaluate(boards), [evaluator.evaluate(part) for part in parts]
        for name in ("wdl", "moves", "indices", "priors"):
            joined = np.concatenate([getattr(part, name) for part in expected])
            np.testing.assert_allclose(getattr(found, name), joined, atol=1e-5, err_msg=name)
        counts = np.concatenate([np.diff(part.offsets) for part in expected])
        np.testing.assert_array_equal(np.diff(found.offsets), counts)
        np.testing.assert_array_equal(rukh.pack(boards), np.concatenate([rukh.pack(part) for part in parts]))
        boards[4321] = "no position"
        for read in (evaluator.evaluate, rukh.pack):
            with self.assertRaisesRegex(ValueError, "position 4321"):
                read(boards)

    def test_moves_are_the_legal_ones_as_the_board_writes_them(self):
        boards = random_boards(200, 2) + random_boards(100, 3, chess960=True)
        boards += [chess.Board("r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1", chess960=frc) for frc in (False, True)]
        boards.append(chess.Board("8/1P6/8/8/8/k7/8/K7 w - - 0 1"))
        found = self.evaluator.evaluate(boards)
        for i, board in enumerate(boards):
            self.assertEqual(set(found.policy(i)), {move.uci() for move in board.legal_moves}, board.fen())
            if found.policy(i):
                self.assertAlmostEqual(sum(found.policy(i).values()), 1, places=4)
                self.assertEqual(found.best_move(i), next(iter(found.policy(i))))

    def test_fens_are_positions_without_a_past(self):
        board = board_of(chess.STARTING_FEN, ["e2e4", "e7e5", "g1f3"])
        with_past, alone = self.evaluator.evaluate([board, board.fen()]).q
        self.assertNotEqual(with_past, alone)
        self.assertEqual(self.evaluator.evaluate(board.copy(stack=False)).q[0], alone)

    def test_ended_games_have_their_result(self):
        mate = "rnb1kbnr/pppp1ppp/8/4p3/6Pq/5P2/PPPPP2P/RNBQKBNR w KQkq - 1 3"
        found = self.evaluator.evaluate([mate, "7k/5Q2/6K1/8/8/8/8/8 b - - 0 1"])
        self.assertEqual(found.wdl.tolist(), [[0, 0, 1], [0, 1, 0]])
        self.assertEqual((len(found.moves), found.best_move(0)), (0, None))
        self.assertEqual(len(self.evaluator.evaluate([])), 0)
        nothing = rukh.pack([])
        self.assertEqual(len(self.evaluator.evaluate(nothing)), 0)
        self.assertEqual(self.network.planes(nothing).shape, (0, 112, 8, 8))
        self.assertEqual(rukh.fens(nothing), [])

    def test_what_is_wrong_is_named(self):
        start = chess.STARTING_FEN
        for positions, kind, words in [
            ([start, "no FEN"], ValueError, "position 1: bad FEN board"),
            ([start] * 700 + ["8/8/8/8/8/8/8/8 w - - 0 1"], ValueError, "position 700: 0 white"),
            ([chess.Board(None)], ValueError, "position 0: 0 white"),
            ([3], TypeError, "position 0: expected a FEN or a chess.Board, not int"),
            (np.zeros((2, 111, 8, 8)), ValueError, "planes"),
            (np.zeros((1, 112, 8, 8), complex), ValueError, "complex"),
            (np.full((1, 112, 8, 8), 0.5), ValueError, "position 0: plane 0 must consist"),
            (np.zeros((1, 7), rukh.BOARD), ValueError, "packed"),
            (np.zeros((1, 8), rukh.BOARD), ValueError, "position 0: a packed position has no board"),
        ]:
            with self.subTest(words), self.assertRaisesRegex(kind, words):
                self.evaluator.evaluate(positions)
        with self.assertRaisesRegex(FileNotFoundError, "no-such-network"):
            rukh.Network.open("no-such-network.pb.gz")
        with self.assertRaisesRegex(ValueError, "cannot load network"):
            rukh.Network.open(__file__)
        with self.assertRaisesRegex(ValueError, "quantum"):
            rukh.Evaluator(self.network, "quantum")
        with self.assertRaisesRegex(ValueError, "colour"):
            rukh.Evaluator(self.network, "cpu", {"colour": "red"})

    def test_notices_say_what_the_preparation_found(self):
        evaluator = rukh.Evaluator(self.network, "cpu", {"threads": 1, "alt_mish": "true"})
        self.assertIn("passed over: alt_mish", " ".join(evaluator.notices))

    def test_dense_priors_are_those_of_the_indices(self):
        found = self.evaluator.evaluate(random_boards(700))
        expected = np.zeros((700, 1858), np.float32)
        expected[np.repeat(np.arange(700), np.diff(found.offsets)), found.indices] = found.priors
        np.testing.assert_array_equal(found.dense(), expected)
        for wrong in ({"offsets": found.offsets + 1}, {"indices": found.indices + 2000}):
            with self.assertRaisesRegex(ValueError, "offsets or indices"):
                dataclasses.replace(found, **wrong).dense()

    def test_ten_threads_share_an_evaluator(self):
        boards = random_boards(200, 4)
        together, wrong = self.evaluator.evaluate(boards), []

        def work(nth):
            part = boards[nth::10]
            if not np.allclose(self.evaluator.evaluate(part).wdl, together.wdl[nth::10], atol=1e-5):
                wrong.append(nth)

        threads = [threading.Thread(target=work, args=(nth,)) for nth in range(10)]
        [thread.start() for thread in threads]
        [thread.join(SOON_S) for thread in threads]
        self.assertFalse(wrong or any(thread.is_alive() for thread in threads))

    @unittest.skipUnless(sys.platform == "linux", "reads /proc")
    def test_memory_is_flat(self):
        boards = random_boards(100, 5)
        packed = np.tile(rukh.pack(boards), (20, 1))

        def resident_mb():
            return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6

        def work():
            for _ in range(4):
                self.evaluator.evaluate(packed)
                self.evaluator.evaluate(boards)
                self.network.planes(boards)

        work()
        before = resident_mb()
        work()
        work()
        self.assertLess(resident_mb() - before, 8)


class Cards(unittest.TestCase):
    """A card is simulated: its evaluations are hashes of the planes, and its batches take time."""

    def evaluator(self, threads, milliseconds=1):
        options = {"slots": 3, "delay": milliseconds}
        return rukh.Evaluator(rukh.Network.embedded(), "random", options, threads=threads)

    def test_results_are_in_order_whatever_is_ready_first(self):
        boards = random_boards(500) * 7
        packed = rukh.pack(boards)
        for positions in (packed, boards, rukh.Network.embedded().planes(packed)):
            alone = self.evaluator(1).evaluate(positions)
            self.assertEqual(alone.q[-1], self.evaluator(1).evaluate(positions[-1:]).q[0])
            for threads in (None, 2, 20):
                found = self.evaluator(threads).evaluate(positions)
                np.testing.assert_array_equal(found.wdl, alone.wdl)
                np.testing.assert_array_equal(found.offsets, alone.offsets)
                np.testing.assert_array_equal(found.priors, alone.priors)

    def test_several_cards_share_a_call(self):
        packed = rukh.pack(random_boards(1500))
        network = rukh.Network.embedded()
        two = "(backend=random,slots=3,delay=1),(backend=random,slots=3,delay=1)"
        for positions in (packed, network.planes(packed)):
            alone = self.evaluator(None).evaluate(positions)
            for backend in ("roundrobin", "demux"):
                found = rukh.Evaluator(network, backend, two).evaluate(positions)
                np.testing.assert_array_equal(found.wdl, alone.wdl)
                np.testing.assert_array_equal(found.priors, alone.priors)

    def test_a_wrong_position_is_named(self):
        packed = np.tile(rukh.pack(chess.STARTING_FEN), (5000, 1))
        packed[3210]["squares"] = 0
        for positions in (packed, [chess.STARTING_FEN] * 3210 + ["no FEN"] + [chess.STARTING_FEN] * 1000):
            with self.assertRaisesRegex(ValueError, "position 3210"):
                self.evaluator(None).evaluate(positions)

    def test_ctrl_c_waits_only_for_batches_under_way(self):
        packed = np.tile(rukh.pack(chess.STARTING_FEN), (100_000, 1))
        threading.Timer(1, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)).start()
        begin = time.monotonic()
        with self.assertRaises(KeyboardInterrupt):
            self.evaluator(16, milliseconds=100).evaluate(packed)
        self.assertLess(time.monotonic() - begin, 3)


class Positions:
    """A dataset of torch: the win, draw and loss of boards."""

    def __init__(self, boards, network):
        self.boards, self.network, self.evaluator = boards, network, None

    def __len__(self):
        return len(self.boards)

    def __getitem__(self, i):
        self.evaluator = self.evaluator or rukh.Evaluator(self.network, "cpu", {"threads": 1})
        return self.evaluator.evaluate(self.boards[i]).wdl[0]


class Processes(unittest.TestCase):
    def interrupted(self, program):
        """The error output of a program that gets the signal of Ctrl+C when it says that it works."""
        process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(process.stdout.readline(), "works\n")
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=SOON_S)
        return errors

    def test_ctrl_c_ends_an_evaluation(self):
        errors = self.interrupted(
            "import numpy, rukh\n"
            "evaluator = rukh.Evaluator(rukh.Network.embedded(), 'cpu')\n"
            "packed = numpy.tile(rukh.pack('8/8/8/3k4/8/3KP3/8/8 w - - 0 1'), (1000000, 1))\n"
            "print('works', flush=True)\n"
            "evaluator.evaluate(packed)\n"
        )
        self.assertIn("KeyboardInterrupt", errors)

    def test_ctrl_c_ends_a_search(self):
        errors = self.interrupted(
            "import chess, rukh\n"
            "engine = rukh.Engine(backend='cpu')\n"
            "print('works', flush=True)\n"
            "engine.play(chess.Board(), None)\n"
        )
        self.assertIn("KeyboardInterrupt", errors)

    @unittest.skipUnless(hasattr(os, "fork"), "this system does not fork")
    def test_a_forked_process_needs_its_own_evaluator(self):
        evaluator = rukh.Evaluator(rukh.Network.embedded(), "cpu", {"threads": 2})
        evaluator.evaluate(chess.STARTING_FEN)
        answers = multiprocessing.get_context("fork").Queue()

        def work():
            try:
                evaluator.evaluate(chess.STARTING_FEN)
            except RuntimeError as error:
                answers.put(str(error))
            own = rukh.Evaluator(rukh.Network.embedded(), "cpu", {"threads": 2})
            answers.put(len(own.evaluate([chess.STARTING_FEN] * 100)))

        process = multiprocessing.get_context("fork").Process(target=work)
        process.start()
        self.assertIn("make the Evaluator in the process that uses it", answers.get(timeout=SOON_S))
        self.assertEqual(answers.get(timeout=SOON_S), 100)
        process.join(SOON_S)
        self.assertEqual(process.exitcode, 0)

    def test_networks_can_be_pickled_and_evaluators_say_why_not(self):
        for network in (rukh.Network.embedded(), rukh.Network.open(DATA / "micro-attn.pb.gz")):
            self.assertEqual(pickle.loads(pickle.dumps(network)).describe(), network.describe())
        for what in (rukh.Evaluator(network, "cpu"), rukh.Engine(network, "cpu")):
            with self.assertRaisesRegex(TypeError, f"make the {type(what).__name__} in the process that uses it"):
                pickle.dumps(what)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "torch is not installed")
    def test_workers_of_torch_make_their_own_evaluators(self):
        from torch.utils.data import DataLoader

        positions = Positions(random_boards(40), rukh.Network.open(DATA / "micro-attn.pb.gz"))
        expected = np.stack([positions[i] for i in range(40)])
        positions.evaluator = None
        for method in multiprocessing.get_all_start_methods():
            with self.subTest(method):
                loader = DataLoader(positions, batch_size=8, num_workers=2, multiprocessing_context=method)
                np.testing.assert_allclose(np.concatenate(list(loader)), expected, atol=1e-5)

    def test_the_command_line_is_that_of_the_program(self):
        def rukh_with(*arguments, commands=""):
            command = [sys.executable, "-m", "rukh", *arguments]
            return subprocess.run(command, input=commands, capture_output=True, text=True, timeout=SOON_S, check=False)

        played = rukh_with("--backend=cpu", commands="position startpos\ngo nodes 20\nwait\nquit\n")
        self.assertEqual((played.returncode, "bestmove" in played.stdout), (0, True), played.stderr)
        self.assertEqual(rukh_with("--no-such-flag").returncode, 2)
        self.assertEqual(rukh_with("describenet", "--weights=no-such-network").returncode, 1)


class Searches(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.engine = rukh.Engine(backend="cpu")

    def test_lines_are_infos_of_python_chess(self):
        board = chess.Board("6k1/5ppp/8/8/8/8/8/R3K2R w KQ - 0 1")
        first, second = self.engine.analyse(board, chess.engine.Limit(nodes=200), multipv=2)
        self.assertEqual((first["multipv"], first["score"]), (1, chess.engine.PovScore(chess.engine.Mate(1), chess.WHITE)))
        self.assertEqual((first["pv"][0], second["multipv"]), (chess.Move.from_uci("a1a8"), 2))
        self.assertGreater(first["wdl"].white().wins, 900)
        self.assertTrue({"depth", "seldepth", "nodes", "nps", "time"} <= set(first))
        only = [chess.Move.from_uci("e1e2")]
        (line,) = self.engine.analyse(board, chess.engine.Limit(nodes=20), root_moves=only)
        self.assertEqual(line["pv"][0], only[0])
        self.assertEqual(self.engine.play(board, chess.engine.Limit(time=0.2)), first["pv"][0])
        clock = chess.engine.Limit(white_clock=1, black_clock=1)
        self.assertIn(self.engine.play(chess.Board(), clock), chess.Board().legal_moves)
        self.assertIsNone(self.engine.play("7k/5Q2/6K1/8/8/8/8/8 b - - 0 1", chess.engine.Limit(nodes=1)))

    def test_an_endless_search_stops(self):
        board = board_of(chess.STARTING_FEN, ["e2e4", "e7e5"])
        with self.engine.analysis(board) as analysis:
            for info in analysis:
                if info["nodes"] >= 20:
                    threading.Thread(target=analysis.stop).start()
            self.assertIn(analysis.best_move(), board.legal_moves)

    def test_what_is_wrong_is_named(self):
        for work, kind, words in [
            (lambda: rukh.Engine(options={"NoSuchOption": 1}), ValueError, "NoSuchOption"),
            (lambda: self.engine.analysis("no FEN"), ValueError, "no FEN"),
            (lambda: self.engine.set_option("MultiPV", "many"), ValueError, "many"),
        ]:
            with self.subTest(words), self.assertRaisesRegex(kind, words):
                work()


if __name__ == "__main__":
    unittest.main()
