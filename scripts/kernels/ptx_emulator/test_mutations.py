"""Tests that the cases notice a wrong instruction: each changes one line of a kernel's text, of which a case must fail.
The cases are those of the folder that KERNEL_CASES names, or of target/kernel_cases."""
import os
import random
import re
import unittest
from collections.abc import Callable
from functools import cache
from pathlib import Path

from cases import Fault
from listing import parse
from runner import Compiled
from targets import run_case, table, text_of

ROOT = Path(__file__).parents[3]
OBJECTS = ROOT / "hip/kernels/objects"
CASES = Path(os.environ.get("KERNEL_CASES", ROOT / "target/kernel_cases"))
# Floating-point arithmetic and matrix instructions: another source register makes the result wrong. Others may not:
# a maximum or the sign of a number that the cases do not have.
ARITHMETIC = r"(add|sub|mul|fma\.rn)\.f32|mma\.sync|cvt\.rn\.b?f16x2|shfl|prmt"

PRODUCTS = r"fma\.rn\.f32|mma\.sync|cvt\.rn\.f16x2"


class Changed:
    """A kernel whose lines can be changed. The first run, without changes, finds out what is executed."""

    def __init__(self, target: str, kernel: str) -> None:
        self.head, entries = text_of(OBJECTS / f"{target}.ptx.gz")
        self.entry = entries[kernel]
        # What goes wrong often shows in small cases.
        self.cases = sorted(table(CASES)[kernel], key=lambda case: case.cost)
        self.parsed = parse(self.head, self.entry)
        self.compiled: dict[int, Compiled] = {}
        self.wrong = self.run_until_wrong(self.entry, self.compiled)

    def run_until_wrong(self, entry: str, compiled: dict[int, Compiled]) -> str:
        """What is wrong in the first case that finds anything, or nothing."""
        try:
            kernel = parse(self.head, entry)
        except Fault as fault:
            return str(fault)
        return next((result.wrong for case in self.cases if (result := run_case(kernel, case, compiled)).wrong), "")

    def lines(self, pattern: str) -> list[int]:
        """The lines of executed instructions that match."""
        program = self.parsed.program
        return sorted({program[k].line for k in self.compiled if re.match(pattern, program[k].text)})

    def run(self, line: int, change: Callable[[str], str]) -> tuple[str, str]:
        """A line after a change, and what is wrong then."""
        lines = self.entry.splitlines(keepends=True)
        before, lines[line] = lines[line], change(lines[line])
        if before == lines[line]:
            raise ValueError(f"{before.strip()}: the line is not changed")
        return lines[line].strip(), self.run_until_wrong("".join(lines), {})


@cache
def changed(target: str, kernel: str) -> Changed:
    """A kernel that is right without changes."""
    found = Changed(target, kernel)
    if found.wrong:
        raise AssertionError(found.wrong)
    return found


def another_register(line: str) -> str:
    """The last source register is that with the next number of those of the same type."""
    return re.sub(r"(%[a-z]+)(\d+)(?!.*%[a-z]+\d)", lambda m: f"{m[1]}{int(m[2]) - 1}", line, count=1)


def without(line: str) -> str:
    """Nothing in place of an instruction."""
    return "\n"


@unittest.skipUnless(CASES.is_dir(), "needs the cases that the example kernel_cases writes")
class Mutations(unittest.TestCase):
    def test_another_register(self) -> None:
        # The term that the multiplications of gemm_bytes compute is smaller than what the cases allow.
        for target, kernel in (
            ("sm_61", "winograd_output_f32"), ("sm_75", "attention_f16_d16"), ("sm_75", "gemm_bytes_f16_64x64_128"),
            ("sm_80", "dense_bf16"), ("sm_80", "gemm_f16_16x32_32"), ("sm_89", "gemm_fp8_f16_64x64_128"),
        ):
            code = changed(target, kernel)
            lines = code.lines(PRODUCTS if "bytes" in kernel else ARITHMETIC)
            for line in random.Random(kernel).sample(lines, min(8, len(lines))):
                text, wrong = code.run(line, another_register)
                with self.subTest(target=target, kernel=kernel, line=text):
                    self.assertNotEqual(wrong, "")

    def test_a_wait_for_copies_that_is_missing_or_too_short(self) -> None:
        for target, kernel in (
            ("sm_80", "gemm_f16_16x32_32"), ("sm_80", "gemm_bf16_64x64_128"), ("sm_89", "gemm_fp8_f16_64x64_128"),
        ):
            code = changed(target, kernel)
            for line in code.lines("cp.async.wait_group"):
                longer = lambda text: re.sub(r"\d+;", lambda m: f"{int(m[0][:-1]) + 1};", text)  # noqa: E731
                for change in (without, longer):
                    text, wrong = code.run(line, change)
                    with self.subTest(kernel=kernel, line=line, text=text):
                        self.assertRegex(wrong, "without waiting for it")

    def test_a_barrier_that_is_missing(self) -> None:
        for target, kernel in (
            ("sm_61", "planes_f32"), ("sm_75", "attention_f16_d32"), ("sm_75", "gemm_f16_64x64_128"),
            ("sm_80", "gemm_f16_64x64_128"), ("sm_80", "layer_norm_f32_w768"),
        ):
            code = changed(target, kernel)
            # Behind the steps of a GEMM, the barrier only waits for loads that are not used.
            for line in code.lines("bar.sync")[: 2 if "gemm" in kernel else None]:
                _, wrong = code.run(line, without)
                with self.subTest(target=target, kernel=kernel, line=line):
                    self.assertRegex(wrong, "without a barrier|without waiting for it|nothing has written|several threads")

    def test_a_fence_or_barrier_between_blocks_that_is_missing(self) -> None:
        """Blocks of a convolution wait for what others have written: before and after the work there is a barrier and a
        fence."""
        for target, kernel in (("sm_61", "convolution_f32_64x64"), ("sm_80", "convolution_f16_64x32")):
            code = changed(target, kernel)
            fences = code.lines("membar")
            self.assertEqual(len(fences), 3)
            barriers = [line for line in code.lines("bar.sync") if {line - 1, line + 1} & set(fences)]
            self.assertEqual(len(barriers), 3)
            for line in fences + barriers:
                _, wrong = code.run(line, without)
                with self.subTest(target=target, line=line):
                    self.assertRegex(wrong, "without a barrier or fences")

    def test_a_wrong_index(self) -> None:
        factors = r"(\{%r\d+, %r\d+, %r\d+, %r\d+\}), \{(%r\d+), (%r\d+)\}"
        for target, kernel, pattern, old, new in (
            ("sm_80", "gemm_f16_64x64_128", r"ldmatrix", r"%r(\d+), (%r\d+), (%r\d+)\}", r"%r\1, \3, \2}"),
            ("sm_75", "gemm_f16_64x64_128", r"ld\.shared\.v4", r"(%\w+), (%\w+)\}", r"\2, \1}"),
            ("sm_80", "layer_norm_f32_w768", r"shfl.*, 8, 31", ", 8, 31", ", 16, 31"),
            ("sm_80", "attention_bf16_d32", r"mma", factors, r"\1, {\3, \2}"),
        ):
            code = changed(target, kernel)
            wrongs = [code.run(line, lambda text: re.sub(old, new, text))[1] for line in code.lines(pattern)[:4]]
            with self.subTest(target=target, kernel=kernel, pattern=pattern):
                self.assertNotIn("", wrongs)

    def test_a_wrong_address(self) -> None:
        code = changed("sm_61", "activation_f32")
        line = code.lines(r"st\.global")[0]
        _, wrong = code.run(line, lambda text: re.sub(r"\[(%rd\d+)(\+\d+)?\]", r"[\1+-4096]", text))
        self.assertRegex(wrong, "in no array|belongs to no result")

    def test_an_unknown_instruction(self) -> None:
        code = changed("sm_61", "activation_f32")
        _, wrong = code.run(code.lines(r"add\.f32")[0], lambda text: text.replace("add.f32", "frobnicate.f32"))
        self.assertRegex(wrong, "frobnicate.f32.*unknown instruction")


if __name__ == "__main__":
    unittest.main()
