"""Runs the cases on the kernels of PTX files."""
import struct
import time
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from arena import Arena
from cases import Case, Fault, Result, largest_error, load_cases
from listing import Kernel, parse, read, split
from runner import Compiled, Launch
from threads import Threads

# Of a kernel, cases with more multiply-adds or elements are left out unless all have more.
COST = 3_000_000


@dataclass
class Report:
    """What the cases found in a kernel."""

    target: str
    kernel: str
    results: list[Result] = field(default_factory=list)
    left_out: int = 0  # cases that cost too much
    executed: int = 0  # instructions that ran at least once
    instructions: int = 0
    wrong: str = ""  # what is wrong with the kernel as a whole

    def failures(self) -> list[str]:
        """Lines about everything that is wrong."""
        lines = [result.line() for result in self.results if result.wrong]
        return lines + ([f"{self.kernel}: WRONG: {self.wrong}"] if self.wrong else [])

    def seconds(self) -> float:
        """The time of all cases."""
        return sum(result.seconds for result in self.results)


@cache
def text_of(path: Path) -> tuple[str, dict[str, str]]:
    """The head of a file, and its entry points."""
    return split(read(path))


@cache
def table(folder: Path) -> dict[str, list[Case]]:
    """The cases by kernel. Of the two variants of e4m3, these cards have that of OCP."""
    found: dict[str, list[Case]] = {}
    for case in load_cases(folder):
        if case.fp8 in (None, "ocp"):
            found.setdefault(case.kernel, []).append(case)
    return found


def run_case(kernel: Kernel, case: Case, compiled: dict[int, Compiled]) -> Result:
    """Runs a case. `compiled` keeps the instructions of the kernel that have been executed."""
    started = time.monotonic()
    result = Result(case)
    try:
        if len(case.arguments) != kernel.parameter_bytes:
            raise Fault(f"takes {kernel.parameter_bytes} bytes of arguments, and gets {len(case.arguments)}")
        if case.threads != kernel.threads:
            raise Fault(f"is made for {kernel.threads} threads, and gets {case.threads}")
        arena = Arena([array.contents for array in case.arrays], [array.expected is not None for array in case.arrays])
        arguments = bytearray(case.arguments)
        for place, array, offset in case.pointers:
            struct.pack_into("<Q", arguments, place, arena.address(array, offset))
        before = arena.bytes.copy()
        launch = Launch(kernel, Threads(kernel, arena, bytes(arguments), case.grid, case.threads), compiled)
        try:
            launch.run()
        finally:
            result.steps = launch.steps
        result.error = largest_error(case.arrays, arena.starts, before, arena.bytes)
    except Fault as fault:
        result.wrong = str(fault)
    result.seconds = time.monotonic() - started
    return result


def check_kernel(task: tuple[Path, str, Path, int]) -> Report:
    """Runs the cases of one kernel of a file: those that cost little, or else the one that costs least."""
    path, name, folder, cost = task
    report = Report(path.name.split(".")[0], name)
    cases = table(folder).get(name, [])
    if not cases:
        report.wrong = "no case runs it"
        return report
    head, entries = text_of(path)
    try:
        kernel = parse(head, entries[name])
    except Fault as fault:
        report.wrong = str(fault)
        return report
    most = max(cost, min(case.cost for case in cases))
    compiled: dict[int, Compiled] = {}
    report.results = [run_case(kernel, case, compiled) for case in cases if case.cost <= most]
    report.left_out = len(cases) - len(report.results)
    report.executed, report.instructions = len(compiled), len(kernel.program)
    return report


def summary(target: str, reports: list[Report]) -> str:
    """A line about a target, and others about what is wrong."""
    results = [result for report in reports for result in report.results]
    failures = [line for report in reports for line in report.failures()]
    slowest = max(reports, key=Report.seconds)
    lines = [
        f"{target}: {sum(not result.wrong for result in results)} of {len(results)} cases of {len(reports)} kernels "
        f"right, {sum(report.left_out for report in reports)} too large to run, "
        f"largest error {max((result.error for result in results), default=0):.2f} of what is allowed, "
        f"{sum(report.executed for report in reports)} of {sum(report.instructions for report in reports)} instructions "
        f"executed, {sum(report.seconds() for report in reports):.1f} s, "
        f"of which {slowest.kernel} {slowest.seconds():.1f} s"
    ]
    return "\n".join([*lines, *(f"  {line}" for line in failures)])
