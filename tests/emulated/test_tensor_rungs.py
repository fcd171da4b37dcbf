"""The tensor-core rungs: what TF32 keeps of an operand, and shared memory without a bank conflict."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.kernels import RUNGS, compiled, emulator
from numpy.typing import NDArray

from ladder.check import inputs
from ladder.model import Rung, Shape

F32 = NDArray[np.float32]

BY_NAME = {rung.name: rung for rung in RUNGS}
TF32 = BY_NAME["tensor_tf32"]
EMULATOR = emulator()
MAX = np.finfo(np.float32).max


def product(a: F32, b: F32) -> F32:
    c: F32 = EMULATOR.run(compiled(TF32), a, b).c
    return c


def rounded(x: F32) -> F32:
    """To 11 bits, to nearest, ties away from zero."""
    bits = x.view(np.uint32) + np.uint32(0x1000) & np.uint32(0xFFFFE000)
    return bits.view(np.float32)


def column(*values: float) -> F32:
    return np.array(values, np.float32)[:, None]


# TF32 -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["70x45x77", "128x132x64"])
def test_it_multiplies_operands_rounded_to_nearest(shape: str) -> None:
    a, b = inputs(Shape.parse(shape))
    c = product(a, b)
    near = [x.astype(np.float64) for x in (rounded(a), rounded(b))]
    error = np.abs(c - near[0] @ near[1])
    # K / 8 roundings toward zero, each by less than 2^-23 of a partial sum.
    assert (error <= -(-a.shape[1] // 8) * 2.0**-23 * (np.abs(near[0]) @ np.abs(near[1]))).all()
    assert np.abs(c - a.astype(np.float64) @ b).max() > 100 * error.max()


def test_integers_of_eleven_bits_are_exact() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.integers(-2048, 2049, (40, 3)), rng.integers(-2048, 2049, (3, 50))
    assert (product(a.astype(np.float32), b.astype(np.float32)) == a @ b).all()


def test_one_rounding_of_each_operand_is_what_the_declaration_allows() -> None:
    """Halfway between two TF32 numbers, both operands are off by 2^-11 of the lower one."""
    a, b = column(1 + 2.0**-11), column(1 + 2.0**-11)
    assert product(a, b).item() == (1 + 2.0**-10) ** 2
    assert TF32.unit_roundoff == 2.0**-10


def test_the_ends_of_the_range_are_those_of_the_header() -> None:
    a = column(np.inf, np.nan, MAX, MAX - 2.0**116, -MAX, 2.0**-137, 2.0**-138, -1.0)
    with np.errstate(invalid="ignore"):
        c = product(a, column(1.0, 0.5, 0.0).T)
    for row, (one, half, zero) in zip(a[:, 0], c, strict=True):
        if np.isnan(row) or abs(row) > MAX - 2.0**116:
            infinite = np.copysign(np.float32(np.inf), row) if not np.isnan(row) else row
            assert np.array_equal([one, half], [infinite, infinite], equal_nan=True)
            assert np.isnan(zero)
        elif abs(row) == MAX - 2.0**116:
            assert (one, half, zero) == (rounded(a)[3, 0], rounded(a)[3, 0] / 2, 0)
        else:
            kept = row if abs(row) >= 1 else (2.0**-136 if row == 2.0**-137 else 0)
            assert (one, half, zero) == (kept, kept / 2, 0)


def test_specials_reach_their_row_or_column_and_no_other() -> None:
    a, b = inputs(Shape(m=70, n=90, k=50), kind="specials")
    with np.errstate(all="ignore"):
        expected = a.astype(np.float64) @ b.astype(np.float64)
    c = product(a, b)
    odd = ~np.isfinite(expected)
    assert 0 < odd.sum() < odd.size
    assert (np.isfinite(c) == ~odd).all()
    assert np.array_equal(c[odd], expected[odd], equal_nan=True)


# Shared memory --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rung", [TF32, BY_NAME["split_mma"]], ids=lambda rung: rung.name)
def test_each_128_bytes_read_are_one_wavefront(rung: Rung) -> None:
    blocks, tiles = 2, 3
    size = rung.params
    shape = Shape(m=size["BM"], n=blocks * size["BN"], k=tiles * size["BK"])
    traffic = EMULATOR.run(compiled(rung), *inputs(shape), count=True).traffic
    assert traffic is not None
    warps = rung.threads // 32
    read = size["BK"] * (size["WM"] + size["WN"])
    assert traffic.wavefronts_ld == blocks * tiles * warps * read // 32
    # ldmatrix brings 512 bytes of A, a load of two words a lane 256 of B.
    assert traffic.requests_ld == blocks * tiles * warps * size["BK"] * (size["WM"] // 4 + size["WN"] // 2) // 32
