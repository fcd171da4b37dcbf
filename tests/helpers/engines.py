"""Runs a program on both engines, and compares the bits, the counts and the footprints that they leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from helpers.ptx import compile_snippet, program_of
from ladder.backends.emulated import EmulatedBackend
from ladder.errors import KernelFaultError
from ladder.geometry import plan
from ladder.memory.caches import Touched
from ladder.model import Rung, Shape
from ladder.nvrtc import Compiled
from ladder.profiles import load_profile
from ladder.ptx import Counters, GlobalMemory, Machine, Order, Program
from ladder.ptx.c import CMachine, SuspectError, compile_program

__all__ = [
    "ORDERS",
    "STEP_LIMIT",
    "Launch",
    "Pointer",
    "assert_rung_is_same",
    "assert_same",
    "in_c",
    "operands",
    "run",
    "rung_launches",
    "snippet",
    "snippet_launch",
    "supported",
    "words",
]

Array = NDArray[Any]
Name = Literal["numpy", "c"]

STEP_LIMIT = 100_000
ORDERS: tuple[Order, ...] = ("lockstep", "warp_serial", "warp_serial_reversed")


@dataclass(frozen=True)
class Pointer:
    """The address of a buffer's byte."""

    buffer: int
    offset_bytes: int = 0


@dataclass(frozen=True)
class Launch:
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: Mapping[int, int | Pointer]
    smem_bytes: int = 0


@dataclass(frozen=True)
class Ran:
    """The buffers' bits and every count that a launch left."""

    bits: tuple[bytes, ...]
    counts: Mapping[str, Any]


class Footprints:
    """Takes the place of a cache model, and keeps what the threadblocks touched, in the order in which they came."""

    def __init__(self) -> None:
        self.of_blocks: list[tuple[Any, ...]] = []

    def blocks(self, numbers: Array, **touched: Touched) -> None:
        for position, number in enumerate(numbers):
            parts = (touched[kind] for kind in ("reads", "updates", "writes"))
            sectors_ = (tuple(np.sort(part.sector[part.block == position]).tolist()) for part in parts)
            self.of_blocks.append((int(number), *sectors_))


def run(
    engine: Name,
    program: Program,
    buffers: Sequence[Array],
    launches: Sequence[Launch],
    *,
    offsets: Sequence[int] = (0, 0, 0),
    order: Order = "lockstep",
    count: bool = True,
) -> Ran:
    """Launches one after the other on copies of 2-D float32 ``buffers``, each ``offsets`` words from a boundary."""
    memory = GlobalMemory()
    held = [
        memory.allocate(name, (array.shape[0], array.shape[1]), offset_bytes=4 * offset)
        for name, array, offset in zip("ABC", buffers, offsets, strict=False)
    ]
    for buffer, array in zip(held, buffers, strict=True):
        buffer.matrix[...] = array
    footprints = Footprints()
    counters = Counters(footprints)
    how: Any = {"order": order, "counters": counters if count else None, "step_limit": STEP_LIMIT}
    for launch in launches:
        arguments = {
            at: held[value.buffer].base + value.offset_bytes if isinstance(value, Pointer) else value
            for at, value in launch.arguments.items()
        }
        machine: Machine | CMachine
        if engine == "numpy":
            machine = Machine(program, memory, arguments, **how)
        else:
            machine = CMachine(in_c(program, launch.block), memory, arguments, **how)
        machine.launch(grid=launch.grid, block=launch.block, smem_bytes=launch.smem_bytes)
    counts = {name: value for name, value in vars(counters).items() if name[0] != "_" and name != "caches"}
    counts["footprints"] = footprints.of_blocks
    return Ran(tuple(buffer.matrix.tobytes() for buffer in held), counts)


_BUILT: dict[tuple[int, tuple[int, int, int]], Any] = {}


def in_c(program: Program, block: tuple[int, int, int]) -> Any:
    """The program built for C, once; programs of this module live as long as it does."""
    if (id(program), block) not in _BUILT:
        _BUILT[id(program), block] = (compile_program(program, block), program)
    return _BUILT[id(program), block][0]


def assert_same(
    program: Program, buffers: Sequence[Array], launches: Sequence[Launch], **how: Any
) -> KernelFaultError | None:
    """Both engines give the same bits and counts, or both find a fault, which is returned."""
    try:
        expected = run("numpy", program, buffers, launches, **how)
    except KernelFaultError as fault:
        with pytest.raises((SuspectError, KernelFaultError)):
            run("c", program, buffers, launches, **how)
        return fault
    got = run("c", program, buffers, launches, **how)
    assert got.bits == expected.bits
    assert got.counts == expected.counts
    return None


def rung_launches(rung: Rung, program: Program, shape: Shape) -> list[Launch]:
    launches = []
    for step in plan(rung, shape):
        a, c = Pointer(0, 4 * step.row0 * shape.k), Pointer(2, 4 * step.row0 * shape.n)
        values = (a, Pointer(1), c, step.rows, shape.n, shape.k)
        arguments = {p.offset: value for p, value in zip(program.function.params, values, strict=True)}
        launches.append(Launch(step.grid, step.block, arguments, step.smem_bytes))
    return launches


def operands(shape: Shape, *, specials: bool) -> tuple[Array, Array]:
    random = np.random.default_rng(7)
    a = random.standard_normal((shape.m, shape.k), dtype=np.float32)
    b = random.standard_normal((shape.k, shape.n), dtype=np.float32)
    bits = np.array([0x7F800000, 0xFF800000, 0x7FC12345, 0x00000001, 0x80000000, 0x007FFFFF], np.uint32)
    for x in (a, b):
        if specials and x.size > 40:
            x.reshape(-1).view(np.uint32)[random.choice(x.size, len(bits), replace=False)] = bits
    return a, b


def assert_rung_is_same(kernel: Compiled, shape: Shape, *, specials: bool = False, **how: Any) -> None:
    program = program_of(kernel.ptx, kernel.lowered_name)
    a, b = operands(shape, specials=specials)
    if kernel.rung.pack is not None:
        assert_backends_are_same(kernel, a, b, **how)
        return
    c = np.full((shape.m, shape.n), np.nan if kernel.rung.c_init == "poison" else 0, np.float32)
    assert assert_same(program, (a, b, c), rung_launches(kernel.rung, program, shape), **how) is None


def assert_backends_are_same(
    kernel: Compiled, a: Array, b: Array, *, order: Order = "lockstep", offsets: tuple[int, int, int] = (0, 0, 0)
) -> None:
    """Both engines of the backend, which also runs what comes before a rung's own kernel, give the same."""
    device = load_profile("h200").device
    one, other = (
        EmulatedBackend(device, order=order, engine=engine).run(kernel, a, b, count=True, offsets=offsets)
        for engine in ("numpy", "c")
    )
    assert (one.c.tobytes(), one.damage, one.traffic) == (other.c.tobytes(), None, other.traffic)


def supported(rung: Rung, shape: Shape) -> Shape:
    """``shape`` padded to what the rung needs."""
    m, n, k = (-(-side // step) * step for side, step in zip((shape.m, shape.n, shape.k), rung.multiple, strict=True))
    return Shape(m=m, n=n, k=k)


PRELUDE = 'extern "C" __global__ void k(float* A, float* B, float* C, int n) {\n  const int t = threadIdx.x;\n'


def snippet(body: str, arch: str = "sm_80") -> Program:
    kernel = compile_snippet(f"{PRELUDE}{body}\n}}\n", "k", arch=arch)
    return program_of(kernel.ptx, kernel.lowered_name)


@cache
def words() -> tuple[Array, ...]:
    random = np.random.default_rng(3)
    a, b = (random.integers(0, 2**32, (1, 112), np.uint64).astype(np.uint32).view(np.float32) for _ in range(2))
    a.view(np.uint32)[0, :100:3] = random.standard_normal(34, np.float32).view(np.uint32)
    b.view(np.uint32)[0, :100:2] = random.standard_normal(50, np.float32).view(np.uint32)
    return a, b, np.zeros((1, 100), np.float32)


def snippet_launch(program: Program, n: int = 5) -> Launch:
    values = (Pointer(0), Pointer(1), Pointer(2), n)
    arguments = {p.offset: value for p, value in zip(program.function.params, values, strict=True)}
    return Launch((2, 1, 1), (100, 1, 1), arguments)
