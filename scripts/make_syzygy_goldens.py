#!/usr/bin/env python3
"""Writes tests/data/syzygy.txt.gz: what python-chess reads in the Syzygy tables, for random positions.

    scripts/make_syzygy_goldens.py DIRECTORY_WITH_TABLES

One line a position: WDL (-2 … 2, side to move's view, counter at zero), DTZ, FEN. Three- and four-man positions of all
the tables in the directory, black and white to move, some with en passant. Needs PyPI `chess`. The seed is fixed.
"""

import gzip
import pathlib
import random
import sys

import chess
import chess.syzygy

POSITIONS_PER_TABLE = 80
OUTPUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "syzygy.txt.gz"


def random_position(rng, pieces):
    """A legal position of these pieces on random squares, or None."""
    board = chess.Board(None)
    for square, piece in zip(rng.sample(range(64), len(pieces)), pieces):
        if piece.piece_type == chess.PAWN and chess.square_rank(square) in (0, 7):
            return None
        board.set_piece_at(square, piece)
    board.turn = rng.random() < 0.5
    # Where a double push could just have been played, say so now and then.
    if rng.random() < 0.5:
        rank, step = (4, 8) if board.turn else (3, -8)
        for square in board.pieces(chess.PAWN, not board.turn):
            behind, start = square + step, square + 2 * step
            if chess.square_rank(square) == rank and not board.piece_at(behind) and not board.piece_at(start):
                board.ep_square = behind
    return board if board.is_valid() else None


def main():
    directory = sys.argv[1]
    rng = random.Random(20261121)
    lines = []
    with chess.syzygy.open_tablebase(directory) as tables:
        for path in sorted(pathlib.Path(directory).glob("*.rtbw")):
            white, black = path.stem.split("v")
            sides = [(white, chess.WHITE), (black, chess.BLACK)]
            written = 0
            while written < POSITIONS_PER_TABLE:
                swap = rng.random() < 0.5
                pieces = [chess.Piece.from_symbol(letter) for letters, _ in sides for letter in letters]
                colors = [color for letters, color in sides for _ in letters]
                for piece, color in zip(pieces, colors):
                    piece.color = color != swap
                board = random_position(rng, pieces)
                if board is not None:
                    lines.append(f"{tables.probe_wdl(board)} {tables.probe_dtz(board)} {board.fen()}\n")
                    written += 1
    with gzip.GzipFile(OUTPUT, "wb", mtime=0) as output:
        output.write("".join(lines).encode())
    print(f"{len(lines)} positions, {OUTPUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
