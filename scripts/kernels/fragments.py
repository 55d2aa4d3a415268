#!/usr/bin/env python3
"""Checks hip/kernels/platform/nvidia.h's matrix products against the PTX ISA, lane by lane.

usage: fragments.py

NVIDIA's matrix instructions take their operands from the registers of 32 lanes. This script has the PTX ISA's formulas
for which element each register holds. It loads tiles of random numbers as matrix.h does (load_fragment, by ldmatrix, and
load_rows), multiplies them with the words that nvidia.h's functions name, which it reads from the source, and compares
with a plain product. Needs only Python.
"""
import os
import random
import re
import sys

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../hip/kernels/platform/nvidia.h")
LANES, TILE = range(32), 16


# PTX ISA, "Matrix fragments for mma...": the row and the column that a lane has in a register, for each element of it.
def a_of_four(lane, register, element, per_word):
    """The A of m16n8k16 (fp16, bf16) and m16n8k32 (bytes, e4m3): rows alternate, then the half of the columns."""
    return lane // 4 + 8 * (register % 2), per_word * (lane % 4) + element + 4 * per_word * (register // 2)


def a_of_two(lane, register, element, per_word):
    """The A of m16n8k8 (fp16)."""
    return lane // 4 + 8 * register, per_word * (lane % 4) + element


def a_of_one(lane, register, element, per_word):
    """The A of m8n8k16 (bytes)."""
    return lane // 4, per_word * (lane % 4) + element


def b_of_any(lane, register, element, per_word):
    """The B of all of them: a row is of the summed axis, a column is groupID."""
    return per_word * (lane % 4) + element + 4 * per_word * register, lane // 4


def c_of_any(lane, i):
    return lane // 4 + 8 * (i // 2), lane % 4 * 2 + i % 2


# M, N, K, the elements in a register of 32 bits, and the place of A.
INSTRUCTIONS = {
    "m16n8k16": (16, 8, 16, 2, a_of_four),
    "m16n8k32": (16, 8, 32, 4, a_of_four),
    "m16n8k8": (16, 8, 8, 2, a_of_two),
    "m8n8k16": (8, 8, 16, 4, a_of_one),
}


def mma(name, a_words, b_words, sums):
    """D = A B + C. a_words[lane] and b_words[lane] are lists of registers, each a list of elements; sums[lane] changes."""
    rows, columns, depth, per_word, a_place = INSTRUCTIONS[name]
    a = [[None] * depth for _ in range(rows)]
    b = [[None] * columns for _ in range(depth)]
    for lane in LANES:
        for register, word in enumerate(a_words[lane]):
            for element, value in enumerate(word):
                row, column = a_place(lane, register, element, per_word)
                assert a[row][column] is None, "two registers hold the same element"
                a[row][column] = value
        for register, word in enumerate(b_words[lane]):
            for element, value in enumerate(word):
                row, column = b_of_any(lane, register, element, per_word)
                assert b[row][column] is None, "two registers hold the same element"
                b[row][column] = value
    for lane in LANES:
        for i in range(len(sums[lane])):
            row, column = c_of_any(lane, i)
            sums[lane][i] += sum(a[row][k] * b[k][column] for k in range(depth))


def fragment_by_ldmatrix(tile, is_own, per_word):
    """matrix.h, load_fragment: the four words of each lane."""
    eight = 4 * per_word  # the elements of a row of a matrix
    matrices = []
    for matrix in range(4):
        # The lanes from 8 * matrix on give the addresses of its rows.
        lower, vector = (matrix & 1, matrix >> 1) if is_own else (matrix >> 1, matrix & 1)
        matrices.append([tile[8 * lower + r][vector * eight : (vector + 1) * eight] for r in range(8)])
    words = [[m[lane // 4][per_word * (lane % 4) : per_word * (lane % 4 + 1)] for m in matrices] for lane in LANES]
    order = (0, 1, 2, 3) if is_own else (0, 2, 1, 3)
    return [[lane_words[i] for i in order] for lane_words in words]


def fragments_by_load_rows(tile, per_word):
    """matrix.h, load_rows with MATRIX_QUADS: the words of each lane, for one step, and for two (a tile twice as wide)."""
    steps = len(tile[0]) // (8 * per_word)
    fragments = [[[None] * 4 for _ in LANES] for _ in range(steps)]
    for lane in LANES:
        group, single = lane % 4, steps == 1
        for part in range(2):
            row = lane // 4 + 8 * part
            offset = 8 * (group // 2 if single else group)  # in units of 16 bits
            start = offset * per_word // 2
            words = [tile[row][start + per_word * k : start + per_word * (k + 1)] for k in range(4)]
            for k in range(2 if single else 4):
                word = words[(k + 2) % 4] if single and group % 2 else words[k]
                fragments[k // 2][lane][2 * (k % 2) + part] = word
    return fragments


def expand(text, **values):
    for name, value in values.items():
        text = re.sub(rf"\b{name}\b", str(value), text)
    return eval(text)  # an index such as 2 * 1 + 0, from the repository's own source


def instructions_of(source, function, is_turing):
    """The instructions of a function of nvidia.h, in order: (name, words of own, words of other, sums)."""
    halves = source.split("\n#else\n\n// Turing")
    assert len(halves) == 2
    body = halves[is_turing].split(f"Accumulator {function}(")[1].split("\n}\n")[0]
    if macro := re.search(r'MULTIPLY_TILE\("(k\d+)", "(\w+)"\)', body):
        name = f"m16n8{macro.group(1)}"
        body = halves[0].split("#define MULTIPLY_TILE")[1].split("\ntemplate")[0]
    else:
        name = re.search(r"mma\.sync\.aligned\.(m\d+n\d+k\d+)\.", body).group(1)
    own, other = (re.findall(rf"\b{side}\.word\[([^\]]+)\]", body) for side in ("own", "other"))
    # The sums are named one by one, or by a pointer to the first of two, or in a loop over four.
    if first := re.search(r"sums = sum\.value \+ ([^;]+);", body):
        sums = [first.group(1), f"{first.group(1)} + 1"]
    elif each := re.search(r"float_bits\(sum\.value\[([^\]]+)\]\)", body):
        sums = [re.sub(r"\bi\b", str(i), each.group(1)) for i in range(4)]
    else:
        sums = re.findall(r'"\+f"\(sum\.value\[([^\]]+)\]\)', body)
    loops = [re.search(rf"i32 {name} = 0; {name} < (\d);", body) for name in ("part", "k")]
    parts, steps = (int(loop.group(1)) if loop else 1 for loop in loops)
    for half in range(2):
        for part in range(parts):
            for k in range(steps):
                values = {"half": half, "part": part, "k": k}
                yield name, *([expand(index, **values) for index in indices] for indices in (own, other, sums))


def check(source, function, is_turing, per_word, load):
    """Multiplies tiles of random numbers with `function`, and compares with a plain product. Returns the instruction."""
    random.seed(1)
    width = 8 * per_word * (2 if load == "rows of two" else 1)
    own, other = ([[random.randrange(-9, 10) for _ in range(width)] for _ in range(TILE)] for _ in range(2))
    if load == "ldmatrix":
        steps = [(fragment_by_ldmatrix(own, True, per_word), fragment_by_ldmatrix(other, False, per_word))]
    else:
        steps = zip(fragments_by_load_rows(own, per_word), fragments_by_load_rows(other, per_word))
    sums = [[0] * 8 for _ in LANES]
    for own_words, other_words in steps:
        for name, a, b, places in instructions_of(source, function, is_turing):
            part = [[sums[lane][i] for i in places] for lane in LANES]
            mma(name, [[own_words[lane][i] for i in a] for lane in LANES],
                [[other_words[lane][i] for i in b] for lane in LANES], part)
            for lane in LANES:
                for i, value in zip(places, part[lane]):
                    sums[lane][i] = value
    for lane in LANES:
        for i in range(8):
            # matrix.h: the element of D in a lane's register i.
            row, column = lane // 4 + 8 * (i // 2 % 2), 8 * (i // 4) + 2 * (lane % 4) + i % 2
            expected = sum(x * y for x, y in zip(own[row], other[column]))
            if sums[lane][i] != expected:
                sys.exit(f"fragments.py: {function}, {load}: lane {lane}, sum {i} is {sums[lane][i]}, not {expected}")
    return name


def main():
    with open(SOURCE) as file:
        source = file.read()
    cases = [("multiply_f16", False, 2), ("multiply_bf16", False, 2), ("multiply_bytes", False, 4),
             ("multiply_fp8", False, 4), ("multiply_f16", True, 2), ("multiply_bytes", True, 4)]
    names = set()
    for function, is_turing, per_word in cases:
        for load in ("ldmatrix", "rows of one", "rows of two"):
            names.add(check(source, function, is_turing, per_word, load))
    print(f"nvidia.h multiplies what the kernels load, with {', '.join(sorted(names))}")


main()
