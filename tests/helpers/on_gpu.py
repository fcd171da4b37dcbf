"""The GPU and the kernels compiled for it, opened once a session. Only tests marked ``gpu`` may call these."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from ladder.backends.cuda import CudaBackend
from ladder.catalog import load_catalog, parse_file
from ladder.model import Rung
from ladder.nvrtc import Compiled, compile_rung

__all__ = ["RUNGS", "backend", "compiled", "kernel_of", "mutant", "need"]

RUNGS: tuple[Rung, ...] = load_catalog()
MUTANTS = Path(__file__).parent / "mutants"


@cache
def backend() -> CudaBackend:
    """The first GPU; DriverMissingError says what is missing when there is none."""
    return CudaBackend()


def need(rung: Rung) -> None:
    """Skip a test of a rung that the GPU cannot run, and say why."""
    reason = rung.why_not_on(backend().device)
    if reason is not None:
        pytest.skip(f"{rung.name} {reason}")


@cache
def _compiled(name: str) -> Compiled:
    rung = next(rung for rung in RUNGS if rung.name == name)
    return compile_rung(rung, arch=rung.arch_for(backend().device))


def compiled(rung: Rung) -> Compiled:
    """A rung of the catalogue, compiled for the GPU."""
    return _compiled(rung.name)


@cache
def mutant(name: str) -> Compiled:
    """``tests/helpers/mutants/NAME.cu``, compiled for the GPU."""
    return compile_rung(parse_file(MUTANTS / f"{name}.cu")[0], arch=backend().device.arch)


def kernel_of(name: str, body: str, *, before: str = "", smem_bytes: int = 0) -> Compiled:
    """A kernel with a 16 x 16 tile and block whose body is given, compiled for the GPU."""
    arguments = "const float* A, const float* B, float* C, int M, int N, int K"
    rung = Rung(
        name=name, number=0, kind="rung", title=name, kernel=name, params={}, tile=(16, 16), block=(16, 16, 1),
        path=Path(f"{name}.cu"), source=f"{before}\n__global__ void {name}({arguments}) {{\n{body}\n}}\n",
        smem_bytes=smem_bytes,
    )  # fmt: skip
    return compile_rung(rung, arch=backend().device.arch)
