"""Results as JSON of schema ``ladder/1``, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ladder.model import (
    Activity,
    Check,
    Device,
    Law,
    Placement,
    Quantity,
    Resources,
    Roofs,
    Shape,
    Timing,
    Traffic,
    Watched,
)
from ladder.store._rows import Beside, Results, Run

__all__ = ["SCHEMA", "from_json", "to_json"]

SCHEMA = "ladder/1"


def to_json(results: Results) -> dict[str, Any]:
    """The schema's dictionary."""
    device = results.device
    return {
        "schema": SCHEMA,
        "created": results.created,
        "command": results.command,
        "device": {
            "backend": device.backend,
            "name": device.name,
            "compute_capability": "{}.{}".format(*device.compute_capability),
            "sm_count": device.sm_count,
            "l2_bytes": device.l2_bytes,
            "smem_per_sm_bytes": device.smem_per_sm_bytes,
            "l1_bytes": device.l1_bytes,
            "registers_per_sm": device.registers_per_sm,
            "max_threads_per_sm": device.max_threads_per_sm,
            "max_blocks_per_sm": device.max_blocks_per_sm,
            "driver": device.driver,
            "nvrtc": device.nvrtc,
            "sm_clock_hz": device.sm_clock_hz,
            "power_w": device.power_w,
        },
        "ceilings": _roofs_to_json(results.roofs),
        "runs": [_run_to_json(run) for run in results.runs],
    }


def from_json(data: Mapping[str, Any]) -> Results:
    """The inverse of :func:`to_json`; derived fields (rates, intensities) are computed again, not read."""
    fields = dict(data["device"])
    major, minor = (int(part) for part in fields["compute_capability"].split("."))
    fields["compute_capability"] = (major, minor)
    known = set(Device.__dataclass_fields__)
    return Results(
        created=data["created"],
        command=data["command"],
        device=Device(**{k: v for k, v in fields.items() if k in known}),
        roofs=_roofs_from_json(data["ceilings"]),
        runs=tuple(_run_from_json(run) for run in data["runs"]),
    )


def _roofs_to_json(roofs: Roofs) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for unit, values in (("bytes_per_s", roofs.bytes_per_s), ("flop_per_s", roofs.flop_per_s)):
        for name, value in values.items():
            out[name] = {unit: value, "origin": roofs.origin.get(name, "recorded"), "note": roofs.note.get(name, "")}
    return out


def _roofs_from_json(data: Mapping[str, Any]) -> Roofs:
    return Roofs(
        bytes_per_s={k: v["bytes_per_s"] for k, v in data.items() if "bytes_per_s" in v},
        flop_per_s={k: v["flop_per_s"] for k, v in data.items() if "flop_per_s" in v},
        origin={k: v["origin"] for k, v in data.items()},
        note={k: v["note"] for k, v in data.items() if v.get("note")},
    )


def _record(value: Any, names: tuple[str, ...]) -> dict[str, Any] | None:
    return None if value is None else {name: getattr(value, name) for name in names}


_CHECK = ("passed", "worst_error_over_bound", "exact_integers", "failure", "crc32")
_TIME = ("median", "p20", "p80", "samples")
_RESOURCES = ("registers", "smem_bytes", "spill_bytes", "stack_bytes", "occupancy")


def _run_to_json(run: Run) -> dict[str, Any]:
    placement, law = run.placement, run.law
    return {
        "rung": run.rung,
        "title": run.title,
        "kind": run.kind,
        "source_sha256": run.source_sha256,
        "skipped": run.skipped,
        "error": run.error,
        "shape": {"m": run.shape.m, "n": run.shape.n, "k": run.shape.k},
        "check": _record(run.check, _CHECK),
        "time_s": _time_to_json(run.time),
        "time_cold_s": _time_to_json(run.time_cold),
        "flop_per_s": run.flop_per_s,
        "traffic": None if run.traffic is None else _traffic_to_json(run.traffic),
        "intensity": run.intensity,
        "placement": placement
        and {
            "bound_by": placement.bound_by,
            "roof_flop_per_s": placement.roof_flop_per_s,
            "bounds_flop_per_s": dict(placement.bounds_flop_per_s),
            "fraction": placement.fraction,
        },
        "law": law and {"name": law.name, "predicted": dict(law.predicted)},
        "resources": _record(run.resources, _RESOURCES),
        **_only_if_known(run),
    }


def _only_if_known(run: Run) -> dict[str, Any]:
    """Keys that most rows do not have."""
    beside = run.beside and {
        "rung": run.beside.rung,
        "time_s": _time_to_json(run.beside.time),
        "flop_per_s": run.shape.flop / run.beside.time.median,
        "speedup": run.speedup,
    }
    params = None if run.params is None else dict(run.params)
    activity = run.activity and _activity_to_json(run.activity)
    found: dict[str, Any] = {"params": params, "activity": activity, "beside": beside}
    found |= {"sm_clock_hz": run.sm_clock_hz, "power_w": run.power_w, "kernel": run.kernel}
    return {key: value for key, value in found.items() if value is not None}


def _run_from_json(data: Mapping[str, Any]) -> Run:
    def maybe(cls: Any, key: str, names: tuple[str, ...]) -> Any:
        value = data.get(key)
        return None if value is None else cls(**{name: value.get(name) for name in names if name in value})

    placement, law, traffic, beside = (data.get(key) for key in ("placement", "law", "traffic", "beside"))
    time, cold = data.get("time_s"), data.get("time_cold_s")
    return Run(
        rung=data["rung"],
        title=data["title"],
        kind=data["kind"],
        shape=Shape(**data["shape"]),
        source_sha256=data.get("source_sha256", ""),
        skipped=data.get("skipped"),
        error=data.get("error"),
        check=maybe(Check, "check", _CHECK),
        time=time and _timing(time),
        time_cold=cold and _timing(cold),
        traffic=None if traffic is None else _traffic_from_json(traffic),
        activity=_activity_from_json(data.get("activity")),
        placement=placement and Placement(**{k: placement[k] for k in Placement.__dataclass_fields__}),
        law=law and Law(name=law["name"], predicted=law["predicted"]),
        resources=maybe(Resources, "resources", _RESOURCES),
        params=data.get("params"),
        beside=beside and Beside(rung=beside["rung"], time=_timing(beside["time_s"])),
        sm_clock_hz=data.get("sm_clock_hz"),
        power_w=data.get("power_w"),
        kernel=data.get("kernel"),
    )


def _time_to_json(time: Timing | None) -> dict[str, Any] | None:
    if time is None:
        return None
    out: dict[str, Any] = {name: getattr(time, name) for name in _TIME}
    found = {
        "method": time.method,
        "kept": list(time.kept) or None,
        "watched": _record(time.watched, tuple(Watched.__dataclass_fields__)),
        "late": time.late or None,
    }
    return out | {key: value for key, value in found.items() if value is not None}


def _timing(data: Mapping[str, Any]) -> Timing:
    fields = {name: data[name] for name in (*_TIME, "method", "kept", "late") if name in data}
    known, watched = Watched.__dataclass_fields__, data.get("watched")
    seen = None if watched is None else Watched(**{name: value for name, value in watched.items() if name in known})
    return Timing(**fields, watched=seen)


def _activity_to_json(activity: Activity) -> dict[str, Any]:
    """What was counted, and the FP32 work that follows from it."""
    known = {name: getattr(activity, name) for name in (*Activity.__dataclass_fields__, "flop")}
    return {name: value for name, value in (known | {"stalls": dict(activity.stalls)}).items() if value is not None}


def _activity_from_json(data: Mapping[str, Any] | None) -> Activity | None:
    if data is None:
        return None
    return Activity(**{k: v for k, v in data.items() if k in Activity.__dataclass_fields__})


_PIPE = ("wavefronts_ld", "wavefronts_st", "requests_ld", "requests_st")
_GLOBAL_PIPE = ("global_wavefronts", "global_requests")
_EMULATED_PIPE = ("fetch_wavefronts", "other_wavefronts")
"""Written when there are any."""


def _traffic_to_json(traffic: Traffic) -> dict[str, Any]:
    out: dict[str, Any] = {level: {"bytes": q.bytes, "origin": q.origin} for level, q in traffic.levels.items()}
    for level, names in (("shared", _PIPE), ("sm", _GLOBAL_PIPE)):
        if level in out:
            out[level] |= {name: getattr(traffic, name) for name in names}
    if "sm" in out:
        out["sm"] |= {name: count for name in _EMULATED_PIPE if (count := getattr(traffic, name))}
    if traffic.wavefronts_per_request is not None and "shared" in out:
        out["shared"]["wavefronts_per_request"] = traffic.wavefronts_per_request
    return out


def _traffic_from_json(data: Mapping[str, Any]) -> Traffic:
    levels: dict[Any, Quantity] = {k: Quantity(bytes=v["bytes"], origin=v["origin"]) for k, v in data.items()}
    counts = {name: data.get("shared", {}).get(name, 0) for name in _PIPE}
    counts |= {name: data.get("sm", {}).get(name, 0) for name in (*_GLOBAL_PIPE, *_EMULATED_PIPE)}
    return Traffic(levels=levels, **counts)
