"""Errors of rungs and of cuBLAS against float64, on data that tells them apart; schema ``ladder-errors/1``.

* ``uniform``: in [0, 1). Every sum grows, so a rounding toward zero adds up instead of averaging out.
* ``normal``: standard normal.
* ``scaled``: standard normal, with each row of A and each column of B times 10^x, x uniform in [-6, 6): C spans many
  decades, and an error that is measured against the largest element alone would not show.

Of each product C of A and B, with E = C - AB:

* ``normwise``: the Frobenius norm of E over that of AB.
* ``equilibrated``: the same after the scales of the rows and columns are divided out of both.
* ``componentwise``: the largest quotient of an element of abs(E) and the same of abs(A) abs(B).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.cublas import Library
from bench.gpu_oracle import Multiply
from bench.side_by_side import now
from ladder.backends.cuda import CudaBackend, multiply_device
from ladder.check import SEED
from ladder.climb import why_skipped
from ladder.errors import InputError
from ladder.model import Rung, Shape
from ladder.nvrtc import nvrtc_version
from ladder.store import write_whole

__all__ = ["DATA", "SCHEMA", "Errors", "Operands", "errors_of", "operands", "write_errors"]

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]

SCHEMA = "ladder-errors/1"
DATA = ("uniform", "normal", "scaled")
DECADES = 6.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Operands:
    """A and B with the scales that went into A's rows and B's columns."""

    a: F32
    b: F32
    row_scale: F64
    col_scale: F64


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """The three measures of one product; see the module."""

    normwise: float
    equilibrated: float
    componentwise: float


def operands(shape: Shape, data: str, *, seed: int = SEED) -> Operands:
    """One of :data:`DATA` for ``shape``, drawn from PCG64 seeded with ``seed``."""
    rng = np.random.Generator(np.random.PCG64(seed))
    draw = rng.random if data == "uniform" else rng.standard_normal
    a, b = draw((shape.m, shape.k)), draw((shape.k, shape.n))
    row_scale, col_scale = np.ones(shape.m), np.ones(shape.n)
    if data == "scaled":
        row_scale, col_scale = (10 ** rng.uniform(-DECADES, DECADES, side) for side in (shape.m, shape.n))
        a *= row_scale[:, None]
        b *= col_scale
    return Operands(a=a.astype(np.float32), b=b.astype(np.float32), row_scale=row_scale, col_scale=col_scale)


def errors_of(torch: Any, multiply: Multiply, given: Operands, *, device: str = "cuda") -> Errors:
    """The errors of ``multiply`` on ``given``, judged in float64 on torch's ``device``."""
    a, b, rows, cols = (
        torch.from_numpy(array).to(device)
        for array in (given.a, given.b, given.row_scale.reshape(-1, 1), given.col_scale.reshape(1, -1))
    )
    c = torch.full((a.shape[0], b.shape[1]), math.nan, dtype=torch.float32, device=device)
    multiply(a, b, c)
    wide_a, wide_b = a.double(), b.double()
    exact = wide_a @ wide_b
    error = c.double() - exact
    componentwise = float((error.abs() / (wide_a.abs() @ wide_b.abs())).max())
    normwise = _norm(error) / _norm(exact)
    scale = rows * cols
    return Errors(
        normwise=normwise, equilibrated=_norm(error / scale) / _norm(exact / scale), componentwise=componentwise
    )


def _norm(matrix: Any) -> float:
    return math.sqrt(float((matrix * matrix).sum()))


def write_errors(
    path: Path, lib: Library, backend: CudaBackend, rungs: Sequence[Rung], shapes: Sequence[Shape], *, command: str
) -> None:
    """Measure, print a table, and write the record to ``path``.

    Raises:
        InputError: torch is missing.
        StoreError: ``path`` cannot be written.
        BackendError, CompileError: a rung fails.
    """
    if lib.torch is None:
        raise InputError("errors are measured through torch, which is not installed; pip install torch")
    device = backend.device
    record = {
        "schema": SCHEMA,
        "created": now(),
        "command": command,
        "device": {"name": device.name, "driver": device.driver, "nvrtc": nvrtc_version()},
        "seed": SEED,
        "rows": [row for shape in shapes for row in _rows(lib, backend, rungs, shape)],
    }
    write_whole(path, json.dumps(record, indent=1) + "\n")
    print(f"errors are in {path}")


def _rows(lib: Library, backend: CudaBackend, rungs: Sequence[Rung], shape: Shape) -> Iterator[dict[str, Any]]:
    for data in DATA:
        given = operands(shape, data)
        products: list[tuple[str, str, Multiply]] = [(peer.name, "peer", peer.multiply) for peer in lib.peers]
        products += [
            (rung.name, "rung", _of_rung(rung)) for rung in rungs if why_skipped(rung, shape, backend.device) is None
        ]
        for name, kind, multiply in products:
            found = errors_of(lib.torch, multiply, given)
            measures = {key: getattr(found, key) for key in ("normwise", "equilibrated", "componentwise")}
            told = "  ".join(f"{key} {value:.3e}" for key, value in measures.items())
            print(f"{name:<18} {shape!s:<18} {data:<8} {told}", flush=True)
            # JSON has no NaN, which is what the error of a product with one is.
            known = {key: value if math.isfinite(value) else None for key, value in measures.items()}
            yield {"name": name, "kind": kind, "shape": str(shape), "data": data, **known}


def _of_rung(rung: Rung) -> Multiply:
    def multiply(a: Any, b: Any, out: Any) -> None:
        multiply_device(rung, a, b, out=out)

    return multiply
