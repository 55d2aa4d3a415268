#!/usr/bin/env python3
"""Counts the instructions of each GEMM's inner loop by their kind, for one step.

usage: loops.py FILE ...       FILE is the output of llvm-objdump -d

A step takes a part of the summed axis from global to shared memory and multiplies the part before (gemm_tiles.h). The
loop of steps is the innermost one that does both; a round of it may be several steps. Of the paths through a round, the
one with the most products and memory accesses counts, and of these the shortest; the others hold what only the first or
last steps do.

On gfx11, a matrix instruction takes longer if two of its operands begin in the same of the four banks of vector registers
(number mod 4). An operand that is a constant is in no bank.

scripts/kernels/resources.py makes a table of the counts. Needs only Python.
"""
import re
import sys

import lanes

MATRIX = re.compile(r"v_(wmma|mfma)_")
# The products where there are no matrix instructions.
PLAIN = re.compile(r"v_(dual_)?(dot|fma|mad_mix|mac|pk_fma)")
KINDS = ("products", "vector", "LDS reads", "LDS writes", "loads", "scalar", "waits")
# Without matrix instructions a step has an inner loop, over the four vectors of 16 bytes of each row.
INNER_ROUNDS = 4

sys.setrecursionlimit(10000)


def kind(name, product):
    """The kind of an instruction."""
    if product.match(name):
        return "products"
    if name.startswith("v_"):
        return "vector"
    if re.match(r"ds_(read|load)", name):
        return "LDS reads"
    if re.match(r"ds_(write|store)", name):
        return "LDS writes"
    if name.startswith("global_load"):
        return "loads"
    if re.match(r"s_(wait|barrier|nop|delay)", name):
        return "waits"
    return "scalar"


def blocks_of(code):
    """The basic blocks, as (first, end), and the numbers of each block's successors."""
    index = {instruction[0]: i for i, instruction in enumerate(code)}
    starts = {0}
    for i, (_, name, _, target) in enumerate(code):
        if target is not None or name == "s_endpgm":
            starts.add(i + 1)
        if target is not None:
            starts.add(index[target])
    starts = sorted(starts - {len(code)})
    number = {start: n for n, start in enumerate(starts)}
    blocks = list(zip(starts, [*starts[1:], len(code)]))
    after = []
    for _, end in blocks:
        _, name, _, target = code[end - 1]
        following = [] if name in ("s_branch", "s_endpgm") or end == len(code) else [number[end]]
        after.append(following + ([] if target is None else [number[index[target]]]))
    return blocks, after


def cycles(nodes, after):
    """The sets of blocks among `nodes` that reach each other (Tarjan's strongly connected components), if they are loops."""
    order, low, stack, found = {}, {}, [], []

    def visit(node):
        order[node] = low[node] = len(order)
        stack.append(node)
        for other in after[node]:
            if other not in nodes:
                continue
            if other not in order:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == order[node]:
            place = stack.index(node)
            members = set(stack[place:])
            del stack[place:]
            if len(members) > 1 or node in after[node]:
                found.append(members)

    for node in nodes:
        if node not in order:
            visit(node)
    return found


def loops(nodes, after, entries):
    """All loops among `nodes`: (header, members, the loops inside)."""
    found = []
    for members in cycles(nodes, after):
        header = next(n for n in sorted(members) if n in entries or any(
            n in after[other] for other in range(len(after)) if other not in members))
        inside = members - {header}
        found.append((header, members, loops(inside, after, set(after[header]))))
    return found


def innermost(all_loops, is_wanted):
    """The loops whose members are wanted and that have no such loop inside."""
    found = []
    for loop in all_loops:
        if is_wanted(loop[1]):
            found += innermost(loop[2], is_wanted) or [loop]
    return found


def step(code):
    """The counts for a step by kind, and the share of matrix instructions with two operands in one bank, or None if
    there is no loop of steps."""
    product = MATRIX if any(MATRIX.match(i[1]) for i in code) else PLAIN
    blocks, after = blocks_of(code)
    counts, banks = [], []
    for first, end in blocks:
        here = dict.fromkeys(KINDS, 0)
        for instruction in code[first:end]:
            here[kind(instruction[1], product)] += 1
        here["barriers"] = sum(i[1] in ("s_barrier", "s_barrier_wait") for i in code[first:end])
        here["in one bank"] = sum(bool(MATRIX.match(i[1])) and is_in_one_bank(i) for i in code[first:end])
        counts.append(here)

    def has_all(members):
        return all(any(counts[n][k] for n in members) for k in ("products", "loads", "LDS writes", "barriers"))

    found = innermost(loops(set(range(len(blocks))), after, {0}), has_all)
    if not found:
        return None
    # Where several loops have all, most steps are those of the loop with the most products.
    header, members, inside = max(found, key=lambda l: sum(counts[n]["products"] for n in l[1]))
    rounds = {n: INNER_ROUNDS if any(n in m for _, m, _ in inside) else 1 for n in members}
    inner_headers = {h: m for h, m, _ in inside}

    def follows(node):
        return [n for n in after[node] if n in members and n != header
                and not (n in inner_headers and node in inner_headers[n])]

    # The best way from each block back to the header.
    best = {}

    def way(node):
        if node not in best:
            ways = [way(n) for n in follows(node)]
            if header in after[node]:
                ways.append({k: 0 for k in counts[0]})
            ways = [w for w in ways if w]
            rest = max(ways, key=weight) if ways else None
            best[node] = rest and {k: rest[k] + rounds[node] * counts[node][k] for k in rest}
        return best[node]

    def weight(w):
        return (sum(w[k] for k in ("products", "LDS reads", "LDS writes", "loads")),
                -sum(w[k] for k in ("vector", "scalar", "waits")))

    whole = way(header)
    return {k: n / whole["barriers"] for k, n in whole.items()}


def is_in_one_bank(instruction):
    """Whether two operands of a matrix instruction begin in the same bank."""
    places = [re.match(r"[va]\[(\d+):", operand) for operand in instruction[2][1:4]]
    banks = [int(place[1]) % 4 for place in places if place]
    return len(set(banks)) < len(banks)


def main():
    for path in sys.argv[1:]:
        for name, code in lanes.parse(open(path)).items():
            if re.match(r"(gemm_(?!sum|any|warp)|convolution)", name):
                print(path.split("/")[-1], name, step(code))


if __name__ == "__main__":
    main()
