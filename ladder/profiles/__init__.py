"""Recorded GPUs: the device and the ceilings to place a kernel under when no GPU is there to measure them.

A profile is a TOML file; ``ladder profile RECORD.json`` makes one of a GPU's record. Every roof says where its number
comes from:

    schema = "ladder-profile/1"
    name = "NVIDIA H200"

    [device]
    compute_capability = "9.0"
    sm_count = 132
    l2_bytes = 62914560
    smem_per_sm_bytes = 233472      # and the other keys of Device, all optional

    [roofs.dram]                    # dram, l2, sm: bytes_per_s; fp32 (required) and other pipes: flop_per_s
    bytes_per_s = 4.12e12
    origin = "recorded"             # measured, counted, emulated, modelled or recorded
    note = "float4 copy, four loads in flight"
"""

from __future__ import annotations

import difflib
import math
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, NoReturn

from ladder.errors import ProfileError
from ladder.model import ORIGINS, Device, Origin, Roofs
from ladder.profiles._text import to_toml

__all__ = ["SCHEMA", "Profile", "available", "load_profile", "roofs_of", "to_toml"]

SCHEMA = "ladder-profile/1"

_TOP_KEYS = ("schema", "name", "device", "roofs")
_MEMORY_ROOFS = ("dram", "l2", "sm")
_PIPE_ROOFS = ("fp32", "tf32", "fp16", "bf16")
_DEVICE_KEYS: dict[str, type] = {
    "compute_capability": str,
    "sm_count": int,
    "l2_bytes": int,
    "smem_per_sm_bytes": int,
    "l1_bytes": int,
    "registers_per_sm": int,
    "max_threads_per_sm": int,
    "max_blocks_per_sm": int,
    "driver": str,
    "sm_clock_hz": float,
}
_DEVICE_REQUIRED = ("compute_capability", "sm_count", "l2_bytes")
_CAPABILITY = re.compile(r"(\d+)\.(\d)")


@dataclass(frozen=True, slots=True)
class Profile:
    """A recorded GPU: ``device.backend`` is ``"emulated"``, and no roof is of this session."""

    name: str
    device: Device
    roofs: Roofs


def available() -> tuple[str, ...]:
    """Names of the packaged profiles, sorted."""
    return tuple(sorted(f.name.removesuffix(".toml") for f in files(__name__).iterdir() if f.name.endswith(".toml")))


def load_profile(name: str | os.PathLike[str]) -> Profile:
    """The packaged profile of that name, in any case, or the one in a TOML file.

    Args:
        name: ``"h200"``, or a path: anything with a folder in it or ending in ``.toml``.

    Raises:
        ProfileError: no such profile (the closest names are offered), an unreadable file, or a wrong key.
    """
    text = os.fspath(name)
    if text.lower().endswith(".toml") or Path(text).name != text:
        path = Path(text)
        try:
            content = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ProfileError(f"cannot read profile {path}: {getattr(error, 'strerror', None) or error}") from error
        return _parse(content, where=str(path), name=path.stem)
    key = text.lower()
    if key not in available():
        raise ProfileError(f"no profile {text!r}. {_offer(key)} Or give the path of a TOML file.")
    content = files(__name__).joinpath(f"{key}.toml").read_text(encoding="utf-8")
    return _parse(content, where=f"{key}.toml", name=key)


def _offer(key: str) -> str:
    close = difflib.get_close_matches(key, available(), n=3, cutoff=0.4)
    return f"Did you mean {' or '.join(close)}?" if close else f"There are {', '.join(available())}."


def _parse(content: str, *, where: str, name: str) -> Profile:
    try:
        data = tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        raise ProfileError(f"{where} is not TOML: {error}") from error
    _keys(data, known=_TOP_KEYS, required=_TOP_KEYS, where=where)
    if data["schema"] != SCHEMA:
        _fail(where, "schema", f"is {data['schema']!r}; this version reads {SCHEMA!r}")
    return Profile(name, _device(data, where), _roofs(_table(data, "roofs", where), where))


def _device(data: Mapping[str, Any], where: str) -> Device:
    if not isinstance(data["name"], str) or not data["name"]:
        _fail(where, "name", f"is {data['name']!r}; give the GPU's name")
    table = _table(data, "device", where)
    _keys(table, known=tuple(_DEVICE_KEYS), required=_DEVICE_REQUIRED, where=where, prefix="device.")
    fields: dict[str, Any] = {}
    for key, value in table.items():
        wanted = _DEVICE_KEYS[key]
        if wanted is str:
            if not isinstance(value, str):
                _fail(where, f"device.{key}", f'is {value!r}; write it in quotes, as in "9.0"')
            fields[key] = value
        else:
            fields[key] = wanted(_positive(value, where, f"device.{key}", integer=wanted is int))
    match = _CAPABILITY.fullmatch(fields["compute_capability"])
    if match is None:
        _fail(where, "device.compute_capability", f'is {fields["compute_capability"]!r}; write for example "9.0"')
    fields["compute_capability"] = (int(match[1]), int(match[2]))
    return Device(backend="emulated", name=data["name"], **fields)


def _roofs(table: Mapping[str, Any], where: str) -> Roofs:
    _keys(table, known=(*_MEMORY_ROOFS, *_PIPE_ROOFS), required=("fp32",), where=where, prefix="roofs.")
    bytes_per_s: dict[str, float] = {}
    flop_per_s: dict[str, float] = {}
    origin: dict[str, Origin] = {}
    note: dict[str, str] = {}
    for key in table:
        prefix = f"roofs.{key}"
        roof = _table(table, key, where, prefix="roofs.")
        unit = "bytes_per_s" if key in _MEMORY_ROOFS else "flop_per_s"
        fields = (unit, "origin", "note")
        _keys(roof, known=fields, required=fields, where=where, prefix=f"{prefix}.")
        values = bytes_per_s if key in _MEMORY_ROOFS else flop_per_s
        values[key] = _positive(roof[unit], where, f"{prefix}.{unit}")
        if roof["origin"] not in ORIGINS:
            _fail(where, f"{prefix}.origin", f"is {roof['origin']!r}; it is one of {', '.join(ORIGINS)}")
        origin[key] = roof["origin"]
        if not isinstance(roof["note"], str) or not roof["note"].strip():
            _fail(where, f"{prefix}.note", f"is {roof['note']!r}; say how the number was got, or from where")
        note[key] = roof["note"]
    return Roofs(bytes_per_s=bytes_per_s, flop_per_s=flop_per_s, origin=origin, note=note)


def _table(data: Mapping[str, Any], key: str, where: str, *, prefix: str = "") -> Mapping[str, Any]:
    value = data[key]
    if not isinstance(value, Mapping):
        _fail(where, f"{prefix}{key}", f"is {value!r}; it is a table: write [{prefix}{key}]")
    return value


def _keys(
    table: Mapping[str, Any], *, known: tuple[str, ...], required: tuple[str, ...], where: str, prefix: str = ""
) -> None:
    for key in table:
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}"
            _fail(where, f"{prefix}{key}", f"is unknown; {hint}")
    for key in required:
        if key not in table:
            _fail(where, f"{prefix}{key}", "is missing")


def _positive(value: Any, where: str, key: str, *, integer: bool = False) -> float:
    kinds = int if integer else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not math.isfinite(value) or value <= 0:
        _fail(where, key, f"is {value!r}; give a positive {'integer' if integer else 'number'}")
    return float(value) if not integer else value


def _fail(where: str, key: str, problem: str) -> NoReturn:
    raise ProfileError(f"profile {where}: key {key} {problem}")


def roofs_of(device: Device, asked: Profile | None = None) -> tuple[Roofs, str]:
    """The roofs of a real GPU that nobody has measured, and where they are from, in words.

    Those of the profile ``asked`` for, else of the recorded profile of that GPU, else modelled from its clock: 128
    bytes a clock for each SM's data pipe and its FMA units, with no roof for L2 and DRAM.

    Raises:
        ProfileError: there is no profile of the device, and it does not tell its SM clock.
    """
    if asked is not None:
        return asked.roofs, f"those recorded in profile {asked.name}"
    for name in available():
        recorded = load_profile(name)
        if recorded.device.name == device.name:
            return recorded.roofs, f"those recorded for this GPU (profile {name})"
    if not device.sm_clock_hz:
        raise ProfileError(f"no roofs are known for {device.name}, and it does not tell its SM clock: name a profile")
    lanes = device.fma_per_clock
    per_s = device.sm_count * device.sm_clock_hz
    model = f"{device.sm_count} SMs at {device.sm_clock_hz / 1e9:.2f} GHz"
    roofs = Roofs(
        bytes_per_s={"sm": 128 * per_s},
        flop_per_s={"fp32": 2 * lanes * per_s},
        origin={"sm": "modelled", "fp32": "modelled"},
        note={"sm": f"128 B per clock, {model}", "fp32": f"{lanes} FMA per clock, {model}"},
    )
    return roofs, "modelled from its clock, for its SMs alone (no profile of it is recorded)"
