"""Where an array lies in its allocation, and what a kernel wrote outside it. Pure arithmetic, no CUDA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ALIGNMENT_BYTES", "CANARY_BITS", "GUARD_BYTES", "Slot", "change", "stray_writes"]

GUARD_BYTES = 2**18
"""Canaries on each side of an array: 16 rows of 4096 floats, so that a tile that runs past the last row is caught."""

ALIGNMENT_BYTES = 256
"""What an allocation is aligned to at least (CUDA C++ Programming Guide, "Device Memory Accesses")."""

CANARY_BITS = 0x7FC5A5A5
"""A quiet NaN: a kernel that reads it gives itself away in C, one that adds to it changes its bits."""

_WORD = 4
U32 = NDArray[np.uint32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One array inside its own allocation: guard, array, guard.

    Attributes:
        nbytes: bytes of the array, a multiple of 4; may be 0.
        offset: elements (4 bytes) by which the array is shifted from an aligned address.
    """

    nbytes: int
    offset: int = 0

    def __post_init__(self) -> None:
        if self.nbytes < 0 or self.nbytes % _WORD or self.offset < 0:
            raise ValueError(f"slot of {self.nbytes} bytes at offset {self.offset}: float32 elements, offset >= 0")

    @property
    def start(self) -> int:
        """First byte of the array."""
        return GUARD_BYTES + _WORD * self.offset

    @property
    def end(self) -> int:
        """One past its last byte."""
        return self.start + self.nbytes

    @property
    def total_bytes(self) -> int:
        """Bytes to allocate."""
        return -(-self.end // ALIGNMENT_BYTES) * ALIGNMENT_BYTES + GUARD_BYTES


def stray_writes(name: str, before: U32, after: U32) -> str | None:
    """What was written around array ``name``, in one line; None when every canary is as it was.

    Args:
        name: what the array is called in the message.
        before: the words up to the array's first.
        after: the words from one past its last.
    """
    found = []
    touched = np.flatnonzero(after != CANARY_BITS)
    if touched.size:
        first = _WORD * int(touched[0])
        found.append(f"{touched.size} words past the end of {name}, the first {first} bytes after it")
    touched = np.flatnonzero(before != CANARY_BITS)
    if touched.size:
        last = _WORD * (len(before) - int(touched[-1]))
        found.append(f"{touched.size} words before {name}, the last {last} bytes before it")
    return f"wrote {' and '.join(found)}" if found else None


def change(name: str, expected: NDArray[Any], got: NDArray[Any], *, first_row: int = 0) -> str | None:
    """The first element of an input that a kernel changed, in one line; None when every bit is as it was.

    ``expected`` and ``got`` are rows ``first_row ...`` of the array.
    """
    differs = np.ascontiguousarray(expected).view(np.uint32) != np.ascontiguousarray(got).view(np.uint32)
    if not differs.any():
        return None
    row, col = (int(i) for i in np.unravel_index(int(differs.argmax()), differs.shape))
    was, now = expected[row, col], got[row, col]
    return f"changed its input {name}: [row {first_row + row}, column {col}] was {was:.9g}, is {now:.9g}"
