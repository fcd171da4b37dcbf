"""PTX text -> functions of instructions. Nothing is interpreted here.

The grammar is the subset that NVRTC prints and inline ``asm`` may add: one statement a line or several, nested
``{ }`` scopes with their own registers, vector operands, predicates and ``.loc`` line marks (PTX ISA, chapters 4, 5).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ladder.errors import UnsupportedPtxError

__all__ = [
    "Address",
    "Function",
    "Immediate",
    "Instruction",
    "Operand",
    "Param",
    "Register",
    "Symbol",
    "Variable",
    "Vector",
    "destinations",
    "parse",
    "registers_of",
    "sources",
]


class Register(NamedTuple):
    """A register, special ones such as ``%tid.x`` included."""

    name: str


class Immediate(NamedTuple):
    """A constant: ``value`` is an int, or the raw bits of a float with ``float_bits`` 32 or 64."""

    value: int
    float_bits: int = 0


class Symbol(NamedTuple):
    """A variable's name, standing for its address, or a label."""

    name: str


class Address(NamedTuple):
    """``[base + offset]``; ``base`` is a register, a symbol, or None for an absolute address."""

    base: Register | Symbol | None
    offset: int


class Vector(NamedTuple):
    """``{a, b, ...}`` or the pair ``p|q``."""

    items: tuple[Register | Immediate | Symbol, ...]


Operand = Register | Immediate | Symbol | Address | Vector


class Instruction(NamedTuple):
    """One instruction. ``op`` is its full dotted name, ``guard`` its predicate register and whether it is negated."""

    op: str
    operands: tuple[Operand, ...]
    guard: tuple[str, bool] | None
    line: tuple[int, int]
    """(file index, line) of the last ``.loc``; (0, 0) when there is none."""

    @property
    def parts(self) -> tuple[str, ...]:
        """The dotted name in pieces: ``("ld", "global", "nc", "f32")``."""
        return tuple(self.op.split("."))

    def __str__(self) -> str:
        return self.op


class Param(NamedTuple):
    """A kernel parameter: PTX type, byte offset in the parameter block, size."""

    name: str
    type: str
    offset: int
    size: int


class Variable(NamedTuple):
    """A ``.shared`` or ``.local`` array. ``size`` is 0 for ``extern __shared__``."""

    name: str
    space: str
    align: int
    size: int


@dataclass(slots=True)
class Function:
    """One ``.entry``: what the interpreter needs of it."""

    name: str
    params: tuple[Param, ...] = ()
    registers: dict[str, str] = field(default_factory=dict)
    variables: tuple[Variable, ...] = ()
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    files: dict[int, str] = field(default_factory=dict)

    def where(self, instruction: Instruction) -> str:
        """``FILE.cu:LINE`` of an instruction, or its opcode without line information."""
        file, line = instruction.line
        if not line:
            return f"PTX `{instruction.op}`"
        return f"{_shown(self.files.get(file, '?'))}:{line}"


_NO_DESTINATION = frozenset(
    ["st", "red", "bra", "ret", "exit", "bar", "barrier", "membar", "fence", "prefetch", "trap", "nanosleep", "discard"]
)


def destinations(instruction: Instruction) -> tuple[Operand, ...]:
    """The operands that an instruction writes: its first one, or none."""
    return () if instruction.parts[0] in _NO_DESTINATION else instruction.operands[:1]


def sources(instruction: Instruction) -> tuple[Operand, ...]:
    """The operands that an instruction reads."""
    return instruction.operands[len(destinations(instruction)) :]


def registers_of(operand: Operand) -> tuple[str, ...]:
    """Names of the registers that an operand mentions."""
    if isinstance(operand, Register):
        return (operand.name,)
    if isinstance(operand, Address) and isinstance(operand.base, Register):
        return (operand.base.name,)
    if isinstance(operand, Symbol) and operand.name.startswith("!"):
        return (operand.name[1:],)
    if isinstance(operand, Vector):
        return tuple(name for item in operand.items for name in registers_of(item))
    return ()


TYPE_BYTES = {
    "pred": 1, "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "f16x2": 4, "bf16x2": 4,
    "b32": 4, "u32": 4, "s32": 4, "f32": 4, "tf32": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8, "b128": 16,
}  # fmt: skip

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_FILE = re.compile(r'\.file\s+(\d+)\s+"([^"]*)"')
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)")
_ENTRY = re.compile(r"\.entry\s+([\w$.]+)\s*\(([^)]*)\)([^{;]*)\{", re.S)
_PARAM = re.compile(
    r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+(?:\.ptr\S*\s+(?:\.\w+\s+)*(?:\d+\s+)?)?([\w$.]+)(?:\[(\d+)\])?"
)
_STATEMENT = re.compile(
    r"\s*(?:(?P<label>[\w$.%]+)\s*:(?!:)|(?P<open>\{)|(?P<close>\})|(?P<text>[^;{}]*(?:\{[^}]*\}[^;{}]*)*);)", re.S
)
_VARIABLE = re.compile(r"\.(shared|local)\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$.]+)\s*(?:\[(\d*)\])?")
_EXTERN = re.compile(r"\.extern\s+\.shared\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$.]+)\s*\[\s*\]\s*;")
_MODULE_SHARED = re.compile(r"^\s*(?:\.(?:visible|weak|common)\s+)?(\.shared\s+[^;{]*);", re.M)
_GUARD = re.compile(r"@(!?)([\w$.%]+)\s+")
_SPLIT = re.compile(r",(?![^{\[]*[}\]])")
_FLOAT = re.compile(r"0([fFdD])([0-9a-fA-F]+)")
_INT = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|\d+)U?")


def _shown(path: str) -> str:
    """A source path as a person would type it: relative below the working folder, and out of PTX's octal escapes."""
    raw = re.sub(rb"\\([0-7]{3})", lambda m: bytes([int(m[1], 8)]), path.encode())
    found = Path(raw.decode(errors="replace"))
    try:
        return str(found.relative_to(Path.cwd()))
    except ValueError:
        return str(found)


def parse(text: str) -> dict[str, Function]:
    """Every ``.entry`` of a PTX module, by (mangled) name.

    Raises:
        UnsupportedPtxError: a construct outside the subset, with its text.
    """
    text = _COMMENT.sub("", text)
    files = {int(number): name for number, name in _FILE.findall(text)}
    functions = {}
    for match in _ENTRY.finditer(text):
        end = _closing_brace(text, match.end())
        function = Function(name=match[1], params=_params(match[2]), files=files)
        module_level = [m[1] for m in _MODULE_SHARED.finditer(text[: match.start()])]
        variables = [v for line in module_level for v in _variables(line)]
        variables += [Variable(m[3], "shared", int(m[1] or 1), 0) for m in _EXTERN.finditer(text)]
        _Body(function, variables).read(text[match.end() : end])
        function.variables = tuple(variables)
        functions[function.name] = function
    return functions


def _closing_brace(text: str, start: int) -> int:
    depth = 1
    for match in re.compile(r"[{}]").finditer(text, start):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.start()
    raise UnsupportedPtxError("PTX ends inside a function body")


def _params(text: str) -> tuple[Param, ...]:
    params = []
    offset = 0
    for align, kind, name, count in _PARAM.findall(text):
        if kind not in TYPE_BYTES:
            raise UnsupportedPtxError(f"PTX parameter type .{kind} ({name})")
        size = TYPE_BYTES[kind] * int(count or 1)
        step = int(align or TYPE_BYTES[kind])
        offset = -(-offset // step) * step
        params.append(Param(name, kind, offset, size))
        offset += size
    return tuple(params)


def _variables(text: str) -> Iterator[Variable]:
    match = _VARIABLE.match(text.strip())
    if match:
        space, align, kind, name, count = match.groups()
        size = TYPE_BYTES[kind] * int(count or 1)
        yield Variable(name, space, int(align or TYPE_BYTES[kind]), size)


class _Body:
    """Reads a function's body, keeping the scopes of nested ``{ }`` apart."""

    def __init__(self, function: Function, variables: list[Variable]) -> None:
        self.function = function
        self.variables = variables
        self.scopes: list[dict[str, str]] = [{}]
        self.opened = 0
        self.line = (0, 0)

    def read(self, text: str) -> None:
        position = 0
        marks = [(m.start(), m.end(), (int(m[1]), int(m[2]))) for m in _LOC.finditer(text)]
        for start, end, line in [*marks, (len(text), len(text), (0, 0))]:
            self._statements(re.sub(r"^\s*,[^\n]*", "", text[position:start]))
            position = end
            # Compiler-made code carries line 0; the last real line says more about it than nothing.
            self.line = line if line[1] or not self.line[1] else self.line
        if len(self.scopes) != 1:
            raise UnsupportedPtxError(f"{self.function.name}: unbalanced scopes")

    def _statements(self, text: str) -> None:
        position = 0
        while True:
            match = _STATEMENT.match(text, position)
            if match is None:
                rest = text[position:].strip()
                if rest:
                    raise UnsupportedPtxError(f"cannot read PTX: {rest[:80]!r}")
                return
            position = match.end()
            if match["label"]:
                self.function.labels[match["label"]] = len(self.function.instructions)
            elif match["open"]:
                self.scopes.append({})
            elif match["close"]:
                self.scopes.pop()
            else:
                self._statement(match["text"].strip())

    def _statement(self, text: str) -> None:
        if text.startswith(".reg"):
            self._registers(text)
        elif text.startswith((".shared", ".local")):
            self.variables.extend(_variables(text))
        elif text.startswith(".pragma") or not text:
            return
        elif text.startswith("."):
            raise UnsupportedPtxError(f"PTX directive `{text[:60]}`")
        else:
            self._instruction(text)

    def _registers(self, text: str) -> None:
        _, kind, names = text.split(None, 2)
        for raw in names.split(","):
            name = raw.strip()
            family = re.fullmatch(r"([\w$%]+)<(\d+)>", name)
            if family:
                for i in range(int(family[2])):
                    self._declare(f"{family[1]}{i}", kind.lstrip("."))
            else:
                self._declare(name, kind.lstrip("."))

    def _declare(self, name: str, kind: str) -> None:
        unique = name
        if len(self.scopes) > 1:
            # Inline asm declares names that repeat from one expansion to the next.
            self.opened += 1
            unique = f"{name}#{self.opened}"
        self.scopes[-1][name] = unique
        self.function.registers[unique] = kind

    def _resolve(self, name: str) -> str | None:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return None

    def _instruction(self, text: str) -> None:
        guard = None
        match = _GUARD.match(text)
        if match:
            guard = (self._resolve(match[2]) or match[2], match[1] == "!")
            text = text[match.end() :]
        op, _, rest = text.partition(" ")
        if "\t" in op:
            op, _, rest = text.partition("\t")
        operands = tuple(self._operand(part.strip()) for part in _SPLIT.split(rest) if part.strip())
        self.function.instructions.append(Instruction(op.strip(), operands, guard, self.line))

    def _operand(self, text: str) -> Operand:
        if text.startswith("{"):
            return Vector(tuple(self._scalar(part.strip()) for part in text[1:-1].split(",")))
        if text.startswith("["):
            return self._address(text[1:-1].strip())
        if "|" in text:
            return Vector(tuple(self._scalar(part.strip()) for part in text.split("|")))
        return self._scalar(text)

    def _scalar(self, text: str) -> Register | Immediate | Symbol:
        resolved = self._resolve(text.lstrip("!"))
        if resolved is not None:
            # A negated predicate operand keeps its mark; the two instructions that take one look for it.
            return Symbol("!" + resolved) if text.startswith("!") else Register(resolved)
        match = _FLOAT.fullmatch(text)
        if match:
            return Immediate(int(match[2], 16), 32 if match[1] in "fF" else 64)
        if _INT.fullmatch(text):
            return Immediate(int(text.rstrip("U"), 0))
        if text == "WARP_SZ":
            return Immediate(32)
        if text.startswith("%"):
            return Register(text)
        return Symbol(text)

    def _address(self, text: str) -> Address:
        base_text, sign, offset_text = text.partition("+")
        offset = int(offset_text.strip(), 0) if sign else 0
        base = self._scalar(base_text.strip())
        if isinstance(base, Immediate):
            return Address(None, base.value + offset)
        return Address(base, offset)
