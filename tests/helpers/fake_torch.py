"""A double of the part of torch that the benchmarks use: its tensors are numpy arrays, its GPU is the host."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

__all__ = ["FakeTensor", "fake_torch", "view_of"]


class FakeTensor(np.ndarray):
    """numpy's array with torch's names."""

    def to(self, what: Any) -> FakeTensor:
        return self if isinstance(what, str) else self.astype(what)

    def double(self) -> FakeTensor:
        return self.astype(np.float64)

    def abs(self) -> FakeTensor:
        return np.abs(self)

    def clone(self) -> FakeTensor:
        return self.copy()

    def cpu(self) -> FakeTensor:
        return self

    def data_ptr(self) -> int:
        return self.ctypes.data

    def numpy(self) -> np.ndarray:
        return np.asarray(self)

    def fill_(self, value: Any) -> None:
        self[...] = value

    def copy_(self, other: Any) -> None:
        self[...] = other

    def view(self, *what: Any) -> FakeTensor:
        return self.reshape(what) if isinstance(what[0], int) else super().view(*what)


def view_of(_name: str, array: FakeTensor, _stream: int) -> Any:
    """What ``device_arrays`` sees of a tensor."""
    return SimpleNamespace(
        ptr=array.ctypes.data, shape=array.shape, strides=None, dtype=array.dtype, device_id=0, readonly=False
    )


def fake_torch(*, enqueued: Callable[[str], None] = lambda _: None, tf32_bits: int = 10) -> ModuleType:
    """The module: ``mm`` rounds its operands to ``tf32_bits`` of mantissa where the precision is ``"high"``.

    ``enqueued`` is called with the precision of each product.
    """
    torch = ModuleType("torch")
    state = {"precision": "highest"}

    def mm(a: FakeTensor, b: FakeTensor, *, out: FakeTensor) -> None:
        if state["precision"] == "high":
            a, b = (_rounded(operand, tf32_bits) for operand in (a, b))
        enqueued(state["precision"])
        out[...] = (a.double() @ b.double()).astype(np.float32)

    def made(values: np.ndarray) -> FakeTensor:
        return values.view(FakeTensor)

    content: dict[str, Any] = {
        "int32": np.int32,
        "uint8": np.uint8,
        "float32": np.float32,
        "mm": mm,
        "from_numpy": made,
        "full": lambda size, value, *, dtype, **_: made(np.full(size, value, dtype)),
        "empty": lambda size, *, dtype, **_: made(np.full(size, np.nan, dtype)),
        "equal": lambda one, other: bool(np.array_equal(one, other)),
        "get_float32_matmul_precision": lambda: state["precision"],
        "set_float32_matmul_precision": lambda precision: state.update(precision=precision),
        "cuda": SimpleNamespace(ExternalStream=lambda handle: handle, stream=lambda _: nullcontext()),
    }
    vars(torch).update(content)
    return torch


def _rounded(values: FakeTensor, bits: int) -> FakeTensor:
    mantissa, exponent = np.frexp(values.double())
    return np.ldexp(np.round(mantissa * 2.0 ** (bits + 1)), exponent - bits - 1).astype(np.float32)
