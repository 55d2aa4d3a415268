"""What threads write to global memory without an order between them, and another thread's uses of it.

Only arrays of results are watched, because nothing else is written but counters, which atomic instructions change. For
every two bytes there is a mark of the last write: the time, times 2^20, plus the thread's number and one. Time goes on with
each barrier and each fence. A use by another thread is ordered after the write

* in the same block if the block has passed a barrier in between,
* in another block only by what the kernels do to wait for each other: every thread of the writing block executes a fence
  (membar) after its writes, the block passes a barrier, and a thread of it changes a counter atomically; a thread of the
  other block sees the change by a volatile load or an atomic instruction, that block passes a barrier, and the thread that
  uses what was written executes a fence.

Accesses of single bytes are not watched, nor writes to what another thread has read before: LayerNorm in place reads rows
of other threads in lanes that have none of their own, and does not use them.
"""
import numpy as np

from cases import Fault

Array = np.ndarray

SHIFT = 20
THREAD = (1 << SHIFT) - 1


class Order:
    """The marks of a launch."""

    def __init__(self, size: int, block: Array) -> None:
        if len(block) >= THREAD:
            raise Fault("the launch has too many threads for the marks of races")
        self.written = np.zeros(size // 2, np.int64)
        self.block = block
        self.time = 1
        self.barrier = np.zeros(int(block[-1]) + 1, np.int64)  # when each block passed its last barrier
        self.fence = np.zeros(len(block), np.int64)  # when each thread executed its last fence

        # Of each block: before this time, all its writes had been followed by fences and a barrier.
        self.published = np.zeros(len(self.barrier), np.int64)
        # By counter: before which time each block's writes are known to a thread that sees the counter.
        self.released: dict[int, Array] = {}
        # The same for each block, of what one of its threads has seen, and after the next barrier.
        self.seen = np.zeros((len(self.barrier), len(self.barrier)), np.int64)
        self.arrived = self.seen.copy()
        # The same for each thread after its fence; it has no elements until a counter is changed.
        self.acquired = np.zeros((len(block), 0), np.int64)

    def pass_barrier(self, blocks: Array) -> None:
        """These blocks pass a barrier."""
        self.time += 1
        self.barrier[blocks] = self.time
        self.published[blocks] = self.fence.reshape(len(self.barrier), -1)[blocks].min(1)
        self.arrived[blocks] = self.seen[blocks]

    def pass_fence(self, threads: Array) -> None:
        """These threads execute a fence."""
        self.time += 1
        self.fence[threads] = self.time
        if self.acquired.size:
            self.acquired[threads] = self.arrived[self.block[threads]]

    def change_counters(self, threads: Array, places: Array) -> None:
        """These threads change counters."""
        if not self.acquired.size:
            self.acquired = np.zeros((len(self.block), len(self.barrier)), np.int64)
        for block, place in zip(self.block[threads].tolist(), places.tolist(), strict=True):
            released = self.released.setdefault(place, np.zeros(len(self.barrier), np.int64))
            released[block] = self.published[block]
        self.see_counters(threads, places)

    def see_counters(self, threads: Array, places: Array) -> None:
        """These threads see what counters are."""
        for block, place in zip(self.block[threads].tolist(), places.tolist(), strict=True):
            if place in self.released:
                np.maximum(self.seen[block], self.released[place], out=self.seen[block])

    def check(self, threads: Array, units: Array, what: str) -> None:
        """What these threads use must have been written before, or by themselves."""
        marks = self.written[units]
        if not marks.any():
            return
        when, other = marks >> SHIFT, np.maximum((marks & THREAD) - 1, 0)
        is_same_block = self.block[other] == self.block[threads]
        ordered = self.barrier[self.block[threads]] > when
        if not is_same_block.all():
            if self.acquired.size:
                known = self.acquired[threads, self.block[other]] > when
                ordered = np.where(is_same_block, ordered, known)
            else:
                ordered = is_same_block & ordered
        if not ((marks == 0) | (other == threads) | ordered).all():
            raise Fault(f"{what} what another thread has written, without a barrier or fences in between")

    def note_read(self, threads: Array, places: Array, size: int) -> None:
        """These threads read so many bytes each."""
        self.check(threads, places // 2 + np.arange(size // 2)[:, None], "reads")

    def note_write(self, threads: Array, places: Array, size: int) -> None:
        """These threads write so many bytes each."""
        units = places // 2 + np.arange(size // 2)[:, None]
        self.check(threads, units, "writes")
        own = np.broadcast_to((self.time << SHIFT) + threads + 1, units.shape)
        self.written[units] = own
        if (self.written[units] != own).any():
            raise Fault("several threads write the same place")
