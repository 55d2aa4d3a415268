"""Training data that grows during training: files are read as they appear, and kept in the memory of the device.

A thread looks for new files and prepares their records. The files are shards of labelled positions (`train-*.bin`,
`heldout-*.bin`; `*.part` files are not finished), or the chunks of games (`chunks.py`). The trainer takes the prepared
records between two steps. The files that one scan finds form a generation. Newer generations are drawn more often until
the records of all generations have been seen about equally often.
"""

import queue
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from records import RECORD_SIZE, plausible, position_hash, read_shard

#: Bounds of the rate at which records of a generation are drawn, relative to the average.
RATE_BOUNDS = (0.25, 4.0)


@dataclass
class Generation:
    """The records of the shards that one scan has found."""

    #: uint8 [records][size of a record]
    training: np.ndarray
    heldout: np.ndarray
    #: Indices of earlier training records whose positions are now held out.
    removed: np.ndarray
    shards: int


class Shards:
    """The shards of labelled positions in folders."""

    record_size = RECORD_SIZE

    def __init__(self, *directories):
        self.directories, self._seen = [Path(directory) for directory in directories], set()

    def read_new(self):
        """The records of the files that are new: training, held out, and the number of files."""
        training, heldout = self._read_new("train-*.bin"), self._read_new("heldout-*.bin")
        return training, heldout, len(training) + len(heldout)

    @staticmethod
    def hashes(raw):
        """A number for each record. A training record with the number of a record that is held out is left out."""
        return position_hash(raw)

    def _read_new(self, pattern):
        arrays = []
        for path in sorted(path for directory in self.directories for path in directory.glob(pattern)):
            if path in self._seen:
                continue
            self._seen.add(path)
            try:
                raw = read_shard(path)
            except OSError as error:
                print(f"cannot read {path}: {error}", file=sys.stderr)
                continue
            good = plausible(raw)
            if not good.all():
                print(f"{path.name}: {np.count_nonzero(~good)} of {len(raw)} records are damaged and left out", file=sys.stderr)
            arrays.append(raw[good])
        return arrays


class ShardReader(threading.Thread):
    """A thread that puts a `Generation` into the queue `ready` whenever there are new files. `source` has the methods of
    `Shards`."""

    def __init__(self, source, interval_s=20.0):
        super().__init__(name="shards", daemon=True)
        self.source, self.interval_s = source, interval_s
        self.ready = queue.Queue()
        self.stopped = threading.Event()
        self._training_hashes = np.zeros(0, dtype=np.uint64)
        self._heldout_hashes = np.zeros(0, dtype=np.uint64)

    def run(self):
        while not self.stopped.is_set():
            generation = self.look()
            if generation is not None:
                self.ready.put(generation)
            self.stopped.wait(self.interval_s)

    def look(self):
        """Reads all new files; returns None if there are none."""
        training, heldout, shards = self.source.read_new()
        if not shards:
            return None
        training, heldout = self._join(training), self._join(heldout)

        if self.source.hashes is None:
            return Generation(training, heldout, np.zeros(0, dtype=np.int64), shards)

        new_heldout = np.unique(self.source.hashes(heldout))
        removed = np.nonzero(_contains(new_heldout, self._training_hashes))[0]
        self._heldout_hashes = np.union1d(self._heldout_hashes, new_heldout)
        hashes = self.source.hashes(training)
        kept = ~_contains(self._heldout_hashes, hashes)
        self._training_hashes = np.concatenate([self._training_hashes, hashes[kept]])
        return Generation(training[kept], heldout, removed, shards)

    def _join(self, arrays):
        return np.concatenate(arrays) if arrays else np.zeros((0, self.source.record_size), dtype=np.uint8)


def _contains(ordered, values):
    """A boolean for each of `values`: whether the sorted array `ordered` contains it."""
    if not len(ordered) or not len(values):
        return np.zeros(len(values), dtype=bool)
    place = np.searchsorted(ordered, values).clip(0, len(ordered) - 1)
    return ordered[place] == values


class DeviceData:
    """The training records in the memory of a device, and random batches of them."""

    def __init__(self, device, capacity, heldout_limit, record_size=RECORD_SIZE):
        self.device, self.capacity, self.heldout_limit = device, capacity, heldout_limit
        self.records = torch.empty((capacity, record_size), dtype=torch.uint8, device=device)
        self.count = 0
        self.heldout = torch.empty((0, record_size), dtype=torch.uint8, device=device)
        # By generation: index of its first record, number of records, number of draws.
        self.starts, self.sizes, self.draws = [], [], []

    def add(self, generation):
        if len(generation.removed) and self.count:
            removed = torch.from_numpy(generation.removed[generation.removed < self.count]).to(self.device)
            # Overwrites removed records with copies of others, so that the array has no gaps.
            kept = torch.ones(self.count, dtype=torch.bool, device=self.device)
            kept[removed] = False
            other = torch.randint(self.count, removed.shape, device=self.device)
            other = torch.where(kept[other], other, kept.int().argmax())
            self.records[removed] = self.records[other]
        room = self.capacity - self.count
        training = generation.training[:room]
        if len(training) < len(generation.training):
            print(f"no room for {len(generation.training) - len(training)} records: raise --capacity", file=sys.stderr)
        if len(training):
            self.records[self.count : self.count + len(training)] = torch.from_numpy(training).to(self.device)
            self.starts.append(self.count)
            self.sizes.append(len(training))
            self.draws.append(0.0)
            self.count += len(training)
        room = self.heldout_limit - len(self.heldout)
        if room > 0 and len(generation.heldout):
            more = torch.from_numpy(generation.heldout[:room].copy()).to(self.device)
            self.heldout = torch.cat([self.heldout, more])
        self.weigh()

    def weigh(self):
        """Recomputes the rate at which each generation is drawn."""
        sizes, draws = np.array(self.sizes, dtype=np.float64), np.array(self.draws)
        if not len(sizes):
            return
        rates = 1.0 / (1.0 + draws / sizes)
        rates = (rates / np.average(rates, weights=sizes)).clip(*RATE_BOUNDS)
        self.shares = sizes * rates / (sizes * rates).sum()
        double = {"dtype": torch.float64, "device": self.device}
        bounds = np.cumsum(self.shares)
        # The last bound exceeds every random number, despite rounding.
        bounds[-1] = 2.0
        self._bounds = torch.tensor(bounds, **double)
        self._starts = torch.tensor(self.starts, device=self.device)
        self._sizes = torch.tensor(self.sizes, **double)

    def batch(self, size):
        """Random records [size][size of a record]."""
        place = torch.rand((2, size), dtype=torch.float64, device=self.device)
        generation = torch.searchsorted(self._bounds, place[0], right=True)
        index = self._starts[generation] + (place[1] * self._sizes[generation]).long()
        for i, share in enumerate(self.shares):
            self.draws[i] += size * share
        return self.records[index]

    def epochs(self):
        """The average number of draws of a record."""
        return sum(self.draws) / max(self.count, 1)
