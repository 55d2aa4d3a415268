"""The 296-byte training record, in numpy and, decoded, in torch.

All is seen from the side to move (the board is flipped vertically when Black moves; files are never mirrored):

| offset | type | what |
|---|---|---|
| 0 | u64 | occupied squares, bit = rank * 8 + file |
| 8 | 16 bytes | pieces of those squares in bit order, low nibble first: 0-5 = P N B R Q K, +8 when theirs |
| 24 | 4 x u8 | castling rook's file or 255: our king side, our queen side, their king side, their queen side |
| 28 | u8 | plies since the last capture or pawn move, at most 100 |
| 29 | u8 | en passant file or 255 |
| 30 | u8 | game result for the side to move: 0 loss, 1 draw, 2 win, 255 unknown |
| 31 | u8 | flags, see below |
| 32 | u16 | plies to the end of the game |
| 34 | i16 | the engine's score in centipawns; mate in n moves is +-(32000 - n) |
| 36 | u16, u16 | the engine's win and loss, permille |
| 40 | u8 | labelled moves k, 1 to 4 |
| 41 | u8 | 0 |
| 42 | u32 | game number |
| 46 | 4 x u16 | labelled moves as policy indices, best first, 65535 unused |
| 54 | 4 x i16 | their scores, as the score above |
| 62 | u16 | bits 0 and 1: whether policy indices 1856 and 1857 are legal |
| 64 | 232 bytes | legal moves: bit i % 8 of byte i / 8 for policy index i |
"""

from dataclasses import dataclass

import numpy as np
import torch

from policy_map import POLICY_SIZE

RECORD_SIZE = 296
MAXIMUM_LABELS = 4

FLAG_CHESS960 = 1
#: The game was adjudicated: its length means nothing.
FLAG_ADJUDICATED = 2
#: Several moves are labelled, each with its score.
FLAG_SOFT_POLICY = 4
#: The position has occurred before in its game.
FLAG_REPEATED = 8

UNKNOWN = 255
#: A score beyond this is a mate.
MATE_THRESHOLD = 31000

RECORD = np.dtype(
    {
        "names": [
            "occupied", "pieces", "castling", "rule50", "en_passant", "result", "flags", "plies_left", "score",
            "win", "loss", "labels", "game", "moves", "scores", "legal_tail", "legal",
        ],
        "formats": [
            "<u8", ("u1", 16), ("u1", 4), "u1", "u1", "u1", "u1", "<u2", "<i2",
            "<u2", "<u2", "u1", "<u4", ("<u2", 4), ("<i2", 4), "<u2", ("u1", 232),
        ],
        "offsets": [0, 8, 24, 28, 29, 30, 31, 32, 34, 36, 38, 40, 42, 46, 54, 62, 64],
        "itemsize": RECORD_SIZE,
    }
)  # fmt: skip

#: Input planes of the network that a record fills, in the order in which `Batch.planes` has them: our and their
#: pieces, whether the position has occurred before, castling rooks on the queen's and on the king's side, plies since
#: the last capture or pawn move, ones.
PLANES = [*range(13), 104, 105, 109, 111]
#: `Batch.planes` holds plane 109 divided by this.
RULE50_SCALE = 100.0


def read_shard(path):
    """A shard as a uint8 array [records][296]. A tail that is no whole record is left out."""
    raw = np.fromfile(path, dtype=np.uint8)
    return raw[: raw.size // RECORD_SIZE * RECORD_SIZE].reshape(-1, RECORD_SIZE)


def plausible(raw):
    """Which rows of a [records][296] array can be trained on: labels within bounds, kings on the board."""
    records = raw.reshape(-1).view(RECORD)
    first = records["moves"][:, 0].astype(np.int64)
    in_range = (first < POLICY_SIZE) & (records["labels"] >= 1) & (records["labels"] <= MAXIMUM_LABELS)
    legal = np.concatenate([records["legal"], records["legal_tail"].astype(np.uint8)[:, None]], axis=1)
    safe = np.where(in_range, first, 0)
    bit = legal[np.arange(len(records)), safe // 8] >> (safe % 8) & 1
    wdl = records["win"].astype(np.int64) + records["loss"] <= 1000
    return in_range & (bit == 1) & wdl & (records["rule50"] <= 100)


def position_hash(raw):
    """A 64-bit hash of each row's position: pieces, castling and en passant, without the move counter."""
    words = raw[:, :24].copy().view("<u8").astype(np.uint64)
    rest = np.zeros((len(raw), 8), dtype=np.uint8)
    rest[:, :4] = raw[:, 24:28]
    rest[:, 4] = raw[:, 29]
    words = np.concatenate([words, rest.view("<u8")], axis=1)
    hashed = np.zeros(len(raw), dtype=np.uint64)
    for column in words.T:
        hashed ^= column
        # SplitMix64's finaliser.
        hashed += np.uint64(0x9E3779B97F4A7C15)
        hashed = (hashed ^ (hashed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        hashed = (hashed ^ (hashed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        hashed ^= hashed >> np.uint64(31)
    return hashed


@dataclass
class Batch:
    """A decoded batch of B records."""

    #: [B][64][17], see PLANES
    planes: torch.Tensor
    #: [B][1858] bool
    legal: torch.Tensor
    #: [B][4] policy indices; unused ones are 0 and have no weight
    moves: torch.Tensor
    #: [B][4] centipawns as float; mates as in the record
    scores: torch.Tensor
    #: [B][4] bool: which of the moves are labelled
    labelled: torch.Tensor
    #: [B] bool: whether the scores of several moves are to be used
    soft: torch.Tensor
    #: [B][3] the engine's win, draw, loss
    wdl: torch.Tensor
    #: [B][3] the game's result as win, draw, loss; zeros if unknown
    result: torch.Tensor
    #: [B] bool
    result_known: torch.Tensor
    #: [B] plies to the end of the game
    plies_left: torch.Tensor
    #: [B] bool: whether that means anything
    plies_known: torch.Tensor


def _bits(data):
    """[B][n] bytes to [B][8 n] bits, low bit first."""
    shifts = torch.arange(8, device=data.device, dtype=torch.uint8)
    return ((data[:, :, None] >> shifts) & 1).flatten(1)


def _unsigned(data, count):
    """[B][2 count] bytes to [B][count] little-endian u16, as int64."""
    pairs = data.view(-1, count, 2).long()
    return pairs[:, :, 0] + 256 * pairs[:, :, 1]


def _signed(data, count):
    value = _unsigned(data, count)
    return torch.where(value >= 32768, value - 65536, value)


def decode(raw, mirror=None, mirrored_index=None):
    """Decodes a uint8 tensor [B][296], on its device.

    `mirror`, [B] bool, asks for the files to be mirrored; positions with castling rights stay as they are, as
    castling is not symmetric. It needs policy_map.MIRRORED_INDEX as a tensor there.
    """
    device = raw.device
    size = raw.shape[0]
    occupied = _bits(raw[:, 0:8])
    nibbles = torch.stack([raw[:, 8:24] & 15, raw[:, 8:24] >> 4], dim=2).flatten(1).long()
    # The n-th occupied square has the n-th nibble.
    place = (occupied.long().cumsum(1) - 1).clamp(0, 31)
    piece = nibbles.gather(1, place)
    plane = torch.where(piece >= 8, piece - 2, piece)
    plane = torch.where(occupied == 1, plane, torch.full_like(plane, -1))
    pieces = plane[:, :, None] == torch.arange(12, device=device)

    # Our rooks stand on the first rank, theirs on the eighth; no file 255 is on any square.
    files = raw[:, 24:28].long()
    squares = torch.arange(64, device=device)
    king_side = (squares == files[:, 0:1]) | (squares == files[:, 2:3] + 56)
    queen_side = (squares == files[:, 1:2]) | (squares == files[:, 3:4] + 56)
    rule50 = (raw[:, 28].float() / RULE50_SCALE)[:, None, None].expand(size, 64, 1)
    flags = raw[:, 31].long()
    repeated = ((flags & FLAG_REPEATED) != 0).float()[:, None, None].expand(size, 64, 1)
    planes = torch.cat(
        [
            pieces.float(),
            repeated,
            queen_side[:, :, None].float(),
            king_side[:, :, None].float(),
            rule50,
            torch.ones_like(rule50),
        ],
        dim=2,
    )

    legal = _bits(torch.cat([raw[:, 64:296], raw[:, 62:63]], dim=1))[:, :POLICY_SIZE] == 1
    moves = _unsigned(raw[:, 46:54], 4)
    labelled = (torch.arange(4, device=device) < raw[:, 40:41].long()) & (moves < POLICY_SIZE)
    moves = torch.where(labelled, moves, torch.zeros_like(moves))

    if mirror is not None:
        mirror = mirror & (files == UNKNOWN).all(1)
        flipped = planes.view(size, 8, 8, -1).flip(2).view(size, 64, -1)
        planes = torch.where(mirror[:, None, None], flipped, planes)
        legal = torch.where(mirror[:, None], legal[:, mirrored_index], legal)
        moves = torch.where(mirror[:, None], mirrored_index[moves], moves)

    result = raw[:, 30].long()
    plies_left = _unsigned(raw[:, 32:34], 1)[:, 0]
    win_loss = _unsigned(raw[:, 36:40], 2).float() / 1000.0
    wdl = torch.stack([win_loss[:, 0], 1.0 - win_loss[:, 0] - win_loss[:, 1], win_loss[:, 1]], dim=1)
    return Batch(
        planes=planes,
        legal=legal,
        moves=moves,
        scores=_signed(raw[:, 54:62], 4).float(),
        labelled=labelled,
        soft=(flags & FLAG_SOFT_POLICY) != 0,
        wdl=wdl,
        result=torch.stack([result == 2, result == 1, result == 0], dim=1).float(),
        result_known=result <= 2,
        plies_left=plies_left.float(),
        plies_known=((flags & FLAG_ADJUDICATED) == 0) & (plies_left > 0),
    )
