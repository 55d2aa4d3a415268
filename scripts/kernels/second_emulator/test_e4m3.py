"""Tests of numbers in e4m3. Expected codes are from the tables of the specification, or computed by hand."""
import unittest

import numpy as np

from e4m3 import rounded, values
from test_instructions import execute, float_bits, waves


class Numbers(unittest.TestCase):
    def test_codes(self) -> None:
        for code, new, old in (
            (0x00, 0, 0), (0x01, 2**-9, 2**-10), (0x07, 7 * 2**-9, 7 * 2**-10), (0x08, 2**-6, 2**-7), (0x38, 1, 0.5),
            (0x7E, 448, 224), (0x7F, np.nan, 240), (0x80, 0, np.nan), (0xB9, -1.125, -0.5625), (0xFF, np.nan, -240),
        ):
            np.testing.assert_array_equal([values(False)[code], values(True)[code]], [new, old])

    def test_numbers_are_rounded_to_the_nearest(self) -> None:
        for is_old in (False, True):
            there = values(is_old)
            finite = there[~np.isnan(there) & ((np.arange(256) != 0x80) | is_old)]
            np.testing.assert_array_equal(there[rounded(finite, is_old)], finite)
        # Ties go to even codes, and what is too large becomes a NaN.
        numbers = np.array([1.0625, 1.1875, -1.07, 2**-10, 3 * 2**-10, 463.0, 500.0, -500.0, np.nan, -0.0])
        codes = [0x38, 0x3A, 0xB9, 0x00, 0x02, 0x7E, 0x7F, 0xFF, 0x7F, 0x80]
        np.testing.assert_array_equal(rounded(numbers, False), codes)
        numbers = np.array([1.0625, 247.0, 250.0, -2.0**-12, -0.0])
        np.testing.assert_array_equal(rounded(numbers, True), [0x40, 0x7F, 0x80, 0x00, 0x00])


class Instructions(unittest.TestCase):
    def test_two_codes_are_written_to_a_half(self) -> None:
        for architecture, lanes, codes in (("gfx942", 64, 0xC840), ("gfx1200", 32, 0xC038)):
            w = waves(architecture, lanes)
            w.v[0], w.v[1], w.v[2] = 0x11112222, float_bits(1), float_bits(-2)
            execute(w, "v_cvt_pk_fp8_f32 v0, v1, v2")
            self.assertEqual(int(w.v[0, 0, 0]), 0x11110000 | codes)
            execute(w, "v_cvt_pk_fp8_f32 v0, v2, v2 op_sel:[0,0,1]")
            self.assertEqual(int(w.v[0, 0, 0]), (codes >> 8) * 0x01010000 | codes)

    def test_products(self) -> None:
        """A times the identity is A."""
        for architecture, lanes, name, depth in (
            ("gfx942", 64, "v_mfma_f32_16x16x32_fp8_fp8", 32), ("gfx1200", 32, "v_wmma_f32_16x16x16_fp8_fp8", 16),
        ):
            one = 0x40 if architecture == "gfx942" else 0x38
            a = np.arange(16 * depth, dtype=np.uint8).reshape(16, depth) % 0x70
            b = np.zeros((16, depth), np.uint8)
            b[np.arange(16), np.arange(16)] = one
            w = waves(architecture, lanes)
            for start, rows in ((0, a), (2, b)):
                # Lanes with the same row hold one after another 8 bytes of it.
                parts = rows.reshape(16, depth // 8, 8).transpose(1, 0, 2).reshape(lanes, 8)
                w.v[start : start + 2, 0] = np.ascontiguousarray(parts).view(np.uint32).T
            sums = 256 // lanes
            execute(w, f"{name} v[{8}:{7 + sums}], v[0:1], v[2:3], 0")
            found = w.v[8 : 8 + sums, 0].view(np.float32)
            row = np.arange(sums)[:, None] + sums * (np.arange(lanes) // 16)
            wanted = values(architecture == "gfx942")[a[:, :16]][row, np.arange(lanes) % 16]
            np.testing.assert_array_equal(found, wanted)


if __name__ == "__main__":
    unittest.main()
