"""Takes the text of a PTX file apart: its head, its entry points, and their instructions.

hip/kernels/README.md says how the text is organised. Only what our kernels contain is understood; anything else is a
fault. The grammar is that of NVIDIA's document "PTX ISA".
"""
import gzip
import re
from dataclasses import dataclass, field
from pathlib import Path

from cases import Fault

ENTRY = re.compile(r"^\.visible \.entry (\w+)\($", re.MULTILINE)
SHARED = re.compile(r"\.shared \.align (\d+) \.b8 (\w+)\[(\d+)\];")
GAP = 64  # at least so many bytes lie between two variables in shared memory, and no kernel may touch them


@dataclass(frozen=True)
class Register:
    """A register of each thread, by its place among all registers of the kernel, and what it holds."""

    slot: int
    kind: str  # pred, b16, b32, f32 or b64


@dataclass(frozen=True)
class Number:
    """A constant as it is written, such as -1 or 0f3F800000."""

    text: str


@dataclass(frozen=True)
class Name:
    """A label, a variable, a parameter or a special register."""

    text: str


@dataclass(frozen=True)
class Address:
    """A place in memory: a register, or the name of a variable, and bytes to add."""

    base: Register | Name
    offset: int


Operand = Register | Number | Name | Address | tuple[Register, ...]


@dataclass(frozen=True)
class Instruction:
    """One instruction."""

    name: str
    operands: list[Operand]
    guard: Register | None = None  # the instruction runs only in threads where this is true, or false
    guard_is_negated: bool = False
    text: str = ""
    line: int = 0  # of the entry point's lines, from 0


@dataclass
class Kernel:
    """An entry point."""

    name: str
    threads: int
    parameter: str  # the name of its only parameter
    parameter_bytes: int
    shared: dict[str, tuple[int, int]]  # the variables in shared memory: (start, bytes)
    shared_bytes: int
    program: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    registers: int = 0
    names: dict[str, Register] = field(default_factory=dict)  # of the registers but those inside of braces


def read(path: Path) -> str:
    """The text of a file."""
    data = path.read_bytes()
    return (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()


def split(text: str) -> tuple[str, dict[str, str]]:
    """The head, and the text of each entry point."""
    starts = [match.start() for match in ENTRY.finditer(text)]
    if not starts:
        raise Fault("the text has no entry points")
    parts = [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
    return text[: starts[0]], {ENTRY.match(part).group(1): part for part in parts}


def parse(head: str, entry: str) -> Kernel:
    """An entry point with the variables of the head that it uses."""
    start = re.match(
        r"\.visible \.entry (\w+)\(\n\s*\.param \.align \d+ \.b8 (\w+)\[(\d+)\]\n\)\n\.maxntid (\d+), 1, 1\n\{\n", entry
    )
    if not start or not entry.endswith("}\n"):
        raise Fault(f"this is no entry point with one structure as parameter: {entry[:100]}")
    body = entry[start.end() : -2]
    used = [match for match in SHARED.finditer(head) if re.search(rf"\b{match[2]}\b", body)]
    shared, end = {}, GAP
    for match in [*used, *SHARED.finditer(body)]:
        shared[match[2]] = end, int(match[3])
        end = -(-(end + int(match[3]) + GAP) // 256) * 256
    name, parameter, size, threads = start.groups()
    kernel = Kernel(name, int(threads), parameter, int(size), shared, end)
    Parser(kernel).parse(body, start[0].count("\n"))
    return kernel


class Parser:
    """Reads the lines of an entry point."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.kinds: dict[str, str] = {}  # what registers hold, by the letters before their numbers
        self.found = kernel.names
        self.line = 0
        self.scopes: list[dict[str, Register]] = []

    def parse(self, body: str, first: int) -> None:
        """Reads all lines, of which the first has this number."""
        for self.line, line in enumerate(body.splitlines(), first):
            for statement in re.findall(r"\{(?=\s*\.reg)|\}(?=\s*$)|\$\w+:|[^\s;][^;]*;", line):
                try:
                    self.statement(statement.strip().rstrip(";").strip())
                except Fault as fault:
                    raise Fault(f"{line.strip()}: {fault}") from fault
        program = self.kernel.program
        for i in program:
            if i.name.startswith("bra") and i.operands[0].text not in self.kernel.labels:
                raise Fault(f"{i.text}: there is no such label")

    def statement(self, text: str) -> None:
        """Reads a label, a declaration or an instruction."""
        if text.startswith("{"):
            self.scopes.append({})
            text = text[1:].strip()
        if not text:
            return
        if text == "}":
            self.scopes.pop()
        elif text.endswith(":"):
            self.kernel.labels[text[:-1]] = len(self.kernel.program)
        elif text.startswith(".reg"):
            self.declaration(text)
        elif not text.startswith(".shared") and text != '.pragma "nounroll"':
            self.instruction(text)

    def declaration(self, text: str) -> None:
        """Registers: .reg .b32 %r<20>, or .reg .f16 low, high inside of braces."""
        kind, names = re.fullmatch(r"\.reg \.(\w+)\s+(.*)", text).groups()
        kind = {"f16": "b16"}.get(kind, kind)
        if numbered := re.fullmatch(r"%(\w+)<\d+>", names):
            self.kinds[numbered[1]] = kind
            return
        for name in names.split(","):
            self.scopes[-1][name.strip()] = self.new(kind)

    def new(self, kind: str) -> Register:
        """Another register."""
        if kind not in ("pred", "b16", "b32", "f32", "b64"):
            raise Fault(f"registers of the type {kind} are not known")
        self.kernel.registers += 1
        return Register(self.kernel.registers - 1, kind)

    def instruction(self, text: str) -> None:
        """An instruction with its guard."""
        found = re.fullmatch(r"(?:@(!?)(%p\d+)\s+)?([a-z][\w.]*)\s*(.*)", text)
        if not found:
            raise Fault("this is no instruction")
        negated, guard, name, rest = found.groups()
        # Commas separate operands unless they are inside of braces.
        operands = [self.operand(part.strip()) for part in re.findall(r"\{[^}]*\}|[^,{}]+", rest) if part.strip()]
        guarded = self.operand(guard) if guard else None
        self.kernel.program.append(Instruction(name, operands, guarded, negated == "!", text, self.line))

    def operand(self, text: str) -> Operand:
        """An operand."""
        if text.startswith("{"):
            return tuple(self.operand(part.strip()) for part in text[1:-1].split(","))
        if text.startswith("["):
            base, _, offset = text[1:-1].partition("+")
            return Address(self.operand(base), int(offset or 0))
        for scope in reversed(self.scopes):
            if text in scope:
                return scope[text]
        if text in self.found:
            return self.found[text]
        if numbered := re.fullmatch(r"%([a-z]+)\d+", text):
            if numbered[1] not in self.kinds:
                raise Fault(f"the register {text} is not declared")
            return self.found.setdefault(text, self.new(self.kinds[numbered[1]]))
        if re.fullmatch(r"-?\d+|0[fd][0-9A-F]+|0x[0-9A-Fa-f]+", text):
            return Number(text)
        if re.fullmatch(r"[%$]?[\w.]+", text):
            return Name(text)
        raise Fault(f"the operand {text} is not known")
