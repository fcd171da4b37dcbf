"""Tensor maps: a matrix's place, sizes and box as the 128 opaque bytes that the TMA unit reads."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ladder.errors import BackendError
from ladder.model import TensorTile

__all__ = ["TENSOR_MAP_BYTES", "tensor_map"]

TENSOR_MAP_BYTES = 128
_ALIGNMENT_BYTES = 64
_SINCE_CUDA = 12000
"""The version of CUDA that brought cuTensorMapEncodeTiled."""

U8 = NDArray[np.uint8]
Encoder = Callable[..., int]


def tensor_map(pointer: int, rows: int, cols: int, tile: TensorTile) -> U8:
    """The map of a row-major float32 matrix on the device; zeros for one without elements.

    What a box holds beyond the matrix reads as zero; L2 is asked for 256 bytes at a time.

    Args:
        pointer: address of its first element, a multiple of 16.
        rows: its rows.
        cols: its columns; 4 * cols is a multiple of 16.
        tile: the box and its swizzle.

    Returns:
        128 bytes at an address that is a multiple of 64, as the encoder wants it and kernels take it.

    Raises:
        BackendError: the driver has no tensor maps, or refuses this one.
    """
    found = _aligned_bytes()
    if rows == 0 or cols == 0:
        return found
    from cuda.bindings import driver  # noqa: PLC0415 -- loads the CUDA bindings

    swizzle = getattr(
        driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{f'{tile.swizzle}B' if tile.swizzle else 'NONE'}"
    )
    status = _encoder()(
        found.ctypes.data,
        int(driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_FLOAT32),
        2,
        pointer,
        # The innermost axis comes first; the step along it is one element, so that strides begin with the next.
        (ctypes.c_uint64 * 2)(cols, rows),
        (ctypes.c_uint64 * 1)(4 * cols),
        (ctypes.c_uint32 * 2)(tile.box[1], tile.box[0]),
        (ctypes.c_uint32 * 2)(1, 1),
        int(driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE),
        int(swizzle),
        int(driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B),
        int(driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
    )
    if status != 0:
        raise BackendError(
            f"a tensor map of {tile.of} ({rows} x {cols} at {pointer:#x}, box {tile.box[0]} x {tile.box[1]}, swizzle "
            f"{tile.swizzle}): {driver.CUresult(status).name}"
        )
    return found


def _aligned_bytes() -> U8:
    room = np.zeros(TENSOR_MAP_BYTES + _ALIGNMENT_BYTES, np.uint8)
    start = -room.ctypes.data % _ALIGNMENT_BYTES
    return room[start : start + TENSOR_MAP_BYTES]


@lru_cache(maxsize=1)
def _encoder() -> Encoder:
    """The driver's own function: its wrapper in the CUDA bindings encodes into memory that may not be aligned."""
    from cuda.bindings import driver  # noqa: PLC0415 -- loads the CUDA bindings

    status, address, _ = driver.cuGetProcAddress(b"cuTensorMapEncodeTiled", _SINCE_CUDA, 0)
    if status != driver.CUresult.CUDA_SUCCESS or not int(address):
        raise BackendError(f"the driver knows no tensor maps ({status.name}); update it to one of CUDA 12 or later")
    pointer, word, size = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int
    kind = ctypes.CFUNCTYPE(
        ctypes.c_int, pointer, size, word, pointer, pointer, pointer, pointer, pointer, size, size, size, size
    )
    return kind(int(address))
