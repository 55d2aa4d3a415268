"""Asynchronous copies from global to shared memory (cp.async).

A copy is in flight until its thread has waited for its group. While it is, the words in shared memory hold NaNs, and no
thread may use them. After the wait only the thread itself may, until a barrier.
"""
from dataclasses import dataclass

import numpy as np

from block_memory import IN_FLIGHT
from cases import Fault
from listing import Instruction, Kernel, Number
from moves import addresses
from threads import Array, Step, Threads, reader

OPEN = -1  # the group of a copy that is not committed yet


@dataclass
class Copy:
    """The copies of one instruction."""

    threads: Array
    words: Array  # where they go, as [word][copy]
    data: Array
    group: Array  # the number of each thread's group, or OPEN


class Copies:
    """The copies in flight."""

    def __init__(self, count: int) -> None:
        self.all: list[Copy] = []
        self.groups = np.zeros(count, np.int64)  # how many groups each thread has committed

    def commit(self, running: Array) -> None:
        """The open copies of these threads form a group each."""
        for copy in self.all:
            now = (copy.group == OPEN) & running[copy.threads]
            copy.group[now] = self.groups[copy.threads][now]
        self.groups[running] += 1

    def wait(self, t: Threads, running: Array, left: int) -> None:
        """Ends the copies of these threads but those of the last groups."""
        still = []
        for copy in self.all:
            ended = running[copy.threads] & (copy.group != OPEN) & (copy.group < self.groups[copy.threads] - left)
            if ended.any():
                words = copy.words[:, ended]
                t.shared.data[words] = copy.data[:, ended]
                t.shared.written[words] = t.shared.now(copy.threads[ended])[1]
            if not ended.all():
                rest = ~ended
                still.append(Copy(copy.threads[rest], copy.words[:, rest], copy.data[:, rest], copy.group[rest]))
        self.all = still


def running(t: Threads) -> Array:
    """Which threads run."""
    mask = np.zeros(t.count, bool)
    mask[t.running()] = True
    return mask


def copies(t: Threads) -> Copies:
    """The launch's copies."""
    if t.copies is None:
        t.copies = Copies(t.count)
    return t.copies


def compile_copy(kernel: Kernel, i: Instruction) -> Step | None:
    """The function that executes an instruction, or None if it is none of these."""
    if i.name == "cp.async.commit_group":
        return lambda t: copies(t).commit(running(t))
    if i.name == "cp.async.wait_group":
        left = int(i.operands[0].text)
        return lambda t: copies(t).wait(t, running(t), left)
    if i.name != "cp.async.cg.shared.global":
        return None
    if len(i.operands) != 4 or i.operands[2] != Number("16"):
        raise Fault("only copies of 16 bytes are known")
    to, source = addresses(kernel, i.operands[0], 32), addresses(kernel, i.operands[1], 64)
    length = reader(kernel, i.operands[3], "u32")

    def step(t: Threads) -> None:
        threads = t.running()
        words = t.shared.words(threads, to(t), 4)
        size = t.some(length(t))
        if ((size != 0) & (size != 16)).any():
            raise Fault("copies a part of 16 bytes, which is not known")
        # What is not read is zeros.
        data = np.zeros((4, len(threads)), np.uint32)
        full = size == 16
        if full.any():
            at = t.arena.places(source(t)[full], 16, "copies")
            t.note_use(threads[full], at, 16)
            data[:, full] = t.arena.load(at, 4, 4)
        t.shared.begin_write(threads, words)
        t.shared.written[words] = IN_FLIGHT
        t.shared.data[words] = 0xFFFFFFFF
        copies(t).all.append(Copy(threads, words, data, np.full(len(threads), OPEN)))

    return step
