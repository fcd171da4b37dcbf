"""Address arrays over (threads, blocks): how they split, and which lanes of which blocks take part.

Most addresses of a kernel are a term of the thread plus a term of the threadblock. Then every block issues the same
pattern, and one warp's worth of work counts them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Group", "Split", "groups", "rows_of_warps", "split"]

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

WARP = 32


class Split(NamedTuple):
    """``address[t, b] == thread[t] + block[b]``; ``thread`` and ``block`` are (T,) and (B,) int64."""

    thread: Int
    block: Int


class Group(NamedTuple):
    """Blocks with one set of active lanes: ``lanes`` (T,) bool and ``blocks`` indices, either None for all."""

    lanes: Bool | None
    blocks: NDArray[np.intp] | None


def split(address: NDArray[Any], threads: int, blocks: int) -> Split | None:
    """The two terms of an address array that broadcasts to (threads, blocks); None when it has no such form."""
    values = address.astype(np.int64) if address.dtype != np.uint64 else address.view(np.int64)
    if values.shape[1] == 1:
        return Split(np.broadcast_to(values[:, 0], (threads,)), np.zeros(blocks, np.int64))
    if values.shape[0] == 1:
        return Split(np.zeros(threads, np.int64), np.broadcast_to(values[0], (blocks,)))
    thread = values[:, 0] - values[0, 0]
    block = values[0]
    if (values - thread[:, None] == block).all():
        return Split(thread, block)
    return None


def groups(mask: Bool | None, threads: int, blocks: int) -> Iterator[Group]:
    """Partition the active lanes into blocks with equal masks. Blocks without an active lane are left out."""
    if mask is None:
        yield Group(None, None)
        return
    if mask.shape[1] == 1:
        lanes = np.broadcast_to(mask[:, 0], (threads,))
        if lanes.any():
            yield Group(None if lanes.all() else lanes, None)
        return
    if mask.shape[0] == 1:
        chosen = np.flatnonzero(np.broadcast_to(mask[0], (blocks,)))
        if len(chosen):
            yield Group(None, chosen)
        return
    packed = np.ascontiguousarray(np.packbits(mask, axis=0).T)
    keys = packed.view(np.dtype((np.void, packed.shape[1])))[:, 0]
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    for number, column in enumerate(first):
        lanes = mask[:, column]
        if lanes.any():
            yield Group(None if lanes.all() else lanes, np.flatnonzero(inverse.reshape(-1) == number))


def rows_of_warps(values: NDArray[Any], threads: int) -> NDArray[Any]:
    """(T, ...) -> (warps, 32, ...), the last warp filled up with zeros (False)."""
    missing = -threads % WARP
    if missing:
        values = np.concatenate([values, np.zeros((missing, *values.shape[1:]), values.dtype)])
    return values.reshape(-1, WARP, *values.shape[1:])
