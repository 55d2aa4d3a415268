#!/usr/bin/env python3
"""Finds instructions that read the registers of other lanes where some of those lanes may be inactive.

usage: lanes.py FILE ...       FILE is the output of llvm-objdump -d; the exit code is 1 if such an instruction is found

Exchanges between lanes (permlane, DPP, swizzle, permute) and matrix products need the numbers of every lane. The source
executes them where all lanes are active. A compiler that does not know their meaning may move them, or the step before
them, into the branch of those lanes that use the result. The other lanes are then inactive and have not computed their
part, so that sums are wrong: clang 19 does this to v_permlanex16 and v_wmma.

The check follows EXEC, the mask of active lanes, along all paths: where it is saved, narrowed by a condition, and
restored. An exchange is right if EXEC is what it was at the start of the kernel, or if all conditions since then have
the same value in all lanes that take part: conditions made of scalars and of the number of the wave (or of the half of
64 lanes) in its block. scripts/kernels/compile.sh runs the check on all kernels. Needs only Python.
"""
import re
import sys

EXCHANGE = re.compile(r"v_permlane|v_s?wmma|v_mfma|v_smfmac|ds_b?permute|ds_swizzle|\w+_dpp$")
# Exchanges that may reach beyond 32 lanes.
WIDE = re.compile(r"v_mfma|v_smfmac|ds_b?permute|v_permlane64")
LINE = re.compile(r"\t(\S+) *(.*?) *// ([0-9A-F]+):")
TARGET = re.compile(r"<(\w+)(?:\+0x([0-9a-f]+))?>")
# A mask of lanes. The check looks at groups of 32 or 64 lanes, and each group may take another path.
ALL = ("all",)  # EXEC as it was at the start of the kernel, in each group that reaches the instruction
EITHER = ("either",)  # in each group, all of its lanes or none
# The other masks are tuples whose last element is a mask that contains them:
#   ("part", address, outer)   the lanes of `outer` that the condition at this address selects
#   ("rest", part, outer)      the lanes of `outer` that are not in `part`
#   ("meet", address, outer)   the lanes that reach this address on paths with different masks
#   ("unknown", address, ALL)  lanes about which nothing more is known


def parse(lines):
    """Kernel -> [(address, mnemonic, operands, target of a branch)]."""
    kernels, starts, code = {}, {}, None
    for line in lines:
        head = re.match(r"([0-9a-f]+) <(\w+)>:", line)
        if head:
            starts[head.group(2)] = int(head.group(1), 16)
            code = kernels.setdefault(head.group(2), [])
            continue
        found = LINE.match(line)
        if not found:
            continue
        name, operands, address = found.group(1), found.group(2), int(found.group(3), 16)
        target = None
        if "branch" in name:
            place = TARGET.search(line)
            target = starts[place.group(1)] + int(place.group(2) or "0", 16)
        code.append((address, name, [o.strip() for o in operands.split(",")] if operands else [], target))
    return kernels


def scalar(operand):
    """The name of a scalar operand's first register: s4, s[4:5] -> s4; exec, vcc of either width."""
    if operand in ("exec", "exec_lo"):
        return "exec"
    if operand in ("vcc", "vcc_lo"):
        return "vcc"
    found = re.fullmatch(r"s\[?(\d+)(?::(\d+))?\]?", operand)
    return f"s{found.group(1)}" if found else None


def registers(operand):
    """The scalar registers of an operand."""
    found = re.fullmatch(r"s\[(\d+):(\d+)\]", operand)
    if found:
        return {f"s{i}" for i in range(int(found.group(1)), int(found.group(2)) + 1)}
    return {scalar(operand)} - {None}


def above(mask):
    """Yields this mask and the masks that contain it, up to ALL."""
    yield mask
    while mask != ALL:
        mask = mask[2]
        yield mask


def within(inner, outer):
    return outer in above(inner)


def common(a, b):
    """The smallest known mask that contains both."""
    others = set(above(b))
    return next(mask for mask in above(a) if mask in others)


def union(a, b):
    """The lanes of a and b together, or None if no known mask has exactly these lanes."""
    if within(a, b):
        return b
    if within(b, a):
        return a
    if a[0] == "rest" and a[1] == b or b[0] == "rest" and b[1] == a:
        return (a if a[0] == "rest" else b)[2]
    return None


def without(a, b):
    """The lanes of a that are not in b, which lies within a."""
    if b[0] == "rest" and b[2] == a:
        return b[1]
    return ("rest", b, a)


def merge(place, a, b):
    """The mask at the address `place`, which is reached with mask a on one path and with mask b on another."""
    if a == b:
        return a
    if a[0] == "meet" and a[1] == place:
        a = a[2]
    shared = common(a, b)
    return ("meet", place, shared)


def before_loop(mask):
    """EXEC before the innermost loop that lanes leave one by one, or None."""
    return next((m[2] for m in above(mask) if m[0] == "meet"), None)


def parts(name, operands):
    """The operations of an instruction: one, or two for a dual-issue instruction."""
    both = ", ".join(operands)
    if "::" not in both:
        return [(name, operands)]
    first, second = both.split("::")
    name_2, rest = second.strip().split(None, 1)
    return [(name, [o.strip() for o in first.split(",")]), (name_2, [o.strip() for o in rest.split(",")])]


def vectors(operand):
    """The vector registers of an operand."""
    found = re.match(r"[-|]*v\[(\d+):(\d+)\]", operand)
    if found:
        return {f"v{i}" for i in range(int(found.group(1)), int(found.group(2)) + 1)}
    found = re.match(r"[-|]*(v\d+)", operand)
    return {found.group(1)} if found else set()


def same_in_group(name, sources, mask, held, same, lanes):
    """Whether a vector instruction computes the same number in all lanes of a group."""
    if mask != ALL or EXCHANGE.match(name) or "mbcnt" in name:
        return False
    if "cndmask" in name and held.get(scalar(sources[-1])) != EITHER or "_ci_" in name:
        return False
    shift = re.match(r"v_(lshrrev_b32|bfe_u32)", name)
    if shift:
        item, by = (sources[1], sources[0]) if shift.group(1) == "lshrrev_b32" else (sources[0], sources[1])
        if same.get(item) == "item" and by.isdigit() and 2 ** int(by) >= lanes:
            return True
    return all(same.get(register) == "group" for operand in sources for register in vectors(operand))


def step(instruction, state, lanes):
    """The state after an instruction: the mask in EXEC (None: not known yet), the masks in scalar registers, and the vector
    registers that hold the same number in all lanes of a group ("group") or the number of the work item ("item")."""
    address, name, operands, _ = instruction
    mask, held, same = state
    base = re.sub(r"_(b32|b64)$", "", name)
    to = scalar(operands[0]) if operands else None
    unknown = ("unknown", address, ALL)

    def value(operand):
        if operand in ("0", "-1"):
            return EITHER
        return mask if scalar(operand) == "exec" else held.get(scalar(operand))

    def combine(kind, a, b):
        if kind == "s_mov":
            return a
        if a == EITHER or b == EITHER:
            # One operand is all lanes or none.
            other = b if a == EITHER else a
            return EITHER if other in (ALL, EITHER) else None
        if kind in ("s_xor", "s_andn2", "s_and_not1") and a and a == b:
            return EITHER if a == ALL else None
        if kind == "s_and" and (a or b):
            return ("part", address, a if not b else b if not a else a if within(a, b) else b)
        if kind in ("s_andn2", "s_and_not1") and a:
            return without(a, b) if b and within(b, a) else ("part", address, a)
        if kind == "s_or" and a and b:
            return union(a, b)
        if kind == "s_xor" and a and b:
            return without(a, b) if within(b, a) else without(b, a) if within(a, b) else None
        return None

    if "saveexec" in base:
        source, saved = value(operands[1]), mask
        if source == EITHER and saved == ALL:
            pass
        elif base == "s_and_saveexec":
            mask = ("part", address, saved)
        elif base == "s_or_saveexec" and source and source != EITHER:
            mask = union(saved, source)
        elif base in ("s_and_not1_saveexec", "s_andn2_saveexec") and source and source != EITHER:
            if source[0] == "rest" and source[1] == saved:
                mask = source  # the two masks have no lane in common
            else:
                mask = without(source, saved) if within(saved, source) and saved != source else None
        else:
            mask = None
        return mask or unknown, {**held, to: saved}, same
    if name.startswith("v_cmp"):
        sources = operands if name.startswith("v_cmpx") else operands[1:]
        either = mask == ALL and all(same.get(r) == "group" for o in sources for r in vectors(o))
        if name.startswith("v_cmpx"):
            return (mask if either else ("part", address, mask)), held, same
        held = {k: v for k, v in held.items() if k != to}
        return mask, {**held, to: EITHER} if either else held, same
    result = None
    if base in ("s_mov", "s_and", "s_or", "s_xor", "s_andn2", "s_and_not1") and len(operands) > 1:
        a, b = value(operands[1]), value(operands[2]) if len(operands) > 2 else None
        result = combine(base, a, b)
        if to == "exec" and result is None and base == "s_or":
            # The other operand holds the lanes that have left a loop.
            return before_loop(mask), held, same
    if to == "exec":
        # If the result is all lanes or none, it counts as all, because with none nothing happens.
        return (ALL if result == EITHER else result or unknown), held, same
    if name.startswith(("s_cmp", "s_bitcmp", "s_cbranch", "s_waitcnt", "s_delay", "global_store", "ds_store", "ds_write")):
        return mask, held, same
    held, same_before = dict(held), same
    for part_name, part_operands in parts(name, operands):
        if not part_operands:
            continue
        writes = registers(part_operands[0]) | vectors(part_operands[0])
        sources = part_operands[1:]
        if sources and ("_co_" in part_name or "div_scale" in part_name):
            writes |= registers(sources[0])
            sources = sources[1:]
        if "fmac" in part_name or "dot2" in part_name:
            sources = [*sources, part_operands[0]]
        alike = part_name.startswith("v_") and same_in_group(part_name, sources, mask, held, same_before, lanes)
        for register in writes:
            held.pop(register, None)
        if any(same.get(register) for register in writes) or alike:
            same = {k: v for k, v in same.items() if k not in writes}
            if alike:
                same.update((register, "group") for register in writes if register[0] == "v")
    if result and to:
        held[to] = result
    # The register with the number of the work item may hold other numbers in its upper bits.
    if re.match(r"v_and_b32", name) and operands[1] == "0x3ff" and same_before.get(operands[2]) == "item" and mask == ALL:
        same = {**same, operands[0]: "item"}
    return mask, held, same


def check(code):
    """The number of exchanges, and those among them that run where lanes may be inactive."""
    # Code for waves of 64 lanes uses `exec`, and code for 32 lanes uses `exec_lo`.
    wide = any("exec" in operands for _, _, operands, _ in code)
    exchanges, violations = [], []
    for lanes in (32, 64) if wide else (32,):
        for i, mask in masks(code, lanes).items():
            name = code[i][1]
            if EXCHANGE.match(name) and lanes == (64 if wide and WIDE.match(name) else 32):
                exchanges.append(i)
                if mask != ALL:
                    violations.append(i)
    return len(exchanges), [code[i] for i in sorted(violations)]


def masks(code, lanes):
    """EXEC before each instruction that is reached; conditions may differ between groups of `lanes` lanes."""
    index = {instruction[0]: i for i, instruction in enumerate(code)}
    states = {0: (ALL, {}, {"v0": "item"})}
    todo, stuck = [0], set()
    while todo or stuck:
        # The mask after a loop is known only when the loop's start has been reached from its end. Until then the
        # instruction waits in `stuck`. If nothing else is left to do, its mask is unknown.
        i = todo.pop() if todo else stuck.pop()
        after = step(code[i], states[i], lanes)
        if after[0] is None:
            if todo:
                stuck.add(i)
                continue
            after = (("unknown", code[i][0], ALL), *after[1:])
        stuck.discard(i)
        following = [] if code[i][3] is None else [index[code[i][3]]]
        if code[i][1] not in ("s_branch", "s_endpgm") and i + 1 < len(code):
            following.append(i + 1)
        for j in following:
            if j not in states:
                state = after
            else:
                kept = [{k: v for k, v in states[j][n].items() if after[n].get(k) == v} for n in (1, 2)]
                state = (merge(code[j][0], states[j][0], after[0]), *kept)
            if states.get(j) != state:
                states[j] = state
                todo.append(j)
    return {i: state[0] for i, state in states.items()}


def text(instruction):
    address, name, operands, _ = instruction
    return f"{address:#x}: {name} {', '.join(operands)}"


# Two ways in which clang 19 has compiled "add the lanes, store the sum in lane 0", shortened. The right one also has a
# branch with two sides and a loop that lanes leave one by one, each followed by an exchange.
SINKING = """
0000000000000000 <moved>:
	v_mov_b32_dpp v6, v4 row_xmask:8 row_mask:0xf bank_mask:0xf // 000000000000: 00000000
	s_and_saveexec_b32 s1, vcc_lo                               // 000000000004: 00000000
	s_cbranch_execz 4                                           // 000000000008: 00000000 <moved+0x18>
	v_add_f32_e32 v4, v4, v6                                    // 00000000000C: 00000000
	v_permlanex16_b32 v6, v4, s2, 0xfedcba98                    // 000000000010: 00000000
	global_store_b32 v0, v6, s[4:5]                             // 000000000014: 00000000
	s_endpgm                                                    // 000000000018: 00000000
0000000000000100 <right>:
	v_permlanex16_b32 v6, v4, s2, 0xfedcba98                    // 000000000100: 00000000
	s_and_saveexec_b32 s3, vcc_lo                               // 000000000104: 00000000
	s_xor_b32 s3, exec_lo, s3                                   // 000000000108: 00000000
	global_store_b32 v0, v6, s[4:5]                             // 00000000010C: 00000000
	s_and_not1_saveexec_b32 s3, s3                              // 000000000110: 00000000
	global_store_b32 v0, v4, s[4:5]                             // 000000000114: 00000000
	s_or_b32 exec_lo, exec_lo, s3                               // 000000000118: 00000000
	v_permlanex16_b32 v6, v4, s2, 0xfedcba98                    // 00000000011C: 00000000
	v_add_nc_u32_e32 v0, 1, v0                                  // 000000000120: 00000000
	s_or_b32 s6, vcc_lo, s6                                     // 000000000124: 00000000
	s_and_not1_b32 exec_lo, exec_lo, s6                         // 000000000128: 00000000
	s_cbranch_execnz 65532                                      // 00000000012C: 00000000 <right+0x20>
	s_or_b32 exec_lo, exec_lo, s6                               // 000000000130: 00000000
	v_permlanex16_b32 v6, v4, s2, 0xfedcba98                    // 000000000134: 00000000
	s_endpgm                                                    // 000000000138: 00000000
"""


def test():
    """Tests the check itself."""
    kernels = parse(SINKING.splitlines())
    total, violations = check(kernels["moved"])
    assert total == 2 and [i[0] for i in violations] == [0x10], violations
    total, violations = check(kernels["right"])
    assert total == 3 and not violations, violations


def main():
    test()
    failed = False
    for path in sys.argv[1:]:
        for kernel, code in parse(open(path)).items():
            total, violations = check(code)
            if violations:
                failed = True
                print(f"{path} {kernel}: {len(violations)} of {total} exchanges, first {text(violations[0])}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
