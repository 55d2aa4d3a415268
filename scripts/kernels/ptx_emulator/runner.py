"""Runs a kernel: all threads of all blocks, side by side while they take the same path."""
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from arithmetic import compile_arithmetic
from cases import Fault
from copies import compile_copy
from listing import Instruction, Kernel
from moves import compile_move
from threads import WARP, Array, Threads, reader
from warps import compile_warp

# A kernel that executes more instructions than this, as `Launch.steps` counts them, does not end.
LIMIT = 1_000_000
STEP, BRANCH, SPIN, BARRIER, END, TOGETHER = range(6)


@dataclass
class Compiled:
    """An instruction, ready to run."""

    kind: int
    step: Callable[[Threads], object]
    target: int = -1  # of a branch


def compile_one(kernel: Kernel, i: Instruction) -> Compiled:
    """An instruction that is no branch."""
    if i.guard:
        raise Fault("only branches are known with a condition")
    for compiler in (compile_arithmetic, compile_move, compile_copy):
        if step := compiler(kernel, i):
            return Compiled(STEP, step)
    if step := compile_warp(kernel, i):
        return Compiled(TOGETHER, step)
    raise Fault("unknown instruction")


def compile_place(kernel: Kernel, place: int) -> Compiled:
    """The instruction at a place of the program."""
    i = kernel.program[place]
    if i.name in ("bra", "bra.uni"):
        target = kernel.labels[i.operands[0].text]
        # A loop back to a load that other blocks are to change: its threads wait for these.
        between = kernel.program[target:place]
        kind = SPIN if any(other.name.startswith("ld.volatile") for other in between) and len(between) < 8 else BRANCH
        if not i.guard:
            return Compiled(kind, lambda t: np.ones(1, bool), target)
        read, negated = reader(kernel, i.guard, "pred"), i.guard_is_negated
        return Compiled(kind, (lambda t: ~read(t)) if negated else read, target)
    if i.name == "ret" and not i.guard:
        return Compiled(END, lambda t: None)
    if i.name == "bar.sync" and not i.guard and [operand.text for operand in i.operands] == ["0"]:
        return Compiled(BARRIER, lambda t: None)
    if i.name == "membar.gl" and not i.guard:
        return Compiled(STEP, lambda t: t.order.pass_fence(t.running()))
    return compile_one(kernel, i)


class Launch:
    """One launch of a kernel."""

    def __init__(self, kernel: Kernel, threads: Threads, compiled: dict[int, Compiled]) -> None:
        self.kernel = kernel
        self.threads = threads
        self.compiled = compiled
        self.steps = 0
        # Threads as masks, by the place of the program where they are.
        self.ready: dict[int, Array] = {0: np.ones(threads.count, bool)}
        self.parked: dict[int, Array] = {}  # at a barrier
        self.asleep: dict[int, Array] = {}  # waiting for another block
        self.seen: tuple[int, bytes] = (-1, b"")  # when threads last waited for another block: writes, and the threads
        self.partial: dict[int, Array] = {}  # at an instruction of a whole warp, waiting for other lanes

    def run(self) -> None:
        """Always runs the threads that are furthest behind, so that they catch up with the others and can be joined.
        Threads that wait for another block go on when all others have ended or wait as well."""
        t = self.threads
        with np.errstate(all="ignore"):
            while self.ready or self.parked or self.asleep or self.partial:
                if not self.ready:
                    self.release()
                if not self.ready:
                    where = self.kernel.program[next(iter(self.partial))].text if self.partial else "a barrier"
                    raise Fault(f"{where}: lanes of the warp never come here")
                place = min(self.ready)
                mask = self.ready.pop(place)
                self.run_some(place, mask, min(self.ready, default=len(self.kernel.program)))
        if t.copies is not None and t.copies.all:
            raise Fault("the kernel ends without waiting for its asynchronous copies")

    @staticmethod
    def put(to: dict[int, Array], place: int, mask: Array) -> None:
        """Joins threads with others at the same place."""
        to[place] = to[place] | mask if place in to else mask

    def release(self) -> None:
        """Threads at a barrier go on if all of their block are there, and those that wait for another block look again."""
        t = self.threads
        blocks = (t.blocks, t.per_block)
        asleep = np.zeros(t.count, bool)
        for mask in self.asleep.values():
            asleep |= mask
        late = asleep.reshape(blocks).any(1)
        waiting = self.parked
        self.parked = {}
        released = np.zeros(t.blocks, bool)
        for place, mask in waiting.items():
            here = mask.reshape(blocks)
            now = here.any(1) & ~late
            if not here.all(1)[now].all():
                raise Fault("some threads of a block wait at a barrier, and others have ended or wait at another one")
            released |= now
            goes = np.repeat(now, t.per_block)
            if now.any():
                self.put(self.ready, place + 1, mask & goes)
            if (mask & ~goes).any():
                self.put(self.parked, place, mask & ~goes)
        t.shared.barriers[released] += 1
        t.order.pass_barrier(released)
        for place, mask in self.asleep.items():
            self.put(self.ready, place, mask)
        self.asleep = {}
        seen = t.arena.changes, asleep.tobytes()
        if asleep.any() and not released.any() and seen == self.seen:
            raise Fault("threads wait for another block for ever")
        self.seen = seen

    def whole_warps(self, place: int, mask: Array) -> Array:
        """The threads whose warps are complete. The others wait for the rest of theirs."""
        if place in self.partial:
            mask = mask | self.partial.pop(place)
        lanes = mask.reshape(-1, WARP)
        complete = np.repeat(lanes.all(1), WARP)
        if (mask & ~complete).any():
            self.put(self.partial, place, mask & ~complete)
        self.threads.select(complete)
        return complete

    def run_some(self, place: int, mask: Array, limit: int) -> None:
        """Runs threads until they end, wait, separate, or reach the place where others are."""
        t, compiled = self.threads, self.compiled
        t.select(mask)
        while place < limit:
            self.steps += 1
            if self.steps > LIMIT:
                raise Fault("does not end")
            try:
                now = compiled.get(place)
                if now is None:
                    now = compiled[place] = compile_place(self.kernel, place)
                if now.kind == TOGETHER and (t.index is not None or place in self.partial):
                    mask = self.whole_warps(place, mask)
                    if not mask.any():
                        return
                taken = now.step(t)
            except (Fault, IndexError, KeyError, ValueError, TypeError, AttributeError) as error:
                said = error if isinstance(error, Fault) else f"{type(error).__name__}: {error}"
                raise Fault(f"instruction {place}, {self.kernel.program[place].text}: {said}") from error
            kind = now.kind
            if kind in (STEP, TOGETHER):
                place += 1
                continue
            if kind == END:
                t.ended |= mask
                return
            if kind == BARRIER:
                self.put(self.parked, place, mask)
                return
            jumps = t.some(taken)
            if kind == BRANCH and jumps.all():
                place = now.target
                if place >= limit:
                    break
                continue
            if not jumps.any():
                place += 1
                continue
            goes = mask & taken
            self.put(self.asleep if kind == SPIN else self.ready, now.target, goes)
            if (mask & ~goes).any():
                self.put(self.ready, place + 1, mask & ~goes)
            return
        if place >= len(self.kernel.program):
            raise Fault("runs beyond the last instruction")
        self.put(self.ready, place, mask)
