"""Basic blocks -> segments: stretches that one lane can run through before the next lane does.

A lane loop ends where the runtime takes a hand: at ``bar.warp.sync``, at barriers with names, and where copies are
committed or waited for;
before a second atomic (an atomic takes its lanes in order); before copies, if shared memory has been accessed (copies
come first in what is logged of a segment); and where a block is too long for a C compiler to like it. Values that are
needed beyond are kept lane by lane; within a segment they are C variables.

What the lanes of a warp do together has no place in a lane's code: shuffles, votes and matrix products form segments of
their own, which one warp runs through before the next one does. All their registers are kept lane by lane, but for
those that hold one constant wherever they are read: masks and controls come so.

Memory instructions of a segment that address memory off one value of one register form a group: their addresses are
noted and checked once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ladder.ptx.barriers import barrier_kind
from ladder.ptx.emit import SPECIAL
from ladder.ptx.opcodes_warp import COLLECTIVES
from ladder.ptx.program import Block, Program
from ladder.ptx.site import Site
from ladder.ptx.syntax import Address, Immediate, Instruction, Register, destinations, registers_of, sources

__all__ = ["Group", "Segment", "is_copy", "split"]

LONGEST = 1500
"""Instructions of a segment. gcc's time grows faster than the length of a function; a register tile's mainloop fits."""

MOST_TOGETHER = 100
"""The same for instructions that lanes execute together, each of which is a loop over them."""

_AFTER = ("bar.warp.sync", "cp.async.commit_group", "cp.async.wait_group", "cp.async.wait_all")
_ATOMIC = frozenset(["atom", "red"])
_ACCESSES = _ATOMIC | {"ld", "st"}
_NOT_SHARED = frozenset(["global", "local", "param"])


@dataclass(slots=True)
class Group:
    """Instructions that address memory off one value.

    Attributes:
        space: ``"global"``, ``"shared"``, ``"local"`` or ``"generic"``.
        guarded: its one instruction is predicated, or may read nothing, so that other lanes take part than in the
            segment.
    """

    space: str
    guarded: bool
    sites: list[Site] = field(default_factory=list)

    @property
    def low(self) -> int:
        """Bytes from the base to the first byte that any of them touches; may be negative."""
        return min(site.offset for site in self.sites)

    @property
    def past(self) -> int:
        """Bytes from the base to one past the last."""
        return max(site.offset + site.width_bytes for site in self.sites)

    @property
    def alignments(self) -> list[tuple[int, int]]:
        """(offset, width): the base plus ``offset`` has to be a multiple of ``width``."""
        return sorted(
            {(site.offset % site.width_bytes, site.width_bytes) for site in self.sites if site.width_bytes > 1}
        )


@dataclass(slots=True)
class Segment:
    """A stretch of a basic block, without the block's last instruction if that one only directs control.

    Attributes:
        start: number of its first instruction in the function.
        together: lanes of a warp run it together.
        branch: predicate register of the block's end and whether it is negated; None but in a block's last segment.
        after: what the runtime does when its lanes have run: ``bar.warp.sync``, a barrier with a name, or a group of
            copies that is committed or waited for.
        uses: registers that it reads before it has written them, in every lane.
        kept: registers that it writes and that are read later.
        group_of: group number by instruction number.
        source_of: the same for what a copy reads from.
    """

    start: int
    instructions: list[Instruction]
    together: bool = False
    branch: tuple[str, bool] | None = None
    after: Instruction | None = None
    uses: set[str] = field(default_factory=set)
    kept: set[str] = field(default_factory=set)
    groups: list[Group] = field(default_factory=list)
    group_of: dict[int, int] = field(default_factory=dict)
    source_of: dict[int, int] = field(default_factory=dict)


def split(program: Program) -> list[list[Segment]]:
    """The segments of each basic block, analysed."""
    names = {slot: name for name, slot in program.slots.items()}
    constants = _constants(program)
    site_at = {site.index: site for site in program.sites}
    out = []
    for index, block in enumerate(program.blocks):
        segments = _cut(program, block)
        for segment in segments:
            if segment.together:
                segment.instructions = [_with_constants(i, constants) for i in segment.instructions]
            if segment.after is not None:
                segment.after = _with_constants(segment.after, constants)
        if block.guard is not None:
            segments[-1].branch = (names[block.guard[0]], block.guard[1])
        _flow(segments, _registers(_live_out(program, index), names))
        for segment in segments:
            _group(segment, site_at)
        out.append(segments)
    return out


def _constants(program: Program) -> dict[str, Immediate]:
    """Registers that one instruction writes, and that with a constant."""
    writes = [(name, i) for i in program.function.instructions for o in destinations(i) for name in registers_of(o)]
    times = Counter(name for name, _ in writes)
    return {
        name: i.operands[1]
        for name, i in writes
        if times[name] == 1 and i.guard is None and i.parts[0] == "mov" and isinstance(i.operands[1], Immediate)
    }


def _with_constants(instruction: Instruction, constants: Mapping[str, Immediate]) -> Instruction:
    targets = len(destinations(instruction))
    given = (constants.get(o.name, o) if isinstance(o, Register) else o for o in instruction.operands[targets:])
    return instruction._replace(operands=(*instruction.operands[:targets], *given))


def _cut(program: Program, block: Block) -> list[Segment]:
    is_barrier = block.end == "bar" and program.named_barriers
    body = block.instructions if block.end == "fall" or is_barrier else block.instructions[:-1]
    segments = [Segment(block.start, [])]
    for number, instruction in enumerate(body, block.start):
        if instruction.op.startswith(_AFTER) or barrier_kind(instruction):
            if segments[-1].together:
                segments.append(Segment(number, []))
            segments[-1].after = instruction
            segments.append(Segment(number + 1, []))
        else:
            if _must_part(segments[-1], instruction):
                segments.append(Segment(number, []))
            segments[-1].together = is_together(instruction)
            segments[-1].instructions.append(instruction)
    if block.guard is not None and segments[-1].together:
        segments.append(Segment(block.start + len(body), []))
    return segments


def _must_part(segment: Segment, instruction: Instruction) -> bool:
    """Whether an instruction cannot be in one segment with those before it."""
    before = segment.instructions
    if not before:
        return False
    if is_together(instruction) != segment.together or len(before) >= (MOST_TOGETHER if segment.together else LONGEST):
        return True
    if instruction.parts[0] in _ATOMIC:
        return any(i.parts[0] in _ATOMIC for i in before)
    if is_copy(instruction):
        return any(i.parts[0] in _ACCESSES and not _NOT_SHARED & {*i.parts} for i in before)
    return False


def is_together(instruction: Instruction) -> bool:
    """Whether the lanes of a warp execute it together."""
    return instruction.parts[0] in COLLECTIVES


def is_copy(instruction: Instruction) -> bool:
    """Whether it is a ``cp.async`` itself, and not one of its groups."""
    return instruction.op.startswith(("cp.async.ca", "cp.async.cg"))


def _live_out(program: Program, index: int) -> int:
    block = program.blocks[index]
    following = [index + 1] if block.end in {"fall", "bar"} or block.guard else []
    if block.end == "bra":
        following.append(block.target)
    live = 0
    for successor in following:
        if successor < len(program.blocks):
            live |= program.blocks[successor].live_in
    return live


def _registers(bits: int, names: Mapping[int, str]) -> set[str]:
    digits = f"{bits:b}"[::-1]
    found = {names[slot] for slot, digit in enumerate(digits) if digit == "1" and slot in names}
    return found - SPECIAL


def _flow(segments: list[Segment], live: set[str]) -> None:
    """Backward data flow through the segments of one block, from what is live at its end."""
    for segment in reversed(segments):
        uses: set[str] = set()
        written: set[str] = set()
        surely: set[str] = set()
        for instruction in segment.instructions:
            read = _read_by(instruction)
            new = {name for operand in destinations(instruction) for name in registers_of(operand)}
            if instruction.guard:
                # A predicated write leaves the old value in the other lanes.
                read |= {instruction.guard[0]} | new
            uses |= read - surely
            surely |= new
            written |= new
        if segment.branch is not None:
            uses |= {segment.branch[0]} - surely
        if segment.after is not None:
            guard = () if segment.after.guard is None else segment.after.guard[:1]
            uses |= {*_read_by(segment.after), *guard} - surely
        segment.uses = uses - SPECIAL
        segment.kept = written & live
        live = segment.uses | (live - surely)


def _read_by(instruction: Instruction) -> set[str]:
    return {name for operand in sources(instruction) for name in registers_of(operand)}


def _group(segment: Segment, site_at: Mapping[int, Site]) -> None:
    generation: dict[str, int] = {}
    known: dict[tuple[str, str, int], int] = {}

    def add(site: Site, address: Address, *, guarded: bool) -> int:
        base = address.base
        key = (site.space, "" if base is None else base.name, generation.get(base.name, 0) if base else 0)
        # Absolute addresses differ in their base; a predicate, or a space known at run time only, sets one apart. The
        # matrices of a load have as many lanes give addresses.
        alone = base is None or guarded or site.space == "generic" or site.kind == "ldmatrix"
        if alone or key not in known:
            number = len(segment.groups)
            segment.groups.append(Group(site.space, guarded=guarded or site.kind == "ldmatrix"))
            if not alone:
                known[key] = number
        else:
            number = known[key]
        segment.groups[number].sites.append(site)
        return number

    for number, instruction in enumerate(segment.instructions, segment.start):
        site = site_at.get(number)
        if site is not None:
            place, *others = (o for o in instruction.operands if isinstance(o, Address))
            guarded = instruction.guard is not None
            if is_copy(instruction):
                site = replace(site, kind="copy")
                source = replace(site, space="global", offset=0 if others[0].base is None else others[0].offset)
                partial = len(instruction.operands) > 3
                segment.source_of[number] = add(source, others[0], guarded=guarded or partial)
            segment.group_of[number] = add(site, place, guarded=guarded)
        for operand in destinations(instruction):
            for name in registers_of(operand):
                generation[name] = generation.get(name, 0) + 1
