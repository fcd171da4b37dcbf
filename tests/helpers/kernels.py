"""Compiled kernels and emulators that several test modules share; each kernel is compiled once a session."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from ladder.backends.base import Engine
from ladder.backends.emulated import EmulatedBackend
from ladder.catalog import load_catalog, parse_file
from ladder.model import Rung
from ladder.nvrtc import Compiled, compile_rung
from ladder.profiles import load_profile
from ladder.ptx import Order

__all__ = ["FAST", "MUTANTS", "RUNGS", "compiled", "emulator", "fast", "mutant", "shifted"]

H200 = replace(load_profile("h200").device, backend="emulated")
RUNGS: tuple[Rung, ...] = tuple(rung for rung in load_catalog() if rung.why_not_on(H200) is None)
"""Every rung of the catalogue that the emulator runs for some GPU."""
MUTANTS = Path(__file__).parent / "mutants"
FAST = Path(__file__).parent / "fast"
_STAGE_BYTES = 8192


@cache
def _compiled(name: str, arch: str) -> Compiled:
    return compile_rung(next(rung for rung in RUNGS if rung.name == name), arch=arch)


def compiled(rung: Rung, arch: str = "sm_90") -> Compiled:
    """A rung of the catalogue, compiled for ``arch``."""
    return _compiled(rung.name, arch)


def shifted(rung: Rung, offsets: tuple[int, int, int]) -> tuple[int, int, int]:
    """Shifts of A, B and C that the rung's alignment allows: ``offsets`` times its step."""
    first, second, third = (offset * rung.align_bytes // 4 for offset in offsets)
    return first, second, third


@cache
def mutant(name: str) -> Compiled:
    """``tests/helpers/mutants/NAME.cu``, compiled for sm_90."""
    return compile_rung(parse_file(MUTANTS / f"{name}.cu")[0], arch="sm_90")


@cache
def fast(name: str, *, arch: str = "sm_80", **params: int) -> Compiled:
    """``tests/helpers/fast/NAME.cu``, with some of its parameters changed."""
    rung = parse_file(FAST / f"{name}.cu")[0]
    stages = params.get("STAGES", rung.params.get("STAGES", 0))
    return compile_rung(replace(rung, params={**rung.params, **params}, smem_bytes=stages * _STAGE_BYTES), arch=arch)


@cache
def emulator(
    profile: str = "h200", *, order: Order = "lockstep", step_limit: int | None = None, engine: Engine = "auto"
) -> EmulatedBackend:
    """The emulator of a recorded GPU; one for each way to run, since it keeps the programs that it has read."""
    return EmulatedBackend(load_profile(profile).device, order=order, step_limit=step_limit, engine=engine)
