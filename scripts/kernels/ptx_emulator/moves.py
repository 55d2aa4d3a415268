"""Moves between registers, and between registers and memory."""
import re
from collections.abc import Callable

import numpy as np

from cases import Fault
from listing import Address, Instruction, Kernel, Name, Operand, Register
from threads import TYPES, Array, Step, Threads, place_of, reader, writer

ACCESS = re.compile(r"(ld|st)\.(?:volatile\.(?=global))?(param|global|shared)(?:\.v([24]))?\.([a-z]\d+)")


def compile_move(kernel: Kernel, i: Instruction) -> Step | None:
    """The function that executes an instruction, or None if it is none of these."""
    if i.name == "mov.pred" or re.fullmatch(r"mov\.[bu](16|32|64)|mov\.f32", i.name):
        to, source = i.operands
        if isinstance(to, tuple):
            return unpack(kernel, to, source, i.name[4:])
        if isinstance(source, tuple):
            return pack(kernel, to, source, i.name[4:])
        write, read = writer(to, i.name[4:]), reader(kernel, source, i.name[4:])
        return lambda t: write(t, read(t))
    if i.name == "atom.global.add.u32":
        return atomic_add(kernel, i)
    access = ACCESS.fullmatch(i.name)
    if not access:
        return None
    what, space, count, kind = access.groups()
    function = {"ld": compile_load, "st": compile_store}[what]
    return function(kernel, i, space, int(count or 1), kind)


def unpack(kernel: Kernel, to: tuple[Register, ...], source: Operand, kind: str) -> Step:
    """Parts of a register; the first register gets the lowest bits."""
    read = reader(kernel, source, kind)
    part = f"b{8 * TYPES[kind].itemsize // len(to)}"
    writes = [writer(register, part) for register in to]

    def step(t: Threads) -> None:
        parts = np.ascontiguousarray(read(t)).view(TYPES[part]).reshape(-1, len(to))
        for k, write in enumerate(writes):
            write(t, np.ascontiguousarray(parts[:, k]))

    return step


def pack(kernel: Kernel, to: Operand, source: tuple[Register, ...], kind: str) -> Step:
    """A register from its parts."""
    part = f"b{8 * TYPES[kind].itemsize // len(source)}"
    reads = [reader(kernel, register, part) for register in source]
    write = writer(to, kind)
    return lambda t: write(t, np.stack([read(t) for read in reads], -1).view(TYPES[kind])[:, 0])


def addresses(kernel: Kernel, address: Operand, bits: int) -> Callable[[Threads], Array]:
    """The addresses of an access, for each thread that runs."""
    if not isinstance(address, Address):
        raise Fault("the operand is no address")
    if isinstance(address.base, Name):
        place = np.array([place_of(kernel, address.base) + address.offset], np.uint64)
        return lambda t: t.some(place)
    read = reader(kernel, address.base, f"u{bits}")
    offset = np.array([address.offset & (1 << bits) - 1], TYPES[f"u{bits}"])
    return lambda t: t.some(read(t) + offset)


def registers_of(operand: Operand, count: int) -> list[Register]:
    """The registers of an access."""
    registers = list(operand) if isinstance(operand, tuple) else [operand]
    if len(registers) != count or not all(isinstance(register, Register) for register in registers):
        raise Fault(f"needs {count} registers")
    return registers


def widened(register: Register, kind: str) -> Callable[[Array], Array]:
    """Values of a type as the register holds them. A wider register gets copies of the sign, or zeros."""
    held, dtype = TYPES[register.kind], TYPES[kind]
    if held.itemsize < dtype.itemsize or (held.itemsize > dtype.itemsize and held.kind == "f"):
        raise Fault(f"a register of the type {register.kind} cannot hold {kind}")
    if held.itemsize == dtype.itemsize:
        return lambda values: values.view(held)
    return lambda values: values.view(dtype).astype(held)


def compile_load(kernel: Kernel, i: Instruction, space: str, count: int, kind: str) -> Step:
    """Loads of one, two or four numbers."""
    to, address = i.operands
    places = addresses(kernel, address, 64)
    size = TYPES[kind].itemsize
    registers = registers_of(to, count)
    writes = [(register.slot, widened(register, kind)) for register in registers]
    load = {"param": load_parameter, "global": load_global, "shared": load_shared}[space]
    if i.name.startswith("ld.volatile"):
        load = load_counter

    def step(t: Threads) -> None:
        for (slot, widen), value in zip(writes, load(t, places(t), size, count), strict=True):
            t.put_some(slot, widen(value))

    return step


def load_parameter(t: Threads, at: Array, size: int, count: int) -> Array:
    """Numbers from the structure of arguments."""
    if (at + np.uint64(size * count) > len(t.arguments)).any() or (at % (size * count)).any():
        raise Fault("reads outside of the arguments, or is misaligned")
    index = at.astype(np.int64) // size
    words = t.arguments.view(f"u{size}")
    return np.stack([words[index + k] for k in range(count)])


def load_global(t: Threads, at: Array, size: int, count: int) -> Array:
    """Numbers from global memory."""
    places = t.arena.places(at, size * count, "reads")
    t.note_use(t.running(), places, size * count)
    return t.arena.load(places, size, count)


def load_counter(t: Threads, at: Array, size: int, count: int) -> Array:
    """Numbers that other blocks change."""
    places = t.arena.places(at, size * count, "reads")
    t.order.see_counters(t.running(), places)
    return t.arena.load(places, size, count)


def load_shared(t: Threads, at: Array, size: int, count: int) -> Array:
    """Words from shared memory."""
    if size != 4:
        raise Fault("only words of 32 bits are known in shared memory")
    threads = t.running()
    return t.shared.load(threads, t.shared.words(threads, at, count))


def narrowed(kernel: Kernel, register: Register, kind: str) -> Callable[[Threads], Array]:
    """A register as values of a type: of a wider one, the lower bits."""
    held, dtype = TYPES[register.kind], TYPES[kind]
    if held.itemsize <= dtype.itemsize or held.kind == "f":
        return reader(kernel, register, kind)
    read = reader(kernel, register, register.kind)
    return lambda t: read(t).astype(f"u{dtype.itemsize}")


def compile_store(kernel: Kernel, i: Instruction, space: str, count: int, kind: str) -> Step:
    """Stores of one, two or four numbers."""
    places = addresses(kernel, i.operands[0], 64)
    reads = [narrowed(kernel, register, kind) for register in registers_of(i.operands[1], count)]
    size = TYPES[kind].itemsize

    def to_global(t: Threads) -> None:
        at = t.arena.places(places(t), size * count, "writes")
        t.note_use(t.running(), at, size * count, is_write=True)
        t.arena.store(at, [t.some(read(t)) for read in reads])

    def to_shared(t: Threads) -> None:
        threads = t.running()
        words = t.shared.words(threads, places(t), count)
        t.shared.store(threads, words, np.stack([t.some(read(t)).view(np.uint32) for read in reads]))

    if space == "global":
        return to_global
    if space == "shared" and size == 4:
        return to_shared
    raise Fault("unknown store")


def atomic_add(kernel: Kernel, i: Instruction) -> Step:
    """Adds to words of global memory, thread by thread."""
    slot = registers_of(i.operands[0], 1)[0].slot
    places, read = addresses(kernel, i.operands[1], 64), reader(kernel, i.operands[2], "u32")

    def step(t: Threads) -> None:
        at = t.arena.places(places(t), 4, "changes")
        t.order.change_counters(t.running(), at)
        t.put_some(slot, t.arena.add(at, t.some(read(t))))

    return step
