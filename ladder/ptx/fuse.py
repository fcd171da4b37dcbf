"""What ptxas does to shared loads: four scalar loads of consecutive words become one LDS.128.

PTX keeps the loads of an unrolled loop apart; the machine code issues one 16-byte load where it can prove alignment.
The bank wavefronts are those of the machine code, so the counters must see the merged request. The rule: four 4-byte
loads in one basic block off the same base register, at offsets o, o+4, o+8, o+12 with o divisible by 16, a base that is
provably 16-byte aligned, and no shared store in between. Tested against the LDS widths of the cubin.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ladder.ptx.syntax import Address, Function, Immediate, Instruction, Operand, Register, Symbol

__all__ = ["Fusion", "fuse_shared_loads", "trailing_zeros"]

_MANY = 64


@dataclass(frozen=True, slots=True)
class Fusion:
    """``width_bytes`` of the merged request on its first load, 0 on those it absorbs; ``offset`` is where it starts."""

    width_bytes: int
    offset: int


def fuse_shared_loads(
    function: Function, spans: Sequence[tuple[int, int]], addresses: Mapping[str, int]
) -> dict[int, Fusion]:
    """Merged shared loads by instruction index. ``spans`` are the (start, length) of the basic blocks."""
    zeros = trailing_zeros(function, addresses)
    out: dict[int, Fusion] = {}
    for start, length in spans:
        pending: dict[tuple[str, int], dict[int, int]] = defaultdict(dict)
        generation: dict[str, int] = defaultdict(int)
        for index in range(start, start + length):
            instruction = function.instructions[index]
            parts = instruction.parts
            if _is_scalar_shared_load(instruction):
                address = instruction.operands[1]
                assert isinstance(address, Address)
                name = "" if address.base is None else address.base.name
                aligned = _zeros_of(addresses.get(name, 0)) if name in addresses or not name else zeros.get(name, 0)
                if aligned >= 4:
                    pending[name, generation[name]].setdefault(address.offset, index)
            elif parts[0] in {"st", "red", "atom"} and "shared" in parts:
                out |= _merge(pending)
                pending.clear()
            for operand in instruction.operands[:1]:
                if isinstance(operand, Register) and parts[0] not in {"st", "red"}:
                    generation[operand.name] += 1
        out |= _merge(pending)
    return out


def _is_scalar_shared_load(instruction: Instruction) -> bool:
    parts = instruction.parts
    return (
        parts[0] == "ld"
        and "shared" in parts
        and "volatile" not in parts
        and parts[-1] in {"f32", "b32", "u32", "s32"}
        and parts[-2] not in {"v2", "v4"}
        and instruction.guard is None
    )


def _merge(pending: Mapping[tuple[str, int], Mapping[int, int]]) -> dict[int, Fusion]:
    out = {}
    for loads in pending.values():
        for offset in loads:
            group = [loads.get(offset + 4 * i) for i in range(4)]
            if offset % 16 == 0 and None not in group:
                members = sorted(index for index in group if index is not None)
                out[members[0]] = Fusion(16, offset)
                out |= {index: Fusion(0, offset) for index in members[1:]}
    return out


def _zeros_of(value: int) -> int:
    return _MANY if value == 0 else (value & -value).bit_length() - 1


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

    for _ in range(_MANY):
        before = dict(known)
        for instruction in function.instructions:
            if not instruction.operands or not isinstance(instruction.operands[0], Register):
                continue
            if instruction.parts[0] in {"st", "red", "bra", "bar"}:
                continue
            name = instruction.operands[0].name
            known[name] = min(known[name], _result(instruction, of))
        if dict(known) == before:
            break
    return dict(known)


def _result(instruction: Instruction, of: Callable[[Operand], int]) -> int:
    kind, sources = instruction.parts[0], instruction.operands[1:]
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
