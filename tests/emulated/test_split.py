"""``split_mma``: float32's accuracy and float32's behaviour at the ends of its range, from TF32 products."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from helpers.kernels import RUNGS, compiled, emulator
from numpy.typing import NDArray

from ladder import catalog
from ladder.backends.emulated import EmulatedBackend
from ladder.check import DATA_KINDS, DataKind, inputs, prove, search
from ladder.check._prove import attempt
from ladder.model import Shape
from ladder.nvrtc import Compiled, compile_rung
from ladder.oracle import compare
from ladder.profiles import load_profile

F32 = NDArray[np.float32]
Pair = tuple[F32, F32]

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


def product(a: F32, b: F32, kernel: Compiled | None = None) -> F32:
    backend = EMULATOR if kernel is None else NUMPY
    return backend.run(kernel or compiled(SPLIT), a, b).c


def chain(a: F32, b: F32) -> F32:
    """One chain of fused multiply-adds in k order, as ``register_tile`` and SGEMM give it."""
    return EMULATOR.run(compiled(CHAIN), a, b).c


def normwise(c: F32, a: F32, b: F32) -> float:
    """Error over result, in the Frobenius norm, with the scale of A's rows and of B's columns taken out of both.

    Left in, a scale over many decades would make the norms those of a handful of elements.
    """
    exact = a.astype(np.float64) @ b.astype(np.float64)
    scale = np.outer(np.abs(a).max(axis=1), np.abs(b).max(axis=0).astype(np.float64))
    return float(np.linalg.norm((c - exact) / scale) / np.linalg.norm(exact / scale))


def operands(kind: str, k: int) -> Pair:
    rng = np.random.default_rng(k)
    m, n = 40, 56
    if kind == "uniform":
        a, b = rng.random((m, k)), rng.random((k, n))
    else:
        a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    if kind == "scaled":
        a, b = a * 10.0 ** rng.uniform(-6, 6, (m, 1)), b * 10.0 ** rng.uniform(-6, 6, (1, n))
    return a.astype(np.float32), b.astype(np.float32)


# Accuracy -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["uniform", "normal", "scaled"])
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


def of_bits(*bits: int) -> F32:
    return np.array(bits, np.uint32).view(np.float32)


MAX = np.finfo(np.float32).max
EVERY = np.concatenate(
    [
        np.array(
            [0.0, 1, 3, 4096, 1 / 3, np.pi * 2.0**20, np.inf, np.nan, MAX, MAX / 3, 2.0**115, 2.0**102], np.float32
        ),
        np.array([2.0**102 * (1 - 2.0**-24), 2.0**101 / 3, 2.0**64 / 3, 2.0**63 * 1.7], np.float32),
        # NaN that a tensor core reads as infinity, and the GPU's own.
        of_bits(0x7F800001, 0x7FFFFFFF),
        # The largest that TF32 holds, and the first two that it rounds to infinity.
        of_bits(0x7F7FE000, 0x7F7FF000, 0x7F7FF001),
        # Normal numbers whose second half is not, the smallest one, subnormal ones.
        np.array([2.0**-113 / 3, 2.0**-120 / 3, 2.0**-126, 2.0**-126 * 1.3], np.float32),
        of_bits(0x007FFFFF, 0x00412345, 0x00001FFF, 0x1001, 3, 1),
    ]
)
EVERY = np.concatenate([EVERY, -EVERY])


def assert_as_float32(c: F32, a: F32, b: F32) -> None:
    """Right within the bound; not finite exactly where float32's chain is not, and then the same; the same if huge."""
    expected = chain(a, b)
    odd = ~np.isfinite(expected)
    assert (np.isfinite(c) == ~odd).all()
    assert np.array_equal(c[odd], expected[odd], equal_nan=True)
    verdict = compare(c, a, b, unit_roundoff=SPLIT.unit_roundoff)
    assert verdict.passed, verdict
    huge = (np.abs(a) >= 2.0**102).any(axis=1)[:, None] | (np.abs(b) >= 2.0**102).any(axis=0)[None, :]
    assert np.array_equal(c[huge], expected[huge], equal_nan=True)


@pytest.mark.parametrize("k", [0, 1, 2])
def test_every_pair_of_ends(k: int) -> None:
    """Alone, or with a one and with a full mantissa beside them in the sum."""
    others = np.array([1.0, -1.2345678][:k], np.float32)
    a = np.column_stack([EVERY, np.tile(others, (len(EVERY), 1))])
    b = np.vstack([EVERY, np.tile(others[::-1, None], (1, len(EVERY)))])
    with np.errstate(all="ignore"):
        assert_as_float32(product(a, b), a, b)


@pytest.mark.parametrize(("of_a", "of_b"), [(-140, 100), (100, -140), (-75, -70), (-149, 0), (60, 67), (101, 30)])
def test_random_data_at_the_ends(of_a: int, of_b: int) -> None:
    """Subnormal operands, subnormal products, products past the range."""
    rng = np.random.default_rng(7)
    a = (rng.uniform(-2, 2, (33, 45)) * 2.0**of_a).astype(np.float32)
    b = (rng.uniform(-2, 2, (45, 37)) * 2.0**of_b).astype(np.float32)
    assert_as_float32(product(a, b), a, b)


def test_specials_reach_their_row_or_column_and_no_other() -> None:
    a, b = inputs(Shape(m=70, n=90, k=50), kind="specials")
    with np.errstate(all="ignore"):
        assert_as_float32(product(a, b), a, b)


def test_a_sum_that_leaves_the_range_on_its_way_is_never_worse_than_a_chain() -> None:
    rng = np.random.default_rng(8)
    a = (rng.choice((-1.0, 1.0), (40, 32)) * 2.0**64).astype(np.float32)
    b = (rng.uniform(1, 2, (32, 40)) * 2.0**62).astype(np.float32)
    c, expected = product(a, b), chain(a, b)
    assert 0 < np.isinf(expected).sum() < expected.size
    assert (np.isfinite(c) | ~np.isfinite(expected)).all()
    assert not np.isnan(c).any()


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        # Without the scale: subnormal parts of small operands are lost.
        ((("8192.0f * 8193.0f", "8193.0f"),), "small"),
        # Without the second look: infinity minus infinity.
        ((("if (finite) return;", "return;"),), "specials"),
    ],
    ids=["not scaled", "not computed again"],
)
def test_what_the_ends_need_is_missed(changes: tuple[tuple[str, str], ...], kind: str) -> None:
    if kind == "small":
        changes = (*changes, *plain_scale())
        a = np.full((4, 3), 2.0**-122 / 3, np.float32)
        b = np.full((3, 4), 2.0**90 / 3, np.float32)
    else:
        a, b = inputs(Shape(m=20, n=20, k=9), kind="specials")
    with np.errstate(all="ignore"):
        broken = product(a, b, variant(*changes))
        assert not compare(broken, a, b, unit_roundoff=SPLIT.unit_roundoff).passed
        assert compare(product(a, b), a, b, unit_roundoff=SPLIT.unit_roundoff).passed


def plain_scale() -> tuple[tuple[str, str], ...]:
    """What turns the scales of operands and of C into ones, beside the first."""
    return (
        ("__fmaf_rn(x, 8192.0f, -p)", "__fmaf_rn(x, 1.0f, -p)"),
        ("__fmaf_rn(x, 8192.0f, -h)", "__fmaf_rn(x, 1.0f, -h)"),
        ("{0x1p-26f * acc[i][j][h], 0x1p-26f * acc[i][j][2 + h]}", "{acc[i][j][h], acc[i][j][2 + h]}"),
    )
