"""lc0's 1858 policy outputs, and their places among the logits of an attention policy.

A policy index stands for the two squares of a move, seen from the side to move (a1 = 0, the side to move at the
bottom). The first 1792 are the pairs of squares between which a queen or a knight can move, ordered by origin and
target. Then each of the 22 pawn moves to the last rank has an index for queen, rook and bishop (66 in all). The plain
pair of squares is the promotion to a knight. Castling is encoded as the king capturing its own rook.

An attention policy computes 64 x 64 + 192 logits. The logit of a pair of squares is at `from * 64 + to`. The logit of
a promotion is at `4096 + 24 * from file + 3 * to file + piece`, where piece is 0 for a queen, 1 for a rook and 2 for a
bishop.
"""

import numpy as np

POLICY_SIZE = 1858
PLAIN_MOVES = 1792
ATTENTION_LOGITS = 64 * 64 + 8 * 8 * 3


def _plain_moves():
    moves = []
    for squares in range(64 * 64):
        origin, target = divmod(squares, 64)
        files, ranks = abs(origin % 8 - target % 8), abs(origin // 8 - target // 8)
        queen = files == 0 or ranks == 0 or files == ranks
        if origin != target and (queen or files * ranks == 2):
            moves.append((origin, target))
    assert len(moves) == PLAIN_MOVES
    return moves


#: (from, to, piece) of each policy index; piece is None, or 0, 1, 2 for a promotion to queen, rook, bishop.
MOVES = [(origin, target, None) for origin, target in _plain_moves()] + [
    (48 + origin, 56 + target, piece)
    for origin in range(8)
    for target in range(max(origin - 1, 0), min(origin + 1, 7) + 1)
    for piece in range(3)
]
assert len(MOVES) == POLICY_SIZE

#: Policy index of (from, to, piece).
INDEX_OF = {move: index for index, move in enumerate(MOVES)}


def _logit(origin, target, piece):
    if piece is None:
        return origin * 64 + target
    return 4096 + 24 * (origin % 8) + 3 * (target % 8) + piece


#: For each policy index, its place among the attention logits.
LOGIT_OF_INDEX = np.array([_logit(*move) for move in MOVES], dtype=np.int64)

#: For each attention logit its policy index, or POLICY_SIZE if it stands for no move.
INDEX_OF_LOGIT = np.full(ATTENTION_LOGITS, POLICY_SIZE, dtype=np.int64)
INDEX_OF_LOGIT[LOGIT_OF_INDEX] = np.arange(POLICY_SIZE)

#: For each policy index, the index of the move with mirrored files. The map is its own inverse.
MIRRORED_INDEX = np.array([INDEX_OF[origin ^ 7, target ^ 7, piece] for origin, target, piece in MOVES], dtype=np.int64)
