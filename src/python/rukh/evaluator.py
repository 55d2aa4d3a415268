"""Evaluations by the network alone, in batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rukh import _native, packed
from rukh.network import Network

if TYPE_CHECKING:
    import chess

#: The outputs of a policy in lc0's order.
POLICY_SIZE = 1858

_FILES, _PIECES = "abcdefgh", ("", "", "n", "b", "r", "q", "", "")


@dataclass(frozen=True)
class Evaluations:
    """What a network says of N positions, each from the view of its side to move.

    The legal moves of position i are the elements `offsets[i]` to `offsets[i + 1] - 1` of `moves`, `indices` and `priors`.
    A FEN, board or packed position without legal moves gets the game's result (a loss or a draw); the network is not asked.
    """

    #: The probabilities of win, draw and loss, float32 (N, 3). A network that does not tell draws has a draw of 0.
    wdl: NDArray[np.float32]
    #: The expected number of plies to the end of the game, float32 (N,); None if the network does not tell.
    moves_left: NDArray[np.float32] | None
    #: int64 (N + 1,); the last is M, the number of all moves.
    offsets: NDArray[np.int64]
    #: The legal moves, uint16 (M,): the from-square, the to-square << 6, and `chess.PieceType` of a promotion << 12 (else
    #: 0). a1 is 0, h1 7, h8 63. Castling is written as the board writes it.
    moves: NDArray[np.uint16]
    #: The places of these moves among the 1858 outputs of the policy, in lc0's order, uint16 (M,).
    indices: NDArray[np.uint16]
    #: The probabilities of these moves, float32 (M,). Those of a position sum to 1.
    priors: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.wdl)

    @property
    def q(self) -> NDArray[np.float32]:
        """The probability of a win less that of a loss, float32 (N,): lc0's q."""
        return self.wdl[:, 0] - self.wdl[:, 2]

    def dense(self) -> NDArray[np.float32]:
        """The probabilities in lc0's order, float32 (N, 1858); 0 for moves that are not legal."""
        parts = (self.offsets, self.indices, self.priors)
        return _native.dense(*map(np.ascontiguousarray, parts)).reshape(-1, POLICY_SIZE)

    def policy(self, i: int) -> dict[str, float]:
        """The legal moves of position i in UCI's notation with their probabilities, the most probable first."""
        start, end = self._range(i)
        order = start + np.argsort(-self.priors[start:end], kind="stable")
        return {uci(int(self.moves[at])): float(self.priors[at]) for at in order}

    def best_move(self, i: int) -> str | None:
        """The most probable move of position i; None if there is no legal move."""
        start, end = self._range(i)
        return uci(int(self.moves[start + np.argmax(self.priors[start:end])])) if end > start else None

    def _range(self, i: int) -> tuple[int, int]:
        i = range(len(self))[i]
        return int(self.offsets[i]), int(self.offsets[i + 1])


class Evaluator:
    """Holds a network on a device. Threads may share it; while it works, other threads of Python run.

    It belongs to the process that made it: another one, such as a worker of torch's DataLoader, must make its own.
    """

    def __init__(
        self,
        network: Network,
        backend: str = "auto",
        options: str | Mapping[str, object] = "",
        *,
        policy_temperature: float = 1.0,
        threads: int | None = None,
    ) -> None:
        """Prepares the network for a device.

        backend: `auto` takes the fastest card, or else the processor. Others are `cpu`, `cuda-auto`, `rocm-auto` ...
        options: those of the backend, such as `{"gpu": 1}` or `"gpu=1"`.
        policy_temperature: the softmax temperature of the policy; 1 gives the network's own probabilities.
        threads: how many threads of a call encode positions and read the answers (1 to 512). Default on the processor:
            the number of batches that it evaluates at once. Default on a card: four for each batch that it evaluates at
            once, limited by the number of cores, but always at least one more than the batches.

        Raises ValueError for a wrong name, option or number of threads (1 to 512), and RuntimeError if the backend cannot run here.
        """
        if not isinstance(options, str):
            options = ",".join(f"{name}={value}" for name, value in options.items())
        self._native = _native.Evaluator(network._native, backend, options, policy_temperature, threads)
        self.network = network

    @property
    def name(self) -> str:
        """The name of the backend with its instructions or card, such as `cpu-bf16 (AMX)`."""
        return self._native.name

    @property
    def notices(self) -> list[str]:
        """Messages about the start: why `auto` passed over a card, what was measured, and which options of lc0 have no effect."""
        return self._native.notices

    def evaluate(self, positions: str | chess.Board | Iterable[str | chess.Board] | NDArray[Any]) -> Evaluations:
        """Evaluates positions; give it many at once.

        positions is one of
        - FENs, and boards of python-chess with the moves before them, which networks see;
        - packed positions, (N, 8) of `rukh.BOARD`;
        - input planes in the network's format (`Network.planes`), (N, 112, 8, 8) of numbers or booleans. Legal moves
          are read from the planes, with the side to move as White. In formats without a plane for en passant, it is found
          only if the board before is there. Planes that show no position have no moves.

        Raises ValueError for a position that cannot be read and TypeError for an object of another type, with its number
        from 0; TypeError for planes on a backend that takes positions only, such as `multiplexing`; and RuntimeError if the
        evaluation fails.
        """
        if not isinstance(positions, np.ndarray):
            found = self._native.evaluate(packed.listed(positions))
        elif positions.dtype == packed.BOARD:
            found = self._native.evaluate_packed(packed.raw(positions))
        elif positions.ndim == 4 and positions.shape[1:] == (112, 8, 8) and positions.dtype.kind in "fiub":
            found = self._native.evaluate_planes(np.ascontiguousarray(positions, np.float32).reshape(-1))
        elif positions.dtype.kind in "UO":
            found = self._native.evaluate(positions.reshape(-1).tolist())
        else:
            raise ValueError(f"expected planes (N, 112, 8, 8) of numbers, or packed positions (N, 8) of rukh.BOARD, "
                             f"not {positions.shape} of {positions.dtype}")
        wdl, moves_left, offsets, moves, indices, priors = found
        return Evaluations(wdl.reshape(-1, 3), moves_left, offsets, moves, indices, priors)

    def __repr__(self) -> str:
        return f"<rukh.Evaluator {self.name}>"


def uci(move: int) -> str:
    """The UCI notation of an element of `Evaluations.moves`."""
    squares = (move & 63, move >> 6 & 63)
    return "".join(f"{_FILES[square & 7]}{(square >> 3) + 1}" for square in squares) + _PIECES[move >> 12]
