"""From trials to the configurations that are kept up, and from these to a roof. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ladder.ceilings._limits import limit
from ladder.ceilings._types import ABOVE, Ceiling, Config, Finding, Sustained, Trial
from ladder.model import Device
from ladder.stats import percentile

__all__ = ["ceiling", "chosen"]

WINDOW = 3
"""Neighbouring footprints whose mean is L2's plateau."""

DATA_MATTERS = ("tf32", "bf16")
"""Pipes whose clock depends on what they multiply, by the power that it takes."""


def chosen(trials: Sequence[Trial]) -> tuple[Config, ...]:
    """What to keep up for one roof, the one that stands for it first.

    L2: three neighbouring footprints of one configuration, the middle one first: a rate that does not hang on one
    size. The tensor cores: the best one, then the same on constant operands. Otherwise the best one alone.

    Raises:
        ValueError: there are no trials.
    """
    if not trials:
        raise ValueError("no trial to choose from")
    counting = [trial for trial in trials if trial.counts] or [t for t in trials if t.config.numbers.get("share") != 2]
    if counting[0].roof == "l2":
        window = _plateau(counting)
        middle = window[len(window) // 2]
        return (middle.config, *(trial.config for trial in window if trial is not middle))
    best = max(counting, key=lambda trial: trial.rate).config
    return (best, replace(best, data="constant")) if best.roof in DATA_MATTERS else (best,)


def _plateau(trials: Sequence[Trial]) -> Sequence[Trial]:
    """The footprints, of one configuration and side by side, with the best mean rate."""
    by_words: dict[str, list[Trial]] = {}
    for trial in trials:
        by_words.setdefault(trial.words, []).append(trial)
    windows = [each[i : i + WINDOW] for each in by_words.values() for i in range(max(1, len(each) - WINDOW + 1))]
    return max(windows, key=lambda window: sum(trial.rate for trial in window) / len(window))


def ceiling(kept_up: Sequence[Sustained], device: Device) -> Ceiling:
    """The roof that launches kept up, in the order of :func:`chosen`, with its rate per clock and that as a finding."""
    first, roof = kept_up[0], kept_up[0].config.roof
    best, rate, what = first, first.rate, first.words
    if roof == "l2":
        rate = sum(each.rate for each in kept_up) / len(kept_up)
        sizes = sorted((each.config.footprint_bytes or 0) / 2**20 for each in kept_up)
        what = f"{first.words}, footprints of {sizes[0]:.1f} to {sizes[-1]:.1f} MiB"
    elif len(kept_up) > 1:
        best = max(kept_up, key=lambda each: each.rate)
        rate = best.rate
        what = f"{best.words}{''.join(_beside(each) for each in kept_up if each is not best)}"
    clocks = [each.clock_hz for each in (kept_up if roof == "l2" else [best]) if each.clock_hz is not None]
    per_clock = rate / (percentile(clocks, 50) * device.sm_count) if clocks else None
    most = limit(roof, device)
    return Ceiling(
        roof=roof,
        rate=rate,
        best=best,
        others=tuple(each for each in kept_up if each is not best),
        per_clock=per_clock,
        limit=most,
        what=what,
        findings=() if most is None else (_against(roof, per_clock, most),),
    )


def _beside(other: Sustained) -> str:
    """What other operands gave."""
    clock, power = other.clock_hz, other.watched.power_w
    at = "" if clock is None else f" at {clock / 1e9:.3f} GHz"
    drawn = "" if power is None else f", {power:.0f} W"
    return f"; {other.config.data} operands: {other.rate / 1e12:.4g} TFLOP/s{at}{drawn}"


def _against(roof: str, per_clock: float | None, most: float) -> Finding:
    what = "rate per clock per SM against the hardware's limit"
    if per_clock is None:
        return Finding(roof=roof, by="clock", what=what, meant=most, why="no SM clock is known")
    right = per_clock <= ABOVE * most
    why = "" if right else "the clock or the rate is wrong"
    return Finding(roof=roof, by="clock", what=what, meant=most, found=per_clock, ok=right, why=why)
