"""Banks and sectors: the one definition of a wavefront and a sector that a warp request costs.

``wavefronts`` and ``sectors`` define them for one request of 32 lanes; the ``*_batch`` functions give the same counts
for many requests at once. ``reduction_*`` speak of ``red.global``, which serves equal addresses one after the other.
"""

from ladder.memory.banks import REDUCTION_WINDOW_BYTES, Space, reduction_wavefronts, wavefronts
from ladder.memory.batch import (
    reduction_sectors_batch,
    reduction_wavefronts_batch,
    sectors_batch,
    unique_sectors,
    wavefronts_batch,
)
from ladder.memory.request import BANKS, FULL_WARP, SECTOR_BYTES, WARP_LANES, WAVEFRONT_BYTES, WIDTHS_BYTES, WORD_BYTES
from ladder.memory.sectors import reduction_sectors, sectors

__all__ = [
    "BANKS",
    "FULL_WARP",
    "REDUCTION_WINDOW_BYTES",
    "SECTOR_BYTES",
    "WARP_LANES",
    "WAVEFRONT_BYTES",
    "WIDTHS_BYTES",
    "WORD_BYTES",
    "Space",
    "reduction_sectors",
    "reduction_sectors_batch",
    "reduction_wavefronts",
    "reduction_wavefronts_batch",
    "sectors",
    "sectors_batch",
    "unique_sectors",
    "wavefronts",
    "wavefronts_batch",
]
