"""Shared memory of all blocks: its variables, and which threads use a word without a barrier in between.

For each word of 32 bits there is a mark of the last write and one of the last read: the number of barriers that the block
had passed, times 2^20, plus the thread's number and one. So, marks of earlier barriers are smaller than those of now.
"""
import numpy as np

from cases import Fault

Array = np.ndarray

SHIFT = 20
SEVERAL = (1 << SHIFT) - 1  # in place of a thread's number: more than one thread has read the word
IN_FLIGHT = 1 << 62  # an asynchronous copy will write the word
NEVER = 0


class BlockMemory:
    """The shared memory of all blocks, one after another."""

    def __init__(self, variables: dict[str, tuple[int, int]], size: int, block: Array) -> None:
        self.size = size
        words, blocks = size // 4, int(block[-1]) + 1
        if len(block) >= SEVERAL:
            raise Fault("the launch has too many threads for the marks of races")
        # A NaN in each type, so that nothing sensible is computed from it.
        self.data = np.full(words * blocks, 0xFFFFFFFF, np.uint32)
        self.written = np.full(words * blocks, NEVER, np.int64)
        self.read = np.full(words * blocks, NEVER, np.int64)
        self.is_variable = np.zeros(words, bool)
        for start, length in variables.values():
            self.is_variable[start // 4 : (start + length) // 4] = True
        self.block = block
        self.barriers = np.ones(blocks, np.int64)

    def words(self, threads: Array, addresses: Array, count: int) -> Array:
        """The words of accesses to `count` words, as [word][thread]."""
        at = addresses.astype(np.int64)
        wrong = (at < 0) | (at + 4 * count > self.size) | (at % (4 * count) != 0)
        if not wrong.any():
            first = at >> 2
            wrong = ~(self.is_variable[first] & self.is_variable[first + (count - 1)])
        if wrong.any():
            raise Fault(f"{4 * count} bytes of shared memory at {int(at[wrong.argmax()])} are misaligned or in no variable")
        return first + self.block[threads] * (self.size // 4) + np.arange(count)[:, None]

    def now(self, threads: Array) -> tuple[Array, Array]:
        """The least mark since the last barrier, and the threads' own marks."""
        base = self.barriers[self.block[threads]] << SHIFT
        return base, base + threads + 1

    def load(self, threads: Array, words: Array, for_warp: bool = False) -> Array:
        """Reads words. With `for_warp`, any lane of the warp may get any of them."""
        base, own = self.now(threads)
        written = self.written[words]
        # GEMMs load the fragments of a step that does not follow, and do not use them.
        if not for_warp and (written == NEVER).any():
            raise Fault("reads shared memory that nothing has written")
        wrong = written >= base
        if wrong.any():
            if (written == IN_FLIGHT).any():
                raise Fault("reads shared memory that an asynchronous copy is writing, without waiting for it")
            if for_warp or (wrong & (written != own)).any():
                raise Fault("reads shared memory that another thread has written, without a barrier in between")
        if for_warp:
            self.read[words] = base + SEVERAL
        else:
            before = self.read[words]
            mark = np.where((before >= base) & (before != own), base + SEVERAL, own)
            self.read[words] = mark
            # Several threads that read the same word now.
            again = self.read[words] != mark
            if again.any():
                self.read[words[again]] = np.broadcast_to(base + SEVERAL, words.shape)[again]
        return self.data[words]

    def begin_write(self, threads: Array, words: Array) -> Array:
        """Marks words that are to be written, and gives the marks."""
        base, own = self.now(threads)
        for marks, what in ((self.written[words], "written"), (self.read[words], "read")):
            if ((marks >= base) & (marks != own)).any():
                if (marks == IN_FLIGHT).any():
                    raise Fault("writes shared memory that an asynchronous copy is writing")
                raise Fault(f"writes shared memory that another thread has {what}, without a barrier in between")
        own = np.broadcast_to(own, words.shape)
        self.written[words] = own
        if (self.written[words] != own).any():
            raise Fault("several threads write the same word of shared memory")
        return own

    def store(self, threads: Array, words: Array, values: Array) -> None:
        """Writes words."""
        self.begin_write(threads, words)
        self.data[words] = values
