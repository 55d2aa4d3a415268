"""Vector instructions with results of 64 bits, with carries, and with masks of lanes.

Sources: AMD's instruction set documents (Vega, CDNA, RDNA 2 to 4), chapters "VOP3", "VOP3P" and "VOPC".
"""
import re
from collections.abc import Callable

import numpy as np

from disassembly import Instruction, numbers, registers
from family import Family
from fault import Fault
from operands import mask, to_mask, vector, vector_register, vector_wide
from state import F32, I16, I32, I64, U16, U32, U64, UNDEFINED, Array, Waves
from vector import bits, f64, of_half, signed

Step = Callable[[Waves], object]
Read = Callable[[Waves], Array]

CONDITIONS: dict[str, Callable] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
    # Floating point: lg is "less or greater", o "ordered" (no NaN), u "unordered", and n means "not".
    "lg": lambda a, b: (a < b) | (a > b), "o": lambda a, b: (a == a) & (b == b), "u": lambda a, b: (a != a) | (b != b),
    "neq": lambda a, b: ~(a == b), "nlg": lambda a, b: ~((a < b) | (a > b)), "nlt": lambda a, b: ~(a < b),
    "nle": lambda a, b: ~(a <= b), "ngt": lambda a, b: ~(a > b), "nge": lambda a, b: ~(a >= b),
}
COMPARED: dict[str, tuple[Callable, Callable]] = {
    "f32": (vector, lambda x: x.view(F32)),
    "f16": (vector, of_half),
    "i32": (vector, lambda x: x.view(I32)),
    "u32": (vector, lambda x: x),
    "i16": (vector, lambda x: x.astype(U16).view(I16)),
    "u16": (vector, lambda x: x.astype(U16)),
    "u64": (vector_wide, lambda x: x),
    "i64": (lambda text: vector_wide(text, signed=True), lambda x: x.view(I64)),
}
# Operations on two floats at once: v_pk_*_f32 of CDNA.
PACKED: dict[str, Callable] = {
    "v_pk_add_f32": lambda a, b: a + b,
    "v_pk_mul_f32": lambda a, b: a * b,
    "v_pk_fma_f32": lambda a, b, c: a * b + c,
}
SHIFTS: dict[str, Callable] = {
    "v_lshlrev_b64": lambda by, x: x << by,
    "v_lshrrev_b64": lambda by, x: x >> by,
    "v_ashrrev_i64": lambda by, x: (x.view(I64) >> by.view(I64)).view(U64),
}


def compile_wide(i: Instruction, family: Family, lanes: int) -> Step | None:
    """The function that executes an instruction, or None if it is not of this kind."""
    name, o = i.name, i.operands
    if name in PACKED:
        return packed(PACKED[name], o, dict(i.modifiers))
    if name == "v_pk_add_f16":
        return packed_halves(o, dict(i.modifiers))
    if name == "v_pk_mov_b32":
        return packed_move(o, numbers(i.modifiers.get("op_sel", "[0,0]")))
    if i.modifiers:
        return None
    if found := re.fullmatch(r"v_cmp(x?)_([a-z]+)_(\w+)", name):
        return comparison(bool(found.group(1)), found.group(2), found.group(3), o, family, lanes)
    if found := re.fullmatch(r"v_(add|sub|subrev)_co_(ci_)?u32", name):
        return carrying(found.group(1), bool(found.group(2)), o, lanes)
    if name in ("v_mad_u64_u32", "v_mad_i64_i32"):
        return multiply_add(name, o, lanes)
    if name == "v_mov_b64":
        to, read = vector_register(o[0]), vector_wide(o[1], signed=True)
        return lambda w: w.write_wide(to, read(w))
    if name == "v_lshl_add_u64":
        to, a, by, c = vector_register(o[0]), vector_wide(o[1]), vector(o[2]), vector_wide(o[3])
        return lambda w: w.write_wide(to, (a(w) << (by(w) & U32(63)).astype(U64)) + c(w))
    if name in SHIFTS:
        to, by, read, shift = vector_register(o[0]), vector(o[1]), vector_wide(o[2], signed=True), SHIFTS[name]
        return lambda w: w.write_wide(to, shift((by(w) & U32(63)).astype(U64), read(w)))
    if name in ("v_accvgpr_write_b32", "v_accvgpr_mov_b32"):
        _, to_a, _ = registers(o[0])
        read = vector(o[1])
        return lambda w: np.copyto(w.a[to_a], read(w), where=w.active)
    if name == "v_nop":
        return lambda w: None
    return None


def comparison(to_exec: bool, condition: str, kind: str, o: list[str], family: Family, lanes: int) -> Step:
    """v_cmp writes a mask of lanes, in which inactive lanes have zeros. v_cmpx writes it to EXEC; on gfx9 to both."""
    writes = []
    if to_exec:
        writes.append(to_mask("exec" if lanes == 64 else "exec_lo", lanes))
    if not to_exec or family.generation == 9:
        writes.append(to_mask(o[0], lanes))
        o = o[1:]
    operand, view = COMPARED[kind]
    a, b, holds = operand(o[0]), operand(o[1]), CONDITIONS[condition]

    def step(w: Waves) -> None:
        result = w.mask(holds(view(a(w)), view(b(w))) & w.active)
        for write in writes:
            write(w, result)

    return step


def carrying(operation: str, takes_carry: bool, o: list[str], lanes: int) -> Step:
    """Additions and subtractions that write a carry per lane, and perhaps take one."""
    to, write = vector_register(o[0]), to_mask(o[1], lanes)
    a, b = vector(o[2]), vector(o[3])
    if operation == "subrev":
        a, b = b, a
    read = mask(o[4], lanes) if takes_carry else None

    def step(w: Waves) -> None:
        x, y = a(w).astype(I64), b(w).astype(I64)
        carry = w.bits(read(w)) if read else 0
        result = x + y + carry if operation == "add" else x - y - carry
        w.write(to, (result & 0xFFFFFFFF).astype(U32))
        write(w, w.mask((result >> 32 != 0) & w.active))

    return step


def multiply_add(name: str, o: list[str], lanes: int) -> Step:
    """v_mad_u64_u32 and v_mad_i64_i32: a product of 32 bits each, plus 64 bits."""
    to, write = vector_register(o[0]), to_mask(o[1], lanes)
    with_sign = name == "v_mad_i64_i32"
    a, b, c = vector(o[2]), vector(o[3]), vector_wide(o[4], signed=with_sign)

    def step(w: Waves) -> None:
        x, y, z = a(w), b(w), c(w)
        if with_sign:
            w.write_wide(to, (signed(x).astype(I64) * signed(y).astype(I64)).view(U64) + z)
            # No kernel uses the carry of this instruction.
            write(w, np.full(len(w.number), UNDEFINED, U64))
        else:
            result = x.astype(U64) * y.astype(U64) + z
            w.write_wide(to, result)
            write(w, w.mask((result < z) & w.active))

    return step


def pair(text: str, low: int, high: int) -> tuple[Read, Read]:
    """The halves of an operand of two floats that its bits in op_sel and op_sel_hi choose."""
    if text[0] in "vs" and "[" in text:
        kind, first, _ = registers(text)
        return vector(f"{kind}{first + low}"), vector(f"{kind}{first + high}")
    if text[0] == "|" or text[:2] in ("-v", "-s"):
        raise Fault(f"{text} as an operand of two floats is not supported")
    return vector(text), vector(text)


def packed(function: Callable, o: list[str], modifiers: dict[str, str]) -> Step:
    """An entry of PACKED."""
    count = len(o) - 1
    low = numbers(modifiers.pop("op_sel", "[0,0,0]"))
    high = numbers(modifiers.pop("op_sel_hi", "[1,1,1]"))
    minus_low = numbers(modifiers.pop("neg_lo", "[0,0,0]"))
    minus_high = numbers(modifiers.pop("neg_hi", "[0,0,0]"))
    if modifiers:
        raise Fault(f"unknown modifiers {modifiers}")
    pairs = [pair(o[1 + k], low[k], high[k]) for k in range(count)]
    to = vector_register(o[0])

    def half(w: Waves, side: int, minus: list[int]) -> Array:
        values = [f64(pairs[k][side](w)) for k in range(count)]
        return bits(function(*(-value if minus[k] else value for k, value in enumerate(values))))

    return lambda w: w.write_pair(to, half(w, 0, minus_low), half(w, 1, minus_high))


def packed_halves(o: list[str], modifiers: dict[str, str]) -> Step | None:
    """v_pk_add_f16: the sums of two pairs of halves. op_sel and op_sel_hi choose the half of each operand that the lower
    and the upper half of the result take."""
    low, high = numbers(modifiers.pop("op_sel", "[0,0]")), numbers(modifiers.pop("op_sel_hi", "[1,1]"))
    if modifiers:
        return None
    to, reads = vector_register(o[0]), [vector(text) for text in o[1:]]

    def half(w: Waves, select: list[int]) -> Array:
        a, b = (of_half(read(w) >> U32(16 * chosen)) for read, chosen in zip(reads, select, strict=True))
        return (a + b).astype(np.float16).view(U16).astype(U32)

    return lambda w: w.write(to, half(w, low) | half(w, high) << U32(16))


def packed_move(o: list[str], select: list[int]) -> Step:
    """v_pk_mov_b32: one register of each of two pairs."""
    to = vector_register(o[0])
    first, second = pair(o[1], select[0], select[0])[0], pair(o[2], select[1], select[1])[0]
    return lambda w: w.write_pair(to, np.array(first(w)), second(w))
