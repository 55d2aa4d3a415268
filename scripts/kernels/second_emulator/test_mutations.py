"""Tests that the cases notice a wrong instruction: each changes one instruction of a kernel, of which a case must fail.
The cases are those of the folder that KERNEL_CASES names, or of target/kernel_cases."""
import os
import random
import re
import unittest
from functools import cache
from pathlib import Path

from bench import run_case
from checks import Options, chosen
from kernel_object import KernelObject, disassemble, find_objdump, load, offset_of, read
from launch import Compiled
from table import Case, load_cases

ROOT = Path(__file__).parents[3]
OBJECTS = ROOT / "hip/kernels/objects"
CASES = Path(os.environ.get("KERNEL_CASES", ROOT / "target/kernel_cases"))
OBJDUMP = find_objdump()


@cache
def listing(architecture: str, kernel: str) -> tuple[bytes, str]:
    """An embedded object, and the listing of one of its kernels."""
    data = read(OBJECTS / f"{architecture}.co.gz")
    return data, disassemble(data, OBJDUMP, [kernel])


@cache
def all_cases() -> list[Case]:
    """The whole table."""
    return load_cases(CASES)


def run_until_wrong(code: KernelObject, cases: list[Case], compiled: dict[int, Compiled]) -> str:
    """What is wrong in the first case that finds anything, or nothing."""
    return next((result.wrong for case in cases if (result := run_case(code, case, compiled)).wrong), "")


class Changed:
    """A kernel with instructions that can be changed. The first run, without changes, finds out what is executed."""

    def __init__(self, architecture: str, kernel: str) -> None:
        data, text = listing(architecture, kernel)
        self.code = load(architecture, data, text)
        # Some instructions of dense compute with other numbers than zeros only if there are 512 inputs.
        options = Options(CASES, OBJDUMP, cost=3_000_000)
        self.cases = [case for case in chosen(self.code, all_cases(), options) if case.kernel == kernel]
        self.compiled: dict[int, Compiled] = {}
        self.wrong = run_until_wrong(self.code, self.cases, self.compiled)

    def places(self, pattern: str) -> list[int]:
        """The executed instructions that match."""
        return [place for place in sorted(self.compiled) if re.match(pattern, self.code.program.text[place])]

    def run(self, place: int, text: str) -> str:
        """What is wrong with another instruction at a place."""
        program = self.code.program
        before, program.text[place] = program.text[place], text
        compiled = {k: v for k, v in self.compiled.items() if k != place}
        wrong = run_until_wrong(self.code, self.cases, compiled)
        program.text[place] = before
        return wrong


@unittest.skipUnless(OBJDUMP, "needs llvm-objdump")
@unittest.skipUnless(CASES.is_dir(), "needs the cases that the example kernel_cases writes")
class Mutations(unittest.TestCase):
    def changed(self, architecture: str, kernel: str) -> Changed:
        changed = Changed(architecture, kernel)
        self.assertEqual(changed.wrong, "")
        return changed

    def test_another_register(self) -> None:
        """An instruction reads the register after the one that it should read."""
        for architecture, kernel in (
            ("gfx1100", "winograd_output_f16"), ("gfx1200", "attention_f16_d16"), ("gfx90a", "dense_bf16"),
        ):
            changed = self.changed(architecture, kernel)
            choice = random.Random(kernel)
            arithmetic = r"(add|sub|mul|fma|fmac|exp|dot2|pk_\w+|cvt_\w+)_(f32|f16)"
            places = changed.places(rf"v_({arithmetic}|wmma|mfma|perm_b32)\w* \S+ -?v")
            for place in choice.sample(places, min(8, len(places))):
                text = changed.code.program.text[place]
                new = re.sub(
                    r"(, -?v\[?)(\d+)(?::(\d+))?",
                    lambda m: m[1] + str(int(m[2]) + 1) + (f":{int(m[3]) + 1}" if m[3] else ""), text, count=1,
                )
                with self.subTest(architecture=architecture, kernel=kernel, old=text, new=new):
                    self.assertNotEqual(changed.run(place, new), "")

    def test_a_wait_that_is_missing(self) -> None:
        """Without the wait, a register is used too early."""
        for architecture, kernel, wait in (
            ("gfx1100", "dense_f16", r"s_waitcnt vmcnt\(0\)$"),
            ("gfx1100", "planes_f16", r"s_waitcnt lgkmcnt\(0\)$"),
            ("gfx1200", "dense_f16", "s_wait_loadcnt 0x0"),
            ("gfx1200", "softmax_f16", "s_wait_kmcnt 0x0"),
            ("gfx90a", "softmax_f16", r"s_waitcnt lgkmcnt\(0\)$"),
        ):
            changed = self.changed(architecture, kernel)
            with self.subTest(architecture=architecture, wait=wait):
                place = changed.places(wait)[0]
                self.assertRegex(changed.run(place, "s_nop 0"), "before waiting for its (vm|km|ds) load")

    def test_a_wait_before_a_barrier_that_is_missing(self) -> None:
        for architecture, kernel, wait in (
            ("gfx1100", "attention_f16_d16", r"s_waitcnt lgkmcnt\(0\)$"),
            ("gfx1200", "attention_f16_d16", "s_wait_dscnt 0x0"),
            ("gfx942", "planes_f32", r"s_waitcnt lgkmcnt\(0\)$"),
        ):
            changed = self.changed(architecture, kernel)
            with self.subTest(architecture):
                barrier = changed.places("s_barrier")[-1]
                place = max(place for place in changed.places(wait) if place < barrier)
                self.assertRegex(changed.run(place, "s_nop 0"), "reaches a barrier")

    def test_a_barrier_that_is_missing(self) -> None:
        for architecture, barrier in (("gfx1100", "s_barrier"), ("gfx1200", "s_barrier_wait"), ("gfx942", "s_barrier")):
            changed = self.changed(architecture, "planes_f32")
            with self.subTest(architecture):
                place = changed.places(barrier)[0]
                self.assertRegex(changed.run(place, "s_nop 0"), "without a barrier")

    def test_a_wrong_address(self) -> None:
        changed = self.changed("gfx1100", "activation_f32")
        place = changed.places("global_store")[0]
        text = changed.code.program.text[place].split(" offset")[0]
        self.assertRegex(changed.run(place, f"{text} offset:-4096"), "lie in no buffer")

    def test_an_unknown_instruction(self) -> None:
        changed = self.changed("gfx1100", "activation_f32")
        place = changed.places("v_")[0]
        self.assertRegex(changed.run(place, "v_frobnicate_b32 v1, v2"), "unknown instruction")

    def test_one_bit_of_an_object(self) -> None:
        """In the file, a bit of the number of a matrix product's first register is flipped. The disassembler then reads
        the file again."""
        data, text = listing("gfx1100", "attention_f16_d16")
        found = re.search(r"v_wmma_f32_16x16x16_f16 v\[\d+:\d+\], v\[\d+:\d+\].*// ([0-9A-F]+):", text)
        broken = bytearray(data)
        broken[offset_of(data, int(found.group(1), 16)) + 4] ^= 8
        code = load("gfx1100", bytes(broken), disassemble(bytes(broken), OBJDUMP, ["attention_f16_d16"]))
        cases = [case for case in all_cases() if case.kernel == "attention_f16_d16"]
        self.assertNotEqual(run_until_wrong(code, cases[:1], {}), "")


if __name__ == "__main__":
    unittest.main()
