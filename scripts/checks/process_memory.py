"""The memory of a running engine, for the other scripts. Needs Linux."""

import re

# What the engine says when its tree is full.
FULL = "the tree has reached its limit"


def megabytes(pid, name):
    """A figure of the process in millions of bytes: VmRSS is its memory in RAM now, and VmHWM the most that it has had."""
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return int(re.search(rf"{name}:\s+(\d+)", status.read()).group(1)) * 1024 / 1e6
