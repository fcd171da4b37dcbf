"""What an opcode's handler asks of its instruction before it writes a line: known modifiers, types, operands."""

from __future__ import annotations

from ladder.ptx.emit import Emitter
from ladder.ptx.syntax import Instruction, Operand, Register, Symbol

__all__ = [
    "BITS",
    "BYTES",
    "FLOATS",
    "NONE",
    "NUMBERS",
    "SIGNED",
    "SPACES",
    "WORDS",
    "only",
    "operands_of",
    "predicate",
    "type_of",
]

SIGNED = frozenset(["s16", "s32", "s64"])
NUMBERS = SIGNED | {"u16", "u32", "u64"}
BITS = frozenset(["b16", "b32", "b64"])
FLOATS = frozenset(["f32", "f64"])
BYTES = frozenset(["b8", "u8", "s8"])
WORDS = frozenset(["b32", "b64"])
NONE: frozenset[str] = frozenset()
SPACES = frozenset(["global", "shared", "local", "shared::cta"])


def only(e: Emitter, i: Instruction, allowed: frozenset[str]) -> None:
    """Refuse a modifier, anything between opcode and type, that the handler does not honour."""
    for part in i.parts[1:-1]:
        if part not in allowed:
            raise e.unsupported(i, f"modifier .{part}")


def type_of(e: Emitter, i: Instruction, allowed: frozenset[str]) -> str:
    """The type, the last part of the name, which must be one of ``allowed``."""
    kind = i.parts[-1]
    if kind not in allowed:
        raise e.unsupported(i, f"type .{kind}")
    return kind


def operands_of(e: Emitter, i: Instruction, count: int) -> tuple[Operand, ...]:
    """The operands, as many as the instruction must have."""
    if len(i.operands) != count:
        raise e.unsupported(i, f"{len(i.operands)} operands, not {count}")
    return i.operands


def predicate(e: Emitter, operand: Operand) -> str:
    """The expression of a predicate operand, which may be negated."""
    if isinstance(operand, Symbol) and operand.name.startswith("!"):
        return f"~{e.read(Register(operand.name[1:]), 'pred')}"
    return e.read(operand, "pred")
