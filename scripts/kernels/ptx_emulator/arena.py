"""Global memory: the arrays of a launch, each with gaps around it. An access outside of all arrays is a fault."""
import numpy as np

from cases import Fault

Array = np.ndarray

# The address of the first byte.
BASE = 0x7_0000_0000
GAP = 256  # at least so many bytes lie between two arrays


class Arena:
    """The memory of a launch."""

    def __init__(self, contents: list[Array], is_watched: list[bool]) -> None:
        self.starts: list[int] = []
        end = GAP
        for array in contents:
            self.starts.append(end)
            end = -(-(end + len(array) + GAP) // GAP) * GAP
        self.size = np.uint64(end - 16)
        self.bytes = np.full(end, 0x7F, np.uint8)
        # For each byte 0 outside of arrays, 1 in an array, and 2 in one of which order.py watches the use.
        self.state = np.zeros(end, np.int8)
        for start, array, watched in zip(self.starts, contents, is_watched, strict=True):
            self.bytes[start : start + len(array)] = array
            self.state[start : start + len(array)] = 2 if watched else 1
        self.changes = 0  # how many instructions have written
        self.words = {size: self.bytes.view(f"u{size}") for size in (1, 2, 4, 8)}

    def address(self, array: int, offset: int) -> int:
        """The address of a byte of an array."""
        return BASE + self.starts[array] + offset

    def places(self, addresses: Array, size: int, what: str) -> Array:
        """Where the accesses of `size` bytes at these addresses lie among the bytes. They must be aligned, and inside of
        an array."""
        places = addresses - np.uint64(BASE)
        wrong = (places >= self.size) | (places & np.uint64(size - 1) != 0)
        if not wrong.any():
            places = places.view(np.int64)
            wrong = (self.state[places] == 0) | (self.state[places + (size - 1)] == 0)
        if wrong.any():
            k = int(wrong.argmax())
            raise Fault(f"{what} {size} bytes at {int(addresses[k]):#x}, which {self.whereabouts(int(addresses[k]), size)}")
        return places

    def whereabouts(self, address: int, size: int) -> str:
        """Why an access is wrong, in words."""
        if address % size:
            return "are misaligned"
        before = [k for k, start in enumerate(self.starts) if BASE + start <= address]
        near = f", {address - BASE - self.starts[before[-1]]} bytes after the start of array {before[-1]}" if before else ""
        return f"are in no array{near}"

    def load(self, places: Array, size: int, count: int) -> Array:
        """The numbers of `size` bytes at these places, `count` for each, as [number][thread]."""
        words = self.words[size]
        at = places // size
        return np.stack([words[at + k] for k in range(count)])

    def store(self, places: Array, values: list[Array]) -> None:
        """Writes numbers; the last thread of several for the same place wins."""
        size = values[0].dtype.itemsize
        at = places // size
        self.changes += 1
        for k, value in enumerate(values):
            self.words[size][at + k] = value.view(f"u{size}")

    def add(self, places: Array, values: Array) -> Array:
        """Adds to words of 32 bits, thread by thread, and gives what was there before each."""
        words = self.words[4]
        self.changes += 1
        before = np.zeros(len(places), np.uint32)
        for k, (place, value) in enumerate(zip((places // 4).tolist(), values, strict=True)):
            before[k] = words[place]
            words[place] = before[k] + value
        return before
