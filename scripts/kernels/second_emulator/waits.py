"""Waits for memory: a register that is used before its load has been waited for is an error, and so is a barrier
before a wait for the wave's stores to shared memory.

Loads and stores run on while the wave continues. Each kind has a counter of operations under way, and the compiler
inserts instructions that wait until a counter is small enough. The operations of a counter end in order. Loads to
scalar registers are the exception: they end in any order, so only a wait for a count of zero shows that one of them has
ended. Sources: AMD's instruction set documents, "S_WAITCNT" (up to gfx11) and "S_WAIT_*CNT" (gfx12); LLVM's guide,
"Memory Model".

The history of a wave is a tuple of (counter, registers) in the order of the operations that may be under way. Waves
that are joined may have different histories.
"""
import re
from dataclasses import dataclass
from functools import cache

from disassembly import REGISTERS, Instruction
from family import Family
from fault import Fault
from state import Waves

Registers = frozenset[str]
NOTHING: Registers = frozenset()
# Counter -> what it counts. vm: global loads; vs: global stores; ds: shared memory and exchanges; km: scalar loads.
SPLIT = {
    "loadcnt": ("vm",), "storecnt": ("vs",), "dscnt": ("ds",), "kmcnt": ("km",), "loadcnt_dscnt": ("vm", "ds"),
    "storecnt_dscnt": ("vs", "ds"), "samplecnt": (), "bvhcnt": (), "expcnt": (), "xcnt": (),
}


LARGEST_COUNT = 63


@dataclass
class Waits:
    """What an instruction waits for, uses and starts."""

    is_wait: bool
    limits: tuple[tuple[frozenset[str], int], ...]  # (counted kinds, how many may be under way)
    uses: Registers
    starts: str  # a kind, or ""
    results: Registers
    arrives: bool  # whether the wave arrives at a barrier; a barrier itself does not wait for stores

    def check(self, w: Waves) -> None:
        """Applies the instruction to the histories of some waves."""
        if self.is_wait:
            w.set_histories([self.shorten(queue) for queue in w.waiting])
            return
        for queue in w.waiting:
            if self.arrives and any(kind == "ds" and not pending for kind, pending in queue):
                raise Fault("reaches a barrier before waiting for its stores to shared memory")
            for kind, pending in queue:
                if not pending.isdisjoint(self.uses):
                    raise Fault(f"uses {', '.join(sorted(pending & self.uses))} before waiting for its {kind} load")
        if self.starts:
            entry = (self.starts, self.results)
            w.waiting = [started(queue, entry) for queue in w.waiting]

    def shorten(self, queue: tuple) -> tuple:
        """The operations that may still be under way after this wait."""
        for kinds, limit in self.limits:
            scalar = "km" in kinds
            counted = [place for place, (kind, _) in enumerate(queue) if kind in kinds]
            # Scalar loads end in any order. As long as one may be under way, a wait for a count above zero does not
            # show that any operation of the counter has ended, not even one on shared memory.
            if scalar and limit and any(queue[place][0] == "km" for place in counted):
                continue
            ended = set(counted[: max(len(counted) - limit, 0)])
            queue = tuple(entry for place, entry in enumerate(queue) if place not in ended)
        return queue


def started(queue: tuple, entry: tuple[str, Registers]) -> tuple:
    """The history with one operation more. If 63 are under way already, the wave stalls until the oldest has ended."""
    if len(queue) >= LARGEST_COUNT and sum(kind == entry[0] for kind, _ in queue) >= LARGEST_COUNT:
        oldest = next(place for place, (kind, _) in enumerate(queue) if kind == entry[0])
        queue = queue[:oldest] + queue[oldest + 1 :]
    return (*queue, entry)


@cache
def names(operand: str) -> list[str]:
    """The registers of an operand, each with its kind."""
    text = operand.strip("-|")
    if text.startswith("vcc"):
        return ["vcc"]
    found = REGISTERS.match(text)
    if not found:
        return []
    kind, single, first, last = found.groups()
    if single:
        return [f"{kind}{single}"]
    return [f"{kind}{number}" for number in range(int(first), int(last) + 1)]


def compile_waits(parts: list[Instruction], family: Family) -> Waits:
    """What an instruction, or both halves of one, means for the counters."""
    i = parts[0]
    limits = waited(i, family)
    if limits is not None:
        return Waits(True, tuple(limits), NOTHING, "", NOTHING, False)
    uses = frozenset(name for part in parts for operand in part.operands for name in names(operand))
    kind, results = "", NOTHING
    if i.name.startswith(("global_load", "ds_load", "ds_swizzle", "ds_bpermute", "s_load")):
        kind = {"g": "vm", "d": "ds", "s": "km"}[i.name[0]]
        results = frozenset(names(i.operands[0]))
    elif i.name.startswith("global_atomic") and len(i.operands) == 4:
        kind, results = "vm", frozenset(names(i.operands[0]))
    elif i.name.startswith(("global_store", "global_atomic")):
        kind = "vs"
    elif i.name.startswith("ds_store"):
        kind = "ds"
    return Waits(False, (), uses, kind, results, i.name in ("s_barrier", "s_barrier_signal"))


def waited(i: Instruction, family: Family) -> list[tuple[frozenset[str], int]] | None:
    """The limits that a wait sets, or None for any other instruction."""
    if i.name == "s_waitcnt":
        loads = frozenset({"vm"} if family.counts_stores_apart else {"vm", "vs"})
        kinds = {"vmcnt": loads, "lgkmcnt": frozenset({"ds", "km"})}
        words = re.findall(r"(\w+)\((\d+)\)", i.text)
        return [(kinds[name], int(count)) for name, count in words if name in kinds]
    if i.name == "s_waitcnt_vscnt":
        return [(frozenset({"vs"}), int(i.operands[1], 0))]
    found = re.fullmatch(r"s_wait_(\w+cnt)", i.name)
    if not found:
        return None
    if found.group(1) not in SPLIT:
        raise Fault("unknown wait")
    kinds, value = SPLIT[found.group(1)], int(i.operands[0], 0)
    if len(kinds) == 2:
        # Bits 8 to 13 are for loads or stores, bits 0 to 5 for shared memory.
        return [(frozenset({kinds[0]}), value >> 8 & 63), (frozenset({kinds[1]}), value & 63)]
    return [(frozenset(kinds), value)]
