"""What ncu profiles: ``python -m ladder.counters.child JOBS.json`` computes each product, once of them profiled."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ladder import catalog
from ladder.backends.cuda import CudaBackend
from ladder.errors import LadderError
from ladder.model import Rung, Shape
from ladder.nvrtc import compile_rung

__all__ = ["main"]

F32 = NDArray[np.float32]


def main(arguments: Sequence[str]) -> int:
    """Run the jobs of a file, and tell another file how far it has come; the exit code.

    The first holds ``{"caches": ..., "jobs": [[path, rung, "MxNxK"], ...], "progress": path}``, with one of
    :data:`ladder.counters.batches.Caches`. The second gets a line for each event: ``ready PID``, ``begin`` and ``end``
    for each job in turn, ``failed`` with the reason. A job that fails is the last: it may have taken the CUDA context
    with it.
    """
    spec = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    with Path(spec["progress"]).open("a", encoding="utf-8") as file:

        def tell(event: str) -> None:
            file.write(f"{event}\n")
            file.flush()

        try:
            _run(spec, tell)
        except (LadderError, MemoryError) as error:
            words = " ".join(str(error).split()) or "the host has not the memory for its operands"
            tell(f"failed {words}")
            sys.stderr.write(f"{words}\n")
            return 1
    return 0


def _run(spec: dict[str, object], tell: Callable[[str], None]) -> None:
    jobs = spec["jobs"]
    assert isinstance(jobs, list)
    backend = CudaBackend()
    tell(f"ready {os.getpid()}")
    for path, name, shape in jobs:
        tell("begin")
        _profile(backend, _rung(Path(path), name), Shape.parse(shape), caches=str(spec["caches"]))
        tell("end")
    backend.close()


def _rung(path: Path, name: str) -> Rung:
    return next(rung for rung in catalog.parse_file(path) if rung.name == name)


def _profile(backend: CudaBackend, rung: Rung, shape: Shape, *, caches: str) -> None:
    from cuda.bindings import driver  # noqa: PLC0415 -- loads the CUDA bindings

    kernel = compile_rung(rung, arch=rung.arch_for(backend.device))
    with backend.prepared(kernel, *_operands(shape)) as (enqueue, _):
        if caches == "warm":
            enqueue()
        elif caches == "cold at first":
            backend.gpu.evict_l2()
        backend.gpu.stream.sync()
        driver.cuProfilerStart()
        enqueue()
        backend.gpu.stream.sync()
        driver.cuProfilerStop()


@lru_cache(maxsize=1)
def _operands(shape: Shape) -> tuple[F32, F32]:
    """A and B; jobs come shape by shape, and most of a small one's time would go into drawing these."""
    random = np.random.default_rng(2026)
    a = random.random((shape.m, shape.k), dtype=np.float32)
    b = random.random((shape.k, shape.n), dtype=np.float32)
    return a, b


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
