"""What the parser makes of a PTX function: instructions, operands, variables. Plain data."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

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
    used_bytes: int | None = None
    """Which bytes of a vector load are used, a bit each, where a pragma says that some are not."""

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
    """One ``.entry``: what the interpreter needs of it. ``target`` is the number in ``.target sm_NN``."""

    name: str
    target: int = 0
    params: tuple[Param, ...] = ()
    registers: dict[str, str] = field(default_factory=dict)
    variables: tuple[Variable, ...] = ()
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    files: dict[int, str] = field(default_factory=dict)

    def where(self, instruction: Instruction) -> str:
        """``FILE.cu:LINE`` of an instruction, or its opcode without line information."""
        return self.place(instruction.line) if instruction.line[1] else f"PTX `{instruction.op}`"

    def place(self, line: tuple[int, int]) -> str:
        """``FILE.cu:LINE`` of a line mark; the function's name without one."""
        file, number = line
        return f"{_shown(self.files.get(file, '?'))}:{number}" if number else self.name


def _shown(path: str) -> str:
    """A source path as a person would type it: relative below the working folder, and out of PTX's escapes."""
    raw = re.sub(rb"\\([0-7]{3}|\\)", lambda m: b"\\" if m[1] == b"\\" else bytes([int(m[1], 8)]), path.encode())
    found = Path(raw.decode(errors="replace"))
    try:
        return str(found.relative_to(Path.cwd()))
    except ValueError:
        return str(found)


_NO_DESTINATION = frozenset(
    ["st", "red", "bra", "ret", "exit", "bar", "barrier", "cp", "membar", "fence", "prefetch", "trap", "nanosleep"]
)


def destinations(instruction: Instruction) -> tuple[Operand, ...]:
    """The operands that an instruction writes: its first one, or none."""
    reduces = instruction.parts[0] in {"bar", "barrier"} and "red" in instruction.parts
    return () if instruction.parts[0] in _NO_DESTINATION and not reduces else instruction.operands[:1]


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
