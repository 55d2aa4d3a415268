"""Parses llvm-objdump's listing, and gives instructions one name in all families."""
import re
from dataclasses import dataclass, field
from functools import cache

from family import Family
from fault import Fault

LINE = re.compile(r"^\t(\S.*?)\s*// ([0-9A-F]+):", re.MULTILINE)
ENCODING = re.compile(r"_(e32|e64|dpp|dpp8|sdwa)$")
# gfx9 and gfx10 count dwords where later families count bits.
SIZES = {
    "dword": "b32", "dwordx2": "b64", "dwordx3": "b96", "dwordx4": "b128", "dwordx8": "b256", "dwordx16": "b512",
    "ubyte": "u8", "ushort": "u16", "byte": "b8", "short": "b16",
}
# Other parts of names that mean the same: (pattern, replacement).
SYNONYMS = [
    (re.compile(r"_num_f"), "_f"),  # gfx12: v_max_num_f32
    (re.compile(r"^(s_\w+)_co_"), r"\1_"),  # gfx12: s_add_co_i32
    (re.compile(r"^v_mad_co_"), "v_mad_"),  # gfx12
    (re.compile(r"_nc_"), "_"),  # gfx10 and later: v_add_nc_u32 does not write a carry; gfx9 says v_add_u32
    (re.compile(r"andn2"), "and_not1"),
    (re.compile(r"orn2"), "or_not1"),
    (re.compile(r"^v_(add|sub|subrev)(c|b|brev)_co_"), r"v_\1_co_ci_"),
    (re.compile(r"^ds_(read|write)2st64_"), r"ds_\1_2addr_stride64_"),
    (re.compile(r"^ds_(read|write)2_"), r"ds_\1_2addr_"),
    (re.compile(r"dot2acc_"), "dot2c_"),  # gfx11 and later
    (re.compile(r"^ds_read_"), "ds_load_"),
    (re.compile(r"^ds_write_"), "ds_store_"),
    (re.compile(r"^(v_mfma_f32_\d+x\d+x\d+)_?(b?f16)(_1k)?$"), r"\1_\2"),
]
# gfx9's subtractions that read a borrow.
BORROWS = {"v_subb_co_u32": "v_sub_co_ci_u32", "v_subbrev_co_u32": "v_subrev_co_ci_u32"}


@dataclass
class Instruction:
    """One instruction, or one half of a dual-issue instruction."""

    address: int
    name: str  # as `canonical` returns it
    operands: list[str]
    modifiers: dict[str, str] = field(default_factory=dict)
    text: str = ""


class Program:
    """The instructions of an object by address. They are parsed when they are first asked for."""

    def __init__(self, listing: str, family: Family) -> None:
        found = LINE.findall(listing)
        self.family = family
        self.text = [text for text, _ in found]
        self.addresses = [int(address, 16) for _, address in found]
        self.place = {address: i for i, address in enumerate(self.addresses)}

    def parse(self, place: int) -> list[Instruction]:
        """The instruction at a place: two for a dual-issue instruction, otherwise one."""
        text = self.text[place]
        return [parse(part.strip(), self.addresses[place]) for part in text.split("::")]


def parse(text: str, address: int = 0) -> Instruction:
    """An instruction from its text. The last operand is followed by modifiers, with spaces between."""
    name, _, rest = text.partition(" ")
    pieces = split(rest)
    modifiers = {}
    if pieces:
        last, *words = pieces[-1].split()
        pieces[-1] = last
        for word in words:
            key, _, value = word.partition(":")
            modifiers[key] = value
    return Instruction(address, canonical(name), pieces, modifiers, text)


def split(text: str) -> list[str]:
    """Splits at commas that are not inside brackets."""
    if ", " in text and "(" not in text:
        return text.split(", ")  # there is no space inside square brackets
    pieces, depth, start = [], 0, 0
    for i, character in enumerate(text):
        if character in "[(":
            depth += 1
        elif character in "])":
            depth -= 1
        elif character == "," and depth == 0:
            pieces.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return pieces + [last] if last else pieces


@cache
def canonical(name: str) -> str:
    """The name of an instruction without its encoding, the same for all families: mostly the name in gfx11."""
    while ENCODING.search(name):
        name = ENCODING.sub("", name)
    if name.startswith("v_dual_"):
        name = "v_" + name.removeprefix("v_dual_")
    if name in BORROWS:
        return BORROWS[name]
    if name.startswith(("global_", "s_load_")):
        parts = [SIZES.get(part, part) for part in name.split("_")]
        if "d16" in parts and parts[-1] != "d16":  # global_load_short_d16_hi -> global_load_d16_hi_b16
            parts = [part for part in parts if part not in ("b16", "u16")] + ["b16"]
        elif parts[-1] == "d16":
            parts[-2:] = ["d16", "b16"]
        return "_".join(parts)
    for pattern, replacement in SYNONYMS:
        name = pattern.sub(replacement, name)
    return re.sub(r"^ds_read", "ds_load", re.sub(r"^ds_write", "ds_store", name))


REGISTERS = re.compile(r"^[-|]*([vsa]|ttmp)(?:(\d+)|\[(\d+):(\d+)\])\|?$")


@cache
def registers(operand: str) -> tuple[str, int, int]:
    """The kind (v, s, a or ttmp), the first number and the count of an operand's registers."""
    found = REGISTERS.match(operand)
    if not found:
        raise Fault(f"{operand} is not a register")
    kind, single, first, last = found.groups()
    return (kind, int(single), 1) if single else (kind, int(first), int(last) - int(first) + 1)


def numbers(text: str) -> list[int]:
    """The numbers of a modifier such as op_sel:[0,1]."""
    return [int(word) for word in text.strip("[]").split(",")]
