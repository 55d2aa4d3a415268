"""Numbers of 8 bits with a sign, four bits of exponent and three of mantissa, and the instruction that rounds to them.

Sources: "OCP 8-bit Floating Point Specification (OFP8)"; "CDNA 3 ISA" and "RDNA 4 ISA", V_CVT_PK_FP8_F32. gfx942 has an
older variant: its exponents are smaller by one, and the code of the negative zero is its only NaN.
"""
from collections.abc import Callable

import numpy as np

from disassembly import Instruction, numbers
from elements import values
from family import Family
from fault import Fault
from operands import vector, vector_register
from state import F32, U32, Array, Waves


def is_old(family: Family) -> bool:
    """Whether a family has the older variant."""
    return family.generation == 9


def rounded(number: Array, is_old: bool) -> Array:
    """The codes of the nearest numbers, ties to even. The code after that of the largest number is a NaN in both
    variants, and numbers that are too large get it."""
    largest = 0x7F if is_old else 0x7E
    there = values(is_old)[: largest + 1]
    halfway = (there + np.append(there[1:], 2 * there[-1] - there[-2])) / 2
    magnitude = np.abs(number)
    below, above = (np.searchsorted(halfway, magnitude, side) for side in ("left", "right"))
    code = np.where(below == above, below, below + below % 2)
    has_sign = np.signbit(number) & ((code > 0) | (not is_old))
    return (code | has_sign * 0x80).astype(U32)


def compile_e4m3(i: Instruction, family: Family) -> Callable[[Waves], object] | None:
    """The function that executes an instruction, or None if it is not of this kind."""
    if i.name != "v_cvt_pk_fp8_f32":
        return None
    select = numbers(i.modifiers.get("op_sel", "[0,0,0]"))
    if set(i.modifiers) - {"op_sel"} or any(select[:2]):
        raise Fault(f"unknown modifiers {i.modifiers}")
    to, first, second = vector_register(i.operands[0]), vector(i.operands[1]), vector(i.operands[2])
    shift = U32(16 * select[2])
    kept = ~(U32(0xFFFF) << shift)
    old = is_old(family)

    def step(w: Waves) -> None:
        low, high = (rounded(read(w).view(F32), old) for read in (first, second))
        w.write(to, w.v[to] & kept | (low | high << U32(8)) << shift)

    return step
