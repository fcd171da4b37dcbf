"""The opcode table: one PTX instruction -> lines of Python over numpy arrays.

Each handler takes the emitter and the instruction. An opcode without a handler, or a modifier that its handler does not
know, is refused by name: nothing is ever skipped.
"""

from __future__ import annotations

from collections.abc import Callable

from ladder.ptx.emit import Emitter
from ladder.ptx.fuse import Fusion
from ladder.ptx.site import DTYPE
from ladder.ptx.syntax import Address, Immediate, Instruction, Operand, Register, Symbol, Vector

__all__ = ["HANDLERS", "emit"]

CACHE_HINTS = frozenset(
    ["ca", "cg", "cs", "cv", "lu", "wb", "wt", "nc", "volatile", "relaxed", "weak", "gpu", "cta", "sys"]
)
ATOMIC_OPERATIONS = frozenset(["add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"])
SPACES = frozenset(["global", "shared", "local"])

Handler = Callable[[Emitter, Instruction], None]


def emit(emitter: Emitter, instruction: Instruction, index: int, fusion: Fusion | None) -> None:
    """Add the lines of one instruction.

    Raises:
        UnsupportedPtxError: no handler, or one that does not know a modifier or operand.
    """
    handler = HANDLERS.get(instruction.parts[0])
    if handler is None:
        raise emitter.unsupported(instruction, "unknown opcode")
    emitter.at(instruction, index, fusion)
    handler(emitter, instruction)


def _only(e: Emitter, i: Instruction, allowed: frozenset[str] | set[str]) -> None:
    """Refuse a modifier that the handler does not honour."""
    for part in i.parts[1:]:
        if part not in allowed and part not in DTYPE and not part.startswith("L1::") and not part.startswith("L2::"):
            raise e.unsupported(i, f"modifier .{part}")


def _type(e: Emitter, i: Instruction) -> str:
    kind = i.parts[-1]
    if kind not in DTYPE:
        raise e.unsupported(i, f"type .{kind}")
    return kind


def _simple(template: str, *, floats: str | None = None, wraps: bool = False) -> Handler:
    """A handler whose result and operands have one type.

    ``floats`` is the template for .f32 and .f64 operands. ``wraps`` says that signs do not matter, so that the operands
    can stay the unsigned arrays they are stored as.
    """

    def handle(e: Emitter, i: Instruction) -> None:
        kind = _type(e, i)
        _only(e, i, {"rn"} if floats else set())
        if wraps and kind[0] == "s":
            kind = "u" + kind[1:]
        chosen = floats if kind in {"f32", "f64"} else template
        if not chosen:
            raise e.unsupported(i, f"type .{kind}")
        values = [e.read(o, kind) for o in i.operands[1:]]
        e.write(i.operands[0], chosen.format(*values), kind)

    return handle


def _mul(e: Emitter, i: Instruction) -> None:
    kind = _type(e, i)
    if kind in {"f32", "f64"}:
        _only(e, i, {"rn"})
        a, b = (e.read(o, kind) for o in i.operands[1:3])
        e.write(i.operands[0], f"A.mul32({a}, {b})" if kind == "f32" else f"A.canonical({a} * {b})", kind)
        return
    e.write(i.operands[0], *_product(e, i, kind))


def _product(e: Emitter, i: Instruction, kind: str) -> tuple[str, str]:
    """The integer product of operands 1 and 2 by .lo, .hi or .wide, and its type."""
    _only(e, i, {"lo", "hi", "wide"})
    a, b = (e.read(o, kind) for o in i.operands[1:3])
    if "wide" in i.parts:
        wide = kind[0] + str(2 * int(kind[1:]))
        return f"({a}.astype({DTYPE[wide]}) * {b}.astype({DTYPE[wide]}))", wide
    if "hi" in i.parts:
        return f"A.mul_high({a}, {b})", kind
    unsigned = "u" + kind[1:]
    a, b = (e.read(o, unsigned) for o in i.operands[1:3])
    return f"({a} * {b})", unsigned


def _mad(e: Emitter, i: Instruction) -> None:
    kind = _type(e, i)
    if kind in {"f32", "f64"}:
        _fma(e, i)
        return
    product, result = _product(e, i, kind)
    e.write(i.operands[0], f"({product} + {e.read(i.operands[3], result)})", result)


def _fma(e: Emitter, i: Instruction) -> None:
    kind = _type(e, i)
    _only(e, i, {"rn"})
    if kind != "f32":
        raise e.unsupported(i, "only .f32 has a single-rounding fma here")
    a, b, c = (e.read(o, kind) for o in i.operands[1:4])
    e.write(i.operands[0], f"A.fma32({a}, {b}, {c})", kind)


def _mov(e: Emitter, i: Instruction) -> None:
    kind = _type(e, i)
    target, source = i.operands
    if isinstance(source, Vector):
        half = f"b{int(kind[1:]) // len(source.items)}"
        items = ", ".join(e.read(o, half) for o in source.items)
        e.write(target, f"A.pack([{items}], {DTYPE[kind]})", kind)
    elif isinstance(target, Vector):
        half = f"b{int(kind[1:]) // len(target.items)}"
        value = e.read(source, kind)
        for position, item in enumerate(target.items):
            e.write(item, f"A.unpack({value}, {position}, {DTYPE[half]})", half)
    else:
        e.write(target, e.read(source, kind), kind)


def _shift(name: str) -> Handler:
    def handle(e: Emitter, i: Instruction) -> None:
        kind = _type(e, i)
        _only(e, i, set())
        a, amount = e.read(i.operands[1], kind), i.operands[2]
        operator = "<<" if name == "shl" else ">>"
        if isinstance(amount, Immediate) and 0 <= amount.value < int(kind[1:]):
            e.write(i.operands[0], f"({a} {operator} {e.constant(amount.value, DTYPE[kind])})", kind)
        else:
            e.write(i.operands[0], f"A.{name}({a}, {e.read(amount, 'u32')})", kind)

    return handle


_COMPARE = {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "lo": "<",
    "ls": "<=",
    "hi": ">",
    "hs": ">=",
}
_UNORDERED = {"equ": "==", "neu": "!=", "ltu": "<", "leu": "<=", "gtu": ">", "geu": ">="}
_COMBINE = {"and": "&", "or": "|", "xor": "^"}


def _compare(e: Emitter, i: Instruction) -> str:
    kind, how = _type(e, i), i.parts[1]
    a, b = e.read(i.operands[1], kind), e.read(i.operands[2], kind)
    if how in _COMPARE:
        text = f"({a} {_COMPARE[how]} {b})"
        # PTX `ne` is an ordered comparison: false when either side is NaN.
        return f"({text} & ~A.unordered({a}, {b}))" if how == "ne" and kind[0] == "f" else text
    if kind[0] == "f" and how in _UNORDERED:
        return f"(({a} {_UNORDERED[how]} {b}) | A.unordered({a}, {b}))"
    if kind[0] == "f" and how in {"num", "nan"}:
        return f"({'~' if how == 'num' else ''}A.unordered({a}, {b}))"
    raise e.unsupported(i, f"comparison .{how}")


def _setp(e: Emitter, i: Instruction) -> None:
    text = _compare(e, i)
    combine = [p for p in i.parts[2:-1] if p in _COMBINE]
    _only(e, i, {i.parts[1], *combine})
    targets = i.operands[0].items if isinstance(i.operands[0], Vector) else (i.operands[0],)
    for position, target in enumerate(targets):
        value = text if position == 0 else f"~{text}"
        if combine:
            value = f"({value} {_COMBINE[combine[0]]} {_predicate(e, i.operands[3])})"
        e.write(target, value, "pred")


def _predicate(e: Emitter, operand: Operand) -> str:
    if isinstance(operand, Symbol) and operand.name.startswith("!"):
        return f"~{e.read(Register(operand.name[1:]), 'pred')}"
    return e.read(operand, "pred")


def _selp(e: Emitter, i: Instruction) -> None:
    kind = _type(e, i)
    a, b = e.read(i.operands[1], kind), e.read(i.operands[2], kind)
    e.write(i.operands[0], f"np.where({_predicate(e, i.operands[3])}, {a}, {b})", kind)


def _cvt(e: Emitter, i: Instruction) -> None:
    to, source = i.parts[-2], i.parts[-1]
    rounding = [p for p in i.parts[1:-2] if p != "sat"]
    if to not in DTYPE or source not in DTYPE or "pred" in (to, source):
        raise e.unsupported(i, "conversion")
    value = e.read(i.operands[1], source)
    integers = to[0] in "us" and source[0] in "us"
    if (integers and not i.parts[1:-2]) or (to[0] == "f" and source[0] in "us" and rounding == ["rn"]):
        text = f"{value}.astype({DTYPE[to]})"
    elif to[0] in "us" and source[0] == "f" and len(rounding) == 1 and rounding[0] in {"rni", "rzi", "rmi", "rpi"}:
        text = f"A.float_to_int({value}, {DTYPE[to]!r}, rounding={rounding[0]!r})"
    elif (to, source) in {("f64", "f32"), ("f32", "f64")} and rounding in ([], ["rn"]):
        text = f"A.canonical({value}.astype({DTYPE[to]}))"
    else:
        raise e.unsupported(i, "conversion")
    e.write(i.operands[0], text, to)


def _cvta(e: Emitter, i: Instruction) -> None:
    # One flat address space serves all: the windows do not overlap, so a conversion changes nothing.
    kind = _type(e, i)
    e.write(i.operands[0], e.read(i.operands[1], kind), kind)


def _slice(e: Emitter, i: Instruction) -> None:
    kind = _type(e, i)
    _only(e, i, set())
    source, rest = i.operands[1], i.operands[2:]
    if i.parts[0] == "bfe":
        e.write(
            i.operands[0], f"A.bfe({e.read(source, kind)}, {e.read(rest[0], 'u32')}, {e.read(rest[1], 'u32')})", kind
        )
    else:
        values = [e.read(source, kind), e.read(rest[0], kind), e.read(rest[1], "u32"), e.read(rest[2], "u32")]
        e.write(i.operands[0], f"A.bfi({', '.join(values)})", kind)


def _shf(e: Emitter, i: Instruction) -> None:
    low, high, amount = (e.read(o, "u32") for o in i.operands[1:4])
    e.write(
        i.operands[0], f"A.shf({low}, {high}, {amount}, left={i.parts[1] == 'l'}, wrap={i.parts[2] == 'wrap'})", "b32"
    )


def _prmt(e: Emitter, i: Instruction) -> None:
    _only(e, i, set())
    e.write(i.operands[0], f"A.prmt({', '.join(e.read(o, 'u32') for o in i.operands[1:4])})", "b32")


def _lop3(e: Emitter, i: Instruction) -> None:
    table = i.operands[4]
    if not isinstance(table, Immediate):
        raise e.unsupported(i, "needs a constant table")
    e.write(i.operands[0], f"A.lop3({', '.join(e.read(o, 'b32') for o in i.operands[1:4])}, {table.value})", "b32")


def _count_bits(function: str) -> Handler:
    def handle(e: Emitter, i: Instruction) -> None:
        _only(e, i, set())
        e.write(i.operands[0], f"A.{function}({e.read(i.operands[1], _type(e, i))})", "u32")

    return handle


def _nothing(e: Emitter, i: Instruction) -> None:
    """Fences and hints: lanes already see each other's accesses in program order."""


def _warp_barrier(e: Emitter, i: Instruction) -> None:
    if i.parts[:3] != ("bar", "warp", "sync"):
        raise e.unsupported(i, "unknown opcode")
    e.lines.append(f"m.sync_warps({e.mask})")


def _trap(e: Emitter, i: Instruction) -> None:
    e.lines.append(f"m.trap({e.function.where(i)!r}, {e.mask})")


def _space(e: Emitter, i: Instruction) -> tuple[str, int]:
    """The state space and vector length of a memory instruction; refuses other modifiers."""
    spaces = [p.split("::")[0] for p in i.parts if p.split("::")[0] in SPACES]
    vectors = [int(p[1:]) for p in i.parts if p in {"v2", "v4"}]
    operations = ATOMIC_OPERATIONS if i.parts[0] in {"red", "atom"} else frozenset()
    _only(e, i, CACHE_HINTS | operations | SPACES | {"v2", "v4", "shared::cta", "acquire", "release", "acq_rel"})
    return (spaces[0] if spaces else "generic"), (vectors[0] if vectors else 1)


def _ld(e: Emitter, i: Instruction) -> None:
    kind = _type(e, i)
    target, source = i.operands[:2]
    if "param" in i.parts:
        if not isinstance(source, Address) or not isinstance(source.base, Symbol) or len(i.parts) != 3:
            raise e.unsupported(i, "parameter access")
        offset = {p.name: p.offset for p in e.function.params}.get(source.base.name)
        if offset is None:
            raise e.unsupported(i, f"parameter {source.base.name}")
        e.write(target, f"m.param({offset + source.offset}, {DTYPE[kind]})", kind)
        return
    space, elements = _space(e, i)
    base, offset = e.address(source)
    site = e.site(i, "ld", space, kind, elements, offset)
    if elements == 1:
        e.write(target, f"m.load({site}, {base}, {e.mask})[0]", kind)
        return
    assert isinstance(target, Vector)
    e.lines.append(f"_v = m.load({site}, {base}, {e.mask})")
    for position, item in enumerate(target.items):
        e.write(item, f"_v[{position}]", kind)


def _st(e: Emitter, i: Instruction) -> None:
    kind = _type(e, i)
    space, elements = _space(e, i)
    target, source = i.operands
    base, offset = e.address(target)
    site = e.site(i, "st", space, kind, elements, offset)
    items = source.items if isinstance(source, Vector) else (source,)
    e.lines.append(f"m.store({site}, {base}, ({''.join(e.read(o, kind) + ', ' for o in items)}), {e.mask})")


def _atomic(e: Emitter, i: Instruction) -> None:
    kind = _type(e, i)
    space, elements = _space(e, i)
    operation = next(p for p in i.parts[1:] if p in ATOMIC_OPERATIONS)
    is_red = i.parts[0] == "red"
    operands = i.operands if is_red else i.operands[1:]
    base, offset = e.address(operands[0])
    kept = "red" if is_red or not e.is_used(i.operands[0]) else "atom"
    site = e.site(i, kept, space, kind, elements, offset, operation=operation)
    values = "".join(e.read(o, kind) + ", " for o in operands[1:])
    call = f"m.atomic({site}, {base}, ({values}), {e.mask})"
    if is_red:
        e.lines.append(call)
    else:
        e.write(i.operands[0], call, kind)


HANDLERS: dict[str, Handler] = {
    "abs": _simple("np.abs({0})", floats="np.abs({0})"),
    "add": _simple("({0} + {1})", floats="A.add32({0}, {1})", wraps=True),
    "and": _simple("({0} & {1})", wraps=True),
    "atom": _atomic,
    "bar": _warp_barrier,
    "bfe": _slice,
    "bfi": _slice,
    "brev": _count_bits("brev"),
    "clz": _count_bits("clz"),
    "cvt": _cvt,
    "cvta": _cvta,
    "discard": _nothing,
    "div": _simple("A.divide({0}, {1})", floats="A.canonical({0} / {1})"),
    "fence": _nothing,
    "fma": _fma,
    "ld": _ld,
    "lop3": _lop3,
    "mad": _mad,
    "max": _simple("np.maximum({0}, {1})", floats="np.fmax({0}, {1})"),
    "membar": _nothing,
    "min": _simple("np.minimum({0}, {1})", floats="np.fmin({0}, {1})"),
    "mov": _mov,
    "mul": _mul,
    "nanosleep": _nothing,
    "neg": _simple("(-{0})", floats="(-{0})"),
    "not": _simple("(~{0})", wraps=True),
    "or": _simple("({0} | {1})", wraps=True),
    "popc": _count_bits("popc"),
    "prefetch": _nothing,
    "prmt": _prmt,
    "red": _atomic,
    "rem": _simple("A.remainder({0}, {1})"),
    "selp": _selp,
    "setp": _setp,
    "shf": _shf,
    "shl": _shift("shl"),
    "shr": _shift("shr"),
    "sqrt": _simple("", floats="A.canonical(np.sqrt({0}))"),
    "st": _st,
    "sub": _simple("({0} - {1})", floats="A.sub32({0}, {1})", wraps=True),
    "trap": _trap,
    "xor": _simple("({0} ^ {1})", wraps=True),
}
