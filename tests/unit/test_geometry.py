"""Launch geometry: every row of C is covered once, within the device's grid limits."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ladder.catalog import find
from ladder.errors import ShapeError
from ladder.geometry import MAX_GRID_X, MAX_GRID_YZ, plan
from ladder.model import Rung, Shape


def rung(
    *, tile: tuple[int, int] = (16, 32), grid_z_tile: int | None = None, multiple: tuple[int, int, int] = (1, 1, 1)
) -> Rung:
    return Rung(
        name="r",
        number=0,
        kind="rung",
        title="R",
        kernel="r",
        params={},
        tile=tile,
        block=(32, 8, 1),
        path=Path("r.cu"),
        source="",
        grid_z_tile=grid_z_tile,
        smem_bytes=1024,
        multiple=multiple,
    )


def shape(m: int, n: int, k: int) -> Shape:
    return Shape(m=m, n=n, k=k)


def test_x_walks_columns_and_y_walks_rows() -> None:
    (launch,) = plan(rung(), shape(100, 65, 7))
    assert launch.grid == (3, 7, 1)
    assert (launch.block, launch.smem_bytes, launch.row0, launch.rows) == ((32, 8, 1), 1024, 0, 100)
    assert launch.blocks == 21


@pytest.mark.parametrize(("m", "n"), [(0, 5), (5, 0), (0, 0)])
def test_an_empty_c_needs_no_launch(m: int, n: int) -> None:
    assert plan(rung(), shape(m, n, 3)) == ()


def test_k_zero_still_launches_for_c_must_become_zeros() -> None:
    (launch,) = plan(rung(), shape(5, 5, 0))
    assert launch.grid == (1, 1, 1)


def test_k_zero_needs_no_launch_when_the_kernel_adds_into_zeros() -> None:
    assert plan(rung(grid_z_tile=8), shape(5, 5, 0)) == ()


@pytest.mark.parametrize(
    ("k", "z"), [(1, 1), (8, 1), (9, 2), (8 * MAX_GRID_YZ, MAX_GRID_YZ), (8 * MAX_GRID_YZ + 1, MAX_GRID_YZ)]
)
def test_z_walks_k_up_to_the_limit(k: int, z: int) -> None:
    assert plan(rung(grid_z_tile=8), shape(5, 5, k))[0].grid[2] == z


def test_rows_past_the_limit_of_grid_y_are_launched_apart() -> None:
    launches = plan(rung(tile=(16, 16)), shape(16 * MAX_GRID_YZ + 1, 16, 1))
    assert [(launch.grid[1], launch.row0, launch.rows) for launch in launches] == [
        (MAX_GRID_YZ, 0, 16 * MAX_GRID_YZ),
        (1, 16 * MAX_GRID_YZ, 1),
    ]


def test_the_largest_grid_y_is_one_launch() -> None:
    assert len(plan(rung(tile=(16, 16)), shape(16 * MAX_GRID_YZ, 16, 1))) == 1


def test_too_many_columns_are_refused() -> None:
    assert plan(rung(tile=(1, 1)), shape(1, MAX_GRID_X, 1))[0].grid[0] == MAX_GRID_X
    with pytest.raises(
        ShapeError, match=f"N={MAX_GRID_X + 1} needs {MAX_GRID_X + 1} blocks along x; the limit is {MAX_GRID_X}"
    ):
        plan(rung(tile=(1, 1)), shape(1, MAX_GRID_X + 1, 1))


@pytest.mark.parametrize("axis", range(3))
def test_a_shape_that_the_rung_does_not_take_is_refused_before_the_launch(axis: int) -> None:
    multiple = tuple(4 if i == axis else 1 for i in range(3))
    assert plan(rung(multiple=multiple), shape(8, 8, 8))
    sizes = [10 if i == axis else 8 for i in range(3)]
    with pytest.raises(
        ShapeError, match=rf"rung r needs {'MNK'[axis]} % 4 == 0; got {'MNK'[axis]}=10 .*Pad {'MNK'[axis]} to 12"
    ):
        plan(rung(multiple=multiple), shape(*sizes))


SIZES = st.one_of(
    st.integers(0, 300), st.integers(0, 2**31 - 1), st.integers(-2, 2).map(lambda d: MAX_GRID_YZ * 64 + d)
)


@given(
    m=SIZES,
    n=st.integers(0, 5000),
    k=SIZES,
    tile=st.sampled_from([(16, 16), (64, 128), (128, 16)]),
    bk=st.sampled_from([None, 8]),
)
def test_the_launches_rows_partition_c(m: int, n: int, k: int, tile: tuple[int, int], bk: int | None) -> None:
    bm, bn = tile
    launches = plan(rung(tile=tile, grid_z_tile=bk), shape(m, n, k))
    if m == 0 or n == 0 or (bk is not None and k == 0):
        assert launches == ()
        return
    next_row = 0
    for launch in launches:
        assert launch.row0 == next_row
        assert launch.rows > 0
        x, y, z = launch.grid
        assert (y - 1) * bm < launch.rows <= y * bm
        assert (x - 1) * bn < n <= x * bn
        assert y <= MAX_GRID_YZ
        assert 1 <= z <= MAX_GRID_YZ
        next_row += launch.rows
    assert next_row == m


@pytest.mark.parametrize("rung", find([]), ids=lambda rung: rung.name)
def test_every_rung_of_the_catalogue_covers_a_ragged_c(rung: Rung) -> None:
    bm, bn = rung.tile
    m, n, k = rung.multiple
    shape = Shape(m=2 * bm + m, n=3 * bn + n, k=-(-77 // k) * k)
    (launch,) = plan(rung, shape)
    if rung.persistent:
        assert launch.grid == (12, 1, 1)
        assert plan(rung, shape, resident=264)[0].grid == (264, 1, 1)
        return
    assert launch.grid[:2] == (4, 3)
    assert (launch.grid[2] > 1) == (rung.grid_z_tile is not None and rung.grid_z_tile < shape.k)
