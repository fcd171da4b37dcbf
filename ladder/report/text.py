"""Numbers and names as a reader sees them, and the escaping of everything that a user may have named."""

from __future__ import annotations

import math
import re

from ladder.model import Level, Origin

__all__ = [
    "LEVEL_NAMES",
    "ORIGIN_MEANINGS",
    "ROOF_NAMES",
    "listing",
    "markdown",
    "number",
    "percent",
    "plural",
    "seconds",
    "short",
    "si",
    "slug",
    "tflops",
    "the",
]

LEVEL_NAMES: dict[Level, str] = {
    "asked": "asked",
    "l1": "L1",
    "l2": "L2",
    "dram": "DRAM",
    "shared": "shared",
    "sm": "SM",
}

ROOF_NAMES: dict[str, str] = {
    "dram": "DRAM",
    "l2": "L2",
    "sm": "SM data pipe",
    "shared": "shared memory",
    "fp32": "FP32",
    "tf32": "TF32",
    "fp16": "FP16",
    "bf16": "BF16",
}

_WITH_ARTICLE = frozenset({"sm"})

ORIGIN_MEANINGS: dict[Origin, str] = {
    "measured": "timed on this GPU in this session",
    "counted": "read from this GPU's hardware counters",
    "emulated": "counted exactly while the kernel's PTX ran on the CPU",
    "modelled": "computed from a model (caches, clock times width), not observed",
    "recorded": "taken from a profile: another session's measurement or a datasheet, as its note says",
}

_PREFIXES = {15: "P", 12: "T", 9: "G", 6: "M", 3: "k", 0: "", -3: "m", -6: "µ", -9: "n"}


def number(value: float | None, digits: int = 3) -> str:
    """``digits`` significant digits without an exponent: 0.0152, 5.33, 171; a dash for None."""
    if value is None:
        return "–"
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:.{decimals}f}"


def si(value: float, unit: str, digits: int = 3) -> str:
    """4.12e12, "B/s" -> "4.12 TB/s"."""
    if value <= 0 or not math.isfinite(value):
        return f"{value:g} {unit}"
    exponent = max(-9, min(15, 3 * math.floor(math.log10(value) / 3)))
    return f"{number(value / 10.0**exponent, digits)} {_PREFIXES[exponent]}{unit}"


def tflops(flop_per_s: float) -> str:
    """A rate for a sentence or a cell: "9.98 TFLOP/s", small ones in GFLOP/s."""
    return si(flop_per_s, "FLOP/s")


def the(roof: str) -> str:
    """A roof's name inside a sentence: "the SM data pipe", "DRAM", "shared memory"."""
    name = ROOF_NAMES.get(roof, roof)
    return f"the {name}" if roof in _WITH_ARTICLE else name


def seconds(value_s: float) -> str:
    """1.5e-3 -> "1.50 ms"."""
    return si(value_s, "s")


def percent(fraction: float | None) -> str:
    """0.934 -> "93 %"; a digit more below 10 %."""
    if fraction is None:
        return "–"
    value = 100 * fraction
    return f"{value:.0f} %" if abs(value) >= 9.95 else f"{value:.1f} %"


def plural(count: int, noun: str) -> str:
    """``plural(2, "rung")`` -> "2 rungs"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def listing(names: list[str], limit: int = 6) -> str:
    """Names joined as in: a, b and c. Past ``limit`` the rest is a count."""
    if len(names) > limit:
        names = [*names[: limit - 1], f"{len(names) - limit + 1} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else "none"


def short(name: str, limit: int = 20) -> str:
    """``name``, cut with an ellipsis where a figure has no more room."""
    flat = " ".join(name.split())
    return flat if len(flat) <= limit else f"{flat[: limit - 1]}…"


def slug(text: str) -> str:
    """Lower-case letters, digits and single hyphens: safe in a file name and in an anchor."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60] or "unnamed"


def markdown(text: str) -> str:
    """``text`` as inline Markdown that shows exactly these characters, in a table cell or outside one."""
    flat = " ".join(text.split())
    flat = flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|~$#!])", r"\\\1", flat)
