"""Runs all checks on one object."""
import time
from dataclasses import dataclass
from pathlib import Path

from bench import Bench
from cases import Case, all_cases
from fault import Fault
from kernel_object import KernelObject, architecture_of, disassemble, load, read
from launch import Compiled


@dataclass
class Result:
    """What a check found: an error in units of what is allowed, or what is wrong."""

    case: Case
    error: float
    steps: int
    seconds: float
    wrong: str = ""

    def line(self) -> str:
        """One line for a person."""
        name = f"{self.case.kernel} {self.case.label}".strip()
        if self.wrong:
            return f"{name}: WRONG: {self.wrong}"
        return f"{name}: error {self.error:.2f} of the tolerance, {self.steps} steps, {self.seconds:.2f} s"


def run_case(code: KernelObject, case: Case, compiled: dict[int, Compiled]) -> Result:
    """Runs one check."""
    started = time.monotonic()
    bench = Bench(code, case.kernel, case.format, compiled)
    wrong = ""
    try:
        if case.kernel not in code.kernels:
            raise Fault("the object does not contain this kernel")
        case.run(bench)
    except Fault as fault:
        wrong = str(fault)
    return Result(case, bench.error, bench.steps, time.monotonic() - started, wrong)


def applicable(code: KernelObject, cases: list[Case]) -> list[Case]:
    """The checks for this object: without a matrix instruction it has none of the kernels that need one, and some kernels
    have as many threads as suit the number of lanes. Of a kernel and the other one that may take its place, it has one."""
    has_matrix = any(case.matrix and case.kernel in code.kernels for case in cases)
    lanes = {kernel.lanes for kernel in code.kernels.values()}

    def is_there(case: Case) -> bool:
        has_lanes = case.lanes is None or case.lanes in lanes
        return (has_matrix or not case.matrix) and has_lanes and case.other not in code.kernels

    return [case for case in cases if is_there(case)]


def run_all(code: KernelObject, only: str = "") -> list[Result]:
    """Runs the checks whose kernel's name contains `only`. A kernel that no check runs is a failure too."""
    cases = all_cases()
    compiled: dict[int, Compiled] = {}
    results = [run_case(code, case, compiled) for case in applicable(code, cases) if only in case.kernel]
    if not only:
        covered = {case.kernel for case in cases}
        # This emulator does not have the instructions for e4m3. The first one has, and tests them against a model.
        covered |= {kernel for kernel in code.kernels if "_fp8_" in kernel}
        for kernel in sorted(set(code.kernels) - covered):
            case = Case(kernel, "", cases[0].format, lambda bench: None)
            results.append(Result(case, 0.0, 0, 0.0, "no check runs this kernel"))
    return results


def check_object(task: tuple[Path, str, str, bool]) -> tuple[str, bool]:
    """A text about the checks of one object, and whether all passed."""
    path, objdump, only, verbose = task
    started = time.monotonic()
    data = read(path)
    architecture = architecture_of(path)
    results = run_all(load(architecture, data, disassemble(data, objdump)), only)
    wrong = [result for result in results if result.wrong]
    worst = max((result.error for result in results), default=0.0)
    lines = [f"  {result.line()}" for result in (results if verbose else wrong)]
    seconds = time.monotonic() - started
    lines.insert(
        0, f"{architecture}: {len(results)} checks, {len(wrong)} wrong, "
        f"largest error {worst:.2f} of the tolerance, {seconds:.1f} s"
    )
    return "\n".join(lines), bool(results) and not wrong
