"""The three element types."""
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class Format:
    """An element type. `tolerance` bounds the error of a result relative to its size: a few roundings to this type."""

    name: str
    storage: type
    to_bits: Callable[[Array], Array]
    from_bits: Callable[[Array], Array]
    tolerance: float

    def round(self, values: Array) -> Array:
        """The nearest numbers of this type, in fp64."""
        return self.from_bits(self.to_bits(values)).astype(np.float64)


def to_bfloat(values: Array) -> Array:
    """bf16 is the upper half of fp32, rounded to nearest even."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)


F32 = Format("f32", np.uint32, lambda x: np.asarray(x, np.float32).view(np.uint32), lambda b: b.view(np.float32), 2e-6)
F16 = Format("f16", np.uint16, lambda x: np.asarray(x, np.float16).view(np.uint16), lambda b: b.view(np.float16), 1e-3)
BF16 = Format(
    "bf16", np.uint16, to_bfloat, lambda b: (b.astype(np.uint32) << np.uint32(16)).view(np.float32), 8e-3
)
FORMATS = {each.name: each for each in (F32, F16, BF16)}
