"""The Elo scale."""

import math


def elo(score):
    """The Elo difference at which this score, between 0 and 1, is expected."""
    score = min(max(score, 1e-6), 1 - 1e-6)
    return -400 * math.log10(1 / score - 1)
