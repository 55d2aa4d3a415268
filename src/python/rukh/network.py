"""Network files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rukh import _native, packed

if TYPE_CHECKING:
    import chess


class Network:
    """A network of lc0 whose file was read."""

    def __init__(self, native: _native.Network) -> None:
        """Use `Network.open` or `Network.embedded`."""
        self._native = native

    @staticmethod
    def open(path: str | os.PathLike[str]) -> Network:
        """Reads a network: a file of lc0 (`.pb.gz` or `.pb`), also one that holds an ONNX model.

        Raises FileNotFoundError, or ValueError if the file is no network or is damaged.
        """
        return Network(_native.Network.open(path))

    @staticmethod
    def embedded() -> Network:
        """Rukh's own network, which is part of the package."""
        return Network(_native.Network.embedded())

    @property
    def path(self) -> str:
        """The path of the file; `<embedded, Rukh's own>` if it has none."""
        return self._native.path

    @property
    def input_format(self) -> int:
        """lc0's number for the format of the input planes: 1 for most networks."""
        return self._native.input_format

    def describe(self) -> str:
        """What the file is, as `rukh describenet` prints it: one line for each property."""
        return self._native.describe()

    def planes(self, positions: str | chess.Board | Iterable[str | chess.Board] | NDArray[Any]) -> NDArray[np.float32]:
        """The input planes of positions (FENs, boards, or packed) for this network, as lc0 makes them.

        Returns float32 (N, 112, 8, 8): plane, rank, file, as the side to move sees the board; rank 0 is its own. Planes
        13 b to 13 b + 12 are board b, the newest first: our pawns, knights, bishops, rooks, queens and king, theirs, and
        whether the board is a repetition. Planes 104 to 107 are castling rights, 108 the side to move or an en passant
        file, 109 the rule-50 counter, 110 zeros (or Black to move in the formats for armageddon), 111 ones; what they hold depends
        on `input_format`. Raises ValueError or TypeError for a position that cannot be read, with its number from 0.
        """
        rows = positions if isinstance(positions, np.ndarray) else packed.pack(positions)
        return self._native.planes(packed.raw(rows)).reshape(-1, 112, 8, 8)

    def __reduce__(self) -> tuple[Any, ...]:
        # A network that is sent to another process, such as a worker of torch's DataLoader, is read again there.
        return (Network.embedded, ()) if self._native.is_embedded else (Network.open, (self.path,))

    def __repr__(self) -> str:
        return f"<rukh.Network {self.path}>"
