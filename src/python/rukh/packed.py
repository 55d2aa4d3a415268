"""Positions in 320 bytes each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rukh import _native

if TYPE_CHECKING:
    import chess

#: The type of one board, 40 bytes. A packed position is a row of eight: the position itself, then those before it, newest
#: first. Packed positions are arrays of the shape (N, 8); every network can evaluate them. Networks with
#: the input formats 5 and 133 see repetitions of older positions only in boards, not in packed positions.
#:
#: `squares`      the code of each square, one bit in each of four numbers; bit 0 is a1, bit 7 h1, bit 63 h8. The codes are
#:                0 empty, 1 pawn, 2 knight, 3 bishop, 4 rook, 5 queen, 6 king, 7 a rook that may castle; 8 is added for
#:                Black. `squares[0]` has the lowest bit of the codes
#: `rule50`       plies since the last capture or pawn move
#: `en_passant`   the square that a pawn has just passed if an enemy pawn attacks it (a FEN's in any case); 255 for none
#: `repetitions`  how often the position occurred before, since the last capture or pawn move
#: `flags`        1: there is a board (if not, the game had not begun); 2: Black is to move; 4: in the results, castling is
#:                the king's move to its rook, as in Chess960
#: `unused`       0
BOARD = np.dtype(
    [
        ("squares", np.uint64, 4),
        ("rule50", np.uint16),
        ("en_passant", np.uint8),
        ("repetitions", np.uint8),
        ("flags", np.uint8),
        ("unused", np.uint8, 3),
    ],
    align=True,
)

#: The boards of a packed position.
BOARDS = 8


def pack(positions: str | chess.Board | Iterable[str | chess.Board]) -> NDArray[Any]:
    """Packs positions: FENs, and boards of python-chess with the moves before them.

    Returns an array (N, 8) of `BOARD`. Raises ValueError for a position that cannot be read, and TypeError for an object of
    another type, with its number from 0.
    """
    return _native.pack(listed(positions)).view(BOARD).reshape(-1, BOARDS)


def fens(packed: NDArray[Any]) -> list[str]:
    """The FENs of packed positions. Their move number is 1."""
    return _native.fens(raw(packed))


def listed(positions: Any) -> list[Any]:
    """The positions as a list; a single one is a list of one."""
    if isinstance(positions, list):
        return positions
    if isinstance(positions, str) or hasattr(positions, "move_stack"):
        return [positions]
    return list(positions)


def raw(packed: NDArray[Any]) -> NDArray[np.uint8]:
    """The bytes of packed positions."""
    if packed.dtype != BOARD or packed.ndim != 2 or packed.shape[1] != BOARDS:
        raise ValueError(f"packed positions have the shape (N, {BOARDS}) and the dtype rukh.BOARD, "
                         f"not {packed.shape} and {packed.dtype}")
    return np.require(packed, BOARD, ["C", "A"]).reshape(-1).view(np.uint8)


def board_fields(board: Any) -> tuple[Any, ...]:
    """What the native module reads of a board of python-chess."""
    return (board.pawns, board.knights, board.bishops, board.rooks, board.queens, board.kings, board.occupied_co[0],
            board.castling_rights, board.ep_square, board.halfmove_clock, board.turn, board.chess960, board._stack)  # fmt: skip


def entry_fields(state: Any) -> tuple[Any, ...]:
    """What the native module reads of an entry of a board's stack; the first fields are those of `board_fields`."""
    return (state.pawns, state.knights, state.bishops, state.rooks, state.queens, state.kings, state.occupied_b,
            state.castling_rights, state.ep_square, state.halfmove_clock, state.turn)  # fmt: skip
