"""Runs the cases on one object."""
import gc
import time
from dataclasses import dataclass, field
from pathlib import Path

from bench import run_case
from e4m3 import is_old
from kernel_object import KernelObject, architecture_of, disassemble, load, read
from launch import Compiled
from results import Result
from table import Case, load_cases


# Of a kernel, cases with more multiply-adds or elements are left out unless all have more.
COST = 600_000


@dataclass(frozen=True)
class Options:
    """What the command line asks for."""

    cases: Path  # the folder with the table of cases
    objdump: str
    only: str = ""  # a part of the kernels' names
    cost: int = COST
    verbose: bool = False


@dataclass
class Report:
    """What the cases found in an object."""

    results: list[Result] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)  # what is wrong with the object as a whole
    executed: int = 0  # instructions of the object that ran at least once
    instructions: int = 0  # of the kernels that ran


def chosen(code: KernelObject, cases: list[Case], options: Options) -> list[Case]:
    """The cases to run: of each kernel those that cost little, or else the one that costs least. Cases for e4m3 are
    there in two variants, of which an architecture has one."""
    variants = (None, "fnuz" if is_old(code.family) else "ocp")
    there = [case for case in cases if case.kernel in code.kernels and case.fp8 in variants]
    there = [case for case in there if options.only in case.kernel]
    least: dict[str, int] = {}
    for case in there:
        least[case.kernel] = min(case.cost, least.get(case.kernel, case.cost))
    return [case for case in there if case.cost <= max(options.cost, least[case.kernel])]


def missing(code: KernelObject, cases: list[Case]) -> list[str]:
    """The kernels that the object should have and does not have. Without a matrix instruction it has none of those that
    need one. Of a family of which architectures have different kernels, it has one at least. e4m3 need not be there."""
    has_matrix = any(case.needs_matrix_instructions and case.kernel in code.kernels for case in cases)
    needed = [case for case in cases if not case.fp8 and (has_matrix or not case.needs_matrix_instructions)]
    families = {case.family for case in needed if case.kernel in code.kernels}
    absent = {case.kernel for case in needed if not case.is_optional} - set(code.kernels)
    absent |= {case.family for case in needed} - families
    return sorted(absent)


def run_all(code: KernelObject, cases: list[Case], options: Options) -> Report:
    """Runs the chosen cases. A kernel that should be there and is not is a failure, and so is one without a case."""
    compiled: dict[int, Compiled] = {}
    report = Report()
    for case in chosen(code, cases, options):
        report.results.append(run_case(code, case, compiled))
    ran = {result.case.kernel for result in report.results}
    if not options.only:
        report.wrong += [f"the object does not contain {name}" for name in missing(code, cases)]
        report.wrong += [f"no case runs {name}" for name in sorted(set(code.kernels) - ran)]
    report.executed = len(compiled)
    report.instructions = code.size_of(ran)
    return report


def check_object(task: tuple[Path, Options]) -> tuple[str, bool]:
    """A text about the cases of one object, and whether all passed."""
    path, options = task
    started = time.monotonic()
    # Functions and waves form no cycles. To search the many that there are for some takes a fifth of the time.
    gc.disable()
    data = read(path)
    code = load(architecture_of(path), data, disassemble(data, options.objdump))
    report = run_all(code, load_cases(options.cases), options)
    results = report.results
    wrong = [result for result in results if result.wrong]
    worst = max((result.error for result in results), default=0.0)
    lines = [
        f"{code.architecture}: {len(results)} cases of {len({result.case.kernel for result in results})} kernels, "
        f"{len(wrong) + len(report.wrong)} wrong, largest error {worst:.2f} of what is allowed, "
        f"{report.executed} of {report.instructions} instructions executed, {time.monotonic() - started:.1f} s"
    ]
    lines += [f"  {result.line()}" for result in (results if options.verbose else wrong)]
    lines += [f"  WRONG: {text}" for text in report.wrong]
    return "\n".join(lines), bool(results) and not wrong and not report.wrong
