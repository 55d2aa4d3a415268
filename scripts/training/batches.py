"""Batches of training records, decoded for PyTorch."""

from dataclasses import dataclass

import torch

from policy_map import POLICY_SIZE
from records import FLAG_NO_END, FLAG_REPEATED, FLAG_SOFT, RULE50_SCALE, UNKNOWN, bytes_of


@dataclass
class Batch:
    """A decoded batch of B records."""

    #: [B][64][17], the planes of records.PLANES
    planes: torch.Tensor
    #: [B][1858] bool
    legal: torch.Tensor
    #: [B][4] policy indices; unused ones are 0 and have no weight
    moves: torch.Tensor
    #: [B][4] centipawns as float; a mate in n moves is +-(32000 - n)
    scores: torch.Tensor
    #: [B][4] bool: which of the moves are labelled
    labelled: torch.Tensor
    #: [B] bool: whether several moves are labelled, each with its score
    soft: torch.Tensor
    #: [B][3] the engine's win, draw, loss
    wdl: torch.Tensor
    #: [B][3] the game's result as win, draw, loss; zeros if unknown
    result: torch.Tensor
    #: [B] bool: whether `result` is known
    result_known: torch.Tensor
    #: [B] plies to the end of the game
    plies_left: torch.Tensor
    #: [B] bool: whether `plies_left` is known
    plies_known: torch.Tensor
    #: [B][1858] shares of a search's visits, which are the policy target instead of the labelled moves; or None
    shares: torch.Tensor = None


def _bits(data):
    """Converts [B][n] bytes to [B][8 n] bits, low bit first."""
    shifts = torch.arange(8, device=data.device, dtype=torch.uint8)
    return ((data[:, :, None] >> shifts) & 1).flatten(1)


def _unsigned(data, count):
    """Converts [B][2 count] bytes, little-endian u16, to int64 [B][count]."""
    pairs = data.view(-1, count, 2).long()
    return pairs[:, :, 0] + 256 * pairs[:, :, 1]


def _signed(data, count):
    value = _unsigned(data, count)
    return torch.where(value >= 32768, value - 65536, value)


def board_planes(pieces, files, rule50, repeated):
    """The planes [B][64][17] of boards: `pieces` [B][64][12], the files [B][4] of the rooks that can castle (ours to the
    h-side and to the a-side, then theirs; 255 for none), the move counter [B], and whether the position is repeated [B]."""
    size = len(pieces)
    # The rooks of the side to move stand on the first rank, the opponent's on the eighth. File 255 matches no square.
    squares = torch.arange(64, device=pieces.device)
    king_side = (squares == files[:, 0:1]) | (squares == files[:, 2:3] + 56)
    queen_side = (squares == files[:, 1:2]) | (squares == files[:, 3:4] + 56)
    rule50 = (rule50.float() / RULE50_SCALE)[:, None, None].expand(size, 64, 1)
    return torch.cat(
        [
            pieces.float(),
            repeated.float()[:, None, None].expand(size, 64, 1),
            queen_side[:, :, None].float(),
            king_side[:, :, None].float(),
            rule50,
            torch.ones_like(rule50),
        ],
        dim=2,
    )


def mirrored_planes(planes):
    """The planes [B][64][n] with mirrored files."""
    size = len(planes)
    return planes.view(size, 8, 8, -1).flip(2).view(size, 64, -1)


def decode(raw, mirror=None, mirrored_index=None):
    """Decodes a uint8 tensor [B][296] on its device.

    `mirror` ([B] bool) selects the rows whose files are mirrored. It needs `mirrored_index`, which is
    policy_map.MIRRORED_INDEX as a tensor on that device. Positions with castling rights stay as they are, because
    castling is not symmetric.
    """
    device = raw.device
    occupied = _bits(bytes_of(raw, "occupied"))
    pairs = bytes_of(raw, "pieces")
    nibbles = torch.stack([pairs & 15, pairs >> 4], dim=2).flatten(1).long()
    # The n-th nibble belongs to the n-th occupied square.
    place = (occupied.long().cumsum(1) - 1).clamp(0, 31)
    piece = nibbles.gather(1, place)
    plane = torch.where(piece >= 8, piece - 2, piece)
    plane = torch.where(occupied == 1, plane, torch.full_like(plane, -1))
    pieces = plane[:, :, None] == torch.arange(12, device=device)

    files = bytes_of(raw, "castling").long()
    flags = bytes_of(raw, "flags")[:, 0].long()
    planes = board_planes(pieces, files, bytes_of(raw, "rule50")[:, 0], (flags & FLAG_REPEATED) != 0)

    legal = _bits(torch.cat([bytes_of(raw, "legal"), bytes_of(raw, "legal_tail")], dim=1))[:, :POLICY_SIZE] == 1
    moves = _unsigned(bytes_of(raw, "moves"), 4)
    labelled = (torch.arange(4, device=device) < bytes_of(raw, "labels").long()) & (moves < POLICY_SIZE)
    moves = torch.where(labelled, moves, torch.zeros_like(moves))

    if mirror is not None:
        mirror = mirror & (files == UNKNOWN).all(1)
        planes = torch.where(mirror[:, None, None], mirrored_planes(planes), planes)
        legal = torch.where(mirror[:, None], legal[:, mirrored_index], legal)
        moves = torch.where(mirror[:, None], mirrored_index[moves], moves)

    result = bytes_of(raw, "result")[:, 0].long()
    plies_left = _unsigned(bytes_of(raw, "plies_left"), 1)[:, 0]
    win, loss = (_unsigned(bytes_of(raw, name), 1)[:, 0].float() / 1000.0 for name in ("win", "loss"))
    wdl = torch.stack([win, 1.0 - win - loss, loss], dim=1)
    return Batch(
        planes=planes,
        legal=legal,
        moves=moves,
        scores=_signed(bytes_of(raw, "scores"), 4).float(),
        labelled=labelled,
        soft=(flags & FLAG_SOFT) != 0,
        wdl=wdl,
        result=torch.stack([result == 2, result == 1, result == 0], dim=1).float(),
        result_known=result <= 2,
        plies_left=plies_left.float(),
        plies_known=((flags & FLAG_NO_END) == 0) & (plies_left > 0),
    )
