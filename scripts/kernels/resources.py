#!/usr/bin/env python3
"""Prints each kernel's resources, and the instructions of a GEMM's step, as a table. Fails if a kernel spills or uses
scratch memory, looks empty, has another number of matrix instructions than it should, has vector instructions in a step
that it does not need, or reads registers of lanes that may be inactive.

usage: resources.py FOLDER VERSION LIST ARCHITECTURE ...

For each architecture FOLDER holds the code object, plain (.co) and compressed (.co.gz), the compiler's remarks
(.remarks), llvm-readelf's notes and symbols (.notes) and llvm-objdump's text (.text). scripts/kernels/compile.sh makes
these files and runs this script. VERSION is clang's, and LIST is objects/same_code.txt. Needs only Python.
"""
import os
import re
import sys

import lanes
import loops

MATRIX = re.compile(r"v_(wmma|mfma)_")
# Architectures on which the kernels use no matrix instruction (MATRIX_NONE in hip/kernels/platform/amd.h).
WITHOUT_MATRIX = {"gfx906", "gfx1030"}
# Architectures whose matrix instruction for bf16 takes 8 elements of each row. The others' take 16.
WITH_8_BF16 = {"gfx908"}
# Architectures with a matrix instruction for 32 bytes of each row. The others' take 16.
WITH_32_BYTES = {"gfx942"}
# The names of kernels that exist only on the other architectures.
NEEDS_MATRIX = re.compile(r"_d\d+$|^(norm_)?dense_|_64x128$")
# The number of threads of these depends on the architecture, and the number of heads that a block computes.
ANY_THREADS = re.compile(r"(_64x128)_\d+$|(_d\d+)_x2$")
# GEMMs, with rows, columns and threads of a tile.
GEMM = re.compile(r"(gemm|gemm_chain|gemm_byte_weights|gemm_chain_byte_weights|gemm_bytes|gemm_fp8|convolution)_(f32|f16|bf16)_(\d+)x(\d+)(?:_(\d+))?")
# The code has a step three times: twice in the loop over the middle steps, and once in that over the last (gemm_tiles.h).
STEP_COPIES = 3
# The vector instructions that make 16 bytes of fp16 and of bf16 from weights of 8 bits.
WIDENING = {"f16": 8, "bf16": 20}
# The other vector instructions of a step: those with which clang on gfx11 copies a fragment whose registers are not free.
COPIES = {("gfx11", "gemm_bytes_f16_64x64_128"): 4}
# These exist on architectures that multiply numbers in e4m3 only.
NEEDS_FP8 = re.compile(r"_fp8_")
WITH_FP8 = {"gfx942", "gfx1200"}
# These exist where neighbouring blocks run on other dies only (GPU_HAS_DIES).
NEEDS_DIES = re.compile(r"_256x128_512$")
WITH_DIES = {"gfx942"}


def fail(message):
    sys.exit(f"resources.py: {message}")


def remarks(path):
    """The compiler's remarks: {kernel: {field: number}}, where True and False are 1 and 0."""
    found, kernel = {}, None
    for line in open(path):
        match = re.search(r"remark: +([A-Za-z /\[\]]+?): +(\S+)", line)
        if not match:
            continue
        field, value = match.group(1), match.group(2)
        if field == "Function Name":
            kernel = found.setdefault(value, {})
        elif value.isdigit() or value in ("True", "False"):
            kernel[re.sub(r" \[.*", "", field)] = int(value) if value.isdigit() else int(value == "True")
    return found


def code_sizes(path):
    """The bytes of code of each kernel: {kernel: number}."""
    sizes = {}
    for line in open(path):
        match = re.match(r" *\d+: [0-9a-f]+ +(\d+) FUNC .* (\S+)$", line)
        if match:
            sizes[match.group(2)] = int(match.group(1))
    return sizes


def instructions(path):
    """The names of each kernel's instructions, in order: {kernel: names}."""
    found, kernel = {}, None
    for line in open(path):
        match = re.match(r"[0-9a-f]+ <([a-z0-9_]+)>:", line)
        if match:
            kernel = found.setdefault(match.group(1), [])
        elif line.startswith("\t"):
            kernel.append(line.split(None, 1)[0])
    return found


def check(architecture, name, row, code):
    where = f"{architecture} {name}"
    if row["VGPRs Spill"] or row["SGPRs Spill"]:
        fail(f"{where} spills registers")
    if row["ScratchSize"] or row["Dynamic Stack"]:
        fail(f"{where} uses scratch memory")
    if not any(c.startswith("global_load") for c in code) or not any(c.startswith("global_store") for c in code):
        fail(f"{where} reads or writes nothing")
    if any(c.startswith(("flat_", "scratch_")) for c in code):
        fail(f"{where} has flat or scratch accesses")
    if row["VGPRs"] < 8 or len(code) < 60:
        fail(f"{where} looks empty: {row['VGPRs']} VGPRs, {len(code)} instructions")
    matrix = sum(bool(MATRIX.match(c)) for c in code)
    # The instructions for 16 elements of each row.
    per_step = 2 if "_bf16" in name and architecture in WITH_8_BF16 else 1
    depth = re.fullmatch(r"attention(?:_other)?_b?f16_d(\d+)(?:_x2)?", name)
    if depth:
        # Each of the two products, scores and weighted values, has 4 tiles of keys times the depth in tiles of 16 for
        # each tile of 16 queries. A wave has two tiles of queries if it has 64 lanes, as on gfx9.
        tiles = 2 if architecture.startswith("gfx9") else 1
        expected = per_step * tiles * 2 * 4 * max(1, int(depth.group(1)) // 16)
        if matrix != expected:
            fail(f"{where} has {matrix} matrix instructions, not {expected}")
    elif "dense_" in name:
        if matrix == 0 or matrix % 4:
            fail(f"{where} has {matrix} matrix instructions, not a positive multiple of 4")
    elif (gemm := GEMM.fullmatch(name)) and gemm[2] != "f32":
        # Each wave multiplies its part of the tile of results in steps of 16 x 16, twice per step of 32 elements. A step
        # has 64 bytes, which are two or four instructions. The components of a convolution are fp16 for bf16, too.
        rows, columns, threads = map(int, gemm.groups(default="128")[2:])
        waves = threads // (64 if architecture.startswith("gfx9") else 32)
        per_tile = 2 if gemm[1] == "convolution" else 2 * per_step
        if gemm[1] in ("gemm_bytes", "gemm_fp8") and architecture not in WITH_32_BYTES:
            per_tile = 4
        expected = 0 if architecture in WITHOUT_MATRIX else STEP_COPIES * per_tile * rows * columns // 256 // waves
        if matrix != expected:
            fail(f"{where} has {matrix} matrix instructions, not {expected}")
    elif matrix:
        fail(f"{where} has matrix instructions")
    return matrix


def step_cells(architecture, name, matrix, code):
    """A GEMM's instructions of a step, and on gfx11 the share of its matrix instructions with two operands in one bank of
    registers. Fails if a step has other vector instructions than products and what makes elements of the weights."""
    gemm = GEMM.fullmatch(name)
    if not gemm:
        return ["", ""]
    where, step = f"{architecture} {name}", loops.step(code)
    if not step or matrix and step["products"] * STEP_COPIES != matrix:
        fail(f"{where} has no loop of whole steps")
    columns, threads = int(gemm[4]), int(gemm[5] or 128)
    needed = WIDENING[gemm[2]] * columns * 4 // threads if "byte_weights" in name else 0
    needed += COPIES.get((architecture[:5], name), 0)
    if matrix and step["vector"] > needed:
        fail(f"{where} has {step['vector']:g} vector instructions in a step beside its products, and needs {needed}")
    share = f"{100 * step['in one bank'] / step['products']:.0f} %" if matrix and architecture.startswith("gfx11") else ""
    return [" ".join(f"{step[kind]:g}" for kind in loops.KINDS), share]


def check_lanes(architecture, kernels):
    """Fails if a kernel reads registers of lanes that may be inactive."""
    exchanges = 0
    for name, code in kernels.items():
        total, violations = lanes.check(code)
        exchanges += total
        if violations:
            where = f"{architecture} {name}: {len(violations)} of {total} exchanges between lanes"
            fail(f"{where} run where lanes may be inactive, first {lanes.text(violations[0])}")
    if exchanges < 100:
        fail(f"{architecture} has only {exchanges} exchanges between lanes")


def print_sizes(folder, listed, architectures):
    """Prints the sizes of the code objects, and the architectures that each of them serves."""
    served = {}
    for line in open(listed):
        if line.startswith("gfx"):
            architecture, stored, _ = line.split()
            served.setdefault(stored, []).append(architecture)
    print("| code object | bytes | compressed, as in the binary | also serves |")
    print("|---|---:|---:|---|")
    total = 0
    for architecture in architectures:
        plain, compressed = (os.path.getsize(f"{folder}/{architecture}{end}") for end in (".co", ".co.gz"))
        total += compressed
        print(f"| {architecture} | {plain} | {compressed} | {', '.join(served.get(architecture, []))} |")
    print(f"| all | | {total} | |")


def main():
    lanes.test()
    folder, version, listed, *architectures = sys.argv[1:]
    print("# Resources of the kernels")
    print()
    print(f"scripts/kernels/compile.sh made this file with clang {version}; do not edit it. VGPRs and AGPRs are per lane, SGPRs")
    print("per wave, and shared memory is per block. The column \"waves\" has the number of waves that registers and shared")
    print("memory allow on a SIMD, and \"matrix\" the number of matrix instructions. The script fails if a kernel spills")
    print("registers or uses scratch memory.")
    print()
    print("The column \"step\" has the instructions of a GEMM's wave for a step in the middle of the summed axis: products, other")
    print("vector instructions, reads and writes of shared memory, loads, scalar instructions, and waits. The script fails if a")
    print("step with matrix instructions has more vector instructions than it needs. \"One bank\" is the share of gfx11's matrix")
    print("instructions with two operands that begin in the same of four banks of registers.")
    print()
    print("Some architectures have the code of another one, byte for byte, so no object is stored for them. The engine")
    print("makes their objects from the stored one, and compile.sh checks that the compiler makes the same bytes.")
    print()
    print_sizes(folder, listed, architectures)
    names = None
    for architecture in architectures:
        rows = remarks(f"{folder}/{architecture}.remarks")
        sizes = code_sizes(f"{folder}/{architecture}.notes")
        code = instructions(f"{folder}/{architecture}.text")
        for needed, some in ((NEEDS_FP8, WITH_FP8), (NEEDS_DIES, WITH_DIES)):
            if any(map(needed.search, rows)) != (architecture in some):
                fail(f"{architecture} has kernels {needed.pattern}, or lacks them")
        common = {n for n in rows if not NEEDS_FP8.search(n) and not NEEDS_DIES.search(n)}
        common = {ANY_THREADS.sub(r"\1\2", name) for name in common}
        expected = {n for n in names or common if architecture not in WITHOUT_MATRIX or not NEEDS_MATRIX.search(n)}
        if architecture not in WITHOUT_MATRIX:
            if names is not None and common != names:
                fail(f"{architecture} has other kernels than {architectures[0]}")
            names = names or common
        elif common != expected:
            fail(f"{architecture} has other kernels than {architectures[0]}")
        parsed = lanes.parse(open(f"{folder}/{architecture}.text"))
        check_lanes(architecture, parsed)
        print()
        print(f"## {architecture}")
        print()
        print("| kernel | VGPRs | AGPRs | SGPRs | shared bytes | waves | matrix | code bytes | step | one bank |")
        print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
        for name in sorted(rows, key=lambda n: [int(p) if p.isdigit() else p for p in re.split(r"(\d+)", n)]):
            row = rows[name]
            matrix = check(architecture, name, row, code[name])
            cells = [row["VGPRs"], row.get("AGPRs", 0), row["SGPRs"], row["LDS Size"], row["Occupancy"], matrix, sizes[name]]
            cells += step_cells(architecture, name, matrix, parsed[name])
            print(f"| {name} | {' | '.join(map(str, cells))} |")


main()
