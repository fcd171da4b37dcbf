"""The project's nouns, as frozen dataclasses that refuse wrong values. No I/O, no CUDA.

Lengths are elements, ``*_bytes`` bytes, ``*_s`` seconds, ``*_flop`` work and ``*_flop_per_s`` rate.
"""

from ladder.model._activity import Activity, all_of
from ladder.model._basics import FP32_UNIT_ROUNDOFF, LEVELS, ORIGINS, Device, Kind, Level, Origin, Shape
from ladder.model._results import (
    STEADY_CLOCK,
    Check,
    Law,
    Method,
    Placement,
    Quantity,
    Resources,
    Roofs,
    Timing,
    Traffic,
    Watched,
    added,
)
from ladder.model._rung import Matrix, Pack, Precision, Rung, TensorTile

__all__ = [
    "FP32_UNIT_ROUNDOFF",
    "LEVELS",
    "ORIGINS",
    "STEADY_CLOCK",
    "Activity",
    "Check",
    "Device",
    "Kind",
    "Law",
    "Level",
    "Matrix",
    "Method",
    "Origin",
    "Pack",
    "Placement",
    "Precision",
    "Quantity",
    "Resources",
    "Roofs",
    "Rung",
    "Shape",
    "TensorTile",
    "Timing",
    "Traffic",
    "Watched",
    "added",
    "all_of",
]
