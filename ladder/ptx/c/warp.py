"""What the handlers of collectives write C with: a warp's run through a segment, whose lanes are all at hand.

A warp's registers lie in an array ``w`` of ``struct lane``. The lines of an instruction go through its lanes, ``l``
being the lane in hand, and ``here`` holds a bit for each lane that executes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ladder.ptx.c.lane import Kind, Lane, kind_of
from ladder.ptx.c.segments import Segment
from ladder.ptx.emit import SPECIAL
from ladder.ptx.program import Program
from ladder.ptx.syntax import Immediate, Instruction, Operand, destinations, registers_of

__all__ = ["Warp"]


class Warp(Lane):
    """Collects the lines of one segment's loop over warps.

    Attributes:
        early: declarations that come before the first instruction.
        tables: C tables that the lines refer to, by name.
    """

    def __init__(self, program: Program, segment: Segment, special: Mapping[str, str]) -> None:
        super().__init__(program, segment)
        self.early: list[str] = []
        self.tables: dict[str, str] = {}
        self._held: dict[tuple[str, Operand], str] = {}
        self._special_text = special
        self._arrays = 0
        self._instruction: Instruction | None = None

    def variable(self, name: str) -> str:
        """The place of a register of lane ``l``."""
        if name in SPECIAL:
            self.special.add(name)
            return f"({self._special_text[name]})"
        return f"w[l].{super().variable(name)}"

    def at(self, instruction: Instruction, number: int) -> None:
        """Turn to one instruction, and find who executes it."""
        self._instruction, self._number, self._guarded = instruction, number, instruction.guard is not None
        self.lines.append("{")
        if instruction.guard is None:
            self.lines.append("const uint32_t here = active;")
        else:
            self.lines.append("uint32_t here = 0;")
            self.each(f"here |= (uint32_t){self.predicate(*instruction.guard)} << l;")
            self.lines += ["here &= active;", "if (here) {"]

    def done(self) -> None:
        """Close what ``at`` opened, and let go of operands that have changed."""
        assert self._instruction is not None
        self.lines.append("} }" if self._guarded else "}")
        written = {name for operand in destinations(self._instruction) for name in registers_of(operand)}
        self._held = {key: array for key, array in self._held.items() if not written & {*registers_of(key[1])}}

    def hold(self, operand: Operand, prefix: str, type_name: str, size: int) -> tuple[str, bool]:
        """The name of an array made of an operand's registers, and whether it has to be filled.

        An earlier instruction's serves again while none of the registers has changed.
        """
        key = prefix, operand
        if key in self._held:
            return self._held[key], False
        array = self.new(prefix)
        self.early.append(f"{type_name} {array}[{size}];")
        if not self._guarded:
            self._held[key] = array
        return array, True

    def rows(self, address: Operand, givers: int) -> str:
        """The name of an array of pointers to what the first ``givers`` lanes address, after their checks."""
        outer, self.lines = self.lines, []
        place = self.place(address)
        checks, self.lines = self.lines, outer
        name = self.new("rows")
        self.lines.append(f"const uint8_t *{name}[WARP];")
        lanes = f"{(1 << givers) - 1}u"
        self.each("const int32_t t = warp * WARP + l;", *checks, f"{name}[l] = {place};", lanes=lanes)
        return name

    def each(self, *lines: str, lanes: str = "") -> None:
        """A loop over all lanes, or over those of a mask."""
        self.lines.append("for (int32_t l = 0; l < WARP; ++l) {")
        if lanes:
            self.lines.append(f"if (!({lanes} >> l & 1)) continue;")
        self.lines += [*lines, "}"]

    def gather(self, operand: Operand, kind: Kind, *, wide: Kind | None = None) -> str:
        """The name of an array with an operand's value in each lane."""
        name = self.new("x")
        self.lines.append(f"{(wide or kind).name} {name}[WARP];")
        self.each(f"{name}[l] = {self.read(operand, kind)};")
        return name

    def give(self, writes: Iterable[tuple[Operand, str, Kind]], *before: str) -> None:
        """Store results in the lanes that are here; ``before`` are the lines that work them out."""
        outer, self.lines = self.lines, [*before]
        for operand, text, kind in writes:
            self.write(operand, text, kind)
        inner, self.lines = self.lines, outer
        self.each(*inner, lanes="here")

    def meet(self, members: Operand) -> str:
        """Give up unless the lanes that every lane names are there; the text of a lane's mask."""
        kind = kind_of("b32")
        if isinstance(members, Immediate):
            named = self.read(members, kind)
            self.lines.append(f"if (here != {named} && m->misses(m, warp, {named}, here)) return SUSPECT;")
            return named
        array, named = self.gather(members, kind), self.new("named")
        self.lines.append(f"uint32_t {named} = 0;")
        self.each(f"{named} |= {array}[l];", lanes="here")
        self.lines.append(f"if (disagree({array}, here) || m->misses(m, warp, {named}, here)) return SUSPECT;")
        return f"{array}[l]"

    def whole(self) -> None:
        """Give up unless all lanes are there."""
        self.lines.append("if (here != ~0u) return SUSPECT;")

    def new(self, prefix: str) -> str:
        """A C name that is not used yet in this segment."""
        self._arrays += 1
        return f"{prefix}_{self._arrays}"
