"""A program -> the C source of its basic blocks and the tables that tell the runtime about them.

Each segment becomes a function that runs its lanes one after the other, or its warps where lanes work together.
Registers that outlive a segment lie in a ``struct lane``; all others are C variables. What a lane does is checked as it
goes, and the first doubt ends the launch; what a warp costs is counted by the runtime from the addresses that each
function leaves behind.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ladder.ptx.c.afterwards import leave
from ladder.ptx.c.collectives import emit_together
from ladder.ptx.c.lane import Lane
from ladder.ptx.c.opcodes import emit
from ladder.ptx.c.segments import Group, Segment, split
from ladder.ptx.c.tables import Tables, array
from ladder.ptx.c.warp import Warp
from ladder.ptx.emit import SPECIAL
from ladder.ptx.program import Program

__all__ = ["translate"]

WARP = 32
_ENDS = {"fall": "FALL", "bra": "BRANCH", "ret": "RETURN", "bar": "BARRIER"}
_WIDE_FIRST = ("uint64_t", "double", "uint32_t", "float", "uint16_t", "uint8_t")

Dimensions = tuple[int, int, int]


def translate(program: Program, block: Dimensions) -> str:
    """The C source of ``program`` for threadblocks of (x, y, z) threads.

    Raises:
        UnsupportedPtxError: something that the C engine does not do, with its source line.
    """
    return _Translation(program, block).text()


class _Translation:
    """What one kernel's source consists of."""

    def __init__(self, program: Program, block: Dimensions) -> None:
        self.program = program
        self.block = block
        self.tables = Tables()
        self.collective = any(code.collective for code in program.blocks)
        self.functions: list[str] = []
        self.places: dict[str, str] = {}
        self.registers: dict[str, str] = {}
        """Members of ``struct lane``, by variable: their type."""

    def text(self) -> str:
        """All of it."""
        program, threads = self.program, self.block[0] * self.block[1] * self.block[2]
        segments = split(program)
        rows = [self._block(index, parts) for index, parts in enumerate(segments)]
        members = sorted(self.registers.items(), key=lambda item: (_WIDE_FIRST.index(item[1]), int(item[0][1:])))
        warps = -(-threads // WARP)
        granules = [site.dtype.itemsize for site in program.sites if site.space in {"shared", "generic"}]
        kernel = {
            "blocks": "blocks",
            "block_count": len(rows),
            "threads": threads,
            "stride": "STRIDE",
            "lane_bytes": "sizeof(struct lane)",
            "local_bytes": "LOCAL_BYTES",
            "local_stride": "LOCAL_STRIDE",
            "granule_shift": min([4, *granules]).bit_length() - 1,
            **self.tables.totals(),
            "collective": int(self.collective),
            "named": int(program.named_barriers),
        }
        return "\n".join(
            [
                '#include "operations.h"',
                '#include "warps.h"',
                f"#define WARPS {warps}",
                # Rows a power of two apart would share their cache sets.
                f"#define STRIDE {WARP * warps + 8}",
                f"#define LOCAL_BYTES {program.local_bytes}",
                f"#define LOCAL_STRIDE {-(-program.local_bytes // 8) * 8}",
                "struct lane {",
                *(f"    {kind} {variable};" for variable, kind in members or [("unused", "uint8_t")]),
                "};",
                *self.places.values(),
                *self.functions,
                *self.tables.texts,
                *self._leads(),
                array("struct block", "blocks", rows),
                "const struct kernel ladder_kernel = {",
                *(f"    .{name} = {value}," for name, value in kernel.items()),
                "};",
                "",
            ]
        )

    def _block(self, index: int, segments: Sequence[Segment]) -> str:
        """Add the segments of a basic block; its row in the table of blocks."""
        code = self.program.blocks[index]
        name = f"segments_{self.tables.segments}"
        rows = []
        for segment in segments:
            has_code = self._function(segment)
            rows.append(self.tables.add(segment, has_code=has_code))
        self.tables.texts.append(array("struct segment", name, rows))
        shape = f"{len(rows)}, {len(code.instructions)}, {_ENDS[code.end]}"
        leads = f"leads[{index}]" if self.collective else "0"
        fp32 = ", ".join(map(str, code.fp32 or (0, 0, 0)))
        rest = (
            f"{int(code.guard is not None)}, {max(code.target, 0)}, {int(code.leaves)}, {int(code.collective)}, {leads}"
        )
        return f"{{{name}, {shape}, {rest}, {{{fp32}}}}}"

    def _leads(self) -> list[str]:
        """The table of where basic blocks lead to, in kernels whose warps wait for their lanes."""
        if not self.collective:
            return []
        blocks = self.program.blocks
        words = [
            ", ".join(f"{block.leads_to >> start & (1 << 64) - 1}ull" for start in range(0, len(blocks), 64))
            for block in blocks
        ]
        rows = ", ".join(f"{{{text}}}" for text in words)
        return [f"static const uint64_t leads[{len(blocks)}][{-(-len(blocks) // 64)}] = {{{rows}}};"]

    def _function(self, segment: Segment) -> bool:
        """Add the function of a segment, if it has anything to do."""
        lines = self._of_warps(segment) if segment.together else self._of_lanes(segment)
        if not lines:
            return False
        head = (
            f"segment_{self.tables.segments}(struct machine *const m, const uint16_t *const who, const int32_t count)"
        )
        self.functions.append("\n".join([f"static int32_t {head}", "{", *(f"    {line}" for line in lines), "}"]))
        return True

    def _keep(self, lane: Lane, names: Iterable[str]) -> None:
        """Give registers a place in ``struct lane``."""
        self.registers |= {lane.member(name): lane.kind(name).name for name in names}

    def _of_lanes(self, segment: Segment) -> list[str]:
        """The body of a function that goes through lanes; none when they have nothing to do."""
        lane = Lane(self.program, segment)
        for number, instruction in enumerate(segment.instructions, segment.start):
            emit(lane, instruction, number)
        taken = None if segment.branch is None else lane.predicate(*segment.branch)
        left = [] if segment.after is None else leave(lane, segment.after)
        if not segment.instructions and taken is None and not left:
            return []
        self._keep(lane, segment.uses | segment.kept)
        before, within = self._variables(lane)
        after = [*left, *(f"r->{lane.variable(name)} = {lane.value(name)};" for name in sorted(segment.kept))]
        if taken is not None:
            after += [f"const uint8_t taken = {taken};", "m->taken[t] = taken;", "count_taken += taken;"]
        return [
            *before,
            "int32_t count_taken = 0;",
            "for (int32_t i = 0; i < count; ++i) {",
            *(f"    {line}" for line in [*within, *lane.lines, *after]),
            "}",
            "return count_taken;",
        ]

    def _of_warps(self, segment: Segment) -> list[str]:
        """The body of a function that goes through warps."""
        special = self._of_lane("(warp * WARP + l)") | dict(_grid(SPECIAL))
        warp = Warp(self.program, segment, special)
        for number, instruction in enumerate(segment.instructions, segment.start):
            emit_together(warp, instruction, number)
        self._keep(warp, warp.variables)
        self.places |= warp.tables
        before = ["(void)who, (void)count;"]
        if segment.groups:
            before.append("uint8_t *const shared = m->shared;")
        for number, group in enumerate(segment.groups):
            before += _group_variables(number, group)
        return [
            *before,
            "for (int32_t warp = 0; warp < WARPS; ++warp) {",
            "    const uint32_t active = m->active[warp];",
            "    if (!active) continue;",
            "    struct lane *const w = (struct lane *)m->lanes + warp * WARP;",
            *(f"    {line}" for line in [*warp.early, *warp.lines]),
            "}",
            "return 0;",
        ]

    def _variables(self, lane: Lane) -> tuple[list[str], list[str]]:
        """The declarations of a segment's function, before and within its lane loop."""
        segment = lane.segment
        before = [f"const uint32_t {lane.variable(name)} = {place};" for name, place in _grid(lane.special)]
        within = ["const int32_t t = who[i];"]
        of_lane = self._of_lane()
        within += [f"const uint32_t {lane.variable(n)} = {of_lane[n]};" for n in sorted(lane.special & of_lane.keys())]
        spaces = {group.space for group in segment.groups}
        if "shared" in spaces:
            before.append("uint8_t *const shared = m->shared;")
        if spaces & {"local", "generic"}:
            within.append("uint8_t *const own = m->local + (uint64_t)t * LOCAL_STRIDE;")
        for number, group in enumerate(segment.groups):
            before += _group_variables(number, group)
        if segment.uses or segment.kept:
            before.append("struct lane *const lanes = m->lanes;")
            within.append("struct lane *const r = lanes + t;")
        for name, kind in sorted(lane.variables.items(), key=lambda item: int(lane.variable(item[0])[1:])):
            start = f" = r->{lane.variable(name)}" if name in segment.uses else ""
            within.append(f"{kind.name} {lane.variable(name)}{start};")
        return before, within

    def _of_lane(self, lane: str = "t") -> dict[str, str]:
        """Special registers that follow from a lane's number and the block's dimensions."""
        x, y, _ = self.block
        return {
            **{
                f"%tid.{axis}": f"(uint32_t){lane} / {below} % {size}"
                for axis, below, size in zip("xyz", (1, x, x * y), self.block, strict=True)
            },
            **{f"%ntid.{axis}": str(size) for axis, size in zip("xyz", self.block, strict=True)},
            "%laneid": f"(uint32_t){lane} % WARP",
            "%warpid": f"(uint32_t){lane} / WARP",
        }


def _grid(names: Collection[str]) -> list[tuple[str, str]]:
    """Special registers that are the same in a whole threadblock, and where the machine has them."""
    return [
        (name, f"m->{name[1:-2]}[{'xyz'.index(name[-1])}]")
        for name in sorted(names)
        if name.startswith(("%ctaid", "%nctaid"))
    ]


def _group_variables(number: int, group: Group) -> list[str]:
    lines = [f"uint64_t *const a{number} = m->address + {number} * STRIDE;"]
    if group.space == "global":
        lines.append(f"struct range in{number} = {{0, 0, 0, 0}};")
    elif group.space in {"shared", "local"}:
        size = "LOCAL_BYTES" if group.space == "local" else "m->shared_bytes"
        lines.append(f"const uint64_t room{number} = room({size}, {max(-group.low, 0)}, {group.past});")
    return lines
