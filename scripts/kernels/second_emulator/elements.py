"""The numbers that the elements of arrays stand for."""
from functools import cache

import numpy as np

from fault import Fault

Array = np.ndarray


@cache
def values(is_old: bool) -> Array:
    """The numbers of all codes of e4m3, in fp64. e4m3.py says what the older variant is."""
    code = np.arange(256)
    magnitude = code & 0x7F
    exponent = np.maximum(magnitude >> 3, 1) - (8 if is_old else 7)
    # Below the least exponent, numbers are multiples of the same step.
    steps = np.where(magnitude < 8, magnitude, 8 + magnitude % 8).astype(np.float64)
    found = np.ldexp(steps, exponent - 3) * np.where(code < 0x80, 1, -1)
    found[code == 0x80 if is_old else magnitude == 0x7F] = np.nan
    return found


def decode(element: str, contents: Array) -> Array:
    """The numbers of an array, in fp64."""
    if element == "bf16":
        return (contents.view("<u2").astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    if element in ("f8", "f8z"):
        return values(element == "f8z")[contents]
    types = {"f32": "<f4", "f16": "<f2", "i8": "i1"}
    if element not in types:
        raise Fault(f"results of the type {element} are not known")
    return contents.view(types[element]).astype(np.float64)
