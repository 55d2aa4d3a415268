"""Tests of instructions of whole warps, of shared memory, barriers and asynchronous copies, and of branches."""
import unittest
from collections.abc import Callable

import numpy as np

from arena import BASE
from cases import Fault
from conversions import E4M3
from test_instructions import Array, Ran

LANES = np.arange(32)
GROUP, PART = LANES // 4, LANES % 4
# Where element i of a lane lies in A and in B: (row, column), as in the formulas of PTX ISA.
Place = Callable[[int], tuple[Array, Array]]
PLACES: dict[str, tuple[int, int, Place, Place]] = {
    "m16n8k8.row.col.f32.f16.f16.f32": (
        16, 8,
        lambda i: (GROUP + (8 if i >= 2 else 0), PART * 2 + (i & 1)),
        lambda i: (PART * 2 + i, GROUP),
    ),
    "m16n8k16.row.col.f32.f16.f16.f32": (
        16, 16,
        lambda i: (GROUP + (0 if i < 2 or 4 <= i < 6 else 8), PART * 2 + (i & 1) + (8 if i >= 4 else 0)),
        lambda i: (PART * 2 + (i & 1) + (8 if i >= 2 else 0), GROUP),
    ),
    "m8n8k16.row.col.s32.s8.s8.s32": (
        8, 16,
        lambda i: (GROUP, PART * 4 + (i & 3)),
        lambda i: (PART * 4 + (i & 3), GROUP),
    ),
    "m16n8k32.row.col.s32.s8.s8.s32": (
        16, 32,
        lambda i: (GROUP + (0 if i < 4 or 8 <= i < 12 else 8), PART * 4 + (i & 3) + (16 if i >= 8 else 0)),
        lambda i: (PART * 4 + (i & 3) + (16 if i >= 4 else 0), GROUP),
    ),
}
PLACES["m16n8k16.row.col.f32.bf16.bf16.f32"] = PLACES["m16n8k16.row.col.f32.f16.f16.f32"]
PLACES["m16n8k32.row.col.f32.e4m3.e4m3.f32"] = PLACES["m16n8k32.row.col.s32.s8.s8.s32"]


def sum_place(i: int) -> tuple[Array, Array]:
    """Where element i of the sums lies."""
    return GROUP + (8 if i >= 2 else 0), PART * 2 + (i & 1)


def encoded(matrix: Array, kind: str) -> Array:
    """The bits of small integers in a type."""
    if kind == "f16":
        return matrix.astype(np.float16).view(np.uint16)
    if kind == "bf16":
        return (matrix.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if kind == "s8":
        return matrix.astype(np.int8).view(np.uint8)
    return np.array([[int(np.flatnonzero(E4M3 == value)[0]) for value in row] for row in matrix], np.uint8)


def fragments(matrix: Array, kind: str, place: Place) -> list[Array]:
    """The registers of all lanes for a matrix."""
    codes = encoded(matrix, kind)
    count = codes.size // 32
    elements = np.stack([codes[place(i)] for i in range(count)], -1)
    words = elements.copy().view(np.uint32)
    return [words[:, k] for k in range(words.shape[1])]


class Products(unittest.TestCase):
    def test_all_shapes(self) -> None:
        choice = np.random.default_rng(1)
        for name, (rows, depth, place_a, place_b) in PLACES.items():
            kind = name.split(".")[4]
            a, b, c = (choice.integers(-8, 9, shape) for shape in ((rows, depth), (depth, 8), (rows, 8)))
            letter = "r" if kind == "s8" else "f"
            registers: dict[str, object] = {}
            operands = []
            for first, values, prefix in (
                (50, [c[sum_place(i)] for i in range(rows * 8 // 32)], letter),
                (10, fragments(a, kind, place_a), "r"), (20, fragments(b, kind, place_b), "r"),
            ):
                names = [f"{prefix}{first + k}" for k in range(len(values))]
                registers |= dict(zip(names, values, strict=True))
                operands.append("{" + ", ".join(f"%{name}" for name in names) + "}")
            to = [f"{letter}{60 + k}" for k in range(rows * 8 // 32)]
            operands.insert(0, "{" + ", ".join(f"%{name}" for name in to) + "}")
            ran = Ran(f"mma.sync.aligned.{name} {operands[0]}, {operands[2]}, {operands[3]}, {operands[1]};", **registers)
            product = np.matmul(a, b) + c
            for i, register in enumerate(to):
                found = ran[register].view(np.int32) if kind == "s8" else ran[register]
                np.testing.assert_array_equal(found, product[sum_place(i)], name)

    def test_sums_of_integers_wrap(self) -> None:
        ones = {f"r{k}": 0x01010101 for k in (1, 2)}
        product = "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r3, %r4}, {%r1}, {%r2}, {%r5, %r5};"
        ran = Ran(product, r5=0x7FFFFFFF, **ones)
        self.assertEqual(ran["r3"][0], 0x8000000F)


class Warps(unittest.TestCase):
    def test_exchange(self) -> None:
        ran = Ran("shfl.sync.bfly.b32 %r9, %r1, 4, 31, -1;", threads=64, r1=np.arange(64))
        np.testing.assert_array_equal(ran["r9"], np.arange(64) ^ 4)

    def test_lanes_wait_for_each_other(self) -> None:
        """Lanes that jump to the exchange wait for those that still compute, wherever these are in the program."""
        body = """setp.lt.s32 %p1, %r1, 9; mov.u32 %r2, 1; @%p1 bra $L__BB0_2; bra.uni $L__BB0_1;
            $L__BB0_2: shfl.sync.bfly.b32 %r9, %r2, 16, 31, -1; bra.uni $L__BB0_3;
            $L__BB0_1: mov.u32 %r2, 2; bra.uni $L__BB0_2;
            $L__BB0_3: mov.u32 %r3, %r9;"""
        np.testing.assert_array_equal(Ran(body, r1=LANES)["r3"], [2] * 16 + [1] * 9 + [2] * 7)

    def test_lanes_that_never_come(self) -> None:
        body = """setp.lt.s32 %p1, %r1, 9; @%p1 bra $L__BB0_2; shfl.sync.bfly.b32 %r9, %r1, 16, 31, -1;
            $L__BB0_2: mov.u32 %r2, 0;"""
        with self.assertRaisesRegex(Fault, "lanes of the warp never come"):
            Ran(body, r1=LANES)

    def test_matrices_from_shared_memory(self) -> None:
        """Four of 8 x 8: word w of row r of matrix k is 32k + 4r + w."""
        body = """st.shared.v4.u32 [%rd1], {%r1, %r2, %r3, %r4}; bar.sync 0;
            ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r5, %r6, %r7, %r8}, [%r9];"""
        words = {f"r{1 + k}": 4 * LANES + k for k in range(4)}
        ran = Ran(body, rd1=64 + 16 * LANES, r9=64 + 16 * LANES, **words)
        for k in range(4):
            np.testing.assert_array_equal(ran[f"r{5 + k}"], 32 * k + LANES)

    def test_branches(self) -> None:
        """Each thread runs its own number of steps."""
        body = """mov.u32 %r2, 0; $L__BB0_1: add.s32 %r2, %r2, 3; add.s32 %r1, %r1, -1; setp.gt.s32 %p1, %r1, 0;
            @%p1 bra $L__BB0_1; mov.u32 %r3, %r2;"""
        np.testing.assert_array_equal(Ran(body, r1=LANES)["r3"], 3 * np.maximum(LANES, 1))

    def test_blocks_that_wait_for_another(self) -> None:
        """The first block waits for the counter that the second increments."""
        wait = """mov.u32 %r1, %ctaid.x; setp.eq.s32 %p1, %r1, 1; @%p1 bra $L__BB0_2;
            $L__BB0_1: ld.volatile.global.u32 %r2, [%rd1]; setp.lt.u32 %p2, %r2, 32; @%p2 bra $L__BB0_1;
            bar.sync 0; bra.uni $L__BB0_3;
            $L__BB0_2: bar.sync 0; {} $L__BB0_3: mov.u32 %r3, 0;"""
        add = "atom.global.add.u32 %r4, [%rd1], 1;"
        ran = Ran(wait.replace("{}", add), blocks=2, contents=bytes(4), rd1=BASE + 256)
        np.testing.assert_array_equal(ran["r2"][:32], 32)
        with self.assertRaisesRegex(Fault, "wait for another block for ever"):
            Ran(wait.replace("{}", ""), blocks=2, contents=bytes(4), rd1=BASE + 256)


    def test_order_in_global_memory(self) -> None:
        """The second block reads what the first has written, when the first has incremented the counter."""
        body = """mov.u32 %r1, %ctaid.x; setp.eq.s32 %p1, %r1, 1; @%p1 bra $L__BB0_1; mov.u32 %r2, 5;
            st.global.u32 [%rd2], %r2; FIRST atom.global.add.u32 %r4, [%rd1], 1; bra.uni $L__BB0_3;
            $L__BB0_1: ld.volatile.global.u32 %r2, [%rd1]; setp.lt.u32 %p2, %r2, 32; @%p2 bra $L__BB0_1;
            SECOND ld.global.u32 %r3, [%rd3]; $L__BB0_3: mov.u32 %r5, 0;"""
        number = np.arange(64)
        places = {"rd1": BASE + 256, "rd2": BASE + 260 + 4 * number, "rd3": BASE + 260 + 4 * (number % 32)}

        def run(first: str, second: str) -> Ran:
            text = body.replace("FIRST", first).replace("SECOND", second)
            return Ran(text, blocks=2, contents=bytes(260), is_watched=True, **places)

        fence, barrier = "membar.gl;", "bar.sync 0;"
        np.testing.assert_array_equal(run(fence + barrier, barrier + fence)["r3"][32:], 5)
        for first, second in (
            ("", ""), (fence + barrier, ""), ("", barrier + fence), (fence, barrier + fence), (fence + barrier, fence),
            (barrier + fence, barrier + fence), (fence + barrier, barrier), (fence + barrier, fence + barrier),
        ):
            with self.assertRaisesRegex(Fault, "reads what another thread has written"):
                run(first, second)

    def test_several_threads_that_write_the_same_place(self) -> None:
        with self.assertRaisesRegex(Fault, "several threads write the same place"):
            Ran("mov.u32 %r1, 0; st.global.u32 [%rd1], %r1;", contents=bytes(4), is_watched=True, rd1=BASE + 256)


class Shared(unittest.TestCase):
    def test_races(self) -> None:
        own, other = "st.shared.u32 [%rd1], %r1;", "ld.shared.u32 %r2, [%rd2];"
        places = {"rd1": 64 + 4 * np.arange(64), "rd2": 64 + 4 * (np.arange(64) ^ 1), "r1": np.arange(64)}
        ran = Ran(f"{own}\nbar.sync 0;\n{other}", threads=64, **places)
        np.testing.assert_array_equal(ran["r2"], np.arange(64) ^ 1)
        Ran(f"{own}\n{own}\nld.shared.u32 %r2, [%rd1];\nmov.u64 %rd2, %rd1;", threads=64, **places)
        for body, said in (
            (f"{own}\n{other}", "another thread has written"),
            (f"{own}\nbar.sync 0;\n{other}\n{own}", "another thread has read"),
            (f"{own}\nst.shared.u32 [%rd2], %r1;", "another thread has written"),
            (f"st.shared.u32 [memory], %r1;\nmov.u64 %rd1, %rd2;", "several threads write"),
            (f"{other}\n{own}", "nothing has written"),
        ):
            with self.assertRaisesRegex(Fault, said):
                Ran(body, threads=64, **places)

    def test_a_word_that_several_threads_have_read(self) -> None:
        body = """st.shared.u32 [%rd1], %r1; bar.sync 0; ld.shared.u32 %r2, [memory]; setp.gt.s32 %p1, %r1, 0;
            @%p1 bra $L__BB0_1; st.shared.u32 [memory], %r1; $L__BB0_1: mov.u32 %r3, 0;"""
        with self.assertRaisesRegex(Fault, "another thread has read"):
            Ran(body, rd1=64 + 4 * LANES, r1=LANES)

    def test_variables(self) -> None:
        with self.assertRaisesRegex(Fault, "in no variable"):
            Ran("st.shared.u32 [memory+1024], %r1;", r1=0)

    def test_a_barrier_needs_all_threads(self) -> None:
        body = "setp.lt.s32 %p1, %r1, 32; @%p1 bra $L__BB0_1; bar.sync 0; $L__BB0_1: mov.u32 %r2, 0;"
        with self.assertRaisesRegex(Fault, "some threads of a block wait at a barrier"):
            Ran(body, threads=64, r1=np.arange(64))

    def test_asynchronous_copies(self) -> None:
        """Each thread copies 16 bytes; the upper half of them clears its place instead."""
        copy = "cp.async.cg.shared.global [%r1], [%rd1], 16, %r2;\ncp.async.commit_group;"
        another = "cp.async.cg.shared.global [%r4], [%rd1], 16, %r2;\ncp.async.commit_group;"
        own, other = "ld.shared.u32 %r3, [%rd2];", "ld.shared.u32 %r3, [%rd3];"
        places = {
            "r1": 64 + 16 * LANES, "r2": np.where(LANES < 16, 16, 0), "r4": 576 + 16 * LANES,
            "rd1": np.where(LANES < 16, BASE + 256 + 16 * LANES, 0), "rd2": 64 + 16 * LANES, "rd3": 64 + 16 * (LANES ^ 1),
        }
        used = "{ .reg .b32 a; mov.b64 {a, %r5}, %rd2; mov.b64 {a, %r5}, %rd3; }\nmov.u32 %r5, %r4;\n"
        contents = np.arange(64, dtype="<u4").tobytes()

        def run(*lines: str) -> Array:
            return Ran(used + "\n".join(lines), contents=contents, **places)["r3"]

        expected = np.where(LANES < 16, 4 * LANES, 0)
        np.testing.assert_array_equal(run(copy, "cp.async.wait_group 0;", own), expected)
        np.testing.assert_array_equal(run(copy, another, "cp.async.wait_group 1;", own, "cp.async.wait_group 0;"), expected)
        np.testing.assert_array_equal(run(copy, "cp.async.wait_group 0;", "bar.sync 0;", other), expected[LANES ^ 1])
        for lines, said in (
            ((copy, own), "without waiting"),
            ((copy, another, "cp.async.wait_group 2;", own), "without waiting"),
            ((copy, "bar.sync 0;", other), "without waiting"),
            ((copy, "cp.async.wait_group 0;", other), "another thread has written"),
            ((copy, copy), "asynchronous copy is writing"),
            ((copy, "cp.async.wait_group 0;", own, another), "ends without waiting"),
            (("mov.u32 %r2, 8;", copy), "part of 16 bytes"),
            (("mov.u32 %r2, 16;", copy), "copies 16 bytes .* in no array"),
        ):
            with self.assertRaisesRegex(Fault, said):
                run(*lines)


if __name__ == "__main__":
    unittest.main()
