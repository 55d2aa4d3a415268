"""Training targets for positions that have occurred before in their game.

A network that always plays the same move in the same position repeats moves, and draws won games. Therefore a part of
each batch is shown twice, the second time as if the position had occurred before. The move that the network prefers in
the first copy, whatever the label, then counts as a likely draw in the second.
"""

import torch

from records import FLAG_REPEATED, RECORD

#: Probability that the move played before leads to a draw now.
DRAW_SHARE = 0.75
#: A side whose expected score is higher than this avoids a draw.
DRAW_AVOIDING_SCORE = 0.55

_FLAGS = RECORD.fields["flags"][1]


def as_repeated(raw):
    """Records [B][296], marked as positions that have occurred before."""
    again = raw.clone()
    again[:, _FLAGS] |= FLAG_REPEATED
    return again


def show_again(raw, count):
    """Records [B][296] followed by marked copies of the first `count`: [B + count][296]."""
    return torch.cat([raw, as_repeated(raw[:count])])


def scores_again(scores, is_played):
    """Expected scores [B][4] of the labelled moves, given which of them has been played before."""
    return torch.where(is_played, scores + DRAW_SHARE * (0.5 - scores), scores)


def without(log_probabilities, played):
    """Probabilities [B][n] of all moves except `played` [B]. Each row sums to 1, or to 0 if there is no other move."""
    others = log_probabilities.exp().scatter(1, played[:, None], 0.0)
    return others / others.sum(1, keepdim=True).clamp(min=1e-9)
