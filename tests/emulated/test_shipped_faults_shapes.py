"""Faults of shape: what only some M, N and K bring to light. Each is shown in a real rung that lost one guard."""

from __future__ import annotations

import re

import numpy as np
import pytest
from helpers.kernels import RUNGS
from helpers.shipped_faults import EMULATOR, NUMPY, broken, mutant, of_file, sound, tried

from ladder.backends import emulated_steps
from ladder.catalog import find, with_params
from ladder.check._cases import known_traps
from ladder.errors import CompileError, KernelFaultError
from ladder.geometry import Launch, plan
from ladder.model import Rung, Shape
from ladder.nvrtc import compile_rung

WHOLE = "64x64x64"

COLUMN_UNGUARDED = ("k0 + y < K && col < N ?", "k0 + y < K ?")
ROW_UNGUARDED = ("row0 + y < M && k0 + tx < K ?", "k0 + tx < K ?")
K_UNGUARDED = ("k0 + y < K && col < N ?", "col < N ?")
LAST_TILE_LEFT_OUT = ("k0 < K; k0 += T", "k0 + T <= K; k0 += T")


@pytest.mark.parametrize(
    ("shape", "change", "message"),
    [
        ("35x79x19", COLUMN_UNGUARDED, "out of bounds: 4-byte access .* past the end of B"),
        ("3x3x431", LAST_TILE_LEFT_OUT, "integers must match exactly"),
        ("33x32x32", ROW_UNGUARDED, "out of bounds: 4-byte access .* past the end of A"),
    ],
)
def test_ragged_shapes_and_one_past_a_tile(shape: str, change: tuple[str, str], message: str) -> None:
    assert tried(broken("tiled_32", change), WHOLE).failure is None, "whole tiles hide it"
    assert re.search(message, str(tried(broken("tiled_32", change), shape).failure))
    assert tried(sound("tiled_32"), shape).failure is None


def test_reads_past_the_end_that_only_fail_at_100() -> None:
    """The words past B meet zeros of A's padding: on most days nothing shows but the access itself."""
    kernel = broken("tiled_32", K_UNGUARDED)
    assert tried(kernel, "128x128x128").failure is None
    assert re.search("out of bounds: .* past the end of B", str(tried(kernel, "100x100x100").failure))
    assert tried(sound("tiled_32"), "100x100x100").failure is None
    assert Shape.parse("100x100x100") in {case.shape for case in known_traps(kernel.rung)}


def test_last_rows_unwritten_at_30000() -> None:
    """30000 rows are 234 whole tiles of 128, and 48 rows."""
    kernel = broken("register_tile", ("if (row < M && col < N) C", "if (row < M / BM * BM && col < N) C"))
    assert tried(kernel, "128x64x8").failure is None
    found = str(tried(kernel, "30000x64x64", backend=EMULATOR).failure)
    assert "C[row 29952, column 0]" in found
    assert f"never written ({48 * 64} of {30000 * 64} elements wrong)" in found
    assert tried(sound("register_tile"), "30000x64x64", backend=EMULATOR).failure is None


def test_m_and_n_swapped_so_that_only_square_works() -> None:
    kernel = broken("coalesced", ("C[size_t(row) * N + col]", "C[size_t(row) * M + col]"))
    assert tried(kernel, "70x70x19").failure is None, "right wherever M = N"
    for shape in ("35x79x19", "79x35x19"):
        assert tried(kernel, shape).failure is not None
        assert tried(sound("coalesced"), shape).failure is None


@pytest.mark.parametrize("tiles", range(6))
def test_an_odd_number_of_k_tiles_with_two_buffers(tiles: int) -> None:
    for k in {max(0, 8 * tiles - 3), 8 * tiles}:
        shape = f"11x13x{k}"
        assert (tried(of_file("two_buffers", LAST=0), shape).failure is None) == (tiles % 2 == 0)
        assert tried(of_file("two_buffers"), shape).failure is None


def test_unsigned_wrap_of_k_minus_bk() -> None:
    """``k0 <= K - T`` for unsigned K: fine from one whole tile on, four billion k below it."""
    for k in (8, 16, 64):
        assert tried(mutant("unsigned_wrap"), f"16x16x{k}").failure is None
    for k in (0, 1, 7):
        assert "out of bounds" in str(tried(mutant("unsigned_wrap"), f"16x16x{k}").failure)
        assert tried(mutant("right"), f"16x16x{k}").failure is None


CHANGES = (
    {"BM": 64}, {"BM": 120}, {"BN": 64}, {"BN": 120}, {"BK": 4}, {"BK": 12}, {"BK": 16}, {"TM": 4}, {"TM": 7},
    {"TN": 16}, {"NUM_THREADS": 128}, {"BM": 64, "BN": 64, "NUM_THREADS": 64}, {"BM": 64, "BN": 64, "TM": 4, "TN": 4},
)  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_tile_parameters_that_do_not_fit_together(change: dict[str, int]) -> None:
    """Whatever a tuner puts in: the compiler says what does not fit, or the product is right."""
    (rung,) = find(["register_tile"])
    try:
        kernel = compile_rung(with_params(rung, change), arch="sm_90")
    except CompileError as error:
        assert re.search(r"07_register_tile\.cu\(\d+\): error: static assertion failed", str(error))  # noqa: PT017
        return
    assert len(change) > 1 or "BK" in change, "one edge of a tile cannot change alone"
    assert tried(kernel, "67x130x21").failure is None


def test_grid_y_past_65535(monkeypatch: pytest.MonkeyPatch) -> None:
    """65536 tile rows of 8: a second launch has the last of them. A launcher that clamps the grid leaves them out."""
    shape = f"{65535 * 8 + 5}x1x2"
    assert [launch.grid[1] for launch in plan(mutant("right").rung, Shape.parse(shape))] == [65535, 1]
    assert tried(mutant("right"), shape, backend=EMULATOR).failure is None

    def clamped(rung: Rung, product: Shape, *, resident: int | None = None) -> tuple[Launch, ...]:
        return plan(rung, product, resident=resident)[:1]

    monkeypatch.setattr(emulated_steps, "plan", clamped)
    found = str(tried(mutant("right"), shape, backend=EMULATOR).failure)
    assert f"C[row {65535 * 8}, column 0]" in found
    assert f"never written (5 of {65535 * 8 + 5} elements wrong)" in found


def with_first_line(line: str) -> tuple[str, str]:
    first = "  const unsigned row = blockIdx.y * BM + threadIdx.x;"
    return first, f"  {line}\n{first}"


def test_k_0_must_give_zeros() -> None:
    kernel = broken("naive", with_first_line("if (K == 0) return;"))
    assert tried(kernel, "5x7x1").failure is None
    assert re.search(r"never written \(35 of 35", str(tried(kernel, "5x7x0").failure))
    for name in ("naive", "tiled_32", "register_tile"):
        c = NUMPY.run(sound(name), np.zeros((5, 0), np.float32), np.zeros((0, 7), np.float32)).c
        assert c.view(np.uint32).tolist() == [[0] * 7] * 5, f"{name}: +0 in every element"


def one_block(rung: Rung, shape: Shape, *, resident: int | None = None) -> tuple[Launch, ...]:
    """A launcher that launches a block even where C is empty."""
    return plan(rung, Shape(m=max(1, shape.m), n=max(1, shape.n), k=shape.k), resident=resident)


@pytest.mark.parametrize("shape", ["0x7x5", "5x0x7", "0x0x3", "0x0x0"])
def test_m_or_n_0_must_not_launch(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that stores before it looks shows whether there was a launch."""
    kernel = broken("naive", with_first_line("if (threadIdx.x + threadIdx.y == 0) C[0] = 0.0f;"))
    for rung in RUNGS:
        assert plan(rung, Shape.parse(shape)) == ()
    assert tried(kernel, shape).failure is None
    m, n, k = Shape.parse(shape).m, Shape.parse(shape).n, Shape.parse(shape).k
    monkeypatch.setattr(emulated_steps, "plan", one_block)
    with pytest.raises(KernelFaultError, match="out of bounds"):
        NUMPY.run(kernel, np.zeros((m, k), np.float32), np.zeros((k, n), np.float32))
