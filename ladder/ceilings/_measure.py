"""Measure every roof: try, keep up the best, look at its machine code."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from ladder.backends.driver import translated
from ladder.backends.gpu import Gpu
from ladder.ceilings._bench import Bench
from ladder.ceilings._cache import keep, kept, key_of
from ladder.ceilings._choice import ceiling, chosen
from ladder.ceilings._machine import by_machine_code
from ladder.ceilings._probes import PROBES, Probe
from ladder.ceilings._types import ROOFS, Ceiling, Ceilings, Trial

__all__ = ["measure_ceilings", "todays_ceilings"]

Progress = Callable[[str], None]


def measure_ceilings(gpu: Gpu, *, progress: Progress | None = None) -> Ceilings:
    """Measure every roof on ``gpu``: some 15 s, and as much again for compilation the first time.

    Each probe is tried in several configurations. The best is then kept up until clock and power have settled, and the
    rate that lasts is the roof. Machine code is compared with what was meant; counters are :func:`with_counters`'.

    Args:
        gpu: an idle GPU.
        progress: called with a line about each finished roof.

    Raises:
        BackendError: memory for the probes is short, or a launch failed.
        CompileError, NvrtcMissingError: the probes cannot be compiled.
    """
    gpu.activate()
    begun = time.perf_counter()
    created = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    trials: list[Trial] = []
    found: dict[str, Ceiling] = {}
    with translated(f"measuring the roofs of {gpu.device.name}"), Bench(gpu) as bench:
        for roof, probe in PROBES.items():
            tried = _tried(bench, probe)
            trials += tried
            if not tried:
                continue
            kept_up = [
                bench.sustained(config, probe.prepare, times_as_long=probe.times_as_long) for config in chosen(tried)
            ]
            made = ceiling(kept_up, gpu.device)
            config = made.best.config
            checked = by_machine_code(config, probe.code(config), gpu.device.arch)
            found[roof] = replace(made, findings=(checked, *made.findings))
            if progress is not None:
                progress(f"{roof}: {made.rate / 1e12:.4g} T{made.unit}/s, {found[roof].note}")
    return Ceilings(
        device=gpu.device,
        created=created,
        ceilings=tuple(found[roof] for roof in ROOFS if roof in found),
        trials=tuple(trials),
        seconds=time.perf_counter() - begun,
    )


def todays_ceilings(gpu: Gpu, *, fresh: bool = False, progress: Progress | None = None) -> tuple[str, Ceilings]:
    """The roofs that were measured on this card today, or measured now and kept; with the key that they are kept under.

    Args:
        gpu: an idle GPU.
        fresh: measure again even if they are there.
        progress: as for :func:`measure_ceilings`, and which raises the same.
    """
    key = key_of(gpu)
    found = None if fresh else kept(key)
    if found is None:
        found = measure_ceilings(gpu, progress=progress)
        keep(key, found)
    return key, found


def _tried(bench: Bench, probe: Probe) -> list[Trial]:
    out: list[Trial] = []
    for config in probe.configs(bench.gpu.device):
        work = probe.prepare(bench, config, 1)
        if not out:
            bench.warm(work.launch)
        out.append(Trial(config=config, words=work.words, rate=bench.rate(work), counts=work.counts))
    return out
