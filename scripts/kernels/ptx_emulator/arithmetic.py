"""Instructions that compute a register from others, thread by thread.

Each is a row of a table: the type of the result, those of the operands, and a function of arrays. Threads that do not run
are computed as well, and their results are dropped.
"""
from collections.abc import Callable
from functools import partial

import numpy as np

from cases import Fault
from conversions import CONVERSIONS, flushed
from listing import Instruction, Kernel, Register
from threads import TYPES, Array, Step, Threads, reader, writer

Row = tuple[str, tuple[str, ...], Callable[..., Array]]


def shifted_left(a: Array, b: Array) -> Array:
    """Shifts by the width or more give zero, which numpy does, too."""
    return np.left_shift(a, np.minimum(b, 64).astype(a.dtype))


def shifted_right(a: Array, b: Array) -> Array:
    """Shifts by the width or more give zero, or the sign of signed numbers."""
    return np.right_shift(a, np.minimum(b, 64).astype(a.dtype))


def wide(dtype: str, a: Array, b: Array) -> Array:
    """A product of twice the width."""
    return np.multiply(a, b, dtype=dtype)


def high(dtype: str, bits: int, a: Array, b: Array) -> Array:
    """The upper half of a product."""
    return (np.multiply(a, b, dtype=dtype) >> np.array([bits], dtype)).astype(a.dtype)


def fused(a: Array, b: Array, c: Array) -> Array:
    """a * b + c. The product is exact in fp64; the sum is rounded there and then to fp32."""
    total = np.multiply(a, b, dtype=np.float64)
    total += c
    return total.astype(np.float32)


def added_halves(a: Array, b: Array) -> Array:
    """Both halves of a word as fp16."""
    return (np.ascontiguousarray(a).view(np.float16) + np.ascontiguousarray(b).view(np.float16)).view(np.uint32)


def field_of(a: Array, start: Array, length: Array) -> Array:
    """Bits from `start` on, `length` of them, as a number."""
    start, length = np.minimum(start & 255, 32).astype(np.uint64), np.minimum(length & 255, 32).astype(np.uint64)
    mask = (np.uint64(1) << length) - np.uint64(1)
    return (a.astype(np.uint64) >> start & mask).astype(np.uint32)


def signed_field_of(a: Array, start: Array, length: Array) -> Array:
    """The same as a signed number. The sign is the field's last bit, or that of `a` if the field ends beyond it."""
    first, bits = (start & 255).astype(np.uint64), (length & 255).astype(np.uint64)
    last = np.minimum(first + np.maximum(bits, np.uint64(1)) - np.uint64(1), np.uint64(31))
    is_negative = (bits > 0) & (a.astype(np.uint64) >> last & np.uint64(1) == 1)
    inside = np.minimum(bits, np.uint64(32) - np.minimum(first, np.uint64(32)))
    above = ~((np.uint64(1) << inside) - np.uint64(1))
    return field_of(a, start, length) | np.where(is_negative, above, np.uint64(0)).astype(np.uint32)


def permuted(a: Array, b: Array, selector: Array) -> Array:
    """Each byte of the result is that of eight which four bits of the selector name, or copies of its sign."""
    both = a.astype(np.uint64) | b.astype(np.uint64) << np.uint64(32)
    result = np.zeros(1, np.uint64)
    for k in range(4):
        chosen = (selector >> np.uint32(4 * k)).astype(np.uint64) & np.uint64(15)
        byte = both >> ((chosen & np.uint64(7)) * np.uint64(8)) & np.uint64(255)
        sign = np.where(byte >= 128, np.uint64(255), np.uint64(0))
        result = result | np.where(chosen >= 8, sign, byte) << np.uint64(8 * k)
    return result.astype(np.uint32)


def exponential(a: Array) -> Array:
    """2^a with denormal operands and results as zeros."""
    return flushed(np.exp2(flushed(a).astype(np.float64)).astype(np.float32))


def reciprocal(a: Array) -> Array:
    """1 / a with denormal operands and results as zeros."""
    return flushed((1 / flushed(a).astype(np.float64)).astype(np.float32))


def reciprocal_root(a: Array) -> Array:
    """1 / sqrt(a) with denormal operands as zeros."""
    return flushed((1 / np.sqrt(flushed(a).astype(np.float64))).astype(np.float32))


COMPARISONS = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}
# The function of each type: of an integer, whether the sign matters is in the type.
TABLE: dict[str, Row] = {
    "fma.rn.f32": ("f32", ("f32",) * 3, fused),
    "add.rn.f16x2": ("f16x2", ("f16x2",) * 2, added_halves),
    # A NaN is not taken if the other operand is a number.
    "max.f32": ("f32", ("f32",) * 2, np.fmax),
    "min.f32": ("f32", ("f32",) * 2, np.fmin),
    "neg.f32": ("f32", ("f32",), np.negative),
    "abs.f32": ("f32", ("f32",), np.abs),
    "ex2.approx.ftz.f32": ("f32", ("f32",), exponential),
    "rcp.approx.ftz.f32": ("f32", ("f32",), reciprocal),
    "rsqrt.approx.ftz.f32": ("f32", ("f32",), reciprocal_root),
    "setp.eq.b32": ("pred", ("b32",) * 2, np.equal),
    # The only comparison here that is true of NaNs.
    "setp.leu.f32": ("pred", ("f32",) * 2, lambda a, b: ~(a > b)),
    "mul.wide.u16": ("u32", ("u16",) * 2, partial(wide, "u4")),
    "mul.wide.s32": ("s64", ("s32",) * 2, partial(wide, "i8")),
    "mul.wide.u32": ("u64", ("u32",) * 2, partial(wide, "u8")),
    "mul.hi.u16": ("u16", ("u16",) * 2, partial(high, "u4", 16)),
    "mul.hi.u32": ("u32", ("u32",) * 2, partial(high, "u8", 32)),
    "mad.lo.s32": ("s32", ("s32",) * 3, lambda a, b, c: a * b + c),
    "bfe.u32": ("u32", ("u32",) * 3, field_of),
    "bfe.s32": ("u32", ("u32",) * 3, signed_field_of),
    "prmt.b32": ("b32", ("b32",) * 3, permuted),
    **CONVERSIONS,
}
for kind in ("s16", "s32", "s64"):
    TABLE[f"add.{kind}"] = (kind, (kind,) * 2, np.add)
    TABLE[f"sub.{kind}"] = (kind, (kind,) * 2, np.subtract)
    TABLE[f"mul.lo.{kind}"] = (kind, (kind,) * 2, np.multiply)
    TABLE[f"neg.{kind}"] = (kind, (kind,), np.negative)
# Without a rounding mode, these round to the nearest number. The driver may fuse them, which is not modelled.
for name, function in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply)):
    TABLE[f"{name}.f32"] = ("f32", ("f32",) * 2, function)
for kind in ("b16", "b32", "b64", "pred"):
    for name, function in (("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor)):
        TABLE[f"{name}.{kind}"] = (kind, (kind,) * 2, function)
for kind in ("b16", "b32", "b64"):
    TABLE[f"shl.{kind}"] = (kind, (kind, "u32"), shifted_left)
for kind in ("u16", "u32", "u64", "s16", "s32", "s64"):
    TABLE[f"shr.{kind}"] = (kind, (kind, "u32"), shifted_right)
for kind in ("u16", "u32", "s32", "u64", "s64", "f32"):
    for name, function in COMPARISONS.items():
        # A comparison with a NaN is false. "ne" would be true in numpy, and no kernel uses it.
        if (name, kind) != ("ne", "f32"):
            TABLE[f"setp.{name}.{kind}"] = ("pred", (kind,) * 2, function)
for kind in ("u32", "s32"):
    TABLE[f"min.{kind}"] = (kind, (kind,) * 2, np.minimum)
    TABLE[f"max.{kind}"] = (kind, (kind,) * 2, np.maximum)
for kind in ("b16", "u16", "b32", "u32", "b64", "f32"):
    TABLE[f"selp.{kind}"] = (kind, (kind, kind, "pred"), lambda a, b, p: np.where(p, a, b))


def compile_arithmetic(kernel: Kernel, i: Instruction) -> Step | None:
    """The function that executes an instruction, or None if it is none of these."""
    if i.name in ("div.s32", "div.u32", "rem.s32", "rem.u32"):
        return compile_division(kernel, i)
    if i.name not in TABLE:
        return None
    result, kinds, function = TABLE[i.name]
    if len(i.operands) != 1 + len(kinds):
        raise Fault(f"needs {1 + len(kinds)} operands")
    write = writer(i.operands[0], result)
    reads = [reader(kernel, operand, kind) for operand, kind in zip(i.operands[1:], kinds, strict=True)]
    # The most frequent case without a detour: all types are those of the registers, and two operands.
    if isinstance(i.operands[0], Register) and TYPES[result] == TYPES[i.operands[0].kind] and len(reads) == 2:
        slot, (first, second) = i.operands[0].slot, reads
        return lambda t: t.put(slot, function(first(t), second(t)))
    return lambda t: write(t, function(*[read(t) for read in reads]))


def compile_division(kernel: Kernel, i: Instruction) -> Step:
    """Quotients are rounded towards zero, and remainders have the dividend's sign. A division by zero is a fault."""
    kind = i.name[4:]
    write = writer(i.operands[0], kind)
    first, second = (reader(kernel, operand, kind) for operand in i.operands[1:])
    is_remainder = i.name.startswith("rem")

    def step(t: Threads) -> None:
        a, b = first(t), second(t)
        if (t.some(b) == 0).any():
            raise Fault("divides by zero")
        dividend, divisor = a.astype(np.int64), np.where(b == 0, 1, b).astype(np.int64)
        quotient = np.abs(dividend) // np.abs(divisor) * (np.sign(dividend) * np.sign(divisor))
        value = dividend - quotient * divisor if is_remainder else quotient
        write(t, value.astype(TYPES[kind]))

    return step
