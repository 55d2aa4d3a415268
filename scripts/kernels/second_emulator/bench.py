"""Runs a case: puts its arrays into the memory, launches the kernel, and compares the memory with what it must be."""
import struct
import time
from dataclasses import dataclass

import numpy as np

from e4m3 import values
from fault import Fault
from kernel_object import KernelObject
from launch import Compiled, Launch
from memory import BASE, Memory
from table import Array, Case, Expected


@dataclass
class Result:
    """What a case found: an error in units of what is allowed, or what is wrong."""

    case: Case
    error: float
    steps: int
    seconds: float
    wrong: str = ""

    def line(self) -> str:
        """One line for a person."""
        name = f"{self.case.kernel}, {self.case.shape}"
        if self.wrong:
            return f"{name}: WRONG: {self.wrong}"
        return f"{name}: error {self.error:.2f} of what is allowed, {self.steps} steps, {self.seconds:.2f} s"


def run_case(code: KernelObject, case: Case, compiled: dict[int, Compiled]) -> Result:
    """Runs a case. `compiled` keeps the instructions of the object that have been executed."""
    started = time.monotonic()
    result = Result(case, 0.0, 0, 0.0)
    try:
        bench = Bench(case)
        launch = Launch(code, case.kernel, bench.memory, compiled)
        result.steps = launch.run(bench.arguments, case.grid, case.threads)
        result.error = bench.compare()
    except Fault as fault:
        result.wrong = str(fault)
    result.seconds = time.monotonic() - started
    return result


class Bench:
    """The memory of a launch. Each array has a place of its own, and an access outside of all arrays fails."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.memory = Memory()
        # Kernels also write what holds no results, and must then restore it: the counters of workgroups.
        self.addresses = [self.memory.add(array.contents, writable=True) for array in case.arrays]
        self.before = self.memory.bytes.copy()
        arguments = bytearray(case.arguments + bytes(-len(case.arguments) % 8))
        for place, array, offset in case.pointers:
            struct.pack_into("<Q", arguments, place, self.addresses[array] + offset)
        self.arguments = bytes(arguments)

    def compare(self) -> float:
        """The largest error of a result, in units of what is allowed. Fails if one is larger, or if a byte was changed
        that belongs to no result."""
        changed = self.memory.bytes[: len(self.before)] != self.before
        largest = 0.0
        for array, address in zip(self.case.arrays, self.addresses, strict=True):
            if array.expected is None:
                continue
            start, size = address - BASE, len(array.contents)
            wanted, allowed = array.expected.values, array.expected.allowed
            count = len(wanted)
            found = decode(array.element, self.memory.bytes[start : start + size])
            is_result = ~np.isnan(wanted)
            changed[start : start + size].reshape(len(found), -1)[:count][is_result] = False
            errors = np.where(is_result, error(found[:count], array.expected), 0)
            worst = int(errors.argmax())
            if errors[worst] > allowed:
                raise Fault(
                    f"element {worst} is {found[worst]:.6g} instead of {wanted[worst]:.6g}; "
                    f"{int((errors > allowed).sum())} of {int(is_result.sum())} results are wrong"
                )
            if errors[worst]:
                largest = max(largest, float(errors[worst] / allowed))
        if changed.any():
            raise Fault(f"writes {self.whereabouts(int(changed.argmax()))}, which belongs to no result")
        return largest

    def whereabouts(self, byte: int) -> str:
        """Where a byte of the memory lies, in words."""
        which = max(k for k, address in enumerate(self.addresses) if address - BASE <= byte)
        return f"byte {byte - self.addresses[which] + BASE} of array {which}"


def decode(element: str, contents: Array) -> Array:
    """The numbers of an array, in fp64."""
    if element == "bf16":
        return (contents.view("<u2").astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    if element in ("f8", "f8z"):
        return values(element == "f8z")[contents]
    types = {"f32": "<f4", "f16": "<f2", "i8": "i1"}
    if element not in types:
        raise Fault(f"results of the type {element} are not known")
    return contents.view(types[element]).astype(np.float64)


def error(found: Array, expected: Expected) -> Array:
    """The relative differences from what is expected. They are infinite where a number is not finite."""
    with np.errstate(invalid="ignore"):
        errors = np.abs(found - expected.values) / np.maximum(np.abs(expected.values), expected.least)
    return np.where(np.isnan(errors), np.inf, errors)
