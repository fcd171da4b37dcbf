"""Stream kernels at work: their data, their reference in numpy, and the run that proves and counts them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ladder.backends.base import Engine
from ladder.backends.emulated_kernel import launch_emulated
from ladder.catalog.streams import Stream, reference, roundings
from ladder.errors import InputError
from ladder.model import FP32_UNIT_ROUNDOFF, Device, Traffic
from ladder.nvrtc import compile_rung
from ladder.oracle import POISON_BITS

__all__ = ["arguments", "data", "emulate", "judge"]

F32 = NDArray[np.float32]
SEED = 2026
PERIOD = 2**22
"""Elements after which the data of a large array may repeat: it shall be timed, and has been proved at another size."""


def data(stream: Stream, n: int, *, periodic: bool = False) -> dict[str, F32]:
    """Random arrays in (-0.5, 0.5), full mantissas; the target poisoned or zeroed unless the kernel reads it.

    Args:
        stream: whose.
        n: size.
        periodic: repeat a shorter random array where one is longer, which is faster.

    Raises:
        InputError: ``n`` is no size for this kernel.
    """
    random = np.random.default_rng(SEED)
    out: dict[str, F32] = {}
    for name, size in stream.sizes(n).items():
        drawn = min(size, PERIOD) if periodic else size
        values = random.random(drawn, dtype=np.float32) - np.float32(0.5)
        if name == stream.target and stream.zeroed:
            values = np.zeros(drawn, np.float32)
        elif name == stream.target and not stream.reads_target:
            values = np.full(drawn, POISON_BITS, np.uint32).view(np.float32)
        out[name] = values if drawn == size else np.resize(values, size)
    return out


def arguments(stream: Stream, n: int) -> list[str | int | float]:
    """What the kernel is launched with: an array's name for its pointer, sizes and scalars by value."""
    known: dict[str, int | float] = {"n": n, **stream.scalars}
    return [each.name if each.name in stream.elements else known[each.name] for each in stream.arguments]


def judge(stream: Stream, before: dict[str, F32], after: dict[str, F32]) -> str | None:
    """What is wrong with ``after``, in a line; None when the target is right and no other array was touched.

    The bound is the componentwise one: gamma_m times the same formula of absolute values, for m roundings; a formula
    without arithmetic has to match exactly.
    """
    for name in stream.arrays:
        if name != stream.target and not np.array_equal(before[name].view(np.uint32), after[name].view(np.uint32)):
            return f"input {name} was overwritten"
    inputs = {name: array for name, array in before.items() if name != stream.target or stream.reads_target}
    wanted = np.atleast_1d(reference(stream, inputs))
    terms = max(array.size for array in inputs.values())
    rounded = roundings(stream, terms) * FP32_UNIT_ROUNDOFF
    magnitude = np.atleast_1d(reference(stream, {name: np.abs(array) for name, array in inputs.items()}, absolute=True))
    got = after[stream.target].astype(np.float64)
    error = np.abs(got - wanted)
    bad = ~(error <= rounded / (1 - rounded) * magnitude)
    if not bad.any():
        return None
    at = int(np.flatnonzero(bad)[0])
    return (
        f"{stream.target}[{at}] is {got[at]:.9g} and should be {wanted[at]:.9g} ({int(bad.sum())} of {bad.size} "
        f"elements are wrong)"
    )


def emulate(stream: Stream, n: int, device: Device, *, engine: Engine = "auto") -> tuple[Traffic, str | None]:
    """Execute the kernel on the CPU: what it moved, and what is wrong with the result.

    Raises:
        InputError: ``n`` is no size for this kernel.
        KernelFaultError, UnsupportedPtxError, BackendError: as :func:`ladder.backends.emulated_kernel.launch_emulated`.
        CompileError, NvrtcMissingError: the kernel cannot be compiled.
    """
    before = data(stream, n)
    if any(size >= 2**31 for size in stream.sizes(n).values()):
        raise InputError(f"{stream.name} at n = {n}: an array of 2^31 elements or more; give a smaller n")
    after = {name: array.copy() for name, array in before.items()}
    kernel = compile_rung(stream.rung, arch=device.arch)
    traffic = launch_emulated(kernel, after, arguments(stream, n), grid=stream.grid_at(n), device=device, engine=engine)
    return traffic, judge(stream, before, after)
