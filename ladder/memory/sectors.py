"""Sectors: the 32-byte pieces of global memory that one warp request touches at L1."""

from __future__ import annotations

from collections import Counter, defaultdict

from ladder.memory.banks import check_reduction_width
from ladder.memory.request import FULL_WARP, SECTOR_BYTES, Offsets, active_lanes

__all__ = ["reduction_sectors", "sectors"]


def sectors(addresses: Offsets, width_bytes: int, *, active: int = FULL_WARP) -> int:
    """Distinct 32-byte sectors of one warp's global load or store; L1 traffic is 32 bytes for each.

    Exact for all 612 loads and stores that were measured on an H200 (``l1tex__t_sectors``).

    Args:
        addresses: 32 byte addresses, one a lane, multiples of the width. Adding a multiple of 32 to all of them
            changes nothing.
        width_bytes: bytes a lane accesses: 1, 2, 4, 8 or 16.
        active: bit l is set when lane l takes part.

    Returns:
        0 when no lane is active, else 1 .. 32: an aligned access lies in one sector.

    Raises:
        InputError: an argument that no warp request can have.
    """
    return len({address // SECTOR_BYTES for address in active_lanes(addresses, width_bytes, active).values()})


def reduction_sectors(addresses: Offsets, width_bytes: int = 4, *, active: int = FULL_WARP) -> int:
    """Sectors that one warp's ``red.global`` on 4-byte words moves.

    Lanes on one word are served one after the other, and each round sends its sectors anew. So a sector counts as
    often as its most wanted word is hit. Exact for all 102 patterns that were measured on an H200.

    Args:
        addresses: 32 byte addresses, one a lane, multiples of 4.
        width_bytes: 4; other widths were not measured.
        active: bit l is set when lane l takes part.

    Raises:
        InputError: an argument that no warp request can have, or another width.
    """
    check_reduction_width(width_bytes)
    rounds: defaultdict[int, int] = defaultdict(int)
    for address, hits in Counter(active_lanes(addresses, width_bytes, active).values()).items():
        sector = address // SECTOR_BYTES
        rounds[sector] = max(rounds[sector], hits)
    return sum(rounds.values())
