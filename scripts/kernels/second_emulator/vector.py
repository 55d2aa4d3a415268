"""Instructions of the vector unit with results of 32 bits or less: one value per lane.

Sources: AMD's instruction set documents (Vega, CDNA, RDNA 2 to 4), chapters "VOP1" to "VOP3". Functions take and
return the registers' bits. Where one operation in fp32 is not enough, a result is computed in fp64 and then rounded to
fp32. In rare cases the two roundings give another last bit than one rounding.
"""
from collections.abc import Callable

import numpy as np

from disassembly import Instruction, numbers
from exchange import dpp, sub_dword
from family import Family
from fault import Fault
from operands import mask, vector, vector_register
from state import F16, F32, F64, I32, I64, U16, U32, U64, Array, Waves

Compute = Callable[[Waves], Array]
HALF = U32(0xFFFF)


def f32(bits: Array) -> Array:
    return bits.view(F32)


def f64(bits: Array) -> Array:
    return bits.view(F32).astype(F64)


def bits(value: Array) -> Array:
    """The bits of a number as fp32."""
    return value.astype(F32, copy=False).view(U32)


def flushed(value: Array, least: float = 2.0**-126) -> Array:
    """Numbers in fp64, with those below the least normal one as zeros."""
    return np.where(np.abs(value) < least, np.copysign(0.0, value), value)


def fused(a: Array, b: Array, c: Array) -> Array:
    """a * b + c of bits of fp32. The product is exact in fp64, and the sum is rounded to fp64 and then to fp32."""
    return bits(f64(a) * f64(b) + f64(c))


def of_half(value: Array) -> Array:
    """The low 16 bits, as fp16, in fp32."""
    return value.astype(U16).view(F16).astype(F32)


def to_half(value: Array) -> Array:
    """The bits of a number as fp16."""
    return value.astype(F16).view(U16).astype(U32)


def dot_of_halves(a: Array, b: Array, c: Array) -> Array:
    """a . b + c for pairs of fp16, rounded once to fp64 and then to fp32."""
    low, high = ([of_half(x >> U32(shift) & HALF).astype(F64) for x in (a, b)] for shift in (0, 16))
    return bits(low[0] * low[1] + high[0] * high[1] + f64(c))


def flushed_dot_of_halves(a: Array, b: Array, c: Array) -> Array:
    """The same with subnormal numbers as zeros."""
    low, high = ([flushed(of_half(x >> U32(shift) & HALF).astype(F64), 2.0**-14) for x in (a, b)] for shift in (0, 16))
    return bits(flushed(low[0] * low[1] + high[0] * high[1] + flushed(f64(c))))


def dot_of_bytes(a: Array, b: Array, c: Array) -> Array:
    """a . b + c for four signed bytes."""
    parts = ([(x << U32(24 - 8 * k)).view(I32).astype(I64) >> 24 for k in range(4)] for x in (a, b))
    return low_32(sum(x * y for x, y in zip(*parts)) + c.astype(I64))


def signed(value: Array) -> Array:
    return value.view(I32)


def signed_24(value: Array) -> Array:
    """The low 24 bits as numbers with a sign."""
    return (value << U32(8)).view(I32).astype(I64) >> 8


def low_32(value: Array) -> Array:
    return (value & 0xFFFFFFFF).astype(U32)


def to_integer(value: Array, least: int, most: int) -> Array:
    """Rounds towards zero and clamps. A NaN becomes 0."""
    return low_32(np.clip(np.trunc(np.nan_to_num(f64(value), nan=0.0)), least, most).astype(I64))


def on_floats(function: Callable) -> Callable:
    """A function of fp32 as a function of bits."""
    return lambda *arguments: bits(function(*(f32(x) for x in arguments)))


def on_exact(function: Callable) -> Callable:
    """A function of fp64 as a function of bits of fp32."""
    return lambda *arguments: bits(function(*(f64(x) for x in arguments)))


def on_flushed(function: Callable) -> Callable:
    """The same for an instruction of which AMD's documents say that "denormals are flushed"."""
    return lambda a: bits(flushed(function(flushed(f64(a)))))


def on_signed(function: Callable) -> Callable:
    """A function of signed numbers as a function of bits."""
    return lambda *arguments: function(*(x.view(I32) for x in arguments)).view(U32)


def permute_bytes(high: Array, low: Array, selector: Array) -> Array:
    """v_perm_b32: each byte of the result is chosen by the same byte of the selector."""
    both = low | high.astype(U64) << U64(32)
    result = U32(0)
    for i in range(4):
        choice = selector >> U32(8 * i) & U32(0xFF)
        byte = both >> (np.minimum(choice, 7).astype(U64) * U64(8)) & U64(0xFF)
        # 8 to 11 choose one of the four 16-bit halves and give eight copies of its sign bit. 12 gives zeros, and a
        # larger number gives ones.
        sign = both >> (np.clip(choice.astype(I64) - 8, 0, 3) * 16 + 15).astype(U64) & U64(1)
        special = np.where(choice < 12, sign * U64(0xFF), np.where(choice == 12, U64(0), U64(0xFF)))
        byte = np.where(choice < 8, byte, special)
        result = result | byte.astype(U32) << U32(8 * i)
    return result


def extract(value: Array, start: Array, width: Array) -> Array:
    """v_bfe_u32: `width` bits of the value, from bit `start` on."""
    return value >> (start & U32(31)) & (U32(1) << (width & U32(31))) - U32(1)


def funnel(high: Array, low: Array, by: Array) -> Array:
    """v_alignbit_b32: the low 32 bits of the pair, shifted right."""
    return ((low | high.astype(U64) << U64(32)) >> (by & U32(31)).astype(U64)).astype(U32)


ONE: dict[str, Callable] = {
    "v_mov_b32": lambda a: a,
    "v_not_b32": lambda a: ~a,
    "v_accvgpr_read_b32": lambda a: a,
    "v_cvt_f32_i32": lambda a: bits(signed(a)),
    "v_cvt_f32_u32": lambda a: bits(a),
    "v_cvt_u32_f32": lambda a: to_integer(a, 0, 2**32 - 1),
    "v_cvt_i32_f32": lambda a: to_integer(a, -(2**31), 2**31 - 1),
    "v_cvt_f32_f16": lambda a: bits(of_half(a)),
    "v_exp_f32": on_flushed(np.exp2),
    "v_log_f32": on_flushed(np.log2),
    "v_sqrt_f32": on_flushed(np.sqrt),
    "v_rcp_f32": on_flushed(lambda a: 1 / a),
    "v_rcp_iflag_f32": on_exact(lambda a: 1 / a),
    "v_rsq_f32": on_flushed(lambda a: 1 / np.sqrt(a)),
    "v_floor_f32": on_floats(np.floor),
    "v_trunc_f32": on_floats(np.trunc),
    "v_rndne_f32": on_floats(np.rint),
}
TWO: dict[str, Callable] = {
    "v_add_f32": on_floats(lambda a, b: a + b),
    "v_sub_f32": on_floats(lambda a, b: a - b),
    "v_subrev_f32": on_floats(lambda a, b: b - a),
    "v_mul_f32": on_floats(lambda a, b: a * b),
    "v_max_f32": on_floats(np.fmax),
    "v_min_f32": on_floats(np.fmin),
    "v_ldexp_f32": lambda a, b: bits(np.ldexp(f64(a), signed(b))),
    "v_and_b32": lambda a, b: a & b,
    "v_or_b32": lambda a, b: a | b,
    "v_xor_b32": lambda a, b: a ^ b,
    "v_xnor_b32": lambda a, b: ~(a ^ b),
    "v_lshlrev_b32": lambda a, b: b << (a & U32(31)),
    "v_lshrrev_b32": lambda a, b: b >> (a & U32(31)),
    "v_ashrrev_i32": lambda a, b: (signed(b) >> signed(a & U32(31))).view(U32),
    "v_add_u32": lambda a, b: a + b,
    "v_sub_u32": lambda a, b: a - b,
    "v_subrev_u32": lambda a, b: b - a,
    "v_mul_lo_u32": lambda a, b: a * b,
    "v_mul_hi_u32": lambda a, b: (a.astype(U64) * b.astype(U64) >> U64(32)).astype(U32),
    "v_mul_hi_i32": lambda a, b: low_32(signed(a).astype(I64) * signed(b).astype(I64) >> 32),
    "v_mul_u32_u24": lambda a, b: (a & U32(0xFFFFFF)) * (b & U32(0xFFFFFF)),
    "v_mul_i32_i24": lambda a, b: low_32(signed_24(a) * signed_24(b)),
    "v_max_i32": on_signed(np.maximum),
    "v_min_i32": on_signed(np.minimum),
    "v_max_u32": np.maximum,
    "v_min_u32": np.minimum,
}
THREE: dict[str, Callable] = {
    "v_fma_f32": fused,
    "v_fmamk_f32": fused,  # its second operand is a literal
    "v_fmaak_f32": fused,  # its third operand is a literal
    "v_max3_f32": on_floats(lambda a, b, c: np.fmax(np.fmax(a, b), c)),
    "v_min3_f32": on_floats(lambda a, b, c: np.fmin(np.fmin(a, b), c)),
    "v_minmax_f32": on_floats(lambda a, b, c: np.fmax(np.fmin(a, b), c)),
    "v_maxmin_f32": on_floats(lambda a, b, c: np.fmin(np.fmax(a, b), c)),
    "v_med3_f32": on_floats(lambda a, b, c: np.fmax(np.fmin(np.fmax(a, b), c), np.fmin(a, b))),
    "v_add3_u32": lambda a, b, c: a + b + c,
    "v_lshl_add_u32": lambda a, b, c: (a << (b & U32(31))) + c,
    "v_add_lshl_u32": lambda a, b, c: (a + b) << (c & U32(31)),
    "v_lshl_or_b32": lambda a, b, c: a << (b & U32(31)) | c,
    "v_and_or_b32": lambda a, b, c: a & b | c,
    "v_or3_b32": lambda a, b, c: a | b | c,
    "v_xor3_b32": lambda a, b, c: a ^ b ^ c,
    "v_xad_u32": lambda a, b, c: (a ^ b) + c,
    "v_bfi_b32": lambda a, b, c: a & b | ~a & c,
    "v_bfe_u32": extract,
    "v_alignbit_b32": funnel,
    "v_mad_u32_u24": lambda a, b, c: (a & U32(0xFFFFFF)) * (b & U32(0xFFFFFF)) + c,
    "v_mad_i32_i24": lambda a, b, c: low_32(signed_24(a) * signed_24(b) + c.astype(I64)),
    "v_perm_b32": permute_bytes,
}
# Results of 16 bits: the upper half of the register is cleared or kept (Family.clears_upper_half).
HALVES: dict[str, Callable] = {
    "v_cvt_f16_f32": lambda a: to_half(f32(a)),
    "v_add_u16": lambda a, b: a + b & HALF,
    "v_sub_u16": lambda a, b: a - b & HALF,
    "v_mul_lo_u16": lambda a, b: a * b & HALF,
    "v_lshlrev_b16": lambda a, b: b << (a & U32(15)) & HALF,
    "v_lshrrev_b16": lambda a, b: (b & HALF) >> (a & U32(15)),
}
TABLES = (ONE, TWO, THREE, HALVES)
# v_fma_mix_f32 and its relatives. For each operand, op_sel_hi chooses fp32 or fp16, and op_sel the half of a register.
# gfx9's v_mad_mix, which rounds twice, is not among them, because no kernel uses it.
MIXED = {"v_fma_mix_f32", "v_fma_mixlo_f16", "v_fma_mixhi_f16"}


def compile_vector(i: Instruction, family: Family, lanes: int) -> tuple[int, Compute] | None:
    """The destination of an instruction and the function that computes it, or None if it is not of this kind."""
    name, o = i.name, i.operands
    modifiers = dict(i.modifiers)
    if name in MIXED:
        return vector_register(o[0]), mixed(name, o, modifiers)
    function = next((table[name] for table in TABLES if name in table), None)
    if name in ("v_fmac_f32", "v_mac_f32"):
        function, o = fused, [*o, o[0]]
    elif name in ("v_dot2_f32_f16", "v_dot2c_f32_f16"):
        function = flushed_dot_of_halves if family.flushes_products else dot_of_halves
        o = [*o, o[0]] if name == "v_dot2c_f32_f16" else o
    elif name == "v_dot4_i32_i8":
        function = dot_of_bytes
    elif name == "v_dot4c_i32_i8":
        function, o = dot_of_bytes, [*o, o[0]]
    elif name == "v_cndmask_b32":
        chosen = mask(o[3] if len(o) > 3 else "vcc_lo" if lanes == 32 else "vcc", lanes)
        function, o = None, o[:3]
    elif name == "v_pack_b32_f16":
        halves = numbers(modifiers.pop("op_sel", "[0,0,0]"))
        shifts = [U32(16 * half) for half in halves]
        function = lambda a, b: a >> shifts[0] & HALF | (b >> shifts[1] & HALF) << U32(16)
    elif function is None:
        return None
    sources = [vector(text) for text in o[1:]]
    if "dst_sel" in modifiers:
        sources = sub_dword(sources, modifiers)
    if "row_mask" in modifiers:
        sources[0] = dpp(sources[0], modifiers, lanes)
    if modifiers:
        raise Fault(f"unknown modifiers {modifiers}")
    to = vector_register(o[0])
    if name == "v_cndmask_b32":
        return to, lambda w: np.where(w.bits(chosen(w)), sources[1](w), sources[0](w))
    if name in HALVES and not family.clears_upper_half:
        return to, lambda w: w.v[to] & ~HALF | function(*(read(w) for read in sources))
    if len(sources) == 1:
        (a,) = sources
        return to, lambda w: function(a(w))
    if len(sources) == 2:
        a, b = sources
        return to, lambda w: function(a(w), b(w))
    a, b, c = sources
    return to, lambda w: function(a(w), b(w), c(w))


def mixed(name: str, o: list[str], modifiers: dict[str, str]) -> Compute:
    """The function that computes an instruction of MIXED."""
    high = numbers(modifiers.pop("op_sel", "[0,0,0]"))
    half = numbers(modifiers.pop("op_sel_hi", "[0,0,0]"))
    if modifiers:
        raise Fault(f"unknown modifiers {modifiers}")

    def operand(k: int) -> Compute:
        if not half[k]:
            read = vector(o[1 + k])
            return lambda w: f64(read(w))
        text = o[1 + k]
        negative = text.startswith("-")
        absolute = "|" in text
        read = vector(text.strip("-|"))
        shift = U32(16 * high[k])

        def value(w: Waves) -> Array:
            number = of_half(read(w) >> shift & HALF).astype(F64)
            number = np.abs(number) if absolute else number
            return -number if negative else number

        return value

    a, b, c = (operand(k) for k in range(3))
    to = vector_register(o[0])

    def compute(w: Waves) -> Array:
        exact = a(w) * b(w) + c(w)
        if name == "v_fma_mix_f32":
            return bits(exact)
        # The sum is rounded to fp32 first, and then to fp16.
        result = to_half(exact.astype(F32))
        if name == "v_fma_mixlo_f16":
            return w.v[to] & ~HALF | result
        return w.v[to] & HALF | result << U32(16)

    return compute
