"""Prepares a launch, runs it and compares its outputs with a reference."""
import struct
from dataclasses import dataclass
from zlib import crc32

import numpy as np

from fault import Fault
from formats import Format
from kernel_object import KernelObject
from launch import Compiled, Launch
from memory import Memory

Array = np.ndarray


@dataclass
class Buffer:
    """Elements in the GPU's memory, and the same elements in fp64 as the kernel reads them."""

    address: int
    values: Array


@dataclass
class Output:
    """A buffer that a kernel writes. At first it holds NaNs."""

    address: int
    shape: tuple[int, ...]
    format: Format
    before: Array


class Bench:
    """One check of one kernel: its memory and its result."""

    def __init__(self, code: KernelObject, kernel: str, format: Format, compiled: dict[int, Compiled]) -> None:
        self.code, self.kernel, self.format = code, kernel, format
        self.compiled = compiled
        self.memory = Memory()
        self.random = np.random.default_rng(crc32(kernel.encode()))
        self.steps = 0
        self.error = 0.0  # the largest, in units of what is allowed

    def numbers(self, *shape: int, scale: float = 1.0, offset: float = 0.0, format: Format | None = None) -> Buffer:
        """Random numbers around `offset`, rounded to `format` or else to the check's type."""
        return self.put(self.random.standard_normal(shape) * scale + offset, format)

    def put(self, values: Array, format: Format | None = None) -> Buffer:
        """These numbers, rounded to `format` or else to the check's type."""
        bits = (format or self.format).to_bits(values)
        return Buffer(self.memory.add(bits), (format or self.format).from_bits(bits).astype(np.float64))

    def integers(self, values: Array) -> int:
        """The address of these integers."""
        return self.memory.add(values)

    def output(self, *shape: int, format: Format | None = None) -> Output:
        """A buffer of NaNs, which the kernel may write."""
        format = format or self.format
        before = np.full(shape, 0x7FFF7FFF & np.iinfo(format.storage).max, format.storage)
        return Output(self.memory.add(before, writable=True), shape, format, before)

    def in_place(self, values: Array) -> tuple[Output, Array]:
        """A buffer that is input and output."""
        bits = self.format.to_bits(values)
        address = self.memory.add(bits, writable=True)
        return Output(address, values.shape, self.format, bits), self.format.from_bits(bits).astype(np.float64)

    def run(self, layout: str, arguments: list, grid: tuple[int, int], threads: int) -> None:
        """Runs the kernel. `layout` is that of the arguments, as struct.pack wants it."""
        packed = struct.pack("<" + layout, *arguments)
        packed += bytes(-len(packed) % 8)
        launch = Launch(self.code, self.kernel, self.memory, self.compiled)
        self.steps += launch.run(packed, grid, threads)

    def compare(
        self, output: Output, want: Array, tolerance: float | None = None, written: Array | None = None
    ) -> None:
        """Fails if a result is wrong, or if an element was changed that is not `written`. The allowed error of a result
        is the tolerance times the sum of its expected magnitude and of the root mean square of all expected results."""
        bits = self.memory.read_buffer(output.address, output.format.storage, output.before.size).reshape(output.shape)
        written = np.ones(output.shape, bool) if written is None else np.broadcast_to(written, output.shape)
        if (bits != output.before)[~written].any():
            raise Fault("writes elements that do not belong to the result")
        got = output.format.from_bits(bits).astype(np.float64)[written]
        want = np.asarray(want, np.float64).reshape(output.shape)[written]
        if not np.isfinite(got).all():
            raise Fault(f"{int((~np.isfinite(got)).sum())} of {got.size} results are not finite")
        scale = np.abs(want) + np.sqrt(np.mean(want**2))
        allowed = (tolerance or output.format.tolerance) * np.maximum(scale, 1e-30)
        ratio = np.abs(got - want) / allowed
        self.error = max(self.error, float(ratio.max()))
        if self.error > 1:
            at = int(ratio.argmax())
            count = int((ratio > 1).sum())
            raise Fault(f"result {at} is {got[at]:.6g} instead of {want[at]:.6g}; {count} of {got.size} are wrong")
