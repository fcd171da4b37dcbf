"""Half-precision opcodes and conversions -> lines of C for one lane; what they mean is in ``ladder.ptx.halves``."""

from __future__ import annotations

from collections.abc import Callable

from ladder.ptx.c.lane import Lane, kind_of
from ladder.ptx.syntax import Instruction

__all__ = ["HALF_HANDLERS"]

Handler = Callable[[Lane, Instruction], None]

_F32, _HALF, _PAIR = kind_of("f32"), kind_of("b16"), kind_of("b32")


def _to_half(kind: str, nearest: int) -> Handler:
    def handle(lane: Lane, i: Instruction) -> None:
        target, source = i.operands
        lane.write(target, f"{kind}_of_f32({lane.read(source, _F32, arithmetic=True)}, {nearest})", _HALF)

    return handle


def _to_pair(kind: str, nearest: int) -> Handler:
    def handle(lane: Lane, i: Instruction) -> None:
        # The first source goes to the upper half.
        target, upper, lower = i.operands
        low, high = (f"{kind}_of_f32({lane.read(o, _F32, arithmetic=True)}, {nearest})" for o in (lower, upper))
        lane.write(target, f"pair_of({low}, {high})", _PAIR)

    return handle


def _from_half(kind: str) -> Handler:
    def handle(lane: Lane, i: Instruction) -> None:
        target, source = i.operands
        lane.write(target, f"f32_of_{kind}({lane.read(source, _HALF)})", _F32, any_nan=True)

    return handle


def _to_tf32(rounding: str) -> Handler:
    def handle(lane: Lane, i: Instruction) -> None:
        target, source = i.operands
        lane.write(target, f"tf32_{rounding}({lane.read(source, _F32, arithmetic=True)})", _PAIR)

    return handle


def _arithmetic(function: str, kind: str, *, packed: bool) -> Handler:
    def handle(lane: Lane, i: Instruction) -> None:
        target, *sources = i.operands
        if not packed:
            values = ", ".join(lane.read(o, _HALF) for o in sources)
            lane.write(target, f"{function}_{kind}({values})", _HALF)
            return
        pairs = [lane.read(o, _PAIR) for o in sources]
        low, high = (
            f"{function}_{kind}({', '.join(f'{part}_half({pair})' for pair in pairs)})" for part in ("low", "high")
        )
        lane.write(target, f"pair_of({low}, {high})", _PAIR)

    return handle


HALF_HANDLERS: dict[str, Handler] = {
    **{f"cvt.{r}.{kind}.f32": _to_half(kind, n) for kind in ("f16", "bf16") for r, n in (("rn", 1), ("rz", 0))},
    **{f"cvt.{r}.{kind}x2.f32": _to_pair(kind, n) for kind in ("f16", "bf16") for r, n in (("rn", 1), ("rz", 0))},
    **{f"cvt.f32.{kind}": _from_half(kind) for kind in ("f16", "bf16")},
    **{f"cvt.{r}.tf32.f32": _to_tf32(r) for r in ("rna", "rn", "rz")},
    **{
        f"{name}{rounding}.{kind}{'x2' if packed else ''}": _arithmetic(name, kind, packed=packed)
        for kind in ("f16", "bf16")
        for packed in (False, True)
        for name, roundings in (("add", ("", ".rn")), ("sub", ("", ".rn")), ("mul", ("", ".rn")), ("fma", (".rn",)))
        for rounding in roundings
    },
}
