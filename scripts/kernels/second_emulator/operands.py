"""Turns the text of operands into functions that read or write them."""
import re
from collections.abc import Callable
from functools import cache

import numpy as np

from disassembly import registers
from fault import Fault
from state import F32, M0, TRAP, U32, U64, VCC, Array, Waves, spread

Read = Callable[[Waves], Array]
Write = Callable[[Waves, Array], None]
LOW = U64(0xFFFFFFFF)
# 1 / (2 pi). llvm-objdump writes it as a decimal number, whose first eight digits are compared.
INVERSE_TWO_PI = 0x3E22F983


def constant(text: str) -> int:
    """The 32 bits of an inline constant or a literal."""
    if re.fullmatch(r"-?0x[0-9a-f]+", text):
        return int(text, 16) & 0xFFFFFFFF
    if re.fullmatch(r"-?\d+", text):
        return int(text) & 0xFFFFFFFF
    if text.startswith("0.15915494"):
        return INVERSE_TWO_PI
    try:
        return int(np.array(float(text), F32).view(U32))
    except ValueError:
        raise Fault(f"unknown operand {text}") from None


@cache
def fixed(text: str) -> int | None:
    """The place of a named scalar register, or None."""
    if text in ("vcc", "vcc_lo", "vcc_hi"):
        return VCC + (text == "vcc_hi")
    if text == "m0":
        return M0
    if re.match(r"(s|ttmp)[\[\d]", text):
        kind, first, _ = registers(text)
        return first + (TRAP if kind == "ttmp" else 0)
    return None


@cache
def scalar(text: str) -> Read:
    """Reads 32 bits per wave."""
    at = fixed(text)
    if at is not None:
        return lambda w: w.s[at]
    if text in ("exec", "exec_lo"):
        return lambda w: (w.exec & LOW).astype(U32)
    if text == "exec_hi":
        return lambda w: (w.exec >> U64(32)).astype(U32)
    if text == "scc":
        return lambda w: w.scc.astype(U32)
    value = np.array([0 if text == "null" else constant(text)], U32)
    return lambda w: value


@cache
def scalar_wide(text: str, signed: bool = False) -> Read:
    """Reads 64 bits per wave. Inline integers are sign-extended; literals are only if `signed` is true."""
    at = fixed(text)
    if at is not None:
        return lambda w: w.s[at] | w.s[at + 1].astype(U64) << U64(32)
    if text == "exec":
        return lambda w: w.exec
    bits = 0 if text == "null" else constant(text)
    if "." in text:
        raise Fault(f"{text} as an operand of 64 bits is not supported")
    if bits >> 31 and (signed or not text.startswith("0x")):
        bits |= 0xFFFFFFFF << 32
    value = np.array([bits], U64)
    return lambda w: value


@cache
def mask(text: str, lanes: int) -> Read:
    """Reads a mask of lanes per wave, as 64 bits."""
    if lanes == 64:
        return scalar_wide(text)
    read = scalar(text)
    return lambda w: read(w).astype(U64)


def to_scalar(text: str) -> Write:
    """Writes 32 bits per wave."""
    at = fixed(text)
    if at is not None:

        def write(w: Waves, value: Array) -> None:
            w.s[at] = value

        return write
    if text == "null":
        return lambda w, value: None
    if text in ("exec", "exec_lo"):
        return lambda w, value: w.set_exec(w.exec & ~LOW | value)
    if text == "exec_hi":
        return lambda w, value: w.set_exec(w.exec & LOW | value.astype(U64) << U64(32))
    raise Fault(f"{text} cannot be written")


def to_scalar_wide(text: str) -> Write:
    """Writes 64 bits per wave."""
    if text == "exec":
        return lambda w, value: w.set_exec(spread(value, w.exec.shape).copy())
    if text == "null":
        return lambda w, value: None
    at = fixed(text)
    if at is None:
        raise Fault(f"{text} cannot be written")

    def write(w: Waves, value: Array) -> None:
        w.s[at] = value & LOW
        w.s[at + 1] = value >> U64(32)

    return write


def to_mask(text: str, lanes: int) -> Write:
    """Writes a mask of lanes per wave."""
    if lanes == 64:
        return to_scalar_wide(text)
    write = to_scalar(text)
    return lambda w, value: write(w, value.astype(U32))


@cache
def vector(text: str) -> Read:
    """Reads 32 bits per lane. The result is an array that numpy broadcasts to [wave][lane]. A minus sign changes the
    sign bit, and bars clear it: both exist only for floating-point numbers."""
    if text.startswith("-") and text[1:2] in ("v", "s", "|", "a"):
        inside = vector(text[1:])
        return lambda w: inside(w) ^ U32(0x80000000)
    if text.startswith("|"):
        inside = vector(text[1:-1])
        return lambda w: inside(w) & U32(0x7FFFFFFF)
    if re.fullmatch(r"v\d+", text):
        number = int(text[1:])
        return lambda w: w.v[number]
    if re.fullmatch(r"a\d+", text):
        number = int(text[1:])
        return lambda w: w.a[number]
    read = scalar(text)
    return lambda w: read(w)[:, None]


@cache
def vector_wide(text: str, signed: bool = False) -> Read:
    """Reads 64 bits per lane."""
    if text.startswith("v["):
        number = registers(text)[1]
        return lambda w: w.read_wide(number)
    read = scalar_wide(text, signed)
    return lambda w: read(w)[:, None]


@cache
def vector_register(text: str) -> int:
    """The number of a vector register, or of the first of several."""
    kind, first, _ = registers(text)
    if kind != "v":
        raise Fault(f"{text} is not a vector register")
    return first
