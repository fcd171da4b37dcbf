"""Rungs that split float32 operands, on a real GPU: what the emulator and a model of its tensor cores promise."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.on_gpu import RUNGS, backend, compiled
from helpers.split import (
    KINDS,
    assert_as_float32,
    at_the_ends,
    normwise,
    nothing_beside_much,
    operands,
    pairs_of_ends,
    there_and_back,
)
from numpy.typing import NDArray

from ladder.check import inputs
from ladder.model import Rung, Shape

pytestmark = pytest.mark.gpu

F32 = NDArray[np.float32]

CHAIN, SPLIT_MMA = (next(rung for rung in RUNGS if rung.name == name) for name in ("register_tile", "split_mma"))

each_rung = pytest.mark.parametrize(
    "rung", [pytest.param(rung, id=rung.name) for rung in RUNGS if rung.precision == "fp32_split"]
)


def product(rung: Rung, a: F32, b: F32) -> F32:
    reason = rung.why_not_on(backend().device)
    if reason is not None:
        pytest.skip(f"{rung.name} {reason}")
    c: F32 = backend().run(compiled(rung), a, b).c
    return c


def chain(a: F32, b: F32) -> F32:
    c: F32 = backend().run(compiled(CHAIN), a, b).c
    return c


@each_rung
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("k", "share"), [(128, 1.0), (512, 0.5), (2048, 1 / 3), (8192, 1 / 3)])
def test_it_is_nearer_to_the_exact_product_than_a_chain_of_fmas(rung: Rung, kind: str, k: int, share: float) -> None:
    a, b = operands(kind, k, m=256, n=320)
    assert normwise(product(rung, a, b), a, b) <= share * normwise(chain(a, b), a, b)


@pytest.mark.parametrize("kind", KINDS)
def test_with_sums_of_sixteen_products_it_is_nearer_from_a_k_of_64_on(kind: str) -> None:
    assert SPLIT_MMA.params["PROMOTE"] == 16
    a, b = operands(kind, 64, m=256, n=320)
    assert normwise(product(SPLIT_MMA, a, b), a, b) <= normwise(chain(a, b), a, b)


@each_rung
@pytest.mark.parametrize(
    "data",
    [
        *(pytest.param(pairs_of_ends(others), id=f"pairs of ends and {others} others") for others in (0, 1, 2)),
        *(
            pytest.param(at_the_ends(of_a, of_b), id=f"2^{of_a} times 2^{of_b}")
            for of_a, of_b in (
                (-140, 100), (100, -140), (-140, 80), (80, -140), (-149, 60),
                (-75, -70), (-149, 0), (60, 67), (101, 30), (40, 40),
            )
        ),
        pytest.param(nothing_beside_much(), id="zeros times much"),
        pytest.param(inputs(Shape(m=70, n=90, k=50), kind="specials"), id="specials"),
        pytest.param(inputs(Shape(m=300, n=260, k=515), kind="specials"), id="more specials"),
    ],
)  # fmt: skip
def test_the_ends_of_the_range_are_those_of_float32(rung: Rung, data: tuple[F32, F32]) -> None:
    a, b = data
    with np.errstate(all="ignore"):
        assert_as_float32(product(rung, a, b), chain(a, b), a, b, unit_roundoff=rung.unit_roundoff)


@each_rung
def test_a_sum_that_leaves_the_range_on_its_way_is_never_worse_than_a_chain(rung: Rung) -> None:
    a, b = there_and_back()
    c, expected = product(rung, a, b), chain(a, b)
    assert (np.isfinite(c) | ~np.isfinite(expected)).all()
    assert not np.isnan(c[np.isfinite(expected)]).any()
