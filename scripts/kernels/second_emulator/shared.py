"""Shared memory (LDS) of all workgroups, and the instructions that read and write it.

It is an error if two waves of a workgroup use the same word between two barriers and at least one of them writes it:
the hardware does not define which of them comes first. Every word remembers which waves wrote and read it since the
last barrier.
"""
import re
from collections.abc import Callable

import numpy as np

from disassembly import Instruction, registers
from fault import Fault
from operands import vector
from state import I32, I64, U32, UNDEFINED, Array, Waves, spread


class Shared:
    """The shared memory of all workgroups of a launch."""

    def __init__(self, workgroups: int, size: int, waves: int) -> None:
        self.size = size
        self.words = max(size // 4, 1)
        self.waves = waves  # of a workgroup
        total = workgroups * self.words
        self.data = np.full(total, UNDEFINED, U32)
        self.writer = np.zeros(total, I32)
        self.written = np.zeros(total, I32)  # the epoch in which the writer wrote; see Waves.epoch
        self.read_by = np.zeros((waves, total), I32)  # the epoch in which this wave read last

    def places(self, w: Waves, addresses: Array, size: int) -> tuple[Array, Array, Array]:
        """For each access of an active lane: the places of its words as [access][word], and as [access][1] the wave's
        number in the workgroup and the wave's epoch."""
        at = addresses[w.active].astype(I64)
        wrong = (at + size > self.size) | (at % size != 0)
        if wrong.any():
            raise Fault(f"uses {size} bytes at {int(at[wrong][0])} of {self.size} bytes of shared memory")
        owner = np.broadcast_to((w.number // self.waves)[:, None], w.active.shape)[w.active]
        wave = np.broadcast_to((w.number % self.waves)[:, None], w.active.shape)[w.active]
        epoch = np.broadcast_to(w.epoch[:, None], w.active.shape)[w.active]
        words = (owner * self.words + (at >> 2))[:, None] + np.arange(size // 4)
        return words, wave[:, None], epoch[:, None]

    def race(self, what: str, wrong: Array, places: Array) -> None:
        """Fails if any access is wrong. The error says what two waves do, and with which byte."""
        if wrong.any():
            word = int(places[wrong][0]) % self.words
            raise Fault(f"{what} byte {4 * word} of shared memory without a barrier in between")

    def load(self, w: Waves, addresses: Array, size: int) -> Array:
        """Loads words as [access][word]."""
        places, wave, epoch = self.places(w, addresses, size)
        foreign = (self.written[places] == epoch) & (self.writer[places] != wave)
        self.race("two waves write and read", foreign, places)
        self.read_by[wave, places] = epoch
        return self.data[places]

    def store(self, w: Waves, addresses: Array, words: Array, size: int) -> None:
        """Stores words, which are [access][word]."""
        places, wave, epoch = self.places(w, addresses, size)
        foreign = (self.written[places] == epoch) & (self.writer[places] != wave)
        self.race("two waves write", foreign, places)
        for other in range(self.waves):
            self.race("two waves read and write", (self.read_by[other][places] == epoch) & (wave != other), places)
        self.written[places] = epoch
        self.writer[places] = wave
        # If two waves of this instruction write the same word, only one of them is now its writer.
        self.race("two waves write", self.writer[places] != wave, places)
        self.data[places] = words


NAME = re.compile(r"ds_(load|store)_(2addr_)?(stride64_)?[bui](8|16|32|64|96|128)")


def compile_shared(i: Instruction) -> Callable[[Waves], object] | None:
    """The function that executes an instruction, or None if it is not of this kind."""
    found = NAME.fullmatch(i.name)
    if not found:
        return None
    size = int(found.group(4)) // 8
    if size < 4:
        raise Fault("accesses of less than four bytes to shared memory are not known")
    unknown = set(i.modifiers) - {"offset", "offset0", "offset1", "gds"}
    if unknown or "gds" in i.modifiers:
        raise Fault(f"unknown modifiers {i.modifiers}")
    if found.group(2):
        stride = size * (64 if found.group(3) else 1)
        offsets = [stride * int(i.modifiers.get(key, "0"), 0) for key in ("offset0", "offset1")]
    else:
        offsets = [int(i.modifiers.get("offset", "0"), 0)]
    words = size // 4
    if found.group(1) == "load":
        address = vector(i.operands[1])
        kind, to, _ = registers(i.operands[0])

        def load(w: Waves) -> None:
            at = spread(address(w), w.active.shape).astype(I64)
            for part, offset in enumerate(offsets):
                values = w.launch.shared.load(w, at + offset, size)
                for k in range(words):
                    w.file(kind)[to + part * words + k][w.active] = values[:, k]

        return load
    address = vector(i.operands[0])
    data = [registers(text) for text in i.operands[1:]]

    def store(w: Waves) -> None:
        at = spread(address(w), w.active.shape).astype(I64)
        for offset, (kind, first, _) in zip(offsets, data, strict=True):
            values = w.file(kind)[first : first + words, w.active].T
            w.launch.shared.store(w, at + offset, values, size)

    return store
