"""Compares the memory after a launch with what it must be, and says what a case found. The emulator of PTX uses it, too."""
from dataclasses import dataclass

import numpy as np

from elements import decode
from fault import Fault
from table import Array, Case, CaseArray, Expected


@dataclass
class Result:
    """What a case found: an error in units of what is allowed, or what is wrong."""

    case: Case
    error: float = 0.0
    steps: int = 0
    seconds: float = 0.0
    wrong: str = ""

    def line(self) -> str:
        """One line for a person."""
        name = f"{self.case.kernel}, {self.case.shape}"
        if self.wrong:
            return f"{name}: WRONG: {self.wrong}"
        return f"{name}: error {self.error:.2f} of what is allowed, {self.steps} steps, {self.seconds:.2f} s"


def largest_error(arrays: list[CaseArray], starts: list[int], before: Array, after: Array) -> float:
    """The largest error of a result, in units of what is allowed. Fails if one is larger, or if a byte was changed that
    belongs to no result. `starts` says where the arrays begin in the memory, whose bytes are given."""
    changed = after != before
    largest = 0.0
    for array, start in zip(arrays, starts, strict=True):
        if array.expected is None:
            continue
        size = len(array.contents)
        wanted, allowed = array.expected.values, array.expected.allowed
        count = len(wanted)
        found = decode(array.element, after[start : start + size])
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
        raise Fault(f"writes {whereabouts(starts, int(changed.argmax()))}, which belongs to no result")
    return largest


def whereabouts(starts: list[int], byte: int) -> str:
    """Where a byte of the memory lies, in words."""
    before = [k for k, start in enumerate(starts) if start <= byte]
    return f"byte {byte - starts[before[-1]]} of array {before[-1]}" if before else f"byte {byte} before all arrays"


def error(found: Array, expected: Expected) -> Array:
    """The relative differences from what is expected. They are infinite where a number is not finite."""
    with np.errstate(invalid="ignore"):
        errors = np.abs(found - expected.values) / np.maximum(np.abs(expected.values), expected.least)
    return np.where(np.isnan(errors), np.inf, errors)
