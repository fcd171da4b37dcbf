"""One launch of any kernel on named arrays, emulated: its traffic, and what it left in the arrays."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ladder.backends.base import Engine
from ladder.errors import BackendError, UnsupportedPtxError
from ladder.memory.caches import CacheModel
from ladder.model import Device, Traffic
from ladder.nvrtc import Compiled
from ladder.occupancy import blocks_per_sm
from ladder.ptx import Counters, GlobalMemory, Machine, build, parse
from ladder.ptx.c import CMachine, EngineUnavailableError, SuspectError, compile_program
from ladder.sass.pipe import pipe_use

__all__ = ["launch_emulated"]

F32 = NDArray[np.float32]


def launch_emulated(
    kernel: Compiled,
    arrays: Mapping[str, F32],
    arguments: Sequence[str | int | float],
    *,
    grid: tuple[int, int, int],
    device: Device,
    engine: Engine = "auto",
) -> Traffic:
    """Execute ``kernel`` once, count what it moved from cold caches, and write the arrays back in place.

    Args:
        kernel: compiled for an architecture that the emulator knows.
        arrays: one-dimensional float32 arrays by name; each gets an allocation of its own.
        arguments: in the kernel's order: an array's name for a pointer, a number by value.
        grid: threadblocks.
        device: the recorded GPU, for its caches and its SMs.
        engine: what executes the PTX.

    Raises:
        KernelFaultError: the kernel did something undefined, with its source line.
        UnsupportedPtxError: it uses PTX that is not emulated.
        BackendError: engine ``"c"`` has no compiler, or the arguments are not the kernel's.
    """
    program = build(parse(kernel.ptx)[kernel.lowered_name])
    if len(program.function.params) != len(arguments):
        raise BackendError(
            f"{kernel.rung.name} takes {len(program.function.params)} arguments and is given {len(arguments)}"
        )
    block = kernel.rung.block

    def execute(make: Callable[..., Machine | CMachine]) -> Traffic:
        memory = GlobalMemory()
        buffers = {name: memory.allocate(name, (1, array.size)) for name, array in arrays.items()}
        for name, array in arrays.items():
            buffers[name].matrix[0] = array
        resident = blocks_per_sm(
            device, threads=kernel.rung.threads, registers=kernel.resources.registers,
            smem_bytes=program.static_smem_bytes,
        )  # fmt: skip
        l1_bytes = max(device.l1_bytes - resident * program.static_smem_bytes, 0)
        caches = CacheModel(
            memory.sectors, sm_count=device.sm_count, l1_bytes=l1_bytes, l2_bytes=device.l2_bytes,
            in_step=device.sm_count,
        )  # fmt: skip
        counters = Counters(caches)
        bits = [buffers[value].base if isinstance(value, str) else _bits(value) for value in arguments]
        given = {parameter.offset: value for parameter, value in zip(program.function.params, bits, strict=True)}
        make(memory, given, counters=counters).launch(grid=grid, block=block)
        caches.end_launch()
        use = pipe_use(kernel.cubin, kernel.lowered_name, arch=kernel.arch)
        counters.idle_wavefronts += use.wavefronts(
            warps=-(-math.prod(block) // 32), blocks=math.prod(grid), barriers=counters.barriers,
            loads=counters.global_loads, stores=counters.global_stores,
        )  # fmt: skip
        for name, array in arrays.items():
            array[...] = buffers[name].matrix[0]
        return counters.traffic()

    if engine != "numpy":
        try:
            compiled = compile_program(program, block)
        except (EngineUnavailableError, UnsupportedPtxError):
            if engine == "c":
                raise
        else:
            with contextlib.suppress(SuspectError):
                return execute(lambda memory, given, **more: CMachine(compiled, memory, given, **more))
    # numpy says what is wrong where C only suspects it.
    return execute(lambda memory, given, **more: Machine(program, memory, given, **more))


def _bits(value: float) -> int:
    """An integer as it is, a float as the bits of a float32."""
    return value if isinstance(value, int) else int(np.float32(value).view(np.uint32))
