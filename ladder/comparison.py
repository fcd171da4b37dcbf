"""What changed from one results file to another, beyond the spread of the times. Pure arithmetic.

Rows are matched by rung, shape and template arguments. A time has changed when the two ranges from the 20th to the
80th percentile have no point in common *and* the medians differ by more than a tolerance: the range tells what samples
of one session differ by, and not what two sessions do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from ladder.model import LEVELS, STEADY_CLOCK, Device, Level, Shape, Timing
from ladder.store import Results, Run

__all__ = ["TOLERANCE", "TRAFFIC_TOLERANCE", "Change", "Comparison", "Moved", "Pair", "compare", "outcome"]

TOLERANCE = 0.01
"""Of the median. Kernels that were not changed differed by up to 0.4 % between two sessions on an H200 with the same
driver, at ranges of 0.1 to 0.4 %."""

TRAFFIC_TOLERANCE = 0.001
"""Of a level's bytes. Exact counts do not change at all; those of caches vary from run to run."""

Verdict = Literal["slower", "faster", "same"]
Outcome = Literal["right", "wrong", "broke off", "skipped", "not checked"]

_DEVICE = ("backend", "name", "compute_capability", "sm_count", "driver", "nvrtc")


@dataclass(frozen=True, slots=True)
class Change:
    """Something that was ``before`` and is ``after``, as text; empty where nobody knows."""

    what: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A level's bytes of one product, before and after."""

    level: Level
    before: int
    after: int

    @property
    def ratio(self) -> float | None:
        """After over before; None when there is nothing to divide."""
        return self.after / self.before if self.before else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One rung at one shape in both files.

    Attributes:
        before, after: the rows.
        ratio: median time after over before: above 1 is slower; None unless both are timed.
        verdict: what the times say, given their ranges and the tolerance; None unless both are timed.
        moved: levels whose bytes changed, of those that both counted.
    """

    before: Run
    after: Run
    ratio: float | None
    verdict: Verdict | None
    moved: tuple[Moved, ...]

    @property
    def check(self) -> Change | None:
        """How the proof ended, if it ended otherwise, or gave other bits of C."""
        was, now = outcome(self.before), outcome(self.after)
        if was != now:
            return Change("check", was, now)
        bits = [run.check.crc32 if run.check is not None else None for run in (self.before, self.after)]
        if None in bits or bits[0] == bits[1] or now != "right":
            return None
        return Change("bits of C", *(f"{each:08x}" for each in bits if each is not None))

    @property
    def clocks_apart(self) -> float | None:
        """By what fraction of the lower SM clock the two were timed apart, where that is more than 2 %; else None."""
        was, now = self.before.clock_hz, self.after.clock_hz
        if self.ratio is None or was is None or now is None:
            return None
        apart = max(was, now) / min(was, now) - 1
        return apart if apart > STEADY_CLOCK else None

    @property
    def timed_otherwise(self) -> bool:
        """One was timed in a CUDA graph and the other was not: a record that does not tell is older than graphs."""
        if self.before.time is None or self.after.time is None:
            return False
        return (self.before.time.method == "graph") != (self.after.time.method == "graph")

    @property
    def edited(self) -> bool:
        """The rung's file is another one; False where a row does not tell."""
        was, now = self.before.source_sha256, self.after.source_sha256
        return bool(was and now) and was != now

    @property
    def changed(self) -> bool:
        """The time, the check or the traffic has changed."""
        return self.verdict in {"slower", "faster"} or self.check is not None or bool(self.moved)

    @property
    def worse(self) -> bool:
        """It got slower, or it was not wrong and is now."""
        return self.verdict == "slower" or (self.after.failed and not self.before.failed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two results files.

    Attributes:
        session: what differs about device, driver and compiler.
        roofs: ceilings that differ by more than the tolerance, in B/s or FLOP/s.
        pairs: the rows that both have, in the order of the second file.
        only_before, only_after: the rows that one has.
    """

    session: tuple[Change, ...]
    roofs: tuple[Change, ...]
    pairs: tuple[Pair, ...]
    only_before: tuple[Run, ...]
    only_after: tuple[Run, ...]

    @property
    def worse(self) -> bool:
        """Something got slower beyond the spread, or is wrong and was not, new rows included."""
        return any(pair.worse for pair in self.pairs) or any(run.failed for run in self.only_after)


def compare(before: Results, after: Results, *, tolerance: float = TOLERANCE) -> Comparison:
    """What changed from ``before`` to ``after``.

    Args:
        before: results.
        after: results, of the same card or of another.
        tolerance: part of the median by which a time may change and still be the same, beside its range.

    Raises:
        ValueError: a negative tolerance.
    """
    if not tolerance >= 0:
        raise ValueError(f"tolerance {tolerance}: give 0 or more")
    old, new = dict(_keyed(before)), dict(_keyed(after))
    return Comparison(
        session=tuple(_devices(before.device, after.device)),
        roofs=tuple(_roofs(before, after, tolerance)),
        pairs=tuple(_pair(old[key], run, tolerance) for key, run in new.items() if key in old),
        only_before=tuple(run for key, run in old.items() if key not in new),
        only_after=tuple(run for key, run in new.items() if key not in old),
    )


def outcome(run: Run) -> Outcome:
    """How the row ended, in a word or two."""
    if run.skipped is not None:
        return "skipped"
    if run.error is not None:
        return "broke off"
    if run.check is None:
        return "not checked"
    return "right" if run.check.passed else "wrong"


def _keyed(results: Results) -> Iterator[tuple[tuple[str, Shape, object, int], Run]]:
    """The rows by what they are of; a second row of the same is the second of it in the other file as well."""
    seen: dict[tuple[str, Shape, object], int] = {}
    for run in results.runs:
        key = (run.rung, run.shape, tuple(sorted((run.params or {}).items())))
        seen[key] = seen.get(key, 0) + 1
        yield (*key, seen[key]), run


def _pair(before: Run, after: Run, tolerance: float) -> Pair:
    ratio, verdict = None, None
    if before.time is not None and after.time is not None:
        ratio = after.time.median / before.time.median
        verdict = _verdict(before.time, after.time, tolerance)
    return Pair(before=before, after=after, ratio=ratio, verdict=verdict, moved=tuple(_moved(before, after)))


def _verdict(before: Timing, after: Timing, tolerance: float) -> Verdict:
    if after.p20 > before.p80 and after.median > before.median * (1 + tolerance):
        return "slower"
    if after.p80 < before.p20 and after.median * (1 + tolerance) < before.median:
        return "faster"
    return "same"


def _moved(before: Run, after: Run) -> Iterator[Moved]:
    """Levels that both rows counted."""
    if before.traffic is None or after.traffic is None:
        return
    was, now = before.traffic.levels, after.traffic.levels
    for level in LEVELS:
        if level in was and level in now:
            old, new = was[level].bytes, now[level].bytes
            if abs(new - old) > TRAFFIC_TOLERANCE * old:
                yield Moved(level=level, before=old, after=new)


def _devices(before: Device, after: Device) -> Iterator[Change]:
    for name in _DEVICE:
        was, now = (_text(getattr(device, name)) for device in (before, after))
        if was != now:
            yield Change(name.replace("_", " "), was, now)


def _text(value: object) -> str:
    if value is None:
        return ""
    return ".".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _roofs(before: Results, after: Results, tolerance: float) -> Iterator[Change]:
    def every(results: Results) -> Mapping[str, float]:
        return {**results.roofs.bytes_per_s, **results.roofs.flop_per_s}

    was, now = every(before), every(after)
    for name in dict.fromkeys((*was, *now)):
        old, new = was.get(name), now.get(name)
        if old is None or new is None or abs(new - old) > tolerance * old:
            yield Change(name, *("" if value is None else f"{value:.4g}" for value in (old, new)))
