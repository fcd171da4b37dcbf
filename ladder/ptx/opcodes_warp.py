"""Opcodes that lanes of a warp, or warps of a threadblock, execute together -> lines of Python.

Every one of them first checks that the lanes which it names are there; what it then computes is in ``warp`` and
``barriers``.
"""

from __future__ import annotations

from collections.abc import Callable

from ladder.ptx.barriers import barrier_kind
from ladder.ptx.checks import operands_of, predicate
from ladder.ptx.emit import Emitter
from ladder.ptx.syntax import Instruction, Operand, Symbol, Vector

__all__ = ["COLLECTIVES", "WARP_HANDLERS"]

Handler = Callable[[Emitter, Instruction], None]

COLLECTIVES = frozenset(["shfl", "vote", "activemask", "match", "redux", "ldmatrix", "mma"])
"""Opcodes that the lanes of a warp had better reach together, ``bar.warp.sync`` and barriers with names aside."""


def _meet(e: Emitter, i: Instruction, members: str) -> None:
    """Add the line that checks a member mask."""
    e.lines.append(f"m.warps.meet({e.function.where(i)!r}, {i.op!r}, {members}, {e.mask}, {e.running})")


def _pair(e: Emitter, i: Instruction, target: Operand) -> tuple[Operand, Operand]:
    """The destination and the optional predicate of ``d|p``."""
    if not isinstance(target, Vector):
        return target, Symbol("_")
    if len(target.items) != 2:
        raise e.unsupported(i, f"{len(target.items)} destinations")
    return target.items[0], target.items[1]


def _shfl(e: Emitter, i: Instruction) -> None:
    if i.parts[1:] not in {("sync", mode, "b32") for mode in ("up", "down", "bfly", "idx")}:
        raise e.unsupported(i, "only shfl.sync.{up, down, bfly, idx}.b32")
    target, *sources = operands_of(e, i, 5)
    value, source, control, members = (e.read(o, "b32") for o in sources)
    _meet(e, i, members)
    e.lines.append(f"_v = m.warps.shuffle({i.parts[2]!r}, {value}, {source}, {control}, {members}, {e.mask})")
    data, inside = _pair(e, i, target)
    e.write(data, "_v[0]", "b32")
    e.write(inside, "_v[1]", "pred")


def _vote(e: Emitter, i: Instruction) -> None:
    if i.parts[1:] not in {("sync", mode, "pred") for mode in ("all", "any", "uni")} | {("sync", "ballot", "b32")}:
        raise e.unsupported(i, "only vote.sync.{all, any, uni}.pred and .ballot.b32")
    target, flag, members_operand = operands_of(e, i, 3)
    members = e.read(members_operand, "b32")
    _meet(e, i, members)
    mode, kind = i.parts[2:]
    e.write(target, f"m.warps.vote({mode!r}, {predicate(e, flag)}, {members}, {e.mask})", kind)


def _activemask(e: Emitter, i: Instruction) -> None:
    (target,) = operands_of(e, i, 1)
    e.write(target, f"m.warps.active({e.mask})", "b32")


def _match(e: Emitter, i: Instruction) -> None:
    if i.parts[1] not in {"any", "all"} or i.parts[2] != "sync" or i.parts[3:] not in {("b32",), ("b64",)}:
        raise e.unsupported(i, "only match.{any, all}.sync.{b32, b64}")
    target, value, members_operand = operands_of(e, i, 3)
    members = e.read(members_operand, "b32")
    _meet(e, i, members)
    e.lines.append(f"_v = m.warps.match({i.parts[1]!r}, {e.read(value, i.parts[3])}, {members}, {e.mask})")
    data, agree = _pair(e, i, target)
    e.write(data, "_v[0]", "b32")
    e.write(agree, "_v[1]", "pred")


def _redux(e: Emitter, i: Instruction) -> None:
    known = {("sync", o, t) for o in ("add", "min", "max") for t in ("u32", "s32")} | {
        ("sync", o, "b32") for o in ("and", "or", "xor")
    }
    if i.parts[1:] not in known:
        raise e.unsupported(i, "only redux.sync of 32-bit integers")
    target, value, members_operand = operands_of(e, i, 3)
    members, (_, operation, kind) = e.read(members_operand, "b32"), i.parts[1:]
    _meet(e, i, members)
    e.write(target, f"m.warps.reduce({operation!r}, {e.read(value, kind)}, {members}, {e.mask})", kind)


def _warp_barrier(e: Emitter, i: Instruction) -> None:
    (members,) = operands_of(e, i, 1)
    _meet(e, i, e.read(members, "b32"))
    e.lines.append(f"m.shared.sync_warps({e.mask})")


def _barrier(e: Emitter, i: Instruction) -> None:
    """``bar`` and ``barrier`` in a kernel that has more than ``__syncthreads()``."""
    kind = barrier_kind(i)
    rest = [p for p in i.parts[1:] if p not in {kind, "cta", "aligned"}]
    flag = ""
    operands = list(i.operands)
    if kind == "red":
        if rest not in (["popc", "u32"], ["and", "pred"], ["or", "pred"]):
            raise e.unsupported(i, "only .red.popc.u32, .red.and.pred and .red.or.pred")
        flag = f", flag={predicate(e, operands.pop())}"
        operands = operands[1:]
    elif rest or not kind:
        raise e.unsupported(i, "unknown opcode")
    if len(operands) not in {1, 2} or (kind == "arrive" and len(operands) != 2):
        raise e.unsupported(i, f"{len(i.operands)} operands")
    name, *counts = (e.read(o, "u32") for o in operands)
    e.lines.append(
        f"m.barriers.arrive({e.function.where(i)!r}, {name}, {counts[0] if counts else 'None'}, {e.mask}, "
        f"{e.running}, waits={kind != 'arrive'}{flag})"
    )


def _barrier_result(e: Emitter, i: Instruction) -> None:
    operation = i.parts[1]
    e.write(i.operands[0], f"m.barriers.result({operation!r})", "u32" if operation == "popc" else "pred")


WARP_HANDLERS: dict[str, Handler] = {
    "activemask.b32": _activemask,
    "bar": _barrier,
    "bar.warp.sync": _warp_barrier,
    "barrier": _barrier,
    "barrier_result": _barrier_result,
    "match": _match,
    "redux": _redux,
    "shfl": _shfl,
    "vote": _vote,
}
