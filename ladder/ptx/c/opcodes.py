"""The opcode table: one PTX instruction -> lines of C for one lane. The numpy engine's table is ``ladder.ptx.opcodes``.

A handler takes the lane and the instruction. Its key is that of the numpy engine's table, which has already refused
every modifier that nobody knows. An opcode without a handler here is refused by name, and numpy runs the kernel. What
lanes do together is in :mod:`ladder.ptx.c.collectives`, and what ends a segment is done by the runtime.
"""

from __future__ import annotations

from collections.abc import Callable

from ladder.ptx.c.accesses import atomic, copy, load, store
from ladder.ptx.c.lane import Kind, Lane, kind_of
from ladder.ptx.c.opcodes_halves import HALF_HANDLERS
from ladder.ptx.opcodes import HANDLERS as NUMPY_HANDLERS
from ladder.ptx.syntax import Immediate, Instruction, Vector

__all__ = ["HANDLERS", "emit"]

Handler = Callable[[Lane, Instruction], None]


def emit(lane: Lane, instruction: Instruction, number: int) -> None:
    """Add the lines of one instruction, the ``number``-th of its function.

    Raises:
        UnsupportedPtxError: no handler, or an operand that it cannot take.
    """
    parts = instruction.parts
    # The entry of the numpy engine's table that it has chosen: some opcodes have one for each type.
    name = next(n for n in (".".join(parts[:k]) for k in range(len(parts), 0, -1)) if n in NUMPY_HANDLERS)
    handler = HANDLERS.get(name)
    if handler is None:
        raise lane.unsupported(instruction, f"opcode {name}")
    lane.at(instruction, number)
    handler(lane, instruction)
    lane.done()


def _type(instruction: Instruction) -> Kind:
    return kind_of(instruction.parts[-1])


def _simple(integers: str, *, floats: str | None = None, wraps: bool = False, exact: bool = False) -> Handler:
    """A handler whose operands and result have one type.

    In the templates ``{0}``, ``{1}`` are operands, ``{n}`` the type's suffix, ``{w}`` its width and ``{s}`` is ``s`` or
    ``u``. ``wraps`` says that signs do not matter: C's signed arithmetic must not overflow. ``exact`` operations move
    the bits of floats, so that they need their operands' real NaN.
    """

    def handle(lane: Lane, i: Instruction) -> None:
        kind = _type(i)
        if wraps and kind.is_signed:
            kind = kind.unsigned
        template = integers if not kind.is_float else floats
        if not template:
            raise lane.unsupported(i, f"type .{i.parts[-1]}")
        arithmetic = kind.has_one_nan and not exact
        values = [lane.read(o, kind, arithmetic=arithmetic) for o in i.operands[1:]]
        names = {"n": kind.suffix, "w": str(kind.bits), "s": "s" if kind.is_signed else "u"}
        text = template.format(*values, **names)
        if kind.suffix == "f64" and not exact:
            text = f"pass_f64({values[0]}, {values[-1]}, {text})"
        lane.write(i.operands[0], text, kind, any_nan=arithmetic)

    return handle


def _not(lane: Lane, i: Instruction) -> None:
    kind = _type(i)
    value = lane.read(i.operands[1], kind)
    lane.write(i.operands[0], f"!{value}" if kind.suffix == "pred" else f"~{value}", kind)


def _abs(lane: Lane, i: Instruction) -> None:
    kind = _type(i)
    value = lane.read(i.operands[1], kind)
    if kind.is_float:
        text = f"__builtin_fabs{'f' if kind.bits == 32 else ''}({value})"
    else:
        text = (
            f"{value} < 0 ? 0u - ({kind.unsigned.name}){value} : ({kind.unsigned.name}){value}"
            if kind.is_signed
            else value
        )
    lane.write(i.operands[0], text, kind)


def _mul(lane: Lane, i: Instruction) -> None:
    kind = _type(i)
    if kind.is_float:
        _multiply(lane, i)
        return
    text, result = _product(lane, i, kind)
    lane.write(i.operands[0], text, result)


def _select(operator: str, name: str) -> Handler:
    """The smaller or the larger operand, and for floats whichever is a number."""

    def handle(lane: Lane, i: Instruction) -> None:
        kind = _type(i)
        a, b = (lane.read(o, kind, arithmetic=kind.has_one_nan) for o in i.operands[1:3])
        text = f"{name}_{kind.suffix}({a}, {b})" if kind.is_float else f"{a} {operator} {b} ? {a} : {b}"
        lane.write(i.operands[0], text, kind, any_nan=kind.has_one_nan)

    return handle


_multiply = _simple("", floats="{0} * {1}")


def _product(lane: Lane, i: Instruction, kind: Kind) -> tuple[str, Kind]:
    """The integer product of operands 1 and 2 by .lo, .hi or .wide, and its type."""
    if "wide" in i.parts:
        wide = kind_of(f"{kind.suffix[0]}{2 * kind.bits}")
        a, b = (f"({wide.name}){lane.read(o, kind)}" for o in i.operands[1:3])
        return f"{a} * {b}", wide
    if "hi" in i.parts:
        a, b = (lane.read(o, kind) for o in i.operands[1:3])
        return f"mul_high_{kind.suffix[0]}({a}, {b}, {kind.bits})", kind
    # Narrow factors would become signed ints, whose product may overflow.
    factor = kind_of("u64" if kind.bits == 64 else "u32").name
    a, b = (f"({factor}){lane.read(o, kind.unsigned)}" for o in i.operands[1:3])
    return f"{a} * {b}", kind.unsigned


def _mad(lane: Lane, i: Instruction) -> None:
    kind = _type(i)
    if kind.is_float:
        _fma(lane, i)
        return
    product, result = _product(lane, i, kind)
    total = result.unsigned
    lane.write(i.operands[0], f"({total.name})({product}) + {lane.read(i.operands[3], total)}", total)


def _fma(lane: Lane, i: Instruction) -> None:
    kind = _type(i)
    if kind.suffix != "f32":
        raise lane.unsupported(i, f"type .{i.parts[-1]}")
    a, b, c = (lane.read(o, kind, arithmetic=True) for o in i.operands[1:4])
    lane.write(i.operands[0], f"__builtin_fmaf({a}, {b}, {c})", kind, any_nan=True)


def _mov(lane: Lane, i: Instruction) -> None:
    kind = _type(i)
    target, source = i.operands
    if isinstance(source, Vector):
        bits = kind.bits // len(source.items)
        parts = (lane.read(o, kind_of(f"b{bits}")) for o in source.items)
        lane.write(target, " | ".join(f"({kind.name}){part} << {n * bits}" for n, part in enumerate(parts)), kind)
    elif isinstance(target, Vector):
        bits = kind.bits // len(target.items)
        lane.lines.append(f"{{ const {kind.name} whole = {lane.read(source, kind)};")
        for n, item in enumerate(target.items):
            lane.write(item, f"whole >> {n * bits}", kind_of(f"b{bits}"))
        lane.lines.append("}")
    else:
        lane.write(target, lane.read(source, kind), kind)


def _shift(lane: Lane, i: Instruction) -> None:
    kind = _type(i)
    left = i.parts[0] == "shl"
    signed = kind.is_signed and not left
    amount = lane.read(i.operands[2], kind_of("u32"))
    value = lane.read(i.operands[1], kind if signed else kind.unsigned)
    lane.write(
        i.operands[0], f"shift_{'left' if left else 'right'}{'_signed' * signed}({value}, {amount}, {kind.bits})", kind
    )


_COMPARE = {"eq": "==", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "lo": "<", "ls": "<=", "hi": ">", "hs": ">="}
_UNORDERED = {"equ": "!({0} < {1} || {0} > {1})", "neu": "{0} != {1}", "ltu": "!({0} >= {1})", "leu": "!({0} > {1})",
              "gtu": "!({0} <= {1})", "geu": "!({0} < {1})", "ne": "({0} < {1} || {0} > {1})",
              "num": "({0} == {0} && {1} == {1})", "nan": "({0} != {0} || {1} != {1})"}  # fmt: skip
_COMBINE = {"and": "&", "or": "|", "xor": "^"}


def _setp(lane: Lane, i: Instruction) -> None:
    kind, how = _type(i), i.parts[1]
    a, b = (lane.read(o, kind, arithmetic=kind.has_one_nan) for o in i.operands[1:3])
    if how in _COMPARE:
        text = f"({a} {_COMPARE[how]} {b})"
    elif how in _UNORDERED and kind.is_float:
        text = f"({_UNORDERED[how].format(a, b)})"
    elif how == "ne":
        text = f"({a} != {b})"
    else:
        raise lane.unsupported(i, f"comparison .{how}")
    combine = [p for p in i.parts[2:-1] if p in _COMBINE]
    targets = i.operands[0].items if isinstance(i.operands[0], Vector) else (i.operands[0],)
    # Both results come from the operands as they were: the first may overwrite one of them.
    lane.lines.append(f"{{ const int holds = {text};")
    if combine:
        lane.lines.append(f"const int other = {lane.condition(i.operands[3])};")
    for position, target in enumerate(targets):
        value = "holds" if position == 0 else "!holds"
        lane.write(target, f"{value} {_COMBINE[combine[0]]} other" if combine else value, kind_of("pred"))
    lane.lines.append("}")


def _selp(lane: Lane, i: Instruction) -> None:
    kind = _type(i)
    a, b = (lane.read(o, kind) for o in i.operands[1:3])
    lane.write(i.operands[0], f"{lane.condition(i.operands[3])} ? {a} : {b}", kind)


_ROUNDED = {"rni": "rint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}


def _cvt(lane: Lane, i: Instruction) -> None:
    to, source = (kind_of(p) for p in i.parts[-2:])
    value = lane.read(i.operands[1], source, arithmetic=source.has_one_nan and not to.is_float)
    if source.is_float and not to.is_float:
        rounded = f"{_ROUNDED[next(p for p in i.parts if p in _ROUNDED)]}({value})"
        text = f"to_{'signed' if to.is_signed else 'unsigned'}({rounded}, {to.bits})"
    else:
        text = value
    lane.write(i.operands[0], text, to, any_nan=source.is_float and to.has_one_nan)


def _cvta(lane: Lane, i: Instruction) -> None:
    # One flat address space serves all: the windows do not overlap, so a conversion changes nothing.
    kind = _type(i)
    lane.write(i.operands[0], lane.read(i.operands[1], kind), kind)


def _slice(lane: Lane, i: Instruction) -> None:
    kind = _type(i)
    u32 = kind_of("u32")
    if i.parts[0] == "bfe":
        value = lane.read(i.operands[1], kind.unsigned)
        position, length = (lane.read(o, u32) for o in i.operands[2:4])
        text = f"extract_bits({value}, {position}, {length}, {kind.bits}, {int(kind.is_signed)})"
    else:
        a, b = (lane.read(o, kind) for o in i.operands[1:3])
        position, length = (lane.read(o, u32) for o in i.operands[3:5])
        text = f"insert_bits({a}, {b}, {position}, {length}, {kind.bits})"
    lane.write(i.operands[0], text, kind)


def _shf(lane: Lane, i: Instruction) -> None:
    low, high, amount = (lane.read(o, kind_of("u32")) for o in i.operands[1:4])
    kept = f"{amount} & 31u" if i.parts[2] == "wrap" else f"at_most_32({amount})"
    lane.write(
        i.operands[0], f"funnel_{'left' if i.parts[1] == 'l' else 'right'}({low}, {high}, {kept})", kind_of("b32")
    )


def _prmt(lane: Lane, i: Instruction) -> None:
    a, b, selector = (lane.read(o, kind_of("u32")) for o in i.operands[1:4])
    lane.write(i.operands[0], f"permute({a}, {b}, {selector})", kind_of("b32"))


def _lop3(lane: Lane, i: Instruction) -> None:
    a, b, c = (lane.read(o, kind_of("b32")) for o in i.operands[1:4])
    assert isinstance(i.operands[4], Immediate)
    terms = [
        f"({'' if bit & 4 else '~'}{a} & {'' if bit & 2 else '~'}{b} & {'' if bit & 1 else '~'}{c})"
        for bit in range(8)
        if i.operands[4].value >> bit & 1
    ]
    lane.write(i.operands[0], " | ".join(terms) or "0u", kind_of("b32"))


def _bits(template: str, *, result: str | None = None) -> Handler:
    def handle(lane: Lane, i: Instruction) -> None:
        kind = _type(i)
        lane.write(
            i.operands[0],
            template.format(lane.read(i.operands[1], kind), kind.bits),
            kind_of(result) if result else kind,
        )

    return handle


def _bfind(lane: Lane, i: Instruction) -> None:
    kind = _type(i)
    value = lane.read(i.operands[1], kind)
    text = f"({kind.unsigned.name})({value} < 0 ? ~{value} : {value})" if kind.is_signed else value
    shift = int("shiftamt" in i.parts)
    lane.write(i.operands[0], f"find_bit({text}, {kind.bits}, {shift})", kind_of("u32"))


_RESULTS = {
    "popc": "m->barrier_yes[t]",
    "and": "m->barrier_yes[t] == m->barrier_came[t]",
    "or": "m->barrier_yes[t] > 0",
}


def _barrier_result(lane: Lane, i: Instruction) -> None:
    lane.write(i.operands[0], _RESULTS[i.parts[1]], kind_of("u32" if i.parts[1] == "popc" else "pred"))


def _nothing(_lane: Lane, _: Instruction) -> None:
    """Fences and hints: lanes already see each other's accesses in program order."""


def _trap(lane: Lane, _: Instruction) -> None:
    lane.lines.append("return SUSPECT;")


HANDLERS: dict[str, Handler] = {
    "abs": _abs,
    "add": _simple("{0} + {1}", floats="{0} + {1}", wraps=True),
    "and": _simple("{0} & {1}"),
    "atom": atomic,
    "barrier_result": _barrier_result,
    "bfe": _slice,
    "bfi": _slice,
    "bfind": _bfind,
    "brev": _bits("reverse_bits({0}, {1})"),
    "clz": _bits("count_zeros({0}, {1})", result="u32"),
    "cp.async": copy,
    "cvt": _cvt,
    "cvta": _cvta,
    "div": _simple("div_{s}({0}, {1})", floats="{0} / {1}"),
    "fence": _nothing,
    "fma": _fma,
    "ld": load,
    "lop3": _lop3,
    "mad": _mad,
    "max": _select(">", "max"),
    "membar": _nothing,
    "min": _select("<", "min"),
    "mov": _mov,
    "mul": _mul,
    "nanosleep": _nothing,
    "neg": _simple("0u - {0}", floats="-{0}", wraps=True, exact=True),
    "not": _not,
    "or": _simple("{0} | {1}"),
    "popc": _bits("(uint32_t)__builtin_popcountll({0})", result="u32"),
    "prefetch": _nothing,
    "prmt": _prmt,
    "red": atomic,
    "rem": _simple("rem_{s}({0}, {1})"),
    "selp": _selp,
    "setp": _setp,
    "shf": _shf,
    "shl": _shift,
    "shr": _shift,
    "sqrt": _simple("", floats="root_{n}({0})"),
    "st": store,
    "sub": _simple("{0} - {1}", floats="{0} - {1}", wraps=True),
    "trap": _trap,
    "xor": _simple("{0} ^ {1}"),
    **HALF_HANDLERS,
}
