"""A listing of machine code, parsed: kernels, their instructions, and what one instruction tells of itself."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

__all__ = ["Code", "Instruction", "kernels", "widths"]

_KERNEL = re.compile(r"^//-+ \.text\.(\S+)\s+-+$", re.MULTILINE)
_LABEL = re.compile(r"^\s*([.\w$]+):\s*$")
_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z][\w.]*)\s*([^;]*);")
_PREDICATE = re.compile(r"!?U?P(?:\d|T)")
_PLAIN_REGISTER = re.compile(r"U?R(?:\d+|Z)(?:\.\w+)*")
_REGISTER = re.compile(r"(?<![A-Z])R(\d+)")
_NEVER = "!PT"
"""The guard of instructions that no thread executes: for sm_90 ptxas puts three such loads before some copies."""
_WIDTHS = frozenset(("8", "16", "64", "128", "256"))
_MMA_SHAPE = re.compile(r"\.(16|8)(8)(4|8|16|32)\b")
_GROUP_SHAPE = re.compile(r"\.(\d+)x(\d+)x(\d+)")
_WARPS_A_GROUP = 4


@dataclass(frozen=True, slots=True)
class Instruction:
    """``@!P0 LDS.128 R4, [R2+0x10]``: opcode with its modifiers, operands as written, guard without the ``@``."""

    opcode: str
    operands: tuple[str, ...] = ()
    guard: str = ""

    @property
    def name(self) -> str:
        """The opcode without modifiers: ``"LDS"``."""
        return self.opcode.partition(".")[0]

    @property
    def width_bits(self) -> int:
        """Bits a lane of a load, store or copy: 32 where no modifier says otherwise."""
        found = (part.lstrip("US") for part in self.opcode.split(".")[1:])
        return int(next((part for part in found if part in _WIDTHS), "32"))

    @property
    def is_mma(self) -> bool:
        """Whether it multiplies matrices: HMMA, HGMMA and their kin, but not the HFMA2.MMA that sets a register."""
        return self.name.endswith("MMA")

    @property
    def fmas(self) -> float:
        """Multiply-adds on FP32, TF32 or BF16 data that one warp gets from it; 0 for everything else.

        FFMA gives 32, a lane each. HMMA.1688 multiplies 16 x 8 x 8. A warpgroup instruction, HGMMA.64x128x8, is issued
        by each of its four warps, so a quarter counts.
        """
        if self.name in {"FFMA", "FFMA32I"}:
            return 32
        if self.is_mma and (group := _GROUP_SHAPE.search(self.opcode)):
            return int(group[1]) * int(group[2]) * int(group[3]) / _WARPS_A_GROUP
        if self.is_mma and (warp := _MMA_SHAPE.search(self.opcode)):
            return int(warp[1]) * int(warp[2]) * int(warp[3])
        return 0

    @property
    def sources(self) -> tuple[tuple[int, int, bool], ...]:
        """(slot, register, kept) of each register it reads; ``kept`` is the ``.reuse`` flag.

        The slot is the operand's place among the sources. Predicates have none, and a leading plain register is where
        the result goes; constants and uniform registers hold a slot but are not read from the register banks.
        """
        rest = [text for text in self.operands if not _PREDICATE.fullmatch(text)]
        if "SETP" not in self.name and rest and _PLAIN_REGISTER.fullmatch(rest[0]):
            rest = rest[1:]
        found = ((slot, _REGISTER.search(text), ".reuse" in text) for slot, text in enumerate(rest))
        return tuple((slot, int(match[1]), kept) for slot, match, kept in found if match)


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """One kernel: its instructions in order, and by label the index of the one that follows it.

    Instructions that never run are left out.
    """

    instructions: tuple[Instruction, ...]
    labels: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", MappingProxyType(dict(self.labels)))

    @property
    def opcodes(self) -> Counter[str]:
        """How often each opcode, with its modifiers, stands in the code."""
        return Counter(each.opcode for each in self.instructions)


def kernels(listing: str) -> dict[str, Code]:
    """The kernels of a listing by mangled name. ``listing`` is what ``nvdisasm -c`` prints."""
    _, *parts = _KERNEL.split(listing)
    return {name: _code(text) for name, text in zip(parts[::2], parts[1::2], strict=True)}


def _code(text: str) -> Code:
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    for line in text.splitlines():
        if label := _LABEL.match(line):
            labels[label[1]] = len(instructions)
        elif (found := _INSTRUCTION.search(line)) and found[1] != _NEVER:
            operands = tuple(part.strip() for part in found[3].split(",")) if found[3].strip() else ()
            instructions.append(Instruction(found[2], operands, found[1] or ""))
    return Code(instructions=tuple(instructions), labels=labels)


def widths(instructions: Iterable[Instruction], name: str) -> Counter[int]:
    """How many ``name`` there are by bits a lane: ``{32: 16, 128: 4}``."""
    return Counter(each.width_bits for each in instructions if each.name == name)
