"""Reads the table of launches, and of what they must compute, that the tests in Rust use too. A program writes it:

cargo run --package rukh-gpu --example kernel_cases FOLDER

cases.json lists the cases, and arrays.bin has the bytes of all arrays and results. The program's comment says more.
"""
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

Array = np.ndarray
# Where an address lies among the arguments, the number of the array that it points into, and how far from its start.
Pointer = tuple[int, int, int]


@dataclass(frozen=True)
class Expected:
    """What an array holds after the launch. The kernel must not write the elements that are NaN here."""

    values: Array  # fp64
    allowed: float  # the largest difference of an element from its value, relative to the value
    least: float  # differences are relative to this instead where the value is smaller


@dataclass(frozen=True)
class CaseArray:
    """An array in the GPU's memory."""

    contents: Array  # the bytes before the launch
    element: str  # the type of the elements, such as f16; u8 for anything but numbers
    expected: Expected | None  # None if the launch must leave the array as it was


@dataclass(frozen=True)
class Case:
    """A launch of a kernel."""

    kernel: str
    family: str  # the kernel's name without type and size
    shape: str
    cost: int  # multiply-adds, and 64 for each result
    needs_matrix_instructions: bool
    is_optional: bool  # some architectures have other kernels instead
    fp8: str | None  # the variant of e4m3 that the card must multiply
    grid: tuple[int, int]
    threads: int
    arguments: bytes
    pointers: list[Pointer]
    arrays: list[CaseArray]


def load_cases(folder: Path) -> list[Case]:
    """The cases of a folder."""
    data = np.memmap(folder / "arrays.bin", np.uint8, "r")
    return [read_case(case, data) for case in json.loads((folder / "cases.json").read_text())]


def read_case(case: dict, data: Array) -> Case:
    """A case of the list."""
    return Case(
        kernel=case["kernel"],
        family=case["family"],
        shape=case["shape"],
        cost=case["cost"],
        needs_matrix_instructions=case["needs_matrix_instructions"],
        is_optional=case["is_optional"],
        fp8=case["fp8"],
        grid=tuple(case["grid"]),
        threads=case["threads"],
        arguments=bytes.fromhex(case["arguments"]),
        pointers=[tuple(pointer) for pointer in case["pointers"]],
        arrays=[read_array(array, data) for array in case["arrays"]],
    )


def read_array(array: dict, data: Array) -> CaseArray:
    """An array of a case."""
    expected = None
    if array["expected"]:
        values = part(data, array["expected"]["start"], 8 * array["expected"]["count"])
        expected = Expected(values.view("<f8"), array["expected"]["allowed"], array["expected"]["least"])
    return CaseArray(part(data, array["start"], array["bytes"]), array["element"], expected)


def part(data: Array, start: int, size: int) -> Array:
    """Some bytes of the file."""
    if start + size > len(data):
        raise ValueError(f"arrays.bin has {len(data)} bytes, and an array needs bytes up to {start + size}")
    return data[start : start + size]
