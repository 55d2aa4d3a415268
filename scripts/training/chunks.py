"""Chunks of training data that `rukh selfplay --training` and lc0 write: lc0's records of version 6, in numpy.

A chunk is a gzip file with the records of a game. `src/selfplay/training/record.rs` describes the record. Trainers
need only part of it, in another form: the *row* of about 1 kB, which `chunk_batches.py` decodes for PyTorch.

The network of `model.py` sees neither the history nor the side to move. A board that a canonical input format has
mirrored therefore trains it as well as the board itself. Only transposed boards are left out, because lc0 does not
transpose their moves.
"""

import gzip
import io
import sys
import tarfile
import zlib
from pathlib import Path

import numpy as np

from policy_map import POLICY_SIZE

VERSION = 6
#: lc0's record of version 6, whose fields follow each other without gaps.
RECORD = np.dtype(
    [
        ("version", "<u4"),
        ("input_format", "<u4"),
        ("probabilities", "<f4", POLICY_SIZE),
        ("planes", "u1", (104, 8)),
        ("castling", "u1", 4),
        ("side_to_move_or_enpassant", "u1"),
        ("rule50", "u1"),
        ("invariance_info", "u1"),
        ("dummy", "u1"),
        ("root_q", "<f4"),
        ("best_q", "<f4"),
        ("root_d", "<f4"),
        ("best_d", "<f4"),
        ("root_m", "<f4"),
        ("best_m", "<f4"),
        ("plies_left", "<f4"),
        ("result_q", "<f4"),
        ("result_d", "<f4"),
        ("played_q", "<f4"),
        ("played_d", "<f4"),
        ("played_m", "<f4"),
        ("orig_q", "<f4"),
        ("orig_d", "<f4"),
        ("orig_m", "<f4"),
        ("visits", "<u4"),
        ("played_idx", "<u2"),
        ("best_idx", "<u2"),
        ("policy_kld", "<f4"),
        ("q_st", "<f4"),
    ]
)
assert RECORD.itemsize == 8356

#: The numbers of the input formats: the first one, that with the squares of castling rooks, and the canonical ones.
CLASSICAL, CASTLING_PLANE = 1, 2
FORMATS = (CLASSICAL, CASTLING_PLANE, 3, 4, 5, 132, 133)
#: Bits of `invariance_info`.
TRANSPOSED, ADJUDICATED = 1 << 2, 1 << 5
#: Planes of the newest board: the rooks of the side to move and of its opponent, and whether it has occurred before.
OUR_ROOKS, THEIR_ROOKS, REPEATED = 3, 9, 12

#: The most legal moves of a position that a game can reach.
MOST_MOVES = 218
#: Means "no file".
NO_FILE = 255
#: A row holds shares of visits in units of 1 divided by this.
SHARE_UNITS = 65535

ROW = np.dtype(
    [
        #: Planes of the newest board. Byte r is rank r, and its highest bit is the file a.
        ("pieces", "u1", (12, 8)),
        #: Files of the rooks that can castle: ours to the h-side and to the a-side, and theirs.
        ("castling", "u1", 4),
        ("rule50", "u1"),
        ("repeated", "u1"),
        #: 1 if the rules did not end the game.
        ("adjudicated", "u1"),
        #: The number of legal moves.
        ("count", "u1"),
        #: The value of the best move by the search, and the result of the game.
        ("best_q", "<f4"),
        ("best_d", "<f4"),
        ("result_q", "<f4"),
        ("result_d", "<f4"),
        ("plies_left", "<f4"),
        #: Policy indices of the legal moves, those with the most visits first, and their shares of the visits.
        ("moves", "<u2", MOST_MOVES),
        ("shares", "<u2", MOST_MOVES),
    ]
)
ROW_SIZE = ROW.itemsize

#: For each byte of a plane, in which the file a is the highest bit: the first and the last file; and for each byte whose
#: lowest bit is the file a, its file.
_FIRST = np.array([NO_FILE] + [8 - byte.bit_length() for byte in range(1, 256)], dtype=np.uint8)
_LAST = np.array([NO_FILE] + [8 - (byte & -byte).bit_length() for byte in range(1, 256)], dtype=np.uint8)
_FILE = np.array([NO_FILE] + [byte.bit_length() - 1 for byte in range(1, 256)], dtype=np.uint8)


def field(raw, name):
    """The columns [B][size of the field] of a byte array [B][ROW_SIZE]; numpy or PyTorch."""
    number, offset = ROW.fields[name]
    return raw[:, offset : offset + number.itemsize]


def read_chunk(source):
    """The records of a chunk: a path, or a file that is open for reading bytes. Raises OSError if it is damaged."""
    with gzip.open(source) as file:
        try:
            content = file.read()
        except (EOFError, zlib.error) as error:
            raise OSError(f"damaged: {error}") from error
    if len(content) % RECORD.itemsize:
        raise OSError(f"{len(content)} bytes are no whole number of records")
    return np.frombuffer(content, dtype=RECORD)


def read_tar(path, skipped=0):
    """Yields the name and the records of each chunk in a tar archive, except the first `skipped` ones. Instead of the
    records of a damaged chunk it yields the error. The archive may still be growing."""
    with tarfile.open(path) as archive:
        for number, member in enumerate(archive):
            if number < skipped:
                continue
            try:
                content = archive.extractfile(member) or io.BytesIO()
                yield member.name, read_chunk(io.BytesIO(content.read()))
            except OSError as error:
                yield member.name, error


def usable(records):
    """For each record, whether the network can learn from it."""
    known = (records["version"] == VERSION) & np.isin(records["input_format"], FORMATS)
    canonical = records["input_format"] > CASTLING_PLANE
    transposed = canonical & (records["invariance_info"] & TRANSPOSED != 0)
    probabilities = records["probabilities"]
    legal = probabilities >= 0
    count = legal.sum(axis=1)
    total = np.where(legal, probabilities, 0).sum(axis=1)
    values = np.stack([records[name] for name in ("best_q", "best_d", "result_q", "result_d", "plies_left")])
    sound = np.isfinite(values).all(axis=0) & (np.abs(total - 1) < 1e-2)
    return known & ~transposed & sound & (count > 0) & (count <= MOST_MOVES)


def rows(records):
    """The rows of usable records, as a byte array [records][ROW_SIZE]."""
    out = np.zeros(len(records), dtype=ROW)
    out["pieces"] = records["planes"][:, :12]
    out["castling"] = _castling_files(records)
    out["rule50"] = np.minimum(records["rule50"], 100)
    out["repeated"] = records["planes"][:, REPEATED, 0] != 0
    out["adjudicated"] = records["invariance_info"] & ADJUDICATED != 0
    for name in ("best_q", "best_d", "result_q", "result_d", "plies_left"):
        out[name] = records[name]
    probabilities = records["probabilities"]
    order = np.argsort(-probabilities, axis=1, kind="stable")[:, :MOST_MOVES]
    shares = np.take_along_axis(probabilities, order, axis=1)
    out["count"] = (shares >= 0).sum(axis=1)
    out["moves"] = np.where(shares >= 0, order, 0)
    out["shares"] = np.rint(np.clip(shares, 0, 1) * SHARE_UNITS)
    return out.view(np.uint8).reshape(len(records), ROW_SIZE)


def _castling_files(records):
    """Files [records][4] of the rooks that can castle: ours to the h-side and to the a-side, and theirs."""
    ours, theirs = records["planes"][:, OUR_ROOKS, 0], records["planes"][:, THEIR_ROOKS, 7]
    # The first format only says that there is a right. It belongs to the outermost rook.
    outermost = np.stack([_LAST[ours], _FIRST[ours], _LAST[theirs], _FIRST[theirs]], axis=1)
    # The record has the a-side first.
    rights = records["castling"][:, [1, 0, 3, 2]]
    classical = (records["input_format"] == CLASSICAL)[:, None]
    return np.where(rights == 0, NO_FILE, np.where(classical, outermost, _FILE[rights]))


class Chunks:
    """The chunks in folders and in the folders below them: files `*.gz`, and members of archives `*.tar`. Every
    `heldout`-th game is held out."""

    record_size = ROW_SIZE
    #: No record is left out because its position is held out: all games share their first positions.
    hashes = None

    def __init__(self, *directories, heldout=20):
        self.directories, self.heldout = [Path(directory) for directory in directories], heldout
        self._seen, self._members = set(), {}
        self._games = 0

    def read_new(self):
        """The rows of the games that are new: training, held out, and the number of games."""
        training, heldout, games = [], [], 0
        for name, found in self._new_chunks():
            if isinstance(found, OSError):
                print(f"cannot read {name}: {found}", file=sys.stderr)
                continue
            good = usable(found)
            self._games += 1
            games += 1
            # The first game is for training.
            (heldout if self._games % self.heldout == 0 else training).append(rows(found[good]))
        return training, heldout, games

    def _paths(self, pattern):
        return sorted(path for directory in self.directories for path in directory.rglob(pattern))

    def _new_chunks(self):
        for path in self._paths("*.gz"):
            if path in self._seen:
                continue
            self._seen.add(path)
            try:
                yield path, read_chunk(path)
            except OSError as error:
                yield path, error
        for path in self._paths("*.tar"):
            done = self._members.get(path, 0)
            try:
                for name, found in read_tar(path, done):
                    done += 1
                    yield f"{path}: {name}", found
            except (OSError, tarfile.TarError) as error:
                yield path, OSError(str(error))
            self._members[path] = done
