"""Wavefronts: passes of the SM's data pipe that one warp request takes, by bank.

The rule explains what an NVIDIA H200's counters say of some 700 loads and stores in each space, pattern by pattern;
``tests/data/`` holds them, and the tests compare every one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Literal

from ladder.errors import InputError
from ladder.memory.request import BANKS, FULL_WARP, WARP_LANES, WAVEFRONT_BYTES, WORD_BYTES, Offsets, active_lanes
from ladder.memory.tags import LINE_BYTES, tag_passes

__all__ = ["Space", "check_space", "fetching_wavefronts", "group_lanes", "reduction_wavefronts", "wavefronts"]

Space = Literal["shared", "global"]


def check_space(space: str) -> None:
    """Refuse a state space that has no banks.

    Raises:
        InputError: the space is neither ``"shared"`` nor ``"global"``.
    """
    if space not in ("shared", "global"):
        raise InputError(f'space {space!r}: wavefronts are known for "shared" and "global"')


def group_lanes(width_bytes: int) -> int:
    """Lanes that one wavefront can serve: 32, 16 or 8 for accesses of up to 4, 8 or 16 bytes (128 bytes in all)."""
    return WAVEFRONT_BYTES // max(width_bytes, WORD_BYTES)


def wavefronts(
    offsets_bytes: Offsets,
    width_bytes: int,
    *,
    space: Space = "shared",
    store: bool = False,
    active: int = FULL_WARP,
) -> int:
    """Wavefronts of one warp's load or store.

    Lanes are served in groups of 32, 16 or 8 consecutive lanes for 4-, 8- and 16-byte accesses. A group costs the
    largest number of distinct words that its active lanes touch in one of the 32 banks (word w lies in bank w % 32);
    a group without an active lane costs nothing. Lanes on the same word are served at once (broadcast).

    Shared *loads* of 8 or 16 bytes merge adjacent groups in pairs when every active lane has the address of lane ^ 1,
    or every active lane that of lane ^ 2; an inactive partner counts as equal. Stores and global requests never merge.

    Accesses of 1 and 2 bytes count as their containing word.

    Exact for all 366 shared loads, 366 shared stores and 306 global loads that were measured on an H200. Global stores
    are exact up to 20 lines of 128 bytes a request; beyond, the count is a lower bound: 14 of 306 measured stores, each
    over 24 lines or more, cost 1.5 to 8 times as much, on average over requests.

    Args:
        offsets_bytes: 32 byte offsets, one a lane, multiples of the width. Adding a multiple of 4 to all of them
            changes nothing.
        width_bytes: bytes a lane accesses: 1, 2, 4, 8 or 16.
        space: ``"shared"`` or ``"global"``.
        store: a store rather than a load.
        active: bit l is set when lane l takes part.

    Returns:
        0 when no lane is active, else 1 .. 32.

    Raises:
        InputError: an argument that no warp request can have.
    """
    check_space(space)
    lanes = active_lanes(offsets_bytes, width_bytes, active)
    size = group_lanes(width_bytes)
    if space == "shared" and not store and width_bytes > WORD_BYTES and _partners_agree(lanes):
        size *= 2
    return sum(
        _most_in_a_bank(_words(lanes, range(first, first + size), width_bytes)) for first in range(0, WARP_LANES, size)
    )


def fetching_wavefronts(addresses: Offsets, width_bytes: int, *, active: int = FULL_WARP, missing: int) -> int:
    """Wavefronts of one warp's global load of which some lines are not in L1.

    Lanes that hit are served together, as ``wavefronts`` says. Lanes on missing lines are served pass by pass of the
    tags, by the same rule: see :mod:`ladder.memory.tags`. So 32 lines of their own take eight wavefronts where one
    would serve them from L1, and no more than without a miss where their banks conflict anyway.

    Exact for 177 of the 185 launches of loads that were measured on one SM of an H200, hits and misses mixed; one takes
    402 where this says 403, and in the other seven 32 warps wait for the same lines.

    Args:
        addresses: 32 byte addresses, one a lane, multiples of the width. Unlike banks, tags depend on where they are.
        width_bytes: bytes a lane accesses: 1, 2, 4, 8 or 16.
        active: bit l is set when lane l takes part.
        missing: bit l is set when a sector that lane l needs is not in L1. All lanes of its line then wait for it.

    Raises:
        InputError: an argument that no warp request can have.
    """
    lanes = active_lanes(addresses, width_bytes, active)
    gone = {address // LINE_BYTES for lane, address in lanes.items() if missing >> lane & 1}
    parts: defaultdict[int, int] = defaultdict(int)
    for lane, turn in tag_passes(lanes).items():
        parts[turn if lanes[lane] // LINE_BYTES in gone else -1] |= 1 << lane
    return sum(wavefronts(addresses, width_bytes, space="global", active=part) for part in parts.values())


def reduction_wavefronts(addresses: Offsets, width_bytes: int = 4, *, active: int = FULL_WARP) -> int:
    """Wavefronts of one warp's ``red.global`` on 4-byte words.

    Unlike a load, lanes on the same word are served one after the other, and so are the passes in which the tags of
    the lines are looked up (:mod:`ladder.memory.tags`). So each pass costs the largest number of *lanes* that fall in
    one bank.

    Exact for 101 of 102 patterns that were measured on an H200, and for all but one of 37 launches that vary distance
    and pace; that pattern (two adjacent columns of 16 rows, 33 words apart) costs 9 where this says 8.

    Args:
        addresses: 32 byte addresses, one a lane, multiples of 4.
        width_bytes: 4; other widths were not measured.
        active: bit l is set when lane l takes part.

    Raises:
        InputError: an argument that no warp request can have, or another width.
    """
    check_reduction_width(width_bytes)
    lanes = active_lanes(addresses, width_bytes, active)
    words: defaultdict[int, list[int]] = defaultdict(list)
    for lane, turn in tag_passes(lanes).items():
        words[turn].append(lanes[lane] // WORD_BYTES)
    return sum(_most_in_a_bank(together) for together in words.values())


def check_reduction_width(width_bytes: int) -> None:
    """Refuse a width for which no reduction was measured.

    Raises:
        InputError: the width is not 4.
    """
    if width_bytes != WORD_BYTES:
        raise InputError(
            f"reduction of {width_bytes!r} bytes a lane: its cost is known for 4 bytes only; use f32 or 32-bit"
        )


def _words(lanes: dict[int, int], group: range, width_bytes: int) -> set[int]:
    """Distinct 4-byte words that the lanes of ``group`` touch."""
    return {
        word
        for lane in group
        if lane in lanes
        for word in range(lanes[lane] // WORD_BYTES, (lanes[lane] + width_bytes - 1) // WORD_BYTES + 1)
    }


def _most_in_a_bank(words: Iterable[int]) -> int:
    return max(Counter(word % BANKS for word in words).values(), default=0)


def _partners_agree(lanes: dict[int, int]) -> bool:
    return any(
        all(lanes.get(lane ^ distance, offset) == offset for lane, offset in lanes.items()) for distance in (1, 2)
    )
