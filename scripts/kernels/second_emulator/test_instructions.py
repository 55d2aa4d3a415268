"""Tests of single instructions whose meaning is easy to get wrong. Expected values are computed by hand."""
import unittest
from types import SimpleNamespace

import numpy as np

from disassembly import canonical, parse
from fault import Fault
from family import Family
from launch import compile_one, compile_pair
from matrix import layout
from memory import Memory
from state import U32, Waves


def waves(architecture: str = "gfx1100", lanes: int = 32, count: int = 1) -> Waves:
    """Waves without a launch."""
    kernel = SimpleNamespace(vectors=32, accumulators=32)
    launch = SimpleNamespace(kernel=kernel, code=SimpleNamespace(family=Family.of(architecture)))
    return Waves(launch, lanes, np.arange(count))


def execute(w: Waves, *texts: str) -> None:
    """Executes instructions on these waves."""
    with np.errstate(all="ignore"):
        for text in texts:
            parts = [parse(part.strip()) for part in text.split("::")]
            if len(parts) > 1:
                compile_pair(parts, w.launch.code, w.lanes)(w)
            else:
                compile_one(parts[0], w.launch.code, w.lanes)(w)


def float_bits(value: float) -> int:
    return int(np.float32(value).view(U32))


class Names(unittest.TestCase):
    def test_families_share_names(self) -> None:
        for old, new in (
            ("v_add_nc_u32_e32", "v_add_u32"),
            ("v_max_num_f32_e64", "v_max_f32"),
            ("v_dual_max_num_f32", "v_max_f32"),
            ("s_add_co_i32", "s_add_i32"),
            ("v_mad_co_u64_u32", "v_mad_u64_u32"),
            ("v_addc_co_u32_e32", "v_add_co_ci_u32"),
            ("v_subb_co_u32_e32", "v_sub_co_ci_u32"),
            ("s_andn2_saveexec_b64", "s_and_not1_saveexec_b64"),
            ("global_load_dwordx4", "global_load_b128"),
            ("global_load_short_d16_hi", "global_load_d16_hi_b16"),
            ("global_store_short", "global_store_b16"),
            ("s_load_dword", "s_load_b32"),
            ("ds_read2st64_b64", "ds_load_2addr_stride64_b64"),
            ("ds_write2_b32", "ds_store_2addr_b32"),
            ("ds_read_b128", "ds_load_b128"),
            ("v_mfma_f32_16x16x16bf16_1k", "v_mfma_f32_16x16x16_bf16"),
            ("v_mov_b32_e64_dpp", "v_mov_b32"),
        ):
            self.assertEqual(canonical(old), new)

    def test_modifiers_are_apart_from_operands(self) -> None:
        i = parse("v_permlanex16_b32 v6, v4, s2, 0xfedcba98 op_sel:[1,0]")
        self.assertEqual(i.operands, ["v6", "v4", "s2", "0xfedcba98"])
        self.assertEqual(i.modifiers, {"op_sel": "[1,0]"})
        i = parse("ds_swizzle_b32 v1, v2 offset:swizzle(SWAP,16)")
        self.assertEqual((i.operands, i.modifiers), (["v1", "v2"], {"offset": "swizzle(SWAP,16)"}))
        self.assertEqual(parse("global_load_b32 v1, v[2:3], off offset:-8").operands, ["v1", "v[2:3]", "off"])


class Scalar(unittest.TestCase):
    def test_carry_and_borrow(self) -> None:
        w = waves()
        w.s[1], w.s[2] = 0xFFFFFFFF, 1
        execute(w, "s_add_u32 s3, s1, s2", "s_addc_u32 s4, 0, 0")
        self.assertEqual((w.s[3, 0], w.s[4, 0]), (0, 1))
        execute(w, "s_sub_u32 s3, s2, s1", "s_subb_u32 s4, s2, 0")
        self.assertEqual((w.s[3, 0], w.s[4, 0]), (2, 0))

    def test_overflow_sets_scc(self) -> None:
        w = waves()
        w.s[1] = 0x7FFFFFFF
        execute(w, "s_add_i32 s2, s1, 1")
        self.assertTrue(w.scc[0])
        execute(w, "s_mul_hi_i32 s3, s2, -1")
        self.assertEqual(w.s[3, 0], 0)

    def test_a_bit_is_compared(self) -> None:
        w = waves()
        w.s[1], w.s[2] = 0b100, 34
        for text, expected in (
            ("s_bitcmp1_b32 s1, 2", True),
            ("s_bitcmp1_b32 s1, 0", False),
            ("s_bitcmp0_b32 s1, 0", True),
            ("s_bitcmp1_b32 s1, s2", True),  # the number of the bit has five bits
        ):
            execute(w, text)
            self.assertEqual(bool(w.scc[0]), expected, text)

    def test_inline_integers_of_64_bits_have_a_sign_and_literals_do_not(self) -> None:
        w = waves()
        execute(w, "s_mov_b64 s[2:3], -2", "s_mov_b64 s[4:5], 0xfffffffe")
        self.assertEqual([int(x) for x in w.s[2:6, 0]], [0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFE, 0])

    def test_and_not_saveexec(self) -> None:
        """The mask is the first operand, and EXEC the second, which is inverted."""
        w = waves()
        w.s[1] = 0xF0
        execute(w, "s_mov_b32 exec_lo, 0x3c", "s_and_not1_saveexec_b32 s2, s1")
        self.assertEqual((w.exec[0], w.s[2, 0]), (0xC0, 0x3C))


class Vector(unittest.TestCase):
    def test_reversed_operands(self) -> None:
        w = waves()
        w.v[1], w.v[2] = 3, 5
        execute(w, "v_lshlrev_b32_e32 v3, v1, v2", "v_subrev_nc_u32_e32 v4, v1, v2")
        self.assertEqual((w.v[3, 0, 0], w.v[4, 0, 0]), (40, 2))

    def test_halves_of_a_register(self) -> None:
        """Arithmetic of 16 bits keeps the upper half from gfx10 on, and clears it before."""
        for architecture, lanes, want in (("gfx1100", 32, 0xABCD0001), ("gfx90a", 64, 1)):
            w = waves(architecture, lanes)
            w.v[1], w.v[2] = 0xABCD0000, 1
            execute(w, "v_sub_nc_u16 v1, v2, v1")
            self.assertEqual(w.v[1, 0, 0], want)

    def test_byte_permutation(self) -> None:
        w = waves()
        w.v[1], w.v[2], w.v[3] = 0x44332211, 0x88776655, 0x0D0C0805
        execute(w, "v_perm_b32 v4, v1, v2, v3")
        # 5: byte 1 of the first operand; 8: the sign of the second's low half (0x6655); 12: zeros; 13: ones.
        self.assertEqual(w.v[4, 0, 0], 0xFF000022)

    def test_fused_multiply_add_rounds_once(self) -> None:
        w = waves()
        w.v[1] = float_bits(1 + 2**-12)
        w.v[2] = float_bits(-1 - 2**-11)
        execute(w, "v_fma_f32 v3, v1, v1, v2")
        self.assertEqual(w.v[3, 0, 0], float_bits(2**-24))

    def test_mixed_precision(self) -> None:
        """op_sel_hi says that an operand is fp16, and op_sel which half of the register it is."""
        w = waves()
        w.v[1] = 0x4400_3C00  # 4 and 1
        w.v[2], w.v[3] = float_bits(10), 0xAAAA5555
        execute(w, "v_fma_mix_f32 v4, v1, v2, -v1 op_sel:[1,0,0] op_sel_hi:[1,0,1]")
        self.assertEqual(w.v[4, 0, 0], float_bits(39))
        execute(w, "v_fma_mixhi_f16 v3, v1, v2, 0 op_sel_hi:[1,0,0]")
        self.assertEqual(w.v[3, 0, 0], 0x49005555)

    def test_dot_product_of_halves(self) -> None:
        w = waves()
        w.v[1], w.v[2], w.v[3] = 0x4400_3C00, 0x4000_4200, float_bits(0.5)  # (1, 4) . (3, 2) + 0.5
        execute(w, "v_dot2_f32_f16 v4, v1, v2, v3")
        self.assertEqual(w.v[4, 0, 0], float_bits(11.5))
        execute(w, "v_dot2c_f32_f16 v3, v1, v2")
        self.assertEqual(w.v[3, 0, 0], float_bits(11.5))
        execute(w, "v_dot2acc_f32_f16 v3, v1, v2")
        self.assertEqual(w.v[3, 0, 0], float_bits(22.5))

    def test_numbers_that_are_flushed(self) -> None:
        """AMD's documents: subnormal numbers are flushed by v_exp_f32 and its relatives, and on gfx90a also by products of
        fp16 and bf16."""
        w = waves()
        for name, before, after in (
            ("exp", float_bits(-130), 0), ("log", 1, 0xFF800000), ("rcp", 1, 0x7F800000), ("rcp", float_bits(2.0**127), 0),
            ("rsq", 0x80000001, 0xFF800000), ("sqrt", 1, 0),
        ):
            w.v[1] = before
            execute(w, f"v_{name}_f32 v2, v1")
            self.assertEqual(w.v[2, 0, 0], after, name)
        for architecture, flushes in (("gfx90a", True), ("gfx942", False)):
            for kind in ("f16", "bf16_1k" if flushes else "bf16"):
                for a, c in ((0x0001_0001, 0), (0, 1)):
                    w = waves(architecture, 64)
                    w.v[0:2], w.v[2:4], w.v[4:8] = a, 0x7000_7000, c
                    execute(w, f"v_mfma_f32_16x16x16_{kind} v[8:11], v[0:1], v[2:3], v[4:7]")
                    self.assertEqual(not w.v[8:12].any(), flushes, (architecture, kind, a))
            for a, c in ((1, 0), (0, 1)):
                w.v[1], w.v[2], w.v[3] = a, 0x7000, c
                execute(w, "v_dot2c_f32_f16 v3, v1, v2")
                self.assertEqual(not w.v[3].any(), flushes, (architecture, a))

    def test_dot_product_of_bytes(self) -> None:
        w = waves()
        # (-128, 2, -1, 127) . (-128, 3, 5, -1) - 10
        w.v[1], w.v[2], w.v[3] = 0x7FFF0280, 0xFF050380, 0xFFFFFFF6
        for text, to in (("v_dot4_i32_i8 v4, v1, v2, v3", 4), ("v_dot4c_i32_i8 v3, v1, v2", 3)):
            execute(w, text)
            self.assertEqual(w.v[to, 0, 0], 16384 + 6 - 5 - 127 - 10)

    def test_two_floats_at_once(self) -> None:
        w = waves("gfx90a", 64)
        w.v[2], w.v[3], w.v[4], w.v[5] = (float_bits(x) for x in (1, 2, 10, 20))
        execute(w, "v_pk_add_f32 v[2:3], v[2:3], v[4:5] op_sel:[1,0] op_sel_hi:[0,1] neg_lo:[0,1]")
        self.assertEqual([int(x) for x in w.v[2:4, 0, 0]], [float_bits(2 - 10), float_bits(1 + 20)])

    def test_two_halves_at_once(self) -> None:
        w = waves()
        w.v[1] = 0x6400_6481  # (1153, 1024)
        execute(w, "v_pk_add_f16 v2, 0xe480, v1 op_sel_hi:[0,1]", "v_pk_add_f16 v3, v1, v1 op_sel:[1,0]")
        self.assertEqual([int(x) for x in w.v[2:4, 0, 0]], [0xD800_3C00, 0x6800_6840])

    def test_both_halves_of_a_dual_instruction_read_first(self) -> None:
        w = waves()
        w.v[1], w.v[2] = 7, 9
        execute(w, "v_dual_mov_b32 v1, v2 :: v_dual_mov_b32 v2, v1")
        self.assertEqual((w.v[1, 0, 0], w.v[2, 0, 0]), (9, 7))

    def test_carry_per_lane(self) -> None:
        w = waves()
        w.v[1] = np.where(np.arange(32) < 4, 0xFFFFFFFF, 0)
        execute(w, "v_add_co_u32 v2, vcc_lo, v1, 1", "v_add_co_ci_u32_e32 v3, vcc_lo, 0, v1, vcc_lo")
        self.assertEqual((w.v[3, 0, 3], w.v[3, 0, 4], w.s[106, 0]), (0, 0, 0xF))

    def test_comparison_with_a_nan_and_inactive_lanes(self) -> None:
        w = waves()
        w.v[1] = float_bits(float("nan"))
        execute(w, "s_mov_b32 exec_lo, 0xff", "v_cmp_nlt_f32_e64 s1, v1, 0", "v_cmp_lt_f32_e64 s2, v1, 0")
        self.assertEqual((w.s[1, 0], w.s[2, 0]), (0xFF, 0))

    def test_comparison_to_exec_also_writes_a_mask_on_gfx9(self) -> None:
        w = waves("gfx90a", 64)
        w.v[1] = np.arange(64)
        execute(w, "v_cmpx_gt_u32_e32 vcc, 3, v1")
        self.assertEqual((w.exec[0], w.s[106, 0], w.s[107, 0]), (7, 7, 0))

    def test_product_with_a_sign_plus_64_bits(self) -> None:
        w = waves()
        w.v[1], w.v[2], w.v[3] = 0xFFFFFFFF, 5, 0
        execute(w, "v_mad_i64_i32 v[4:5], null, v1, 3, v[2:3]")
        self.assertEqual((w.v[4, 0, 0], w.v[5, 0, 0]), (2, 0))

    def test_unknown_modifier(self) -> None:
        with self.assertRaises(Fault):
            execute(waves(), "v_add_f32_e64 v1, v2, v3 clamp")


class Exchange(unittest.TestCase):
    def test_xor_within_rows(self) -> None:
        w = waves()
        w.v[1] = np.arange(32)
        execute(w, "v_mov_b32_dpp v2, v1 row_xmask:8 row_mask:0xf bank_mask:0xf bound_ctrl:1")
        self.assertEqual(list(w.v[2, 0]), [lane ^ 8 for lane in range(32)])

    def test_other_row(self) -> None:
        w = waves()
        w.v[1] = np.arange(32)
        w.s[2] = 0x76543210
        execute(w, "v_permlanex16_b32 v2, v1, s2, 0xfedcba98")
        self.assertEqual(list(w.v[2, 0]), [lane ^ 16 for lane in range(32)])

    def test_inactive_lane(self) -> None:
        w = waves()
        with self.assertRaisesRegex(Fault, "inactive"):
            execute(w, "s_mov_b32 exec_lo, 1", "v_mov_b32_dpp v2, v1 row_xmask:1 row_mask:0xf bank_mask:0xf")

    def test_part_of_a_register(self) -> None:
        w = waves("gfx90a", 64)
        w.v[1] = 0x3C004000
        execute(w, "v_cvt_f32_f16_sdwa v2, v1 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1")
        self.assertEqual(w.v[2, 0, 0], float_bits(1))

    def test_first_active_lane(self) -> None:
        w = waves()
        w.v[1] = np.arange(32)
        execute(w, "s_mov_b32 exec_lo, 0xf0", "v_readfirstlane_b32 s1, v1")
        self.assertEqual(w.s[1, 0], 4)


class Counters(unittest.TestCase):
    def test_lanes_add_one_after_another(self) -> None:
        w = waves()
        w.launch.memory = Memory()
        address = w.launch.memory.add(np.array([5], U32), writable=True)
        w.s[2], w.s[3] = address & 0xFFFFFFFF, address >> 32
        w.v[1], w.v[2] = 0, 1
        execute(w, "s_mov_b32 exec_lo, 7", "global_atomic_add_u32 v4, v1, v2, s[2:3] glc")
        self.assertEqual(list(w.v[4, 0, :3]), [5, 6, 7])
        execute(w, "global_atomic_add_u32 v1, v2, s[2:3]")
        self.assertEqual(list(w.launch.memory.read_buffer(address, U32, 1)), [11])

    def test_number_of_set_bits(self) -> None:
        w = waves()
        w.s[2], w.s[3] = 0xF0, 0x80000001
        execute(w, "s_bcnt1_i32_b64 s4, s[2:3]", "s_bcnt1_i32_b32 s5, s2")
        self.assertEqual((w.s[4, 0], w.s[5, 0]), (6, 4))


class Matrix(unittest.TestCase):
    FORMS = (
        ("gfx1100", 32, "v_wmma_f32_16x16x16_f16 v[16:23], v[0:7], v[8:15], 0"),
        ("gfx1200", 32, "v_wmma_f32_16x16x16_f16 v[16:23], v[0:3], v[8:11], 0"),
        ("gfx90a", 64, "v_mfma_f32_16x16x16f16 a[16:19], v[0:1], v[8:9], 0"),
    )

    def test_product_of_each_family(self) -> None:
        """A and B are written element by element where the family's document puts them."""
        random = np.random.default_rng(1)
        a, b = random.integers(-8, 8, (2, 16, 16))
        for architecture, lanes, text in self.FORMS:
            with self.subTest(architecture):
                w = waves(architecture, lanes)
                halves = w.v.view(np.float16).reshape(32, lanes, 2)
                for first, tile in ((0, a), (8, b)):
                    for lane in range(lanes):
                        for k in range(16):
                            for register, part in self.place(architecture, lane, k):
                                halves[first + register, lane, part] = tile[lane % 16, k]
                execute(w, text)
                sums = (w.v if lanes == 32 else w.a)[16:, 0].view(np.float32)
                product = a @ b.T
                for lane in range(lanes):
                    for register in range(8 if lanes == 32 else 4):
                        row = {"gfx1100": 2 * register + lane // 16, "gfx1200": 8 * (lane // 16) + register}.get(
                            architecture, 4 * (lane // 16) + register
                        )
                        self.assertEqual(sums[register, lane], product[row, lane % 16])

    @staticmethod
    def place(architecture: str, lane: int, k: int) -> list[tuple[int, int]]:
        """The register and the half where a lane holds element k of its row, or nothing."""
        if architecture == "gfx1100":
            return [(k // 2, k % 2)]
        if architecture == "gfx90a":
            return [(k % 4 // 2, k % 2)] if k // 4 == lane // 16 else []
        return [(k // 8 * 2 + k % 4 // 2, k % 2)] if k // 4 % 2 == lane // 16 else []

    def test_product_of_eight_bfloats_of_each_row(self) -> None:
        """gfx908's bf16: a lane holds elements 2 (lane / 16) and the next."""
        random = np.random.default_rng(3)
        a, b = random.integers(-8, 8, (2, 16, 8))
        w = waves("gfx908", 64)
        for first, tile in ((0, a), (8, b)):
            bits = tile.astype(np.float32).view(np.uint32) >> 16
            for lane in range(64):
                low, high = bits[lane % 16, lane // 16 * 2 : lane // 16 * 2 + 2]
                w.v[first, 0, lane] = low | high << 16
        w.a[16:20] = np.float32(0.5).view(np.uint32)
        execute(w, "v_mfma_f32_16x16x8bf16 a[16:19], v0, v8, a[16:19]")
        sums = w.a[16:, 0].view(np.float32)
        product = a @ b.T
        for lane in range(64):
            for register in range(4):
                self.assertEqual(sums[register, lane], product[4 * (lane // 16) + register, lane % 16] + 0.5)

    def test_products_of_bytes(self) -> None:
        """Every lane that shares a row holds the same number of its bytes; the sum does not depend on their order."""
        for architecture, lanes, count, text in (
            ("gfx1100", 32, 4, "v_wmma_i32_16x16x16_iu8 v[16:23], v[0:3], v[8:11], 0 neg_lo:[1,1,0]"),
            ("gfx1200", 32, 2, "v_wmma_i32_16x16x16_iu8 v[16:23], v[0:1], v[8:9], 0 neg_lo:[1,1,0]"),
            ("gfx908", 64, 1, "v_mfma_i32_16x16x16i8 a[16:19], v0, v8, 0"),
            ("gfx90a", 64, 1, "v_mfma_i32_16x16x16i8 a[16:19], v0, v8, 0"),
            ("gfx942", 64, 2, "v_mfma_i32_16x16x32_i8 a[16:19], v[0:1], v[8:9], 0"),
        ):
            with self.subTest(architecture):
                w = waves(architecture, lanes)
                own = w.v.view(np.int8).reshape(32, lanes, 4)
                groups = 1 if architecture == "gfx1100" else lanes // 16
                random = np.random.default_rng(2)
                a, b = random.integers(-128, 128, (2, 16, groups, count, 4))
                for first, tile in ((0, a), (8, b)):
                    for lane in range(lanes):
                        own[first : first + count, lane] = tile[lane % 16, lane // 16 % groups]
                execute(w, text)
                sums = (w.v if lanes == 32 else w.a)[16:, 0].view(np.int32)
                product = a.reshape(16, -1) @ b.reshape(16, -1).T
                for lane in range(lanes):
                    for register in range(8 if lanes == 32 else 4):
                        row = {"gfx1100": 2 * register + lane // 16, "gfx1200": 8 * (lane // 16) + register}.get(
                            architecture, 4 * (lane // 16) + register
                        )
                        self.assertEqual(sums[register, lane], product[row, lane % 16])

    def test_every_element_is_held_once(self) -> None:
        for architecture, kind, lanes in (("gfx1100", "wmma", 32), ("gfx1200", "wmma", 32), ("gfx942", "mfma", 64)):
            tile = layout(Family.of(architecture), kind, 16, lanes)
            elements = {(lane % 16, int(k)) for lane in range(lanes) for k in tile.k[:, lane]}
            self.assertEqual(len(elements), 128)
            sums = {(int(row), lane % 16) for lane in range(lanes) for row in tile.row[:, lane]}
            self.assertEqual(len(sums), 256)

    def test_lanes_that_do_not_repeat(self) -> None:
        w = waves()
        w.v[:16] = 0
        w.v[0, 0, 16] = 1
        with self.assertRaisesRegex(Fault, "repeat"):
            execute(w, self.FORMS[0][2])


if __name__ == "__main__":
    unittest.main()
