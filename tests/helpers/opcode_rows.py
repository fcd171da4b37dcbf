"""What each integer, bitwise, comparing, moving and converting opcode means, in Python integers."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from helpers.ptx import signed
from helpers.rational import f32, f64, narrow, round_to, widen

__all__ = ["TO_WORD", "Row", "bit_rows", "bits_of", "comparison_rows", "conversion_rows", "integer_rows", "move_rows"]


class Row(NamedTuple):
    """One form of an opcode: its PTX, operand and result types, and what it means on the operands' bits."""

    code: str
    kinds: tuple[str, ...]
    result: str
    means: Callable[..., int]

    def __str__(self) -> str:
        return self.code.replace("\n", " ")


def bits_of(kind: str) -> int:
    return 1 if kind == "pred" else int(kind[1:])


def value_of(kind: str, bits: int) -> int:
    """An operand as the number that its type makes of it."""
    bits &= 2 ** bits_of(kind) - 1
    return signed(bits, bits_of(kind)) if kind[0] == "s" else bits


def typed(kinds: Sequence[str], result: str, means: Callable[..., int]) -> Callable[..., int]:
    """``means`` on numbers -> the same on bits."""
    mask = 2 ** bits_of(result) - 1
    return lambda *bits: means(*(value_of(k, b) for k, b in zip(kinds, bits, strict=True))) & mask


def row(code: str, kinds: Sequence[str], result: str, means: Callable[..., int]) -> Row:
    return Row(code, tuple(kinds), result, typed(kinds, result, means))


NUMBERS = ("u16", "s16", "u32", "s32", "u64", "s64")
SIGNED = ("s16", "s32", "s64")
BITS = ("b16", "b32", "b64")


def quotient(a: int, b: int) -> int:
    """C's division; all ones for a zero divisor."""
    return -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def rest(a: int, b: int) -> int:
    return a if b == 0 else a - quotient(a, b) * b


def integer_rows() -> Iterator[Row]:
    for kind in NUMBERS:
        width = bits_of(kind)
        two = (kind, kind)
        for name, means in {
            "add": operator.add,
            "sub": operator.sub,
            "mul.lo": operator.mul,
            "mul.hi": lambda a, b, w=width: a * b >> w,
            "min": min,
            "max": max,
            "div": quotient,
            "rem": rest,
        }.items():
            yield row(f"{name}.{kind} {{d}}, {{a}}, {{b}};", two, kind, means)
        yield row(f"mad.lo.{kind} {{d}}, {{a}}, {{b}}, {{c}};", (*two, kind), kind, lambda a, b, c: a * b + c)
        yield row(
            f"mad.hi.{kind} {{d}}, {{a}}, {{b}}, {{c}};", (*two, kind), kind, lambda a, b, c, w=width: (a * b >> w) + c
        )
        if width < 64:
            wide = f"{kind[0]}{2 * width}"
            yield row(f"mul.wide.{kind} {{d}}, {{a}}, {{b}};", two, wide, operator.mul)
            yield row(f"mad.wide.{kind} {{d}}, {{a}}, {{b}}, {{c}};", (*two, wide), wide, lambda a, b, c: a * b + c)
        yield row(f"add.{kind} {{d}}, {{a}}, -3;", (kind,), kind, lambda a: a - 3)
    for kind in SIGNED:
        yield row(f"abs.{kind} {{d}}, {{a}};", (kind,), kind, abs)
        yield row(f"neg.{kind} {{d}}, {{a}};", (kind,), kind, operator.neg)


def bit_rows() -> Iterator[Row]:
    for kind in BITS:
        width = bits_of(kind)
        yield row(f"and.{kind} {{d}}, {{a}}, {{b}};", (kind, kind), kind, operator.and_)
        yield row(f"or.{kind} {{d}}, {{a}}, {{b}};", (kind, kind), kind, operator.or_)
        yield row(f"xor.{kind} {{d}}, {{a}}, {{b}};", (kind, kind), kind, operator.xor)
        yield row(f"not.{kind} {{d}}, {{a}};", (kind,), kind, operator.invert)
        yield row(f"shl.{kind} {{d}}, {{a}}, {{b}};", (kind, "u32"), kind, lambda a, n: a << min(n, 64))
        for amount in (0, 1, width - 1, width, width + 7):
            yield row(f"shl.{kind} {{d}}, {{a}}, {amount};", (kind,), kind, lambda a, n=amount: a << n)
    for kind in (*BITS, *NUMBERS):
        yield row(f"shr.{kind} {{d}}, {{a}}, {{b}};", (kind, "u32"), kind, lambda a, n: a >> min(n, 64))
        for amount in (1, bits_of(kind) - 1, bits_of(kind) + 7):
            yield row(f"shr.{kind} {{d}}, {{a}}, {amount};", (kind,), kind, lambda a, n=amount: a >> n)
    for kind in ("b32", "b64"):
        width = bits_of(kind)
        yield row(f"popc.{kind} {{d}}, {{a}};", (kind,), "u32", int.bit_count)
        yield row(f"clz.{kind} {{d}}, {{a}};", (kind,), "u32", lambda a, w=width: w - a.bit_length())
        yield row(f"brev.{kind} {{d}}, {{a}};", (kind,), kind, lambda a, w=width: int(f"{a:0{w}b}"[::-1], 2))
        yield row(f"bfi.{kind} {{d}}, {{a}}, {{b}}, {{c}}, {{e}};", (kind, kind, "u32", "u32"), kind, insert(width))
    for kind in ("u32", "s32", "u64", "s64"):
        yield Row(f"bfe.{kind} {{d}}, {{a}}, {{b}}, {{c}};", (kind, "u32", "u32"), kind, extract(kind))
    for kind in ("u32", "s32", "u64", "s64"):
        for shift in (False, True):
            name = f"bfind{'.shiftamt' if shift else ''}.{kind}"
            yield Row(f"{name} {{d}}, {{a}};", (kind,), "u32", find_leading(kind, shift=shift))
    for table in (0x00, 0x01, 0x3A, 0x80, 0x96, 0xCA, 0xE8, 0xFF):
        yield row(f"lop3.b32 {{d}}, {{a}}, {{b}}, {{c}}, {table};", ("b32",) * 3, "b32", by_table(table))
    yield row("prmt.b32 {d}, {a}, {b}, {c};", ("b32",) * 3, "b32", permute)
    yield row("prmt.b32 {d}, {a}, {b}, 0x5410;", ("b32",) * 2, "b32", lambda a, b: (b & 0xFFFF) << 16 | a & 0xFFFF)
    for way, mode in itertools.product("lr", ("wrap", "clamp")):
        yield row(f"shf.{way}.{mode}.b32 {{d}}, {{a}}, {{b}}, {{c}};", ("b32", "b32", "u32"), "b32", funnel(way, mode))


def insert(width: int) -> Callable[..., int]:
    def means(field: int, into: int, position: int, length: int) -> int:
        """The loop that defines ``bfi`` in the PTX ISA."""
        for i in range(min(length & 0xFF, width)):
            at = (position & 0xFF) + i
            if at < width:
                into = into & ~(1 << at) | (field >> i & 1) << at
        return into

    return means


def extract(kind: str) -> Callable[..., int]:
    width = bits_of(kind)

    def means(a: int, position: int, length: int) -> int:
        """The loop that defines ``bfe`` in the PTX ISA."""
        position, length = position & 0xFF, length & 0xFF
        sign = 0 if kind[0] == "u" or length == 0 else a >> min(position + length - 1, width - 1) & 1
        return sum(
            (a >> (position + i) & 1 if i < length and position + i < width else sign) << i for i in range(width)
        )

    return means


def find_leading(kind: str, *, shift: bool) -> Callable[[int], int]:
    """Position of the most significant bit that is no copy of the sign, or how far it is from the top."""
    width = bits_of(kind)

    def means(a: int) -> int:
        if kind[0] == "s" and a >> (width - 1):
            a ^= 2**width - 1
        return 2**32 - 1 if a == 0 else width - a.bit_length() if shift else a.bit_length() - 1

    return means


def by_table(table: int) -> Callable[..., int]:
    def means(a: int, b: int, c: int) -> int:
        return sum((table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | c >> i & 1) & 1) << i for i in range(32))

    return means


def permute(a: int, b: int, selector: int) -> int:
    source = (b << 32 | a).to_bytes(8, "little")
    out = []
    for i in range(4):
        nibble = selector >> 4 * i & 15
        byte = source[nibble & 7]
        out.append((0xFF if byte & 0x80 else 0) if nibble & 8 else byte)
    return int.from_bytes(bytes(out), "little")


def funnel(way: str, mode: str) -> Callable[..., int]:
    def means(low: int, high: int, amount: int) -> int:
        n = amount & 31 if mode == "wrap" else min(amount, 32)
        both = high << 32 | low
        return both << n >> 32 if way == "l" else both >> n

    return means


COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
TO_WORD = "selp.b32 {d}, 1, 0, %q0;"


def comparison_rows() -> Iterator[Row]:
    for kind in (*NUMBERS, *BITS):
        names = {"eq": "eq", "ne": "ne"} if kind[0] == "b" else {name: name for name in COMPARISONS}
        names |= UNSIGNED if kind[0] == "u" else {}
        for name, same in names.items():
            yield row(f"setp.{name}.{kind} %q0, {{a}}, {{b}};\n{TO_WORD}", (kind, kind), "b32", COMPARISONS[same])
        yield row(
            f"setp.ne.{kind} %q0, {{c}}, 0;\nselp.{kind} {{d}}, {{a}}, {{b}}, %q0;",
            (kind,) * 3,
            kind,
            lambda a, b, c: a if c else b,
        )
    low = "setp.ne.b32 %q1, {c}, 0;\n"
    for combine, means in {"and": operator.and_, "or": operator.or_, "xor": operator.xor}.items():
        for mark in ("", "!"):
            yield row(
                f"{low}setp.lt.{combine}.s32 %q0, {{a}}, {{b}}, {mark}%q1;\n{TO_WORD}",
                ("s32", "s32", "b32"),
                "b32",
                lambda a, b, c, f=means, m=mark: f(a < b, (c != 0) != bool(m)),
            )
            # The first target is also the third source.
            yield row(
                f"{low}setp.lt.{combine}.s32 %q1|%q2, {{a}}, {{b}}, {mark}%q1;\n"
                "selp.b32 {d}, 1, 0, %q1;\n@%q2 or.b32 {d}, {d}, 2;",
                ("s32", "s32", "b32"),
                "b32",
                lambda a, b, c, f=means, m=mark: f(a < b, (c != 0) != bool(m)) | f(not a < b, (c != 0) != bool(m)) << 1,
            )
    yield row(
        "setp.ge.u32 %q0|%q1, {a}, {b};\nselp.b32 {d}, 1, 2, %q0;\n@!%q1 or.b32 {d}, {d}, 4;",
        ("u32", "u32"),
        "b32",
        lambda a, b: 5 if a >= b else 2,
    )
    yield row("setp.lt.s32 %q0, {a}, {b};\nselp.b32 {d}, {a}, {b}, !%q0;", ("s32", "s32"), "b32", max)
    two = "setp.ne.b32 %q1, {a}, 0;\nsetp.ne.b32 %q2, {b}, 0;\n"
    for name, logic in {"and": operator.and_, "or": operator.or_, "xor": operator.xor}.items():
        yield row(
            f"{two}{name}.pred %q0, %q1, %q2;\n{TO_WORD}",
            ("b32", "b32"),
            "b32",
            lambda a, b, f=logic: f(a != 0, b != 0),
        )
    yield row(f"{two}not.pred %q0, %q1;\n{TO_WORD}", ("b32", "b32"), "b32", lambda a, _b: a == 0)
    yield row(f"{two}mov.pred %q0, %q2;\n{TO_WORD}", ("b32", "b32"), "b32", lambda _a, b: b != 0)


def move_rows() -> Iterator[Row]:
    for kind in (*NUMBERS, *BITS, "f32", "f64"):
        yield Row(f"mov.{kind} {{d}}, {{a}};", (kind,), kind, lambda a: a)
    yield row("mov.b32 {d}, {{{a}, {b}}};", ("b16", "b16"), "b32", lambda a, b: b << 16 | a)
    yield row("mov.b64 {d}, {{{a}, {b}}};", ("b32", "b32"), "b64", lambda a, b: b << 32 | a)
    yield row("mov.b64 {d}, {{{a}, {b}}};", ("f32", "f32"), "b64", lambda a, b: b << 32 | a)
    yield row(
        "mov.b64 {d}, {{{a}, {b}, {c}, {e}}};", ("b16",) * 4, "b64", lambda a, b, c, e: e << 48 | c << 32 | b << 16 | a
    )
    yield row("mov.b32 {{%h9, {d}}}, {a};", ("b32",), "b16", lambda a: a >> 16)
    yield row("mov.b32 {{{d}, _}}, {a};", ("b32",), "b16", lambda a: a)
    yield row("mov.b64 {{_, {d}}}, {a};", ("b64",), "b32", lambda a: a >> 32)
    yield row("mov.b64 {{%h8, %h9, {d}, %h7}}, {a};", ("b64",), "b16", lambda a: a >> 32)
    yield row("mov.b32 {d}, 0f3FC00000;", (), "b32", lambda: 0x3FC00000)
    yield row("mov.f32 {d}, 0f7F800001;", (), "f32", lambda: 0x7F800001)
    yield row("mov.f32 {d}, 0f80000000;", (), "f32", lambda: 0x80000000)
    yield row("mov.f64 {d}, 0dBFF8000000000000;", (), "f64", lambda: 0xBFF8000000000000)
    yield row("mov.u64 {d}, -5;", (), "u64", lambda: -5)
    yield row("mov.u32 {d}, 0xFFFFFFFFU;", (), "u32", lambda: 0xFFFFFFFF)
    yield row("mov.b32 {d}, WARP_SZ;", (), "b32", lambda: 32)
    yield row("cvta.to.global.u64 {d}, {a};", ("u64",), "u64", lambda a: a)
    yield row("cvta.shared.u64 {d}, {a};", ("u64",), "u64", lambda a: a)


INTEGERS = ("u8", "s8", *NUMBERS)
ROUNDINGS: dict[str, Callable[[Fraction], int]] = {
    "rni": round,
    "rzi": math.trunc,
    "rmi": math.floor,
    "rpi": math.ceil,
}


def to_integer(kind: str, rounding: str, width: int) -> Callable[[int], int]:
    low, high = (
        (0, 2 ** bits_of(kind) - 1) if kind[0] == "u" else (-(2 ** (bits_of(kind) - 1)), 2 ** (bits_of(kind) - 1) - 1)
    )

    def means(bits: int) -> int:
        number = (f32 if width == 32 else f64)(bits)
        if math.isnan(number):
            return 0
        if math.isinf(number):
            chosen = high if number > 0 else low
        else:
            chosen = min(max(ROUNDINGS[rounding](Fraction(number)), low), high)
        return chosen & (2 ** max(bits_of(kind), 16) - 1)

    return means


def conversion_rows() -> Iterator[Row]:
    for to, source in itertools.product(INTEGERS, INTEGERS):
        # A register has 16 bits at least; a narrow result is extended by its sign into it.
        held = to if bits_of(to) > 8 else f"{to[0]}16"
        read = source if bits_of(source) > 8 else f"{source[0]}16"
        yield Row(
            f"cvt.{to}.{source} {{d}}, {{a}};",
            (read,),
            held,
            lambda a, t=to, s=source, h=held: value_of(t, value_of(s, a)) & (2 ** bits_of(h) - 1),
        )
    for to, source in itertools.product(("f32", "f64"), NUMBERS):
        yield Row(
            f"cvt.rn.{to}.{source} {{d}}, {{a}};",
            (source,),
            to,
            lambda a, t=to, s=source: round_to(Fraction(value_of(s, a)), bits_of(t)),
        )
    for to, source, rounding in itertools.product(INTEGERS, ("f32", "f64"), ROUNDINGS):
        held = to if bits_of(to) > 8 else f"{to[0]}16"
        means = to_integer(to, rounding, bits_of(source))
        yield Row(f"cvt.{rounding}.{to}.{source} {{d}}, {{a}};", (source,), held, means)
    yield Row("cvt.rzi.sat.s32.f32 {d}, {a};", ("f32",), "s32", to_integer("s32", "rzi", 32))
    yield Row("cvt.f64.f32 {d}, {a};", ("f32",), "f64", widen)
    yield Row("cvt.rn.f32.f64 {d}, {a};", ("f64",), "f32", narrow)
