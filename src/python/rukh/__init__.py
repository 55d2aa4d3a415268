"""Evaluates chess positions with networks of Leela Chess Zero (lc0), thousands at a time, and searches with them."""

from rukh._native import VERSION as __version__
from rukh.engine import Analysis, Engine
from rukh.evaluator import Evaluations, Evaluator
from rukh.network import Network
from rukh.packed import BOARD, fens, pack

__all__ = ["BOARD", "Analysis", "Engine", "Evaluations", "Evaluator", "Network", "__version__", "fens", "pack"]
