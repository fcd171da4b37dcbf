"""What a mark asks for, from the records of a card, the recorded profiles, and the emulator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from bench.quoted.records import core, run_of, tuned
from ladder.backends.emulated import EmulatedBackend
from ladder.catalog import find
from ladder.check import inputs
from ladder.model import Level, Placement, Roofs, Shape, Traffic
from ladder.nvrtc import Compiled, compile_rung
from ladder.oracle import reference
from ladder.profiles import load_profile
from ladder.roofline import place

__all__ = ["RUNGS", "value"]

RUNGS = (
    "naive", "coalesced", "tiled_16", "tiled_32", "tiled_64", "tiled_conflict", "padded", "register_tile_1d",
    "register_tile",
)  # fmt: skip
LEVELS: tuple[Level, ...] = ("dram", "l2", "shared", "sm")
NAMES = {"dram": "DRAM", "l2": "L2", "l1": "L1", "shared": "shared memory", "sm": "SM data pipe", "fp32": "FP32"}
PROFILES = ("h200", "a100", "t4")

VARIANTS = {
    # rung 03 with padding that no conflict asks for
    "tiled_32_As_padded": ("tiled_32", "__shared__ float As[T][T];", "__shared__ float As[T][T + 1];"),
    "tiled_32_Bs_padded": ("tiled_32", "__shared__ float Bs[T][T];", "__shared__ float Bs[T][T + 1];"),
}
EMULATED_SHAPE = Shape(m=256, n=256, k=256)


def value(words: Sequence[str]) -> str:
    """The text that ``words`` ask for.

    Raises:
        ValueError: unknown words, or a row that no record has.
    """
    kind, *rest = words
    if kind not in _KINDS:
        raise ValueError(f"{' '.join(words)}: no quoted value is called {kind}; there are {', '.join(_KINDS)}")
    return _KINDS[kind](*rest)


def short(number: float) -> str:
    """Three significant digits."""
    text = f"{number:#.3g}"
    return f"{number:.0f}" if "e" in text and abs(number) >= 1 else text.rstrip(".")


def _rate(rung: str, shape: str) -> str:
    """Measured TFLOP/s."""
    return short(_flop_per_s(rung, shape) / 1e12)


def _flop_per_s(rung: str, shape: str) -> float:
    found = run_of(rung, shape).flop_per_s
    if found is None:
        raise ValueError(f"{rung} at {shape} has no time")
    return found


def _faster(rung: str, other: str, shape: str) -> str:
    """How many times the rate of ``other`` that of ``rung`` is."""
    return short(_flop_per_s(rung, shape) / _flop_per_s(other, shape))


def _intensity(rung: str, shape: str, level: Level) -> str:
    return short(run_of(rung, shape).intensity[level])


def _placement(rung: str, shape: str) -> Placement:
    found = run_of(rung, shape).placement
    if found is None:
        raise ValueError(f"{rung} at {shape} has no place")
    return found


def _bound(rung: str, shape: str, level: str | None = None) -> str:
    """What a level allows, or the lowest of all, in TFLOP/s."""
    placement = _placement(rung, shape)
    return short((placement.bounds_flop_per_s[level] if level else placement.roof_flop_per_s) / 1e12)


def _binds(rung: str, shape: str) -> str:
    return NAMES[_placement(rung, shape).bound_by]


def _share(rung: str, shape: str) -> str:
    """Measured rate over the lowest bound, in percent."""
    return f"{100 * _flop_per_s(rung, shape) / _placement(rung, shape).roof_flop_per_s:.0f} %"


def _asked_intensity(shape: Shape) -> float:
    """Two words for each multiply-add, and C once: what a kernel without reuse asks for."""
    return shape.flop / (4 * (shape.flop + shape.m * shape.n))


def _asked(rung: str, shape: str) -> str:
    """The measured rate as a share of the DRAM roof, if every byte that lanes ask for came from DRAM."""
    run = run_of(rung, shape)
    dram = core().roofs.bytes_per_s["dram"]
    return f"{100 * _flop_per_s(rung, shape) / (_asked_intensity(run.shape) * dram):.0f} %"


def _request(rung: str, shape: str) -> str:
    """Shared wavefronts for each request of a warp."""
    traffic = run_of(rung, shape).traffic
    if traffic is None or traffic.wavefronts_per_request is None:
        raise ValueError(f"{rung} at {shape} has no shared accesses")
    return short(traffic.wavefronts_per_request)


def _roof(name: str) -> str:
    """TB/s of a memory, TFLOP/s of a pipe."""
    roofs = core().roofs
    return short((roofs.bytes_per_s | roofs.flop_per_s)[name] / 1e12)


def _ridge(level: str, profile: str | None = None) -> str:
    """FLOP/byte where a level's roof meets FP32's."""
    roofs = core().roofs if profile is None else load_profile(profile).roofs
    return short(roofs.flop_per_s["fp32"] / roofs.bytes_per_s[level])


def _resource(name: str, rung: str, shape: str) -> str:
    resources = run_of(rung, shape).resources
    if resources is None:
        raise ValueError(f"{rung} at {shape} has no resources")
    if name == "occupancy":
        return f"{100 * (resources.occupancy or 0):.3g} %"
    return {"registers": str(resources.registers), "smem": f"{resources.smem_bytes / 1024:.3g} KiB"}[name]


def _blocks(rung: str, shape: str) -> str:
    """Threadblocks of the launch."""
    (declared,) = find([rung])
    bm, bn = declared.tile
    size = run_of(rung, shape).shape
    return str(-(-size.m // bm) * -(-size.n // bn))


@cache
def _kernel(name: str) -> Compiled:
    base, *change = VARIANTS.get(name, (name,))
    (rung,) = find([base])
    if change:
        old, new = change
        if rung.source.count(old) != 1:
            raise ValueError(f"{base}: {old!r} does not stand there once")
        rung = replace(rung, source=rung.source.replace(old, new))
    return compile_rung(rung, arch="sm_90")


@cache
def _emulator() -> EmulatedBackend:
    return EmulatedBackend(load_profile("h200").device)


@cache
def _counted(name: str) -> Traffic:
    found = _emulator().run(_kernel(name), *inputs(EMULATED_SHAPE), count=True).traffic
    if found is None:
        raise ValueError(f"{name} was not counted")
    return found


def _emulated(what: str, name: str) -> str:
    """Of one product of 256x256x256: ``request``, ``wavefronts`` (thousands), ``intensity``, ``bound`` (TFLOP/s)."""
    traffic = _counted(name)
    intensity = traffic.intensity(EMULATED_SHAPE.flop)["shared"]
    values = {
        "request": traffic.wavefronts_per_request or 0.0,
        "wavefronts": (traffic.wavefronts_ld + traffic.wavefronts_st) / 1000,
        "intensity": intensity,
        "bound": intensity * core().roofs.bytes_per_s["sm"] / 1e12,
    }
    return short(values[what])


def _error(name: str, shape: str) -> str:
    """Normwise error against float64, of uniform data in [0, 1), in units of 2^-24."""
    size = Shape.parse(shape)
    rng = np.random.Generator(np.random.PCG64(1))
    a, b = (rng.random(sides, dtype=np.float32) for sides in ((size.m, size.k), (size.k, size.n)))
    exact = reference(a, b)
    error = np.linalg.norm(_emulator().run(_kernel(name), a, b).c - exact) / np.linalg.norm(exact)
    return f"{error * 2**24:.2g}"


def _table(name: str) -> str:
    return {"roofs": _roofs, "placed": _placed, "compared": _compared, "travels": _travels, "tuned": _tuned}[name]()


def _rows(*rows: Sequence[str]) -> str:
    head, *body = rows
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *body))


def _roofs() -> str:
    memories = [[NAMES[name], f"{_roof(name)} TB/s", _ridge(name)] for name in ("dram", "l2", "sm")]
    return _rows(("roof", "measured", "ridge, FLOP/byte"), *memories, ("FP32", f"{_roof('fp32')} TFLOP/s", ""))


def _placed() -> str:
    rows = []
    for rung in RUNGS:
        run, bounds = run_of(rung, "4096"), _placement(rung, "4096").bounds_flop_per_s
        cells = [
            f"{short(run.intensity[level])} → {short(bounds[level] / 1e12)}" if level in bounds else ""
            for level in LEVELS
        ]
        rows.append([f"`{rung}`", *cells, _binds(rung, "4096")])
    return _rows(("rung", *(NAMES[level] for level in LEVELS), "binds"), *rows)


def _compared() -> str:
    rows = [[f"`{r}`", _binds(r, "4096"), _bound(r, "4096"), _rate(r, "4096"), _share(r, "4096")] for r in RUNGS]
    return _rows(("rung", "binds", "bound, TFLOP/s", "measured", "of the bound"), *rows)


def _travels() -> str:
    def cell(rung: str, roofs: Roofs) -> str:
        placement = place(run_of(rung, "4096").intensity, roofs)
        peak = roofs.flop_per_s["fp32"]
        bound = placement.roof_flop_per_s
        return f"{short(bound / 1e12)} = {100 * bound / peak:.0f} % of FP32 ({NAMES[placement.bound_by]})"

    cards = [load_profile(name) for name in PROFILES]
    rows = [
        [f"`{rung}`", *(cell(rung, card.roofs) for card in cards)]
        for rung in ("coalesced", "tiled_32", "register_tile")
    ]
    ridges = ["ridge at the SM, at DRAM", *(f"{_ridge('sm', name)}, {_ridge('dram', name)}" for name in PROFILES)]
    return _rows(("bound, TFLOP/s", *(card.device.name for card in cards)), *rows, ridges)


def _tuned() -> str:
    rows = []
    for entry in tuned():
        changed = {name: at for name, at in entry.params.items() if at != entry.declared[name]}
        gain = short(entry.gain) if changed else ""
        words = ", ".join(f"{name} = {at}" for name, at in changed.items()) or "as declared"
        ratio = "" if entry.ratio_to_cublas is None else short(entry.ratio_to_cublas)
        tried = str(entry.tried + 1)
        rows.append([f"`{entry.rung}`", str(entry.shape), tried, words, short(entry.flop_per_s / 1e12), gain, ratio])
    head = ("rung", "M x N x K", "timed", "best", "TFLOP/s", "gain", "of cuBLAS SGEMM")
    return _rows(head, *rows)


_KINDS: dict[str, Callable[..., str]] = {
    "asked": _asked,
    "binds": _binds,
    "blocks": _blocks,
    "bound": _bound,
    "emulated": _emulated,
    "error": _error,
    "faster": _faster,
    "intensity": _intensity,
    "rate": _rate,
    "request": _request,
    "resource": _resource,
    "ridge": _ridge,
    "roof": _roof,
    "share": _share,
    "table": _table,
}
