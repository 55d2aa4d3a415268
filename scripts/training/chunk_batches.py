"""Batches of rows of training data (`chunks.py`), decoded for PyTorch."""

import torch
import torch.nn.functional as F

from batches import Batch, board_planes, mirrored_planes
from chunks import MOST_MOVES, NO_FILE, SHARE_UNITS, field
from policy_map import POLICY_SIZE


def decode(raw, mirror=None, mirrored_index=None):
    """Decodes a uint8 tensor [B][ROW_SIZE] on its device. The arguments are those of `batches.decode`."""
    size, device = len(raw), raw.device
    planes = field(raw, "pieces").view(size, 12, 8)
    # The highest bit of a byte is the file a.
    shifts = torch.arange(7, -1, -1, device=device, dtype=torch.uint8)
    pieces = ((planes[:, :, :, None] >> shifts) & 1).view(size, 12, 64).transpose(1, 2)
    files = field(raw, "castling").long()
    planes = board_planes(pieces, files, field(raw, "rule50")[:, 0], field(raw, "repeated")[:, 0] != 0)

    is_move = torch.arange(MOST_MOVES, device=device) < field(raw, "count").long()
    moves = _numbers(raw, "moves", torch.uint16).long()
    if mirror is not None:
        mirror = mirror & (files == NO_FILE).all(1)
        planes = torch.where(mirror[:, None, None], mirrored_planes(planes), planes)
        moves = torch.where(mirror[:, None], mirrored_index[moves], moves)
    shares = _numbers(raw, "shares", torch.uint16).float() / SHARE_UNITS
    shares = torch.where(is_move, shares, torch.zeros_like(shares))
    shares = shares / shares.sum(1, keepdim=True)
    # Unused places go to an index of their own.
    place = torch.where(is_move, moves, torch.full_like(moves, POLICY_SIZE))
    empty = torch.zeros(size, POLICY_SIZE + 1, device=device)
    legal = empty.bool().scatter(1, place, is_move)[:, :POLICY_SIZE]
    by_index = empty.scatter(1, place, shares)[:, :POLICY_SIZE]

    q, d, result_q, result_d, plies_left = (
        _numbers(raw, name, torch.float32)[:, 0] for name in ("best_q", "best_d", "result_q", "result_d", "plies_left")
    )
    labelled = torch.zeros(size, 4, dtype=torch.bool, device=device)
    labelled[:, 0] = True
    return Batch(
        planes=planes,
        legal=legal,
        moves=F.pad(moves[:, :1], (0, 3)),
        scores=torch.zeros(size, 4, device=device),
        labelled=labelled,
        soft=torch.zeros(size, dtype=torch.bool, device=device),
        wdl=_wdl(q, d),
        result=_wdl(result_q, result_d),
        result_known=torch.ones(size, dtype=torch.bool, device=device),
        plies_left=plies_left,
        plies_known=field(raw, "adjudicated")[:, 0] == 0,
        shares=by_index,
    )


def _numbers(raw, name, kind):
    """The numbers [B][count] of a field."""
    return field(raw, name).contiguous().view(kind)


def _wdl(q, d):
    """Probabilities [B][3] of a win, a draw and a loss."""
    return torch.stack([(1 + q - d) / 2, d, (1 - q - d) / 2], dim=1).clamp(min=0)
