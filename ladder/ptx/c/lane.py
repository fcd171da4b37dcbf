"""What an opcode's handler writes C with: one lane's run through a segment, its variables and its memory accesses."""

from __future__ import annotations

from dataclasses import dataclass

from ladder.errors import UnsupportedPtxError
from ladder.ptx.c.segments import Group, Segment
from ladder.ptx.emit import SPECIAL
from ladder.ptx.program import Program
from ladder.ptx.site import DTYPE, LOCAL_BASE, Site
from ladder.ptx.syntax import Address, Immediate, Instruction, Operand, Register, Symbol, destinations, registers_of

__all__ = ["Kind", "Lane", "kind_of", "offset_of"]


@dataclass(frozen=True, slots=True)
class Kind:
    """A type in C: ``name`` such as ``uint32_t``, ``suffix`` such as ``u32`` as the run-time functions have it."""

    name: str
    suffix: str
    bits: int

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point type."""
        return self.suffix[0] == "f"

    @property
    def has_one_nan(self) -> bool:
        """Whether a GPU's arithmetic in it gives one NaN only, whatever its operands hold."""
        return self.suffix == "f32"

    @property
    def is_signed(self) -> bool:
        """Whether it is a signed integer."""
        return self.suffix[0] == "s"

    @property
    def unsigned(self) -> Kind:
        """The unsigned integer of its size."""
        return _INTEGERS[f"u{self.bits}"]


_INTEGERS = {
    f"{sign}{bits}": Kind(f"{'u' if sign == 'u' else ''}int{bits}_t", f"{sign}{bits}", bits)
    for sign in "us"
    for bits in (8, 16, 32, 64)
}
_PREDICATE = Kind("uint8_t", "pred", 1)
_KINDS = {
    **{f"{'u' if kind.suffix[0] == 'u' else ''}int{kind.bits}": kind for kind in _INTEGERS.values()},
    "float32": Kind("float", "f32", 32),
    "float64": Kind("double", "f64", 64),
    "bool": _PREDICATE,
}


def kind_of(type_name: str) -> Kind:
    """The C type behind a PTX type: ``b32`` -> ``uint32_t``."""
    return _KINDS[DTYPE[type_name]]


class Lane:
    """Collects the lines of one segment's lane loop.

    Results of float arithmetic may hold any NaN in their C variable; it becomes the GPU's one NaN when something other
    than float arithmetic looks at it.
    """

    def __init__(self, program: Program, segment: Segment) -> None:
        self.function = program.function
        self.addresses = program.addresses
        self.segment = segment
        self.lines: list[str] = []
        self.variables: dict[str, Kind] = {}
        self.special: set[str] = set()
        self._slots = program.slots
        self._any_nan: set[str] = set()
        self._site_at = {site.index: site for site in program.sites}
        self._checked: set[int] = set()
        self._number = 0
        self._guarded = False

    def at(self, instruction: Instruction, number: int) -> None:
        """Turn to one instruction, by its number in the function; opens the scope of its predicate."""
        self._number = number
        self._guarded = instruction.guard is not None
        if instruction.guard is not None:
            # Lanes that keep the old value must not make the new one look like a result of arithmetic, nor it theirs.
            for name in [n for operand in destinations(instruction) for n in registers_of(operand)]:
                if name in self._any_nan:
                    self.lines.append(f"{self.variable(name)} = {self.value(name)};")
                    self._any_nan.discard(name)
            self.lines.append(f"if ({self.predicate(*instruction.guard)}) {{")

    def done(self) -> None:
        """Close what ``at`` opened."""
        if self._guarded:
            self.lines.append("}")

    def unsupported(self, instruction: Instruction, why: str) -> UnsupportedPtxError:
        """The error that names an instruction."""
        return UnsupportedPtxError(f"{self.function.where(instruction)}: PTX `{instruction.op}`: {why}, in C")

    # Registers --------------------------------------------------------------------------------------------------

    def kind(self, name: str) -> Kind:
        """The type in which a register is kept."""
        if name in SPECIAL:
            return _INTEGERS["u32"]
        stored = self.function.registers.get(name)
        if stored not in DTYPE:
            raise UnsupportedPtxError(f"{self.function.name}: register `{name}` of type {stored}")
        return kind_of(stored)

    def variable(self, name: str) -> str:
        """The C variable of a register."""
        if name in SPECIAL:
            self.special.add(name)
            return name[1:].replace(".", "_")
        self.variables[name] = self.kind(name)
        return self.member(name)

    def member(self, name: str) -> str:
        """A register's name in C, as a variable and in ``struct lane``."""
        return f"v{self._slots[name]}"

    def predicate(self, name: str, negated: bool = False) -> str:
        """The truth of a predicate register."""
        return f"{'!' if negated else ''}{self.variable(name)}"

    def condition(self, operand: Operand) -> str:
        """The truth of a predicate operand, which may be negated."""
        if isinstance(operand, Symbol) and operand.name.startswith("!"):
            return self.predicate(operand.name[1:], negated=True)
        if isinstance(operand, Register):
            return self.predicate(operand.name)
        return self.read(operand, _PREDICATE)

    def value(self, name: str) -> str:
        """A register as anything but arithmetic sees it."""
        text = self.variable(name)
        return f"canon_{self.kind(name).suffix}({text})" if name in self._any_nan else text

    def read(self, operand: Operand, kind: Kind, *, arithmetic: bool = False) -> str:
        """An operand as ``kind``; ``arithmetic`` says that one NaN is as good as another."""
        if isinstance(operand, Immediate):
            return _literal(operand.value, kind)
        if isinstance(operand, Symbol):
            if operand.name not in self.addresses:
                raise UnsupportedPtxError(f"{self.function.name}: symbol `{operand.name}` (only shared and local ones)")
            return _literal(self.addresses[operand.name], kind)
        if not isinstance(operand, Register):
            raise UnsupportedPtxError(f"{self.function.name}: operand {operand} where a value is expected")
        have = self.kind(operand.name)
        if have == kind:
            return self.variable(operand.name) if arithmetic else self.value(operand.name)
        text = _converted(self.value(operand.name), have, kind)
        if text is None:
            raise UnsupportedPtxError(
                f"{self.function.name}: register `{operand.name}` ({have.suffix}) read as {kind.suffix}"
            )
        return text

    def write(self, operand: Operand, text: str, kind: Kind, *, any_nan: bool = False) -> None:
        """Store ``text``, of type ``kind``, in a register; ``any_nan`` says that it comes from float arithmetic."""
        if operand == Symbol("_"):
            return
        if not isinstance(operand, Register) or operand.name in SPECIAL:
            raise UnsupportedPtxError(f"{self.function.name}: destination {operand}")
        want = self.kind(operand.name)
        if any_nan and (self._guarded or kind != want):
            text, any_nan = f"canon_{kind.suffix}({text})", False
        converted = f"({kind.name})({text})" if kind == want else _converted(f"({kind.name})({text})", kind, want)
        if converted is None:
            raise UnsupportedPtxError(
                f"{self.function.name}: {kind.suffix} into register `{operand.name}` ({want.suffix})"
            )
        self.lines.append(f"{self.variable(operand.name)} = {converted};")
        if any_nan:
            self._any_nan.add(operand.name)
        else:
            self._any_nan.discard(operand.name)

    # Memory -----------------------------------------------------------------------------------------------------

    def site(self) -> Site:
        """The memory site of the instruction in hand."""
        return self._site_at[self._number]

    def place(self, address: Operand, number: int | None = None) -> str:
        """A ``uint8_t *`` to what the instruction in hand addresses, after its checks; takes a ``+ bytes``.

        ``number`` is that of the address's group, where the instruction has two.
        """
        assert isinstance(address, Address)
        if number is None:
            number = self.segment.group_of[self._number]
        group = self.segment.groups[number]
        if number not in self._checked:
            self._checked.add(number)
            self._check(number, group, address)
        if group.space == "generic":
            return f"p{number}"
        memory = {"global": f"in{number}.host", "shared": "shared", "local": "own"}[group.space]
        return f"{memory} + (uint64_t)(o{number} + {_literal(offset_of(address), _INTEGERS['u64'])})"

    def source(self) -> int:
        """The group of what the copy in hand reads."""
        return self.segment.source_of[self._number]

    def space(self) -> str:
        """The state space in which the generic address of the instruction in hand lies."""
        return f"m->group_space[{self.segment.group_of[self._number]}]"

    def note(self, number: int, address: Operand) -> list[str]:
        """The lines that note a group's address, and the lane where not all take part."""
        assert isinstance(address, Address)
        if isinstance(address.base, Register):
            if self.kind(address.base.name).suffix not in {"u32", "u64"}:
                raise UnsupportedPtxError(f"{self.function.name}: address register `{address.base.name}`")
            base = f"(uint64_t){self.variable(address.base.name)}"
        elif isinstance(address.base, Symbol):
            base = self.read(address.base, _INTEGERS["u64"])
        else:
            base = _literal(address.offset, _INTEGERS["u64"])
        lines = [f"const uint64_t b{number} = {base};", f"a{number}[t] = b{number};"]
        if self.segment.groups[number].guarded:
            lines.append(f"m->group_mask[{number} * WARPS + t / WARP] |= 1u << t % WARP;")
        return lines

    def _check(self, number: int, group: Group, address: Address) -> None:
        """Note the group's address, and give up unless every access of the group is in bounds and aligned."""
        lines = self.note(number, address)
        low, past = group.low, group.past
        if group.space == "generic":
            site = group.sites[0]
            arguments = f"m, {number}, own, b{number}, {site.offset}, {site.width_bytes}"
            lines += [
                f"uint8_t *const p{number} = find_generic({arguments});",
                f"if (!p{number}) return SUSPECT;",
            ]
        elif group.space == "global":
            # The first lane finds the buffer, and the others have to follow it there.
            find = f"find_buffer(m, {number}, b{number}, {low}, {past}, &found)"
            lines += [
                f"if (b{number} - in{number}.first >= in{number}.bases) {{",
                "    struct range found;",
                f"    if (in{number}.bases || !{find}) return SUSPECT;",
                f"    in{number} = found;",
                "}",
                f"const uint64_t o{number} = b{number} - in{number}.start;",
            ]
        else:
            origin = LOCAL_BASE if group.space == "local" else 0
            lines += [
                f"const uint64_t o{number} = b{number} - {origin}u;",
                f"if (o{number} - {max(-low, 0)}u >= room{number}) return SUSPECT;",
            ]
        lines += [f"if ((b{number} + {offset}u) % {width}u) return SUSPECT;" for offset, width in group.alignments]
        self.lines += lines


def offset_of(address: Address) -> int:
    """What is added to the base; an absolute address is a base."""
    return 0 if address.base is None else address.offset


def _converted(text: str, have: Kind, want: Kind) -> str | None:
    """A value of one type as a register of another holds it; None when PTX has no such reading."""
    if _PREDICATE in (have, want):
        return None
    if have.bits == want.bits:
        if have.is_float:
            text, have = f"bits_{have.suffix}({text})", have.unsigned
        return f"as_{want.suffix}({text})" if want.is_float else f"({want.name}){text}"
    # Integers are cut, or widened as their own type says.
    return None if have.is_float or want.is_float else f"({want.name}){text}"


def _literal(value: int, kind: Kind) -> str:
    """``value``, or for floats the value whose bits it is."""
    if kind == _PREDICATE:
        return str(int(bool(value)))
    wrapped = value & (2**kind.bits - 1)
    text = f"{wrapped}u" if kind.bits <= 32 else f"{wrapped}ull"
    if kind.is_float:
        return f"as_{kind.suffix}({text})"
    return text if kind.suffix in {"u32", "u64"} else f"({kind.name}){text}"
