"""The training record of 296 bytes, in numpy. `batches.py` decodes records for PyTorch.

`labeler/record_layout.json` lists the fields and the flags; `labeler/src/layout.rs` says what each field means, and a
test there keeps the file up to date.
"""

import json
from pathlib import Path

import numpy as np

from policy_map import POLICY_SIZE

_LAYOUT = json.loads(Path(__file__).with_name("labeler").joinpath("record_layout.json").read_text(encoding="utf-8"))

RECORD_SIZE = _LAYOUT["bytes"]

#: The game was adjudicated or broken off, so that its length is unknown.
FLAG_NO_END = _LAYOUT["flags"]["no_end"]
#: The record has more than one labelled move.
FLAG_SOFT = _LAYOUT["flags"]["soft"]
#: The position has occurred before in its game. Only the trainer sets this flag, on copies in memory.
FLAG_REPEATED = _LAYOUT["flags"]["repeated"]

#: Means "no file" in a field that holds a file, and "unknown" in `result`.
UNKNOWN = 255
#: Scores above this, in centipawns, are mates.
MATE_THRESHOLD = 31000


def _format(field):
    """The numpy type of a field: `u16` becomes `<u2`."""
    kind, bits = field["type"][0], int(field["type"][1:])
    number = f"<{kind}{bits // 8}"
    return number if field["count"] == 1 else (number, field["count"])


RECORD = np.dtype(
    {
        "names": [field["name"] for field in _LAYOUT["fields"]],
        "formats": [_format(field) for field in _LAYOUT["fields"]],
        "offsets": [field["offset"] for field in _LAYOUT["fields"]],
        "itemsize": RECORD_SIZE,
    }
)

#: The largest number of labelled moves in a record.
MAXIMUM_LABELS = RECORD["moves"].shape[0]

#: Input planes of the network that a record fills, in the order of `batches.Batch.planes`: the pieces of the side to
#: move and of its opponent, whether the position has occurred before, castling rooks on the queen's and on the king's
#: side, plies since the last capture or pawn move, and ones.
PLANES = [*range(13), 104, 105, 109, 111]
#: `batches.Batch.planes` holds plane 109 divided by this.
RULE50_SCALE = 100.0


def bytes_of(raw, name):
    """The columns [B][size of the field] of a byte array [B][296] that hold a field; numpy or PyTorch."""
    number, offset = RECORD.fields[name]
    return raw[:, offset : offset + number.itemsize]


def read_shard(path):
    """A shard as a uint8 array [records][296], without an incomplete record at its end."""
    raw = np.fromfile(path, dtype=np.uint8)
    return raw[: raw.size // RECORD_SIZE * RECORD_SIZE].reshape(-1, RECORD_SIZE)


def plausible(raw):
    """For each row of an array [records][296], whether its best move is legal and its numbers are in range."""
    records = raw.reshape(-1).view(RECORD)
    first = records["moves"][:, 0].astype(np.int64)
    in_range = (first < POLICY_SIZE) & (records["labels"] >= 1) & (records["labels"] <= MAXIMUM_LABELS)
    legal = np.concatenate([records["legal"], records["legal_tail"].astype(np.uint8)[:, None]], axis=1)
    safe = np.where(in_range, first, 0)
    bit = legal[np.arange(len(records)), safe // 8] >> (safe % 8) & 1
    wdl = records["win"].astype(np.int64) + records["loss"] <= 1000
    return in_range & (bit == 1) & wdl & (records["rule50"] <= 100)


def position_hash(raw):
    """A 64-bit hash of each row's pieces, castling rights and en passant file, without the rule-50 counter."""
    pieces = np.concatenate([bytes_of(raw, "occupied"), bytes_of(raw, "pieces")], axis=1)
    words = pieces.view("<u8").astype(np.uint64)
    rest = np.zeros((len(raw), 8), dtype=np.uint8)
    rest[:, :4] = bytes_of(raw, "castling")
    rest[:, 4:5] = bytes_of(raw, "en_passant")
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
