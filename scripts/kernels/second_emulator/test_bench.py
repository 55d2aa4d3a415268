"""Tests of what a launch may leave in the memory, with a case that is written to files by hand and no kernel."""
import json
import struct
import tempfile
import unittest
from pathlib import Path

import numpy as np

from bench import Bench
from fault import Fault
from memory import BASE
from results import error
from table import Case, Expected, load_cases

NAN = float("nan")


def case(results: list[float], element: str = "f32", allowed: float = 1e-3) -> Case:
    """A launch with two arrays: four bytes of input, and three elements of which these are the results."""
    size = {"f32": 4, "bf16": 2, "i8": 1}[element]
    data = struct.pack("<4B4x", 1, 2, 3, 4) + struct.pack(f"<{len(results)}d", *results) + b"\xff" * 3 * size
    expected = {"start": 8, "count": len(results), "allowed": allowed, "least": 1}
    start = 8 + 8 * len(results)
    written = {
        "kernel": "activation_f32", "family": "activation", "shape": "3 x 1", "cost": 3, "is_optional": False,
        "needs_matrix_instructions": False, "fp8": None, "grid": [1, 1], "threads": 256, "arguments": bytes(20).hex(),
        "pointers": [[0, 0, 2], [8, 1, 0]],
        "arrays": [
            {"start": 0, "bytes": 4, "element": "u8", "expected": None},
            {"start": start, "bytes": 3 * size, "element": element, "expected": expected},
        ],
    }
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "arrays.bin").write_bytes(data)
        Path(folder, "cases.json").write_text(json.dumps([written]))
        [loaded] = load_cases(Path(folder))
    return loaded


def launched(case: Case, contents: bytes) -> Bench:
    """The memory after a launch that wrote these bytes to the second array."""
    bench = Bench(case)
    start = bench.addresses[1] - BASE
    bench.memory.bytes[start : start + len(contents)] = np.frombuffer(contents, np.uint8)
    return bench


class Comparison(unittest.TestCase):
    def test_addresses_are_put_into_the_arguments(self) -> None:
        bench = Bench(case([1, 2, 3]))
        self.assertEqual(struct.unpack("<QQQ", bench.arguments), (bench.addresses[0] + 2, bench.addresses[1], 0))

    def test_right_results(self) -> None:
        self.assertEqual(launched(case([1, 2, 3]), struct.pack("<3f", 1, 2, 3)).compare(), 0)
        bench = launched(case([1, -2000, 3], allowed=1e-3), struct.pack("<3f", 1, -2001, 3))
        self.assertAlmostEqual(bench.compare(), 0.5)
        self.assertEqual(launched(case([1, -2, 0.5], "bf16"), struct.pack("<3H", 0x3F80, 0xC000, 0x3F00)).compare(), 0)
        self.assertEqual(launched(case([1, -128, 7], "i8"), struct.pack("<3b", 1, -128, 7)).compare(), 0)

    def test_wrong_results(self) -> None:
        for written in (b"", struct.pack("<3f", 1, 2, NAN), struct.pack("<3f", 1, 2.1, 3)):
            with self.assertRaisesRegex(Fault, "1 of 3 results are wrong|3 of 3 results are wrong"):
                launched(case([1, 2, 3]), written).compare()

    def test_what_is_no_result_must_stay(self) -> None:
        self.assertEqual(launched(case([1, 2, NAN]), struct.pack("<2f", 1, 2)).compare(), 0)
        self.assertEqual(launched(case([1, 2]), struct.pack("<2f", 1, 2)).compare(), 0)
        for results in ([1, 2, NAN], [1, 2]):
            with self.assertRaisesRegex(Fault, "writes byte 8 of array 1"):
                launched(case(results), struct.pack("<3f", 1, 2, 3)).compare()
        bench = launched(case([1, 2, 3]), struct.pack("<3f", 1, 2, 3))
        bench.memory.bytes[bench.addresses[0] - BASE + 3] = 5
        with self.assertRaisesRegex(Fault, "writes byte 3 of array 0"):
            bench.compare()

    def test_errors(self) -> None:
        infinity = float("inf")
        found = np.array([3, 0.25, NAN, infinity, infinity, 1])
        expected = Expected(np.array([2, 0, 0, 0, infinity, infinity]), 1e-3, 0.5)
        np.testing.assert_array_equal(error(found, expected), [0.5, 0.5, *(4 * [infinity])])


if __name__ == "__main__":
    unittest.main()
