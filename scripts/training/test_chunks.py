#!/usr/bin/env python3
"""Tests of reading chunks of training data, against python-chess. Needs numpy and python-chess, but not PyTorch.

    python -m unittest discover scripts/training -p test_chunks.py
"""

import contextlib
import gzip
import io
import tarfile
import tempfile
import unittest
from pathlib import Path

import chess
import numpy as np

import chunks
from positions import chunk_record, random_games


def records(boards, **fields):
    return np.stack([chunk_record(board, np.ones(board.legal_moves.count()), **fields) for board in boards])


def row(record):
    return chunks.rows(record[None]).view(chunks.ROW)[0, 0]


def add_to_tar(path, name, content):
    with tarfile.open(path, "a") as archive:
        info = tarfile.TarInfo(name)
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))


class RowTest(unittest.TestCase):
    def test_castling_files_are_those_of_the_rooks(self):
        for input_format in (chunks.CLASSICAL, chunks.CASTLING_PLANE, 3):
            for fen, files in [
                (chess.STARTING_FEN, [7, 0, 7, 0]),
                ("r3k2r/8/8/8/8/8/8/R3K2R b Kq - 0 1", [255, 0, 7, 255]),
                ("4k3/8/8/8/8/8/8/R1R1K1RR w - - 0 1", [255] * 4),
            ]:
                record = chunk_record(chess.Board(fen), np.ones(chess.Board(fen).legal_moves.count()), input_format)
                self.assertEqual(row(record)["castling"].tolist(), files, (input_format, fen))

    def test_castling_files_of_chess960_are_kept_where_the_format_has_them(self):
        for number in range(0, 960, 37):
            board = chess.Board.from_chess960_pos(number)
            record = chunk_record(board, np.ones(board.legal_moves.count()), chunks.CASTLING_PLANE)
            rooks = sorted(square for square in board.pieces(chess.ROOK, chess.WHITE))
            self.assertEqual(row(record)["castling"].tolist(), [rooks[1], rooks[0]] * 2)

    def test_moves_are_ordered_by_their_visits(self):
        board = chess.Board()
        record = chunk_record(board, np.arange(1, 21))
        found = row(record)
        self.assertEqual(found["count"], 20)
        self.assertEqual(found["moves"][0], np.argmax(record["probabilities"]))
        self.assertTrue((np.diff(found["shares"][:20].astype(int)) <= 0).all())
        self.assertEqual(found["shares"][20:].sum(), 0)

    def test_what_cannot_be_learned_from_is_left_out(self):
        good = records([chess.Board()] * 6)
        self.assertTrue(chunks.usable(good).all())
        bad = good.copy()
        bad["version"][0] = 5
        bad["input_format"][1] = 134
        bad["best_q"][2] = np.nan
        bad["probabilities"][3] = -1
        bad["input_format"][4], bad["invariance_info"][4] = 3, chunks.TRANSPOSED
        # In the first format the bit means nothing.
        bad["invariance_info"][5] = chunks.TRANSPOSED
        self.assertEqual(chunks.usable(bad).tolist(), [False] * 5 + [True])


class FolderTest(unittest.TestCase):
    def test_new_games_are_found_in_files_and_growing_archives(self):
        games = [records(list(random_games(1, plies=9, seed=seed))) for seed in range(5)]
        packed = [gzip.compress(game.tobytes()) for game in games]
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            (folder / "deeper").mkdir()
            (folder / "deeper" / "game_000000.gz").write_bytes(packed[0])
            archive = folder / "games_000000.tar"
            archive.write_bytes(bytes(1024))
            source = chunks.Chunks(folder, heldout=2)
            training, heldout, count = source.read_new()
            self.assertEqual((len(training), len(heldout), count), (1, 0, 1))
            np.testing.assert_array_equal(training[0], chunks.rows(games[0]))
            for number in (1, 2):
                add_to_tar(archive, f"game_{number:06}.gz", packed[number])
            training, heldout, count = source.read_new()
            self.assertEqual((len(training), len(heldout), count), (1, 1, 2))
            np.testing.assert_array_equal(heldout[0], chunks.rows(games[1]))
            add_to_tar(archive, "broken.gz", packed[3][:-20])
            add_to_tar(archive, "game_000004.gz", packed[4])
            (folder / "short.gz").write_bytes(gzip.compress(games[3].tobytes()[:-7]))
            with contextlib.redirect_stderr(io.StringIO()) as said:
                training, heldout, count = source.read_new()
            self.assertEqual((len(training) + len(heldout), count), (1, 1))
            self.assertIn("broken.gz: damaged", said.getvalue())
            self.assertIn("no whole number of records", said.getvalue())
            self.assertEqual(source.read_new(), ([], [], 0))


if __name__ == "__main__":
    unittest.main()
