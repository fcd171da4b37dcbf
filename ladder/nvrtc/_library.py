"""NVRTC through ``cuda.bindings``: source in; PTX, cubin, lowered name and log out. No driver, no GPU."""

from __future__ import annotations

import importlib.metadata
import re
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from ladder.errors import CompileError, NvrtcMissingError

__all__ = ["Product", "supported_archs", "translate", "version"]

_NO_HEADER = re.compile(r'(?:cannot|could not) open source file "([^"]+)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """What NVRTC makes of one source for one architecture; ``lowered_names`` are in the order asked for."""

    ptx: str
    cubin: bytes
    lowered_names: tuple[str, ...]
    log: str


def version() -> str:
    """NVRTC's version, such as ``"13.0"``.

    Raises:
        NvrtcMissingError: the bindings or the library are not installed.
    """
    nvrtc = _bindings()
    try:
        major, minor = _call(nvrtc, nvrtc.nvrtcVersion())
    except RuntimeError as error:  # what the bindings raise when the shared library cannot be found or loaded
        raise NvrtcMissingError(_missing("NVRTC's library cannot be loaded", error)) from error
    return f"{major}.{minor}"


def supported_archs() -> tuple[str, ...]:
    """Architectures that the installed NVRTC compiles for: ``("sm_75", "sm_80", ...)``."""
    nvrtc = _bindings()
    (count,) = _call(nvrtc, nvrtc.nvrtcGetNumSupportedArchs())
    (numbers,) = _call(nvrtc, nvrtc.nvrtcGetSupportedArchs())
    return tuple(f"sm_{number}" for number in list(numbers)[:count])


def translate(source: str, *, path: Path, name_expressions: tuple[str, ...], options: tuple[str, ...]) -> Product:
    """Compile ``source``, which its messages call ``path``, and instantiate ``name_expressions``.

    Raises:
        CompileError: NVRTC refused it; the message is its log, with file and line.
        NvrtcMissingError: the bindings or the library are not installed.
    """
    nvrtc = _bindings()
    release = version()
    (program,) = _call(nvrtc, nvrtc.nvrtcCreateProgram(source.encode(), str(path).encode(), 0, [], []))
    try:
        for name in name_expressions:
            _call(nvrtc, nvrtc.nvrtcAddNameExpression(program, name.encode()))
        status = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])[0]
        log = _text(nvrtc, program, "ProgramLog")
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            reason = log.strip() or _reason(nvrtc, status)
            what = f"{path}: NVRTC {release} cannot compile {' and '.join(name_expressions)}"
            raise CompileError(f"{what}:\n{reason}{_missing_header(reason, path)}")
        lowered = [_call(nvrtc, nvrtc.nvrtcGetLoweredName(program, n.encode()))[0].decode() for n in name_expressions]
        return Product(
            ptx=_text(nvrtc, program, "PTX"),
            cubin=_bytes(nvrtc, program, "CUBIN"),
            lowered_names=tuple(lowered),
            log=log,
        )
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _bindings() -> ModuleType:
    try:
        from cuda.bindings import nvrtc  # noqa: PLC0415  (so that everything else works without CUDA)
    except ImportError as error:
        raise NvrtcMissingError(_missing("the CUDA bindings for Python are not installed", error)) from error
    module: ModuleType = nvrtc
    return module


def _missing(what: str, error: Exception) -> str:
    try:
        major = importlib.metadata.version("cuda-bindings").split(".", maxsplit=1)[0]
    except importlib.metadata.PackageNotFoundError:
        major = "13"
    other = "cu13" if major == "12" else "cu12"
    return (
        f'{what} ({str(error).partition(":")[0].strip()}); install it with `pip install "matmul-ladder[cu{major}]"`, '
        f"or [{other}] for the other major version of CUDA. It needs no GPU."
    )


def _call(nvrtc: ModuleType, result: tuple[Any, ...]) -> tuple[Any, ...]:
    """The values of a call after its status, which must be success."""
    status, *values = result
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise CompileError(f"NVRTC: {_reason(nvrtc, status)}")
    return tuple(values)


def _missing_header(log: str, path: Path) -> str:
    """What to do about a header that NVRTC did not find; nothing when there is none."""
    found = _NO_HEADER.search(log)
    if found is None:
        return ""
    return (
        f"\n{found[1]} is neither beside {path.name} nor in cuda_src/common, and NVRTC comes without "
        f"the headers of the CUDA toolkit: put it beside {path.name}, or include it by its whole path."
    )


def _reason(nvrtc: ModuleType, status: Any) -> str:
    message: bytes = nvrtc.nvrtcGetErrorString(status)[1]
    return message.decode()


def _bytes(nvrtc: ModuleType, program: Any, what: str) -> bytes:
    (size,) = _call(nvrtc, getattr(nvrtc, f"nvrtcGet{what}Size")(program))
    buffer = bytearray(size)
    _call(nvrtc, getattr(nvrtc, f"nvrtcGet{what}")(program, buffer))
    return bytes(buffer)


def _text(nvrtc: ModuleType, program: Any, what: str) -> str:
    # NVRTC joins the compiler's log and ptxas's with a NUL between.
    return _bytes(nvrtc, program, what).replace(b"\0", b"").decode(errors="replace")
