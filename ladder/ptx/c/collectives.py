"""Opcodes that lanes of a warp execute together: one PTX instruction -> lines of C for one warp.

What they mean is in ``ladder.ptx.warp``, ``matrix_load`` and ``mma``; the numpy engine's table has already refused
every modifier that nobody knows.
"""

from __future__ import annotations

from collections.abc import Callable

from ladder.ptx.c.lane import kind_of
from ladder.ptx.c.warp import Warp
from ladder.ptx.mma import Places, fragments
from ladder.ptx.syntax import Address, Instruction, Operand, Symbol, Vector

__all__ = ["COLLECTIVE_HANDLERS", "emit_together"]

Handler = Callable[[Warp, Instruction], None]

_WORD, _PRED = kind_of("b32"), kind_of("pred")
_NOWHERE = Symbol("_")


def emit_together(warp: Warp, instruction: Instruction, number: int) -> None:
    """Add the lines of one instruction, the ``number``-th of its function."""
    warp.at(instruction, number)
    COLLECTIVE_HANDLERS[instruction.parts[0]](warp, instruction)
    warp.done()


def _pair(target: Operand) -> tuple[Operand, Operand]:
    """The destination and the optional predicate of ``d|p``."""
    return (target.items[0], target.items[1]) if isinstance(target, Vector) else (target, _NOWHERE)


def _shfl(warp: Warp, i: Instruction) -> None:
    target, value, source, control, members = i.operands
    named, values = warp.meet(members), warp.gather(value, _WORD)
    where = f"{i.parts[2].upper()}, l, {warp.read(source, _WORD)}, {warp.read(control, _WORD)}"
    data, inside = _pair(target)
    warp.give(
        [(data, "got", _WORD), (inside, "inside", _PRED)],
        "uint8_t inside;",
        f"const int32_t from = shuffled({where}, &inside);",
        f"const uint32_t got = (here & {named}) >> from & 1 ? {values}[from] : UNREADABLE;",
    )


_VERDICTS = {"ballot": "yes", "any": "yes != 0", "all": "yes == voters", "uni": "yes == voters || !yes"}


def _vote(warp: Warp, i: Instruction) -> None:
    target, flag, members = i.operands
    named, votes = warp.meet(members), warp.new("votes")
    warp.lines.append(f"uint32_t {votes} = 0;")
    warp.each(f"{votes} |= (uint32_t)({warp.condition(flag)}) << l;", lanes="here")
    mode, kind = i.parts[2:]
    warp.give(
        [(target, _VERDICTS[mode], kind_of(kind))],
        f"const uint32_t voters = here & {named}, yes = {votes} & voters;",
        "(void)voters;",
    )


def _activemask(warp: Warp, i: Instruction) -> None:
    warp.give([(i.operands[0], "here", _WORD)])


def _match(warp: Warp, i: Instruction) -> None:
    target, value, members = i.operands
    named, values = warp.meet(members), warp.gather(value, kind_of(i.parts[3]), wide=kind_of("u64"))
    data, agree = _pair(target)
    result, agrees = ("same", "same != 0") if i.parts[1] == "any" else ("agrees ? voters : 0", "agrees")
    warp.give(
        [(data, result, _WORD), (agree, agrees, _PRED)],
        f"const uint32_t voters = here & {named}, same = same_values({values}, l, voters);",
        "const uint8_t agrees = same == voters;",
        "(void)agrees;",
    )


def _redux(warp: Warp, i: Instruction) -> None:
    target, value, members = i.operands
    operation, kind = i.parts[2:]
    named, values = warp.meet(members), warp.gather(value, _WORD)
    warp.lines.append("uint32_t known = 0, all = 0;")
    warp.give(
        [(target, "all", _WORD)],
        f"const uint32_t voters = here & {named};",
        f"if (voters != known) all = reduce_{operation}_{kind}({values}, known = voters);",
    )


def _ldmatrix(warp: Warp, i: Instruction) -> None:
    target, source = i.operands
    assert isinstance(source, Address)
    items = target.items if isinstance(target, Vector) else (target,)
    warp.whole()
    rows = warp.rows(source, 8 * len(items))
    if "trans" in i.parts:
        halves = (f"get_u16({rows}[{{0}} + 2 * (l % 4) + {k}] + 2 * (l / 4))" for k in (0, 1))
        text = "pair_of({}, {})".format(*halves)
    else:
        text = f"get_u32({rows}[{{0}} + l / 4] + 4 * (l % 4))"
    warp.give((item, text.format(8 * n), _WORD) for n, item in enumerate(items))


def _mma(warp: Warp, i: Instruction) -> None:
    # mma.sync.aligned.m16n8kK.row.col.SUMS.A.B.SUMS
    kind, k, halved = i.parts[7], int(i.parts[3].removeprefix("m16n8k")), i.parts[6] == "f16"
    target, a, b, c = i.operands
    layout = fragments(kind, k)
    warp.whole()
    factors = [
        _matrix(warp, operand, f"{role}_{kind}_{k}", places, k * extent, columns, kind)
        for role, operand, places, extent, columns in (("a", a, layout.a, 16, k), ("b", b, layout.b, 8, 8))
    ]
    table = _table(warp, f"c_{kind}_{k}", layout.c, 8)
    sums, out = warp.new("sums"), warp.new("out")
    warp.lines.append(f"float {sums}[128];")
    _scatter(warp, c, sums, table, "f16" if halved else "f32")
    warp.lines += [
        f"{'uint16_t' if halved else 'float'} {out}[128];",
        f"m->multiply_{'f16' if halved else 'f32'}({k}, {', '.join(factors)}, {sums}, {out});",
    ]
    items = target.items if isinstance(target, Vector) else (target,)
    text = f"pair_of({out}[{table}[l][{{0}}]], {out}[{table}[l][{{1}}]])" if halved else f"{out}[{table}[l][{{0}}]]"
    step, stored = (2, _WORD) if halved else (1, kind_of("f32"))
    warp.give((item, text.format(step * n, step * n + 1), stored) for n, item in enumerate(items))


def _matrix(warp: Warp, operand: Operand, name: str, places: Places, size: int, columns: int, kind: str) -> str:
    """An operand of a product as an array of doubles, row after row; that of an earlier product, if it is the same."""
    array, is_new = warp.hold(operand, name, "double", size)
    if is_new:
        _scatter(warp, operand, array, _table(warp, name, places, columns), kind)
    return array


def _scatter(warp: Warp, operand: Operand, array: str, table: str, kind: str) -> None:
    """Put the elements that the lanes hold at their places."""
    items = operand.items if isinstance(operand, Vector) else (operand,)
    stored = kind_of("f32" if kind == "f32" else "b32")
    elements = {
        "f32": ["{0}"],
        "tf32": ["as_f32({0} & 0xffffe000u)"],
        "f16": ["f32_of_f16(low_half({0}))", "f32_of_f16(high_half({0}))"],
        "bf16": ["f32_of_bf16(low_half({0}))", "f32_of_bf16(high_half({0}))"],
    }[kind]
    texts = [element.format(warp.read(item, stored)) for item in items for element in elements]
    warp.each(*(f"{array}[{table}[l][{n}]] = {text};" for n, text in enumerate(texts)))


def _table(warp: Warp, name: str, places: Places, columns: int) -> str:
    """The name of the table that says where each lane's elements lie in a matrix of so many columns."""
    rows = (places[0] * columns + places[1]).tolist()
    values = ", ".join("{" + ", ".join(map(str, row)) + "}" for row in rows)
    name = f"place_{name}"
    warp.tables[name] = f"static const uint8_t {name}[WARP][{len(rows[0])}] = {{{values}}};"
    return name


COLLECTIVE_HANDLERS: dict[str, Handler] = {
    "activemask": _activemask,
    "ldmatrix": _ldmatrix,
    "match": _match,
    "mma": _mma,
    "redux": _redux,
    "shfl": _shfl,
    "vote": _vote,
}
