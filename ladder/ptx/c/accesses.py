"""Loads, stores, copies and atomics: one PTX instruction -> lines of C for one lane."""

from __future__ import annotations

from ladder.ptx.c.lane import Lane, kind_of, offset_of
from ladder.ptx.syntax import Address, Immediate, Instruction, Register, Symbol, Vector

__all__ = ["atomic", "copy", "load", "store"]


def load(lane: Lane, i: Instruction) -> None:
    """``ld``, of kernel parameters too."""
    kind = kind_of(i.parts[-1])
    target, source = i.operands[:2]
    if "param" in i.parts:
        assert isinstance(source, Address)
        assert isinstance(source.base, Symbol)
        offset = {p.name: p.offset for p in lane.function.params}[source.base.name] + source.offset
        lane.write(target, f"get_{kind.suffix}(m->params + {offset})", kind)
        return
    items = target.items if isinstance(target, Vector) else (target,)
    place = lane.place(source)
    if len(items) == 1:
        lane.write(items[0], f"get_{kind.suffix}({place})", kind)
        return
    # The address register may be among the targets.
    lane.lines.append(f"{{ const uint8_t *const from = {place};")
    for n, item in enumerate(items):
        lane.write(item, f"get_{kind.suffix}(from + {n * kind.bits // 8})", kind)
    lane.lines.append("}")


def store(lane: Lane, i: Instruction) -> None:
    """``st``."""
    kind = kind_of(i.parts[-1])
    target, source = i.operands
    place = lane.place(target)
    for n, item in enumerate(source.items if isinstance(source, Vector) else (source,)):
        lane.lines.append(f"put_{kind.suffix}({place} + {n * kind.bits // 8}, {lane.read(item, kind)});")


def copy(lane: Lane, i: Instruction) -> None:
    """``cp.async``: the words arrive at once, since whoever looks at them before they are waited for is suspect."""
    target, source, size, *partial = i.operands
    assert isinstance(source, Address)
    assert isinstance(size, Immediate)
    width, group = size.value, lane.source()
    to = lane.place(target)
    if not partial:
        lane.lines.append(f"memcpy({to}, {lane.place(source, group)}, {width});")
        return
    if isinstance(partial[0], Register) and lane.kind(partial[0].name) == kind_of("pred"):
        # ignore-src: read nothing, write zeros.
        wanted = f"{lane.predicate(partial[0].name)} ? 0 : {width}"
    else:
        wanted = lane.read(partial[0], kind_of("u32"))
    lane.lines += [
        f"{{ const uint32_t wanted = {wanted};",
        f"if (wanted > {width}) return SUSPECT;",
        f"if (wanted < {width}) memset({to}, 0, {width});",
        "if (wanted) {",
        *lane.note(group, source),
        f"const uint64_t at = b{group} + {lane.read(Immediate(offset_of(source)), kind_of('u64'))};",
        f"const uint8_t *const from = find_source(m, {group}, at, wanted);",
        f"if (!from || at % {width}) return SUSPECT;",
        f"memcpy({to}, from, wanted);",
        f"m->short_bytes += {width} - wanted;",
        "} }",
    ]


_UPDATE = {
    "and": "was & {0}",
    "or": "was | {0}",
    "xor": "was ^ {0}",
    "min": "was < {0} ? was : {0}",
    "max": "was > {0} ? was : {0}",
    "exch": "{0}",
    "cas": "was == {0} ? {1} : was",
    "inc": "was >= {0} ? 0 : was + 1",
    "dec": "was == 0 || was > {0} ? {0} : was - 1",
}


def atomic(lane: Lane, i: Instruction) -> None:
    """``atom`` and ``red``; the lanes of a segment come one after the other, as they do in numpy."""
    kind, site = kind_of(i.parts[-1]), lane.site()
    operation = next(p for p in i.parts[1:] if p == "add" or p in _UPDATE)
    is_red = i.parts[0] == "red"
    operands = i.operands if is_red else i.operands[1:]
    if site.elements > 1 or (site.space != "global" and kind.bits != 32) or (kind.is_float and operation != "add"):
        raise lane.unsupported(i, "this form of an atomic")
    if site.space == "local":
        raise lane.unsupported(i, "an atomic on local memory")
    values = [lane.read(o, kind) for o in operands[1:]]
    wrapped = kind.unsigned.name
    update = (
        f"({wrapped})was + ({wrapped}){values[0]}"
        if not kind.is_float
        else f"pass_{kind.suffix}(was, {values[0]}, was + {values[0]})"
    )
    if operation != "add":
        update = _UPDATE[operation].format(*values)
    lane.lines.append(f"{{ uint8_t *const at = {lane.place(operands[0])};")
    if site.space == "generic":
        lane.lines.append(f"if ({lane.space()} == LOCAL) return SUSPECT;")
    lane.lines.append(f"const {kind.name} was = get_{kind.suffix}(at);")
    lane.lines.append(f"put_{kind.suffix}(at, ({kind.name})({update}));")
    if site.kind == "atom":
        lane.write(i.operands[0], "was", kind)
    lane.lines.append("}")
