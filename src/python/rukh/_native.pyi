import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

VERSION: str

_Arrays = tuple[
    NDArray[np.float32],
    NDArray[np.float32] | None,
    NDArray[np.int64],
    NDArray[np.uint16],
    NDArray[np.uint16],
    NDArray[np.float32],
]
_Clock = tuple[float, float, float, float, int | None]
_Found = tuple[
    tuple[int, int, int, int, int, float],
    tuple[int | None, int | None],
    list[float] | None,
    tuple[int | None, int],
    list[str],
]

class Network:
    path: str
    is_embedded: bool
    input_format: int
    @staticmethod
    def open(path: str | os.PathLike[str]) -> Network: ...
    @staticmethod
    def embedded() -> Network: ...
    def describe(self) -> str: ...
    def planes(self, packed: NDArray[np.uint8]) -> NDArray[np.float32]: ...

class Evaluator:
    name: str
    notices: list[str]
    def __init__(
        self, network: Network, backend: str, options: str, policy_temperature: float, threads: int | None
    ) -> None: ...
    def evaluate(self, positions: list[Any]) -> _Arrays: ...
    def evaluate_packed(self, packed: NDArray[np.uint8]) -> _Arrays: ...
    def evaluate_planes(self, numbers: NDArray[np.float32]) -> _Arrays: ...

class Engine:
    def __init__(self, network: Network, backend: str, options: list[tuple[str, str]]) -> None: ...
    def set_option(self, name: str, value: str) -> None: ...
    def new_game(self) -> None: ...
    def analyse(
        self,
        fen: str,
        moves: list[str],
        limit: tuple[int | None, float | None, int | None, int | None, _Clock | None],
        root_moves: list[str],
        is_chess960: bool,
    ) -> Analysis: ...

class Analysis:
    def stop(self) -> None: ...
    def next(self) -> _Found | None: ...
    def best_move(self) -> str | None: ...

def dense(
    offsets: NDArray[np.int64], indices: NDArray[np.uint16], priors: NDArray[np.float32]
) -> NDArray[np.float32]: ...
def pack(positions: list[Any]) -> NDArray[np.uint8]: ...
def fens(packed: NDArray[np.uint8]) -> list[str]: ...
def run(arguments: list[str], program: str | None) -> int: ...
