"""Roofs checked by hardware counters: ncu watches one launch of each chosen configuration, in a process of its own."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ladder.ceilings._bench import Bench, Counted
from ladder.ceilings._probes import PROBES
from ladder.ceilings._record import config_to_json
from ladder.ceilings._types import Ceilings, Config, Finding
from ladder.counters import ncu, ncu_status
from ladder.counters.metrics import for_chip
from ladder.errors import BackendError

__all__ = ["TOLERANCE", "judge_counts", "profile_configs", "with_counters"]

TOLERANCE = 0.02
"""How far bytes moved may be from bytes meant."""

TIMEOUT_S = 120.0


def with_counters(ceilings: Ceilings) -> Ceilings:
    """The same with what counters say of each roof; where they cannot be read, why.

    Takes some 10 s on a GPU. Nothing is timed here.
    """
    chosen = [each.best.config for each in ceilings.ceilings if each.best.config.probe]
    why = ncu_status()
    found: dict[str, tuple[Finding, ...]] = {}
    if why is None:
        try:
            found = _profiled(chosen, ceilings.device.compute_capability)
        except BackendError as error:
            why = str(error)
    for each in ceilings.ceilings:
        reason = why if each.best.config.probe else "the driver's copy is no kernel of ours"
        if each.roof not in found:
            lacking = Finding(
                roof=each.roof, by="counters", what="what counters see", why=reason or "ncu did not report it"
            )
            found[each.roof] = (lacking,)
    return replace(
        ceilings,
        ceilings=tuple(
            replace(each, findings=(*(f for f in each.findings if f.by != "counters"), *found[each.roof]))
            for each in ceilings.ceilings
        ),
    )


def _profiled(configs: Sequence[Config], capability: tuple[int, int]) -> dict[str, tuple[Finding, ...]]:
    with tempfile.TemporaryDirectory(prefix="ladder-ceilings-") as folder:
        spec, meant = Path(folder) / "configs.json", Path(folder) / "meant.json"
        spec.write_text(json.dumps([config_to_json(config) for config in configs]), encoding="utf-8")
        wanted = sorted({name for config in configs for name in PROBES[config.roof].counters})
        names = for_chip(wanted, capability)
        child = ["ladder.ceilings.child", str(spec), str(meant)]
        rows = ncu.profile(child, names, cold=False, timeout_s=TIMEOUT_S)
        expected = json.loads(meant.read_text(encoding="utf-8"))
    if len(rows) != len(configs):
        raise BackendError(f"ncu reports {len(rows)} launches of probes where {len(configs)} were made")
    return {
        config.roof: judge_counts(config.roof, [_counted(each) for each in checks], row.values, names)
        for config, checks, row in zip(configs, expected, rows, strict=True)
    }


def judge_counts(
    roof: str, checks: Sequence[Counted], values: Mapping[str, float], names: Mapping[str, str]
) -> tuple[Finding, ...]:
    """Compare what a launch was meant to do with its counters, ``values``, whose names on this GPU ``names`` tell."""
    out = []
    for check in checks:
        counts = [values.get(names[name]) for name in check.counters]
        if any(count is None for count in counts):
            why = f"this GPU gave no {', '.join(names[name] for name in check.counters)}"
            out.append(Finding(roof=roof, by="counters", what=check.what, meant=check.meant, why=why))
            continue
        found = check.each * sum(count for count in counts if count is not None)
        right = found <= check.meant if check.at_most else abs(found - check.meant) <= TOLERANCE * check.meant
        why = "at most that" if check.at_most else ""
        out.append(
            Finding(roof=roof, by="counters", what=check.what, meant=check.meant, found=found, ok=right, why=why)
        )
    return tuple(out)


def profile_configs(bench: Bench, configs: Sequence[Config]) -> list[list[dict[str, Any]]]:
    """Launch each configuration twice, the second time watched; what its counters should see, as JSON."""
    from cuda.bindings import driver  # noqa: PLC0415 -- loads the CUDA bindings

    meant = []
    for config in configs:
        probe = PROBES[config.roof]
        work = probe.prepare(bench, config, probe.times_to_count)
        work.launch()
        bench.gpu.stream.sync()
        driver.cuProfilerStart()
        work.launch()
        bench.gpu.stream.sync()
        driver.cuProfilerStop()
        meant.append([asdict(check) for check in work.counted])
    return meant


def _counted(data: Mapping[str, Any]) -> Counted:
    return Counted(**{**data, "counters": tuple(data["counters"])})
