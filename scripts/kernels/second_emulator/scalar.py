"""Instructions of the scalar unit: one value per wave.

Sources: AMD's instruction set documents (Vega, CDNA, RDNA 2 to 4), chapters "SOP1" to "SOPK". SCC is the bit that
comparisons and arithmetic set.
"""
import re
from collections.abc import Callable

import numpy as np

from disassembly import Instruction
from fault import Fault
from operands import mask, scalar, scalar_wide, to_mask, to_scalar, to_scalar_wide
from state import F32, F64, I32, I64, U32, U64, Array, Waves, spread

Step = Callable[[Waves], object]


def signed(value: Array) -> Array:
    """32 bits as signed numbers of 64 bits."""
    return value.view(I32).astype(I64)


def unsigned(value: Array) -> Array:
    """32 bits as numbers of 64 bits."""
    return value.astype(I64)


def beyond(value: Array) -> Array:
    """Whether a number is not one of 32 bits with a sign."""
    return (value < -(1 << 31)) | (value >= 1 << 31)


# Operations on 32 bits: (how operands are read, result, SCC from the operands and the result or None).
# Results are taken modulo 2^32.
ARITHMETIC: dict[str, tuple] = {
    "s_add_i32": (signed, lambda a, b, c: a + b, lambda a, b, r: beyond(r)),
    "s_sub_i32": (signed, lambda a, b, c: a - b, lambda a, b, r: beyond(r)),
    "s_add_u32": (unsigned, lambda a, b, c: a + b, lambda a, b, r: r >> 32 != 0),
    "s_sub_u32": (unsigned, lambda a, b, c: a - b, lambda a, b, r: r < 0),
    "s_addc_u32": (unsigned, lambda a, b, c: a + b + c, lambda a, b, r: r >> 32 != 0),
    "s_subb_u32": (unsigned, lambda a, b, c: a - b - c, lambda a, b, r: r < 0),
    "s_mul_i32": (signed, lambda a, b, c: a * b, None),
    "s_mul_hi_i32": (signed, lambda a, b, c: a * b >> 32, None),
    "s_mul_hi_u32": (lambda x: x.astype(U64), lambda a, b, c: a * b >> U64(32), None),
    "s_min_i32": (signed, lambda a, b, c: np.minimum(a, b), lambda a, b, r: a < b),
    "s_max_i32": (signed, lambda a, b, c: np.maximum(a, b), lambda a, b, r: a > b),
    "s_min_u32": (unsigned, lambda a, b, c: np.minimum(a, b), lambda a, b, r: a < b),
    "s_max_u32": (unsigned, lambda a, b, c: np.maximum(a, b), lambda a, b, r: a > b),
    "s_lshl_b32": (unsigned, lambda a, b, c: a << (b & 31) & 0xFFFFFFFF, lambda a, b, r: r != 0),
    "s_lshr_b32": (unsigned, lambda a, b, c: a >> (b & 31), lambda a, b, r: r != 0),
    "s_ashr_i32": (signed, lambda a, b, c: a >> (b & 31), lambda a, b, r: r != 0),
    "s_pack_ll_b32_b16": (unsigned, lambda a, b, c: a & 0xFFFF | (b & 0xFFFF) << 16, None),
    "s_bfe_u32": (unsigned, lambda a, b, c: a >> (b & 31) & (1 << (b >> 16 & 127)) - 1, lambda a, b, r: r != 0),
} | {
    f"s_lshl{n}_add_u32": (unsigned, lambda a, b, c, n=n: (a << n) + b, lambda a, b, r: r >> 32 != 0)
    for n in (1, 2, 3, 4)
}
# Operations on 64 bits that leave SCC alone, or set it if the result is not zero.
WIDE: dict[str, tuple] = {
    "s_add_u64": (lambda a, b: a + b, False),
    "s_sub_u64": (lambda a, b: a - b, False),
    "s_mul_u64": (lambda a, b: a * b, False),
    "s_lshl_b64": (lambda a, b: a << (b & U64(63)), True),
    "s_lshr_b64": (lambda a, b: a >> (b & U64(63)), True),
}
# Operations on bits, of 32 or 64 bits; they set SCC if the result is not zero.
BITWISE: dict[str, Callable] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "and_not1": lambda a, b: a & ~b,
    "or_not1": lambda a, b: a | ~b,
    "nand": lambda a, b: ~(a & b),
    "nor": lambda a, b: ~(a | b),
    "xnor": lambda a, b: ~(a ^ b),
}
# One operand of 32 bits; SCC is not changed.
UNARY: dict[str, Callable] = {
    "s_mov_b32": lambda a: a,
    "s_cvt_f32_u32": lambda a: a.astype(F32).view(U32),
    "s_cvt_f32_i32": lambda a: a.view(I32).astype(F32).view(U32),
    "s_cvt_u32_f32": lambda a: np.clip(np.nan_to_num(a.view(F32).astype(F64)), 0, 2**32 - 1).astype(U32),
    "s_sext_i32_i16": lambda a: a.astype(np.int16).astype(I32).view(U32),
    "s_sext_i32_i8": lambda a: a.astype(np.int8).astype(I32).view(U32),
}
FLOATS: dict[str, Callable] = {
    "s_add_f32": lambda a, b: a + b,
    "s_sub_f32": lambda a, b: a - b,
    "s_mul_f32": lambda a, b: a * b,
    "s_max_f32": np.fmax,
    "s_min_f32": np.fmin,
}
COMPARE: dict[str, Callable] = {
    "eq": np.equal, "lg": np.not_equal, "ne": np.not_equal, "gt": np.greater, "ge": np.greater_equal, "lt": np.less,
    "le": np.less_equal,
}


def immediate(text: str) -> Array:
    """A constant of 16 bits with a sign, as 32 bits."""
    value = int(text, 0) & 0xFFFF
    return np.array([value - 0x10000 if value >> 15 else value], I32).view(U32)


def compile_scalar(i: Instruction, lanes: int) -> Step:
    """The function that executes an instruction on a set of waves."""
    name, o = i.name, i.operands
    if i.modifiers:
        raise Fault(f"unknown modifiers {i.modifiers}")
    if found := re.match(r"s_(add|mul|mov|cmp)k_(.*)", name):
        return with_immediate(found.group(1), found.group(2), o)
    if found := re.match(r"s_cmp_(\w\w)_(\w\d\d)", name):
        return comparison(found.group(1), found.group(2), o)
    if found := re.fullmatch(r"s_bitcmp([01])_b32", name):
        wanted = U32(int(found.group(1)))
        return compare(lambda a, b: a >> (b & U32(31)) & U32(1) == wanted, scalar(o[0]), scalar(o[1]))
    if found := re.match(r"s_(\w+)_saveexec_b(32|64)", name):
        return save_exec(BITWISE[found.group(1)], o, lanes)
    if name in ARITHMETIC:
        read, operation, carry = ARITHMETIC[name]
        return arithmetic(to_scalar(o[0]), scalar(o[1]), scalar(o[2]), read, operation, carry)
    if name in UNARY:
        write, a, unary = to_scalar(o[0]), scalar(o[1]), UNARY[name]
        return lambda w: write(w, unary(np.ascontiguousarray(a(w))))
    if found := re.fullmatch(r"s_bcnt1_i32_b(32|64)", name):
        bits = (scalar_wide if found.group(1) == "64" else scalar)(o[1])
        return testing(to_scalar(o[0]), bits, bits, lambda a, _: set_bits(a))
    if found := re.match(r"s_(\w+)_b(32|64)$", name):
        wide = found.group(2) == "64"
        read, to = (scalar_wide, to_scalar_wide) if wide else (scalar, to_scalar)
        if found.group(1) in BITWISE:
            return testing(to(o[0]), read(o[1]), read(o[2]), BITWISE[found.group(1)])
        if found.group(1) == "not":
            return testing(to(o[0]), read(o[1]), read(o[1]), lambda a, b: ~a)
        if found.group(1) == "mov":
            write, a = to(o[0]), read(o[1])
            return lambda w: write(w, a(w))
        if found.group(1) == "cselect":
            write, a, b = to(o[0]), read(o[1]), read(o[2])
            return lambda w: write(w, np.where(w.scc, a(w), b(w)))
    if name in WIDE:
        operation, tests = WIDE[name]
        shift = "lsh" in name
        write, a, b = to_scalar_wide(o[0]), scalar_wide(o[1]), (scalar if shift else scalar_wide)(o[2])
        if tests:
            return testing(write, a, lambda w: b(w).astype(U64), operation)
        return lambda w: write(w, operation(a(w), b(w)))
    if name in FLOATS:
        write, a, b, operation = to_scalar(o[0]), scalar(o[1]), scalar(o[2]), FLOATS[name]
        return lambda w: write(w, operation(a(w).view(F32), b(w).view(F32)).view(U32))
    if name == "s_fmac_f32":
        write, own, a, b = to_scalar(o[0]), scalar(o[0]), scalar(o[1]), scalar(o[2])
        return lambda w: write(
            w, (fp64(a(w)) * fp64(b(w)) + fp64(own(w))).astype(F32).view(U32)
        )
    if name == "s_abs_i32":
        return testing(to_scalar(o[0]), scalar(o[1]), scalar(o[1]), lambda a, b: np.abs(signed(a)).astype(U32))
    raise Fault("unknown instruction")


def set_bits(value: Array) -> Array:
    """The number of bits that are set."""
    return np.array([int(each).bit_count() for each in np.atleast_1d(value)], U32)


def fp64(value: Array) -> Array:
    """The bits of fp32 as fp64."""
    return value.view(F32).astype(F64)


def arithmetic(write, a, b, read, operation, carry) -> Step:
    """An entry of ARITHMETIC."""

    def step(w: Waves) -> None:
        x, y = read(a(w)), read(b(w))
        result = operation(x, y, w.scc)
        if carry:
            w.scc = spread(carry(x, y, result), w.scc.shape)
        write(w, result.astype(U32))

    return step


def testing(write, a, b, operation) -> Step:
    """An operation that sets SCC if its result is not zero."""

    def step(w: Waves) -> None:
        result = operation(a(w), b(w))
        w.scc = spread(result != 0, w.scc.shape)
        write(w, result)

    return step


def compare(operation, a, b) -> Step:
    """A comparison that sets SCC."""

    def step(w: Waves) -> None:
        w.scc = spread(operation(a(w), b(w)), w.scc.shape)

    return step


def comparison(condition: str, kind: str, o: list[str]) -> Step:
    """s_cmp_CONDITION_KIND."""
    operation = COMPARE[condition]
    if kind == "u64":
        return compare(operation, scalar_wide(o[0]), scalar_wide(o[1]))
    view = {"u32": U32, "i32": I32, "f32": F32}[kind]
    a, b = scalar(o[0]), scalar(o[1])
    return compare(operation, lambda w: a(w).view(view), lambda w: b(w).view(view))


def with_immediate(operation: str, rest: str, o: list[str]) -> Step:
    """An instruction of SOPK: its last operand is a constant of 16 bits."""
    value = immediate(o[1])
    if operation == "cmp":
        condition, kind = rest.split("_")
        a, view = scalar(o[0]), {"u32": U32, "i32": I32}[kind]
        constant = value & U32(0xFFFF) if kind == "u32" else value
        return compare(COMPARE[condition], lambda w: a(w).view(view), lambda w: constant.view(view))
    write = to_scalar(o[0])
    if operation == "mov":
        return lambda w: write(w, value)
    read, function, carry = ARITHMETIC[f"s_{operation}_i32"]
    return arithmetic(write, scalar(o[0]), lambda w: value, read, function, carry)


def save_exec(operation, o: list[str], lanes: int) -> Step:
    """Saves EXEC and combines it with a mask: result = operation(mask, EXEC)."""
    write, read = to_mask(o[0], lanes), mask(o[1], lanes)
    all_lanes = U64((1 << lanes) - 1)

    def step(w: Waves) -> None:
        saved = w.exec
        result = operation(read(w), saved) & all_lanes
        write(w, saved)
        w.set_exec(result)
        w.scc = result != 0

    return step
