"""What ncu profiles: ``python -m ladder.counters.child JOBS.json`` computes each product, once of them profiled."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ladder import catalog
from ladder.backends.cuda import CudaBackend
from ladder.errors import LadderError
from ladder.model import Rung, Shape
from ladder.nvrtc import compile_rung

__all__ = ["main"]


def main(arguments: Sequence[str]) -> int:
    """Run the jobs of a file: ``{"warm": bool, "jobs": [[path, rung, "MxNxK"], ...]}``; the exit code."""
    spec = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    try:
        backend = CudaBackend()
        for path, name, shape in spec["jobs"]:
            _profile(backend, _rung(Path(path), name), Shape.parse(shape), warm=spec["warm"])
        backend.close()
    except LadderError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _rung(path: Path, name: str) -> Rung:
    return next(rung for rung in catalog.parse_file(path) if rung.name == name)


def _profile(backend: CudaBackend, rung: Rung, shape: Shape, *, warm: bool) -> None:
    from cuda.bindings import driver  # noqa: PLC0415 -- loads the CUDA bindings

    random = np.random.default_rng(2026)
    a = random.random((shape.m, shape.k), dtype=np.float32)
    b = random.random((shape.k, shape.n), dtype=np.float32)
    kernel = compile_rung(rung, arch=rung.arch_for(backend.device))
    with backend.prepared(kernel, a, b) as (enqueue, _):
        if warm:
            enqueue()
        backend.gpu.stream.sync()
        driver.cuProfilerStart()
        enqueue()
        backend.gpu.stream.sync()
        driver.cuProfilerStop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
