"""A rung's candidates for tuning: each combination of the values that it declares, compiled and proved, or left out."""

from __future__ import annotations

import itertools
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from bench.gpu_oracle import GpuOracle
from ladder import catalog
from ladder.backends.cuda import CudaBackend, multiply_device
from ladder.check import prove
from ladder.errors import BackendError, CatalogError, CompileError, InputError
from ladder.model import Check, Rung, Shape
from ladder.nvrtc import Compiled, compile_rung, nvrtc_version

__all__ = [
    "NO_TIME",
    "UNSUPPORTED",
    "WRONG",
    "Candidates",
    "Judge",
    "ragged",
    "stand_ins",
    "tell_wrong",
    "tuned_values",
]

NOT_DECLARED = "the declaration does not allow it"
NOT_COMPILED = "does not compile"
SPILLS = "spills registers"
NO_ROOM = "does not fit an SM"
WRONG = "wrong"
NO_TIME = "no time left"
UNSUPPORTED = "does not support the shape"

STAND_IN_ELEMENTS = 2**22
"""Elements of C that numpy proves in about a second."""


def variants(declared: Rung) -> Iterator[Rung | None]:
    """The rung with each other combination of values, those nearest to its own first; None where it does not allow one.

    Raises:
        InputError: it declares nothing to tune.
    """
    if not declared.tune:
        raise InputError(
            f"rung {declared.name} declares nothing to tune; add for example `// tune = {{ BK = [8, 16] }}` to its file"
        )
    combinations = [
        dict(zip(declared.tune, values, strict=True)) for values in itertools.product(*declared.tune.values())
    ]
    changes = [{name: v for name, v in params.items() if v != declared.params[name]} for params in combinations]
    for changed in sorted(changes, key=len):
        if changed:
            try:
                yield catalog.with_params(declared, changed)
            except (CatalogError, InputError):
                yield None


def tuned_values(rung: Rung) -> dict[str, int]:
    """The values of the parameters that ``rung`` declares in ``tune``."""
    return {name: rung.params[name] for name in rung.tune}


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """What can be timed: the rung as declared, and others; ``left_out`` counts by reason what cannot."""

    incumbent: Compiled
    others: tuple[Compiled, ...]
    left_out: Mapping[str, int]

    @classmethod
    def of(cls, backend: CudaBackend, declared: Rung, *, deadline: float) -> Candidates:
        """Compile all, on all CPUs, and prove each at a small ragged shape, with guards around its buffers.

        Args:
            backend: the GPU.
            declared: the rung as its file has it.
            deadline: of ``time.monotonic``; what is not reached by then is left out.

        Raises:
            InputError: it declares nothing to tune, or cannot run here.
            CompileError, BackendError: it does not work as it is declared.
        """
        reason = declared.why_not_on(backend.device)
        if reason is not None:
            raise InputError(f"rung {declared.name} cannot be tuned here: it {reason}")
        found = list(variants(declared))
        nvrtc_version()  # loads the library before threads do
        arch = declared.arch_for(backend.device)
        incumbent = compile_rung(declared, arch=arch)
        problem = _problem(backend, incumbent)
        if problem is not None:
            raise BackendError(f"rung {declared.name} does not work as it is declared: {problem}")
        left_out: Counter[str] = Counter()
        others: list[Compiled] = []
        for compiled in _compiled([rung for rung in found if rung is not None], arch, deadline):
            if isinstance(compiled, str):
                left_out[compiled] += 1
            elif compiled.resources.spill_bytes:
                left_out[SPILLS] += 1
            elif time.monotonic() > deadline:
                left_out[NO_TIME] += 1
            elif (problem := _problem(backend, compiled)) is not None:
                left_out[problem.partition(":")[0]] += 1
            else:
                others.append(compiled)
        left_out[NOT_DECLARED] = found.count(None)
        return cls(incumbent=incumbent, others=tuple(others), left_out={k: n for k, n in left_out.items() if n})


def _compiled(rungs: Sequence[Rung], arch: str, deadline: float) -> list[Compiled | str]:
    """Each rung compiled, or why it is left out."""

    def compiled(rung: Rung) -> Compiled | str:
        if time.monotonic() > deadline:
            return NO_TIME
        try:
            return compile_rung(rung, arch=arch)
        except CompileError:
            return NOT_COMPILED

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(compiled, rungs))


def _problem(backend: CudaBackend, kernel: Compiled) -> str | None:
    """Why a kernel cannot be timed: it does not fit, or is wrong at a small ragged shape; None when it can."""
    try:
        if not backend.resources(kernel).occupancy:
            return NO_ROOM
    except BackendError:  # more shared memory than a block can have
        return NO_ROOM
    check = prove(backend, kernel, ragged(kernel.rung))
    if not check.passed:
        tell_wrong(kernel.rung, check)
        return f"{WRONG}: {check.failure}"
    return None


def tell_wrong(rung: Rung, check: Check) -> None:
    """Print what a candidate got wrong: a fault of the rung, whose declaration or static_assert should exclude it."""
    values = " ".join(f"{name}={value}" for name, value in tuned_values(rung).items())
    print(f"WRONG: {rung.name} with {values}: {check.failure}", flush=True)


class Judge:
    """Proves candidates at one shape: on the GPU through ``torch``, else with numpy at two stand-ins for it."""

    def __init__(self, backend: CudaBackend, torch: Any, shape: Shape) -> None:
        self.backend, self.shape = backend, shape
        self.oracle = None if torch is None else GpuOracle(torch, shape)

    def __call__(self, kernel: Compiled) -> Check:
        """The candidate's check; of two, the first that fails."""
        rung = kernel.rung
        if self.oracle is None:
            checks = [prove(self.backend, kernel, shape) for shape in stand_ins(rung, self.shape)]
            return next((check for check in checks if not check.passed), checks[0])
        return self.oracle.prove(
            lambda a, b, out: multiply_device(rung, a, b, out=out),
            unit_roundoff=rung.unit_roundoff,
            ordered=rung.ordered,
        )


def ragged(rung: Rung) -> Shape:
    """A shape of a few tiles and more k-steps than stages that no tile divides, as far as ``rung`` allows."""
    bm, bn = rung.tile
    return _allowed(rung, Shape(m=bm + 3, n=bn + 5, k=_short_k(rung) + 7))


def stand_ins(rung: Rung, shape: Shape) -> tuple[Shape, Shape]:
    """What numpy can prove in place of ``shape``.

    Its M and N, halved while C is large, with a K of a few steps; then one tile of C with all of its K.
    """
    m, n = shape.m, shape.n
    while m * n > STAND_IN_ELEMENTS:
        m, n = (-(-m // 2), n) if m >= n else (m, -(-n // 2))
    bm, bn = rung.tile
    wide = Shape(m=m, n=n, k=min(shape.k, _short_k(rung)))
    deep = Shape(m=min(m, bm), n=min(n, bn), k=shape.k)
    return _allowed(rung, wide), _allowed(rung, deep)


def _short_k(rung: Rung) -> int:
    """One k-step more than the pipeline has stages."""
    return int(rung.params.get("BK", 32) * (rung.params.get("STAGES", 2) + 1))


def _allowed(rung: Rung, shape: Shape) -> Shape:
    m, n, k = (-(-side // step) * step for side, step in zip((shape.m, shape.n, shape.k), rung.multiple, strict=True))
    return Shape(m=m, n=n, k=k)
