"""Tests of match.py. They need python-chess.

    python -m unittest discover scripts/matches
"""

import unittest

import chess

from match import agreed_result


class AgreedResultTest(unittest.TestCase):
    def agreed(self, white, black, move=50, resign=600, draw=15):
        return agreed_result({chess.WHITE: white, chess.BLACK: black}, move, resign, draw)

    def test_a_game_is_won_when_both_engines_say_so_for_three_moves(self):
        self.assertEqual(self.agreed([0, 600, 700, 800], [0, 650, 600, 900]), "1-0")
        self.assertEqual(self.agreed([-600, -700, -800], [-650, -600, -900]), "0-1")
        self.assertIsNone(self.agreed([600, 700, 800], [650, 599, 900]))
        self.assertIsNone(self.agreed([600, 700, 800], [-650, -600, -900]))
        self.assertIsNone(self.agreed([600, 700, 800], [650, 900], resign=0))

    def test_one_engine_alone_ends_no_game(self):
        self.assertIsNone(self.agreed([900] * 30, []))
        self.assertIsNone(self.agreed([900] * 30, [900] * 2))
        self.assertIsNone(self.agreed([0] * 30, [0] * 9))

    def test_a_game_is_drawn_after_move_forty_when_both_engines_say_so_for_ten_moves(self):
        self.assertEqual(self.agreed([300] + [15] * 10, [300] + [-15] * 10, move=41), "1/2-1/2")
        self.assertIsNone(self.agreed([15] * 10, [-15] * 10, move=40))
        self.assertIsNone(self.agreed([15] * 10, [-16] + [-15] * 9))
        self.assertIsNone(self.agreed([15] * 10, [-15] * 10, draw=0))


if __name__ == "__main__":
    unittest.main()
