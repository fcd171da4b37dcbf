"""The judge on the GPU, with a double of torch: it passes what numpy's oracle passes, and sees each kind of fault."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.fake_backend import FakeBackend, chain, fake_kernel
from helpers.fake_torch import FakeTensor, fake_torch

from bench import accuracy
from bench.gpu_oracle import GUARD_WORDS, GpuOracle
from ladder.check import prove
from ladder.model import FP32_UNIT_ROUNDOFF, Check, Shape

SHAPE = Shape(m=19, n=23, k=37)
TORCH = fake_torch()


def right(a: Any, b: Any, out: Any) -> None:
    out[...] = chain(np.asarray(a), np.asarray(b))


def judged(multiply: Callable[[Any, Any, Any], None], **options: Any) -> Check:
    rules = {"unit_roundoff": FP32_UNIT_ROUNDOFF, "ordered": True} | options
    return GpuOracle(TORCH, SHAPE).prove(multiply, **rules)


def test_what_is_right_has_the_verdict_and_the_checksum_of_numpys_oracle() -> None:
    found, expected = judged(right), prove(FakeBackend(), fake_kernel(), SHAPE)
    assert found.passed
    assert (found.crc32, found.exact_integers) == (expected.crc32, True)
    assert found.worst_error_over_bound == pytest.approx(expected.worst_error_over_bound)
    assert judged(right, ordered=False).crc32 is None


def spoiled(spoil: Callable[[FakeTensor, FakeTensor, FakeTensor], None], *, normal_only: bool = False) -> Any:
    def multiply(a: Any, b: Any, out: Any) -> None:
        right(a, b, out)
        if not normal_only or not np.array_equal(a, np.round(a)):
            spoil(a, b, out)

    return multiply


def memory_of(out: Any) -> np.ndarray:
    """All words around ``out``."""
    whole = out
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    assert whole.size == out.size + 2 * GUARD_WORDS
    return np.asarray(whole)


def set_to(value: float) -> Callable[[Any, Any, Any], None]:
    def spoil(_a: Any, _b: Any, out: Any) -> None:
        out[7, 5] = value

    return spoil


def store_at(index: int) -> Callable[[Any, Any, Any], None]:
    def spoil(_a: Any, _b: Any, out: Any) -> None:
        memory_of(out)[index] = 1

    return spoil


def change_b(_a: Any, b: Any, _out: Any) -> None:
    b[0, 0] += 1


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (set_to(1.5), r"\(integers\): C\[row 7, column 5\]: got 1.5, .* integers must match exactly"),
        (set_to(np.nan), r"C\[row 7, column 5\]: got nan, .*\(1 elements wrong\): integers must match"),
        (store_at(GUARD_WORDS - 1), "wrote before C"),
        (store_at(0), "wrote before C"),
        (store_at(-GUARD_WORDS), "wrote past the end of C"),
        (store_at(-1), "wrote past the end of C"),
        (change_b, "changed its input B"),
    ],
)
def test_each_fault_is_seen(spoil: Any, words: str) -> None:
    check = judged(spoiled(spoil))
    assert not check.passed
    assert not check.exact_integers
    assert check.failure is not None
    assert re.search(words, check.failure)


def test_what_one_rung_does_to_its_operands_is_undone_for_the_next() -> None:
    oracle, rules = GpuOracle(TORCH, SHAPE), {"unit_roundoff": FP32_UNIT_ROUNDOFF, "ordered": True}
    assert not oracle.prove(spoiled(change_b), **rules).passed
    assert oracle.prove(right, **rules).passed


def test_an_element_that_is_never_written_is_seen() -> None:
    def multiply(a: Any, b: Any, out: Any) -> None:
        out[:-1] = chain(np.asarray(a), np.asarray(b))[:-1]

    failure = judged(multiply).failure or ""
    assert "C[row 18, column 0]" in failure
    assert "(23 elements wrong): the element was never written" in failure


def test_an_error_over_the_bound_of_normal_data_is_seen() -> None:
    def spoil(_a: Any, _b: Any, out: Any) -> None:
        out[3, 4] *= np.float32(1 + 2.0**-9)

    check = judged(spoiled(spoil, normal_only=True))
    assert check.exact_integers
    assert "(normal): C[row 3, column 4]" in (check.failure or "")
    assert "error over the bound" in (check.failure or "")
    assert judged(spoiled(spoil, normal_only=True), unit_roundoff=2.0**-11, ordered=False).passed


def test_other_bits_in_a_second_run_are_seen() -> None:
    runs: list[int] = []

    def spoil(_a: Any, _b: Any, out: Any) -> None:
        runs.append(0)
        out[0, 0] = np.nextafter(out[0, 0], np.float32(np.inf if len(runs) == 2 else out[0, 0]))

    check = judged(spoiled(spoil, normal_only=True))
    assert "other bits in a second run" in (check.failure or "")


def test_no_bound_exists_at_low_precision_and_large_k_and_the_rule_is_numpys() -> None:
    shape = Shape(m=3, n=4, k=3000)
    found = GpuOracle(TORCH, shape).prove(right, unit_roundoff=2.0**-11, ordered=False)
    expected = prove(FakeBackend(), fake_kernel(unit_roundoff=2.0**-11, ordered=False), shape)
    assert found.worst_error_over_bound == pytest.approx(expected.worst_error_over_bound)


@pytest.mark.parametrize("data", accuracy.DATA)
def test_errors_of_an_exact_product_are_those_of_its_rounding(data: str) -> None:
    found = accuracy.errors_of(TORCH, lambda a, b, out: TORCH.mm(a, b, out=out), accuracy.operands(SHAPE, data))
    for value in (found.normwise, found.equilibrated, found.componentwise):
        assert 0 < value <= FP32_UNIT_ROUNDOFF


def test_a_wrong_small_row_shows_in_the_equilibrated_error_alone() -> None:
    given = accuracy.operands(SHAPE, "scaled")
    smallest = int(np.argmin(given.row_scale))

    def multiply(a: Any, b: Any, out: Any) -> None:
        TORCH.mm(a, b, out=out)
        out[smallest] *= 2

    found = accuracy.errors_of(TORCH, multiply, given)
    assert found.normwise < 1e-4
    assert found.equilibrated > 0.05
    assert found.componentwise > 1e-3
    whole = accuracy.errors_of(TORCH, lambda a, b, out: TORCH.mm(a, 2 * b, out=out), given)
    assert whole.normwise == pytest.approx(1, rel=1e-6)
    assert whole.equilibrated == pytest.approx(1, rel=1e-6)


def test_a_product_that_writes_nothing_has_no_error_but_nan() -> None:
    found = accuracy.errors_of(TORCH, lambda *_: None, accuracy.operands(SHAPE, "normal"))
    assert np.isnan(found.normwise)
    assert np.isnan(found.componentwise)


def test_data_of_the_errors() -> None:
    uniform, scaled = (accuracy.operands(SHAPE, data) for data in ("uniform", "scaled"))
    assert uniform.a.min() >= 0
    assert uniform.b.max() < 1
    sizes = np.abs(scaled.a).max(axis=1)
    assert sizes.max() / sizes.min() > 1e9
    assert 1e-6 <= scaled.col_scale.min() < scaled.col_scale.max() < 1e6
    np.testing.assert_array_equal(scaled.a, accuracy.operands(SHAPE, "scaled").a)
