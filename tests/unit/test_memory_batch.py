"""The array forms agree with the scalar definitions, request by request."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest
from helpers.warp_requests import FULL, GLOBAL, SHARED, batches, mask_array
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ladder.errors import InputError
from ladder.memory import (
    Space,
    fetching_wavefronts,
    fetching_wavefronts_batch,
    place_matters,
    reduction_sectors,
    reduction_sectors_batch,
    reduction_wavefronts,
    reduction_wavefronts_batch,
    sectors,
    sectors_batch,
    unique_sectors,
    wavefronts,
    wavefronts_batch,
)

LANES = np.arange(32, dtype=np.int64)
Batch = tuple[int, NDArray[np.int64], list[int]]


@given(batch=batches(), space=st.sampled_from(("shared", "global")), store=st.booleans())
def test_wavefronts_agree(batch: Batch, space: Space, store: bool) -> None:
    width, offsets, masks = batch
    got = wavefronts_batch(offsets, width, space=space, store=store, active=mask_array(masks))
    assert got.tolist() == [
        wavefronts(row, width, space=space, store=store, active=mask)
        for row, mask in zip(offsets.tolist(), masks, strict=True)
    ]


@given(batch=batches())
def test_sectors_agree(batch: Batch) -> None:
    width, addresses, masks = batch
    rows = addresses.tolist()
    got = sectors_batch(addresses, width, active=mask_array(masks))
    assert got.tolist() == [sectors(row, width, active=mask) for row, mask in zip(rows, masks, strict=True)]
    request, sector = unique_sectors(addresses, width, active=mask_array(masks))
    assert list(zip(request.tolist(), sector.tolist(), strict=True)) == [
        (i, s)
        for i, (row, mask) in enumerate(zip(rows, masks, strict=True))
        for s in sorted({row[lane] // 32 for lane in range(32) if mask >> lane & 1})
    ]


@given(batch=batches())
def test_reductions_agree(batch: Batch) -> None:
    _, addresses, masks = batch
    addresses = addresses // 4 * 4
    pairs = list(zip(addresses.tolist(), masks, strict=True))
    active = mask_array(masks)
    assert reduction_wavefronts_batch(addresses, active=active).tolist() == [
        reduction_wavefronts(row, active=mask) for row, mask in pairs
    ]
    assert reduction_sectors_batch(addresses, active=active).tolist() == [
        reduction_sectors(row, active=mask) for row, mask in pairs
    ]


@given(batch=batches(), data=st.data())
def test_fetches_agree_and_cost_no_more_where_place_does_not_matter(batch: Batch, data: st.DataObject) -> None:
    width, addresses, masks = batch
    missing = [data.draw(st.integers(0, FULL)) & mask for mask in masks]
    active = mask_array(masks)
    got = fetching_wavefronts_batch(addresses, width, active=active, missing=mask_array(missing))
    assert got.tolist() == [
        fetching_wavefronts(row, width, active=mask, missing=gone)
        for row, mask, gone in zip(addresses.tolist(), masks, missing, strict=True)
    ]
    fixed = ~place_matters(addresses, width, active=active, reduces=False)
    plain = wavefronts_batch(addresses, width, space="global", active=active)
    assert (got >= plain).all()
    assert got[fixed].tolist() == plain[fixed].tolist()


@given(batch=batches(), shift=st.integers(0, 1 << 20))
def test_reductions_whose_place_does_not_matter_cost_the_same_on_other_lines(batch: Batch, shift: int) -> None:
    _, addresses, masks = batch
    addresses, active = addresses // 4 * 4, mask_array(masks)
    fixed = ~place_matters(addresses, 4, active=active, reduces=True)
    here, there = (reduction_wavefronts_batch(addresses + 128 * lines, active=active) for lines in (0, shift))
    assert here[fixed].tolist() == there[fixed].tolist()


def crowd(rows: int, kind: str) -> NDArray[np.int64]:
    """(rows, 32) offsets in widths: all alike, few patterns, or all different, dense enough to conflict and pair up."""
    rng = np.random.default_rng(rows)
    base = rng.integers(0, 10_000, (rows, 1))
    if kind == "same":
        return base + LANES * 3
    if kind == "sixteen":
        return base + rng.integers(0, 500, (16, 32))[rng.integers(0, 16, rows)]
    if kind == "paired":
        return base + rng.integers(0, 500, (rows, 16)).repeat(2, axis=1)
    return base + rng.integers(0, rng.choice([4, 40, 4000], (rows, 1)), (rows, 32))


@pytest.mark.parametrize("masked", [False, True], ids=["full", "masked"])
@pytest.mark.parametrize("kind", ["same", "sixteen", "paired", "random"])
@pytest.mark.parametrize("rows", [1, 8, 9, 300, 1100])
def test_large_batches_agree(rows: int, kind: str, masked: bool) -> None:
    active = np.random.default_rng(1).random((rows, 32)) < 0.7 if masked else None
    masks = [FULL] * rows if active is None else [sum(1 << i for i in range(32) if row[i]) for row in active.tolist()]
    for width in (4, 8, 16):
        offsets = crowd(rows, kind) * width
        pairs = list(zip(offsets.tolist(), masks, strict=True))
        assert wavefronts_batch(offsets, width, active=active).tolist() == [
            wavefronts(row, width, active=mask) for row, mask in pairs
        ]
        assert sectors_batch(offsets, width, active=active).tolist() == [
            sectors(row, width, active=mask) for row, mask in pairs
        ]
    addresses = crowd(rows, kind) * 4
    pairs = list(zip(addresses.tolist(), masks, strict=True))
    assert reduction_wavefronts_batch(addresses, active=active).tolist() == [
        reduction_wavefronts(row, active=mask) for row, mask in pairs
    ]
    assert reduction_sectors_batch(addresses, active=active).tolist() == [
        reduction_sectors(row, active=mask) for row, mask in pairs
    ]


@pytest.mark.parametrize("width", [4, 8, 16])
@pytest.mark.parametrize("op", ["ld", "st"])
def test_measured_requests_in_one_batch(op: str, width: int) -> None:
    rows = [row for row in SHARED if (row.op, row.width) == (op, width)]
    offsets, active = np.array([row.offsets for row in rows]), mask_array([row.active for row in rows])
    got = wavefronts_batch(offsets, width, store=op == "st", active=active)
    assert got.tolist() == [row.wavefronts for row in rows]
    rows = [row for row in GLOBAL if (row.op, row.width) == (op, width)]
    offsets, active = np.array([row.offsets for row in rows]), mask_array([row.active for row in rows])
    assert sectors_batch(offsets, width, active=active).tolist() == [row.sectors for row in rows]


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64])
def test_any_integer_dtype(dtype: type[np.integer]) -> None:
    offsets = np.tile((LANES * 8).astype(dtype), (3, 1))
    assert wavefronts_batch(offsets, 4).tolist() == [2, 2, 2]
    assert sectors_batch(offsets, 4).tolist() == [8, 8, 8]


@pytest.mark.parametrize("copies", [1, 10, 200])
def test_one_address_under_different_masks(copies: int) -> None:
    masks = [FULL, 0, 0xFF, 0x00FF00FF, 0xFFFFFF] * copies
    offsets = np.full((len(masks), 32), 64, dtype=np.int64)
    assert wavefronts_batch(offsets, 16, store=True, active=mask_array(masks)).tolist() == [4, 0, 1, 2, 3] * copies
    assert sectors_batch(offsets, 16, active=mask_array(masks)).tolist() == [1, 0, 1, 1, 1] * copies
    assert reduction_wavefronts_batch(offsets, active=mask_array(masks)).tolist() == [32, 0, 8, 16, 24] * copies


def test_colliding_hashes_cost_time_and_no_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ladder.memory.batch._MIX", np.zeros(33, dtype=np.int64))
    offsets = np.concatenate([np.tile(LANES * 4 * stride, (10, 1)) for stride in (1, 2, 4)])
    assert wavefronts_batch(offsets, 4).tolist() == [1] * 10 + [2] * 10 + [4] * 10


def test_empty_batch() -> None:
    none = np.zeros((0, 32), dtype=np.int64)
    assert wavefronts_batch(none, 4).shape == (0,)
    assert sectors_batch(none, 4, active=np.zeros((0, 32), dtype=np.bool_)).shape == (0,)
    assert [part.shape for part in unique_sectors(none, 4)] == [(0,), (0,)]


def test_inputs_stay_as_they_were() -> None:
    offsets = np.tile(LANES * 4, (20, 1)) + np.arange(20)[:, None] * 4
    active = np.tile(LANES < 20, (20, 1))
    before = offsets.copy(), active.copy()
    wavefronts_batch(offsets, 4, active=active)
    sectors_batch(offsets, 4, active=active)
    reduction_sectors_batch(offsets, active=active)
    assert np.array_equal(offsets, before[0])
    assert np.array_equal(active, before[1])


def test_inactive_lanes_may_hold_anything() -> None:
    offsets = np.tile(LANES * 8, (2, 1))
    offsets[1, 5] = -3
    active = np.ones((2, 32), dtype=np.bool_)
    active[1, 5] = False
    assert wavefronts_batch(offsets, 8, active=active).tolist() == [2, 2]
    assert sectors_batch(offsets, 8, active=active).tolist() == [8, 8]


def test_refusals() -> None:
    good = np.zeros((2, 32), dtype=np.int64)
    bad = good.copy()
    bad[1, 4] = 6
    with pytest.raises(InputError, match=r"request 1, lane 4: offset 6 is not a multiple of the width, 4"):
        wavefronts_batch(bad, 4)
    with pytest.raises(InputError, match=r"shape \(2, 16\)"):
        sectors_batch(good[:, :16], 4)
    with pytest.raises(InputError, match="float64"):
        sectors_batch(good.astype(np.float64), 4)
    with pytest.raises(InputError, match=r"active mask of shape \(1, 32\)"):
        wavefronts_batch(good, 4, active=np.ones((1, 32), dtype=np.bool_))
    with pytest.raises(InputError, match=r"active mask of shape .* int64"):
        wavefronts_batch(good, 4, active=cast("NDArray[np.bool_]", good))
    with pytest.raises(InputError, match="1, 2, 4, 8 or 16"):
        unique_sectors(good, 5)
    with pytest.raises(InputError, match="1, 2, 4, 8 or 16"):
        wavefronts_batch(good, 64)
    with pytest.raises(InputError, match='"shared" and "global"'):
        wavefronts_batch(good, 4, space=cast("Space", "local"))
    with pytest.raises(InputError, match="reduction of 8 bytes"):
        reduction_wavefronts_batch(good, 8)
    with pytest.raises(InputError, match="reduction of 8 bytes"):
        reduction_sectors_batch(good, 8)
