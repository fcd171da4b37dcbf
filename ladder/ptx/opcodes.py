"""The opcode table: one PTX instruction -> lines of Python over numpy arrays.

Each handler takes the emitter and the instruction. An opcode without a handler, or a modifier that its handler does not
know, is refused by name: nothing is ever skipped.
"""

from __future__ import annotations

from collections.abc import Callable

from ladder.ptx.accesses import ATOMIC_OPERATIONS, atomic, load, store
from ladder.ptx.checks import BITS, FLOATS, NONE, NUMBERS, SIGNED, SPACES, WORDS, only, operands_of, predicate, type_of
from ladder.ptx.emit import Emitter
from ladder.ptx.fuse import Fusion
from ladder.ptx.opcodes_async import ASYNC_HANDLERS
from ladder.ptx.opcodes_mma import MMA_HANDLERS
from ladder.ptx.opcodes_warp import WARP_HANDLERS
from ladder.ptx.site import DTYPE
from ladder.ptx.syntax import Immediate, Instruction, Vector

__all__ = ["ATOMIC_OPERATIONS", "HANDLERS", "emit"]

Handler = Callable[[Emitter, Instruction], None]


def emit(emitter: Emitter, instruction: Instruction, index: int, fusion: Fusion | None) -> None:
    """Add the lines of one instruction.

    Raises:
        UnsupportedPtxError: no handler, or one that does not know a modifier or operand.
    """
    emitter.at(instruction, index, fusion)
    parts = instruction.parts
    # The longest name wins: `cp.async.wait_all` before `cp.async`.
    for length in range(len(parts), 0, -1):
        handler = HANDLERS.get(".".join(parts[:length]))
        if handler is not None:
            handler(emitter, instruction)
            return
    raise emitter.unsupported(instruction, "unknown opcode")


def _rounding(e: Emitter, i: Instruction, *, optional: bool) -> None:
    """Only ``.rn``, the one rounding that numpy has; where PTX lets it be left out, it is the default."""
    only(e, i, frozenset(["rn"]))
    if not optional and "rn" not in i.parts:
        raise e.unsupported(i, "has no rounding modifier")


def _simple(
    template: str,
    types: frozenset[str],
    *,
    floats: str | None = None,
    rounds: bool = False,
    must_round: bool = False,
    wraps: bool = False,
) -> Handler:
    """A handler whose result and operands have one type.

    ``floats`` is the template for .f32 and .f64 operands. ``rounds`` says that a float result may name a rounding, and
    ``must_round`` that it has to. ``wraps`` says that signs do not matter, so that the operands can stay the unsigned
    arrays they are stored as.
    """
    arity = max(template.count("{"), (floats or "").count("{")) + 1

    def handle(e: Emitter, i: Instruction) -> None:
        kind = type_of(e, i, types | FLOATS if floats else types)
        if rounds and kind in FLOATS:
            _rounding(e, i, optional=not must_round)
        else:
            only(e, i, NONE)
        if wraps and kind[0] == "s":
            kind = "u" + kind[1:]
        target, *others = operands_of(e, i, arity)
        chosen = floats if floats and kind in FLOATS else template
        e.write(target, chosen.format(*(e.read(o, kind) for o in others)), kind)

    return handle


def _mul(e: Emitter, i: Instruction) -> None:
    kind = type_of(e, i, NUMBERS | FLOATS)
    target, *_ = operands_of(e, i, 3)
    if kind in FLOATS:
        _rounding(e, i, optional=True)
        a, b = (e.read(o, kind) for o in i.operands[1:3])
        e.write(target, f"A.mul32({a}, {b})", kind)
        return
    e.write(target, *_product(e, i, kind))


def _product(e: Emitter, i: Instruction, kind: str) -> tuple[str, str]:
    """The integer product of operands 1 and 2 by .lo, .hi or .wide, and its type."""
    if i.parts[1:-1] not in {("lo",), ("hi",), ("wide",)}:
        raise e.unsupported(i, "modifiers other than one of .lo, .hi and .wide")
    part = i.parts[1]
    a, b = (e.read(o, kind) for o in i.operands[1:3])
    if part == "wide":
        wide = kind[0] + str(2 * int(kind[1:]))
        if wide not in DTYPE:
            raise e.unsupported(i, f"type .{kind}")
        return f"({a}.astype({DTYPE[wide]}) * {b}.astype({DTYPE[wide]}))", wide
    if part == "hi":
        return f"A.mul_high({a}, {b})", kind
    unsigned = "u" + kind[1:]
    a, b = (e.read(o, unsigned) for o in i.operands[1:3])
    return f"({a} * {b})", unsigned


def _mad(e: Emitter, i: Instruction) -> None:
    kind = type_of(e, i, NUMBERS | FLOATS)
    if kind in FLOATS:
        _fma(e, i)
        return
    target, _, _, addend = operands_of(e, i, 4)
    product, result = _product(e, i, kind)
    e.write(target, f"({product} + {e.read(addend, result)})", result)


def _fma(e: Emitter, i: Instruction) -> None:
    kind = type_of(e, i, FLOATS)
    _rounding(e, i, optional=False)
    if kind != "f32":
        raise e.unsupported(i, "only .f32 has a single-rounding fma here")
    target, *factors = operands_of(e, i, 4)
    a, b, c = (e.read(o, kind) for o in factors)
    e.write(target, f"A.fma32({a}, {b}, {c})", kind)


def _mov(e: Emitter, i: Instruction) -> None:
    kind = type_of(e, i, NUMBERS | BITS | FLOATS | {"pred"})
    only(e, i, NONE)
    target, source = operands_of(e, i, 2)
    if isinstance(source, Vector):
        half = _part(e, i, kind, len(source.items))
        items = ", ".join(e.read(o, half) for o in source.items)
        e.write(target, f"A.pack([{items}], {DTYPE[kind]})", kind)
    elif isinstance(target, Vector):
        half = _part(e, i, kind, len(target.items))
        e.lines.append(f"_v = {e.read(source, kind)}")
        for position, item in enumerate(target.items):
            e.write(item, f"A.unpack(_v, {position}, {DTYPE[half]})", half)
    else:
        e.write(target, e.read(source, kind), kind)


def _part(e: Emitter, i: Instruction, kind: str, count: int) -> str:
    """The type of one of ``count`` equal parts of a word."""
    half = f"b{int(kind[1:]) // count}" if kind in BITS and count in {2, 4} else ""
    if half not in DTYPE:
        raise e.unsupported(i, f"{count} parts")
    return half


def _shift(name: str) -> Handler:
    def handle(e: Emitter, i: Instruction) -> None:
        kind = type_of(e, i, BITS if name == "shl" else BITS | NUMBERS)
        only(e, i, NONE)
        target, source, amount = operands_of(e, i, 3)
        a = e.read(source, kind)
        operator = "<<" if name == "shl" else ">>"
        if isinstance(amount, Immediate) and 0 <= amount.value < int(kind[1:]):
            e.write(target, f"({a} {operator} {e.constant(amount.value, DTYPE[kind])})", kind)
        else:
            e.write(target, f"A.{name}({a}, {e.read(amount, 'u32')})", kind)

    return handle


_EQUAL = {"eq": "==", "ne": "!="}
_ORDERED = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_UNSIGNED = {"lo": "<", "ls": "<=", "hi": ">", "hs": ">="}
_UNORDERED = {"equ": "==", "neu": "!=", "ltu": "<", "leu": "<=", "gtu": ">", "geu": ">="}
_COMBINE = {"and": "&", "or": "|", "xor": "^"}


def _compare(e: Emitter, i: Instruction, a: str, b: str) -> str:
    """The expression of a comparison by the instruction's first modifier and its type."""
    kind, how = i.parts[-1], i.parts[1]
    if kind in FLOATS:
        if how in _UNORDERED:
            return f"(({a} {_UNORDERED[how]} {b}) | A.unordered({a}, {b}))"
        if how in {"num", "nan"}:
            return f"({'~' if how == 'num' else ''}A.unordered({a}, {b}))"
        if how == "ne":
            # An ordered comparison, unlike numpy's: false when either side is NaN.
            return f"(({a} != {b}) & ~A.unordered({a}, {b}))"
    known = _EQUAL | ({} if kind in BITS else _ORDERED) | (_UNSIGNED if kind[0] == "u" else {})
    if how not in known:
        raise e.unsupported(i, f"comparison .{how}")
    return f"({a} {known[how]} {b})"


def _setp(e: Emitter, i: Instruction) -> None:
    kind = type_of(e, i, NUMBERS | BITS | FLOATS)
    combine = i.parts[2] if i.parts[2] in _COMBINE else ""
    if len(i.parts) != (4 if combine else 3):
        raise e.unsupported(i, f"modifier .{i.parts[3 if combine else 2]}")
    target, left, right, *third = operands_of(e, i, 4 if combine else 3)
    text = _compare(e, i, e.read(left, kind), e.read(right, kind))
    # The third operand may be one of the targets: read it before either is written.
    if combine:
        e.lines.append(f"_c = {predicate(e, third[0])}")
    e.lines.append(f"_v = {text}")
    for value, item in zip(("_v", "~_v"), target.items if isinstance(target, Vector) else (target,), strict=False):
        e.write(item, f"({value} {_COMBINE[combine]} _c)" if combine else value, "pred")


def _selp(e: Emitter, i: Instruction) -> None:
    kind = type_of(e, i, NUMBERS | BITS | FLOATS)
    only(e, i, NONE)
    target, left, right, chooser = operands_of(e, i, 4)
    e.write(target, f"np.where({predicate(e, chooser)}, {e.read(left, kind)}, {e.read(right, kind)})", kind)


_TO_INTEGER = frozenset(["rni", "rzi", "rmi", "rpi"])


def _cvt(e: Emitter, i: Instruction) -> None:
    known = NUMBERS | FLOATS | {"u8", "s8"}
    if len(i.parts) < 3 or not {*i.parts[-2:]} <= known:
        raise e.unsupported(i, "conversion")
    to, source = i.parts[-2], i.parts[-1]
    modifiers = i.parts[1:-2]
    target, operand = operands_of(e, i, 2)
    value = e.read(operand, source)
    if (to[0] in "us" and source[0] in "us" and not modifiers) or (
        to[0] == "f" and source[0] in "us" and modifiers == ("rn",)
    ):
        text = f"{value}.astype({DTYPE[to]})"
    elif to[0] in "us" and source[0] == "f" and modifiers and modifiers[0] in _TO_INTEGER:
        # `.sat` changes nothing: the conversion saturates anyway.
        if modifiers[1:] not in {(), ("sat",)}:
            raise e.unsupported(i, f"modifier .{modifiers[1]}")
        text = f"A.float_to_int({value}, {DTYPE[to]!r}, rounding={modifiers[0]!r})"
    elif (to, source, modifiers) in {("f64", "f32", ()), ("f32", "f64", ("rn",))}:
        text = f"A.canonical({value}.astype({DTYPE[to]}))"
    else:
        raise e.unsupported(i, "conversion")
    e.write(target, text, to)


def _cvta(e: Emitter, i: Instruction) -> None:
    # One flat address space serves all: the windows do not overlap, so a conversion changes nothing.
    kind = type_of(e, i, frozenset(["u32", "u64"]))
    only(e, i, SPACES | {"to", "shared::cta"})
    target, source = operands_of(e, i, 2)
    e.write(target, e.read(source, kind), kind)


def _bfe(e: Emitter, i: Instruction) -> None:
    kind = type_of(e, i, frozenset(["u32", "u64", "s32", "s64"]))
    only(e, i, NONE)
    target, source, position, length = operands_of(e, i, 4)
    e.write(target, f"A.bfe({e.read(source, kind)}, {e.read(position, 'u32')}, {e.read(length, 'u32')})", kind)


def _bfi(e: Emitter, i: Instruction) -> None:
    kind = type_of(e, i, WORDS)
    only(e, i, NONE)
    target, field, into, *rest = operands_of(e, i, 5)
    values = [e.read(field, kind), e.read(into, kind), *(e.read(o, "u32") for o in rest)]
    e.write(target, f"A.bfi({', '.join(values)})", kind)


def _shf(e: Emitter, i: Instruction) -> None:
    if i.parts[1:] not in {(way, mode, "b32") for way in "lr" for mode in ("wrap", "clamp")}:
        raise e.unsupported(i, "modifiers other than .l or .r and .wrap or .clamp")
    target, *others = operands_of(e, i, 4)
    values = ", ".join(e.read(o, "u32") for o in others)
    e.write(target, f"A.shf({values}, left={i.parts[1] == 'l'}, wrap={i.parts[2] == 'wrap'})", "b32")


def _prmt(e: Emitter, i: Instruction) -> None:
    type_of(e, i, frozenset(["b32"]))
    only(e, i, NONE)
    target, *others = operands_of(e, i, 4)
    e.write(target, f"A.prmt({', '.join(e.read(o, 'u32') for o in others)})", "b32")


def _lop3(e: Emitter, i: Instruction) -> None:
    type_of(e, i, frozenset(["b32"]))
    only(e, i, NONE)
    target, *others, table = operands_of(e, i, 5)
    if not isinstance(table, Immediate):
        raise e.unsupported(i, "needs a constant table")
    e.write(target, f"A.lop3({', '.join(e.read(o, 'b32') for o in others)}, {table.value})", "b32")


def _count_bits(function: str, *, result: str | None = "u32") -> Handler:
    """``result`` is the type of what is written, None for that of the operand."""

    def handle(e: Emitter, i: Instruction) -> None:
        kind = type_of(e, i, WORDS)
        only(e, i, NONE)
        target, source = operands_of(e, i, 2)
        e.write(target, f"A.{function}({e.read(source, kind)})", result or kind)

    return handle


def _bfind(e: Emitter, i: Instruction) -> None:
    kind = type_of(e, i, frozenset(["u32", "s32", "u64", "s64"]))
    only(e, i, frozenset(["shiftamt"]))
    target, source = operands_of(e, i, 2)
    e.write(target, f"A.bfind({e.read(source, kind)}, shift={'shiftamt' in i.parts})", "u32")


def _nothing(*modifiers: str) -> Handler:
    """A fence or hint: lanes already see each other's accesses in program order."""

    def handle(e: Emitter, i: Instruction) -> None:
        for part in i.parts[1:]:
            if part not in modifiers:
                raise e.unsupported(i, f"modifier .{part}")

    return handle


def _trap(e: Emitter, i: Instruction) -> None:
    if i.parts != ("trap",):
        raise e.unsupported(i, "unknown opcode")
    e.lines.append(f"m.trap({e.function.where(i)!r}, {e.mask})")


HANDLERS: dict[str, Handler] = {
    "abs": _simple("np.abs({0})", SIGNED, floats="np.abs({0})"),
    "add": _simple("({0} + {1})", NUMBERS, floats="A.add32({0}, {1})", rounds=True, wraps=True),
    "and": _simple("({0} & {1})", BITS | {"pred"}),
    "atom": atomic,
    "bfe": _bfe,
    "bfi": _bfi,
    "bfind": _bfind,
    "brev": _count_bits("brev", result=None),
    "clz": _count_bits("clz"),
    "cvt": _cvt,
    "cvta": _cvta,
    "div": _simple("A.divide({0}, {1})", NUMBERS, floats="A.canonical({0} / {1})", rounds=True, must_round=True),
    "fence": _nothing("sc", "acq_rel", "acquire", "release", "cta", "gpu", "sys"),
    "fma": _fma,
    "ld": load,
    "lop3": _lop3,
    "mad": _mad,
    "max": _simple("np.maximum({0}, {1})", NUMBERS, floats="A.greater({0}, {1})"),
    "membar": _nothing("cta", "gl", "sys"),
    "min": _simple("np.minimum({0}, {1})", NUMBERS, floats="A.lesser({0}, {1})"),
    "mov": _mov,
    "mul": _mul,
    "nanosleep": _nothing("u32"),
    "neg": _simple("(-{0})", SIGNED, floats="(-{0})"),
    "not": _simple("(~{0})", BITS | {"pred"}),
    "or": _simple("({0} | {1})", BITS | {"pred"}),
    "popc": _count_bits("popc"),
    "prefetch": _nothing("global", "L1", "L2"),
    "prmt": _prmt,
    "red": atomic,
    "rem": _simple("A.remainder({0}, {1})", NUMBERS),
    "selp": _selp,
    "setp": _setp,
    "shf": _shf,
    "shl": _shift("shl"),
    "shr": _shift("shr"),
    "sqrt": _simple("", NONE, floats="A.canonical(np.sqrt({0}))", rounds=True, must_round=True),
    "st": store,
    "sub": _simple("({0} - {1})", NUMBERS, floats="A.sub32({0}, {1})", rounds=True, wraps=True),
    "trap": _trap,
    "xor": _simple("({0} ^ {1})", BITS | {"pred"}),
    **WARP_HANDLERS,
    **ASYNC_HANDLERS,
    **MMA_HANDLERS,
}
