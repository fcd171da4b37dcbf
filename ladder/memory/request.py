"""One warp request: 32 lanes, their byte offsets, the access width and which lanes take part."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ladder.errors import InputError

__all__ = [
    "BANKS",
    "FULL_WARP",
    "SECTOR_BYTES",
    "WARP_LANES",
    "WAVEFRONT_BYTES",
    "WIDTHS_BYTES",
    "WORD_BYTES",
    "Offsets",
    "active_lanes",
    "check_width",
]

WARP_LANES = 32
FULL_WARP = 0xFFFFFFFF
"""The mask in which every lane is active; bit l stands for lane l."""

WORD_BYTES = 4
BANKS = 32
"""Banks of the SM's data array, each one 4-byte word wide (CUDA C++ Programming Guide, shared memory)."""

WAVEFRONT_BYTES = BANKS * WORD_BYTES
"""What one wavefront, one pass of the SM's data pipe, can move."""

SECTOR_BYTES = 32
"""The unit in which L1 looks up and moves global memory: a quarter of a 128-byte line."""

WIDTHS_BYTES = (1, 2, 4, 8, 16)

Offsets = Sequence[int] | NDArray[np.integer]


def check_width(width_bytes: int) -> None:
    """Refuse a width that no load or store of one lane has.

    Raises:
        InputError: the width is not 1, 2, 4, 8 or 16.
    """
    if width_bytes not in WIDTHS_BYTES:
        raise InputError(
            f"width of {width_bytes!r} bytes: a lane accesses 1, 2, 4, 8 or 16 bytes. Split a wider access."
        )


def active_lanes(offsets_bytes: Offsets, width_bytes: int, active: int) -> dict[int, int]:
    """Lane number -> byte offset, for the lanes that take part, in lane order.

    The offsets of inactive lanes are not looked at.

    Raises:
        InputError: not 32 offsets, a width or mask that does not exist, or an active lane whose offset is not a
            multiple of the width (the hardware faults on it, so it has no cost).
    """
    check_width(width_bytes)
    if len(offsets_bytes) != WARP_LANES:
        raise InputError(f"a warp request has 32 offsets, one a lane; got {len(offsets_bytes)}")
    if not 0 <= active <= FULL_WARP:
        raise InputError(f"active mask {active:#x} does not fit 32 lanes; give 0 .. 0xffffffff")
    lanes = {lane: int(offsets_bytes[lane]) for lane in range(WARP_LANES) if active >> lane & 1}
    for lane, offset in lanes.items():
        if offset % width_bytes:
            raise InputError(
                f"lane {lane}: offset {offset} is not a multiple of the width, {width_bytes} bytes; "
                f"align it or access it in narrower pieces"
            )
    return lanes
