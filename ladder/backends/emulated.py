"""The ``emulated`` backend: NVRTC's PTX, executed on the CPU for a recorded GPU."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ladder.backends.base import Engine, Outcome
from ladder.backends.emulated_steps import Step, allocated, require_replayable, steps_of
from ladder.errors import BackendError, InputError, UnsupportedPtxError
from ladder.geometry import plan, require_aligned
from ladder.memory.caches import CacheModel
from ladder.model import Device, Resources, Shape, Timing, Traffic, added
from ladder.nvrtc import Compiled
from ladder.occupancy import blocks_per_sm, occupancy, padded_smem_bytes
from ladder.oracle import POISON_BITS
from ladder.ptx import Buffer, Counters, GlobalMemory, Machine, Order, Program, build, parse
from ladder.ptx.c import CKernel, CMachine, EngineUnavailableError, SuspectError, compile_program
from ladder.ptx.replay import replay
from ladder.sass.pipe import pipe_use

__all__ = ["EmulatedBackend", "Engine"]

F32 = NDArray[np.float32]

_PARAMETERS = ("u64", "u64", "u64", "u32", "u32", "u32")
_PACK_PARAMETERS = ("u64", "u64", "u32", "u32")


class EmulatedBackend:
    """Runs compiled rungs on the CPU.

    The bits of C are a GPU's for every rung that adds in k order, and so are the counts of asked bytes, L1 sectors and
    wavefronts; L2 and DRAM bytes are modelled. There is no clock: nothing is ever timed.

    Two engines give the same bits and counts: numpy, and C built by the system's compiler, which is faster. What C
    finds suspicious numpy runs again, to say what is wrong.

    Args:
        device: the recorded GPU, for its limits and caches.
        order: how warps interleave between barriers; results must not depend on it.
        step_limit: instructions of one batch of threadblocks (of one threadblock in C) after which a kernel is called
            endless.
        engine: ``"numpy"``, ``"c"``, or ``"auto"``: C where it can be had, else numpy with a line in ``notes``.
    """

    name: Literal["cuda", "emulated"] = "emulated"

    def __init__(
        self,
        device: Device,
        *,
        order: Order = "lockstep",
        step_limit: int | None = None,
        engine: Engine = "auto",
    ) -> None:
        self._device = replace(device, backend="emulated")
        self._order = order
        self._step_limit = step_limit
        self._engine = engine
        self._programs: dict[tuple[str, str], Program] = {}
        self._compiled: dict[tuple[str, str, tuple[int, int, int]], CKernel | None] = {}
        self.notes: list[str] = []
        """Why kernels run on numpy although C was allowed, each reason once."""

    @property
    def device(self) -> Device:
        """The GPU that is emulated."""
        return self._device

    @property
    def executes_flop(self) -> float:
        """Some seconds a rung in C, a minute in numpy."""
        return 2 * 1280**3

    def run(
        self, kernel: Compiled, a: F32, b: F32, *, count: bool = False, offsets: tuple[int, int, int] = (0, 0, 0)
    ) -> Outcome:
        """C = A @ B; see :meth:`ladder.backends.base.Backend.run`.

        Raises:
            ShapeError: the rung does not support the shape.
            InputError: an array is not C-contiguous float32 of two dimensions, the inner sizes differ, or ``offsets``
                break the rung's alignment.
            KernelFaultError: the kernel did something undefined, with its source line.
            UnsupportedPtxError: the kernel uses PTX that is not emulated.
            BackendError: the rung needs more than the device has, or engine ``"c"`` has no compiler.
        """
        plan(kernel.rung, _shape_of(a, b))  # refuses before anything is compiled
        align = kernel.rung.align_bytes
        shifts = (4 * offsets[0], 4 * offsets[1], 4 * offsets[2])
        require_aligned(kernel.rung, shifts, fix=f"give offsets that are multiples of {align // 4} elements")
        with contextlib.suppress(SuspectError):
            return self._execute(kernel, a, b, count=count, offsets=offsets, engine=self._engine)
        outcome = self._execute(kernel, a, b, count=count, offsets=offsets, engine="numpy")
        self._note(f"{kernel.rung.path.name}: the C engine suspected a fault, which numpy does not find")
        # It would do so again.
        self._compiled |= {key: None for key in self._compiled if key[0] == kernel.ptx}
        return outcome

    def _execute(
        self, kernel: Compiled, a: F32, b: F32, *, count: bool, offsets: tuple[int, int, int], engine: Engine
    ) -> Outcome:
        """One product; :class:`SuspectError` comes from the C engine alone."""
        shape = _shape_of(a, b)
        rung = kernel.rung
        memory = GlobalMemory()
        program = self._program(kernel)
        resident = self._grid_of(kernel, program)
        buffers = allocated(memory, rung, shape, offsets, resident=resident)
        buffers[0].matrix[...] = a
        buffers[1].matrix[...] = b
        for buffer in buffers[2:]:
            zero = buffer is buffers[2] and rung.c_init == "zero"
            buffer.matrix.view(np.uint32)[...] = 0 if zero else POISON_BITS
        self._check_limits(kernel, program)
        device = self._device
        caches = None
        if count:
            # What can be executed fits L2, where it makes no difference how many blocks are in step.
            _, l1_bytes = self._resident(kernel, program)
            caches = CacheModel(
                memory.sectors,
                sm_count=device.sm_count,
                l1_bytes=l1_bytes,
                l2_bytes=device.l2_bytes,
                in_step=device.sm_count,
            )
        counters = Counters(caches) if count else None
        for step in steps_of(rung, shape, buffers, resident=resident):
            machine = self._machine(kernel, step, engine)(
                memory,
                self._arguments(kernel, step),
                order=self._order,
                counters=counters,
                **({} if self._step_limit is None else {"step_limit": self._step_limit}),
            )
            before = _issued(counters)
            machine.launch(grid=step.grid, block=step.block, smem_bytes=step.smem_bytes)
            if counters is not None and caches is not None:
                _add_idle(counters, kernel, step, blocks=math.prod(step.grid), before=before)
                caches.end_launch()
        traffic = None if counters is None else counters.traffic()
        damage = _damage(buffers[0], a) or _damage(buffers[1], b)
        activity = None if counters is None else counters.activity()
        return Outcome(c=buffers[2].matrix.copy(), damage=damage, traffic=traffic, activity=activity)

    def replay(self, kernel: Compiled, shape: Shape) -> Traffic:
        """Traffic of a product too large to execute, from a few of its threadblocks (:mod:`ladder.ptx.replay`).

        Asked, L1, shared and SM counts are exact; L2 and DRAM are modelled, each launch from a cold L2.

        Raises:
            ShapeError: the rung does not support the shape.
            BackendError: the rung's tiles do not divide the shape, or it takes more than one launch of its kernel or
                none.
        """
        rung = kernel.rung
        require_replayable(rung, shape)
        memory = GlobalMemory()
        buffers = allocated(memory, rung, shape, (0, 0, 0))
        program = self._program(kernel)
        self._check_limits(kernel, program)
        resident, _ = self._resident(kernel, program)

        def replayed(step: Step, engine: Engine) -> Traffic:
            machine, arguments = self._machine(kernel, step, engine), self._arguments(kernel, step)

            def run(counters: Counters, blocks: list[int]) -> None:
                sampled = machine(memory, arguments, counters=counters)
                sampled.launch(grid=step.grid, block=step.block, smem_bytes=step.smem_bytes, blocks=blocks)
                _add_idle(counters, kernel, step, blocks=len(blocks), before=(0, 0, 0))

            flop = 0 if step.packs else shape.flop
            return replay(run, memory, grid=step.grid, flop=flop, device=self._device, resident=resident)

        steps = steps_of(rung, shape, buffers)
        with contextlib.suppress(SuspectError):
            return added([replayed(step, self._engine) for step in steps])
        return added([replayed(step, "numpy") for step in steps])

    def resources(self, kernel: Compiled) -> Resources:
        """What ptxas reported, and the occupancy that this allows on the recorded device."""
        known, threads = kernel.resources, kernel.rung.threads
        smem_bytes = padded_smem_bytes(self._device, smem_bytes=known.smem_bytes, most=kernel.rung.blocks_per_sm)
        share = occupancy(self._device, threads=threads, registers=known.registers, smem_bytes=smem_bytes)
        return replace(known, occupancy=share)

    def time(self, kernel: Compiled, a: F32, b: F32, *, cold: bool = False) -> Timing | None:
        """None: an emulator has no clock."""
        del kernel, a, b, cold
        return None

    def close(self) -> None:
        """Forget the generated programs."""
        self._programs.clear()
        self._compiled.clear()

    def _program(self, kernel: Compiled, *, packs: bool = False) -> Program:
        rung, name = kernel.rung, kernel.pack_lowered_name if packs else kernel.lowered_name
        if rung.tma:
            raise UnsupportedPtxError(f"rung {rung.name}: {rung.why_not_on(self._device)}")
        if name is None:
            raise BackendError(f"rung {rung.name} was compiled without a kernel that packs; compile it again")
        if (kernel.ptx, name) not in self._programs:
            functions = parse(kernel.ptx)
            if name not in functions:
                raise BackendError(f"rung {rung.name}: the PTX has no entry `{name}`")
            program = build(functions[name])
            pointers = ("u64",) * (rung.pack is not None)
            expected = _PACK_PARAMETERS if packs else (*_PARAMETERS, *pointers)
            found = tuple(p.type for p in program.function.params)
            if found != expected:
                raise BackendError(
                    f"rung {rung.name}: parameters of {name} are {', '.join(found) or 'none'}; declare what gives "
                    f"{', '.join(expected)}: pointers and ints, as docs/add-a-rung.md has them"
                )
            self._programs[kernel.ptx, name] = program
        return self._programs[kernel.ptx, name]

    def _machine(self, kernel: Compiled, step: Step, engine: Engine) -> Callable[..., Machine | CMachine]:
        """What executes one launch: C where the engine allows it and it can be had, else numpy."""
        compiled = None if engine == "numpy" else self._in_c(kernel, step)
        program = self._program(kernel, packs=step.packs)
        return partial(Machine, program) if compiled is None else partial(CMachine, compiled)

    def _arguments(self, kernel: Compiled, step: Step) -> dict[int, int]:
        parameters = self._program(kernel, packs=step.packs).function.params
        return {p.offset: value for p, value in zip(parameters, step.values, strict=True)}

    def _in_c(self, kernel: Compiled, step: Step) -> CKernel | None:
        """The kernel built for the C engine; None when it cannot be."""
        program = self._program(kernel, packs=step.packs)
        key = (kernel.ptx, program.function.name, step.block)
        if key not in self._compiled:
            try:
                self._compiled[key] = compile_program(program, step.block)
            except (EngineUnavailableError, UnsupportedPtxError) as error:
                if self._engine == "c":
                    raise
                self._compiled[key] = None
                self._note(str(error))
        return self._compiled[key]

    def _note(self, reason: str) -> None:
        note = f"running on numpy, which takes several times as long: {reason}"
        if note not in self.notes:
            self.notes.append(note)

    def _resident(self, kernel: Compiled, program: Program) -> tuple[int, int]:
        """Threadblocks that an SM holds at once, and the L1 that their shared memory leaves it."""
        own = program.static_smem_bytes + kernel.rung.smem_bytes
        smem = padded_smem_bytes(self._device, smem_bytes=own, most=kernel.rung.blocks_per_sm)
        registers = kernel.resources.registers
        resident = blocks_per_sm(self._device, threads=kernel.rung.threads, registers=registers, smem_bytes=smem)
        return resident, max(self._device.l1_bytes - resident * smem, 0)

    def _grid_of(self, kernel: Compiled, program: Program) -> int | None:
        """Threadblocks of a persistent rung that the device runs at once; None for any other rung."""
        if not kernel.rung.persistent:
            return None
        return max(1, self._resident(kernel, program)[0]) * self._device.sm_count

    def _check_limits(self, kernel: Compiled, program: Program) -> None:
        total = program.static_smem_bytes + kernel.rung.smem_bytes
        # A block may use all of an SM's shared memory but the 1 KiB that the system reserves from 8.0 on.
        reserved = 1024 if self._device.compute_capability >= (8, 0) else 0
        limit = self._device.smem_per_sm_bytes - reserved
        if self._device.smem_per_sm_bytes and total > limit:
            raise BackendError(
                f"rung {kernel.rung.name}: {total} bytes of shared memory a block; {self._device.name} has {limit}. "
                f"Use a smaller tile."
            )


def _issued(counters: Counters | None) -> tuple[int, int, int]:
    return (0, 0, 0) if counters is None else (counters.barriers, counters.global_loads, counters.global_stores)


def _add_idle(counters: Counters, kernel: Compiled, step: Step, *, blocks: int, before: tuple[int, int, int]) -> None:
    """Count what the machine code of a launch adds to its PTX in the data pipe."""
    name = kernel.pack_lowered_name if step.packs else kernel.lowered_name
    assert name is not None
    use = pipe_use(kernel.cubin, name, arch=kernel.arch)
    warps = -(-math.prod(step.block) // 32)
    barriers, loads, stores = (now - then for now, then in zip(_issued(counters), before, strict=True))
    counters.idle_wavefronts += use.wavefronts(
        warps=warps, blocks=blocks, barriers=barriers, loads=loads, stores=stores
    )


def _shape_of(a: F32, b: F32) -> Shape:
    for name, x in (("A", a), ("B", b)):
        if x.ndim != 2 or x.dtype != np.float32 or not x.flags.c_contiguous:
            found = f"{x.ndim}-D {x.dtype}, {'' if x.flags.c_contiguous else 'not '}C-contiguous"
            raise InputError(f"{name} is {found}; give a C-contiguous 2-D float32 array")
    if a.shape[1] != b.shape[0]:
        raise InputError(f"A is {a.shape}, B is {b.shape}: A's columns must equal B's rows")
    return Shape(m=a.shape[0], n=b.shape[1], k=a.shape[1])


def _damage(buffer: Buffer, before: F32) -> str | None:
    changed = buffer.matrix.view(np.uint32) != before.view(np.uint32)
    if not changed.any():
        return None
    row, column = (int(i[0]) for i in np.nonzero(changed))
    return f"input {buffer.name} was overwritten at [{row}][{column}]"
