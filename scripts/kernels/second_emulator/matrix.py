"""Matrix instructions: D = A B + C on 16 x 16 tiles in fp32, with A and B in 16 bits or in e4m3; or in 32-bit integers,
with A and B in bytes.

Each family puts the elements of a tile into registers in its own way. Sources: "RDNA 3 ISA" and "RDNA 4 ISA", section
"Wave Matrix Multiply Accumulate"; "CDNA 3 ISA", section "Matrix Arithmetic Instructions". For B, read "column" where
the table says "row":

  gfx11 WMMA    A, B: row lane % 16, k = 2 r and 2 r + 1 in register r; lanes 16 to 31 repeat lanes 0 to 15
                C, D: row 2 r + lane / 16, column lane % 16
  gfx12 WMMA    A, B: row lane % 16, k = 8 (r / 2) + 4 (lane / 16) + 2 (r % 2) and the next
                C, D: row 8 (lane / 16) + r, column lane % 16
  MFMA          A, B: row lane % 16, k = K / 4 (lane / 16) + 2 r and the next, for K = 16 (gfx908's bf16: 8)
                C, D: row 4 (lane / 16) + r, column lane % 16

The hardware rounds between some of the additions. Here the sum is rounded once.

Of bytes, a lane holds on gfx11 all 16 of a row, and elsewhere 16 or 32 divided by the lanes that share the row: 4 r to
4 r + 3 in register r. Sums are rounded once or not at all, so that the order of the lanes does not matter.
"""
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from disassembly import Instruction, registers
from e4m3 import is_old, values
from family import Family
from fault import Fault
from state import F16, F32, F64, I32, I64, U16, U32, Array, Waves
from vector import flushed

SIDE = 16


@dataclass(frozen=True)
class Layout:
    """Where a family's instruction keeps the elements of a tile."""

    depth: int  # K, the length of the summed axis
    operand_registers: int
    sum_registers: int
    repeated: bool  # the upper lanes repeat the lower ones' operands
    k: Array  # [operand register][lane]: the first of the two elements
    row: Array  # [sum register][lane]


def layout(family: Family, kind: str, depth: int, lanes: int) -> Layout:
    """The layout of WMMA (kind "wmma") or MFMA ("mfma")."""
    lane = np.arange(lanes)[None, :]
    operand = np.arange(8)[:, None]
    group = lane // SIDE
    if kind == "mfma":
        count = depth // 8
        k = depth // 4 * group + 2 * operand[:count]
        return Layout(depth, count, 4, False, k, 4 * group + operand[:4])
    if lanes != 32 or depth != SIDE:
        raise Fault("this form of WMMA is not supported")
    if family.generation == 11:
        return Layout(depth, 8, 8, True, 2 * operand + 0 * group, 2 * operand + group)
    part = operand[:4]
    return Layout(depth, 4, 8, False, 8 * (part // 2) + 4 * group + 2 * (part % 2), 8 * group + operand)


def elements(words: Array, bfloat: bool, flushes: bool) -> Array:
    """The numbers in the low 16 bits of each word, in fp64."""
    if bfloat:
        numbers = (words.astype(U32) << U32(16)).view(F32).astype(F64)
    else:
        numbers = words.astype(U16).view(F16).astype(F64)
    return flushed(numbers, 2.0**-126 if bfloat else 2.0**-14) if flushes else numbers


def place(text: str, count: int) -> tuple[str, slice]:
    """The file and the numbers of `count` registers."""
    kind, first, held = registers(text)
    if held != count or kind == "s":
        raise Fault(f"{text} should be {count} registers")
    return kind, slice(first, first + count)


def compile_bytes(i: Instruction, tile: Layout, depth: int, lanes: int, codes: Array) -> Callable[[Waves], object]:
    """The function that executes a product of bytes, which stand for the numbers in `codes`: integers, or fp64 if sums
    are fp32. `tile` has the places of the sums, and says whether lanes repeat others' operands."""
    is_integer = codes.dtype == I64
    if i.modifiers != ({"neg_lo": "[1,1,0]"} if is_integer and lanes == 32 else {}):
        raise Fault(f"operands that are not signed: {i.modifiers}")
    groups = 1 if tile.repeated else lanes // SIDE
    count = depth // groups // 4
    a, b = place(i.operands[1], count), place(i.operands[2], count)
    to = place(i.operands[0], tile.sum_registers)
    start = None if i.operands[3] == "0" else place(i.operands[3], tile.sum_registers)
    sum_column = np.broadcast_to(np.arange(lanes)[None, :] % SIDE, tile.row.shape)

    def operand(w: Waves, source: tuple[str, slice]) -> Array:
        """An operand as [wave][row][byte]."""
        words = w.file(source[0])[source[1]]
        if tile.repeated and (words[:, :, :SIDE] != words[:, :, SIDE:]).any():
            raise Fault("the upper lanes do not repeat the lower lanes' operands")
        of_lanes = codes[np.ascontiguousarray(words.transpose(1, 2, 0)).view(np.uint8)]
        of_groups = of_lanes.reshape(len(w.number), lanes // SIDE, SIDE, -1)[:, :groups]
        return of_groups.transpose(0, 2, 1, 3).reshape(len(w.number), SIDE, -1)

    def step(w: Waves) -> None:
        w.every_lane(i.name)
        product = operand(w, a) @ operand(w, b).transpose(0, 2, 1)
        total = product[:, tile.row, sum_column].transpose(1, 0, 2)
        if start:
            total = total + w.file(start[0])[start[1]].view(I32 if is_integer else F32)
        result = (total & 0xFFFFFFFF).astype(U32) if is_integer else total.astype(F32).view(U32)
        w.file(to[0])[to[1]] = result

    return step


def compile_matrix(i: Instruction, family: Family, lanes: int) -> Callable[[Waves], object] | None:
    """The function that executes an instruction, or None if it is not of this kind."""
    if found := re.fullmatch(r"v_(wmma|mfma)_(i32_16x16x(\d+)_?iu?8|f32_16x16x(\d+)_fp8_fp8)", i.name):
        codes = np.arange(256, dtype=np.uint8).view(np.int8).astype(I64) if found.group(3) else values(is_old(family))
        depth = int(found.group(3) or found.group(4))
        return compile_bytes(i, layout(family, found.group(1), SIDE, lanes), depth, lanes, codes)
    found = re.fullmatch(r"v_(wmma|mfma)_f32_16x16x(\d+)_(b?)f16", i.name)
    if not found:
        return None
    if i.modifiers:
        raise Fault(f"unknown modifiers {i.modifiers}")
    tile = layout(family, found.group(1), int(found.group(2)), lanes)
    bfloat = found.group(3) == "b"
    column = np.broadcast_to(np.arange(lanes)[None, :] % SIDE, tile.k.shape)
    sum_column = np.broadcast_to(np.arange(lanes)[None, :] % SIDE, tile.row.shape)

    a, b = place(i.operands[1], tile.operand_registers), place(i.operands[2], tile.operand_registers)
    to = place(i.operands[0], tile.sum_registers)
    start = None if i.operands[3] == "0" else place(i.operands[3], tile.sum_registers)
    flushes = family.flushes_products

    def operand(w: Waves, source: tuple[str, slice]) -> Array:
        """An operand as [wave][row][k], in fp64."""
        words = w.file(source[0])[source[1]]
        if tile.repeated and (words[:, :, :SIDE] != words[:, :, SIDE:]).any():
            raise Fault("the upper lanes do not repeat the lower lanes' operands")
        result = np.empty((len(w.number), SIDE, tile.depth), F64)
        wave_last = words.transpose(0, 2, 1)
        result[:, column, tile.k] = elements(wave_last & U32(0xFFFF), bfloat, flushes).transpose(2, 0, 1)
        result[:, column, tile.k + 1] = elements(wave_last >> U32(16), bfloat, flushes).transpose(2, 0, 1)
        return result

    def step(w: Waves) -> None:
        w.every_lane(i.name)
        product = operand(w, a) @ operand(w, b).transpose(0, 2, 1)
        total = product[:, tile.row, sum_column].transpose(1, 0, 2)
        if start:
            sums = w.file(start[0])[start[1]].view(F32).astype(F64)
            total = total + (flushed(sums) if flushes else sums)
        w.file(to[0])[to[1]] = (flushed(total) if flushes else total).astype(F32).view(U32)

    return step
