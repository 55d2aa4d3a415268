"""Global memory: buffers with gaps between them, and the instructions that read and write it."""
import re
from collections.abc import Callable

import numpy as np

from disassembly import Instruction, registers
from fault import Fault
from operands import fixed, scalar, scalar_wide, to_scalar, vector, vector_wide
from state import I64, U16, U32, U64, Array, Waves, spread

# The address of the first byte. The contents of registers that nothing has set lie far above all addresses.
BASE = 0x1_0000_0000
GAP = 256  # at least so many bytes lie between two buffers, and no kernel may touch them
CACHE_HINTS = {"glc", "slc", "dlc", "nt", "sc0", "sc1", "th", "scope", "off"}
BYTES = {"8": 1, "16": 2, "32": 4, "64": 8, "96": 12, "128": 16, "256": 32, "512": 64}


class Memory:
    """The GPU's memory. Every byte belongs to one buffer or to none."""

    def __init__(self) -> None:
        self.bytes = np.zeros(0, np.uint8)
        self.owner = np.zeros(0, np.int16)
        self.writable = [False]  # by owner; owner 0 is the gaps
        self.size = GAP

    def add(self, contents: Array, writable: bool = False) -> int:
        """A new buffer with these contents. Returns its address, a multiple of 256."""
        data = np.frombuffer(np.ascontiguousarray(contents).tobytes(), np.uint8)
        start = self.size
        self.size = -(-(start + len(data) + GAP) // GAP) * GAP
        self.bytes = np.concatenate([self.bytes, np.full(self.size - len(self.bytes), 0x7F, np.uint8)])
        self.owner = np.concatenate([self.owner, np.zeros(self.size - len(self.owner), np.int16)])
        self.bytes[start : start + len(data)] = data
        self.owner[start : start + len(data)] = len(self.writable)
        self.writable.append(writable)
        return BASE + start

    def read_buffer(self, address: int, dtype: np.dtype, count: int) -> Array:
        """The contents of a buffer."""
        start = address - BASE
        return self.bytes[start : start + count * np.dtype(dtype).itemsize].copy().view(dtype)

    def places(self, addresses: Array, size: int, write: bool = False) -> Array:
        """The places of accesses of `size` bytes at these addresses."""
        at = addresses.astype(I64) - BASE
        alignment = min(size, 4)
        wrong = (at < 0) | (at + size > len(self.owner)) | (at % alignment != 0)
        if not wrong.any():
            first, last = self.owner[at], self.owner[at + (size - 1)]
            wrong = (first == 0) | (first != last)
            if write and not wrong.any():
                wrong = ~np.array(self.writable)[first]
        if wrong.any():
            which = int(addresses[int(wrong.argmax())])
            how = "writes" if write else "reads"
            raise Fault(f"{how} {size} bytes at {which - BASE:#x}, which are misaligned or lie in no buffer for it")
        return at

    def load(self, addresses: Array, size: int) -> Array:
        """[access][word]: the words at these addresses, or [access][1] for one or two bytes."""
        at = self.places(addresses, size)
        if size == 1:
            return self.bytes[at].astype(U32)[:, None]
        if size == 2:
            return self.bytes.view(U16)[at >> 1].astype(U32)[:, None]
        return self.bytes.view(U32)[(at >> 2)[:, None] + np.arange(size // 4)]

    def store(self, addresses: Array, words: Array, size: int) -> None:
        """Stores [access][word] at these addresses."""
        at = self.places(addresses, size, write=True)
        if size == 1:
            self.bytes[at] = words[:, 0]
        elif size == 2:
            self.bytes.view(U16)[at >> 1] = words[:, 0]
        else:
            self.bytes.view(U32)[(at >> 2)[:, None] + np.arange(size // 4)] = words


def offset_of(i: Instruction) -> int:
    """The constant offset of an address. Other modifiers are hints for the caches."""
    unknown = set(i.modifiers) - CACHE_HINTS - {"offset"}
    if unknown:
        raise Fault(f"unknown modifiers {unknown}")
    return int(i.modifiers.get("offset", "0"), 0)


def compile_memory(i: Instruction) -> Callable[[Waves], object] | None:
    """The function that executes an instruction, or None if it is not of this kind."""
    if found := re.fullmatch(r"global_(load|store)_(d16_hi_|d16_)?[a-z]+(\d+)", i.name):
        size = BYTES[found.group(3)]
        if found.group(1) == "load":
            return global_load(i, size, found.group(2), signed="_i" in i.name)
        return global_store(i, size, found.group(2) == "d16_hi_")
    if i.name in ("global_atomic_add", "global_atomic_add_u32"):
        return global_add(i)
    if found := re.fullmatch(r"s_load_b(\d+)", i.name):
        return scalar_load(i, BYTES[found.group(1)])
    return None


def address(text: str, base: str, offset: int) -> Callable[[Waves], Array]:
    """[wave][lane]: the address of an access: 64 bits per lane, or 32 bits per lane plus 64 bits per wave."""
    constant = U64(offset & (1 << 64) - 1)
    if base == "off":
        lane_address = vector_wide(text)
        return lambda w: lane_address(w) + constant
    lane_offset, wave_address = vector(text), scalar_wide(base)
    return lambda w: lane_offset(w) + wave_address(w)[:, None] + constant


def global_load(i: Instruction, size: int, half: str | None, signed: bool) -> Callable[[Waves], object]:
    """Loads to neighbouring registers, or to a half of one (d16)."""
    if signed:
        raise Fault("loads with a sign are not known")
    where = address(i.operands[1], i.operands[2], offset_of(i))
    kind, to, count = registers(i.operands[0])
    if count != max(size // 4, 1):
        raise Fault(f"{i.operands[0]} does not fit {size} bytes")

    def step(w: Waves) -> None:
        addresses = spread(where(w), w.active.shape)
        words = w.launch.memory.load(addresses[w.active], size)
        target = w.file(kind)
        for k in range(count):
            value = words[:, k]
            if half:
                old = target[to][w.active]
                value = old & U32(0xFFFF) | value << U32(16) if "hi" in half else old & U32(0xFFFF0000) | value
            if w.full:
                target[to + k] = value.reshape(w.active.shape)
            else:
                target[to + k][w.active] = value

    return step


def global_store(i: Instruction, size: int, high: bool) -> Callable[[Waves], object]:
    """Stores neighbouring registers, or a half of one."""
    where = address(i.operands[0], i.operands[2], offset_of(i))
    kind, first, count = registers(i.operands[1])
    if count != max(size // 4, 1):
        raise Fault(f"{i.operands[1]} does not fit {size} bytes")

    def step(w: Waves) -> None:
        addresses = spread(where(w), w.active.shape)[w.active]
        words = w.file(kind)[first : first + count, w.active].T
        w.launch.memory.store(addresses, words >> U32(16) if high else words, size)

    return step


def global_add(i: Instruction) -> Callable[[Waves], object]:
    """Adds to a word for one lane after another, and returns the old value if there is a register for it."""
    returns = len(i.operands) == 4
    at, data, base = i.operands[-3:]
    where, added = address(at, base, offset_of(i)), vector(data)
    to = registers(i.operands[0])[1] if returns else None

    def step(w: Waves) -> None:
        addresses, values = spread(where(w), w.active.shape), spread(added(w), w.active.shape)
        for place in zip(*np.nonzero(w.active)):
            one = addresses[place][None]
            old = w.launch.memory.load(one, 4)
            w.launch.memory.store(one, old + values[place], 4)
            if to is not None:
                w.file("v")[to][place] = old[0, 0]

    return step


def scalar_load(i: Instruction, size: int) -> Callable[[Waves], object]:
    """Loads to scalar registers."""
    base = scalar_wide(i.operands[1])
    text = i.operands[2]
    if text == "null":
        offset = None
    elif fixed(text) is None:
        offset = scalar(str(int(text, 0)))
    else:
        offset = scalar(text)
    constant = U64(offset_of(i))
    write = to_scalar(i.operands[0]) if size == 4 else None
    to = fixed(i.operands[0])

    def step(w: Waves) -> None:
        addresses = base(w) + constant
        if offset:
            addresses = addresses + offset(w)
        words = w.launch.memory.load(spread(addresses, w.number.shape), size)
        if write:
            write(w, words[:, 0])
        else:
            w.s[to : to + size // 4] = words.T

    return step
