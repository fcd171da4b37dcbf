"""C text -> a loaded shared library, by the system's C compiler, kept between sessions.

A library is known by its text and headers, the flags, the compiler's version and the CPU, since it is made for the very
CPU that it runs on. In the cache, ``KEY.txt`` names the library that a key stands for, and a library's name is the hash
of its bytes: so a damaged one is seen, and processes that build the same thing at once do not disturb each other.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from ladder.errors import BackendError
from ladder.nvrtc import cache_dir

__all__ = ["HEADERS", "EngineUnavailableError", "find_compiler", "load"]

HEADERS = Path(__file__).parent

BASE_FLAGS = ("-std=c11", "-ffp-contract=off", "-fno-math-errno", "-fvisibility=hidden", "-fPIC", "-shared")
"""No option may change what arithmetic gives: fused multiply-adds are written where PTX has them, and nowhere else."""

CPU_FLAGS = (("-march=native",), ("-mcpu=native",), ())
"""The first that the compiler takes. Without a CPU's own fused multiply-add, libm's serves, which is slow and right."""

TIMEOUT_S = 300


class EngineUnavailableError(BackendError):
    """The C engine cannot be used: there is no compiler, or it fails. The numpy engine needs none."""


def find_compiler() -> tuple[str, ...] | None:
    """The command of a C compiler: ``$CC`` if it is set, else cc, gcc or clang, whichever is found first."""
    chosen = shlex.split(os.environ.get("CC", ""))
    if chosen:
        return tuple(chosen) if shutil.which(chosen[0]) else None
    return next(((name,) for name in ("cc", "gcc", "clang") if shutil.which(name)), None)


def load(source: str, *, optimise: str = "-O1") -> ctypes.CDLL:
    """The shared library of ``source``, from the cache or newly built.

    Args:
        source: C text; may include this package's headers.
        optimise: how hard the compiler tries. Straight-line code over scalars gains nothing beyond ``-O1``.

    Raises:
        EngineUnavailableError: no compiler, or it refuses the source; the message holds what it said.
    """
    return _load(source, optimise, find_compiler(), str(cache_dir()))


@cache
def _load(source: str, optimise: str, compiler: tuple[str, ...] | None, folder_name: str) -> ctypes.CDLL:
    if compiler is None:
        raise EngineUnavailableError(
            "the C engine needs a C compiler: install gcc or clang, or let CC name one; the numpy engine needs none"
        )
    folder = Path(folder_name) / "engine"
    flags = (*_flags(compiler), optimise)
    key = _key(source, flags, _version(compiler))
    library = _cached(folder, key)
    if library is not None:
        return library
    with tempfile.TemporaryDirectory(prefix="ladder-") as scratch:
        built = Path(scratch) / "kernel.so"
        (Path(scratch) / "kernel.c").write_text(source, encoding="utf-8")
        wrong = _compile(compiler, flags, Path(scratch) / "kernel.c", built)
        if wrong is not None:
            raise EngineUnavailableError(f"{shlex.join(compiler)} does not compile the C engine:\n{wrong}")
        kept = _keep(folder, key, built)
        try:
            # A library stays loaded when its file is gone.
            return ctypes.CDLL(str(kept or built))
        except OSError as error:
            raise EngineUnavailableError(f"cannot load what {shlex.join(compiler)} made: {error}") from error


def _cached(folder: Path, key: str) -> ctypes.CDLL | None:
    """The library of ``key``; None when there is none, or it is damaged."""
    try:
        digest = (folder / f"{key}.txt").read_text(encoding="ascii").strip()
        path = folder / f"{digest}.so"
        if hashlib.sha256(path.read_bytes()).hexdigest() == digest:
            return ctypes.CDLL(str(path))
    except (OSError, ValueError):
        pass
    return None


def _keep(folder: Path, key: str, built: Path) -> Path | None:
    """Put a library in the cache, whole or not at all; None when the folder cannot be written."""
    content = built.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    path = folder / f"{digest}.so"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(path, content)
        _write(folder / f"{key}.txt", digest.encode("ascii"))
        # A folder from which nothing may be executed is of no use here.
        ctypes.CDLL(str(path))
    except OSError:
        return None
    return path


def _write(path: Path, content: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".part-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(temporary).replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise


def _compile(compiler: Sequence[str], flags: Sequence[str], source: Path, built: Path) -> str | None:
    """Build; what the compiler said if it failed."""
    command = [*compiler, *flags, f"-I{HEADERS}", "-o", str(built), str(source), "-lm"]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return None if run.returncode == 0 and built.is_file() else f"{run.stdout}{run.stderr}"[:4000]


@cache
def _flags(compiler: tuple[str, ...]) -> tuple[str, ...]:
    """All flags, with those for this CPU that the compiler takes."""
    with tempfile.TemporaryDirectory(prefix="ladder-") as scratch:
        source = Path(scratch) / "empty.c"
        source.write_text("int ladder_empty;\n", encoding="ascii")
        for cpu in CPU_FLAGS:
            if _compile(compiler, (*BASE_FLAGS, *cpu), source, Path(scratch) / "empty.so") is None:
                return (*BASE_FLAGS, *cpu)
    return BASE_FLAGS


@cache
def _version(compiler: tuple[str, ...]) -> str:
    try:
        run = subprocess.run([*compiler, "--version"], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return run.stdout + run.stderr


def _key(source: str, flags: Sequence[str], version: str) -> str:
    headers = [path.read_text(encoding="utf-8") for path in sorted(HEADERS.glob("*.h"))]
    parts = [source, *headers, *flags, version, _cpu()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@cache
def _cpu() -> str:
    """What this CPU is and can do, as far as it can be told."""
    about = [platform.system(), platform.machine(), platform.processor()]
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        for field in ("model name", "flags", "CPU part", "Features"):
            about += sorted({line for line in lines if line.startswith(field)})
    return "\n".join(about)
