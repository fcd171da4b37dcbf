"""What each floating-point opcode means, in exact rationals."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from fractions import Fraction

from helpers.opcode_rows import TO_WORD, Row, bits_of
from helpers.rational import NAN32, NAN64, f32, f64, finite, round_to

__all__ = ["float_rows", "fused"]


def special(width: int, exact: Callable[..., int], invalid: Callable[..., float]) -> Callable[..., int]:
    """``exact`` for finite operands, else what Python's floats make of it, NaN in one canonical form."""
    read = f32 if width == 32 else f64

    def means(*bits: int) -> int:
        if all(finite(b, width) for b in bits):
            return exact(*bits)
        found = invalid(*(read(b) for b in bits))
        if math.isnan(found):
            return NAN32 if width == 32 else NAN64
        return round_infinity(found, width)

    return means


def round_infinity(value: float, width: int) -> int:
    """Bits of an infinity, or of a number that an operation with one left alone."""
    if math.isinf(value):
        return (value < 0) << (width - 1) | ((0xFF << 23) if width == 32 else (0x7FF << 52))
    return round_to(Fraction(value), width, negative_zero=math.copysign(1, value) < 0)


def sum_of(width: int, sign: int) -> Callable[..., int]:
    read = f32 if width == 32 else f64
    top = width - 1

    def exact(a: int, b: int) -> int:
        b ^= (1 << top) if sign < 0 else 0
        both_negative = a >> top == 1 and b >> top == 1
        return round_to(Fraction(read(a)) + Fraction(read(b)), width, negative_zero=both_negative)

    return special(width, exact, lambda a, b: a + sign * b)


def product_of(width: int) -> Callable[..., int]:
    read = f32 if width == 32 else f64

    def exact(a: int, b: int) -> int:
        return signed_rounding(Fraction(read(a)) * Fraction(read(b)), width, negative=(a ^ b) >> (width - 1) == 1)

    return special(width, exact, operator.mul)


def signed_rounding(value: Fraction, width: int, *, negative: bool) -> int:
    """Round a product or quotient, whose sign is known even where it rounds to zero."""
    return round_to(abs(value), width) | negative << (width - 1)


def quotient_of(width: int) -> Callable[..., int]:
    read = f32 if width == 32 else f64

    def exact(a: int, b: int) -> int:
        negative = (a ^ b) >> (width - 1) == 1
        if read(b) == 0:
            infinity = ((0xFF << 23) if width == 32 else (0x7FF << 52)) | negative << (width - 1)
            return infinity if read(a) else (NAN32 if width == 32 else NAN64)
        return signed_rounding(Fraction(read(a)) / Fraction(read(b)), width, negative=negative)

    def invalid(a: float, b: float) -> float:
        if math.isnan(a) or math.isnan(b) or (math.isinf(a) and math.isinf(b)):
            return math.nan
        sign = math.copysign(1, a) * math.copysign(1, b)
        return math.copysign(math.inf if math.isinf(a) else 0.0, sign)

    return special(width, exact, invalid)


def root_of(width: int) -> Callable[..., int]:
    read, top = (f32 if width == 32 else f64), width - 1

    def exact(a: int) -> int:
        number = Fraction(read(a))
        if number == 0:
            return a
        if number < 0:
            return NAN32 if width == 32 else NAN64
        # An integer root with bits to spare, odd when inexact, rounds as the true root does.
        shift = 2 * (160 + 1100 * (width == 64))
        scaled = number * 2**shift
        whole = math.isqrt(scaled.numerator // scaled.denominator)
        inexact = Fraction(whole) ** 2 != scaled
        return round_to(Fraction(2 * whole + inexact, 2 ** (shift // 2 + 1)), width)

    return (
        special(width, exact, lambda a: math.nan if math.isnan(a) or math.copysign(1, a) < 0 else a) if top else exact
    )


def fused(a: int, b: int, c: int) -> int:
    """a * b + c, rounded once, NaN canonical."""
    x, y, z = f32(a), f32(b), f32(c)
    negative = (a ^ b) >> 31 == 1
    if not (finite(a) and finite(b) and finite(c)):
        if any(map(math.isnan, (x, y, z))) or (0 in (x, y) and math.inf in (abs(x), abs(y))):
            return NAN32
        infinite_product = math.inf in (abs(x), abs(y))
        if infinite_product and math.isinf(z) and negative != (z < 0):
            return NAN32
        sign = negative if infinite_product else z < 0
        return 0xFF << 23 | sign << 31
    total = Fraction(x) * Fraction(y) + Fraction(z)
    product_zero = x == 0 or y == 0
    both_negative = negative and c >> 31 == 1
    return round_to(total, negative_zero=both_negative if product_zero or z == 0 else False)


def chosen(width: int, *, larger: bool) -> Callable[[int, int], int]:
    """min and max: a number wins over a NaN, and -0 lies below +0."""
    read = f32 if width == 32 else f64

    def means(a: int, b: int) -> int:
        numbers = [x for x in (a, b) if not math.isnan(read(x))]
        if not numbers:
            return NAN32 if width == 32 else NAN64
        pick = max if larger else min
        return pick(numbers, key=lambda x: (read(x), -(x >> (width - 1))))

    return means


ORDERED = {"eq": operator.eq, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge}


def float_rows() -> Iterator[Row]:
    for kind in ("f32", "f64"):
        width = bits_of(kind)
        two = (kind, kind)
        for rounding in ("", ".rn"):
            yield Row(f"add{rounding}.{kind} {{d}}, {{a}}, {{b}};", two, kind, sum_of(width, 1))
            yield Row(f"sub{rounding}.{kind} {{d}}, {{a}}, {{b}};", two, kind, sum_of(width, -1))
            yield Row(f"mul{rounding}.{kind} {{d}}, {{a}}, {{b}};", two, kind, product_of(width))
        yield Row(f"div.rn.{kind} {{d}}, {{a}}, {{b}};", two, kind, quotient_of(width))
        yield Row(f"sqrt.rn.{kind} {{d}}, {{a}};", (kind,), kind, root_of(width))
        yield Row(f"min.{kind} {{d}}, {{a}}, {{b}};", two, kind, chosen(width, larger=False))
        yield Row(f"max.{kind} {{d}}, {{a}}, {{b}};", two, kind, chosen(width, larger=True))
        yield Row(f"neg.{kind} {{d}}, {{a}};", (kind,), kind, lambda a, w=width: a ^ 1 << (w - 1))
        yield Row(f"abs.{kind} {{d}}, {{a}};", (kind,), kind, lambda a, w=width: a & ~(1 << (w - 1)))
        yield Row(
            f"setp.lt.{kind} %q0, {{a}}, {{b}};\nselp.{kind} {{d}}, {{a}}, {{b}}, %q0;",
            two,
            kind,
            lambda a, b, w=width: a if compared("lt", w)(a, b) else b,
        )
        for name in (*ORDERED, "ne", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"):
            yield Row(f"setp.{name}.{kind} %q0, {{a}}, {{b}};\n{TO_WORD}", two, "b32", compared(name, width))
    for name in ("fma.rn.f32", "mad.rn.f32"):
        yield Row(f"{name} {{d}}, {{a}}, {{b}}, {{c}};", ("f32",) * 3, "f32", fused)
    # A factor and an addend that differ from lane to lane less than the result does.
    yield Row(
        "fma.rn.f32 {d}, 0f3FC00000, 0f40000000, {a};", ("f32",), "f32", lambda a: fused(0x3FC00000, 0x40000000, a)
    )
    yield Row("fma.rn.f32 {d}, {a}, 0f40000000, 0f80000000;", ("f32",), "f32", lambda a: fused(a, 0x40000000, 1 << 31))


def compared(name: str, width: int) -> Callable[[int, int], int]:
    read = f32 if width == 32 else f64

    def means(a: int, b: int) -> int:
        x, y = read(a), read(b)
        unordered = math.isnan(x) or math.isnan(y)
        if name in {"num", "nan"}:
            return unordered == (name == "nan")
        base = name if name == "ne" or name in ORDERED else name[:-1]
        plain = x != y if base == "ne" else ORDERED[base](x, y)
        return plain or unordered if base != name else plain and not unordered

    return means
