"""What this machine has of what the ladder uses, and how to get what is missing."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from ladder import nvrtc
from ladder.backends.cuda import CudaBackend, find_gpu
from ladder.counters import ncu
from ladder.counters.surroundings import MIG_FIX, look_around, mig_instances, permission_fix
from ladder.errors import LadderError
from ladder.model import Rung
from ladder.ptx.c import EngineUnavailableError, find_compiler, runtime

__all__ = ["Finding", "examine", "works"]

Status = Literal["ok", "missing", "absent"]

PACKAGES = ("numpy", "scipy", "matplotlib", "hypothesis", "jinja2", "rich", "typer", "cuda-core", "cuda-bindings")

SMALLEST_RUNG = Rung(
    name="doctor",
    number=0,
    kind="rung",
    title="a kernel that does nothing",
    kernel="nothing",
    params={},
    tile=(1, 1),
    block=(1, 1, 1),
    path=Path("nothing.cu"),
    source='extern "C" __global__ void nothing(const float*, const float*, float*, int, int, int) {}\n',
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked for.

    Attributes:
        status: ``"ok"``; ``"missing"`` when the ladder does not work without it; ``"absent"`` when it does, with less.
        found: what there is, or what is wrong.
        fix: how to get it, in one line; None when it is there.
    """

    name: str
    status: Status
    found: str
    fix: str | None = None


def works(findings: tuple[Finding, ...]) -> bool:
    """Whether rungs can be compiled and emulated."""
    return all(finding.status != "missing" for finding in findings)


def examine() -> tuple[Finding, ...]:
    """Look for everything, in the order in which it is needed."""
    looks: tuple[Callable[[], Finding], ...] = (
        _python,
        _packages,
        _nvrtc,
        _compiles,
        _engine,
        _cache,
        _system,
        _gpu,
        _mig,
        _ncu,
        _permission,
    )
    return tuple(look() for look in looks)


def _engine() -> Finding:
    try:
        runtime()
    except EngineUnavailableError as error:
        slower = "none: PTX runs on numpy, several times slower"
        return Finding(name="C engine", status="absent", found=slower, fix=str(error))
    return Finding(name="C engine", status="ok", found=f"built by {' '.join(find_compiler() or ())}")


def _python() -> Finding:
    return Finding(name="Python", status="ok", found=f"{platform.python_version()} ({sys.executable})")


def _packages() -> Finding:
    have, lack = [], []
    for name in PACKAGES:
        try:
            have.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            lack.append(name)
    if lack:
        return Finding(
            name="packages",
            status="missing",
            found=f"no {', '.join(lack)}",
            fix=f"`make setup`, or pip install {' '.join(lack)}",
        )
    return Finding(name="packages", status="ok", found=", ".join(have))


def _nvrtc() -> Finding:
    try:
        release = nvrtc.nvrtc_version()
    except LadderError as error:
        return Finding(name="NVRTC", status="missing", found="not found", fix=str(error))
    return Finding(name="NVRTC", status="ok", found=f"{release} ({_nvrtc_path()})")


def _compiles() -> Finding:
    try:
        nvrtc.compile_rung(SMALLEST_RUNG, arch="sm_90")
    except LadderError as error:
        return Finding(name="a kernel", status="missing", found="does not compile", fix=str(error))
    return Finding(name="a kernel", status="ok", found="compiles for sm_90: rungs up to sm_80 features can be emulated")


def _nvrtc_path() -> str:
    from cuda.pathfinder import load_nvidia_dynamic_lib  # noqa: PLC0415 -- with the bindings, when they are wanted

    return str(load_nvidia_dynamic_lib("nvrtc").abs_path)


def _cache() -> Finding:
    folder = nvrtc.cache_dir()
    files = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    size = sum(path.stat().st_size for path in files)
    found = f"{folder}: {len(files)} files, {size / 2**20:.1f} MiB"
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    if not (nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)):
        fix = "every rung is compiled again each time; set LADDER_CACHE_DIR to a folder that can be written"
        return Finding(name="compiler cache", status="absent", found=f"{found}, not writable", fix=fix)
    return Finding(name="compiler cache", status="ok", found=found)


def _system() -> Finding:
    return Finding(name="system", status="ok", found=f"{platform.system()}, {look_around().words}")


def _gpu() -> Finding:
    reason = find_gpu()
    if reason is not None:
        return Finding(name="GPU", status="absent", found="none: rungs are emulated, without times", fix=reason)
    try:
        backend = CudaBackend()
    except LadderError as error:
        return Finding(name="GPU", status="absent", found="there, but it cannot be opened", fix=str(error))
    device = backend.device
    backend.close()
    return Finding(name="GPU", status="ok", found=f"{device.name}, {device.arch}, driver {device.driver}")


def _mig() -> Finding:
    devices = mig_instances()
    if devices is None:
        return Finding(name="MIG", status="ok", found="off, or no GPU that has it")
    return Finding(name="MIG", status="absent", found=f"on ({devices}): some counters may be out of reach", fix=MIG_FIX)


def _ncu() -> Finding:
    path = ncu.find()
    if path is None:
        return Finding(name="ncu", status="absent", found="not found", fix=ncu.why_missing())
    try:
        answer = subprocess.run([path, "--version"], capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        fix = "install Nsight Compute again: https://developer.nvidia.com/nsight-compute"
        return Finding(name="ncu", status="absent", found=f"{path} does not start: {error}", fix=fix)
    last = (answer.stdout.strip().splitlines() or ["no answer"])[-1]
    return Finding(name="ncu", status="ok", found=f"{last} ({path})")


def _permission() -> Finding:
    """Whether this process may read hardware counters, as far as files tell; ncu has the last word."""
    reason = ncu.why_forbidden()
    if reason is not None:
        return Finding(name="counters", status="absent", found="kept for administrators by the driver", fix=reason)
    if look_around().wsl:
        found = f"Windows decides; if ncu says ERR_NVGPUCTRPERM: {permission_fix()}"
    elif ncu.restricted() is None:
        found = "no driver here, so no counters to read"
    else:
        found = "this process may read them"
    return Finding(name="counters", status="ok", found=found)
