"""How far the addresses of a function are known to be aligned."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping

from ladder.ptx.syntax import Function, Immediate, Instruction, Operand, Register, Symbol, destinations

__all__ = ["trailing_zeros"]

_MANY = 64


def trailing_zeros(function: Function, addresses: Mapping[str, int]) -> dict[str, int]:
    """How many low bits of each integer register are known to be zero, whichever way control flows.

    A register starts at "all of them" and every definition lowers it, until nothing changes.
    """
    known: dict[str, int] = defaultdict(lambda: _MANY)

    def of(operand: Operand) -> int:
        if isinstance(operand, Immediate):
            return _zeros_of(operand.value)
        if isinstance(operand, Symbol):
            return _zeros_of(addresses[operand.name]) if operand.name in addresses else 0
        if isinstance(operand, Register):
            return known[operand.name] if operand.name in function.registers else 0
        return 0

    changed = True
    while changed:
        before = dict(known)
        for instruction in function.instructions:
            for target in destinations(instruction):
                if isinstance(target, Register):
                    known[target.name] = min(known[target.name], _result(instruction, of))
        changed = dict(known) != before
    return dict(known)


def _zeros_of(value: int) -> int:
    return _MANY if value == 0 else (value & -value).bit_length() - 1


def _result(instruction: Instruction, of: Callable[[Operand], int]) -> int:
    kind, sources = instruction.parts[0], instruction.operands[1:]
    if any(part in {"f32", "f64"} for part in instruction.parts):
        return 0
    match kind:
        case "mov" | "cvta" | "cvt" if len(sources) == 1:
            return of(sources[0])
        case "add" | "sub" | "or" | "xor" | "min" | "max":
            return min(of(s) for s in sources)
        case "and":
            return max(of(s) for s in sources)
        case "shl" if isinstance(sources[1], Immediate):
            return min(of(sources[0]) + sources[1].value, _MANY)
        case "mul" if "hi" not in instruction.parts:
            return min(of(sources[0]) + of(sources[1]), _MANY)
        case "mad" if "hi" not in instruction.parts:
            return min(of(sources[0]) + of(sources[1]), of(sources[2]))
        case "selp":
            return min(of(sources[0]), of(sources[1]))
        case _:
            return 0
