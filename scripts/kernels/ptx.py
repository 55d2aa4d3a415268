#!/usr/bin/env python3
"""What scripts/kernels/ptx.sh does with texts. Needs only Python.

usage: ptx.py clean FILE PATTERN              prints the PTX in FILE without comments, and only the entry points whose
                                              names have a match of PATTERN. Fails if its form is not that which
                                              hip/kernels/README.md describes
       ptx.py grid_constant FILE              adds to the LLVM IR in FILE what makes kernels read their arguments in place
       ptx.py resources FOLDER CLANG PTXAS    prints each kernel's resources as a table, from ptxas's FOLDER/TARGET.CARD.log
                                              and FOLDER/TARGET.ptx. Fails if a kernel spills more than it may. CLANG and
                                              PTXAS are versions
"""
import glob
import os
import re
import sys

# The version of ptxas for which this is a list of all kernels that spill, and for which other ones are a failure: their
# names, the cards, the most bytes of stack or of spills, and why that is allowed.
PTXAS_VERSION = "12.9.86"
MAY_SPILL = [
    (("layer_norm_f32_w768",), ("sm_70",), 16, "ptxas takes 80 registers, with which a multiprocessor holds three blocks"),
    (("squeeze_excite_f32",), ("sm_90", "sm_100", "sm_103"), 12, "ptxas takes 32 registers, with which all threads fit"),
    (("gemm_f16_64x128_64", "gemm_bf16_64x128_64"), ("sm_120", "sm_121"), 44,
     "all 255 registers are used, 128 of them for sums. `rukh tune` measures the tile against others"),
    (("gemm_f16_128x256_384", "gemm_bf16_128x256_384"), ("sm_90a",), 48,
     "all 168 registers that twelve waves leave to a thread are used, 128 for sums; what is spilled is used once a tile"),
    (("gemm_chain_f16_128x128_128", "gemm_chain_bf16_128x128_128"), ("sm_120", "sm_121"), 72,
     "the same; chains are not stored"),
]

# An entry point begins with its name, in a line that begins with this, and ends with a line that begins with }.
ENTRY = re.compile(r"^\.visible \.entry (\w+)\($")

# Debug information, functions that are not inlined, stacks, external symbols (except shared memory whose size the launch
# gives), and strings (except the names of pragmas).
UNEXPECTED = re.compile(
    r'\s*\.(loc|file|section)\b|.*(\.func|\.local|\.extern(?! \.shared)|\bcall)\b|(?!\s*\.pragma ).*"'
)


def fail(message):
    sys.exit(f"ptx.py: {message}")


def split(text):
    """The head of a cleaned PTX text and its entry points: (text, {name: text}). The host does the same."""
    head, entries, name = [], {}, None
    for line in text.splitlines(keepends=True):
        if match := ENTRY.match(line):
            if name is not None:
                fail(f"{match.group(1)} begins inside of {name}")
            name = match.group(1)
            entries[name] = []
        elif name is None and entries:
            fail(f"this line is between entry points: {line.rstrip()}")
        (head if name is None else entries[name]).append(line)
        if line.startswith("}"):
            if name is None:
                fail("the head has a function")
            name = None
    if name is not None:
        fail(f"{name} has no end")
    return "".join(head), {name: "".join(lines) for name, lines in entries.items()}


def cleaned(text, pattern):
    """The PTX text without comments and empty lines, and with the entry points whose names match."""
    # No string has // in it: without a debugger's descriptions there are no strings but names of pragmas.
    lines = [re.sub(r"\s*//.*", "", line).rstrip() for line in text.splitlines()]
    head, entries = split("".join(line + "\n" for line in lines if line))
    for line in lines:
        if UNEXPECTED.match(line):
            fail(f"unexpected: {line.strip()}")
    for name, entry in entries.items():
        if not re.search(r"(?m)^\.maxntid \d+, 1, 1$", entry):
            fail(f"{name} does not say how many threads it has")
    kept = [entry for name, entry in entries.items() if re.search(pattern, name)]
    if not kept:
        fail(f"no entry point has a match of {pattern}")
    return head + "".join(kept)


def with_grid_constants(text):
    """The IR with an annotation of each kernel that its only argument is constant and may be read in place.

    In CUDA that is __grid_constant__. clang 19 does not have that word, but its backend has the annotation. Without it, the
    backend copies arguments with arrays that are indexed at run time to the stack.
    """
    kernels = re.findall(r'!\{ptr @(\w+), !"kernel", i32 1\}', text)
    number = 1 + max(int(n) for n in re.findall(r"(?m)^!(\d+) = ", text))
    nodes = [f'!{number + 1 + i} = !{{ptr @{name}, !"grid_constant", !{number}}}' for i, name in enumerate(kernels)]
    names = "".join(f", !{number + 1 + i}" for i in range(len(kernels)))
    text, count = re.subn(r"(?m)^(!nvvm\.annotations = !\{.*)\}$", rf"\1{names}}}", text)
    if count != 1 or not kernels:
        fail("the IR has no annotations of kernels")
    # The first argument has number 1.
    return text + "\n".join([f"!{number} = !{{i32 1}}"] + nodes) + "\n"


def resources(path):
    """ptxas's figures: {kernel: (registers, bytes of shared memory, bytes of stack and spills)}."""
    found, name, stack = {}, None, 0
    for line in open(path):
        if match := re.search(r"Compiling entry function '(\w+)'", line):
            name, stack = match.group(1), 0
        elif match := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            stack = max(int(number) for number in match.groups())
        elif match := re.search(r"Used (\d+) registers", line):
            shared = re.search(r"(\d+) bytes smem", line)
            found[name] = (int(match.group(1)), int(shared.group(1)) if shared else 0, stack)
    if not found:
        fail(f"{path} names no kernel")
    return found


def by_number(name):
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def print_resources(folder, clang, ptxas):
    print("# Resources of the kernels on NVIDIA's cards")
    print()
    print(f"scripts/kernels/ptx.sh made this file with clang {clang} and ptxas {ptxas}; do not edit it. Threads and shared")
    print("memory are those of a block, and registers are those of a thread, for each kind of card. The driver of a card")
    print("compiles the PTX itself, and may use other numbers of registers. The script fails if a kernel spills more than")
    print("these:")
    print()
    print("| kernels | cards | at most, bytes | why |")
    print("|---|---|---:|---|")
    for names, cards, most, why in MAY_SPILL:
        print(f"| {', '.join(names)} | {', '.join(cards)} | {most} | {why} |")
    spilling = []
    for path in sorted(glob.glob(f"{folder}/sm_*.ptx"), key=by_number):
        target = os.path.basename(path)[: -len(".ptx")]
        logs = sorted(glob.glob(f"{folder}/{target}.sm_*.log"), key=by_number)
        cards = {log.split(".")[-2]: resources(log) for log in logs}
        _, entries = split(open(path).read())
        print()
        print(f"## {target}")
        print()
        print(f"| kernel | threads | shared bytes | {' | '.join(cards)} |")
        print("|---|" + "---:|" * (2 + len(cards)))
        for name in sorted(entries, key=by_number):
            threads = re.search(r"(?m)^\.maxntid (\d+)", entries[name]).group(1)
            cells = [threads, *{figures[name][1] for figures in cards.values()}]
            if len(cells) != 2:
                fail(f"{name} of {target} has other shared memory on other cards")
            for card, figures in cards.items():
                registers, _, stack = figures[name]
                cells.append(registers)
                allowed = [most for names, on, most, _ in MAY_SPILL if name in names and card in on]
                if stack > max(allowed, default=0):
                    spilling.append(f"{name} of {target} has {stack} bytes of stack or spills on {card}")
            print(f"| {name} | {' | '.join(map(str, cells))} |")
    if spilling:
        message = "\n".join(spilling)
        if ptxas == PTXAS_VERSION:
            fail(message)
        print(f"{message}\nptxas is {ptxas}, and the limits are those of {PTXAS_VERSION}", file=sys.stderr)


def test():
    """Tests the texts' changes on small ones."""
    entry = "{}(\n\t.param .u64 a\n)\n.maxntid 32, 1, 1{}\n{{\n\t{{ .reg .f16 low; }}\n{}\tret;\n}}\n"
    raw = "//\n.version 7.0\n\n" + entry.format("\t// .globl a\n.visible .entry a_f16", " // @a", "// %bb.0:\n")
    raw += entry.format(".visible .entry b", "", "")
    a, b = (entry.format(f".visible .entry {name}", "", "") for name in ("a_f16", "b"))
    assert cleaned(raw, ".") == ".version 7.0\n" + a + b
    assert cleaned(raw, "f16") == ".version 7.0\n" + a
    assert split(cleaned(raw, ".")) == (".version 7.0\n", {"a_f16": a, "b": b})
    ir = '!nvvm.annotations = !{!0}\n!0 = !{ptr @a, !"kernel", i32 1}\n'
    assert with_grid_constants(ir) == (
        '!nvvm.annotations = !{!0, !2}\n!0 = !{ptr @a, !"kernel", i32 1}\n'
        '!1 = !{i32 1}\n!2 = !{ptr @a, !"grid_constant", !1}\n'
    )


def main():
    test()
    match sys.argv[1:]:
        case ["clean", path, pattern]:
            sys.stdout.write(cleaned(open(path).read(), pattern))
        case ["grid_constant", path]:
            text = with_grid_constants(open(path).read())
            with open(path, "w") as file:
                file.write(text)
        case ["resources", folder, clang, ptxas]:
            print_resources(folder, clang, ptxas)
        case _:
            sys.exit(__doc__)


main()
