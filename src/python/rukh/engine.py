"""Searches, with python-chess's boards, limits, infos and scores."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from rukh import _native
from rukh.network import Network

if TYPE_CHECKING:
    import chess
    import chess.engine


class Engine:
    """Searches one position at a time. Needs python-chess, whose boards, limits and infos it uses.

    It keeps the tree from one move of a game to the next. It belongs to the process that made it.
    """

    def __init__(
        self, network: Network | None = None, backend: str = "auto", options: Mapping[str, object] | None = None
    ) -> None:
        """Prepares a network (Rukh's own by default) for searches.

        options: those of UCI, such as `{"Threads": 4, "SyzygyPath": "tables"}`; Rukh's `docs/options.md` lists them.

        Raises ValueError for a wrong name or option, and RuntimeError if the backend cannot run here.
        """
        given = [(name, _value(value)) for name, value in (options or {}).items()]
        network = network or Network.embedded()
        self._native = _native.Engine(network._native, backend, given)
        self._multipv = next((int(value) for name, value in given if name.lower() == "multipv"), 1)

    def set_option(self, name: str, value: object) -> None:
        """Sets an option of UCI for the searches that follow."""
        self._native.set_option(name, _value(value))

    def new_game(self) -> None:
        """Forgets the tree and the evaluations of earlier searches."""
        self._native.new_game()

    def analysis(
        self,
        board: str | chess.Board,
        limit: chess.engine.Limit | None = None,
        *,
        multipv: int | None = None,
        root_moves: Iterable[chess.Move] | None = None,
    ) -> Analysis:
        """Begins a search, and ends the previous one. Without a limit it ends when it is stopped.

        board: a FEN, or a board with the moves before it.
        limit: nodes, time, depth, mate and clocks; nodes count those that an earlier search of the game has left.
        multipv: the number of lines to tell; by default one, or what the option `MultiPV` says.
        root_moves: the moves to search.
        """
        import chess
        import chess.engine

        board = chess.Board(board) if isinstance(board, str) else board
        limit = limit or chess.engine.Limit()
        self._native.set_option("MultiPV", str(multipv or self._multipv))
        clock = None
        if limit.white_clock is not None or limit.black_clock is not None:
            white, black = (math.inf if time is None else time for time in (limit.white_clock, limit.black_clock))
            clock = (white, black, limit.white_inc or 0.0, limit.black_inc or 0.0, limit.remaining_moves)
        root = board.root()
        native = self._native.analyse(
            root.fen(shredder=board.chess960, en_passant="fen"),
            [board_move.uci() for board_move in board.move_stack],
            (limit.nodes, limit.time, limit.depth, limit.mate, clock),
            [board.uci(move) for move in root_moves or ()],
            board.chess960,
        )
        return Analysis(native, board.turn)

    def analyse(
        self,
        board: str | chess.Board,
        limit: chess.engine.Limit,
        *,
        multipv: int | None = None,
        root_moves: Iterable[chess.Move] | None = None,
    ) -> list[chess.engine.InfoDict]:
        """Searches, and returns what it found last of each line, the best first. Empty if there is no legal move."""
        lines: dict[int, chess.engine.InfoDict] = {}
        with self.analysis(board, limit, multipv=multipv, root_moves=root_moves) as analysis:
            for info in analysis:
                lines[info["multipv"]] = info
            analysis.best_move()
        return [lines[rank] for rank in sorted(lines)]

    def play(self, board: str | chess.Board, limit: chess.engine.Limit) -> chess.Move | None:
        """Searches, and returns the best move; None if there is no legal move."""
        return self.analysis(board, limit).best_move()


class Analysis(Iterator["chess.engine.InfoDict"]):
    """A search: an iterator of what it finds, which ends with the search. Ctrl+C stops it."""

    def __init__(self, native: _native.Analysis, turn: chess.Color) -> None:
        """`Engine.analysis` makes it."""
        self._native = native
        self._turn = turn

    def stop(self) -> None:
        """Stops the search from any thread."""
        self._native.stop()

    def best_move(self) -> chess.Move | None:
        """Waits for the end of the search, and returns the best move; None if there is no legal move. Read the
        infos that you want before: this discards the rest. A second call raises RuntimeError."""
        import chess

        best = self._native.best_move()
        return None if best is None else chess.Move.from_uci(best)

    def __next__(self) -> chess.engine.InfoDict:
        import chess
        from chess.engine import Cp, InfoDict, Mate, PovScore, PovWdl, Wdl

        found = self._native.next()
        if found is None:
            raise StopIteration
        (rank, depth, seldepth, nodes, nps, time), (centipawns, mate), wdl, (_, tbhits), line = found
        info: InfoDict = {"multipv": rank, "depth": depth, "seldepth": seldepth, "nodes": nodes, "nps": nps,
                          "time": time, "tbhits": tbhits, "pv": [chess.Move.from_uci(move) for move in line]}
        if mate is not None:
            info["score"] = PovScore(Mate(mate), self._turn)
        elif centipawns is not None:
            info["score"] = PovScore(Cp(centipawns), self._turn)
        if wdl is not None:
            info["wdl"] = PovWdl(Wdl(*(round(1000 * share) for share in wdl)), self._turn)
        return info

    def __enter__(self) -> Analysis:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _value(value: object) -> str:
    """The value of an option as UCI writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
