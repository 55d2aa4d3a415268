"""The threads of a launch and their registers.

A register is an array with a number for each thread of all blocks. Such an array is never changed: an instruction makes a
new one. Which threads execute an instruction is said by `mask`, and for memory by `index`.
"""
from collections.abc import Callable

import numpy as np

from arena import Arena
from block_memory import BlockMemory
from cases import Fault
from listing import Kernel, Name, Number, Operand, Register
from order import Order

Array = np.ndarray
Step = Callable[["Threads"], object]

TYPES: dict[str, np.dtype] = {
    name: np.dtype(code)
    for name, code in {
        "pred": "?", "b8": "u1", "b16": "u2", "u16": "u2", "s16": "i2", "f16x2": "u4", "b32": "u4", "u32": "u4",
        "s32": "i4", "f32": "f4", "b64": "u8", "u64": "u8", "s64": "i8",
    }.items()
}
# What registers hold that no thread has written: no number, no address and no sensible integer.
UNSET = {"?": False, "u2": 0xFBAD, "u4": 0xFFBADBAD, "f4": np.nan, "u8": 0xFFF0_BAD0_FFBA_DBAD}
WARP = 32


class Threads:
    """All threads of a launch."""

    def __init__(self, kernel: Kernel, arena: Arena, arguments: bytes, grid: tuple[int, int], threads: int) -> None:
        self.kernel = kernel
        self.per_block = threads
        self.blocks = grid[0] * grid[1]
        self.count = threads * self.blocks
        self.number = np.arange(self.count)
        self.block = self.number // threads
        self.registers: list[Array | None] = [None] * kernel.registers
        self.arena = arena
        self.arguments = np.frombuffer(arguments, np.uint8)
        self.order = Order(len(arena.bytes), self.block)
        self.shared = BlockMemory(kernel.shared, kernel.shared_bytes, self.block)
        self.special = {
            "%tid.x": (self.number % threads).astype(np.uint32),
            "%ctaid.x": (self.block % grid[0]).astype(np.uint32),
            "%ctaid.y": (self.block // grid[0]).astype(np.uint32),
        }
        self.copies: object = None  # asynchronous copies in flight
        self.ended = np.zeros(self.count, bool)
        # None if every thread may write its registers: those that have ended need them no longer.
        self.mask: Array | None = None
        # The threads that run, or None if all do.
        self.index: Array | None = None

    def select(self, mask: Array) -> None:
        """These threads execute the next instructions."""
        self.index = None if mask.all() else np.flatnonzero(mask)
        self.mask = None if self.index is None or (mask | self.ended).all() else mask

    def running(self) -> Array:
        """The numbers of the threads that run."""
        return self.number if self.index is None else self.index

    def some(self, values: Array) -> Array:
        """The values of the threads that run."""
        if len(values) != self.count:
            values = np.repeat(values, self.count)
        return values if self.index is None else values[self.index]

    def note_use(self, threads: Array, places: Array, size: int, is_write: bool = False) -> None:
        """Checks the order of accesses to global memory."""
        watched = self.arena.state[places] == 2
        if watched.any():
            note = self.order.note_write if is_write else self.order.note_read
            note(threads[watched], places[watched], size)

    def put(self, slot: int, values: Array) -> None:
        """Writes a register; `values` has a value for each thread or only one."""
        if self.mask is not None:
            old = self.registers[slot]
            values = np.where(self.mask, values, UNSET_ARRAYS[values.dtype] if old is None else old)
        elif len(values) != self.count:
            values = np.repeat(values, self.count)
        self.registers[slot] = values

    def put_some(self, slot: int, values: Array) -> None:
        """Writes a register; `values` has a value for each thread that runs."""
        if self.index is not None:
            old = self.registers[slot]
            new = np.full(self.count, UNSET_ARRAYS[values.dtype][0]) if old is None else old.copy()
            new[self.index] = values
            values = new
        self.registers[slot] = values


UNSET_ARRAYS = {np.dtype(code): np.array([value], code) for code, value in UNSET.items()}


def constant(number: Number, kind: str) -> Array:
    """A constant as an array of one element."""
    dtype, text = TYPES[kind], number.text
    if kind == "pred":
        return np.array([int(text) != 0])
    if text.startswith("0f"):
        return np.array([int(text[2:], 16)], np.uint32).view(dtype)
    if dtype.kind == "f":
        raise Fault(f"{text} is no floating-point number")
    return np.array([int(text, 0) & ((1 << 8 * dtype.itemsize) - 1)], f"u{dtype.itemsize}").view(dtype)


def reader(kernel: Kernel, operand: Operand, kind: str) -> Callable[[Threads], Array]:
    """A function that gives the values of an operand as this type."""
    dtype = TYPES[kind]
    if isinstance(operand, Number):
        value = constant(operand, kind)
        return lambda t: value
    if isinstance(operand, Register):
        slot, held = operand.slot, TYPES[operand.kind]
        if held.itemsize != dtype.itemsize or (held.kind == "b") != (dtype.kind == "b"):
            raise Fault(f"a register of the type {operand.kind} is no {kind}")

        def read(t: Threads) -> Array:
            value = t.registers[slot]
            if value is None:
                raise Fault("reads a register that was never written")
            return value if held == dtype else value.view(dtype)

        return read
    if isinstance(operand, Name):
        name = operand.text
        if kind == "u32" and name in ("%tid.x", "%ctaid.x", "%ctaid.y"):
            return lambda t: t.special[name]
        place = place_of(kernel, operand)
        if dtype.itemsize == 8:
            value = np.array([place], np.uint64)
            return lambda t: value
    raise Fault(f"the operand {operand} is not known here")


def place_of(kernel: Kernel, name: Name) -> int:
    """Where a variable begins in shared memory, or the parameter among the arguments."""
    if name.text == kernel.parameter:
        return 0
    if name.text in kernel.shared:
        return kernel.shared[name.text][0]
    raise Fault(f"{name.text} is not known")


def writer(operand: Operand, kind: str) -> Callable[[Threads, Array], None]:
    """A function that writes values of this type to a register."""
    if not isinstance(operand, Register):
        raise Fault(f"{operand} is no register")
    slot, held, dtype = operand.slot, TYPES[operand.kind], TYPES[kind]
    if held.itemsize != dtype.itemsize or (held.kind == "b") != (dtype.kind == "b"):
        raise Fault(f"a register of the type {operand.kind} is no {kind}")
    if held == dtype:
        return lambda t, values: t.put(slot, values)
    return lambda t, values: t.put(slot, values.view(held))
