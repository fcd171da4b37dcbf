"""Faults of the checker: what passed because of how it was compared, beside the comparison that let it by."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
from helpers import fake_backend as fake
from helpers.fake_backend import FakeBackend, fake_kernel
from helpers.kernels import mutant
from helpers.shipped_faults import NUMPY, broken, of_file, sound, tried

from ladder.check import inputs, prove, search
from ladder.model import FP32_UNIT_ROUNDOFF, Shape
from ladder.oracle import compare, reference

RAGGED = Shape.parse("35x79x19")


def test_nan_passes_the_checker() -> None:
    """``if (abs(c - expected) > tolerance) fail``: false for NaN, whatever the tolerance."""
    a, b = inputs(RAGGED)
    c = NUMPY.run(mutant("nan_writer"), a, b).c
    assert np.isnan(c).any()
    assert not (np.abs(c - a @ b) > 0.01).any(), "so it went by for years"
    assert re.search(
        "got nan, .*not finite where the product is", str(compare(c, a, b, unit_roundoff=FP32_UNIT_ROUNDOFF))
    )
    assert not prove(NUMPY, mutant("nan_writer"), RAGGED).passed
    assert prove(NUMPY, mutant("right"), RAGGED).passed


def test_c_is_nan_before_the_launch() -> None:
    """A kernel that adds to what it finds is right in an allocation that happens to be zero."""
    kernel = mutant("accumulates_into_c")
    lucky = replace(kernel, rung=replace(kernel.rung, c_init="zero"))
    assert tried(lucky, "35x79x19").failure is None
    assert re.search(r"C\[row 0, column 0\]: got nan", str(tried(kernel, "35x79x19").failure))
    assert tried(mutant("right"), "35x79x19").failure is None


def test_recycled_memory_that_still_holds_the_right_answer() -> None:
    """A kernel that stores nothing, run where the right one has just left its C, on the same data."""
    idle = broken(
        "naive", ("  C[size_t(row) * N + col] = acc;\n", "  if (acc == 1e30f) C[size_t(row) * N + col] = acc;\n")
    )
    for _ in range(2):
        assert tried(sound("naive"), "35x79x19").failure is None
        assert re.search("never written .2765 of 2765 elements wrong", str(tried(idle, "35x79x19").failure))


def test_memory_of_the_product_before_is_no_answer_to_this_one() -> None:
    """Where a backend hands out the C of an earlier run, other data of the same shape shows it."""
    assert "(normal): C[row 0, column 0]" in str(prove(FakeBackend(fake.stale), fake_kernel(), RAGGED).failure)
    assert prove(FakeBackend(), fake_kernel(), RAGGED).passed


def test_tf32_compared_with_an_fp32_tolerance() -> None:
    """Right by its own roundoff, wrong by float32's; and what is cut too far is wrong by both."""
    kernel = sound("tensor_tf32")
    as_fp32 = replace(kernel, rung=replace(kernel.rung, unit_roundoff=FP32_UNIT_ROUNDOFF))
    assert kernel.rung.unit_roundoff > 1000 * FP32_UNIT_ROUNDOFF
    assert tried(kernel, "32x40x64", kind="normal").failure is None
    assert "error over" in str(tried(as_fp32, "32x40x64", kind="normal").failure)
    for exact in (kernel, as_fp32):
        assert tried(exact, "32x40x64", kind="integers").failure is None, "integers do not tell them apart"
    a, b = inputs(Shape.parse("32x40x64"))
    coarse = a.copy()
    coarse[:, 0] = 0  # a k that is left out
    assert np.allclose(coarse @ b, a @ b, atol=10), "and a tolerance for TF32 at large K lets anything by"
    assert not compare(coarse @ b, a, b, unit_roundoff=kernel.rung.unit_roundoff, normal=True).passed


def test_a_fixed_tolerance_under_cancellation() -> None:
    """rtol calls a right kernel wrong where sums cancel, atol a wrong one right where numbers are small."""
    a, b = inputs(Shape.parse("16x20x255"), kind="cancellation")
    right, short = (NUMPY.run(mutant(name), a, b).c for name in ("right", "last_k_missing"))
    assert not np.allclose(right, reference(a, b), rtol=1e-5, atol=0)
    assert compare(right, a, b, unit_roundoff=FP32_UNIT_ROUNDOFF).passed
    assert not compare(short, a, b, unit_roundoff=FP32_UNIT_ROUNDOFF).passed

    a, b = (np.float32(2.0**-6) * values for values in inputs(Shape.parse("16x20x256")))
    right, cut = (NUMPY.run(mutant(name), a, b).c for name in ("right", "operands_cut"))
    assert np.allclose(cut, reference(a, b), rtol=0, atol=0.01)
    assert compare(right, a, b, unit_roundoff=FP32_UNIT_ROUNDOFF, normal=True).passed
    assert not compare(cut, a, b, unit_roundoff=FP32_UNIT_ROUNDOFF, normal=True).passed


def test_infinities_turned_into_nan_by_a_split() -> None:
    """infinity - infinity, the rest of an infinite operand, is NaN; finite data never asks for it."""
    split, guarded = of_file("split", GUARD=0), of_file("split")
    assert prove(NUMPY, split, RAGGED).passed
    found = search(NUMPY, split, max_examples=5)
    assert found is not None
    assert found.case.kind == "specials"
    assert re.search("got nan, expected -?inf", str(found))
    assert search(NUMPY, guarded, max_examples=5) is None
    a, b = np.array([[np.inf, 1]], np.float32), np.array([[2.0], [3.0]], np.float32)
    assert NUMPY.run(guarded, a, b).c[0, 0] == np.inf
    assert np.isnan(NUMPY.run(split, a, b).c[0, 0])
