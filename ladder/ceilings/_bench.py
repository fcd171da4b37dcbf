"""Buffers, launches and samples of the probes on one GPU."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from ladder.backends.gpu import Gpu, probe
from ladder.backends.nvml import watching
from ladder.backends.timing import warm_up
from ladder.ceilings._types import Config, Sustained
from ladder.model import Rung
from ladder.nvrtc import Compiled, compile_rung
from ladder.stats import percentile

__all__ = ["Bench", "Counted", "Launch", "Work", "compiled", "rung_of"]

SAMPLES = 15
SETTLE_S = 0.25
SUSTAIN_S = 0.35
LONG_S = 0.02
"""A sample of what is kept up lasts this long: launches of this length, or as many short ones."""
TIMED_S = 0.01
"""A launch shorter than this says nothing of the clock: the GPU's timer ticks as coarsely as 32 us."""

Launch = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What hardware counters should see of one launch: the sum of ``counters`` times ``each`` is ``meant``.

    With ``at_most`` less is right, too.
    """

    what: str
    counters: tuple[str, ...]
    each: float
    meant: float
    at_most: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A launch that is ready.

    Attributes:
        launch: enqueues it.
        amount: bytes or FLOP that it is meant to move or do.
        words: what it is.
        span: where its first block leaves how long it ran by two clocks; None when it does not.
        loops: whether a longer launch repeats the same thing, so that its length can be chosen.
        counts: whether it may become the roof.
        counted: what counters should see of it.
    """

    launch: Launch
    amount: float
    words: str
    span: Any = None
    loops: bool = True
    counts: bool = True
    counted: tuple[Counted, ...] = ()


Prepare = Callable[["Bench", Config, int], Work]
"""Makes a launch of a configuration ready, its loop this many times as long."""


def rung_of(config: Config) -> Rung:
    """The probe, as it is compiled."""
    made = probe(config.probe, config.kernel, block=config.block, **config.params)
    return replace(made, smem_bytes=config.smem_bytes)


def compiled(config: Config, arch: str) -> Compiled:
    """The machine code of a configuration for a GPU whose architecture is ``arch``."""
    return compile_rung(rung_of(config), arch=config.arch or arch)


@dataclass
class Bench:
    """One GPU and the buffers of its probes, each allocated once; a context that gives them back."""

    gpu: Gpu
    buffers: dict[tuple[str, int], Any] = field(default_factory=dict)
    filled: dict[str, tuple[str, int]] = field(default_factory=dict)

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        for buffer in self.buffers.values():
            buffer.close()
        self.buffers.clear()

    def buffer(self, name: str, nbytes: int) -> Any:
        """Device memory full of ones: neither zeros, which a memory may compress, nor denormals."""
        if (name, nbytes) not in self.buffers:
            self.buffers[name, nbytes] = self.gpu.allocate(nbytes, "a buffer of a probe")
            self.gpu.fill(self.buffers[name, nbytes], 0, nbytes, _word(1.0))
        return self.buffers[name, nbytes]

    def operands(self, data: str, element: Literal["tf32", "bf16"], nbytes: int) -> Any:
        """Device memory of numbers in [-1, 1) with full mantissas, or of ones."""
        buffer = self.buffer("operands", nbytes)
        kind = f"{data} {element}"
        if self.filled.get("operands") != (kind, nbytes):
            self.gpu.upload(buffer, 0, operand_words(data, element, nbytes // 4))
            self.filled["operands"] = (kind, nbytes)
        return buffer

    def kernel(self, config: Config) -> tuple[Any, int]:
        """The probe, loaded, and how many of its blocks fill the GPU."""
        loaded = self.gpu.load(compiled(config, self.gpu.device.arch))
        resident = loaded.occupancy.max_active_blocks_per_multiprocessor(config.block, config.smem_bytes)
        return loaded, int(resident) * self.gpu.device.sm_count

    def rate(self, work: Work) -> float:
        """Bytes/s or FLOP/s: the median of samples of one launch each."""
        work.launch()
        work.launch()
        samples = [self.gpu.elapsed_s(work.launch, launches=1) for _ in range(SAMPLES)]
        return work.amount / percentile(samples, 50)

    def warm(self, launch: Launch) -> None:
        """Until the clocks have settled."""
        warm_up(lambda: self.gpu.elapsed_s(launch, launches=1))

    def sustained(self, config: Config, prepare: Prepare, *, times_as_long: float = 1.0) -> Sustained:
        """What ``config`` keeps up, in launches long enough for a clock that can be trusted.

        The launches of the last part are timed and watched; those before bring clock and power to where they stay.
        """
        short = prepare(self, config, 1)
        seconds = self.gpu.elapsed_s(short.launch, launches=1)
        times = max(1, math.ceil(LONG_S / seconds))
        work = prepare(self, config, times) if short.loops else short
        launches = 1 if short.loops else times

        def enqueue() -> None:
            for _ in range(launches):
                work.launch()

        begun = time.perf_counter()
        while time.perf_counter() - begun < SETTLE_S * times_as_long:
            self.gpu.elapsed_s(enqueue, launches=launches)
        taken: list[float] = []
        clocks: list[float] = []
        with watching(self.gpu.pci_bus_id) as watch:
            begun = time.perf_counter()
            while not taken or time.perf_counter() - begun < SUSTAIN_S * times_as_long:
                taken.append(self.gpu.elapsed_s(enqueue, launches=launches) / launches)
                clock = None if work.span is None else self._timer_clock(work.span)
                clocks += [] if clock is None else [clock]
        return Sustained(
            config=config,
            words=work.words,
            rate=work.amount / percentile(taken, 50),
            samples=len(taken),
            timer_clock_hz=percentile(clocks, 50) if clocks else None,
            watched=watch.result,
        )

    def _timer_clock(self, span: Any) -> float | None:
        """The SM clock during the launch that wrote ``span``: block 0's cycles over its nanoseconds."""
        both = np.zeros(2, np.uint64)
        self.gpu.download(span, 0, both)
        cycles, nanoseconds = (int(value) for value in both)
        return 1e9 * cycles / nanoseconds if nanoseconds >= 1e9 * TIMED_S else None


def operand_words(data: str, element: Literal["tf32", "bf16"], count: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Words that the tensor cores take for numbers: one float32 each, or two bfloat16."""
    random = np.random.default_rng(2026)
    numbers = count if element == "tf32" else 2 * count
    if data == "random":
        values = (2 * random.random(numbers, dtype=np.float32) - 1).astype(np.float32)
    else:
        values = np.ones(numbers, np.float32)
    words = values.view(np.uint32)
    if element == "tf32":
        return words
    halves = (words >> 16).astype(np.uint16)  # cut, not rounded: every bit of the mantissa is as random as before
    return halves.view(np.uint32)


def _word(value: float) -> int:
    return int(np.float32(value).view(np.uint32))
