"""Runs a kernel: all waves of all workgroups, side by side while they take the same path."""
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from disassembly import Instruction
from e4m3 import compile_e4m3
from exchange import compile_exchange
from fault import Fault
from kernel_object import KernelObject
from matrix import compile_matrix
from memory import Memory, compile_memory
from scalar import compile_scalar
from shared import Shared, compile_shared
from state import I64, TRAP, VCC, Array, Waves
from vector import compile_vector
from waits import Waits, compile_waits
from wide import compile_wide

# A kernel that executes more instructions than this, as `Launch.run` counts them, does not end.
LIMIT = 200_000
# Instructions that change nothing here: hints, waits of the pipeline, messages to the host, the caches' write-backs and
# invalidations, because there are no caches, and the signal of a split barrier, because waves are held at the barrier's
# wait. Waits for memory are in waits.py.
NOTHING = re.compile(
    r"(buffer_(gl[01]_inv|wbinvl1_vol|wbl2|inv)|global_(inv|wb))$|s_(nop|clause|delay_alu|(set_)?inst_prefetch(_distance)?|sendmsg|waitcnt_depctr|wait_alu|wait_idle|sethalt"
    r"|setprio|barrier_signal)$"
)
STEP, BRANCH, BARRIER, SLEEP, END = range(5)


@dataclass
class Compiled:
    """An instruction, ready to run."""

    kind: int
    step: Callable[[Waves], object]
    waits: Waits
    target: int = -1  # of a branch


BRANCHES: dict[str, Callable[[Waves], Array]] = {
    "s_branch": lambda w: np.ones(len(w.number), bool),
    "s_cbranch_scc0": lambda w: ~w.scc,
    "s_cbranch_scc1": lambda w: w.scc,
    "s_cbranch_execz": lambda w: w.exec == 0,
    "s_cbranch_execnz": lambda w: w.exec != 0,
    "s_cbranch_vccz": lambda w: vcc(w) == 0,
    "s_cbranch_vccnz": lambda w: vcc(w) != 0,
}


def vcc(w: Waves) -> Array:
    """A number that is zero if and only if the mask VCC is: one scalar register, or the union of two for 64 lanes."""
    return w.s[VCC] if w.lanes == 32 else w.s[VCC] | w.s[VCC + 1]


def compile_one(i: Instruction, code: KernelObject, lanes: int) -> Callable[[Waves], object]:
    """The function that executes an instruction that is not a branch."""
    if i.name.startswith("s_") and not i.name.startswith("s_load"):
        return compile_scalar(i, lanes)
    step = None
    if i.name.startswith(("global_", "s_load_")):
        step = compile_memory(i)
    elif i.name.startswith("v_"):
        if found := compile_vector(i, code.family, lanes):
            to, compute = found
            return lambda w: w.write(to, compute(w))
        step = compile_wide(i, code.family, lanes) or compile_matrix(i, code.family, lanes)
        step = step or compile_e4m3(i, code.family)
    elif i.name.startswith("ds_"):
        step = compile_shared(i)
    step = step or compile_exchange(i, lanes)
    if not step:
        raise Fault("unknown instruction")
    return step


def compile_pair(parts: list[Instruction], code: KernelObject, lanes: int) -> Callable[[Waves], object]:
    """A dual-issue instruction: both halves read their operands before either writes."""
    found = [compile_vector(part, code.family, lanes) for part in parts]
    if None in found:
        raise Fault("unknown instruction")
    (first_to, first), (second_to, second) = found

    def step(w: Waves) -> None:
        value, other = first(w), np.array(second(w))
        w.write(first_to, value)
        w.write(second_to, other)

    return step


def compile_place(code: KernelObject, place: int, lanes: int) -> Compiled:
    """The instruction at a place of the program."""
    parts = code.program.parse(place)
    i = parts[0]
    waits = compile_waits(parts, code.family)
    if i.name == "s_endpgm":
        return Compiled(END, lambda w: None, waits)
    if i.name in ("s_barrier", "s_barrier_wait"):
        return Compiled(BARRIER, lambda w: None, waits)
    if i.name == "s_sleep":
        return Compiled(SLEEP, lambda w: None, waits)
    if i.name in BRANCHES:
        words = int(i.operands[0], 0) & 0xFFFF
        words -= (words & 0x8000) << 1
        target = code.program.place[i.address + 4 + 4 * words]
        return Compiled(BRANCH, BRANCHES[i.name], waits, target)
    if waits.is_wait or NOTHING.match(i.name):
        return Compiled(STEP, lambda w: None, waits)
    if len(parts) > 1:
        return Compiled(STEP, compile_pair(parts, code, lanes), waits)
    return Compiled(STEP, compile_one(i, code, lanes), waits)


class Launch:
    """One launch of a kernel."""

    def __init__(self, code: KernelObject, name: str, memory: Memory, compiled: dict[int, Compiled]) -> None:
        self.code = code
        self.kernel = code.kernels[name]
        self.memory = memory
        self.compiled = compiled
        self.shared: Shared
        self.steps = 0

    def run(self, arguments: bytes, grid: tuple[int, int], threads: int) -> int:
        """Runs the kernel to its end. Returns the number of executed instructions. An instruction that several waves
        execute together counts once."""
        kernel = self.kernel
        if len(arguments) < kernel.argument_bytes:
            raise Fault(f"takes {kernel.argument_bytes} bytes of arguments, and gets {len(arguments)}")
        per_group = threads // kernel.lanes
        groups = grid[0] * grid[1]
        self.shared = Shared(groups, kernel.shared_bytes, per_group)
        with np.errstate(all="ignore"):
            self.run_all(self.first_state(arguments, grid, groups, per_group), per_group)
        return self.steps

    def first_state(self, arguments: bytes, grid: tuple[int, int], groups: int, per_group: int) -> Waves:
        """The waves with their registers as the hardware sets them at the start."""
        kernel = self.kernel
        number = np.arange(groups * per_group, dtype=I64)
        waves = Waves(self, kernel.lanes, number)
        address = self.memory.add(np.frombuffer(arguments, np.uint8))
        waves.s[kernel.arguments_at] = address & 0xFFFFFFFF
        waves.s[kernel.arguments_at + 1] = address >> 32
        group = number // per_group
        workgroup = [group % grid[0], group // grid[0], 0 * group]
        if self.code.family.workgroup_in_trap_registers:
            waves.s[TRAP + 9] = workgroup[0]
            waves.s[TRAP + 7] = workgroup[1] | workgroup[2] << 16
        else:
            for k, axis in enumerate(kernel.workgroup_axes):
                waves.s[kernel.user_scalars + k] = workgroup[axis]
        waves.v[0] = (number % per_group)[:, None] * kernel.lanes + np.arange(kernel.lanes)
        waves.place = self.code.program.place[kernel.entry]
        return waves

    def run_all(self, first: Waves, per_group: int) -> None:
        """Always runs the waves that are furthest behind, so that they catch up with the others and can be joined. Waves
        that sleep, because they wait for other workgroups, go on when all others have ended or wait as well."""
        ready, parked, asleep = [first], [], []
        while ready or parked or asleep:
            if not ready:
                ready, parked = self.release(parked, asleep, per_group)
                ready += asleep
                asleep = []
            place = min(w.place for w in ready)
            now = Waves.join([w for w in ready if w.place == place])
            ready = [w for w in ready if w.place != place]
            self.run_some(now, min((w.place for w in ready), default=1 << 60), ready, parked, asleep)

    def release(self, parked: list[Waves], asleep: list[Waves], per_group: int) -> tuple[list[Waves], list[Waves]]:
        """The waves at a barrier that continue, and those that still wait because a wave of their workgroup sleeps. All
        waves of a workgroup must wait at the same barrier."""
        late = np.zeros(len(self.shared.data) // self.shared.words, bool)
        for w in asleep:
            late[w.number // per_group] = True
        count = np.zeros(len(late), I64)
        places: dict[int, int] = {}
        released, waiting = [], []
        for w in parked:
            waits = late[w.number // per_group]
            for some, to in ((waits, waiting), (~waits, released)):
                if some.any():
                    to.append(w.take(some))
        for w in released:
            for group in w.number // per_group:
                count[group] += 1
                if places.setdefault(int(group), w.place) != w.place:
                    raise Fault("waves of a workgroup wait at different barriers")
            w.epoch = w.epoch + 1
        if ((count != 0) & (count != per_group)).any():
            raise Fault("some waves of a workgroup wait at a barrier, and others have ended")
        return released, waiting

    def run_some(
        self, w: Waves, limit: int, ready: list[Waves], parked: list[Waves], asleep: list[Waves]
    ) -> None:
        """Runs waves until they end, wait, separate, or reach the place where others are."""
        compiled = self.compiled
        while w.place < limit:
            self.steps += 1
            if self.steps > LIMIT:
                raise Fault("does not end")
            place = w.place
            try:
                now = compiled.get(place)
                if now is None:
                    now = compiled[place] = compile_place(self.code, place, w.lanes)
                now.waits.check(w)
                taken = now.step(w)
            except (Fault, IndexError, KeyError, ValueError, TypeError) as error:
                program = self.code.program
                said = error if isinstance(error, Fault) else f"{type(error).__name__}: {error}"
                raise Fault(f"{program.addresses[place]:#x} {program.text[place]}: {said}") from error
            w.place = place + 1
            if now.kind == STEP:
                continue
            if now.kind == END:
                return
            if now.kind == BARRIER:
                parked.append(w)
                return
            if now.kind == SLEEP:
                asleep.append(w)
                return
            if taken.all():
                w.place = now.target
            elif taken.any():
                other = w.take(taken)
                other.place = now.target
                rest = w.take(~taken)
                ready.extend([other, rest])
                return
        ready.append(w)
