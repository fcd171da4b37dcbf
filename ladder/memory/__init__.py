"""Banks and sectors: the one definition of a wavefront and a sector that a warp request costs.

``wavefronts`` and ``sectors`` define them for one request of 32 lanes; the ``*_batch`` functions give the same counts
for many requests at once. ``reduction_*`` speak of ``red.global``, which serves equal addresses one after the other.
"""

from ladder.memory.banks import Space, fetching_wavefronts, reduction_wavefronts, wavefronts
from ladder.memory.batch import (
    fetching_wavefronts_batch,
    place_matters,
    reduction_sectors_batch,
    reduction_wavefronts_batch,
    sectors_batch,
    unique_sectors,
    wavefronts_batch,
)
from ladder.memory.request import BANKS, FULL_WARP, SECTOR_BYTES, WARP_LANES, WAVEFRONT_BYTES, WIDTHS_BYTES, WORD_BYTES
from ladder.memory.sectors import reduction_sectors, sectors
from ladder.memory.tags import LINE_BYTES, tag_bank

__all__ = [
    "BANKS",
    "FULL_WARP",
    "LINE_BYTES",
    "SECTOR_BYTES",
    "WARP_LANES",
    "WAVEFRONT_BYTES",
    "WIDTHS_BYTES",
    "WORD_BYTES",
    "Space",
    "fetching_wavefronts",
    "fetching_wavefronts_batch",
    "place_matters",
    "reduction_sectors",
    "reduction_sectors_batch",
    "reduction_wavefronts",
    "reduction_wavefronts_batch",
    "sectors",
    "sectors_batch",
    "tag_bank",
    "unique_sectors",
    "wavefronts",
    "wavefronts_batch",
]
