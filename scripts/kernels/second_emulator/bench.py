"""Runs a case: puts its arrays into the memory, launches the kernel, and compares the memory with what it must be."""
import struct
import time

from fault import Fault
from kernel_object import KernelObject
from launch import Compiled, Launch
from memory import BASE, Memory
from results import Result, largest_error
from table import Case


def run_case(code: KernelObject, case: Case, compiled: dict[int, Compiled]) -> Result:
    """Runs a case. `compiled` keeps the instructions of the object that have been executed."""
    started = time.monotonic()
    result = Result(case)
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
        """The largest error of a result, in units of what is allowed. results.py says when it fails."""
        before = self.before
        starts = [address - BASE for address in self.addresses]
        return largest_error(self.case.arrays, starts, before, self.memory.bytes[: len(before)])
