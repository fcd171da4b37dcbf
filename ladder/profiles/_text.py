"""A profile as text: the inverse of reading one."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ladder.model import Device, Roofs

__all__ = ["to_toml"]

DIGITS = 3
"""Of a roof: what two sessions on one card have in common."""

_DEVICE = (
    "sm_count",
    "l2_bytes",
    "smem_per_sm_bytes",
    "l1_bytes",
    "registers_per_sm",
    "max_threads_per_sm",
    "max_blocks_per_sm",
    "driver",
    "sm_clock_hz",
)


def to_toml(device: Device, roofs: Roofs, *, schema: str, comment: Sequence[str] = ()) -> str:
    """The TOML text of a profile.

    Args:
        device: the GPU; what it does not tell (None or 0) is left out.
        roofs: with an origin and a note each; a rate is rounded to three digits.
        schema: of the file.
        comment: lines for its head.
    """
    lines = [f"# {line}".rstrip() for line in comment]
    lines += [f"schema = {_quoted(schema)}", f"name = {_quoted(device.name)}", "", "[device]"]
    lines.append('compute_capability = "{}.{}"'.format(*device.compute_capability))
    for key in _DEVICE:
        value = getattr(device, key)
        if value:
            lines.append(f"{key} = {_quoted(value) if isinstance(value, str) else _number(value)}")
    for unit, values in (("bytes_per_s", roofs.bytes_per_s), ("flop_per_s", roofs.flop_per_s)):
        for name, rate in values.items():
            lines += [
                "",
                f"[roofs.{name}]",
                f"{unit} = {_rounded(rate)}",
                f"origin = {_quoted(roofs.origin.get(name, 'recorded'))}",
                f"note = {_quoted(roofs.note.get(name) or 'no note was recorded')}",
            ]
    return "\n".join([*lines, ""])


def _quoted(text: str) -> str:
    """A basic string of TOML, whose escapes are JSON's and one more."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else _scientific(value, 6)


def _rounded(value: float) -> str:
    return _scientific(value, DIGITS)


def _scientific(value: float, digits: int) -> str:
    """``1.98e9``: a float of TOML, whose mantissa has a point."""
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    whole, _, part = mantissa.partition(".")
    return f"{whole}.{part.rstrip('0') or '0'}e{int(exponent)}"
