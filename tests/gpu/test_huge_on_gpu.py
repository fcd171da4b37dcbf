"""Matrices of more than 2^31 elements: a 32-bit index anywhere would read or write another place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from helpers.on_gpu import RUNGS, backend, compiled, need
from numpy.typing import NDArray

from ladder.backends.driver import translated
from ladder.backends.launches import launchers
from ladder.geometry import plan
from ladder.model import Rung, Shape
from ladder.oracle import POISON_BITS

pytestmark = pytest.mark.gpu

F32 = NDArray[np.float32]

EDGE = 46352
"""A multiple of 16 with EDGE^2 just over 2^31."""

PERIOD = 1009
"""Rows of the huge matrix repeat after this prime, so that an index that is off by 2^31 or 2^32 meets another row."""

THIN = 16

each_rung = pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)


@dataclass(frozen=True)
class Huge:
    """An EDGE x EDGE matrix on the GPU, and the PERIOD rows that it repeats; room for small ones."""

    matrix: Any
    rows: F32
    small: Any
    other: Any


@pytest.fixture(scope="module")
def huge() -> Iterator[Huge]:
    gpu = backend().gpu
    rng = np.random.default_rng(5)
    rows = rng.integers(-4, 4, size=(PERIOD, EDGE), endpoint=True).astype(np.float32)
    small_bytes = 4 * EDGE * THIN
    buffers = [gpu.allocate(size, "a huge matrix") for size in (4 * EDGE * EDGE, small_bytes, small_bytes)]
    for first in range(0, EDGE, PERIOD):
        count = min(PERIOD, EDGE - first)
        gpu.upload(buffers[0], 4 * EDGE * first, rows[:count])
    yield Huge(buffers[0], rows, buffers[1], buffers[2])
    for buffer in buffers:
        buffer.close()


def thin(rows: int, columns: int) -> F32:
    return np.random.default_rng(6).integers(-4, 4, size=(rows, columns), endpoint=True).astype(np.float32)


def multiply(rung: Rung, shape: Shape, a: Any, b: Any, c: Any) -> None:
    need(rung)
    gpu = backend().gpu
    gpu.fill(c, 0, 4 * shape.m * shape.n, POISON_BITS if rung.c_init == "poison" else 0)
    assert plan(rung, shape)
    with translated(f"{rung.name} at {shape}"):
        for launch in launchers(gpu, compiled(rung), shape, (int(a.handle), int(b.handle), int(c.handle))):
            launch()
        gpu.stream.sync()


@each_rung
def test_a_huge_a(rung: Rung, huge: Huge) -> None:
    gpu = backend().gpu
    b = thin(EDGE, THIN)
    gpu.upload(huge.small, 0, b)
    multiply(rung, Shape(m=EDGE, n=THIN, k=EDGE), huge.matrix, huge.small, huge.other)
    c = np.empty((EDGE, THIN), np.float32)
    gpu.download(huge.other, 0, c)
    once = (huge.rows.astype(np.float64) @ b).astype(np.float32)
    np.testing.assert_array_equal(c, once[np.arange(EDGE) % PERIOD])


@each_rung
def test_a_huge_b(rung: Rung, huge: Huge) -> None:
    gpu = backend().gpu
    a = thin(THIN, EDGE)
    gpu.upload(huge.small, 0, a)
    multiply(rung, Shape(m=THIN, n=EDGE, k=EDGE), huge.small, huge.matrix, huge.other)
    c = np.empty((THIN, EDGE), np.float32)
    gpu.download(huge.other, 0, c)
    folded = np.zeros((THIN, PERIOD))
    np.add.at(folded, (slice(None), np.arange(EDGE) % PERIOD), a)
    np.testing.assert_array_equal(c, (folded @ huge.rows.astype(np.float64)).astype(np.float32))


@each_rung
def test_a_huge_c(rung: Rung, huge: Huge) -> None:
    """Over the huge matrix itself, so it comes last; looked at in some rows, those around element 2^31 among them."""
    gpu = backend().gpu
    shape = Shape(m=EDGE, n=EDGE, k=THIN)
    a, b = thin(EDGE, THIN), thin(THIN, EDGE)
    gpu.upload(huge.small, 0, a)
    gpu.upload(huge.other, 0, b)
    multiply(rung, shape, huge.small, huge.other, huge.matrix)
    around = 2**31 // EDGE
    rows = [0, 1, EDGE // 2, around - 1, around, around + 1, EDGE - 2, EDGE - 1]
    row = np.empty((1, EDGE), np.float32)
    for index in rows:
        gpu.download(huge.matrix, 4 * EDGE * index, row)
        np.testing.assert_array_equal(row, a[index : index + 1] @ b)
