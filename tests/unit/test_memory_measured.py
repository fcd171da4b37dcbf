"""Every measured warp request against the model."""

from __future__ import annotations

import pytest
from helpers.warp_requests import GLOBAL, SHARED, Measured

from ladder.memory import reduction_sectors, reduction_wavefronts, sectors, wavefronts

SCATTERED_STORES = {
    (4, "stride31"), (4, "stride33"),
    (8, "stride12"), (8, "stride15"), (8, "stride17"), (8, "stride31"), (8, "stride33"),
    (16, "stride7"), (16, "stride9"), (16, "stride12"), (16, "stride15"), (16, "stride17"), (16, "stride31"),
    (16, "stride33"),
}  # fmt: skip
"""Global stores that cost more than the bank rule says."""

WIDTHS = (4, 8, 16)


def of(rows: tuple[Measured, ...], op: str, width: int) -> list[Measured]:
    found = [row for row in rows if (row.op, row.width) == (op, width)]
    assert len(found) >= 100
    return found


def modelled(row: Measured) -> int:
    return wavefronts(row.offsets, row.width, space="global", store=row.op == "st", active=row.active)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("op", ["ld", "st"])
def test_shared_wavefronts_equal_the_counters(op: str, width: int) -> None:
    wrong = [
        f"{row}: measured {row.wavefronts}, modelled {got}"
        for row in of(SHARED, op, width)
        if (got := wavefronts(row.offsets, width, store=op == "st", active=row.active)) != row.wavefronts
    ]
    assert wrong == []


@pytest.mark.parametrize("width", WIDTHS)
def test_global_load_wavefronts_equal_the_counters(width: int) -> None:
    # The counter is a mean over hits and the few misses, whose extra passes lift it by up to 0.18: see data/README.md.
    wrong = [
        f"{row}: measured {row.wavefronts}, modelled {got}"
        for row in of(GLOBAL, "ld", width)
        if not 0 <= row.wavefronts - (got := modelled(row)) < (0.2 if row.lines > 4 else 0.005)
    ]
    assert wrong == []


@pytest.mark.parametrize("width", WIDTHS)
def test_global_store_wavefronts_equal_the_counters_but_for_scattered_ones(width: int) -> None:
    differing = [row for row in of(GLOBAL, "st", width) if modelled(row) != row.wavefronts]
    assert {(row.width, row.pattern) for row in differing} == {s for s in SCATTERED_STORES if s[0] == width}
    assert all(row.lines >= 24 for row in differing)
    assert all(modelled(row) < row.wavefronts for row in differing)


@pytest.mark.parametrize(("op", "width"), [("ld", 4), ("ld", 8), ("ld", 16), ("st", 4), ("st", 8), ("st", 16)])
def test_sectors_equal_the_counters(op: str, width: int) -> None:
    wrong = [
        f"{row}: measured {row.sectors}, modelled {got}"
        for row in of(GLOBAL, op, width)
        if (got := sectors(row.offsets, width, active=row.active)) != row.sectors
    ]
    assert wrong == []


def test_reduction_sectors_equal_the_counters() -> None:
    wrong = [
        f"{row}: measured {row.sectors}, modelled {got}"
        for row in of(GLOBAL, "red", 4)
        if (got := reduction_sectors(row.offsets, active=row.active)) != row.sectors
    ]
    assert wrong == []


def test_reduction_wavefronts_equal_the_counters_but_for_one() -> None:
    differing = {
        row.pattern: (row.wavefronts, got)
        for row in of(GLOBAL, "red", 4)
        if (got := reduction_wavefronts(row.offsets, active=row.active)) != row.wavefronts
    }
    assert differing == {"cols16_pitch33": (9.0, 8)}
