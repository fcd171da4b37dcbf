"""The data that rungs are proved with."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import shapes

from ladder.check import DATA_KINDS, SEED, inputs
from ladder.errors import InputError
from ladder.model import Shape
from ladder.oracle import reference


@pytest.mark.parametrize("kind", DATA_KINDS)
@given(shape=shapes(20), seed=st.integers(0, 2**32))
def test_shapes_types_and_repeatability(kind: str, shape: Shape, seed: int) -> None:
    a, b = inputs(shape, seed, kind)
    assert (a.shape, b.shape) == ((shape.m, shape.k), (shape.k, shape.n))
    for matrix in (a, b):
        assert matrix.dtype == np.float32
        assert matrix.flags.c_contiguous
    for first, second in zip((a, b), inputs(shape, seed, kind), strict=True):
        assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize("kind", DATA_KINDS)
def test_seeds_differ(kind: str) -> None:
    shape = Shape(m=9, n=9, k=9)
    assert inputs(shape, 1, kind)[1].tobytes() != inputs(shape, 2, kind)[1].tobytes()


def test_integers_fill_their_range() -> None:
    a, b = inputs(Shape(m=50, n=50, k=50), kind="integers")
    for matrix in (a, b):
        assert set(np.unique(matrix)) == set(range(-8, 9))


def test_integers_shrink_with_k_so_that_sums_stay_exact() -> None:
    k = 2**20
    a, b = inputs(Shape(m=1, n=1, k=k), kind="integers")
    assert np.abs(a).max() ** 2 * k < 2**24
    assert float((np.abs(a) @ np.abs(b))[0, 0]) == float(reference(np.abs(a), np.abs(b))[0, 0])


def test_cancellation_cancels() -> None:
    a, b = inputs(Shape(m=20, n=20, k=33), kind="cancellation")
    a, b = a[:, :32], b[:32]
    ratio = np.abs(reference(a, b)) / reference(np.abs(a), np.abs(b))
    assert 0 < float(np.median(ratio)) < 2.0**-10


def test_tiny_products_are_subnormal() -> None:
    c = reference(*inputs(Shape(m=20, n=20, k=7), kind="tiny"))
    assert 0 < float(np.abs(c).max()) < 2.0**-126


@pytest.mark.parametrize("k", [1, 2, 3, 64, 1000])
def test_huge_products_are_just_in_range(k: int) -> None:
    a, b = inputs(Shape(m=5, n=5, k=k), kind="huge")
    largest = float(reference(np.abs(a), np.abs(b)).max())
    limit = float(np.finfo(np.float32).max)
    assert limit / (16 * k) < largest < limit
    assert np.isfinite(a @ b).all()


def test_identity_selects_rows_and_is_not_symmetric() -> None:
    a, b = inputs(Shape(m=7, n=4, k=5), kind="identity")
    assert np.array_equal(reference(a, b), b[(np.arange(7) + 1) % 5])
    square, _ = inputs(Shape(m=5, n=4, k=5), kind="identity")
    assert not np.array_equal(square, square.T)


def test_specials_leave_most_of_c_finite() -> None:
    a, b = inputs(Shape(m=40, n=40, k=40), kind="specials")
    c = reference(a, b)
    assert not np.isfinite(a).all()
    assert not np.isfinite(b).all()
    assert 0.3 < float(np.isfinite(c).mean()) < 1


def test_kinds_are_named_in_the_refusal() -> None:
    with pytest.raises(InputError, match="integers, normal"):
        inputs(Shape(m=1, n=1, k=1), kind="zeros")


def test_exact_integers_are_refused_past_2_to_24() -> None:
    with pytest.raises(InputError, match=f"K={2**24}"):
        inputs(Shape(m=0, n=0, k=2**24), kind="integers")


def test_the_bits_have_not_changed() -> None:
    # Recorded results of GPUs hold for these very inputs: a numpy that draws others has to be told apart from a kernel
    # that is wrong.
    crcs = {
        kind: [zlib.crc32(matrix.astype("<f4").tobytes()) for matrix in inputs(Shape(m=35, n=79, k=19), SEED, kind)]
        for kind in ("integers", "normal")
    }
    assert crcs == {"integers": [3302073466, 1562510731], "normal": [2236960288, 833510081]}
