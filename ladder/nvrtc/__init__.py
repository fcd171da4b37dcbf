"""Compile a rung with NVRTC for a stated architecture: PTX, cubin, log and resources. Needs no driver and no GPU."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ladder.catalog import cuda_src
from ladder.errors import CompileError
from ladder.model import Resources, Rung
from ladder.nvrtc import _cache, _headers, _library
from ladder.nvrtc._cache import cache_dir

__all__ = [
    "Compiled",
    "cache_dir",
    "compile_rung",
    "included_headers",
    "nvrtc_version",
    "parse_resources",
    "supported_archs",
]

FLAGS = ("-std=c++17", "-lineinfo", "--ptxas-options=-v", "--no-cache")
"""``-lineinfo`` puts the ``.cu`` file's lines into PTX and cubin, and ptxas -v registers and spills into the log, which
NVRTC's own cache on a machine with a driver would leave empty: the ladder's cache keeps it."""

_INCLUDE_PATH = re.compile(r"(?:-I|--include-path=)(.+)")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A rung compiled for one architecture.

    Attributes:
        arch: such as ``"sm_90"``.
        ptx: the PTX text, with ``.loc`` lines that point into the ``.cu`` file.
        cubin: the machine code, an ELF file.
        lowered_name: the kernel's mangled name, as PTX and cubin know it.
        pack_lowered_name: the same of the kernel that packs an operand, None without one.
        log: NVRTC's and ptxas's messages, warnings among them.
        nvrtc_version: such as ``"13.0"``.
        resources: registers, shared memory (static plus ``rung.smem_bytes``), spills and stack, from ptxas; those of
            the rung's own kernel, not of the one that packs.
        cached: it came from the persistent cache.
    """

    rung: Rung
    arch: str
    ptx: str
    cubin: bytes
    lowered_name: str
    log: str
    nvrtc_version: str
    resources: Resources
    cached: bool
    pack_lowered_name: str | None = None


def nvrtc_version() -> str:
    """The installed NVRTC's version, such as ``"13.0"``.

    Raises:
        NvrtcMissingError: it is not installed; the message gives the command that installs it.
    """
    return _library.version()


def supported_archs() -> tuple[str, ...]:
    """Architectures that the installed NVRTC compiles for, such as ``("sm_75", "sm_80")``.

    Raises:
        NvrtcMissingError: it is not installed.
    """
    return _library.supported_archs()


def compile_rung(rung: Rung, *, arch: str, options: tuple[str, ...] = ()) -> Compiled:
    """Compile ``rung`` for ``arch``, or take it from the cache.

    The cache knows a rung by its source and path, every header it includes, all flags, the architecture and NVRTC's
    version. Headers are looked for in ``cuda_src/common`` and beside the rung's file.

    Args:
        rung: what to compile.
        arch: a real architecture, such as ``"sm_90"`` or ``"sm_90a"``; never guessed from a device.
        options: further NVRTC options.

    Raises:
        CompileError: NVRTC refused the source or the architecture; the message holds its log with file and line.
        NvrtcMissingError: NVRTC is not installed.
    """
    release = nvrtc_version()
    _require_supported(arch, release)
    search = _search(rung)
    headers = included_headers(rung, options=options)
    flags = (f"--gpu-architecture={arch}", *FLAGS, *options, *(f"--include-path={folder}" for folder in search))
    names = (rung.name_expression, *(() if rung.pack_expression is None else (rung.pack_expression,)))
    key = _cache.key_of(
        path=str(rung.path),
        source=rung.source,
        name_expressions=names,
        headers=sorted((str(path), content.hex()) for path, content in headers.items()),
        flags=flags,
        nvrtc=release,
    )
    product = _cache.load(key)
    cached = product is not None
    if product is None:
        product = _library.translate(rung.source, path=rung.path, name_expressions=names, options=flags)
        _cache.save(key, product)
    lowered_name, *packing = product.lowered_names
    return Compiled(
        rung=rung,
        arch=arch,
        ptx=product.ptx,
        cubin=product.cubin,
        lowered_name=lowered_name,
        log=product.log,
        nvrtc_version=release,
        resources=parse_resources(product.log, lowered_name, dynamic_smem_bytes=rung.smem_bytes),
        cached=cached,
        pack_lowered_name=packing[0] if packing else None,
    )


def included_headers(rung: Rung, *, options: tuple[str, ...] = ()) -> dict[Path, bytes]:
    """Contents of the headers that ``rung`` includes, and of those that they include in turn; NVRTC's own are left out.

    Args:
        rung: whose source is read.
        options: NVRTC options, for the folders that they add.
    """
    search = _search(rung)
    given = tuple(Path(match[1]) for option in options if (match := _INCLUDE_PATH.fullmatch(option)))
    return _headers.included(rung.source, folder=search[1], include_path=(*given, *search))


def _search(rung: Rung) -> tuple[Path, Path]:
    """Where headers are looked for: the common ones, and beside the rung's file."""
    return cuda_src() / "common", rung.path.parent.resolve()


def parse_resources(log: str, lowered_name: str, *, dynamic_smem_bytes: int = 0) -> Resources:
    """Registers, stack, spills (stores plus loads) and shared memory from what ``ptxas -v`` said of one kernel.

    Raises:
        CompileError: the log says nothing of that kernel.
    """
    _, _, after = log.partition(f"entry function '{lowered_name}'")
    about = after.partition("Compiling entry function")[0]
    # Device functions that were not inlined follow with properties of their own; the kernel's come first.
    frame, used = _FRAME.search(about), _USED.search(about)
    if used is None:
        raise CompileError(f"ptxas reported no registers for {lowered_name}; its log reads:\n{log}")
    stack, stores, loads = (int(group) for group in frame.groups()) if frame else (0, 0, 0)
    return Resources(
        registers=int(used[1]),
        smem_bytes=int(used[2] or 0) + dynamic_smem_bytes,
        spill_bytes=stores + loads,
        stack_bytes=stack,
    )


def _require_supported(arch: str, release: str) -> None:
    known = supported_archs()
    if re.sub(r"[af]$", "", arch) not in known:
        raise CompileError(f"NVRTC {release} does not compile for {arch!r}; it compiles for {', '.join(known)}")
