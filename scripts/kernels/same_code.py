#!/usr/bin/env python3
"""Checks the code objects that are not stored, but made from the object of another architecture with the same code.

usage: same_code.py FOLDER LIST [ARCHITECTURE ...]

FOLDER holds the compiler's output NAME.co for every architecture that is checked or stored. LIST is
objects/same_code.txt. The engine makes the object of such an architecture from the stored one: it replaces the name and
the number of the architecture (src/backend/gpu/runtime/code_objects.rs). The result must be the compiler's output, byte for
byte. Where there are files NAME.source, with the kernels' source after the preprocessor, those of both must be the same.
Without ARCHITECTURE, the whole list is checked.
"""
import os
import sys

# The offset of the flags in the ELF header. Their lowest byte is the number of the architecture.
FLAGS = 48


def renamed(code: bytes, stored: str, architecture: str, number: int) -> bytes:
    """The object of `stored` under the name and number of `architecture`."""
    code = code.replace(f"amdgcn-amd-amdhsa--{stored}".encode(), f"amdgcn-amd-amdhsa--{architecture}".encode())
    return code[:FLAGS] + bytes([number]) + code[FLAGS + 1 :]


def test() -> None:
    """Tests `renamed`."""
    code = bytes(FLAGS) + b"\x36\x05amdgcn-amd-amdhsa--gfx1030;gfx1030"
    assert renamed(code, "gfx1030", "gfx1036", 0x45) == bytes(FLAGS) + b"\x45\x05amdgcn-amd-amdhsa--gfx1036;gfx1030"


def main() -> None:
    test()
    folder, listed, *wanted = sys.argv[1:]
    for line in open(listed):
        if line.startswith("#") or not line.split():
            continue
        architecture, stored, number = line.split()
        if wanted and architecture not in wanted:
            continue
        code = open(f"{folder}/{stored}.co", "rb").read()
        compiled = open(f"{folder}/{architecture}.co", "rb").read()
        if renamed(code, stored, architecture, int(number, 16)) != compiled:
            sys.exit(f"same_code.py: {architecture} has other code than {stored}: store an object for {architecture}")
        sources = [f"{folder}/{name}.source" for name in (stored, architecture)]
        if any(map(os.path.exists, sources)) and len({open(source).read() for source in sources}) != 1:
            sys.exit(f"same_code.py: the kernels' source for {architecture} differs from that for {stored}")


main()
