"""Instructions that read other lanes, and operands that are a part of a register.

Sources: AMD's instruction set documents, "DPP", "SDWA", "DS_SWIZZLE_B32", "DS_BPERMUTE_B32", "V_PERMLANEX16_B32". A
lane that reads the register of an inactive lane is an error here: on a card, that register holds an older value.
"""
import re
from collections.abc import Callable

import numpy as np

from disassembly import Instruction, numbers
from fault import Fault
from operands import mask, scalar, to_scalar, vector, vector_register
from state import U32, U64, Array, Waves

Read = Callable[[Waves], Array]
PARTS = {"DWORD": (0, 0xFFFFFFFF), "WORD_0": (0, 0xFFFF), "WORD_1": (16, 0xFFFF)} | {
    f"BYTE_{i}": (8 * i, 0xFF) for i in range(4)
}


def sub_dword(sources: list[Read], modifiers: dict[str, str]) -> list[Read]:
    """The operands of an SDWA instruction. Each is a byte, a half or all of a register. The result fills a register."""
    if modifiers.pop("dst_sel") != "DWORD" or modifiers.pop("dst_unused", "UNUSED_PAD") != "UNUSED_PAD":
        raise Fault("SDWA with a part of a register as its result is not supported")

    def part(read: Read, name: str) -> Read:
        shift, bits = PARTS[name]
        return lambda w: read(w) >> U32(shift) & U32(bits)

    return [part(read, modifiers.pop(f"src{k}_sel", "DWORD")) for k, read in enumerate(sources)]


def from_lanes(value: Array, source: Array, w: Waves, what: str) -> Array:
    """value[wave][source[lane]]. Active lanes must not read inactive ones."""
    if source.ndim == 1:
        if not w.full and (w.active & ~w.active[:, source]).any():
            raise Fault(f"{what} reads an inactive lane")
        return np.broadcast_to(value, w.active.shape)[:, source]
    if not w.full and (w.active & ~np.take_along_axis(w.active, source, 1)).any():
        raise Fault(f"{what} reads an inactive lane")
    return np.take_along_axis(np.broadcast_to(value, w.active.shape), source, 1)


def dpp(read: Read, modifiers: dict[str, str], lanes: int) -> Read:
    """The first operand of a DPP instruction."""
    if modifiers.pop("row_mask") != "0xf" or modifiers.pop("bank_mask") != "0xf":
        raise Fault("DPP that leaves out rows or banks is not supported")
    modifiers.pop("bound_ctrl", None)
    modifiers.pop("fi", None)
    lane = np.arange(lanes)
    if "row_xmask" in modifiers:
        source = lane ^ int(modifiers.pop("row_xmask"))
    elif "quad_perm" in modifiers:
        source = lane & ~3 | np.array(numbers(modifiers.pop("quad_perm")))[lane & 3]
    elif "row_ror" in modifiers:
        source = lane & ~15 | (lane - int(modifiers.pop("row_ror"))) & 15
    elif "row_mirror" in modifiers:
        modifiers.pop("row_mirror")
        source = lane ^ 15
    elif "row_half_mirror" in modifiers:
        modifiers.pop("row_half_mirror")
        source = lane ^ 7
    else:
        raise Fault(f"unknown DPP control {modifiers}")
    return lambda w: from_lanes(read(w), source, w, "DPP")


def compile_exchange(i: Instruction, lanes: int) -> Callable[[Waves], object] | None:
    """The function that executes an instruction, or None if it is not of this kind."""
    name, o = i.name, i.operands
    lane = np.arange(lanes)
    if name == "ds_swizzle_b32":
        found = re.fullmatch(r"swizzle\(SWAP,(\d+)\)", i.modifiers.get("offset", ""))
        if not found:
            raise Fault("only swizzles that swap are supported")
        source, read, to = lane ^ int(found.group(1)), vector(o[1]), vector_register(o[0])
        return lambda w: w.write(to, from_lanes(read(w), source, w, "ds_swizzle"))
    if name == "ds_bpermute_b32":
        address, read, to = vector(o[1]), vector(o[2]), vector_register(o[0])
        offset = int(i.modifiers.get("offset", "0"), 0)

        def permute(w: Waves) -> None:
            place = (np.broadcast_to(address(w), w.active.shape).astype(np.int64) + offset >> 2) % lanes
            w.write(to, from_lanes(read(w), place, w, "ds_bpermute"))

        return permute
    if name in ("v_permlane16_b32", "v_permlanex16_b32"):
        return permute_16(o, 16 if "x16" in name else 0, lane)
    if name == "v_readfirstlane_b32":
        write, read = to_scalar(o[0]), vector(o[1])

        def first(w: Waves) -> None:
            value = np.broadcast_to(read(w), w.active.shape)
            write(w, value[np.arange(len(value)), w.active.argmax(axis=1)])

        return first
    if name == "v_readlane_b32":
        write, read, which = to_scalar(o[0]), vector(o[1]), scalar(o[2])
        return lambda w: write(w, np.take_along_axis(read(w), (which(w) % lanes).astype(int)[:, None], 1)[:, 0])
    if name in ("v_mbcnt_lo_u32_b32", "v_mbcnt_hi_u32_b32"):
        return count_before(o, name, lane)
    return None


def permute_16(o: list[str], other: int, lane: Array) -> Callable[[Waves], object]:
    """v_permlane16 and v_permlanex16. Two scalars hold 4 bits for each lane of a row: the lane that it reads."""
    read, low, high, to = vector(o[1]), scalar(o[2]), scalar(o[3]), vector_register(o[0])

    def permute(w: Waves) -> None:
        choices = low(w) | high(w).astype(U64) << U64(32)
        inner = choices[:, None] >> ((lane & 15) * 4).astype(U64) & U64(15)
        source = np.broadcast_to((lane & ~15 ^ other) | inner.astype(np.int64), w.active.shape)
        w.write(to, from_lanes(read(w), source, w, "v_permlane16"))

    return permute


def count_before(o: list[str], name: str, lane: Array) -> Callable[[Waves], object]:
    """v_mbcnt: adds the number of set bits that a mask of the low or the high 32 lanes has below this lane."""
    read, add, to = mask(o[1], 32), vector(o[2]), vector_register(o[0])
    first = 32 if "hi" in name else 0

    def count(w: Waves) -> None:
        bits = read(w)[:, None] >> np.arange(32, dtype=U64) & U64(1)
        below = np.arange(32)[None, :] + first < lane[:, None]
        w.write(to, (bits @ below.T.astype(U64)).astype(U32) + add(w))

    return count
