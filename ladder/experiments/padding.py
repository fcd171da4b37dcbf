"""Wavefronts of rung 04 and rung 05 for any padding, from the arithmetic of banks alone."""

from __future__ import annotations

from dataclasses import dataclass

from ladder.memory import WARP_LANES, WORD_BYTES, wavefronts
from ladder.store import Run

__all__ = ["PADS", "TILE", "Predicted", "pad_of", "pitch_of", "predicted"]

TILE = 32
"""T: a warp is one row of the tile."""

PADS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 32)
"""Words of padding that are tried: up to a sector, and one that is as bad as none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """Shared-memory requests and wavefronts of one warp for one pair of tiles.

    Attributes:
        width_bytes: of a load of the transposed tile: as wide as its pitch keeps it aligned.
        column: wavefronts of one such load.
    """

    width_bytes: int
    column: int
    requests: int
    wavefronts: int

    @property
    def per_request(self) -> float:
        """Wavefronts a request, loads and stores together."""
        return self.wavefronts / self.requests

    def to_json(self) -> dict[str, float]:
        """For the results file."""
        return {
            "load_bytes": self.width_bytes,
            "wavefronts_per_column_load": self.column,
            "wavefronts_per_request": self.per_request,
        }


def pitch_of(run: Run) -> int:
    """Words from one column of the transposed tile to the next, in a run of this experiment."""
    return TILE + pad_of(run)


def pad_of(run: Run) -> int:
    """Words of padding; rung 04 has none."""
    return (run.params or {}).get("PAD", 0)


def predicted(pitch: int) -> Predicted:
    """The cost of the transposed tile at ``pitch`` words a column.

    Lane x holds column x. It writes word x * pitch + y, and reads word x * pitch + k for every k of the tile. ptxas
    reads neighbouring k at once where the pitch keeps them aligned: four where it is a multiple of 4, two where it is
    even. The other tile is written along its rows, and four words of it are read at once, the same by all lanes.
    """
    width = 4 * WORD_BYTES if pitch % 4 == 0 else 2 * WORD_BYTES if pitch % 2 == 0 else WORD_BYTES
    columns = [WORD_BYTES * pitch * lane for lane in range(WARP_LANES)]
    rows = [WORD_BYTES * lane for lane in range(WARP_LANES)]
    broadcast = [0] * WARP_LANES
    column = wavefronts(columns, width)
    loads, wide = TILE * WORD_BYTES // width, TILE // 4
    return Predicted(
        width_bytes=width,
        column=column,
        requests=loads + wide + 2,
        wavefronts=loads * column
        + wide * wavefronts(broadcast, 4 * WORD_BYTES)
        + wavefronts(columns, WORD_BYTES, store=True)
        + wavefronts(rows, WORD_BYTES, store=True),
    )
