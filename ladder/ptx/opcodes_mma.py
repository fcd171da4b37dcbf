"""Tensor-core and half-precision opcodes -> lines of Python."""

from __future__ import annotations

import re
from collections.abc import Callable

from ladder.ptx.checks import operands_of
from ladder.ptx.emit import Emitter
from ladder.ptx.mma import SHAPES
from ladder.ptx.syntax import Instruction, Operand, Vector

__all__ = ["MMA_HANDLERS"]

Handler = Callable[[Emitter, Instruction], None]


def _items(e: Emitter, i: Instruction, operand: Operand, count: int) -> tuple[Operand, ...]:
    items = operand.items if isinstance(operand, Vector) else (operand,)
    if len(items) != count:
        raise e.unsupported(i, f"{len(items)} registers, not {count}")
    return items


def _ldmatrix(e: Emitter, i: Instruction) -> None:
    name = re.fullmatch(r"ldmatrix\.sync\.aligned\.m8n8\.x([124])(\.trans)?\.shared(?:::cta)?\.b16", i.op)
    if name is None:
        raise e.unsupported(i, "only .m8n8.{x1, x2, x4}{.trans}.shared.b16")
    target, source = operands_of(e, i, 2)
    count = int(name[1])
    base, offset = e.address(source)
    site = e.site(i, "ldmatrix", "shared", "b32", 4, offset)
    e.lines.append(f"_v = m.matrices.load({site}, {base}, {count}, {e.mask}, transposed={bool(name[2])})")
    for position, item in enumerate(_items(e, i, target, count)):
        e.write(item, f"_v[{position}]", "b32")


def _mma(e: Emitter, i: Instruction) -> None:
    name = re.fullmatch(
        r"mma\.sync\.aligned\.m16n8k(\d+)\.row\.col\.(f32|f16)\.(tf32|f16|bf16)\.(tf32|f16|bf16)\.(f32|f16)", i.op
    )
    shape = (name[3], int(name[1])) if name else ("", 0)
    if name is None or shape not in SHAPES or name[3] != name[4] or name[2] != name[5]:
        known = ", ".join(f"k{k}.{kind}" for kind, k in sorted(SHAPES))
        raise e.unsupported(i, f"only .m16n8 .row.col with {known}")
    if name[2] == "f16" and name[3] != "f16":
        raise e.unsupported(i, ".f16 sums need .f16 operands")
    kind, k = shape
    # Halves come two a register.
    packed = 1 if kind == "tf32" else 2
    sums, sum_kind = (4, "f32") if name[2] == "f32" else (2, "b32")
    target, a, b, c = operands_of(e, i, 4)
    registers = ", ".join(
        f"({''.join(e.read(item, read_as) + ', ' for item in _items(e, i, operand, count))})"
        for operand, count, read_as in ((a, k // 2 // packed, "b32"), (b, k // 4 // packed, "b32"), (c, sums, sum_kind))
    )
    e.lines.append(f"_v = T.multiply(m.warps, {e.function.where(i)!r}, {i.op!r}, {shape}, ({registers}), {e.mask})")
    for position, item in enumerate(_items(e, i, target, sums)):
        e.write(item, f"_v[{position}]", sum_kind)


def _to_half(kind: str, rounding: str) -> Handler:
    def handle(e: Emitter, i: Instruction) -> None:
        target, source = operands_of(e, i, 2)
        e.write(target, f"H.encode({e.read(source, 'f32')}, {kind!r}, {rounding!r})", "b16")

    return handle


def _to_pair(kind: str, rounding: str) -> Handler:
    def handle(e: Emitter, i: Instruction) -> None:
        # The first source goes to the upper half.
        target, upper, lower = operands_of(e, i, 3)
        parts = ", ".join(f"H.encode({e.read(o, 'f32')}, {kind!r}, {rounding!r})" for o in (lower, upper))
        e.write(target, f"H.pack2({parts})", "b32")

    return handle


def _from_half(kind: str) -> Handler:
    def handle(e: Emitter, i: Instruction) -> None:
        target, source = operands_of(e, i, 2)
        e.write(target, f"H.widen({e.read(source, 'b16')}, {kind!r})", "f32")

    return handle


def _to_tf32(rounding: str) -> Handler:
    def handle(e: Emitter, i: Instruction) -> None:
        target, source = operands_of(e, i, 2)
        e.write(target, f"H.to_tf32({e.read(source, 'f32')}, {rounding!r})", "b32")

    return handle


def _arithmetic(function: str, kind: str, *, packed: bool) -> Handler:
    arity = 4 if function == "fma" else 3

    def handle(e: Emitter, i: Instruction) -> None:
        target, *sources = operands_of(e, i, arity)
        if not packed:
            values = ", ".join(e.read(o, "b16") for o in sources)
            e.write(target, f"H.{function}({values}, {kind!r})", "b16")
            return
        halves = []
        for part in ("low", "high"):
            values = ", ".join(f"H.{part}({e.read(o, 'b32')})" for o in sources)
            halves.append(f"H.{function}({values}, {kind!r})")
        e.write(target, f"H.pack2({', '.join(halves)})", "b32")

    return handle


MMA_HANDLERS: dict[str, Handler] = {
    "ldmatrix": _ldmatrix,
    "mma": _mma,
    **{f"cvt.{r}.{kind}.f32": _to_half(kind, r) for kind in ("f16", "bf16") for r in ("rn", "rz")},
    **{f"cvt.{r}.{kind}x2.f32": _to_pair(kind, r) for kind in ("f16", "bf16") for r in ("rn", "rz")},
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
"""Keys are whole names where a type decides, so that ``add.f16`` and ``add.f32`` find different handlers."""
