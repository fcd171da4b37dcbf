"""Entries of a record of tuned parameters."""

from __future__ import annotations

from ladder.model import Shape
from ladder.shapes import shape_class
from ladder.tuned import Tuned

__all__ = ["entry"]


def entry(n: int = 4096, **changes: object) -> Tuned:
    """An H200's entry for ``fast`` at n x n x n, with ``changes`` to its fields."""
    shape = Shape(m=n, n=n, k=n)
    fields: dict[str, object] = {
        "card": "NVIDIA H200",
        "driver": "580.159.04",
        "nvrtc": "13.0",
        "date": "2026-11-30T09:43:36Z",
        "rung": "fast",
        "source_sha256": "0" * 64,
        "code_sha256": "1" * 64,
        "shape": shape,
        "shape_class": shape_class(shape, 132),
        "params": {"BK": 16, "STAGES": 4},
        "flop_per_s": 56e12,
        "samples": 57,
        "declared": {"BK": 8, "STAGES": 3},
        "declared_flop_per_s": 50e12,
        "peer_flop_per_s": 51.2e12,
        "tried": 5,
        "left_out": {"spills registers": 2},
    }
    return Tuned(**(fields | changes))
