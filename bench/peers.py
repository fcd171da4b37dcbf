"""cuBLAS beside a rung: SGEMM and TF32 as rows of kind ``peer``, timed with the rungs' own events.

    python bench/peers.py --shape 4096x4096x4096 --rung register_tile --into results.json

SGEMM is timed in turn with the rung, so that both meet the same clocks. TF32 is timed alone: it draws enough power to
slow down what runs beside it. Needs a GPU and torch, or cupy (which gives SGEMM alone).
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ladder import catalog, store
from ladder.backends.cuda import CudaBackend
from ladder.backends.timing import measure_interleaved
from ladder.check import inputs
from ladder.errors import InputError, LadderError
from ladder.model import FP32_UNIT_ROUNDOFF, Check, Shape, Timing
from ladder.nvrtc import compile_rung
from ladder.oracle import compare
from ladder.store import Run

F32 = NDArray[np.float32]
Enqueue = Callable[[], None]
Prepare = Callable[[F32, F32], tuple[Enqueue, Callable[[], F32]]]

TF32_UNIT_ROUNDOFF = 2.0**-11
"""TF32 keeps 10 bits of mantissa after the leading one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A library's product: ``prepare`` copies operands to the GPU and gives what enqueues it and what reads C."""

    name: str
    title: str
    unit_roundoff: float
    prepare: Prepare


def main(arguments: Sequence[str] | None = None) -> int:
    """Time the peers; print a table, or add their rows to a results file."""
    parser = argparse.ArgumentParser(description="Time cuBLAS beside a rung.")
    parser.add_argument("--shape", action="append", metavar="MxNxK", help="default 4096x4096x4096; may be repeated")
    parser.add_argument("--rung", default="register_tile", help="the rung that SGEMM is timed in turn with")
    parser.add_argument("--into", type=Path, metavar="RESULTS.json", help="add the rows to this results file")
    options = parser.parse_args(arguments)
    try:
        backend = CudaBackend()
        shapes = [Shape.parse(text) for text in options.shape or ["4096x4096x4096"]]
        rows = [row for shape in shapes for row in _side_by_side(backend, options.rung, shape)]
        if options.into is not None:
            results = store.load(options.into)
            for row in rows:
                if row.kind == "peer":
                    results = results.with_run(row)
            store.save(results, options.into)
    except LadderError as error:
        print(f"peers: {error}", file=sys.stderr)
        return error.exit_code
    return int(any(row.failed for row in rows))


def _side_by_side(backend: CudaBackend, rung_name: str, shape: Shape) -> list[Run]:
    (rung,) = catalog.find([rung_name])
    kernel = compile_rung(rung, arch=rung.arch_for(backend.device))
    a, b = inputs(shape, kind="uniform")
    rows: list[Run] = []
    with library(backend) as peers:
        for peer in peers:
            check = _prove(peer, shape)
            enqueue, _ = peer.prepare(a, b)
            samplers = [backend.sampler(enqueue, 1)]
            beside = peer.unit_roundoff == FP32_UNIT_ROUNDOFF
            with backend.prepared(kernel, a, b) as (enqueue_rung, launches):
                if beside:
                    samplers.append(backend.sampler(enqueue_rung, launches))
                times = measure_interleaved(samplers)
            reading = backend.reading(enqueue, seconds_each=times[0].median)
            blank = Run(rung=peer.name, title=peer.title, kind="peer", shape=shape)
            rows.append(replace(blank, check=check, time=times[0]))
            _tell(rows[-1], times[0], f"SM {_or_none(reading.sm_clock_hz, 1e9)} GHz, {_or_none(reading.power_w, 1)} W")
            if beside:
                rows.append(Run(rung=rung.name, title=rung.title, kind=rung.kind, shape=shape, time=times[1]))
                _tell(rows[-1], times[1], "in turn with it")
    return rows


def _prove(peer: Peer, shape: Shape) -> Check:
    a, b = inputs(shape, kind="integers")
    exact = compare(_once(peer, a, b), a, b, unit_roundoff=peer.unit_roundoff, exact=True)
    a, b = inputs(shape, kind="normal")
    close = compare(_once(peer, a, b), a, b, unit_roundoff=peer.unit_roundoff, normal=True)
    failures = [str(verdict) for verdict in (exact, close) if not verdict.passed]
    return Check(
        passed=not failures,
        exact_integers=exact.passed,
        worst_error_over_bound=close.worst_error_over_bound,
        failure="; ".join(failures) or None,
    )


def _once(peer: Peer, a: F32, b: F32) -> F32:
    enqueue, read = peer.prepare(a, b)
    enqueue()
    return read()


@contextmanager
def library(backend: CudaBackend) -> Iterator[list[Peer]]:
    """The library through torch, or else through cupy, enqueueing on the backend's own stream."""
    handle = int(backend.gpu.stream.handle)
    torch, cupy = (_imported(name) for name in ("torch", "cupy"))
    if torch is not None:
        before = torch.get_float32_matmul_precision()
        with torch.cuda.stream(torch.cuda.ExternalStream(handle)):
            yield [_sgemm(_torch(torch, "highest")), _tf32(_torch(torch, "high"))]
        torch.set_float32_matmul_precision(before)
    elif cupy is not None:
        with cupy.cuda.ExternalStream(handle):
            yield [_sgemm(_cupy(cupy))]
    else:
        raise InputError("peers need torch or cupy, and neither is installed; pip install torch, or cupy-cuda13x")


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _sgemm(prepare: Prepare) -> Peer:
    return Peer(name="cublas_sgemm", title="cuBLAS SGEMM", unit_roundoff=FP32_UNIT_ROUNDOFF, prepare=prepare)


def _tf32(prepare: Prepare) -> Peer:
    return Peer(name="cublas_tf32", title="cuBLAS TF32", unit_roundoff=TF32_UNIT_ROUNDOFF, prepare=prepare)


def _torch(torch: Any, precision: str) -> Prepare:
    def prepare(a: F32, b: F32) -> tuple[Enqueue, Callable[[], F32]]:
        left, right = (torch.from_numpy(array).to("cuda") for array in (a, b))
        c = torch.empty((a.shape[0], b.shape[1]), dtype=torch.float32, device="cuda")
        torch.set_float32_matmul_precision(precision)

        def enqueue() -> None:
            torch.mm(left, right, out=c)

        return enqueue, lambda: c.cpu().numpy()

    return prepare


def _cupy(cupy: Any) -> Prepare:
    def prepare(a: F32, b: F32) -> tuple[Enqueue, Callable[[], F32]]:
        left, right = cupy.asarray(a), cupy.asarray(b)
        c = cupy.empty((a.shape[0], b.shape[1]), dtype=cupy.float32)

        def enqueue() -> None:
            cupy.matmul(left, right, out=c)

        return enqueue, lambda: cupy.asnumpy(c)

    return prepare


def _tell(row: Run, time: Timing, note: str) -> None:
    rate = row.flop_per_s or 0.0
    right = "" if row.check is None else ("right" if row.check.passed else f"WRONG: {row.check.failure}")
    print(f"{row.rung:<16} {row.shape!s:<16} {rate / 1e12:8.2f} TFLOP/s  {time.median * 1e6:10.1f} us  {note} {right}")


def _or_none(value: float | None, unit: float) -> str:
    return "?" if value is None else f"{value / unit:.4g}"


if __name__ == "__main__":
    sys.exit(main())
