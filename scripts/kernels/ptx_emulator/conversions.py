"""Conversions between types of numbers, and the numbers of 8 and 16 bits.

e4m3 is that of the OCP 8-bit Floating Point Specification: a sign, four bits of exponent with a bias of 7, and three of
mantissa; there are no infinities, and a NaN has all bits of exponent and mantissa.
"""
from collections.abc import Callable

import numpy as np

Array = np.ndarray


def flushed(a: Array) -> Array:
    """The numbers with zeros, of the same sign, in place of denormal ones."""
    return np.where(np.abs(a) < np.float32(2.0**-126), np.copysign(np.float32(0), a), a)


def e4m3_number(code: int) -> float:
    """The number of a code."""
    sign, exponent, mantissa = code >> 7, code >> 3 & 15, code & 7
    if exponent == 15 and mantissa == 7:
        return float("nan")
    value = (8 + mantissa) * 2.0 ** (exponent - 10) if exponent else mantissa * 2.0**-9
    return -value if sign else value


E4M3 = np.array([e4m3_number(code) for code in range(256)])


def to_e4m3(a: Array) -> Array:
    """The codes of the nearest numbers, ties to even codes; numbers that are too large become the largest."""
    codes = E4M3[:127]
    size = np.minimum(np.abs(a.astype(np.float64)), codes[-1])
    upper = np.minimum(np.searchsorted(codes, size), 126)
    lower = np.maximum(upper - 1, 0)
    to_upper, to_lower = codes[upper] - size, size - codes[lower]
    code = np.where((to_upper < to_lower) | ((to_upper == to_lower) & (upper % 2 == 0)), upper, lower)
    return np.where(np.isnan(a), 0x7F, code | np.signbit(a) << 7).astype(np.uint16)


def to_bf16(a: Array) -> Array:
    """The upper halves of fp32, rounded to the nearest, ties to even."""
    bits = np.ascontiguousarray(a).view(np.uint32)
    rounded = bits + (np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(a), np.uint32(0x7FFF), rounded).astype(np.uint16)


def to_f16(a: Array) -> Array:
    """fp16 as bits. Numbers that are too large become infinite, and every NaN becomes the same one."""
    bits = a.astype(np.float16).view(np.uint16)
    return np.where(np.isnan(a), np.uint16(0x7FFF), bits)


def from_f16(a: Array) -> Array:
    """fp32."""
    return a.view(np.float16).astype(np.float32)


def packed(convert: Callable[[Array], Array], bits: int) -> Callable[[Array, Array], Array]:
    """Two numbers in one word, the first in the upper half."""
    dtype = np.uint32 if bits == 16 else np.uint16
    return lambda a, b: convert(a).astype(dtype) << dtype(bits) | convert(b).astype(dtype)


def astype(code: str) -> Callable[[Array], Array]:
    """Integers with more bits, or the lower bits."""
    dtype = np.dtype(code)
    return lambda a: a.astype(dtype)


# As in arithmetic.py: the type of the result, those of the operands, the function.
CONVERSIONS = {
    "cvt.u64.u32": ("u64", ("u32",), astype("u8")),
    "cvt.u64.u16": ("u64", ("u16",), astype("u8")),
    "cvt.u32.u64": ("u32", ("u64",), astype("u4")),
    "cvt.u32.u16": ("u32", ("u16",), astype("u4")),
    "cvt.u16.u32": ("u16", ("u32",), astype("u2")),
    "cvt.s64.s32": ("s64", ("s32",), astype("i8")),
    "cvt.rn.f32.s32": ("f32", ("s32",), astype("f4")),
    "cvt.f32.f16": ("f32", ("b16",), from_f16),
    "cvt.rn.f16.f32": ("b16", ("f32",), to_f16),
    "cvt.rn.f16x2.f32": ("f16x2", ("f32", "f32"), packed(to_f16, 16)),
    "cvt.rn.bf16x2.f32": ("b32", ("f32", "f32"), packed(to_bf16, 16)),
    "cvt.rn.satfinite.e4m3x2.f32": ("b16", ("f32", "f32"), packed(to_e4m3, 8)),
    # Global addresses are the same among all addresses.
    "cvta.to.global.u64": ("u64", ("u64",), lambda a: a),
    "cvta.global.u64": ("u64", ("u64",), lambda a: a),
}
