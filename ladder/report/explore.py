"""What the interactive figures show: one view for each shape of a results file, as plain data for the page's script.

The figures are drawn by plotly.js (MIT), which the ``plotly`` package ships and the page embeds whole: it has log axes,
hover, moving points and themes, works offline, and draws SVG. Bokeh and Vega were the others to choose: Bokeh draws on
a canvas that holds no text for a reader or a test, and Vega's package brings a whole JavaScript engine along. Nothing
is computed in the browser: every number and every text of a figure is made here, from the results, by the functions
that fill the tables.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape
from typing import Any

from ladder.laws import c_stationary, compulsory, tile_product
from ladder.model import LEVELS, Level, Quantity, Roofs, Shape
from ladder.report.labels import spread
from ladder.report.law_figure import FORMULA, fits
from ladder.report.signals import roofs_in_use
from ladder.report.text import LEVEL_NAMES, ROOF_NAMES, listing, number, percent, plural, si, tflops
from ladder.report.view import Row, Section
from ladder.roofline import IMPOSSIBLE, ROOFED_LEVELS, ridge

__all__ = ["PLOT_PX", "Asked", "view"]

PLOT_PX = 560
"""Height of the roofline's plot area: labels are placed for it."""

_LABEL_PX = 15
_CURVE_POINTS = 33
_PRECISIONS = {"fp32": "FP32", "fp32_split": "FP32 from split operands", "tf32": "TF32"}
_WHOSE = {"asked": "what lanes ask for", **{level: f"{LEVEL_NAMES[level]}'s bytes" for level in LEVELS[1:]}}

Asked = Mapping[tuple[str, str, Shape], Quantity]
"""Bytes that lanes ask for, by rung, hash of its source, and shape: only an emulator counts them."""


def view(section: Section, alts: Mapping[str, str], asked: Asked) -> dict[str, Any] | None:
    """The data of one shape's figures, None when no run has a rate or a place.

    Args:
        section: the runs.
        alts: the findings of the static figures by kind.
        asked: what an emulated session counted for the same kernels, for a GPU's runs.
    """
    rows = [row for row in section.rows if row.height_flop_per_s]
    if not rows:
        return None
    roofs = roofs_in_use([row.run for row in rows], section.results.roofs)
    low, high = _heights(rows, roofs)
    shown = [_row(row, roofs, asked) for row in rows]
    heights = [math.log10(each["y"]) for each in shown]
    bottom, top = math.log10(low), math.log10(high)
    gap = _LABEL_PX * (top - bottom) / PLOT_PX
    for each, at in zip(shown, spread(heights, gap, bottom + gap, top - gap), strict=True):
        each["label_y"] = 10**at
    xs = [each["levels"][level]["x"] for each in shown for level in each["levels"]]
    bandwidths = [b for level in ROOFED_LEVELS if (b := roofs.bandwidth(level)) is not None]
    left = min([*xs, *(low / b for b in bandwidths)], default=0.01) / 1.4
    right = max([*xs, *(3 * roofs.flop_per_s["fp32"] / b for b in bandwidths)], default=1000) * 1.4
    found = {"timed": section.timed, "shape": str(section.shape), "x": [left, right], "y": [low, high]}
    return found | {
        "roofs": _roofs(roofs, left, right),
        "rows": shown,
        "findings": {"nested": alts.get("roofline", "")} | {level: _finding(shown, level) for level in LEVELS},
        "law": _law(section, alts),
        "transition": _transition(shown, alts),
        "banks": _banks(section, alts),
    }


def _heights(rows: list[Row], roofs: Roofs) -> tuple[float, float]:
    heights = [row.height_flop_per_s or 0.0 for row in rows]
    peak = roofs.flop_per_s["fp32"]
    return min([*heights, peak / 20]) / 4, max([*heights, *roofs.flop_per_s.values()]) * 2


def _roofs(roofs: Roofs, left: float, right: float) -> list[dict[str, Any]]:
    """Each roof as a line: a slope up to the highest pipe, or a flat line from the first slope on."""
    top = max(roofs.flop_per_s.values())
    out: list[dict[str, Any]] = []
    levels: tuple[Level, ...] = ("dram", "l2", "sm")
    for level in levels:
        bandwidth = roofs.bandwidth(level)
        if bandwidth is not None:
            text = f"{ROOF_NAMES[level]} {si(bandwidth, 'B/s')}"
            hover = f"{text}<br>meets FP32 at {number(ridge(roofs, level))} FLOP/byte"
            line = {"x": [left, top / bandwidth], "y": [left * bandwidth, top]}
            out.append(line | {"level": level, "value": bandwidth, "text": text, "hover": hover})
    for pipe, peak in roofs.flop_per_s.items():
        first = peak / max((b for level in levels if (b := roofs.bandwidth(level)) is not None), default=peak / left)
        text = f"{ROOF_NAMES.get(pipe, pipe)} {si(peak, 'FLOP/s')}"
        line = {"x": [max(left, first), right], "y": [peak, peak]}
        out.append(line | {"level": "pipe", "value": peak, "text": text, "hover": text})
    return out


def _row(row: Row, roofs: Roofs, asked: Asked) -> dict[str, Any]:
    run, y = row.run, row.height_flop_per_s or 0.0
    quantities = dict(run.traffic.levels) if run.traffic else {}
    borrowed = asked.get((row.name, run.source_sha256, run.shape))
    if quantities and "asked" not in quantities and borrowed is not None:
        quantities["asked"] = borrowed
    placement = run.placement
    bound_by = placement.bound_by if placement is not None and row.placed else None
    height = tflops(y) if run.time is not None else f"at most {tflops(y)}, no clock ran"
    name = escape(row.name, quote=False)
    return {
        "name": row.name,
        "label": name,
        "kind": run.kind,
        "precision": row.precision,
        "precision_text": _PRECISIONS[row.precision],
        "timed": run.time is not None,
        "y": y,
        "y_text": height,
        "edge": row.edge,
        "edge_text": _edge(row.edge),
        "bound_by": bound_by,
        "bound_text": ROOF_NAMES.get(bound_by, bound_by) if bound_by is not None else "",
        "roof_text": tflops(placement.roof_flop_per_s) if placement is not None and bound_by else "",
        "fraction": placement.fraction if placement is not None else None,
        "fraction_text": percent(placement.fraction) if placement is not None and placement.fraction else "",
        "hover": f"<b>{name}</b><br>{height}{'' if quantities else '<br>its bytes were not counted'}",
        "levels": {
            level: _point(row, level, quantities[level], roofs, height)
            for level in LEVELS
            if level in quantities and quantities[level].bytes and y
        },
        "bounds": {
            level: {"value": value, "text": tflops(value)}
            for level, value in (placement.bounds_flop_per_s.items() if placement is not None and row.placed else ())
            if not (level == "shared" and "sm" in placement.bounds_flop_per_s)
        }
        if placement is not None
        else {},
    }


def _point(row: Row, level: Level, quantity: Quantity, roofs: Roofs, height: str) -> dict[str, Any]:
    """One kernel at one level: where it lies, and which part of a roof that is."""
    x = row.run.shape.flop / quantity.bytes
    name = escape(row.name, quote=False)
    words = [f"<b>{name}</b>, by {_WHOSE[level]}", f"{number(x)} FLOP/byte", height]
    of_dram = _share(row, x, "dram", roofs)
    own = _share(row, x, level, roofs) if level != "dram" else None
    if of_dram is not None:
        words.append(f"{percent(of_dram)} of the DRAM roof there")
    if own is not None:
        words.append(f"{percent(own)} of the {ROOF_NAMES['sm' if level == 'shared' else level]} roof there")
    words.append(f"{si(quantity.bytes, 'B')}, {quantity.origin}")
    return {
        "x": x,
        "x_text": number(x),
        "bytes": quantity.bytes,
        "origin": quantity.origin,
        "of_dram": of_dram,
        "of_dram_text": percent(of_dram),
        "own": own,
        "own_text": percent(own),
        "over": of_dram is not None and of_dram > IMPOSSIBLE,
        "hover": "<br>".join(words),
    }


def _share(row: Row, x: float, level: Level, roofs: Roofs) -> float | None:
    """Rate over the roofline of one memory alone, min(I * B, the peak of the pipe that the run was placed under)."""
    bandwidth = roofs.bandwidth(level) if level in ROOFED_LEVELS else None
    if bandwidth is None:
        return None
    bounds = row.run.placement.bounds_flop_per_s if row.run.placement is not None else {}
    peak = next((bounds[pipe] for pipe in roofs.flop_per_s if pipe in bounds), roofs.flop_per_s["fp32"])
    return (row.height_flop_per_s or 0.0) / min(x * bandwidth, peak)


def _finding(rows: list[dict[str, Any]], level: Level) -> str:
    """What the roofline shows when every kernel is placed by ``level``'s bytes."""
    placed = [(row["levels"][level]["of_dram"], row) for row in rows if level in row["levels"]]
    if not placed:
        return f"No run here counted {_WHOSE[level]}."
    if placed[0][0] is None:
        return f"{plural(len(placed), 'kernel')} placed by {_WHOSE[level]}. No DRAM roof is known here."
    over = [row["name"] for share, row in placed if share > IMPOSSIBLE]
    share, worst = max(placed, key=lambda each: float(each[0]))
    head = f"Placed by {_WHOSE[level]}, "
    first = placed[0][1]
    ends = f" {first['name']} lies at {first['levels'][level]['of_dram_text']} of the DRAM roof."
    if over:
        text = (
            f"{plural(len(over), 'kernel')} of {len(placed)} {'lies' if len(over) == 1 else 'lie'} above the DRAM roof"
        )
        text += f", which no kernel can: {worst['name']} at {percent(share)} of it."
        return head + text + (ends if first is not worst else "") + " Most of these bytes never reach DRAM."
    text = f"no kernel lies above the DRAM roof; the nearest is {worst['name']} at {percent(share)} of it."
    return head + text + (ends if first is not worst else "")


def _edge(edge: float | None) -> str:
    return "" if edge is None else number(edge) if edge % 1 else f"{edge:g}"


def _law(section: Section, alts: Mapping[str, str]) -> dict[str, Any] | None:
    found = fits(section)
    if not found:
        return None
    edges = [row.edge for fit in found for row in fit.rows if row.edge]
    low, high, k = min(edges) / 1.6, max(edges) * 1.6, section.shape.k
    ts = [low * (high / low) ** (i / (_CURVE_POINTS - 1)) for i in range(_CURVE_POINTS)]
    limit = compulsory(section.shape)
    curves = [
        {"name": "T/6", "x": ts, "y": [tile_product(t) for t in ts]},
        {"name": "T/4", "x": ts, "y": [c_stationary(t) for t in ts]},
        {"name": f"(T/4) / (1 + T/2K), K = {k}", "x": ts, "y": [c_stationary(t, k) for t in ts]},
    ]
    points = [
        {
            "name": row.name, "label": escape(row.name, quote=False), "law": FORMULA[fit.law], "x": row.edge,
            "y": row.run.intensity["l1"], "x_text": _edge(row.edge), "y_text": number(row.run.intensity["l1"]),
            "error_text": f"{100 * (row.law_error or 0):+.2f} %",
            "hover": f"<b>{escape(row.name, quote=False)}</b><br>T = {_edge(row.edge)}<br>"
            f"{number(row.run.intensity['l1'])} FLOP/byte at L1<br>"
            f"{100 * (row.law_error or 0):+.2f} % from {FORMULA[fit.law]}",
        }
        for fit in found for row in fit.rows
    ]  # fmt: skip
    limit_text = f"compulsory limit {number(limit)} FLOP/byte: every matrix crosses once"
    return {
        "curves": curves, "points": points, "limit": limit, "limit_text": limit_text, "x": [low, high],
        "finding": alts.get("law", ""),
    }  # fmt: skip


def _transition(rows: list[dict[str, Any]], alts: Mapping[str, str]) -> dict[str, Any] | None:
    tiled = sorted((row for row in rows if row["edge"] and row["bound_by"]), key=lambda row: float(row["edge"]))
    without = [row for row in rows if not row["edge"] and row["bound_by"]]
    if not tiled and not without:
        return None
    by: dict[str, list[str]] = {}
    for row in tiled:
        edges = by.setdefault(row["bound_text"], [])
        if row["edge_text"] not in edges:
            edges.append(row["edge_text"])
    words = "; ".join(f"{name} at T = {listing(edges, 9)}" for name, edges in by.items())
    finding = f"What binds as the tile grows: {words}." if by else alts.get("bounds", "")
    return {"order": [row["name"] for row in (*without, *tiled)], "finding": finding}


def _banks(section: Section, alts: Mapping[str, str]) -> dict[str, Any] | None:
    points = []
    for row in section.rows:
        traffic, measured = row.run.traffic, row.run.intensity.get("shared")
        if traffic is None or traffic.wavefronts_per_request is None or not measured:
            continue
        law = row.run.law.predicted.get("shared") if row.run.law else None
        per = number(traffic.wavefronts_per_request)
        name = escape(row.name, quote=False)
        points.append({
            "name": row.name, "label": name, "x": measured, "x_text": number(measured), "law": law,
            "law_text": number(law), "per_request": traffic.wavefronts_per_request, "per_text": per,
            "hover": f"<b>{name}</b><br>{per} wavefronts a request<br>{number(measured)} FLOP/byte at shared memory"
            + (f"<br>{number(law)} if each access took the passes that its bytes need" if law else ""),
        })  # fmt: skip
    return {"points": points, "finding": alts.get("banks", "")} if points else None
