#!/usr/bin/env python3
"""Checks the code objects that are not stored, but made from the object of another architecture with the same code.

usage: same_code.py FOLDER LIST [ARCHITECTURE ...]

FOLDER holds the compiler's output ARCHITECTURE.co for every architecture, and LIST is objects/same_code.txt. Each object
must be, byte for byte, the other architecture's object under its own name and number, as the engine makes it
(src/backend/rocm/code_objects.rs). Without architectures, the whole list is checked.
"""
import sys

# The place of the ELF header's flags, whose lowest byte is the number of the architecture.
FLAGS = 48


def renamed(code: bytes, stored: str, architecture: str, number: int) -> bytes:
    """The object of `stored` under the name and number of `architecture`."""
    code = code.replace(f"amdgcn-amd-amdhsa--{stored}".encode(), f"amdgcn-amd-amdhsa--{architecture}".encode())
    return code[:FLAGS] + bytes([number]) + code[FLAGS + 1 :]


def test() -> None:
    """Tests the function itself."""
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
            sys.exit(f"same_code.py: the code for {architecture} is not that for {stored}: store an object of its own")


main()
