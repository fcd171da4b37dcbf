"""Warp requests for the tests of banks and sectors: those that were measured, and hypothesis strategies for others."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

DATA = Path(__file__).parents[1] / "data"
LANES = range(32)
FULL = 0xFFFFFFFF
MASKS = (FULL, 0x55555555, 0xAAAAAAAA, 0x33333333, 0xFFFF, 0xFFFF0000, 0xFF, 0x00FF00FF, 1, 1 << 31, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One row of the recorded files; ``sectors`` is None for shared memory."""

    op: str
    width: int
    pattern: str
    active: int
    offsets: tuple[int, ...]
    sectors: int | None
    wavefronts: float

    @property
    def lines(self) -> int:
        """128-byte lines that the active lanes touch."""
        return len({offset // 128 for lane, offset in enumerate(self.offsets) if self.active >> lane & 1})

    def __str__(self) -> str:
        return f"{self.op} {self.width} B {self.pattern} {self.active:#010x}"


def measured(name: str) -> tuple[Measured, ...]:
    """The rows of ``tests/data/NAME.csv``, offsets in bytes."""
    with (DATA / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return tuple(
            Measured(
                op=row["op"],
                width=int(row["width_bytes"]),
                pattern=row["pattern"],
                active=int(row["active_mask"], 16),
                offsets=tuple(int(o) * int(row["width_bytes"]) for o in row["lane_offsets_in_widths"].split()),
                sectors=int(row["sectors"]) if "sectors" in row else None,
                wavefronts=float(row["wavefronts"]),
            )
            for row in csv.DictReader(file)
        )


SHARED = measured("shared_wavefronts_h200")
GLOBAL = measured("global_requests_h200")


def mask_array(masks: list[int]) -> NDArray[np.bool_]:
    """(R,) 32-bit masks -> (R, 32) bool, lane l from bit l."""
    return np.array([[bool(mask >> lane & 1) for lane in LANES] for mask in masks], dtype=np.bool_).reshape(-1, 32)


def masks() -> st.SearchStrategy[int]:
    """Active masks: the usual shapes and any other."""
    return st.one_of(st.sampled_from(MASKS), st.integers(0, FULL))


@st.composite
def patterns(draw: st.DrawFn) -> tuple[int, ...]:
    """32 lane offsets in units of the access width: strided, paired, folded, or random over a small or large range."""
    kind = draw(st.sampled_from(("stride", "div", "mod", "rows", "random", "pairs")))
    if kind == "stride":
        stride = draw(st.one_of(st.integers(0, 40), st.sampled_from((64, 128, 1000))))
        return tuple(lane * stride for lane in LANES)
    if kind in ("div", "mod"):
        step = draw(st.sampled_from((2, 4, 8, 16)))
        return tuple(lane // step if kind == "div" else lane % step for lane in LANES)
    if kind == "rows":
        width, pitch = draw(st.sampled_from((2, 4, 8, 16))), draw(st.integers(1, 300))
        return tuple(lane // width * pitch + lane % width for lane in LANES)
    top = draw(st.sampled_from((3, 16, 64, 1024, 10**6)))
    values = draw(st.lists(st.integers(0, top), min_size=32, max_size=32))
    if kind == "pairs":
        distance = draw(st.sampled_from((1, 2)))
        return tuple(values[lane & ~distance] for lane in LANES)
    return tuple(values)


@st.composite
def batches(draw: st.DrawFn) -> tuple[int, NDArray[np.int64], list[int]]:
    """(width, (R, 32) byte offsets, R masks): few distinct patterns, each at several places, in any order."""
    width = draw(st.sampled_from((1, 2, 4, 8, 16)))
    known = draw(st.lists(st.tuples(patterns(), masks()), min_size=1, max_size=12))
    one_mask = draw(st.booleans())
    rows = draw(st.lists(st.tuples(st.integers(0, len(known) - 1), st.integers(0, 2**40)), min_size=0, max_size=40))
    offsets = np.array([[base + o for o in known[i][0]] for i, base in rows], dtype=np.int64).reshape(-1, 32) * width
    return width, offsets, [known[0][1] if one_mask else known[i][1] for i, _ in rows]
