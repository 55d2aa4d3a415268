"""Reads an AMD GPU code object: an ELF file with kernel descriptors.

Layouts: the ELF-64 specification, and LLVM's "User Guide for AMDGPU Backend", section "Kernel Descriptor".
"""
import gzip
import os
import re
import shutil
import struct
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from disassembly import Program
from family import Family

SYMBOLS = 11  # the type of the section with dynamic symbols
LOADED = 1  # the type of a program header


@dataclass(frozen=True)
class Kernel:
    """What a kernel descriptor says."""

    name: str
    entry: int  # address of the first instruction
    shared_bytes: int
    argument_bytes: int
    lanes: int
    vectors: int  # vector registers
    accumulators: int  # accumulation registers
    arguments_at: int  # the first of the two scalar registers that point to the arguments
    user_scalars: int  # scalar registers before those with the workgroup's number
    workgroup_axes: tuple[int, ...]  # the axes whose workgroup number follows in a scalar register each


@dataclass
class KernelObject:
    """A code object: its kernels and its disassembly."""

    architecture: str
    family: Family
    kernels: dict[str, Kernel]
    program: Program

    def size_of(self, names: set[str]) -> int:
        """The number of instructions of some kernels, without what fills up the space after them."""
        places = self.program.place
        starts = {places[kernel.entry]: name for name, kernel in self.kernels.items() if kernel.entry in places}
        ends = [*sorted(starts)[1:], len(self.program.text)]
        size = 0
        for start, end in zip(sorted(starts), ends, strict=True):
            while self.program.text[end - 1].startswith(("s_code_end", "s_nop")):
                end -= 1
            size += (end - start) * (starts[start] in names)
        return size


def read(path: Path) -> bytes:
    """The code object in a file, which may be compressed."""
    data = path.read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def find_objdump() -> str | None:
    """LLVM 19's disassembler, or any other on the PATH, or None."""
    folder = os.environ.get("LLVM_BIN", "/usr/lib/llvm-19/bin")
    return shutil.which("llvm-objdump", path=folder) or shutil.which("llvm-objdump-19") or shutil.which("llvm-objdump")


def disassemble(data: bytes, objdump: str, kernels: list[str] | None = None) -> str:
    """llvm-objdump's listing of the whole object, or of some kernels."""
    with tempfile.NamedTemporaryFile(suffix=".co") as file:
        file.write(data)
        file.flush()
        only = [f"--disassemble-symbols={','.join(kernels)}"] if kernels else []
        done = subprocess.run([objdump, "-d", *only, file.name], capture_output=True, text=True, check=True)
    return done.stdout


def load(architecture: str, data: bytes, listing: str) -> KernelObject:
    """Joins the descriptors in the file with its listing."""
    family = Family.of(architecture)
    return KernelObject(architecture, family, descriptors(data, family), Program(listing, family))


def descriptors(data: bytes, family: Family) -> dict[str, Kernel]:
    """The kernels of a code object."""
    if data[:4] != b"\x7fELF":
        raise ValueError("not an ELF file")
    (sections_at,) = struct.unpack_from("<Q", data, 40)
    section_size, section_count = struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, sections_at + i * section_size) for i in range(section_count)]

    kernels = {}
    for section in sections:
        if section[1] != SYMBOLS:
            continue
        names_at = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], 24):
            name_at, _, _, _, address, _ = struct.unpack_from("<IBBHQQ", data, at)
            name = data[names_at + name_at : data.index(b"\0", names_at + name_at)].decode()
            if name.endswith(".kd"):
                name = name.removesuffix(".kd")
                kernels[name] = descriptor(name, data, offset_of(data, address), address, family)
    return kernels


def offset_of(data: bytes, address: int) -> int:
    """The place in the file of an address of the loaded object."""
    (segments_at,) = struct.unpack_from("<Q", data, 32)
    segment_size, segment_count = struct.unpack_from("<HH", data, 54)
    for i in range(segment_count):
        kind, _, offset, start, _, size = struct.unpack_from("<IIQQQQ", data, segments_at + i * segment_size)
        if kind == LOADED and start <= address < start + size:
            return offset + address - start
    raise ValueError(f"no segment holds the address {address:#x}")


def descriptor(name: str, data: bytes, at: int, address: int, family: Family) -> Kernel:
    """The kernel whose descriptor lies at offset `at` of the file and at an address of the loaded object."""
    shared_bytes, private_bytes, argument_bytes = struct.unpack_from("<III", data, at)
    (entry,) = struct.unpack_from("<q", data, at + 16)
    resources_3, resources_1, resources_2 = struct.unpack_from("<III", data, at + 44)
    properties, preloaded = struct.unpack_from("<HH", data, at + 56)
    if private_bytes:
        raise ValueError(f"{name} uses {private_bytes} bytes of scratch memory")
    if preloaded:
        raise ValueError(f"{name} wants its arguments in registers")
    lanes = 32 if properties >> 10 & 1 else 64
    vectors, accumulators = family.registers((resources_1 & 63) + 1, 4 * ((resources_3 & 63) + 1), lanes)
    # Scalar registers that the loader fills before the pointer to the arguments: private segment buffer, dispatch
    # pointer, queue pointer.
    arguments_at = sum(count for bit, count in ((0, 4), (1, 2), (2, 2)) if properties >> bit & 1)
    axes = tuple(axis for axis in range(3) if resources_2 >> (7 + axis) & 1)
    return Kernel(
        name, address + entry, shared_bytes, argument_bytes, lanes, vectors, accumulators, arguments_at,
        resources_2 >> 1 & 31, axes,
    )


def architecture_of(path: Path) -> str:
    """The architecture that a file's name begins with."""
    found = re.match(r"gfx[0-9a-f]+", path.name)
    if not found:
        raise ValueError(f"the name of {path} does not begin with an architecture")
    return found.group()
