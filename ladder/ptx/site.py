"""Memory instructions as the interpreter sees them, and the numpy types behind PTX's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ladder.ptx.fuse import Fusion

__all__ = ["DTYPE", "LOCAL_BASE", "Site"]

LOCAL_BASE = 1 << 24
"""Where generic addresses of ``.local`` memory begin; shared memory lies below, global buffers far above."""

DTYPE = {
    "b8": "uint8", "u8": "uint8", "s8": "int8", "b16": "uint16", "u16": "uint16", "s16": "int16", "b32": "uint32",
    "u32": "uint32", "s32": "int32", "f32": "float32", "b64": "uint64", "u64": "uint64", "s64": "int64",
    "f64": "float64", "pred": "bool",
}  # fmt: skip


@dataclass(slots=True)
class Site:
    """One memory instruction of a program.

    Attributes:
        kind: ``"ld"``, ``"st"``, ``"red"`` or ``"atom"``; ``operation`` is the arithmetic of the last two. Also
            ``"ldmatrix"``, and ``"copy"`` for the global side of ``cp.async``, whose shared side is a store.
        space: ``"global"``, ``"shared"``, ``"local"`` or ``"generic"``.
        elements: 1, 2 or 4 values of ``dtype`` a lane.
        offset: bytes added to the address register.
        where: ``FILE.cu:LINE``.
        fusion: how ptxas will issue it, when it merges with its neighbours.
    """

    index: int
    op: str
    kind: str
    space: str
    dtype: np.dtype[Any]
    elements: int
    offset: int
    where: str
    operation: str = ""
    fusion: Fusion | None = None

    @property
    def width_bytes(self) -> int:
        """Bytes a lane asks for."""
        return self.dtype.itemsize * self.elements
