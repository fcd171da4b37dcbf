"""The roofs of a GPU, measured by probes: DRAM copy, L2 read, the SM's data pipe, FP32. Never from a datasheet.

Each probe is tried in several configurations; the best is the roof. What a configuration reaches is a median over its
samples, so that a roof is a rate that lasts and not a lucky sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from ladder.backends.driver import Reading, reading_during, translated
from ladder.backends.gpu import Gpu, probe
from ladder.backends.timing import warm_up
from ladder.model import Origin, Roofs
from ladder.nvrtc import compile_rung
from ladder.stats import percentile

__all__ = ["ROOFS", "Ceilings", "Trial", "measure_ceilings"]

ROOFS = ("dram", "l2", "sm", "fp32")
"""What is measured: three bandwidths and a pipe, as :class:`ladder.model.Roofs` names them."""

COPY_BYTES = 2**29
L2_READ_BYTES = 2**32
LOADS_A_THREAD = 2**13
FMAS_A_THREAD = 2**17
L2_FRACTIONS = (0.125, 0.2, 0.25, 1 / 3, 0.4, 0.5, 2 / 3, 0.8)
SAMPLES = 15

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One configuration of one probe.

    Attributes:
        roof: one of :data:`ROOFS`.
        config: what was tried, in words.
        rate: bytes/s, or FLOP/s for ``fp32``.
        sm_clock_hz: read on the device during that very launch; None when its blocks are too short-lived to tell.
        footprint_bytes: what was read over and over, for L2.
        counts: whether it may become the roof (others are taken to see an effect).
    """

    roof: str
    config: str
    rate: float
    sm_clock_hz: float | None = None
    footprint_bytes: int | None = None
    counts: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """Measured roofs, every trial behind them, and clock and power while the best configuration of each ran."""

    roofs: Roofs
    trials: tuple[Trial, ...]
    readings: dict[str, Reading]


def measure_ceilings(gpu: Gpu, *, progress: Progress | None = None) -> Ceilings:
    """Measure every roof on ``gpu``: some 20 s, most of it compilation the first time.

    Args:
        gpu: an idle GPU.
        progress: called with a line about each finished roof.

    Raises:
        BackendError: memory for the probes is short, or a launch failed.
        CompileError, NvrtcMissingError: the probes cannot be compiled.
    """
    gpu.activate()
    trials: list[Trial] = []
    readings: dict[str, Reading] = {}
    roofs: dict[str, tuple[float, str]] = {}
    with translated(f"measuring the roofs of {gpu.device.name}"), _Bench(gpu) as bench:
        for roof, probes in (("fp32", _fma), ("sm", _shared_read), ("l2", _l2_read), ("dram", _copy)):
            found = list(probes(bench))
            trials += [trial for trial, _ in found]
            rate, best, again, what = _plateau(found) if roof == "l2" else _highest(found)
            readings[roof] = bench.reading(again)
            # The device's own timer ticks coarsely and may read low; a clock below what the rate needs is none.
            clocks = [clock for clock in (best.sm_clock_hz, readings[roof].sm_clock_hz) if clock]
            clock = max(clocks, default=None)
            roofs[roof] = rate, f"{what}; {_per_clock(roof, rate, clock, gpu)}{_drawing(readings[roof])}"
            if progress is not None:
                progress(f"{roof}: {rate / 1e12:.4g} T{'FLOP' if roof == 'fp32' else 'B'}/s, {roofs[roof][1]}")
    measured: Origin = "measured"
    return Ceilings(
        roofs=Roofs(
            bytes_per_s={roof: roofs[roof][0] for roof in ROOFS if roof != "fp32"},
            flop_per_s={"fp32": roofs["fp32"][0]},
            origin=dict.fromkeys(ROOFS, measured),
            note={roof: roofs[roof][1] for roof in ROOFS},
        ),
        trials=tuple(trials),
        readings=readings,
    )


Launch = Callable[[], None]
Found = tuple[Trial, Launch]


class _Bench:
    """Buffers, launches and samples of the probes."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.buffers: list[Any] = []

    def __enter__(self) -> _Bench:
        return self

    def __exit__(self, *_: object) -> None:
        for buffer in self.buffers:
            buffer.close()

    def buffer(self, nbytes: int) -> Any:
        """Device memory full of ones: neither zeros, which a memory may compress, nor denormals."""
        buffer = self.gpu.allocate(nbytes, "a buffer of a probe")
        self.buffers.append(buffer)
        self.gpu.fill(buffer, 0, nbytes, int(np.float32(1).view(np.uint32)))
        return buffer

    def kernel(self, name: str, kernel: str, *, block: int, **params: int) -> tuple[Any, int]:
        """A probe, loaded, and how many of its blocks fill the GPU."""
        loaded = self.gpu.load(compile_rung(probe(name, kernel, block=block, **params), arch=self.gpu.device.arch))
        resident = int(loaded.occupancy.max_active_blocks_per_multiprocessor(block, 0))
        return loaded, resident * self.gpu.device.sm_count

    def seconds(self, launch: Launch) -> float:
        """Median of samples of one launch each."""
        launch()
        launch()
        samples = [self.gpu.elapsed_s(launch, launches=1) for _ in range(SAMPLES)]
        return percentile(samples, 50)

    def clock(self, span: Any) -> float | None:
        """The SM clock during the launch that wrote ``span``: block 0's cycles over its nanoseconds."""
        both = np.zeros(2, np.uint64)
        self.gpu.download(span, 0, both)
        cycles, nanoseconds = (int(value) for value in both)
        return 1e9 * cycles / nanoseconds if nanoseconds else None

    def warm(self, launch: Launch) -> None:
        """Until the clocks have settled."""
        warm_up(lambda: self.gpu.elapsed_s(launch, launches=1))

    def reading(self, launch: Launch) -> Reading:
        """Clock and power as nvidia-smi tells them while ``launch`` is repeated."""

        def keep_busy() -> None:
            for _ in range(20):
                launch()
            self.gpu.stream.sync()

        return reading_during(self.gpu.pci_bus_id, keep_busy)


def _fma(bench: _Bench) -> Iterator[Found]:
    """Chains of fused multiply-adds in registers: 2 FLOP each."""
    sink, span = bench.buffer(4), bench.buffer(16)
    for chains, unroll in ((8, 16), (12, 12), (16, 8)):
        for block in (256, 512, 1024):
            kernel, blocks = bench.kernel("fma", "fma_chains", block=block, CHAINS=chains, UNROLL=unroll)
            passes = FMAS_A_THREAD // (chains * unroll)
            launch = bench.gpu.launcher(
                kernel, (blocks, 1, 1), (block, 1, 1),
                np.int32(passes), np.float32(0.999), np.float32(1e-3), int(sink.handle), int(span.handle),
            )  # fmt: skip
            if chains == 8 and block == 256:
                bench.warm(launch)
            flop = 2 * passes * chains * unroll * block * blocks
            rate = flop / bench.seconds(launch)
            config = f"{chains} independent FMA chains a thread, {blocks} blocks of {block}"
            yield Trial(roof="fp32", config=config, rate=rate, sm_clock_hz=bench.clock(span)), launch


def _shared_read(bench: _Bench) -> Iterator[Found]:
    """Conflict-free 16-byte loads from shared memory."""
    sink, span = bench.buffer(4), bench.buffer(16)
    for unroll in (8, 16, 32):
        for block in (256, 512, 1024):
            kernel, blocks = bench.kernel("shared_read", "shared_read", block=block, UNROLL=unroll)
            passes = LOADS_A_THREAD // unroll
            launch = bench.gpu.launcher(
                kernel, (blocks, 1, 1), (block, 1, 1), np.int32(passes), int(sink.handle), int(span.handle)
            )
            rate = 16 * passes * unroll * block * blocks / bench.seconds(launch)
            config = f"conflict-free LDS.128, {unroll} a pass, {blocks} blocks of {block}"
            yield Trial(roof="sm", config=config, rate=rate, sm_clock_hz=bench.clock(span)), launch


def _l2_read(bench: _Bench) -> Iterator[Found]:
    """ld.global.cg over footprints from an eighth to four fifths of the L2, each block over all of it."""
    l2_bytes = bench.gpu.device.l2_bytes
    data, sink, span = bench.buffer(l2_bytes), bench.buffer(4), bench.buffer(16)
    for (words, unroll), block in product(((4, 4), (4, 8), (2, 4), (2, 8)), (256, 512, 1024)):
        params = {"NUM_THREADS": block, "WORDS": words, "UNROLL": unroll}
        kernel, blocks = bench.kernel("l2_read", "l2_read", block=block, **params)
        chunk_bytes = 4 * block * words * unroll
        config = f"ld.global.cg, {4 * words} bytes a thread, {unroll} a step, {blocks} blocks of {block}"
        # Blocks that walk side by side are no roof: requests for one line that meet on their way to L2 are merged.
        shares = (1, 2) if (words, unroll, block) == (4, 4, 512) else (1,)
        for share, fraction in product(shares, L2_FRACTIONS):
            chunks = _prime_up_to(int(fraction * l2_bytes) // chunk_bytes)
            steps = chunks * max(1, round(L2_READ_BYTES / (blocks * chunks * chunk_bytes)))
            launch = bench.gpu.launcher(
                kernel, (blocks, 1, 1), (block, 1, 1), int(data.handle),
                np.uint32(chunks), np.uint32(steps), np.uint32(share), int(sink.handle), int(span.handle),
            )  # fmt: skip
            seconds = bench.seconds(launch)
            trial = Trial(
                roof="l2",
                config=config if share == 1 else f"{config}, {share} side by side",
                rate=blocks * steps * chunk_bytes / seconds,
                sm_clock_hz=bench.clock(span),
                footprint_bytes=chunks * chunk_bytes,
                # With few chunks several blocks read one at a time, whatever their strides.
                counts=share == 1 and chunks >= 2 * blocks,
            )
            yield trial, launch


def _prime_up_to(n: int) -> int:
    """The largest prime that is at most ``n``; 3 for smaller ones."""
    return next((p for p in range(n, 3, -1) if all(p % d for d in range(2, int(p**0.5) + 1))), 3)


def _copy(bench: _Bench) -> Iterator[Found]:
    """A copy between buffers of at least four times the L2: bytes read plus bytes written."""
    nbytes = max(COPY_BYTES, 4 * bench.gpu.device.l2_bytes)
    nbytes -= nbytes % (16 * 8 * 1024)
    source, target = bench.buffer(nbytes), bench.buffer(nbytes)
    for unroll, streaming, block in product((2, 4, 8), (0, 1), (128, 256, 512, 1024)):
        kernel, _ = bench.kernel("copy", "copy", block=block, UNROLL=unroll, STREAMING=streaming)
        grid = (nbytes // (16 * unroll * block), 1, 1)
        launch = bench.gpu.launcher(kernel, grid, (block, 1, 1), int(source.handle), int(target.handle))
        hint = "streaming, " if streaming else ""
        config = f"copy, 16 bytes a thread, {unroll} in flight, {hint}blocks of {block}, {nbytes} bytes"
        yield Trial(roof="dram", config=config, rate=2 * nbytes / bench.seconds(launch)), launch

    def memcpy() -> None:
        target.copy_from(source, stream=bench.gpu.stream)

    config = f"copy by the driver (cuMemcpyAsync), {nbytes} bytes"
    yield Trial(roof="dram", config=config, rate=2 * nbytes / bench.seconds(memcpy)), memcpy


def _highest(found: Sequence[Found]) -> tuple[float, Trial, Launch, str]:
    """The best trial: its rate, itself, its launch, and what it was."""
    best, launch = max((pair for pair in found if pair[0].counts), key=lambda pair: pair[0].rate)
    return best.rate, best, launch, best.config


def _plateau(found: Sequence[Found]) -> tuple[float, Trial, Launch, str]:
    """The best mean over three neighbouring footprints of one configuration: a rate that does not hang on one size."""
    by_config: dict[str, list[Found]] = {}
    for pair in found:
        if pair[0].counts:
            by_config.setdefault(pair[0].config, []).append(pair)
    windows = [pairs[i : i + 3] for pairs in by_config.values() for i in range(max(1, len(pairs) - 2))]
    best = max(windows, key=_mean)
    trial, launch = best[len(best) // 2]
    low, high = (best[i][0].footprint_bytes or 0 for i in (0, -1))
    what = f"{trial.config}, footprints of {low / 2**20:.1f} to {high / 2**20:.1f} MiB"
    return _mean(best), trial, launch, what


def _mean(pairs: Sequence[Found]) -> float:
    return sum(trial.rate for trial, _ in pairs) / len(pairs)


def _per_clock(roof: str, rate: float, clock: float | None, gpu: Gpu) -> str:
    if clock is None:
        return "SM clock unknown"
    each = rate / (clock * gpu.device.sm_count)
    return f"{each:.4g} {'FLOP' if roof == 'fp32' else 'B'} per clock per SM at {clock / 1e9:.3f} GHz"


def _drawing(reading: Reading) -> str:
    return "" if reading.power_w is None else f", {reading.power_w:.0f} W"
