"""Tests of single instructions, with expected values from PTX ISA that are computed by hand."""
import unittest

import numpy as np

from arena import BASE, Arena
from cases import Fault
from listing import Kernel, parse
from runner import Launch
from threads import TYPES, Threads

Array = np.ndarray
DECLARED = "".join(
    f"\t.reg .{kind} \t%{name}<100>;\n"
    for kind, name in (("pred", "p"), ("b16", "rs"), ("b32", "r"), ("f32", "f"), ("b64", "rd"))
)


def kernel_of(body: str, threads: int = 32) -> Kernel:
    """A kernel with these instructions. It has 1024 bytes of shared memory with the name memory."""
    lines = "".join(f"\t{line.strip()}\n" for line in body.strip().splitlines())
    lines = "\t.shared .align 16 .b8 memory[1024];\n" + lines
    start = f".visible .entry test(\n\t.param .align 8 .b8 test_param_0[16]\n)\n.maxntid {threads}, 1, 1\n"
    return parse(".version 7.0\n", f"{start}{{\n{DECLARED}{lines}\tret;\n}}\n")


class Ran:
    """Instructions that have run. Registers of these names held values for each thread, or one for all."""

    def __init__(
        self, body: str, threads: int = 32, blocks: int = 1, contents: bytes = b"", is_watched: bool = False,
        **registers: object,
    ) -> None:
        self.kernel = kernel_of(body, threads)
        self.arena = Arena([np.frombuffer(contents, np.uint8)], [is_watched])
        arguments = self.arena.address(0, 0).to_bytes(8, "little") + (7).to_bytes(4, "little") + b"\xff" * 4
        self.threads = Threads(self.kernel, self.arena, arguments, (blocks, 1), threads)
        for name, values in registers.items():
            register = self.kernel.names[f"%{name}"]
            self.threads.registers[register.slot] = self.held(values, TYPES[register.kind])
        Launch(self.kernel, self.threads, {}).run()

    def held(self, values: object, dtype: np.dtype) -> Array:
        """Values for all threads as a register holds them."""
        values = np.asarray(values)
        if dtype.kind == "u":
            values = values.astype(np.int64).astype(dtype)
        return np.broadcast_to(values.astype(dtype), self.threads.count)

    def __getitem__(self, name: str) -> Array:
        return self.threads.registers[self.kernel.names[f"%{name}"].slot]


def first(body: str, **registers: object) -> object:
    """The register 9 of the result's type in the first thread."""
    ran = Ran(body, **registers)
    [name] = [name for name in ran.kernel.names if name in ("%r9", "%f9", "%rd9", "%rs9", "%p9")]
    return ran[name[1:]][0].item()


class Integers(unittest.TestCase):
    def test_shifts_by_the_width_or_more(self) -> None:
        for text, value, expected in (
            ("shl.b32 %r9, %r1, 32;", 1, 0), ("shl.b32 %r9, %r1, 31;", 3, 1 << 31), ("shr.u32 %r9, %r1, 33;", -1, 0),
            ("shr.s32 %r9, %r1, 40;", -8, 0xFFFFFFFF), ("shr.s32 %r9, %r1, 1;", -8, 0xFFFFFFFC),
        ):
            self.assertEqual(first(text, r1=value), expected, text)

    def test_products(self) -> None:
        self.assertEqual(first("mul.wide.s32 %rd9, %r1, -3;", r1=-5), 15)
        self.assertEqual(first("mul.wide.u32 %rd9, %r1, 2;", r1=-1), 0x1_FFFF_FFFE)
        self.assertEqual(first("mul.wide.u16 %r9, %rs1, %rs1;", rs1=0xFFFF), 0xFFFE0001)
        self.assertEqual(first("mul.hi.u32 %r9, %r1, -858993459;", r1=10), 8)
        self.assertEqual(first("mul.hi.u16 %rs9, %rs1, -13107;", rs1=0xFFFF), 0xCCCC)
        self.assertEqual(first("mad.lo.s32 %r9, %r1, %r1, 1;", r1=0x10001), 0x20002)
        self.assertEqual(first("mul.lo.s64 %rd9, %rd1, 3;", rd1=-1), 0xFFFF_FFFF_FFFF_FFFD)

    def test_quotients_are_rounded_towards_zero(self) -> None:
        self.assertEqual(first("div.s32 %r9, %r1, 2;", r1=-7), 0xFFFFFFFD)
        self.assertEqual(first("rem.s32 %r9, %r1, 2;", r1=-7), 0xFFFFFFFF)
        self.assertEqual(first("rem.s32 %r9, %r1, -2;", r1=7), 1)
        self.assertEqual(first("div.u32 %r9, %r1, 2;", r1=-2), 0x7FFFFFFF)
        with self.assertRaisesRegex(Fault, "divides by zero"):
            first("rem.u32 %r9, 5, %r1;", r1=0)

    def test_bytes_and_fields(self) -> None:
        self.assertEqual(first("bfe.u32 %r9, %r1, 4, 8;", r1=0x12345678), 0x67)
        self.assertEqual(first("bfe.s32 %r9, %r1, 4, 8;", r1=0x12345678), 0x67)
        self.assertEqual(first("bfe.s32 %r9, %r1, 3, 4;", r1=0x12345678), 0xFFFFFFFF)
        self.assertEqual(first("bfe.s32 %r9, %r1, 28, 8;", r1=-0x70000000), 0xFFFFFFF9)
        self.assertEqual(first("bfe.s32 %r9, %r1, 40, 8;", r1=-1), 0xFFFFFFFF)
        self.assertEqual(first("bfe.s32 %r9, %r1, 4, 0;", r1=-1), 0)
        self.assertEqual(first("prmt.b32 %r9, %r1, %r2, 29955;", r1=0x33221100, r2=0x77665544), 0x77550033)
        # The bit 8 of a selector asks for copies of the sign.
        self.assertEqual(first("prmt.b32 %r9, %r1, %r1, 0x000B;", r1=0x80000001), 0x010101FF)

    def test_signs_of_comparisons(self) -> None:
        self.assertIs(first("setp.lt.s32 %p9, %r1, 0;", r1=-1), True)
        self.assertIs(first("setp.lt.u32 %p9, %r1, 1;", r1=-1), False)
        self.assertEqual(first("selp.b32 %r9, 4, 0, %p1;", p1=True), 4)
        self.assertEqual(first("min.s32 %r9, %r1, 3;", r1=-1), 0xFFFFFFFF)
        self.assertEqual(first("min.u32 %r9, %r1, 3;", r1=-1), 3)

    def test_widths(self) -> None:
        self.assertEqual(first("cvt.s64.s32 %rd9, %r1;", r1=-2), 0xFFFF_FFFF_FFFF_FFFE)
        self.assertEqual(first("cvt.u64.u32 %rd9, %r1;", r1=-2), 0xFFFF_FFFE)
        self.assertEqual(first("cvt.u32.u64 %r9, %rd1;", rd1=0x5_0000_0003), 3)
        self.assertEqual(first("{ .reg .b32 tmp; mov.b64 {tmp, %r9}, %rd1; }", rd1=0x5_0000_0003), 5)
        with self.assertRaisesRegex(Fault, "is no s32"):
            first("add.s32 %r9, %rd1, 1;", rd1=1)


class Numbers(unittest.TestCase):
    def test_nans(self) -> None:
        nan = float("nan")
        self.assertEqual(first("max.f32 %f9, %f1, 0f40000000;", f1=nan), 2)
        self.assertEqual(first("min.f32 %f9, 0f40000000, %f1;", f1=nan), 2)
        self.assertIs(first("setp.gt.f32 %p9, %f1, 0f00000000;", f1=nan), False)
        self.assertIs(first("setp.leu.f32 %p9, %f1, 0f00000000;", f1=nan), True)

    def test_one_rounding_of_a_fused_multiplication(self) -> None:
        tiny = 2.0**-12
        self.assertEqual(first("fma.rn.f32 %f9, %f1, %f1, 0fBF800000;", f1=1 + tiny), 2 * tiny + tiny * tiny)
        self.assertEqual(first("mul.f32 %f9, %f1, %f1;", f1=1 + tiny), 1 + 2 * tiny)

    def test_denormal_numbers(self) -> None:
        self.assertEqual(first("ex2.approx.ftz.f32 %f9, %f1;", f1=-130), 0)
        self.assertEqual(first("ex2.approx.ftz.f32 %f9, %f1;", f1=-3), 0.125)
        self.assertEqual(first("rcp.approx.ftz.f32 %f9, %f1;", f1=1e-40), float("inf"))
        self.assertEqual(first("rsqrt.approx.ftz.f32 %f9, %f1;", f1=4), 0.5)
        self.assertEqual(first("add.f32 %f9, %f1, 0f00000000;", f1=2.0**-140), 2.0**-140)

    def test_numbers_of_16_bits(self) -> None:
        """The first operand becomes the upper half."""
        self.assertEqual(first("cvt.rn.f16x2.f32 %r9, %f1, %f2;", f1=1, f2=-2), 0x3C00C000)
        # 2049 lies between 2048 and 2050, and 2048 is even; 65520 is the least number that is too large.
        self.assertEqual(first("cvt.rn.f16x2.f32 %r9, %f1, %f2;", f1=2049, f2=65520), 0x68007C00)
        self.assertEqual(first("cvt.rn.bf16x2.f32 %r9, %f1, %f2;", f1=1 + 2.0**-8, f2=1 + 3 * 2.0**-8), 0x3F803F82)
        self.assertEqual(first("add.rn.f16x2 %r9, %r1, %r1;", r1=0x3C00C000), 0x4000C400)
        both = "{ .reg .f16 low, high; mov.b32 {low, high}, %r1; cvt.f32.f16 %f9, high; }"
        self.assertEqual(first(both, r1=0x3C00C000), 1)
        pack = "{ .reg .f16 low, high; cvt.rn.f16.f32 low, %f1; cvt.rn.f16.f32 high, %f2; mov.b32 %r9, {low, high}; }"
        self.assertEqual(first(pack, f1=-2, f2=1), 0x3C00C000)

    def test_numbers_of_8_bits(self) -> None:
        pack = ("{ .reg .b16 low, high; cvt.rn.satfinite.e4m3x2.f32 low, %f1, %f2; "
                "cvt.rn.satfinite.e4m3x2.f32 high, %f3, %f4; mov.b32 %r9, {low, high}; }")
        # 17 lies between 16 and 18, of which 16 is even; 2^-10 is half of the least number.
        self.assertEqual(first(pack, f1=17, f2=1, f3=1000, f4=-(2.0**-10)), 0x7E805838)
        self.assertEqual(first(pack, f1=float("nan"), f2=2.0**-9, f3=-448, f4=19), 0xFE5A7F01)


class Memory(unittest.TestCase):
    def test_arguments_and_arrays(self) -> None:
        body = """ld.param.u64 %rd1, [test_param_0]; ld.param.s32 %rd9, [test_param_0+12]; mov.u32 %r1, %tid.x;
            mul.wide.u32 %rd2, %r1, 8; cvta.to.global.u64 %rd3, %rd1; add.s64 %rd4, %rd3, %rd2;
            ld.global.v2.u32 {%r2, %r3}, [%rd4]; st.global.u16 [%rd4+2], %r3;"""
        ran = Ran(body, contents=np.arange(64, dtype="<u4").tobytes())
        np.testing.assert_array_equal(ran["r3"], np.arange(1, 64, 2))
        self.assertEqual(ran["rd9"][0], 0xFFFF_FFFF_FFFF_FFFF)
        stored = ran.arena.bytes[ran.arena.starts[0] :][:256].view("<u2")
        np.testing.assert_array_equal(stored[1::4], np.arange(1, 64, 2))

    def test_wrong_accesses(self) -> None:
        for text, offset, said in (
            ("ld.global.u32 %r9, [%rd1+-4];", 0, "reads 4 bytes .* are in no array"),
            ("st.global.v4.u32 [%rd1], {%r1, %r1, %r1, %r1};", 8, "writes 16 bytes .* misaligned"),
            ("ld.global.u32 %r9, [%rd1];", 256, "in no array, 256 bytes after the start of array 0"),
            ("ld.global.u32 %r9, [%rd1];", -BASE, "in no array"),
        ):
            with self.assertRaisesRegex(Fault, said):
                start = Arena([np.zeros(256, np.uint8)], [False]).address(0, offset)
                Ran(f"mov.u32 %r1, 0;\n{text}", contents=bytes(256), rd1=start)

    def test_only_threads_that_run_access_memory(self) -> None:
        body = """setp.gt.s32 %p1, %r1, 15; @%p1 bra $L__BB0_1; ld.global.u32 %r9, [%rd1]; $L__BB0_1: mov.u32 %r2, %r9;"""
        ran = Ran(body, contents=b"\5\0\0\0", r1=np.arange(32), r9=9, rd1=np.where(np.arange(32) < 16, BASE + 256, 0))
        np.testing.assert_array_equal(ran["r2"], [5] * 16 + [9] * 16)

    def test_atomic_additions(self) -> None:
        ran = Ran("atom.global.add.u32 %r9, [%rd1], 2;", contents=b"\1\0\0\0", rd1=BASE + 256)
        np.testing.assert_array_equal(ran["r9"], np.arange(1, 65, 2))

    def test_registers_that_were_never_written(self) -> None:
        with self.assertRaisesRegex(Fault, "never written"):
            first("mov.u32 %r9, %r1;")

    def test_what_is_not_known(self) -> None:
        for text in ("frobnicate.b32 %r9, %r1;", "setp.ne.f32 %p9, %f1, %f1;", "@%p1 mov.u32 %r9, %r1;", "bar.sync 1;"):
            with self.assertRaisesRegex(Fault, "unknown instruction|only branches"):
                first(f"mov.pred %p1, -1;\n{text}")


if __name__ == "__main__":
    unittest.main()
