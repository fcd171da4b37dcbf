"""Atomic updates, lane after lane in order of block and thread. A GPU's order is free: sums may differ in rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ladder.errors import BackendError
from ladder.ptx.site import Site

__all__ = ["apply_global", "apply_shared"]

Array = NDArray[Any]

_UFUNC = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def apply_global(
    site: Site, view: Array, index: NDArray[np.int64], values: tuple[Array, ...], lanes: NDArray[np.bool_]
) -> Array:
    """Update ``view[index]`` in the active lanes; returns the old values, zeros where nobody reads them."""
    where = np.nonzero(lanes.T)
    thread, block = where[1], where[0]
    places = np.broadcast_to(index, lanes.shape)[thread, block]
    operands = [np.broadcast_to(v, lanes.shape)[thread, block] for v in values]
    old = np.zeros(lanes.shape, site.dtype)
    if site.kind == "red" and site.operation in _UFUNC:
        _UFUNC[site.operation].at(view, places, operands[0])
        return old
    step = _step(site)
    for lane, place in enumerate(places):
        before = view[place]
        old[thread[lane], block[lane]] = before
        view[place] = step(before, *(o[lane] for o in operands))
    return old


def apply_shared(
    site: Site, words: NDArray[np.uint32], byte: NDArray[np.int64], values: tuple[Array, ...], lanes: NDArray[np.bool_]
) -> Array:
    """The same on the (words, blocks) array of shared memory.

    Raises:
        BackendError: the atomic is not of 4 bytes.
    """
    if site.dtype.itemsize != 4:
        raise BackendError(f"{site.where}: `{site.op}`: only 4-byte atomics on shared memory are emulated")
    columns = words.shape[1]
    index = (byte >> 2) * columns + np.arange(columns)[None, :]
    return apply_global(site, words.reshape(-1).view(site.dtype), index, values, lanes)


def _step(site: Site) -> Callable[..., Any]:
    """One atomic operation on scalars (PTX ISA, ``atom``)."""
    operation = site.operation
    steps: dict[str, Callable[..., Any]] = {
        **_UFUNC,
        "exch": lambda _old, new: new,
        "cas": lambda old, compare, new: new if old == compare else old,
        "inc": lambda old, limit: site.dtype.type(0) if old >= limit else old + site.dtype.type(1),
        "dec": lambda old, limit: limit if old == 0 or old > limit else old - site.dtype.type(1),
    }
    return steps[operation]
