"""What an opcode's handler writes with: slots, constants, typed operands, memory sites, lines of Python."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ladder.errors import UnsupportedPtxError
from ladder.ptx.fuse import Fusion
from ladder.ptx.site import DTYPE, Site
from ladder.ptx.syntax import (
    Address,
    Function,
    Immediate,
    Instruction,
    Operand,
    Register,
    Symbol,
    Vector,
    registers_of,
    sources,
)

__all__ = ["Emitter"]

SPECIAL = frozenset(
    f"%{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"
) | {"%laneid", "%warpid"}  # fmt: skip


class Emitter:
    """Collects the lines of one block after another, and the program's slots, constants and memory sites."""

    def __init__(self, function: Function, addresses: dict[str, int]) -> None:
        self.function = function
        self.addresses = addresses
        self.slots: dict[str, int] = {}
        self.storage: list[str] = []
        self.constants: dict[int, NDArray[Any]] = {}
        self.sites: list[Site] = []
        self.lines: list[str] = []
        self.masked = False
        self._site_at: dict[int, int] = {}
        self._constant_at: dict[tuple[str, bytes], int] = {}
        self._instruction = Instruction("", (), None, (0, 0))
        self._index = 0
        self._fusion: Fusion | None = None
        self._guard = ""
        self._read = {name for i in function.instructions for o in sources(i) for name in registers_of(o)} | {
            i.guard[0] for i in function.instructions if i.guard
        }
        for name in sorted(SPECIAL):
            self._new(name, "uint32")

    def is_used(self, operand: Operand) -> bool:
        """Whether anything reads the register: ptxas turns an ``atom`` whose result is dead into a ``red``."""
        return isinstance(operand, Register) and operand.name in self._read

    def begin(self, *, masked: bool) -> None:
        """Start a block; ``masked`` lines serve only the lanes of ``M``."""
        self.lines = []
        self.masked = masked

    def at(self, instruction: Instruction, index: int, fusion: Fusion | None) -> None:
        """Turn to one instruction: its number, how ptxas fuses it, and the lanes that its guard leaves."""
        self._instruction = instruction
        self._index, self._fusion, self._guard = index, fusion, ""
        if instruction.guard:
            name, negated = instruction.guard
            self._guard = f"{'~' if negated else ''}R[{self.slot(name)}]"
            if self.masked:
                self._guard = f"(M & {self._guard})"
            if isinstance(instruction.operands[0] if instruction.operands else None, Vector):
                # One of several destinations may be the guard itself.
                self.lines.append(f"_g = {self._guard}")
                self._guard = "_g"

    def unsupported(self, instruction: Instruction, why: str) -> UnsupportedPtxError:
        """The error that names an instruction."""
        return UnsupportedPtxError(f"{self.function.where(instruction)}: PTX `{instruction.op}`: {why}")

    def _refusal(self, why: str) -> UnsupportedPtxError:
        return self.unsupported(self._instruction, why)

    @property
    def mask(self) -> str:
        """The expression of the active lanes: ``None`` when all are."""
        return self._guard or ("M" if self.masked else "None")

    @property
    def running(self) -> str:
        """The expression of the lanes that run the block, whatever a guard says: ``None`` when all do."""
        return "M" if self.masked else "None"

    # Slots ------------------------------------------------------------------------------------------------------

    def _new(self, name: str, dtype: str) -> int:
        self.slots[name] = len(self.storage)
        self.storage.append(dtype)
        return self.slots[name]

    def slot(self, name: str) -> int:
        """The slot of a register, made on first use."""
        if name in self.slots:
            return self.slots[name]
        kind = self.function.registers.get(name)
        if kind not in DTYPE:
            raise self._refusal(f"register `{name}` of type {kind}")
        return self._new(name, DTYPE[kind])

    def constant(self, value: Any, dtype: str) -> str:
        """A (1, 1) array in a slot of its own."""
        array = np.full((1, 1), value, dtype=dtype)
        key = (dtype, array.tobytes())
        if key not in self._constant_at:
            slot = self._new(f"#{len(self.storage)}", dtype)
            self.constants[slot] = array
            self._constant_at[key] = slot
        return f"R[{self._constant_at[key]}]"

    # Operands ---------------------------------------------------------------------------------------------------

    def read(self, operand: Operand, kind: str) -> str:
        """The expression of an operand as PTX type ``kind``."""
        want = np.dtype(DTYPE[kind])
        if isinstance(operand, Immediate):
            return self._immediate(operand, want)
        if isinstance(operand, Symbol):
            if operand.name not in self.addresses:
                raise self._refusal(f"symbol `{operand.name}` (only shared and local variables)")
            return self.constant(self.addresses[operand.name], want.name)
        if not isinstance(operand, Register):
            raise self._refusal(f"operand {operand} where a value is expected")
        slot = self.slot(operand.name)
        have = np.dtype(self.storage[slot])
        if have == want:
            return f"R[{slot}]"
        if have.itemsize == want.itemsize and bool not in (have, want):
            return f"R[{slot}].view({want.name})"
        if have.itemsize > want.itemsize and have.kind in "ui" and want.kind in "ui":
            return f"R[{slot}].astype({want.name})"
        if have.kind in "ui" and want.kind in "ui":
            return f"A.extend(R[{slot}], {want.name})"
        raise self._refusal(f"register `{operand.name}` ({have}) read as .{kind}")

    def _immediate(self, operand: Immediate, want: np.dtype[Any]) -> str:
        if want.kind == "b":
            return self.constant(bool(operand.value), "bool")
        if operand.float_bits and want.kind == "f" and want.itemsize * 8 != operand.float_bits:
            raise self._refusal(f"a .f{operand.float_bits} constant as {want}")
        # A float operand written as an integer is its bits (`mov.b32 %f1, 0`), and the other way round.
        bits = np.array([operand.value & (2 ** (8 * want.itemsize) - 1)], f"u{want.itemsize}")
        return self.constant(bits.view(want)[0], want.name)

    def write(self, operand: Operand, expression: str, kind: str) -> None:
        """Add the line that stores ``expression``, an array of PTX type ``kind``, in a register."""
        if operand == Symbol("_"):
            return
        if not isinstance(operand, Register):
            raise self._refusal(f"destination {operand}")
        slot = self.slot(operand.name)
        have, want = np.dtype(DTYPE[kind]), np.dtype(self.storage[slot])
        if have != want:
            if have.itemsize == want.itemsize and bool not in (have, want):
                expression = f"({expression}).view({want.name})"
            elif have.kind in "ui" and want.kind in "ui":
                expression = f"A.extend({expression}, {want.name})"
            else:
                raise self._refusal(f".{kind} into register `{operand.name}` ({want})")
        if self._guard:
            self.lines.append(f"R[{slot}] = m.select(R[{slot}], {expression}, {self._guard})")
        elif self.masked:
            self.lines.append(f"R[{slot}] = m.merge({slot}, {expression}, M)")
        else:
            self.lines.append(f"R[{slot}] = {expression}")

    def address(self, operand: Operand) -> tuple[str, int]:
        """Expression of the base (any unsigned integer array) and the constant offset of a memory operand."""
        if not isinstance(operand, Address):
            raise self._refusal(f"address {operand}")
        if operand.base is None:
            return self.constant(operand.offset, "uint64"), 0
        if isinstance(operand.base, Symbol):
            return self.read(operand.base, "u32"), operand.offset
        slot = self.slot(operand.base.name)
        if self.storage[slot] not in {"uint32", "uint64"}:
            raise self._refusal(f"address register `{operand.base.name}`")
        return f"R[{slot}]", operand.offset

    def site(
        self,
        instruction: Instruction,
        kind: str,
        space: str,
        type_name: str,
        elements: int,
        offset: int,
        *,
        operation: str = "",
    ) -> str:
        """The memory site of the instruction in hand; both variants of a block share it."""
        if self._index not in self._site_at:
            self._site_at[self._index] = len(self.sites)
            self.sites.append(
                Site(
                    index=self._index,
                    op=instruction.op,
                    kind=kind,
                    space=space,
                    dtype=np.dtype(DTYPE[type_name]),
                    elements=elements,
                    offset=offset,
                    where=self.function.where(instruction),
                    operation=operation,
                    fusion=self._fusion,
                )
            )
        return f"S[{self._site_at[self._index]}]"
