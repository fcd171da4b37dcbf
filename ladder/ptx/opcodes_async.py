"""``cp.async`` and its groups -> lines of Python; and the sm_90a copies and barriers, refused with a hint."""

from __future__ import annotations

from collections.abc import Callable

from ladder.ptx.checks import operands_of
from ladder.ptx.emit import Emitter
from ladder.ptx.syntax import Immediate, Instruction, Register

__all__ = ["ASYNC_HANDLERS"]

Handler = Callable[[Emitter, Instruction], None]

_HINTS = frozenset(["L2::64B", "L2::128B", "L2::256B"])
_SIZES = {"ca": {4, 8, 16}, "cg": {16}}


def _copy(e: Emitter, i: Instruction) -> None:
    cache, *rest = i.parts[2:] or ("",)
    spaces = [p for p in rest if p not in _HINTS]
    if cache not in _SIZES or spaces not in (["shared", "global"], ["shared::cta", "global"]):
        raise e.unsupported(i, "only cp.async.{ca, cg}.shared.global")
    if len(i.operands) not in {3, 4}:
        raise e.unsupported(i, f"{len(i.operands)} operands (no cache policy)")
    target, source, size, *partial = i.operands
    if not isinstance(size, Immediate) or size.value not in _SIZES[cache]:
        raise e.unsupported(i, f"a cp-size other than {', '.join(map(str, sorted(_SIZES[cache])))}")
    to, offset = e.address(target)
    where_from, source_offset = e.address(source)
    site = e.site(i, "st", "shared", "b32", size.value // 4, offset)
    read = "None"
    if partial and isinstance(partial[0], Register) and e.function.registers.get(partial[0].name) == "pred":
        # ignore-src: read nothing, write zeros.
        ignored = e.read(partial[0], "pred")
        read = f"np.where({ignored}, {e.constant(0, 'uint32')}, {e.constant(size.value, 'uint32')})"
    elif partial:
        read = e.read(partial[0], "u32")
    e.lines.append(f"m.copies.issue({site}, {to}, {where_from}, {source_offset}, {read}, {e.mask})")


def _commit(e: Emitter, i: Instruction) -> None:
    operands_of(e, i, 0)
    e.lines.append(f"m.copies.commit({e.mask})")


def _wait_group(e: Emitter, i: Instruction) -> None:
    (keep,) = operands_of(e, i, 1)
    if not isinstance(keep, Immediate):
        raise e.unsupported(i, "needs a constant number of groups")
    e.lines.append(f"m.copies.wait({keep.value}, {e.mask})")


def _wait_all(e: Emitter, i: Instruction) -> None:
    operands_of(e, i, 0)
    e.lines.append(f"m.copies.wait(None, {e.mask})")


def _refuse(what: str) -> Handler:
    def handle(e: Emitter, i: Instruction) -> None:
        raise e.unsupported(i, what)

    return handle


_HOPPER = _refuse("sm_90a asynchronous operations are not emulated; run this kernel on a GPU")

ASYNC_HANDLERS: dict[str, Handler] = {
    "cp.async": _copy,
    "cp.async.bulk": _HOPPER,
    "cp.async.commit_group": _commit,
    "cp.async.mbarrier": _HOPPER,
    "cp.async.wait_all": _wait_all,
    "cp.async.wait_group": _wait_group,
    "cp.reduce": _HOPPER,
    **dict.fromkeys(
        [
            "barrier.cluster",
            "clusterlaunchcontrol",
            "elect",
            "fence.mbarrier_init",
            "fence.proxy",
            "griddepcontrol",
            "mapa",
            "mbarrier",
            "multimem",
            "setmaxnreg",
            "st.async",
            "tcgen05",
            "tensormap",
            "wgmma",
        ],
        _HOPPER,
    ),
}
