"""Tests of which cases run on an object, and of what an object must contain."""
import unittest
from pathlib import Path
from types import SimpleNamespace

from checks import Options, chosen, missing
from family import Family
from table import Case


def case(kernel: str, family: str, cost: int = 1, **others: object) -> Case:
    """A case that has no memory."""
    usual = {"needs_matrix_instructions": False, "is_optional": False, "fp8": None}
    launch = {"grid": (1, 1), "threads": 64, "arguments": b"", "pointers": [], "arrays": []}
    return Case(kernel, family, "", cost, **(usual | others), **launch)


CASES = [
    case("softmax_f16", "softmax", 10), case("softmax_f16", "softmax", 1000), case("planes_f16", "planes", 600),
    case("planes_f16", "planes", 500), case("dense_f16", "dense", needs_matrix_instructions=True),
    case("gemm_f16_64x64_128", "gemm", is_optional=True), case("gemm_f16_64x128_128", "gemm", is_optional=True),
    case("gemm_fp8_f16", "gemm_fp8", 1, is_optional=True, fp8="ocp"),
    case("gemm_fp8_f16", "gemm_fp8", 2, is_optional=True, fp8="fnuz"),
]


def costs(architecture: str, kernel: str, only: str = "") -> list[int]:
    """The costs of a kernel's cases that run on an object that contains it."""
    code = SimpleNamespace(kernels={kernel}, family=Family.of(architecture))
    return [case.cost for case in chosen(code, CASES, Options(Path(), "", only, 100))]


def absent(*kernels: str) -> list[str]:
    """What an object with these kernels lacks."""
    return missing(SimpleNamespace(kernels=set(kernels)), CASES)


class Checks(unittest.TestCase):
    def test_every_kernel_runs(self) -> None:
        self.assertEqual(costs("gfx1100", "softmax_f16"), [10])
        self.assertEqual(costs("gfx1100", "planes_f16"), [500])
        self.assertEqual(costs("gfx1100", "planes_f16", "soft"), [])

    def test_the_variant_of_e4m3_runs(self) -> None:
        self.assertEqual(costs("gfx1200", "gemm_fp8_f16"), [1])
        self.assertEqual(costs("gfx942", "gemm_fp8_f16"), [2])

    def test_kernels_that_are_missing(self) -> None:
        self.assertEqual(absent("softmax_f16", "planes_f16", "gemm_f16_64x128_128"), [])
        self.assertEqual(absent("dense_f16", "planes_f16"), ["gemm", "softmax", "softmax_f16"])


if __name__ == "__main__":
    unittest.main()
