"""What the runtime does when the lanes of a segment have run, and what each lane leaves for it."""

from __future__ import annotations

from ladder.ptx.barriers import barrier_kind
from ladder.ptx.c.lane import Lane, kind_of
from ladder.ptx.syntax import Immediate, Instruction, Operand

__all__ = ["after_row", "leave"]


def after_row(instruction: Instruction | None) -> list[str]:
    """The columns of ``struct segment``: what comes after it, whether under a predicate, and with which number."""
    if instruction is None:
        return ["NOTHING", "0", "0"]
    what, value = _what(instruction)
    return [what, str(int(instruction.guard is not None)), value]


def _what(i: Instruction) -> tuple[str, str]:
    if kind := barrier_kind(i):
        _, count, flag = _operands(i)
        traits = [("WAITS", kind != "arrive"), ("HAS_COUNT", count is not None), ("HAS_FLAG", flag is not None)]
        return "ARRIVE", " | ".join(name for name, holds in traits if holds)
    if i.parts[-1] == "commit_group":
        return "COMMIT_COPIES", "0"
    operand = i.operands[0] if i.operands else Immediate(-1)
    if not isinstance(operand, Immediate):
        return "SYNC_MEMBERS", "0"
    return ("SYNC_WARPS" if i.parts[0] == "bar" else "AWAIT_COPIES"), str(operand.value)


def _operands(i: Instruction) -> tuple[Operand, Operand | None, Operand | None]:
    """The name, count and flag of a barrier."""
    operands = list(i.operands)
    flag = None
    if barrier_kind(i) == "red":
        flag = operands.pop()
        operands = operands[1:]
    return operands[0], operands[1] if len(operands) > 1 else None, flag


def leave(lane: Lane, i: Instruction) -> list[str]:
    """The lines by which each lane says that it goes through ``i``, and what it brings along."""
    lines = []
    if i.guard is not None:
        lines.append(f"if ({lane.predicate(*i.guard)}) m->after_lanes[t / WARP] |= 1u << t % WARP;")
    if _what(i)[0] == "SYNC_MEMBERS":
        lines.append(f"m->members[t] = {lane.read(i.operands[0], kind_of('b32'))};")
    if barrier_kind(i):
        name, count, flag = _operands(i)
        lines.append(f"m->barrier_name[t] = {lane.read(name, kind_of('u32'))};")
        if count is not None:
            lines.append(f"m->barrier_count[t] = {lane.read(count, kind_of('u32'))};")
        if flag is not None:
            lines.append(f"m->barrier_flag[t] = {lane.condition(flag)};")
    return lines
