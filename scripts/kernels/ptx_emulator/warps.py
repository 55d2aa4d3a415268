"""Instructions of a whole warp: exchanges between its lanes, loads of matrices, and products of matrices. runner.py sees
to it that all lanes of a warp execute them together.

Where the elements of a matrix are in the registers of the lanes is written as in the sections "Matrix Fragments for
mma.m16n8k8" and the like of "PTX ISA". There, `group` is lane / 4, and `part` is lane % 4:

* A matrix A has rows of 8 x halves, with half 0 or 1, and columns of K. A lane has the row `group` of each half, and of
  each run of 4 x N columns the N that begin at N x part, where N elements fill a register. The next register has the other
  half of the rows, and then follow those of the next run of columns.
* A matrix B is the same with its columns in place of rows, and has no second half.
* Of sums, a lane has the row `group` of each half, and the columns 2 x part and 2 x part + 1, a register for each.
"""
import re

import numpy as np

from cases import Fault
from conversions import E4M3
from listing import Instruction, Kernel, Number
from moves import addresses, registers_of
from threads import TYPES, WARP, Array, Step, Threads, reader, writer

PRODUCT = re.compile(r"mma\.sync\.aligned\.m(\d+)n8k(\d+)\.row\.col\.(f32|s32)\.(\w+)\.(\w+)\.(f32|s32)")
SHAPES = {
    (16, 8, "f16"), (16, 16, "f16"), (16, 16, "bf16"), (8, 16, "s8"), (16, 32, "s8"), (16, 32, "e4m3"),
}


def compile_warp(kernel: Kernel, i: Instruction) -> Step | None:
    """The function that executes an instruction, or None if it is none of these."""
    if i.name == "shfl.sync.bfly.b32":
        return compile_exchange(kernel, i)
    if i.name == "ldmatrix.sync.aligned.m8n8.x4.shared.b16":
        return compile_load_matrix(kernel, i)
    if found := PRODUCT.fullmatch(i.name):
        rows, depth, sums, first, second, added = found.groups()
        shape = int(rows), int(depth), first
        if shape in SHAPES and first == second and sums == added == ("s32" if first == "s8" else "f32"):
            return compile_product(kernel, i, *shape, sums)
    return None


def compile_exchange(kernel: Kernel, i: Instruction) -> Step:
    """Each lane gets the register of the lane whose number differs in some bits."""
    to, source, bits, clamp, members = i.operands
    if clamp != Number("31") or members != Number("-1") or not isinstance(bits, Number):
        raise Fault("only exchanges among all lanes are known")
    write, read, flip = writer(to, "b32"), reader(kernel, source, "b32"), int(bits.text)
    if not 0 < flip < WARP:
        raise Fault("there is no such lane")

    def step(t: Threads) -> None:
        write(t, read(t)[t.number ^ flip])

    return step


def compile_load_matrix(kernel: Kernel, i: Instruction) -> Step:
    """Four matrices of 8 x 8 elements of 16 bits. The lanes 8k to 8k + 7 have the addresses of matrix k's rows, and lane l
    gets word l % 4 of row l / 4 of each."""
    slots = [register.slot for register in registers_of(i.operands[0], 4)]
    places = addresses(kernel, i.operands[1], 32)

    def step(t: Threads) -> None:
        threads = t.running()
        words = t.shared.words(threads, places(t), 4)
        rows = t.shared.load(threads, words, for_warp=True).T.reshape(-1, 4, 8, 4)
        for k, slot in enumerate(slots):
            t.put_some(slot, np.ascontiguousarray(rows[:, k]).reshape(-1))

    return step


def elements(registers: list[Array], kind: str) -> Array:
    """The numbers in registers, as [register][warp][group][part][number]."""
    words = np.stack(registers)
    shape = (len(registers), -1, 8, 4, 2 if kind.endswith("16") else 4)
    if kind == "f16":
        return words.view(np.float16).astype(np.float64).reshape(shape)
    if kind == "bf16":
        return (words.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64).reshape(shape)
    if kind == "s8":
        return words.view(np.int8).astype(np.float64).reshape(shape)
    return E4M3[words.view(np.uint8)].reshape(shape)


def compile_product(kernel: Kernel, i: Instruction, rows: int, depth: int, kind: str, sums: str) -> Step:
    """D = A x B + C, for every warp. Sums are computed in fp64, which is exact for integers, and rounded once."""
    halves = rows // 8
    per_register = 2 if kind.endswith("16") else 4
    runs = depth // (4 * per_register)
    counts = (2 * halves, runs * halves, runs, 2 * halves)
    to, first, second, added = [registers_of(operand, count) for operand, count in zip(i.operands, counts, strict=True)]
    writes = [writer(register, sums) for register in to]
    first, second = ([reader(kernel, register, "b32") for register in some] for some in (first, second))
    added = [reader(kernel, register, sums) for register in added]

    def step(t: Threads) -> None:
        warps = t.count // WARP
        a = elements([read(t) for read in first], kind).reshape(runs, halves, warps, 8, 4, per_register)
        a = a.transpose(2, 1, 3, 0, 4, 5).reshape(warps, rows, depth)
        b = elements([read(t) for read in second], kind)
        b = b.transpose(1, 0, 3, 4, 2).reshape(warps, depth, 8)
        product = np.matmul(a, b).reshape(warps, halves, 8, 4, 2)
        for k, (write, read) in enumerate(zip(writes, added, strict=True)):
            total = product[:, k // 2, :, :, k % 2].reshape(-1) + read(t)
            if sums == "s32":
                total = total.astype(np.int64)
            write(t, total.astype(TYPES[sums]))

    return step
