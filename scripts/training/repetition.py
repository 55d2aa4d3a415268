"""Positions that occur again, and what the network is taught to do in them.

Whoever always plays the same move in the same position goes round in circles, and draws what is won. So a part of
each batch is shown twice, the second time as if the position had occurred before in its game. What the network would
have played the first time, its own first choice whatever the label, then probably leads to a draw.
"""

import torch

from records import FLAG_REPEATED, RECORD

#: How often the move that was played before leads to a draw now.
DRAW_SHARE = 0.75
#: Who expects more than this is not content with a draw.
CONTENT = 0.55

_FLAGS = RECORD.fields["flags"][1]


def as_repeated(raw):
    """Records [B][296], each marked as one that has occurred before."""
    again = raw.clone()
    again[:, _FLAGS] |= FLAG_REPEATED
    return again


def show_again(raw, count):
    """Records [B][296] and the first `count` of them once more, marked: [B + count][296]."""
    return torch.cat([raw, as_repeated(raw[:count])])


def scores_again(scores, is_played):
    """Expected scores [B][4] of the labelled moves, where one of them has been played before."""
    return torch.where(is_played, scores + DRAW_SHARE * (0.5 - scores), scores)


def without(log_probabilities, played):
    """[B][n]: the probabilities of all moves but `played` [B], which is not to be played again; sums to 1, or to 0 if
    there is no other move."""
    others = log_probabilities.exp().scatter(1, played[:, None], 0.0)
    return others / others.sum(1, keepdim=True).clamp(min=1e-9)
