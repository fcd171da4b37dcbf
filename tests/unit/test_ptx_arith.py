"""Arithmetic that numpy lacks, against exact rationals: one rounding, canonical NaNs, signed zeros."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from helpers.float_rows import chosen, fused, product_of, sum_of
from helpers.rational import NAN32, f32, finite, round_to
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ladder.ptx import arith

Array = NDArray[Any]

TOP, INFINITY, LARGEST, SMALLEST_NORMAL = 1 << 31, 0x7F800000, 0x7F7FFFFF, 0x00800000


def floats(bits: Sequence[int]) -> NDArray[np.float32]:
    return np.array(bits, np.uint32).view(np.float32)


def check(function: Callable[..., Array], means: Callable[..., int], rows: Sequence[Sequence[int]]) -> None:
    with np.errstate(all="ignore"):
        got = function(*(floats([row[i] for row in rows]) for i in range(len(rows[0]))))
    assert got.dtype == np.float32
    for row, bits in zip(rows, got.view(np.uint32), strict=True):
        expected = means(*row)
        shown = ", ".join(f"{x:#010x}" for x in row)
        assert bits == expected, f"{function.__name__}({shown}) = {bits:#010x}, expected {expected:#010x}"


anything = st.integers(0, 2**32 - 1)
numbers = anything.filter(finite)
small = st.integers(0, 0x02FFFFFF).flatmap(lambda x: st.sampled_from([x, x | TOP]))
special = st.sampled_from(
    [0, TOP, 1, TOP | 1, INFINITY, INFINITY | TOP, NAN32, 0x7FC00000, 0xFFC01234, 0x7F800001, LARGEST, LARGEST | TOP,
     SMALLEST_NORMAL, SMALLEST_NORMAL - 1, 0x3F800000, 0xBF800000]
)  # fmt: skip
steps = st.integers(-2, 2)


@st.composite
def near_midpoint(draw: st.DrawFn) -> tuple[int, int, int]:
    """c puts a * b + c on, or within a step of, the midpoint of two neighbouring floats."""
    a, b, target = draw(numbers), draw(numbers), draw(numbers)
    product = Fraction(f32(a)) * Fraction(f32(b))
    above = Fraction(f32(target + 1)) if finite(target + 1) else Fraction(2) ** 128
    c = round_to((Fraction(f32(target)) + above) / 2 - product)
    return a, b, moved(c, draw(steps))


@st.composite
def near_cancellation(draw: st.DrawFn) -> tuple[int, int, int]:
    """c is the product, rounded, negated, and moved by a few steps."""
    a, b = draw(numbers), draw(numbers)
    return a, b, moved(round_to(-Fraction(f32(a)) * Fraction(f32(b))), draw(steps))


@st.composite
def short_products(draw: st.DrawFn) -> tuple[int, int, int]:
    """Factors of few bits and an addend far below or above: their sum ends in 1000...0 often."""
    exponent = st.integers(-60, 60)
    few = st.builds(lambda m, e: round_to(Fraction(m) * Fraction(2) ** e), st.integers(-4095, 4095), exponent)
    a, b = draw(few), draw(few)
    c = Fraction(f32(a)) * Fraction(f32(b)) * Fraction(2) ** draw(exponent)
    return a, b, moved(round_to(c), draw(steps))


def moved(bits: int, by: int) -> int:
    return max(0, min(bits + by, 2**32 - 1))


def triples(*parts: st.SearchStrategy[int]) -> st.SearchStrategy[tuple[int, ...]]:
    return st.tuples(*parts)


TWICE_ROUNDED = (
    (0x33800001, 0x3F7FFFFE, 0x3F800007),
    (0x33800001, 0x3F7FFFFE, 0x3F800001),
    (0xB3800001, 0x3F7FFFFE, 0x3F800003),
    # Below the normal numbers midpoints lie elsewhere.
    (0x1A000001, 0x19FFFFFE, 0x00400001),
    (0x1A000001, 0x19FFFFFE, 0x00000401),
)
"""Sums that float64 rounds onto a midpoint of float32 though they lie beside it, so that a cast rounds them wrong."""


@settings(max_examples=300)
@given(
    rows=st.lists(
        near_midpoint() | near_cancellation() | short_products() | triples(anything, anything, anything)
        | triples(small, small, small) | triples(numbers, special, special) | triples(special, special, special),
        min_size=1, max_size=12,
    )
)  # fmt: skip
@example(rows=[*TWICE_ROUNDED])
# Half a step beyond the largest number is infinity, a hair less is not.
@example(rows=[(LARGEST, 0x3F800000, 0x72FFFFFF), (LARGEST, 0x3F800000, 0x73000000), (LARGEST, 0x3F800000, 0x72800000)])
@example(rows=[(TOP, 0x3F800000, TOP), (TOP, 0x3F800000, 0), (0x3F800000, 0x3F800000, 0xBF800000)])
def test_a_fused_multiply_add_rounds_once(rows: list[tuple[int, int, int]]) -> None:
    check(arith.fma32, fused, rows)


@pytest.mark.parametrize("row", TWICE_ROUNDED)
def test_rounding_twice_would_be_wrong(row: tuple[int, int, int]) -> None:
    """The sums above do what they are there for."""
    a, b, c = (floats([bits]).astype(np.float64) for bits in row)
    assert int((a * b + c).astype(np.float32).view(np.uint32)[0]) != fused(*row)


def test_many_sums_of_one_exponent() -> None:
    """Where a sum's tail is random, about one in a thousand is doubtful: enough here to meet several."""
    rng = np.random.default_rng(1)
    a, b = (floats(rng.integers(0x3F800000, 0x40000000, 4000)) for _ in range(2))
    c = floats(rng.integers(0x3F800000, 0x40000000, 4000)) * np.float32(2**-20)
    got = arith.fma32(a, b, c).view(np.uint32)
    for x, y, z, bits in zip(a, b, c, got, strict=True):
        assert int(bits) == round_to(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)))


SHAPES = (
    ((1, 1), (1, 1), (4, 3)),
    ((4, 1), (1, 3), (1, 1)),
    ((4, 3), (4, 1), (1, 3)),
    ((1, 1), (4, 1), (1, 3)),
    ((1, 3), (1, 3), (4, 3)),
)


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("function", [arith.fma32, arith.add32, arith.sub32, arith.mul32, arith.lesser, arith.greater])
def test_operands_broadcast_and_stay_as_they_were(shapes: Sequence[tuple[int, int]], function: Any) -> None:
    count = 3 if function is arith.fma32 else 2
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(shape).astype(np.float32) for shape in shapes[-count:]]
    before = [value.copy() for value in values]
    whole = [np.broadcast_to(value, (4, 3)).copy() for value in values]
    expected = function(*whole)
    got = np.broadcast_to(function(*values), np.broadcast_shapes(*(v.shape for v in values)))
    np.testing.assert_array_equal(np.broadcast_to(got, (4, 3)), expected)
    for value, kept in zip(values, before, strict=True):
        np.testing.assert_array_equal(value, kept)


@given(rows=st.lists(st.tuples(anything | special, anything | special), min_size=1, max_size=12))
@pytest.mark.parametrize(
    ("function", "means"),
    [
        (arith.add32, sum_of(32, 1)),
        (arith.sub32, sum_of(32, -1)),
        (arith.mul32, product_of(32)),
        (arith.lesser, chosen(32, larger=False)),
        (arith.greater, chosen(32, larger=True)),
    ],
)
def test_two_operands(function: Callable[..., Array], means: Callable[..., int], rows: list[tuple[int, int]]) -> None:
    check(function, means, rows)


@given(a=numbers, b=numbers)
def test_sums_and_products_are_numpys(a: int, b: int) -> None:
    x, y = floats([a]), floats([b])
    with np.errstate(all="ignore"):
        plain = (x + y, x - y, x * y)
        assume(not any(np.isnan(value).any() for value in plain))
        mine = (arith.add32(x, y), arith.sub32(x, y), arith.mul32(x, y))
    for got, expected in zip(mine, plain, strict=True):
        assert got.view(np.uint32) == expected.view(np.uint32)


@pytest.mark.parametrize("bits", [0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF, 0x7FFFFFFF])
def test_every_nan_of_32_bits_becomes_the_canonical_one(bits: int) -> None:
    found = arith.canonical(floats([0x3F800000, bits, INFINITY]))
    assert [int(x) for x in found.view(np.uint32)] == [0x3F800000, NAN32, INFINITY]


def test_nans_of_64_bits_keep_their_payload() -> None:
    bits = np.array([0x7FF8000000001234, 0x3FF0000000000000], np.uint64)
    np.testing.assert_array_equal(arith.canonical(bits.view(np.float64)).view(np.uint64), bits)


def test_the_exact_sum_of_three_floats() -> None:
    assert arith.fma32_exact(0.1, 3.0, -0.3) == Fraction(0.1) * 3 - Fraction(0.3)
