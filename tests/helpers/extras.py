"""Two small rungs that need more than A, B and C: one takes tensor maps, one a packed B. Any GPU test compiles them."""

from __future__ import annotations

from pathlib import Path

__all__ = ["PACKED", "PACKED_PATH", "PERSISTENT_PATH", "TMA", "TMA_PATH"]

TMA_PATH = Path(__file__).parent / "extras_src" / "tma_tile.cu"
PACKED_PATH = Path(__file__).parent / "extras_src" / "packed_tile.cu"
PERSISTENT_PATH = Path(__file__).parent / "extras_src" / "persistent_tile.cu"
TMA = TMA_PATH.read_text(encoding="utf-8")
PACKED = PACKED_PATH.read_text(encoding="utf-8")
