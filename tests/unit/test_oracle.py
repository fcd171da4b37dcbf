"""The bounds hold for every order of summation, and nothing wrong gets past the comparison."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from helpers.fake_backend import chain
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from strategies import shapes

from ladder.check import DATA_KINDS, DataKind, inputs
from ladder.errors import InputError
from ladder.model import FP32_UNIT_ROUNDOFF, Shape
from ladder.oracle import (
    POISON_BITS,
    Mismatch,
    Verdict,
    _compare,
    bound,
    compare,
    exact_integer_limit,
    gamma,
    known,
    normal_bound,
    poison,
    reference,
)

F32 = NDArray[np.float32]
U = FP32_UNIT_ROUNDOFF


def judge(c: F32, a: F32, b: F32, *, exact: bool = False, normal: bool = False) -> Verdict:
    return compare(c, a, b, unit_roundoff=U, exact=exact, normal=normal)


def pairwise(a: F32, b: F32) -> F32:
    """Products rounded first, then summed in a tree."""
    with np.errstate(invalid="ignore", over="ignore"):
        terms = a[:, :, None] * b[None, :, :]
        while terms.shape[1] > 1:
            half = terms.shape[1] // 2
            terms = np.concatenate([terms[:, :half] + terms[:, half : 2 * half], terms[:, 2 * half :]], axis=1)
    return np.zeros((a.shape[0], b.shape[1]), np.float32) if terms.shape[1] == 0 else terms[:, 0]


def test_gamma_is_highams() -> None:
    assert gamma(0, U) == 0
    assert gamma(1, 0.25) == pytest.approx(1 / 3)
    assert gamma(4096, U) == pytest.approx(4096 * U, rel=1e-3)
    assert gamma(4096, U) > 4096 * U


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_gamma_bounds_products_of_errors(j: int, k: int) -> None:
    # Higham, lemma 3.3: (1 + gamma_j)(1 + gamma_k) <= 1 + gamma_{j + k}.
    exact = (1 + Fraction(gamma(j, U))) * (1 + Fraction(gamma(k, U)))
    assert exact <= (1 + Fraction(gamma(j + k, U))) * (1 + Fraction(1, 2**50))


@pytest.mark.parametrize(("k", "u"), [(2**24, U), (-1, U), (4, 0.25), (3, 0.0)])
def test_gamma_refuses_what_has_no_bound(k: int, u: float) -> None:
    with pytest.raises(InputError, match=rf"K={k}|k={k}"):
        gamma(k, u)


def test_reference_is_the_exact_product() -> None:
    a, b = inputs(Shape(m=3, n=4, k=5), kind="uniform")
    exact = [
        [float(sum(Fraction(float(a[i, k])) * Fraction(float(b[k, j])) for k in range(5))) for j in range(4)]
        for i in range(3)
    ]
    np.testing.assert_allclose(reference(a, b), exact, rtol=1e-14, atol=1e-15)


@given(shapes(40), st.sampled_from(DATA_KINDS), st.integers(0, 10**6))
def test_every_order_of_summation_is_within_the_bound(shape: Shape, kind: str, seed: int) -> None:
    a, b = inputs(shape, seed, kind)
    order = np.random.default_rng(seed).permutation(shape.k)
    finite = kind != "specials"
    for c in (chain(a, b), chain(a[:, order], b[order]), pairwise(a, b)):
        verdict = judge(c, a, b, exact=kind == "integers", normal=kind == "normal")
        assert verdict.passed, verdict
        if finite and verdict.worst_error_over_bound is not None:
            assert (np.abs(c - reference(a, b)) <= bound(a, b, unit_roundoff=U)).all()


@given(shapes(12, smallest=1), st.data())
def test_no_wrong_element_passes(shape: Shape, data: st.DataObject) -> None:
    a, b = inputs(shape, kind="integers")
    c = chain(a, b)
    row, col = data.draw(st.integers(0, shape.m - 1)), data.draw(st.integers(0, shape.n - 1))
    right = float(c[row, col])
    wrong = data.draw(st.sampled_from([math.nan, math.inf, -math.inf, right + 1, right - 1]))
    c[row, col] = wrong
    verdict = judge(c, a, b, exact=True)
    assert not verdict.passed
    assert verdict.wrong == 1
    assert verdict.first is not None
    assert (verdict.first.row, verdict.first.col, verdict.first.expected) == (row, col, right)
    assert verdict.first.got == wrong or math.isnan(wrong)
    assert verdict.first.reason == ("not exact" if math.isfinite(wrong) else "non-finite")


@pytest.mark.parametrize("flags", [{}, {"exact": True}, {"normal": True}])
def test_nan_never_passes(flags: dict[str, bool]) -> None:
    a, b = inputs(Shape(m=2, n=3, k=4), kind="integers")
    c = chain(a, b)
    c[1, 2] = np.nan
    verdict = judge(c, a, b, **flags)
    assert verdict.first is not None
    assert verdict.first.reason == "non-finite"
    assert verdict.worst_error_over_bound == (None if "exact" in flags else math.inf)


def test_poison_is_told_apart_from_a_computed_nan() -> None:
    a, b = inputs(Shape(m=2, n=2, k=4), kind="integers")
    c = chain(a, b)
    c[1, 1] = poison((1,))[0]
    assert c.view(np.uint32)[1, 1] == POISON_BITS
    assert "never written" in str(judge(c, a, b, exact=True))
    c[1, 1] = np.nan
    assert "not finite" in str(judge(c, a, b, exact=True))


def test_the_gravest_reason_is_reported_and_all_are_counted() -> None:
    a, b = inputs(Shape(m=3, n=2, k=4), kind="integers")
    c = chain(a, b)
    c[0, 0] += 1
    c[2, 1] = np.inf
    verdict = judge(c, a, b, exact=True)
    assert verdict.wrong == 2
    assert verdict.elements == 6
    assert verdict.first is not None
    assert (verdict.first.row, verdict.first.col) == (2, 1)
    c[1, 0] = poison((1,))[0]
    assert "C[row 1, column 0]" in str(judge(c, a, b, exact=True))


def test_first_mismatch_reads_in_one_line() -> None:
    mismatch = Mismatch(row=3, col=5, got=math.nan, expected=12.5, bound=0.0, reason="non-finite")
    assert str(mismatch) == "C[row 3, column 5]: got nan, expected 12.5, bound 0: not finite where the product is"


def test_bound_is_zero_without_k_and_zeros_are_required() -> None:
    a, b = np.zeros((2, 0), np.float32), np.zeros((0, 3), np.float32)
    assert (bound(a, b, unit_roundoff=U) == 0).all()
    assert (normal_bound(a, b, unit_roundoff=U) == 0).all()
    assert judge(np.zeros((2, 3), np.float32), a, b).passed
    smallest = np.full((2, 3), 2.0**-149, np.float32)
    verdict = judge(smallest, a, b)
    assert not verdict.passed
    assert verdict.worst_error_over_bound == math.inf


@pytest.mark.parametrize(("m", "n"), [(0, 3), (3, 0), (0, 0)])
def test_empty_products_pass(m: int, n: int) -> None:
    a, b = np.ones((m, 4), np.float32), np.ones((4, n), np.float32)
    assert judge(np.empty((m, n), np.float32), a, b) == Verdict(passed=True, worst_error_over_bound=None)


def test_low_precision_at_large_k_keeps_a_bound() -> None:
    a, b = np.ones((1, 8), np.float32), np.ones((8, 1), np.float32)
    assert bound(a, b, unit_roundoff=0.25)[0, 0] == pytest.approx(8 * 0.25 * 8)
    for value, passes in [(8.0, True), (24.0, True), (25.0, False), (math.nan, False)]:
        assert compare(np.full((1, 1), value, np.float32), a, b, unit_roundoff=0.25).passed is passes
    assert not compare(np.full((1, 1), 20.0, np.float32), a, b, unit_roundoff=2.0**-4, normal=True).passed


def test_error_at_the_bound_passes_and_beyond_it_fails() -> None:
    a, b = np.ones((1, 4), np.float32), np.ones((4, 1), np.float32)
    allowed = float(bound(a, b, unit_roundoff=U)[0, 0])
    assert allowed == pytest.approx(16 * U)
    assert judge(np.full((1, 1), 4 + 2.0**-21, np.float32), a, b).passed
    verdict = judge(np.full((1, 1), 4 + 2.0**-19, np.float32), a, b)
    assert verdict.first is not None
    assert verdict.first.reason == "over the bound"
    assert verdict.worst_error_over_bound == pytest.approx(2.0**-19 / allowed)


def test_normal_bound_sees_a_lost_term_that_gamma_hides() -> None:
    a, b = inputs(Shape(m=1, n=1, k=4096), kind="normal")
    lost = int(np.argmin(np.abs(np.abs(a[0] * b[:, 0]) - 0.2)))
    c = chain(np.delete(a, lost, 1), np.delete(b, lost, 0))
    assert judge(c, a, b).passed
    verdict = judge(c, a, b, normal=True)
    assert verdict.first is not None
    assert verdict.first.reason == "over the normal bound"
    assert verdict.first.bound == normal_bound(a, b, unit_roundoff=U)[0, 0]


def test_subnormal_products_need_the_absolute_term() -> None:
    a, b = np.full((1, 1), 1.5 * 2.0**-75, np.float32), np.full((1, 1), 1.75 * 2.0**-74, np.float32)
    c = a * b
    error = abs(float(c[0, 0]) - float(reference(a, b)[0, 0]))
    assert error > gamma(1, U) * float(reference(a, b)[0, 0])
    assert judge(c, a, b, normal=True).passed
    assert not judge(c + np.float32(2.0**-148), a, b).passed


def test_infinities_and_nan_must_reach_c() -> None:
    a = np.array([[1, np.inf], [1, 2], [np.nan, 0], [np.inf, 1]], np.float32)
    b = np.array([[1, 0], [-1, 1]], np.float32)
    right = np.array([[-np.inf, np.inf], [-1, 2], [np.nan, np.nan], [np.inf, np.nan]], np.float32)
    assert np.array_equal(reference(a, b), right, equal_nan=True)
    assert judge(right, a, b).passed
    for row, col, wrong in [(0, 0, np.inf), (0, 1, 3.0), (0, 1, np.nan), (2, 0, np.inf), (3, 1, 0.0), (1, 1, np.nan)]:
        c = right.copy()
        c[row, col] = wrong
        verdict = judge(c, a, b)
        assert verdict.wrong == 1
        assert verdict.first is not None
        assert (verdict.first.row, verdict.first.col) == (row, col)


def test_overflow_may_give_infinity_but_not_nan() -> None:
    a, b = np.full((1, 2), 2.0**100, np.float32), np.array([[2.0**100], [-(2.0**100)]], np.float32)
    for value, passes in [(np.inf, True), (0.0, True), (np.nan, False)]:
        assert judge(np.full((1, 1), value, np.float32), a, b).passed is passes
    a[0, 1] = 0
    assert judge(np.full((1, 1), np.inf, np.float32), a, b).passed
    assert not judge(np.full((1, 1), np.finfo(np.float32).max), a, b).passed


def test_verdict_does_not_depend_on_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = inputs(Shape(m=37, n=5, k=9), kind="normal")
    c = chain(a, b)
    whole = judge(c, a, b, normal=True)
    broken = c.copy()
    broken[30, 2] += 1
    broken[36, 4] = np.nan
    whole_broken = judge(broken, a, b)
    monkeypatch.setattr(_compare, "ROWS_A_CHUNK_ELEMENTS", 40)
    assert judge(c, a, b, normal=True).passed
    assert judge(c, a, b, normal=True).worst_error_over_bound == pytest.approx(whole.worst_error_over_bound)
    chunked = judge(broken, a, b)
    assert chunked.wrong == whole_broken.wrong == 2
    assert chunked.first is not None
    assert (chunked.first.row, chunked.first.col) == (36, 4)


@given(st.integers(1, 2**24 - 1))
def test_exact_integers_stay_below_2_to_24(k: int) -> None:
    limit = exact_integer_limit(k)
    assert 1 <= limit <= 8
    assert limit**2 * k < 2**24
    assert limit == 8 or (limit + 1) ** 2 * k >= 2**24


def test_exact_integers_end_where_the_docstring_says() -> None:
    assert exact_integer_limit(0) == 8
    assert exact_integer_limit(262143) == 8
    assert exact_integer_limit(262144) == 7
    with pytest.raises(InputError, match="K=16777216"):
        exact_integer_limit(2**24)


def test_misfits_are_refused() -> None:
    a, b = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
    with pytest.raises(InputError, match="do not multiply"):
        reference(b, a)
    with pytest.raises(InputError, match="float64"):
        reference(a.astype(np.float64), b)
    with pytest.raises(InputError, match=r"C is float32 \(4, 2\)"):
        judge(np.ones((4, 2), np.float32), a, b)


def test_verdict_cannot_contradict_itself() -> None:
    with pytest.raises(ValueError, match="contradicts"):
        Verdict(passed=True, worst_error_over_bound=0.0, wrong=1)


@given(shape=shapes(20), kind=st.sampled_from(DATA_KINDS), wrong=st.booleans(), exact=st.booleans())
def test_a_verdict_is_the_same_against_a_product_that_was_kept(
    shape: Shape, kind: DataKind, wrong: bool, exact: bool
) -> None:
    a, b = inputs(shape, kind=kind)
    c = chain(a, b)
    if wrong and c.size:
        c[-1, -1] += np.float32(1)
    one = judge(c, a, b, exact=exact, normal=kind == "normal")
    for kept in (known(a, b), known(a, b, exact=True)):
        again = compare(c, a, b, unit_roundoff=U, exact=exact, normal=kind == "normal", against=kept)
        assert (again.passed, again.wrong, again.first is None) == (one.passed, one.wrong, one.first is None)
        ratios = [verdict.worst_error_over_bound for verdict in (one, again)]
        assert ratios == [None, None] or ratios[1] == pytest.approx(ratios[0], rel=1e-6)
