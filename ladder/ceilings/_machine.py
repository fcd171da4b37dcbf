"""Roofs checked by machine code: the loop holds what a pass is meant to do, and nothing was hoisted out of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ladder.ceilings._bench import compiled
from ladder.ceilings._types import Config, Finding
from ladder.errors import DisassemblerMissingError
from ladder.sass import Code, Instruction, disassemble, kernels, loops

__all__ = ["Coded", "by_machine_code", "judge"]

_MEMORY = ("LD", "LDG", "LDS", "LDL", "ST", "STG", "STS", "STL", "ATOM", "ATOMG", "RED")


@dataclass(frozen=True, slots=True, kw_only=True)
class Coded:
    """What the machine code of a probe should hold.

    Attributes:
        opcode: with the modifiers that matter, such as ``("LDS", "128")``.
        count: how many a pass.
        looped: whether they are in a loop; ptxas may unroll it further, so that there is a multiple of ``count``.
        also: memory instructions that stand beside them; any other is one too many.
    """

    opcode: tuple[str, ...]
    count: int
    looped: bool = True
    also: tuple[str, ...] = ()

    @property
    def what(self) -> str:
        """In words."""
        return f"{'.'.join(self.opcode)} {'a pass of the loop' if self.looped else 'in the kernel'}"


def by_machine_code(config: Config, expected: Coded | None, arch: str) -> Finding:
    """Compare the kernel of a configuration with what is expected of it."""
    if expected is None:
        what = "machine code"
        return Finding(roof=config.roof, by="machine code", what=what, why="the driver's copy is no kernel of ours")
    kernel = compiled(config, arch)
    try:
        code = kernels(disassemble(kernel.cubin))[kernel.lowered_name]
    except DisassemblerMissingError as error:
        return Finding(roof=config.roof, by="machine code", what=expected.what, why=str(error))
    if kernel.resources.spill_bytes:
        why = f"{kernel.resources.spill_bytes} bytes are spilled"
        return Finding(roof=config.roof, by="machine code", what=expected.what, ok=False, why=why)
    return judge(config.roof, expected, code)


def judge(roof: str, expected: Coded, code: Code) -> Finding:
    """The same of code that is there already."""

    def wanted(part: Iterable[Instruction]) -> int:
        return sum(_is(each, expected.opcode) for each in part)

    bodies = [tuple(code.instructions[i] for i in sorted(body)) for body in loops(code)]
    part = max(bodies, key=wanted, default=()) if expected.looped else code.instructions
    found = wanted(part)
    right = found > 0 and found % expected.count == 0 if expected.looped else found == expected.count
    allowed = {expected.opcode[0], *expected.also}
    stray = sorted({each.name for each in part if each.name in _MEMORY} - allowed)
    moved = {name for name in ("LDL", "STL") if any(each.name == name for each in code.instructions)}
    why = ""
    if stray or moved:
        why = f"beside {', '.join(sorted({*stray, *moved}))}"
    elif not right and expected.looped and wanted(code.instructions) > found:
        why = "some were moved out of it"
    return Finding(
        roof=roof, by="machine code", what=expected.what, meant=expected.count, found=found,
        ok=right and not why, why=why,
    )  # fmt: skip


def _is(instruction: Instruction, opcode: tuple[str, ...]) -> bool:
    first, *rest = opcode
    return instruction.name == first and set(rest) <= set(instruction.opcode.split("."))
