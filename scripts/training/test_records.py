#!/usr/bin/env python3
"""Tests of the training record and of the policy's indices, against python-chess and against the labeller.

Needs numpy and python-chess, but not PyTorch.

    python -m unittest discover scripts/training -p test_records.py
"""

import json
import unittest
from pathlib import Path

import chess
import numpy as np

from policy_map import INDEX_OF, MIRRORED_INDEX, MOVES
from positions import policy_index, random_games, raw_records, record
from records import FLAG_NO_END, FLAG_SOFT, RECORD, RECORD_SIZE, plausible, position_hash

LAYOUT = Path(__file__).with_name("labeler") / "record_layout.json"


class PolicyMapTest(unittest.TestCase):
    def test_mirroring_twice_changes_nothing(self):
        self.assertTrue((MIRRORED_INDEX[MIRRORED_INDEX] == np.arange(len(MOVES))).all())

    def test_indices_are_those_of_lc0(self):
        # a1b1, e2e4 and the first promotion.
        self.assertEqual(INDEX_OF[0, 1, None], 0)
        self.assertEqual(INDEX_OF[chess.E2, chess.E4, None], 322)
        self.assertEqual(INDEX_OF[48, 56, 0], 1792)

    def test_every_legal_move_has_an_index_of_its_own(self):
        for board in random_games(10, chess960=True):
            indices = [policy_index(board, move) for move in board.legal_moves]
            self.assertEqual(len(set(indices)), len(indices))


class RecordTest(unittest.TestCase):
    def test_fields_follow_each_other_and_fill_the_record(self):
        end = 0
        for name in RECORD.names:
            number, offset = RECORD.fields[name]
            self.assertEqual(offset, end, name)
            end += number.itemsize
        self.assertEqual(end, RECORD_SIZE)

    def test_the_labeller_and_python_chess_write_the_same_records(self):
        examples = json.loads(LAYOUT.read_text(encoding="utf-8"))["examples"]
        self.assertGreaterEqual(len(examples), 9)
        for example in examples:
            board = chess.Board(example["fen"], chess960=True)
            moves = [board.parse_uci(text) for text, _ in example["moves"]]
            scores = [score for _, score in example["moves"]]
            flags = FLAG_NO_END | (FLAG_SOFT if len(moves) > 1 else 0)
            made = record(board, moves=moves, scores=scores, flags=flags, plies_left=0)
            # All examples have the same score of the position and the same probabilities.
            made["score"], made["win"], made["loss"] = -31995, 1, 990
            written = np.frombuffer(bytes.fromhex(example["record"]), dtype=RECORD)[0]
            for name in RECORD.names:
                self.assertEqual(made[name].tolist(), written[name].tolist(), f"{example['fen']}: {name}")

    def test_hash_covers_the_position_without_its_rule_50_counter(self):
        boards = list(random_games(5))
        raw = raw_records(boards)
        other = raw.copy()
        other[:, 28] = 7
        other[:, 30:] ^= 255
        np.testing.assert_array_equal(position_hash(raw), position_hash(other))
        keys = {(board.board_fen(), board.turn, board.castling_rights, board.ep_square) for board in boards}
        self.assertLessEqual(len(set(position_hash(raw).tolist())), len(keys))

    def test_implausible_records_are_found(self):
        raw = raw_records([chess.Board()] * 4)
        raw[1, 46:48] = 255  # no such policy index
        raw[2, 46:48] = 0  # an illegal move
        raw[3, 40] = 5  # too many labels
        self.assertEqual(plausible(raw).tolist(), [True, False, False, False])


if __name__ == "__main__":
    unittest.main()
