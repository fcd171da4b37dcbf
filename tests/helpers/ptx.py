"""Runs hand-written PTX and small CUDA snippets on arrays, on the emulated machine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ladder.model import Rung
from ladder.nvrtc import Compiled, compile_rung
from ladder.ptx import Counters, GlobalMemory, Machine, Order, Program, build, parse

__all__ = ["POINTERS", "SCALARS", "compile_snippet", "compute", "float_bits", "module", "program_of", "run", "signed"]

Array = NDArray[Any]

POINTERS = 5
"""Kernels of :func:`module` take so many pointers, ``%p0`` ..., each to the buffer of that number,"""

SCALARS = 2
"""then so many 32-bit numbers, ``%n0`` ...."""

SLOT_BYTES = 8
"""Operands and results of :func:`compute` lie this far apart, whatever their size."""

REGISTERS = """\
.reg .b16 %h<20>; .reg .b32 %w<40>; .reg .f32 %f<20>; .reg .b64 %x<40>; .reg .f64 %d<20>; .reg .pred %q<10>;
.reg .b64 %p<5>; .reg .b32 %n<2>; .reg .b32 %tid; .reg .b64 %at;
"""


def module(body: str, *, declarations: str = "", outside: str = "", target: str = "sm_90") -> str:
    """A PTX module with one entry, ``f``. ``body`` may use ``%p0`` .. ``%p4``, ``%n0``, ``%n1``, ``%tid`` and the
    registers ``%h%w%f%x%d%q``; ``declarations`` stand at the top of the function and ``outside`` before it.
    """
    pointers = ",\n".join(f".param .u64 f_p{i}" for i in range(POINTERS))
    scalars = ",\n".join(f".param .u32 f_n{i}" for i in range(SCALARS))
    loads = "".join(f"ld.param.u64 %p{i}, [f_p{i}];\n" for i in range(POINTERS))
    loads += "".join(f"ld.param.u32 %n{i}, [f_n{i}];\n" for i in range(SCALARS))
    return (
        f".version 8.0\n.target {target}\n.address_size 64\n{outside}\n.visible .entry f(\n{pointers},\n{scalars}\n)\n"
        f"{{\n{REGISTERS}{declarations}\n{loads}mov.u32 %tid, %tid.x;\n{body}\nret;\n}}\n"
    )


@cache
def program_of(text: str, entry: str = "f") -> Program:
    """One entry of a PTX module, ready to run."""
    return build(parse(text)[entry])


def run(
    program: Program | str,
    buffers: Sequence[Array] = (),
    *,
    scalars: Sequence[int] = (),
    grid: tuple[int, int, int] = (1, 1, 1),
    block: tuple[int, int, int] = (32, 1, 1),
    smem_bytes: int = 0,
    order: Order = "lockstep",
    counters: Counters | None = None,
    step_limit: int = 100_000,
    names: str = "ABCDEFGH",
) -> list[Array]:
    """Run a program on copies of ``buffers``, which are returned as the program left them.

    Pointers to the buffers are the first arguments, in order; missing ones are null. A program that is text has the
    entry of :func:`module`.
    """
    ready = program_of(program) if isinstance(program, str) else program
    memory = GlobalMemory()
    held = []
    for name, array in zip(names, buffers, strict=False):
        buffer = memory.allocate(name, (1, -(-array.nbytes // 4)))
        raw = buffer.matrix.view(np.uint8).reshape(-1)
        raw[: array.nbytes] = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
        held.append((buffer, array))
    params = ready.function.params
    pointers = [p for p in params if p.type == "u64"]
    others = [p for p in params if p.type != "u64"]
    bases = [buffer.base for buffer, _ in held] + [0] * (len(pointers) - len(held))
    arguments = {p.offset: v for p, v in zip(pointers, bases, strict=True)}
    arguments |= {p.offset: v for p, v in zip(others, [*scalars, *[0] * len(others)], strict=False)}
    machine = Machine(ready, memory, arguments, order=order, counters=counters, step_limit=step_limit)
    machine.launch(grid=grid, block=block, smem_bytes=smem_bytes)
    return [
        buffer.matrix.view(np.uint8).reshape(-1)[: array.nbytes].copy().view(array.dtype).reshape(array.shape)
        for buffer, array in held
    ]


def _register(kind: str, number: int) -> str:
    letter = {"f32": "f", "f64": "d"}.get(kind) or {8: "h", 16: "h", 32: "w", 64: "x"}[_bits(kind)]
    return f"%{letter}{number}"


def compute(code: str, kinds: Sequence[str], result: str, rows: Sequence[Sequence[int]]) -> list[int]:
    """Run ``code`` once a lane and return the bits of its results.

    Args:
        code: PTX in which ``{a}``, ``{b}``, ``{c}``, ``{e}`` stand for operand registers and ``{d}`` for the result's.
        kinds: PTX types of the operands.
        result: PTX type of the result.
        rows: for each lane the bits of its operands.
    """
    names = dict(zip("abce", (_register(kind, 1 + i) for i, kind in enumerate(kinds)), strict=False))
    loads = "".join(
        f"add.s64 %at, %p{i}, %x39;\nld.global.b{_bits(kind)} {names['abce'[i]]}, [%at];\n"
        for i, kind in enumerate(kinds)
    )
    target = _register(result, 0)
    store = f"add.s64 %at, %p4, %x39;\nst.global.b{_bits(result)} [%at], {target};"
    body = f"mul.wide.u32 %x39, %tid, {SLOT_BYTES};\n{loads}{code.format(d=target, **names)}\n{store}"
    inputs = [np.array([row[i] for row in rows], np.uint64) for i in range(len(kinds))]
    inputs += [np.zeros(1, np.uint64)] * (POINTERS - 1 - len(inputs))
    out: list[int] = []
    text = module(body)
    for start in range(0, len(rows), 1024):
        part = [x[start : start + 1024] if len(x) > 1 else x for x in inputs]
        lanes = min(1024, len(rows) - start)
        done = run(text, [*part, np.zeros(lanes, np.uint64)], block=(lanes, 1, 1))[-1]
        out += [int(value) & (2 ** _bits(result) - 1) for value in done]
    return out


def _bits(kind: str) -> int:
    return int(kind[1:])


def signed(value: int, bits: int) -> int:
    """The two's complement reading of ``bits`` bits."""
    value &= 2**bits - 1
    return value - 2**bits if value >> (bits - 1) else value


def float_bits(value: float, bits: int = 32) -> int:
    """The bits of a float that is exact in the format."""
    kind = {32: np.float32, 64: np.float64}[bits]
    return int(np.array(value, kind).view(f"u{bits // 8}"))


def compile_snippet(source: str | Path, kernel: str, *, arch: str = "sm_90", options: tuple[str, ...] = ()) -> Compiled:
    """CUDA C, or a file of it, whose ``extern "C"`` kernel ``kernel`` is wanted; compiled once a session."""
    if isinstance(source, Path):
        return _compiled(source.read_text(encoding="utf-8"), source, kernel, arch, options)
    return _compiled(source, Path("snippet.cu"), kernel, arch, options)


@cache
def _compiled(text: str, path: Path, kernel: str, arch: str, options: tuple[str, ...]) -> Compiled:
    rung = Rung(
        name=kernel,
        number=0,
        kind="rung",
        title="",
        kernel=kernel,
        params={},
        tile=(1, 1),
        block=(32, 1, 1),
        path=path,
        source=text,
    )
    return compile_rung(rung, arch=arch, options=options)
