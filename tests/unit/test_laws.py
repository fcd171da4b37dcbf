"""The closed forms against direct counts of the elements that a blocked product moves."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ladder import laws
from ladder.catalog import load_catalog
from ladder.model import Rung, Shape

edges = st.floats(min_value=1, max_value=1024)
lengths = st.floats(min_value=1, max_value=1e6)
sizes = st.integers(1, 300)


def rung(
    *,
    law: Literal["tile_product", "c_stationary"] | None,
    tile: tuple[int, int],
    params: dict[str, int] | None = None,
    threads: int = 256,
    grid_z_tile: int | None = None,
) -> Rung:
    return Rung(
        name="r", number=1, kind="rung", title="R", kernel="r", params=params or {}, tile=tile, block=(threads, 1, 1),
        path=Path("r.cu"), source="", law=law, grid_z_tile=grid_z_tile,
    )  # fmt: skip


def counted(shape: Shape, bm: int, bn: int, bk: int | None) -> float:
    """FLOP/byte of a blocked product, tile by tile: clipped tiles of A and B for each step, C once or each step."""
    elements = 0
    step = bk or 7  # without C in the steps their length does not matter
    for row in range(0, shape.m, bm):
        for col in range(0, shape.n, bn):
            rows, cols = min(bm, shape.m - row), min(bn, shape.n - col)
            for k in range(0, shape.k, step):
                depth = min(step, shape.k - k)
                elements += rows * depth + depth * cols + (rows * cols if bk else 0)
            elements += 0 if bk else rows * cols
    return shape.flop / (4 * elements)


def test_a_tile_product_has_a_sixth_of_its_edge() -> None:
    assert laws.tile_product(32) == pytest.approx(5.333, abs=1e-3)
    assert laws.tile_product(64) == pytest.approx(10.667, abs=1e-3)


def test_a_stationary_tile_has_a_quarter_of_its_edge_less_the_store_of_c() -> None:
    assert laws.c_stationary(32) == 8
    assert laws.c_stationary(16, 4096) == pytest.approx(3.992, abs=1e-3)
    assert laws.block_tile(128, 128, 4096) == pytest.approx(31.51, abs=5e-3)


def test_a_register_tile_of_one_has_a_quarter_and_of_eight_two() -> None:
    assert laws.register_tile(1, 1) == 0.25
    assert laws.register_tile(8, 8) == 2
    assert laws.register_tile(8, 1) == pytest.approx(8 / 18)


def test_warps_that_fetch_every_operand() -> None:
    assert laws.warp_request(1 + 4) == pytest.approx(0.4)
    assert laws.warp_request(32 + 1) == pytest.approx(64 / 1056)
    assert laws.warp_wavefronts(2) == 0.25


def test_streaming_kernels_have_a_fixed_intensity() -> None:
    assert laws.saxpy() == pytest.approx(0.1667, abs=1e-4)
    assert laws.dot() == 0.25


def test_the_compulsory_limit_is_the_tile_product_at_full_size() -> None:
    square = Shape(m=1024, n=1024, k=1024)
    assert laws.compulsory(square) == pytest.approx(laws.tile_product(1024)) == pytest.approx(170.67, abs=0.01)
    assert laws.compulsory(square, c_moves=False) == pytest.approx(256)
    with pytest.raises(ValueError, match="no work"):
        laws.compulsory(Shape(m=4, n=0, k=4))


@given(edges, edges, lengths)
def test_intensity_grows_with_every_edge_and_with_k(bm: float, bn: float, k: float) -> None:
    here = laws.block_tile(bm, bn, k)
    assert here < laws.block_tile(bm * 2, bn, k)
    assert here < laws.block_tile(bm, bn * 2, k)
    assert here < laws.block_tile(bm, bn, k * 2) < laws.block_tile(bm, bn)
    assert laws.tile_product(bm) < laws.tile_product(bm * 2)


@given(edges, lengths)
def test_the_block_law_is_the_square_law_on_squares(t: float, k: float) -> None:
    assert laws.block_tile(t, t) == pytest.approx(laws.c_stationary(t))
    assert laws.block_tile(t, t, k) == pytest.approx(laws.c_stationary(t, k))


@given(edges, edges)
def test_of_equal_area_the_square_is_best(bm: float, bn: float) -> None:
    side = (bm * bn) ** 0.5
    assert laws.block_tile(bm, bn) <= laws.c_stationary(side) * (1 + 1e-12)


@given(edges)
def test_with_one_step_of_k_the_stationary_law_is_the_tile_product(t: float) -> None:
    assert laws.c_stationary(t, t) == pytest.approx(laws.tile_product(t))


@pytest.mark.parametrize(
    "call", [lambda: laws.tile_product(0), lambda: laws.block_tile(4, -1), lambda: laws.c_stationary(4, 0)]
)
def test_sizes_must_be_positive(call) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match="positive"):
        call()


@given(sizes, sizes, sizes, st.sampled_from([8, 16, 33]), st.sampled_from([8, 16, 20]))
def test_the_prediction_is_a_count_for_any_shape(m: int, n: int, k: int, bm: int, bn: int) -> None:
    shape = Shape(m=m, n=n, k=k)
    stationary = laws.predict(rung(law="c_stationary", tile=(bm, bn)), shape)
    product = laws.predict(rung(law="tile_product", tile=(bm, bn), grid_z_tile=16), shape)
    assert stationary is not None
    assert product is not None
    assert stationary.predicted["l1"] == pytest.approx(counted(shape, bm, bn, None))
    assert product.predicted["l1"] == pytest.approx(counted(shape, bm, bn, 16))


def test_the_shared_law_needs_to_know_the_thread_tile() -> None:
    shape = Shape(m=128, n=128, k=128)

    def shared(**options: object) -> float | None:
        law = laws.predict(rung(law="c_stationary", **options), shape)  # type: ignore[arg-type]
        assert law is not None
        return law.predicted.get("shared")

    assert shared(tile=(16, 16), threads=256) == 0.25
    assert shared(tile=(64, 64), threads=512, params={"TM": 8}) == pytest.approx(8 / 18)
    assert shared(tile=(128, 128), threads=256, params={"TM": 8, "TN": 8}) == 2
    assert shared(tile=(64, 64), threads=256) is None


def test_zeros_that_fill_a_tile_are_read_from_shared_memory_too() -> None:
    ragged = Shape(m=100, n=100, k=100)
    declared = rung(law="c_stationary", tile=(32, 32), threads=1024, params={"T": 32})
    assert laws.useful(declared, ragged) == pytest.approx((100 / 128) ** 3)
    found = laws.predict(declared, ragged)
    assert found is not None
    assert found.predicted["shared"] == pytest.approx(0.25 * (100 / 128) ** 3)
    assert laws.useful(rung(law=None, tile=(32, 32)), ragged) == pytest.approx((100 / 128) ** 2)
    with pytest.raises(ValueError, match="no work"):
        laws.useful(declared, Shape(m=100, n=0, k=100))


def test_no_law_no_work_or_no_tile_of_k_predict_nothing() -> None:
    shape = Shape(m=64, n=64, k=64)
    assert laws.predict(rung(law=None, tile=(16, 16)), shape) is None
    assert laws.predict(rung(law="c_stationary", tile=(16, 16)), Shape(m=64, n=64, k=0)) is None
    assert laws.predict(rung(law="tile_product", tile=(16, 16)), shape) is None
    found = laws.predict(rung(law="tile_product", tile=(16, 16), params={"T": 16}), shape)
    assert found is not None
    assert found.predicted["l1"] == pytest.approx(16 / 6)


@pytest.mark.parametrize("declared", [r for r in load_catalog() if r.law], ids=lambda r: r.name)
def test_every_declared_law_has_a_prediction(declared: Rung) -> None:
    found = laws.predict(declared, Shape(m=512, n=512, k=512))
    assert found is not None
    assert found.name == declared.law
    if declared.tma or declared.pack is not None:
        assert "l1" not in found.predicted, "what the copy engine brings passes L1 by"
        return
    bm, bn = declared.tile
    closed = laws.block_tile(bm, bn, 512) if declared.law == "c_stationary" else laws.tile_product(bm)
    assert found.predicted["l1"] == pytest.approx(closed)
