"""The training loss, and the metrics on held-out positions."""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import nn

import repetition
from model import MOVES_LEFT_UNIT, plies_left
from policy_map import INDEX_OF_LOGIT, LOGIT_OF_INDEX
from records import MATE_THRESHOLD

#: Centipawns over which the odds of winning change by a factor of e. The narrow scale is Stockfish's own, on which 100
#: means an expected score of 0.75. On the wide scale, won positions still differ from each other.
NARROW_SCALE = 91.0
WIDE_SCALE = 360.0
#: The score of a mate in 0 moves, and the deduction for each move to the mate, both in centipawns.
MATE_SCORE = 1600.0
MATE_STEP = 20.0
#: Difference in expected score that makes a move less likely by a factor of e.
SOFT_TEMPERATURE = 0.04
#: Share of the policy target that the best move gets. The rest goes to the labelled moves by a softmax of their scores.
SOFT_BEST = 0.25

#: Logit of illegal moves.
MASKED = -1e4
#: Error in units of MOVES_LEFT_UNIT plies beyond which the moves-left loss grows linearly.
HUBER_DELTA = 0.5


def _weight(default, text):
    """A field of `Weights`, with the help of its flag."""
    return field(default=default, metadata={"help": text})


@dataclass
class Weights:
    """Weights of the parts of the loss, and shares in its targets."""

    policy: float = _weight(1.0, "weight of the policy in the loss")
    value: float = _weight(1.0, "weight of win, draw and loss in the loss")
    moves_left: float = _weight(0.15, "weight of the moves left in the loss")
    smoothing: float = _weight(0.02, "share of the policy's target that is spread over all legal moves")
    result: float = _weight(0.25, "share of the game's result in the value's target, if it is known")
    teacher: float = _weight(0.5, "share of the teacher in the targets of policy and value, if there is one")


def expected_score(centipawns):
    """Expected scores, 0 to 1, from the scores of records."""
    magnitude = centipawns.abs()
    mate = MATE_SCORE - MATE_STEP * (32000.0 - magnitude).clamp(0, 30)
    magnitude = torch.where(magnitude > MATE_THRESHOLD, mate, magnitude.clamp(max=MATE_SCORE - 30 * MATE_STEP))
    score = torch.copysign(magnitude, centipawns)
    return (torch.sigmoid(score / NARROW_SCALE) + torch.sigmoid(score / WIDE_SCALE)) / 2


def label_weights(batch):
    """The share [B][4] of each labelled move in the policy target; each row sums to 1."""
    best = torch.zeros_like(batch.moves[:, 0])
    return _weights(expected_score(batch.scores), best, batch.labelled, batch.soft)


def _weights(scores, best, labelled, soft):
    """Does the same as `label_weights`, but from expected scores [B][4] and the index [B] of the best move."""
    best = F.one_hot(best, scores.shape[1]).to(scores.dtype)
    spread = torch.softmax((scores / SOFT_TEMPERATURE).masked_fill(~labelled, float("-inf")), dim=1)
    return torch.where(soft[:, None], SOFT_BEST * best + (1 - SOFT_BEST) * spread, best)


def value_target(batch, result_share):
    """The target [B][3] of the value head: win, draw, loss."""
    share = (batch.result_known.float() * result_share)[:, None]
    return (1 - share) * batch.wdl + share * batch.result


class PolicyMap(nn.Module):
    """Maps policy indices to the 4288 attention logits, so that the logits need not be gathered."""

    def __init__(self):
        super().__init__()
        self.register_buffer("index_of_logit", torch.from_numpy(INDEX_OF_LOGIT), persistent=False)
        self.register_buffer("logit_of_index", torch.from_numpy(LOGIT_OF_INDEX), persistent=False)

    def legal(self, batch):
        """A mask [B][4288] of the logits of legal moves."""
        return F.pad(batch.legal, (0, 1))[:, self.index_of_logit]

    def shares(self, batch):
        """The shares of the visits [B][4288], by logit."""
        return F.pad(batch.shares, (0, 1))[:, self.index_of_logit]

    def places(self, batch):
        """The places [B][4] of the labelled moves among the logits."""
        return self.logit_of_index[batch.moves]

    def log_probabilities(self, logits, legal):
        """Log probabilities [B][4288] of the legal moves; those of other logits are very low."""
        return torch.log_softmax(logits.float().masked_fill(~legal, MASKED), dim=1)


class Loss(nn.Module):
    """The loss of a network. `forward(batch, repeats)` returns the total loss, and a tensor [4] of the total and its
    parts (policy, value, moves left). All are means over the batch. The last `repeats` positions are copies of the
    first ones that are marked as repeated (`repetition.show_again`). `teacher` is another network, or None."""

    def __init__(self, network, weights, teacher=None):
        super().__init__()
        self.network, self.weights, self.teacher, self.policy_map = network, weights, teacher, PolicyMap()

    def forward(self, batch, repeats=0):
        weights = self.weights
        logits, value, moves_left = self.network(batch.planes)

        legal = self.policy_map.legal(batch)
        log_probabilities = self.policy_map.log_probabilities(logits, legal)
        labels = log_probabilities.gather(1, self.policy_map.places(batch))
        uniform = (log_probabilities * legal).sum(1) / legal.sum(1).clamp(min=1)
        if batch.shares is None:
            sharp = (label_weights(batch) * labels).sum(1)
        else:
            sharp = (self.policy_map.shares(batch) * log_probabilities).sum(1)
        if repeats:
            sharp = torch.cat([sharp[:-repeats], self._again(batch, log_probabilities, labels, repeats)])
        policy = -((1 - weights.smoothing) * sharp + weights.smoothing * uniform)

        target = value_target(batch, weights.result)
        log_value = F.log_softmax(value.float(), dim=1)
        if self.teacher is not None:
            wanted, wanted_value = self._taught(batch, legal)
            policy = torch.lerp(policy, -(wanted * log_probabilities).sum(1), weights.teacher)
            target = torch.lerp(target, wanted_value, weights.teacher)
        policy = policy.mean()
        value = -(target * log_value).sum(1).mean()

        # The loss is taken before the ReLU, so that no unit can die; the target is never negative.
        plies = batch.plies_left / MOVES_LEFT_UNIT
        plies = F.huber_loss(moves_left.float(), plies, reduction="none", delta=HUBER_DELTA)
        known = batch.plies_known.float()
        plies = (plies * known).sum() / known.sum().clamp(min=1)

        total = weights.policy * policy + weights.value * value + weights.moves_left * plies
        return total, torch.stack([total, policy, value, plies]).detach()

    @torch.no_grad()
    def _taught(self, batch, legal):
        """The teacher's probabilities of the logits [B][4288], and of win, draw and loss [B][3]."""
        logits, value, _ = self.teacher(batch.planes)
        return self.policy_map.log_probabilities(logits, legal).exp(), F.softmax(value.float(), dim=1)

    def _again(self, batch, log_probabilities, labels, repeats):
        """Mean log probabilities [repeats] of the target moves, in the positions that have occurred before."""
        first, again = log_probabilities[:repeats].detach(), log_probabilities[-repeats:]
        played = first.argmax(1)
        labelled, soft = batch.labelled[-repeats:], batch.soft[-repeats:]
        is_played = labelled & (self.policy_map.places(batch)[-repeats:] == played[:, None])
        scores = expected_score(batch.scores[-repeats:])
        other = repetition.scores_again(scores, is_played)
        best = other.masked_fill(~labelled, -1.0).argmax(1)
        by_label = (_weights(other, best, labelled, soft) * labels[-repeats:]).sum(1)
        # If the only labelled move was played before, the second-best move is unknown. Then the target is what the
        # network itself prefers among the other moves.
        lacks_label = ~soft & is_played[:, 0] & (scores[:, 0] > repetition.DRAW_AVOIDING_SCORE)
        return torch.where(lacks_label, (repetition.without(first, played) * again).sum(1), by_label)


class Metrics:
    """Sums over held-out positions, without label smoothing and without the games' results."""

    # `same_again` is measured in positions whose expected score is above `repetition.DRAW_AVOIDING_SCORE`: the share in
    # which the network prefers the same move when the position is marked as repeated.
    NAMES = ("top1", "policy_cross_entropy", "wdl_cross_entropy", "q_error", "moves_left_error", "same_again")

    def __init__(self):
        self.positions, self.plies_known, self.won = 0, 0.0, 0
        self.sums = dict.fromkeys(self.NAMES, 0.0)

    @torch.no_grad()
    def add(self, outputs, batch, policy_map, logits_again):
        """Adds a batch: the network's outputs, and its logits [B][4288] for the same positions marked as repeated."""
        logits, value, moves_left = outputs
        legal = policy_map.legal(batch)
        log_probabilities = policy_map.log_probabilities(logits, legal)
        best = policy_map.places(batch)[:, :1]
        self.positions += len(best)
        first = log_probabilities.argmax(1)
        self.sums["top1"] += (first == best[:, 0]).sum().item()
        won = expected_score(batch.scores[:, 0]) > repetition.DRAW_AVOIDING_SCORE
        self.won += won.sum().item()
        again = policy_map.log_probabilities(logits_again, legal).argmax(1)
        self.sums["same_again"] += ((first == again) & won).sum().item()
        self.sums["policy_cross_entropy"] += -log_probabilities.gather(1, best).sum().item()
        log_wdl = F.log_softmax(value.float(), dim=1)
        self.sums["wdl_cross_entropy"] += -(batch.wdl * log_wdl).sum().item()
        wdl = log_wdl.exp()
        q, target = wdl[:, 0] - wdl[:, 2], batch.wdl[:, 0] - batch.wdl[:, 2]
        self.sums["q_error"] += (q - target).abs().sum().item()
        known = batch.plies_known.float()
        self.plies_known += known.sum().item()
        error = (plies_left(moves_left.float()) - batch.plies_left).abs()
        self.sums["moves_left_error"] += (error * known).sum().item()

    def means(self):
        if not self.positions:
            return {}
        means = {name: total / self.positions for name, total in self.sums.items()}
        means["moves_left_error"] = self.sums["moves_left_error"] / max(self.plies_known, 1.0)
        means["same_again"] = self.sums["same_again"] / max(self.won, 1)
        return means
