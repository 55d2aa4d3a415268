"""The registers of a set of waves that execute the same instructions.

All waves of all workgroups run together while they take the same path, so that numpy works on arrays of
[wave][lane]. Waves that take different branches are split into two sets and joined again later: see launch.py.
"""
from __future__ import annotations

from typing import Protocol

import numpy as np

from fault import Fault
from kernel_object import Kernel

U16, U32, U64 = np.uint16, np.uint32, np.uint64
I16, I32, I64 = np.int16, np.int32, np.int64
F16, F32, F64 = np.float16, np.float32, np.float64
# The contents of registers and shared memory at the start: a NaN as fp32, and two NaNs as fp16 or bf16.
UNDEFINED = 0x7FFF7FFF
# Places in the array of scalar registers.
VCC, TRAP, M0, SCALARS = 106, 108, 124, 128
Array = np.ndarray


def spread(value: Array, shape: tuple[int, ...]) -> Array:
    """The value for each place of an array of this shape. np.broadcast_to takes long, and is seldom needed."""
    return value if np.shape(value) == shape else np.broadcast_to(value, shape)


class GlobalMemory(Protocol):
    """What instructions do with the global memory: see memory.py."""

    def load(self, addresses: Array, size: int) -> Array: ...

    def store(self, addresses: Array, words: Array, size: int) -> None: ...


class SharedMemory(Protocol):
    """What instructions do with the shared memory of all workgroups: see shared.py."""

    def load(self, w: Waves, addresses: Array, size: int) -> Array: ...

    def store(self, w: Waves, addresses: Array, words: Array, size: int) -> None: ...


class Surroundings(Protocol):
    """What all waves of a launch share: see launch.py."""

    kernel: Kernel
    memory: GlobalMemory
    shared: SharedMemory


class Waves:
    """The state of some waves. The first axis of every array but `v`, `a` and `s` is the wave."""

    def __init__(self, launch: Surroundings, lanes: int, number: Array) -> None:
        self.launch = launch
        self.lanes = lanes
        self.number = number  # the wave's number in the launch
        self.place = 0  # of the next instruction in the program
        count = len(number)
        self.v = np.full((launch.kernel.vectors, count, lanes), UNDEFINED, U32)
        self.a = np.full((launch.kernel.accumulators, count, lanes), UNDEFINED, U32)
        self.s = np.full((SCALARS, count), UNDEFINED, U32)
        self.scc = np.zeros(count, bool)
        self.epoch = np.ones(count, I32)  # one more than the number of barriers that the wave has passed
        # The histories that the waves have, and which of them each wave has: see waits.py.
        self.waiting: list[tuple] = [()]
        self.history = np.zeros(count, I32)
        self.exec = np.empty(0, U64)
        self.active = np.empty(0, bool)
        self.full = True
        self.set_exec(np.full(count, (1 << lanes) - 1, U64))

    def set_exec(self, mask: Array) -> None:
        """Sets the mask of active lanes."""
        self.exec = mask
        self.active = self.bits(mask)
        self.full = bool(self.active.all())

    def bits(self, mask: Array) -> Array:
        """[wave][lane]: the bits of a mask of lanes."""
        if self.lanes == 32:
            octets = mask.astype(U32)[:, None].view(np.uint8)
        else:
            octets = np.ascontiguousarray(mask)[:, None].view(np.uint8)
        return np.unpackbits(octets, axis=1, bitorder="little").view(bool)

    def mask(self, bits: Array) -> Array:
        """[wave]: a mask of lanes from its bits."""
        bits = spread(bits, (len(self.number), self.lanes))
        packed = np.packbits(bits, axis=1, bitorder="little")
        return packed.view(U32 if self.lanes == 32 else U64)[:, 0].astype(U64)

    def write(self, register: int, value: Array) -> None:
        """Writes a vector register in the active lanes."""
        if self.full:
            self.v[register] = value
        else:
            np.copyto(self.v[register], value, where=self.active)

    def write_pair(self, register: int, low: Array, high: Array) -> None:
        """Writes two neighbouring vector registers in the active lanes. The values may be views of either."""
        high = np.array(high)
        self.write(register, low)
        self.write(register + 1, high)

    def write_wide(self, register: int, value: Array) -> None:
        """Writes 64 bits to two neighbouring vector registers in the active lanes."""
        self.write_pair(register, value.astype(U32), (value >> U64(32)).astype(U32))

    def read_wide(self, register: int) -> Array:
        """64 bits of two neighbouring vector registers."""
        return self.v[register] | self.v[register + 1].astype(U64) << U64(32)

    def file(self, kind: str) -> Array:
        """The vector registers (v) or the accumulation registers (a)."""
        return self.v if kind == "v" else self.a

    def every_lane(self, what: str) -> None:
        """Fails if a lane is inactive."""
        if not self.full:
            raise Fault(f"{what} runs while some lanes are inactive")

    def set_histories(self, queues: list[tuple]) -> None:
        """Replaces the histories by others, of which several may be equal."""
        places: dict[tuple, int] = {}
        new = [places.setdefault(queue, len(places)) for queue in queues]
        if len(places) != len(queues):
            self.history = np.array(new, I32)[self.history]
        self.waiting = list(places)

    PER_WAVE = ("number", "scc", "epoch", "exec", "active", "history")
    PER_REGISTER = ("v", "a", "s")

    def take(self, chosen: Array) -> Waves:
        """A copy of some of the waves. `chosen` is a bool per wave."""
        part = object.__new__(Waves)
        part.launch, part.lanes, part.place = self.launch, self.lanes, self.place
        for name in self.PER_WAVE:
            setattr(part, name, getattr(self, name)[chosen])
        for name in self.PER_REGISTER:
            setattr(part, name, getattr(self, name)[:, chosen])
        kept, part.history = np.unique(part.history, return_inverse=True)
        part.waiting = [self.waiting[k] for k in kept]
        part.full = bool(part.active.all())
        return part

    @staticmethod
    def join(parts: list[Waves]) -> Waves:
        """One set of the waves of several sets at the same place."""
        if len(parts) == 1:
            return parts[0]
        whole = object.__new__(Waves)
        first = parts[0]
        whole.launch, whole.lanes, whole.place = first.launch, first.lanes, first.place
        for name in Waves.PER_WAVE:
            setattr(whole, name, np.concatenate([getattr(part, name) for part in parts]))
        for name in Waves.PER_REGISTER:
            setattr(whole, name, np.concatenate([getattr(part, name) for part in parts], axis=1))
        counts = np.cumsum([0, *(len(part.waiting) for part in parts)])
        whole.history = np.concatenate([part.history + start for part, start in zip(parts, counts)])
        whole.set_histories([queue for part in parts for queue in part.waiting])
        whole.full = bool(whole.active.all())
        return whole
