"""The transition: what each level allows as the tile grows, and what padding does at the banks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from ladder.experiments.fits import edge_of, family_of
from ladder.experiments.padding import pad_of, pitch_of, predicted
from ladder.model import Roofs
from ladder.report.experiments.chart import (
    Axis,
    Chart,
    Collected,
    Line,
    Panel,
    Symbol,
    Tone,
    edges_axis,
    log_axis,
    rows_axis,
)
from ladder.report.experiments.law import sizes
from ladder.report.table import Cell, Table
from ladder.report.text import ROOF_NAMES, listing, number, percent, tflops, the
from ladder.store import Run

__all__ = ["bound_table", "edges_chart", "padding_chart", "padding_finding", "padding_table", "transition_finding"]

_LEVELS: tuple[tuple[str, Tone, Symbol], ...] = (
    ("dram", "dram", "square"),
    ("l2", "l2", "diamond"),
    ("sm", "sm", "circle"),
)
_TERA = 1e12


def edges_chart(runs: Sequence[Run], roofs: Roofs) -> Chart | None:
    """What each level allows against T, a panel a kernel, at the largest size; None when nothing has a place."""
    by_size = sizes([run for run in runs if run.placement])
    if not by_size:
        return None
    n, chosen = list(by_size.items())[-1]
    kernels: dict[str, list[Run]] = {}
    for run in chosen:
        kernels.setdefault(family_of(run), []).append(run)
    peak = roofs.flop_per_s["fp32"] / _TERA
    values = [peak, *(v for run in chosen for v in _bounds(run).values())]
    values += [run.flop_per_s / _TERA for run in chosen if run.flop_per_s]
    y = log_axis("TFLOP/s", values)
    return Chart(
        kind="experiment-transition",
        title="The transition, as the tile grows",
        finding=transition_finding(runs),
        caption=f"At N = {n}: the intensity at each level times that level's roof, against the tile's edge. The lowest "
        "line binds. The data pipe of an SM serves shared memory and global accesses alike. The stroke – is the "
        "measured rate, where there is a clock; tile_product has one block an SM, so that its counts are its own, and "
        "pays for it with its rate.",
        panels=tuple(_panel(kernel, mine, y, peak) for kernel, mine in kernels.items()),
        height_in=4.3,
    )


def _bounds(run: Run) -> dict[str, float]:
    bounds = run.placement.bounds_flop_per_s if run.placement else {}
    return {level: bounds[level] / _TERA for level, _, _ in _LEVELS if level in bounds}


def _panel(kernel: str, runs: Sequence[Run], y: Axis, peak: float) -> Panel:
    runs = sorted(runs, key=edge_of)
    x = edges_axis([edge_of(run) for run in runs])
    lines = [Line(x=(x.low, x.high), y=(peak, peak), tone="fp32", name="FP32 peak")]
    points = []
    for level, tone, symbol in _LEVELS:
        name = ROOF_NAMES[level]
        rest, binding = Collected(), Collected()
        for run in runs:
            value = _bounds(run).get(level)
            if value is not None:
                words = f"<b>{run.rung}</b>, {run.shape}<br>{name} allows {number(value)} TFLOP/s"
                (binding if _binding(run) == level else rest).add(edge_of(run), value, words)
        every = sorted([*zip(rest.x, rest.y, strict=True), *zip(binding.x, binding.y, strict=True)])
        if every:
            xs, ys = zip(*every, strict=True)
            lines.append(Line(x=xs, y=ys, tone=tone))
        points.append(rest.points(tone=tone, symbol=symbol, filled=False, name=f"{name} allows"))
        points.append(binding.points(tone=tone, symbol=symbol, size=12, name=f"{name} binds"))
    timed = Collected()
    for run in runs:
        if run.flop_per_s:
            timed.add(edge_of(run), run.flop_per_s / _TERA, f"<b>{run.rung}</b><br>measured {tflops(run.flop_per_s)}")
    points.append(timed.points(tone="ink", symbol="line-ew", size=15, name="measured"))
    return Panel(title=kernel, x=x, y=y, lines=tuple(lines), points=tuple(p for p in points if p.x))


def _binding(run: Run) -> str:
    bound_by = run.placement.bound_by if run.placement else ""
    return "sm" if bound_by == "shared" else bound_by


def transition_finding(runs: Sequence[Run]) -> str:
    """Which level binds which edges, kernel by kernel and size by size."""
    parts = []
    for n, group in sizes([run for run in runs if run.placement]).items():
        for kernel in dict.fromkeys(family_of(run) for run in group):
            mine = sorted((run for run in group if family_of(run) == kernel), key=edge_of)
            parts.append(f"{kernel} at N = {n}: {_spans(mine)}{_distance(mine)}")
    return f"{'; '.join(parts)}." if parts else "No product has a place under these roofs."


def _spans(runs: Sequence[Run]) -> str:
    """``"DRAM binds at T = 4 and 8, shared memory at 16, 32 and 64"``."""
    spans = [
        (bound_by, [str(edge_of(run)) for run in group])
        for bound_by, group in groupby(runs, key=lambda run: run.placement.bound_by if run.placement else "")
    ]
    if len(spans) == 1:
        return f"{the(spans[0][0])} binds at every T"
    first, *rest = [f"{the(bound_by)}{{}} at T = {listing(edges)}" for bound_by, edges in spans]
    return ", then ".join([first.format(" binds"), *(each.format("") for each in rest)])


def _distance(runs: Sequence[Run]) -> str:
    """How far the outer memories are from binding, at the smallest tile, where they are nearest."""
    first = runs[0]
    bounds = _bounds(first)
    outer = {level: bounds[level] for level in ("dram", "l2") if level in bounds}
    if not outer or _binding(first) in outer or first.placement is None:
        return ""
    level = min(outer, key=outer.__getitem__)
    times = outer[level] * _TERA / first.placement.roof_flop_per_s
    return f", and at T = {edge_of(first)} {the(level)} would allow {number(times, 2)} times as much"


def bound_table(runs: Sequence[Run]) -> Table:
    """Every product: what each level allows, what binds, and the rate."""
    head = (
        ("kernel", "with its tile edge"),
        ("shape", "M x N x K"),
        *((f"{ROOF_NAMES[level]} allows", "TFLOP/s: intensity times roof") for level, _, _ in _LEVELS),
        ("bound by", "the lowest"),
        ("measured", "TFLOP/s"),
        ("of roof", "measured over the lowest"),
    )
    return Table(
        head=head,
        rows=tuple(
            (
                Cell(run.rung),
                Cell(str(run.shape)),
                *(Cell(number(_bounds(run).get(level))) for level, _, _ in _LEVELS),
                Cell(ROOF_NAMES.get(run.placement.bound_by, run.placement.bound_by)),
                Cell(number(run.flop_per_s / _TERA if run.flop_per_s else None)),
                Cell(percent(run.placement.fraction)),
            )
            for run in runs
            if run.placement
        ),
    )


def padding_chart(runs: Sequence[Run]) -> Chart | None:
    """Wavefronts a request against padding, predicted and counted, and the rate; None when nothing was counted."""
    counted = [run for run in runs if run.traffic and run.traffic.wavefronts_per_request]
    if not counted:
        return None
    names = [f"padding {pad_of(run)}" for run in counted]
    y = rows_axis(names)
    laws = [predicted(pitch_of(run)) for run in counted]
    requests, law, bounds, rates = Collected(), Collected(), Collected(), Collected()
    for index, (run, want) in enumerate(zip(counted, laws, strict=True)):
        per = (run.traffic.wavefronts_per_request if run.traffic else None) or 0.0
        law.add(want.per_request, index, f"<b>{names[index]}</b><br>predicted {want.per_request:.3f} a request")
        requests.add(per, index, f"<b>{names[index]}</b><br>counted {per:.3f} a request")
        bound = _bounds(run).get("sm")
        if bound:
            bounds.add(bound, index, f"<b>{names[index]}</b><br>the SM data pipe allows {number(bound)} TFLOP/s")
        if run.flop_per_s:
            rates.add(run.flop_per_s / _TERA, index, f"<b>{names[index]}</b><br>measured {tflops(run.flop_per_s)}")
    left = Panel(
        title="wavefronts a request", y=y,
        x=log_axis("wavefronts, shared loads and stores", [*requests.x, *law.x, 1.0]),
        points=(law.points(tone="ink", symbol="line-ns", size=13, name="predicted by the banks"),
                requests.points(tone="sm", symbol="triangle-up", name="counted")),
    )  # fmt: skip
    right = Panel(
        title="rate", x=log_axis("TFLOP/s", [*bounds.x, *rates.x, *([1.0] if not bounds.x else [])]),
        y=Axis(title="", low=y.low, high=y.high, ticks=tuple((v, "") for v, _ in y.ticks), log=False),
        points=tuple(p for p in (bounds.points(tone="sm", symbol="circle", filled=False, name="SM data pipe allows"),
                                 rates.points(tone="ink", symbol="line-ns", size=13, name="measured")) if p.x),
    )  # fmt: skip
    return Chart(
        kind="experiment-padding",
        title="The transition, at the banks",
        finding=padding_finding(runs),
        caption=f"Rung 04 (padding 0) and rung 05 at {counted[0].shape}: a warp reads a column of a tile whose rows "
        "lie 32 words plus the padding apart. An odd pitch visits all 32 banks; an even one half of them or fewer, and "
        "lets loads grow to two or four words. The bar | is the arithmetic of the banks, which knows no counts.",
        panels=(left, right) if bounds.x or rates.x else (left,),
        height_in=0.26 * len(counted) + 1.3,
        left_in=0.95,
    )


def padding_finding(runs: Sequence[Run]) -> str:
    """The best and the worst padding, and how far the arithmetic of the banks is from the counts."""
    counted = [(run, per) for run in runs if run.traffic and (per := run.traffic.wavefronts_per_request)]
    if not counted:
        return "No shared-memory wavefronts were counted."
    worst, most = max(counted, key=lambda pair: pair[1])
    fewest = min(per for _, per in counted)
    best = [pad_of(run) for run, per in counted if per < 1.001 * fewest]
    same = [pad_of(run) for run, per in counted if per > 0.999 * most]
    away = max(abs(per / predicted(pitch_of(run)).per_request - 1) for run, per in counted)
    exact = "as the arithmetic of the banks predicts" if away < 5e-5 else (
        f"and the arithmetic of the banks is never more than {number(100 * away, 2)} % away"
    )  # fmt: skip
    verb = "takes" if len(same) == 1 else "take"
    text = (
        f"Padding {listing([str(pad) for pad in same])} {verb} {number(most)} wavefronts a request, padding "
        f"{listing([str(pad) for pad in best], 9)} only {number(fewest)}, {exact}."
    )
    clean = next(run for run, per in counted if per == fewest)
    if worst.flop_per_s and clean.flop_per_s:
        return (
            f"{text} The rate goes from {tflops(worst.flop_per_s)} to {tflops(clean.flop_per_s)}, "
            f"{number(clean.flop_per_s / worst.flop_per_s, 2)} times as much."
        )
    return text


def padding_table(runs: Sequence[Run]) -> Table:
    """Every padding: predicted and counted."""
    head = (
        ("padding", "words a column of the transposed tile"),
        ("bytes a load", "what its pitch lets a lane read at once"),
        ("wavefronts a column load", "by the banks"),
        ("predicted a request", "all shared loads and stores"),
        ("counted a request", "the same, counted"),
        ("shared", "FLOP/byte, bytes of wavefronts"),
        ("TFLOP/s", "measured"),
    )
    out = []
    for run in runs:
        want = predicted(pitch_of(run))
        per = run.traffic.wavefronts_per_request if run.traffic else None
        out.append(
            (
                Cell(str(pad_of(run))),
                Cell(str(want.width_bytes)),
                Cell(str(want.column)),
                Cell(f"{want.per_request:.3f}"),
                Cell("–" if per is None else f"{per:.3f}"),
                Cell(number(run.intensity.get("shared"))),
                Cell(number(run.flop_per_s / _TERA if run.flop_per_s else None)),
            )
        )
    return Table(head=head, rows=tuple(out))
