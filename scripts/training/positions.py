"""Makes records of python-chess boards, for tests and for `compare_with_rukh.py`.

These functions are slow. The program `label` writes the records of a training run.
"""

import random

import chess
import numpy as np

import chunks
from policy_map import INDEX_OF
from records import RECORD, UNKNOWN

PROMOTIONS = {chess.QUEEN: 0, chess.ROOK: 1, chess.BISHOP: 2}


def policy_index(board, move):
    """lc0's policy index of a legal move. Castling is encoded as the king capturing its own rook."""
    origin, target = move.from_square, move.to_square
    if board.is_castling(move):
        king_side = chess.square_file(target) > chess.square_file(origin)
        rooks = board.clean_castling_rights() & chess.BB_RANKS[chess.square_rank(origin)]
        target = chess.msb(rooks) if king_side else chess.lsb(rooks)
    flip = 0 if board.turn else 56
    return INDEX_OF[origin ^ flip, target ^ flip, PROMOTIONS.get(move.promotion)]


def record(board, moves=None, scores=(), flags=0, result=UNKNOWN, win=0, loss=0, plies_left=1):
    """A record of a board whose game is not over, labelled with `moves` (the first legal one by default)."""
    seen = board if board.turn else board.mirror()
    legal = list(board.legal_moves)
    moves = legal[:1] if moves is None else moves
    out = np.zeros((), dtype=RECORD)
    out["occupied"] = seen.occupied
    nibbles = []
    for square in chess.SquareSet(seen.occupied):
        piece = seen.piece_at(square)
        nibbles.append(piece.piece_type - 1 + (0 if piece.color else 8))
    for place, nibble in enumerate(nibbles):
        out["pieces"][place // 2] |= nibble << 4 * (place % 2)
    out["castling"] = UNKNOWN
    for square in chess.SquareSet(seen.clean_castling_rights()):
        ours = square < 8
        king_side = square > seen.king(chess.WHITE if ours else chess.BLACK)
        out["castling"][(0 if ours else 2) + (0 if king_side else 1)] = chess.square_file(square)
    out["rule50"] = min(board.halfmove_clock, 100)
    out["en_passant"] = UNKNOWN if board.ep_square is None else chess.square_file(board.ep_square)
    out["result"], out["flags"], out["plies_left"], out["win"], out["loss"] = result, flags, plies_left, win, loss
    out["labels"] = len(moves)
    out["moves"] = 65535
    out["moves"][: len(moves)] = [policy_index(board, move) for move in moves]
    out["scores"][: len(scores)] = scores
    for move in legal:
        index = policy_index(board, move)
        if index < 1856:
            out["legal"][index // 8] |= 1 << index % 8
        else:
            out["legal_tail"] |= 1 << index - 1856
    return out


def random_games(count=20, plies=120, seed=1, chess960=False):
    """Yields the boards of `count` games of random moves, each broken off after `plies`."""
    rng = random.Random(seed)
    for _ in range(count):
        board = chess.Board.from_chess960_pos(rng.randrange(960)) if chess960 else chess.Board()
        for _ in range(plies):
            if board.is_game_over():
                break
            yield board.copy(stack=False)
            board.push(rng.choice(list(board.legal_moves)))


def raw_records(boards, **fields):
    """The records of boards as a uint8 array [boards][296]; `fields` are passed to `record`."""
    rows = b"".join(record(board, **fields).tobytes() for board in boards)
    return np.frombuffer(rows, dtype=np.uint8).reshape(-1, RECORD.itemsize).copy()


def chunk_record(board, visits, input_format=1, **fields):
    """A record of `chunks.RECORD` for a board whose game is not over, without history. `visits` are those of the legal
    moves; `fields` are set as they are given."""
    seen = board if board.turn else board.mirror()
    out = np.zeros((), dtype=chunks.RECORD)
    out["version"], out["input_format"] = chunks.VERSION, input_format
    out["probabilities"] = -1
    for move, share in zip(board.legal_moves, np.asarray(visits, dtype=np.float32) / sum(visits), strict=True):
        out["probabilities"][policy_index(board, move)] = share
    for square, piece in seen.piece_map().items():
        plane = piece.piece_type - 1 + (0 if piece.color else 6)
        out["planes"][plane, square // 8] |= 0x80 >> square % 8
    for square in chess.SquareSet(seen.clean_castling_rights()):
        ours = square < 8
        king_side = square > seen.king(chess.WHITE if ours else chess.BLACK)
        right = 1 if input_format == chunks.CLASSICAL else 1 << square % 8
        out["castling"][(0 if ours else 2) + (1 if king_side else 0)] = right
    out["rule50"] = min(board.halfmove_clock, 100)
    out["side_to_move_or_enpassant"] = not board.turn
    for name, value in fields.items():
        out[name] = value
    return out
