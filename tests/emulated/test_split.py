"""``split_mma``: float32's accuracy and float32's behaviour at the ends of its range, from TF32 products."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from helpers import tensor_core
from helpers.kernels import RUNGS, compiled, emulator
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

from ladder import catalog
from ladder.backends.emulated import EmulatedBackend
from ladder.check import DATA_KINDS, DataKind, inputs, prove, search
from ladder.check._prove import attempt
from ladder.model import Shape
from ladder.nvrtc import Compiled, compile_rung
from ladder.oracle import compare
from ladder.profiles import load_profile
from ladder.ptx import mma

F32 = NDArray[np.float32]

SPLIT = next(rung for rung in RUNGS if rung.name == "split_mma")
CHAIN = next(rung for rung in RUNGS if rung.name == "register_tile")
PROMOTION = ("float sum[TILES_M][4] = {};", "acc[i][j][e] = __fadd_rn(acc[i][j][e], sum[i][e]);")
# Shared, since a backend keeps the programs that it has read.
EMULATOR = emulator()
# A kernel that runs once is not worth a C compiler's time.
NUMPY = EmulatedBackend(load_profile("h200").device, engine="numpy")


@cache
def variant(*changes: tuple[str, str]) -> Compiled:
    """The rung with pieces of its source replaced, each of which stands there once."""
    source = SPLIT.source
    for old, new in changes:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return compile_rung(replace(SPLIT, source=source), arch="sm_90")


def scaled_by(exponent: int) -> tuple[tuple[str, str], ...]:
    """The changes that scale operands by another power of two, and C by what undoes it."""
    scale, back = f"0x1p{exponent}f", f"0x1p{-2 * exponent}f"
    places = "{{{0} * acc[i][j][h], {0} * acc[i][j][2 + h]}}"
    return (
        ("__fmul_rn(x, 0x1p23f * 8193.0f)", f"__fmul_rn(x, {scale} * 8193.0f)"),
        ("__fmaf_rn(x, 0x1p23f, -p)", f"__fmaf_rn(x, {scale}, -p)"),
        ("__fmaf_rn(x, 0x1p23f, -h)", f"__fmaf_rn(x, {scale}, -h)"),
        (places.format("0x1p-46f"), places.format(back)),
    )


def product(a: F32, b: F32, kernel: Compiled | None = None) -> F32:
    backend = EMULATOR if kernel is None else NUMPY
    c: F32 = backend.run(kernel or compiled(SPLIT), a, b).c
    return c


def chain(a: F32, b: F32) -> F32:
    """One chain of fused multiply-adds in k order, as ``register_tile`` and SGEMM give it."""
    c: F32 = EMULATOR.run(compiled(CHAIN), a, b).c
    return c


# Accuracy -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("k", "share"), [(64, 1.0), (512, 0.5), (2048, 1 / 3)])
def test_it_is_nearer_to_the_exact_product_than_a_chain_of_fmas(kind: str, k: int, share: float) -> None:
    a, b = operands(kind, k)
    assert normwise(product(a, b), a, b) <= share * normwise(chain(a, b), a, b)


@pytest.mark.parametrize("k", [1, 2, 5, 16, 40])
def test_short_sums_lose_no_more_than_the_header_says(k: int) -> None:
    for kind in ("uniform", "normal"):
        a, b = operands(kind, k)
        assert normwise(product(a, b), a, b) <= 1.2e-7
    assert normwise(chain(a, b), a, b) <= 1.2e-7


@pytest.mark.parametrize("promote", [8, 32])
def test_the_other_intervals_that_a_tuner_may_choose_are_as_good(promote: int) -> None:
    assert set(SPLIT.tune["PROMOTE"]) == {8, 16, 32}
    kernel = compile_rung(catalog.with_params(SPLIT, {"PROMOTE": promote}), arch="sm_90")
    a, b = operands("uniform", 512)
    assert normwise(product(a, b, kernel), a, b) <= 0.5 * normwise(chain(a, b), a, b)


def test_sums_that_stay_in_the_tensor_cores_drift() -> None:
    first, last = PROMOTION
    keep = (
        "float sum[TILES_M][4]; for (int i = 0; i < TILES_M; ++i) for (int e = 0; e < 4; ++e) sum[i][e] = acc[i][j][e];"
    )
    drifting = variant((first, keep), (last, "acc[i][j][e] = sum[i][e];"))
    assert prove(NUMPY, drifting, Shape(m=20, n=20, k=40), repeat=False).passed, "the sums are right but for rounding"
    a, b = operands("uniform", 512)
    c = product(a, b, drifting)
    assert normwise(c, a, b) > 5 * normwise(chain(a, b), a, b)
    assert (c < a.astype(np.float64) @ b).mean() > 0.99, "toward zero"


@pytest.mark.parametrize("parts", ["b_lo[s], a_hi[s][i]", "b_hi[s], a_lo[s][i]", "b_hi[s], a_hi[s][i]"])
def test_a_product_that_is_left_out_is_found(parts: str) -> None:
    found = search(NUMPY, variant((f"mma_m16n8k8_tf32(sum[i], {parts}, sum[i]);", ";")), max_examples=1)
    assert found is not None
    assert found.case.kind == ("integers" if parts == "b_hi[s], a_hi[s][i]" else "normal")
    assert found.shape == Shape(m=1, n=1, k=1)


@pytest.mark.parametrize("kind", DATA_KINDS)
@pytest.mark.parametrize("shape", ["35x79x19", "130x70x67"])
def test_all_kinds_of_data(kind: DataKind, shape: str) -> None:
    made = attempt(EMULATOR, compiled(SPLIT), Shape.parse(shape), kind=kind)
    assert made.failure is None


# The ends of the range ------------------------------------------------------------------------------------------------


def assert_right(a: F32, b: F32, kernel: Compiled | None = None) -> None:
    with np.errstate(all="ignore"):
        assert_as_float32(product(a, b, kernel), chain(a, b), a, b, unit_roundoff=SPLIT.unit_roundoff)


@pytest.mark.parametrize("others", [0, 1, 2])
def test_every_pair_of_ends(others: int) -> None:
    assert_right(*pairs_of_ends(others))


@pytest.mark.parametrize(
    ("of_a", "of_b"),
    [(-140, 100), (100, -140), (-140, 80), (80, -140), (-75, -70), (-149, 0), (60, 67), (101, 30), (40, 40)],
)
def test_random_data_at_the_ends(of_a: int, of_b: int) -> None:
    """Subnormal operands, subnormal products, products past the range, sums of which some are computed again."""
    assert_right(*at_the_ends(of_a, of_b))


def test_zeros_beside_large_numbers_cost_no_bits() -> None:
    assert_right(*nothing_beside_much())


def test_specials_reach_their_row_or_column_and_no_other() -> None:
    assert_right(*inputs(Shape(m=70, n=90, k=50), kind="specials"))


def test_a_sum_that_leaves_the_range_on_its_way_is_never_worse_than_a_chain() -> None:
    a, b = there_and_back()
    c, expected = product(a, b), chain(a, b)
    assert 0 < np.isinf(expected).sum() < expected.size
    assert (np.isfinite(c) | ~np.isfinite(expected)).all()
    assert not np.isnan(c).any()


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        # Subnormal parts of small operands are lost.
        (scaled_by(0), "small"),
        # Without the second look: infinity minus infinity.
        ((("if (finite) return;", "return;"),), "specials"),
    ],
    ids=["not scaled", "not computed again"],
)
def test_what_the_ends_need_is_missed(changes: tuple[tuple[str, str], ...], kind: str) -> None:
    if kind == "small":
        a = np.full((4, 3), 2.0**-122 / 3, np.float32)
        b = np.full((3, 4), 2.0**90 / 3, np.float32)
    else:
        a, b = inputs(Shape(m=20, n=20, k=9), kind="specials")
    with np.errstate(all="ignore"):
        broken = product(a, b, variant(*changes))
        assert not compare(broken, a, b, unit_roundoff=SPLIT.unit_roundoff).passed
        assert compare(product(a, b), a, b, unit_roundoff=SPLIT.unit_roundoff).passed


# As an H200's tensor cores add ----------------------------------------------------------------------------------------


@pytest.fixture
def as_an_h200_adds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of the numpy engine lose the bits that an H200's lose."""
    monkeypatch.setattr(mma, "product", tensor_core.product)


@pytest.mark.usefixtures("as_an_h200_adds")
@pytest.mark.parametrize(
    "data",
    [
        *(pytest.param(pairs_of_ends(others), id=f"pairs of ends and {others} others") for others in (0, 1, 2)),
        *(
            pytest.param(at_the_ends(of_a, of_b), id=f"2^{of_a} times 2^{of_b}")
            for of_a, of_b in ((-140, 80), (80, -140), (-149, 60), (40, 40))
        ),
        pytest.param(nothing_beside_much(), id="zeros times much"),
    ],
)
def test_the_ends_hold_though_tensor_cores_drop_low_bits(data: tuple[F32, F32]) -> None:
    assert_right(*data, compiled(SPLIT))


@pytest.mark.usefixtures("as_an_h200_adds")
@pytest.mark.parametrize(("k", "share"), [(64, 1.0), (512, 0.5)])
def test_it_is_as_near_to_the_exact_product_there(k: int, share: float) -> None:
    a, b = operands("uniform", k)
    assert normwise(product(a, b, compiled(SPLIT)), a, b) <= share * normwise(chain(a, b), a, b)


@pytest.mark.usefixtures("as_an_h200_adds")
def test_an_operand_that_is_subnormal_in_tf32_would_lose_bits() -> None:
    """What the GPU gave when operands were scaled by 2^13: 18 bits of 24, beyond the bound."""
    a, b = np.float32([[np.pi * 2.0**20]]), np.float32([[3 * 2.0**-149]])
    lossy = product(a, b, variant(*scaled_by(13)))
    assert lossy == np.float32(1.38484162e-38)
    assert not compare(lossy, a, b, unit_roundoff=SPLIT.unit_roundoff).passed
    assert abs(product(a, b, compiled(SPLIT)) / np.float32(1.38484669e-38) - 1) < 2.0**-22
