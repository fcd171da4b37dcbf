"""What ncu profiles: ``python -m ladder.experiments.child JOBS.json`` runs each job once, and that is profiled."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ladder import catalog
from ladder.backends.cuda import CudaBackend
from ladder.catalog.streams import parse_stream
from ladder.errors import LadderError
from ladder.experiments.plan import Streamed
from ladder.experiments.streaming import data
from ladder.experiments.work import launcher, operands
from ladder.model import Rung, Shape
from ladder.nvrtc import compile_rung

__all__ = ["main"]


def main(arguments: Sequence[str]) -> int:
    """Run the jobs of a file, as :func:`ladder.experiments.counting.spec` has them; the exit code."""
    jobs = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    try:
        backend = CudaBackend()
        for job in jobs:
            with ExitStack() as held:
                _profiled(backend, _stream(job, backend, held) if "stream" in job else _product(job, backend, held))
        backend.close()
    except LadderError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _stream(job: dict[str, Any], backend: CudaBackend, held: ExitStack) -> Callable[[], None]:
    stream, n = parse_stream(Path(job["stream"])), int(job["n"])
    return launcher(Streamed(stream=stream, n=n), backend, data(stream, n, periodic=True), held)[0]


def _product(job: dict[str, Any], backend: CudaBackend, held: ExitStack) -> Callable[[], None]:
    rung = _rung(Path(job["rung"]), job["name"], job["params"])
    kernel = compile_rung(rung, arch=rung.arch_for(backend.device))
    enqueue, _ = held.enter_context(backend.prepared(kernel, *operands(Shape.parse(job["shape"]))))
    return enqueue


def _rung(path: Path, name: str, params: dict[str, int]) -> Rung:
    """The rung of a file that has this name, or any of its sweep, with these parameters."""
    rungs = catalog.parse_file(path)
    found = next((rung for rung in rungs if rung.name == name), rungs[0])
    if not params or dict(found.params) == params:
        return found
    return replace(catalog.with_params(found, params), name=name)


def _profiled(backend: CudaBackend, enqueue: Callable[[], None]) -> None:
    backend.gpu.stream.sync()
    with _profiler():
        enqueue()
        backend.gpu.stream.sync()


@contextmanager
def _profiler() -> Any:
    from cuda.bindings import driver  # noqa: PLC0415 -- loads the CUDA bindings

    driver.cuProfilerStart()
    yield
    driver.cuProfilerStop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
