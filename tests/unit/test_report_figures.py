"""Figures: every number is drawn where it belongs, no label covers another, and words come with the picture."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from xml.etree import ElementTree as ET

import pytest
from helpers.figures import assert_legible, texts
from helpers.results import KERNELS, Kernel, make_results, make_run, peer, unhappy_runs
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from PIL import Image

from ladder.model import Roofs
from ladder.report import banks_figure, bounds_figure, law_figure, roofline_figure
from ladder.report.draw import COLOURS, MARKERS, Drawing, inline
from ladder.report.view import Section, sections
from ladder.roofline import place
from ladder.store import Results

MODULES = (roofline_figure, bounds_figure, law_figure, banks_figure)
TINY = Roofs(bytes_per_s={"dram": 244.7e9, "sm": 7.18e12}, flop_per_s={"fp32": 7179.2e9})


def crowd(count: int) -> tuple[Kernel, ...]:
    """Many kernels of nearly one height."""
    return tuple(
        Kernel(f"kernel_number_{i}", "K", 4.0, 8.0 + i / 10, 0.25 + i / 1000, 0.26 + i / 1000, law="c_stationary",
               edge=16, shared_law=0.25, rate_flop_per_s=8e12 + i * 1e10)
        for i in range(count)
    )  # fmt: skip


def on_tensor_cores(*, timed: bool) -> Results:
    """The ladder, with a kernel whose peak is not known and which is faster than FP32."""
    results = make_results(4096, timed=timed)
    fast = Kernel("on_tensor_cores", "K", 30.0, 32.0, 14.0, 16.0, per_request=2.7, rate_flop_per_s=180e12)
    run = make_run(fast, 4096, timed=timed, roofs=results.roofs)
    run = replace(run, placement=place(run.intensity, results.roofs, flop_per_s=run.flop_per_s, pipe=None))
    return replace(results, runs=(*results.runs, run))


CASES: dict[str, Callable[[], Results]] = {
    "emulated": lambda: make_results(256, extra=unhappy_runs()),
    "timed": lambda: make_results(
        4096, timed=True, extra=(peer(4096, 51.2e12), peer(4096, 360e12, name="cublas_tf32"))
    ),
    "one": lambda: make_results(256, kernels=KERNELS[8:9]),
    "crowd": lambda: make_results(256, timed=True, kernels=crowd(30)),
    "long names": lambda: make_results(
        256, kernels=(Kernel("x" * 90, "K", 4.0, 8.0, 0.2, 0.2, law="c_stationary", edge=16),)
    ),
    "tensor cores": lambda: on_tensor_cores(timed=True),
    "few roofs": lambda: Results(
        created="now", command="c", device=make_results(64).device, roofs=TINY,
        runs=tuple(make_run(kernel, 512, roofs=TINY) for kernel in KERNELS),
    ),
}  # fmt: skip


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The matplotlib figures behind the drawings, in the order drawn."""
    seen: list[Figure] = []

    def keep(figure: Figure, **words: str) -> Drawing:
        seen.append(figure)
        return Drawing(svg="", png=b"", **words)

    for module in MODULES:
        monkeypatch.setattr(module, "finish", keep)
    return seen


def section(results: Results) -> Section:
    return sections(results)[0]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__.rpartition(".")[2])
def test_no_text_covers_another_or_leaves_the_page(module: ModuleType, case: str, figures: list[Figure]) -> None:
    assert module.draw(section(CASES[case]())) is not None
    (figure,) = figures
    assert_legible(figure)


@pytest.mark.parametrize("case", ["emulated", "timed"])
def test_the_roofline_has_a_point_for_each_run_and_level(case: str, figures: list[Figure]) -> None:
    results = CASES[case]()
    assert roofline_figure.draw(section(results)) is not None
    drawn = {
        (line.get_marker(), round(float(line.get_xdata()[0]), 9), round(float(line.get_ydata()[0]), 6))
        for line in figures[0].axes[0].get_lines()
        if line.get_marker() in MARKERS.values()
    }
    for run in results.runs:
        if run.placement is None:
            continue
        height = (run.flop_per_s or run.placement.roof_flop_per_s) / 1e12
        for level, marker in MARKERS.items():
            if level in run.intensity:
                assert (marker, round(run.intensity[level], 9), round(height, 6)) in drawn  # type: ignore[index]


def test_without_a_clock_the_binding_point_lies_on_its_roof_and_is_hollow(figures: list[Figure]) -> None:
    results = make_results(256)
    assert roofline_figure.draw(section(results)) is not None
    pipe = [line for line in _markers(figures[0]) if line.get_marker() == MARKERS["sm"]]
    assert len(pipe) == len(results.runs)
    for line in pipe:
        x, y = float(line.get_xdata()[0]), float(line.get_ydata()[0])
        assert y == pytest.approx(min(x * 32.6, 64.7))
        assert line.get_markerfacecolor() == "#ffffff"


@pytest.mark.parametrize("timed", [True, False])
def test_slopes_reach_as_high_as_what_they_bound(figures: list[Figure], timed: bool) -> None:
    drawing = roofline_figure.draw(section(on_tensor_cores(timed=timed)))
    assert drawing is not None
    assert "Not known here: the peak of the pipe on which on_tensor_cores multiply." in drawing.caption
    lines = [line for line in figures[0].axes[0].get_lines() if line.get_color() == COLOURS["l2"]]
    (slope,) = [line for line in lines if line.get_linestyle() == "-" and len(line.get_xdata()) == 2]
    bound = 32.0 * 8.3
    assert (slope.get_xdata()[1], slope.get_ydata()[1]) == pytest.approx((32.0, bound))
    assert figures[0].axes[0].get_ylim()[1] > bound
    flat = [line for line in figures[0].axes[0].get_lines() if line.get_color() == COLOURS["fp32"]]
    assert {tuple(line.get_ydata()) for line in flat} == {(64.7, 64.7)}


def test_shared_memory_alone_is_held_against_the_kernels_own_peak(figures: list[Figure]) -> None:
    assert banks_figure.draw(section(on_tensor_cores(timed=False))) is not None
    found = [text.get_text() for axes in figures[0].axes for text in axes.texts]
    assert f"{16.0 * 32.6:.0f}" in found
    assert "64.7" in found


def test_with_a_clock_points_are_filled(figures: list[Figure]) -> None:
    assert roofline_figure.draw(section(make_results(4096, timed=True))) is not None
    points = [line for line in _markers(figures[0]) if line.get_marker() != MARKERS["shared"]]
    assert len(points) == 3 * len(KERNELS)
    assert all(line.get_markerfacecolor() in (COLOURS["sm"], COLOURS["l2"], COLOURS["dram"]) for line in points)


def _markers(figure: Figure) -> list[Line2D]:
    return [line for line in figure.axes[0].get_lines() if line.get_marker() in MARKERS.values()]


def test_every_roof_is_drawn_and_named_with_its_height(figures: list[Figure]) -> None:
    assert roofline_figure.draw(section(make_results(256))) is not None
    words = [text.get_text() for text in texts(figures[0])]
    for name in ("SM  32.6 TB/s", "L2  8.30 TB/s", "DRAM  4.12 TB/s", "FP32  64.7"):
        assert words.count(name) == 1
    assert figures[0].axes[0].get_ylabel() == "TFLOP/s"
    slopes = [line for line in figures[0].axes[0].get_lines() if line.get_linewidth() == 1.8]
    for bandwidth in (32.6, 8.3, 4.12):
        assert any(
            all(y == pytest.approx(x * bandwidth) for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True))
            for line in slopes
        )


def test_a_pipe_is_drawn_once_a_kernel_is_placed_under_it(figures: list[Figure]) -> None:
    results = make_results(256)
    roofs = replace(results.roofs, flop_per_s={**results.roofs.flop_per_s, "tf32": 400e12, "bf16": 800e12})
    assert roofline_figure.draw(section(replace(results, roofs=roofs))) is not None
    row = results.runs[0]
    split = replace(row, placement=place(row.intensity, roofs, pipe="tf32", products=3))
    assert roofline_figure.draw(section(replace(results, roofs=roofs, runs=(*results.runs, split)))) is not None
    without, within = ([text.get_text() for text in texts(figure)] for figure in figures)
    assert within.count("TF32  400") == 1
    assert "TF32" not in " ".join(without)
    assert "BF16" not in " ".join(without + within)


@pytest.mark.parametrize("n", range(256, 2049, 128))
def test_the_name_of_a_flat_roof_covers_no_point(n: int, figures: list[Figure]) -> None:
    """A kernel on tensor cores goes just above the FP32 roof, and its DRAM point, at N/6, is the furthest right."""
    results = make_results(n, timed=True)
    fast = Kernel("on_tensor_cores", "K", 30.0, 32.0, 14.0, 16.0, rate_flop_per_s=72e12)
    run = make_run(fast, n, timed=True, roofs=results.roofs)
    assert roofline_figure.draw(section(replace(results, runs=(*results.runs, run)))) is not None
    (figure,) = figures
    figure.canvas.draw()
    (name,) = (text for text in texts(figure) if text.get_text() == "FP32  64.7")
    box, axes = name.get_window_extent(), figure.axes[0]
    points = [axes.transData.transform((line.get_xdata()[0], line.get_ydata()[0])) for line in _markers(figure)]
    assert len(points) > 20
    assert not [point for point in points if box.contains(*point)]


@pytest.mark.parametrize("tf32", [100e12, 400e12, 2e15])
def test_every_point_of_the_bounds_stands_inside(tf32: float, figures: list[Figure]) -> None:
    """Also the peak of tensor cores, where every level allows less."""
    results = make_results(256)
    roofs = replace(results.roofs, flop_per_s={**results.roofs.flop_per_s, "tf32": tf32})
    row = make_run(KERNELS[2])
    split = replace(row, placement=place(row.intensity, roofs, pipe="tf32"))
    assert bounds_figure.draw(section(replace(results, roofs=roofs, runs=(*results.runs, split)))) is not None
    low, high = figures[0].axes[0].get_xlim()
    drawn = [line for line in figures[0].axes[0].get_lines() if line.get_marker() in {*MARKERS.values(), "*"}]
    assert [line.get_xdata()[0] for line in drawn if line.get_marker() == "*"] == [pytest.approx(tf32 / 1e12)]
    assert all(1.2 * low < line.get_xdata()[0] < high / 1.2 for line in drawn)


def test_the_law_figure_recovers_the_exponents() -> None:
    found = {fit.law: fit for fit in law_figure.fits(section(make_results(256)))}
    product, stationary = found["tile_product"], found["c_stationary"]
    assert product.slope is not None
    assert product.slope.exponent == pytest.approx(1.0, abs=1e-6)
    assert product.slope.scale == pytest.approx(1 / 6, rel=1e-5)
    assert stationary.slope is not None
    assert stationary.slope.exponent < 0.95
    assert stationary.corrected is not None
    assert stationary.corrected.exponent == pytest.approx(1.0, abs=1e-6)
    assert stationary.corrected.scale == pytest.approx(1 / 4, rel=1e-5)


def test_a_kernel_off_its_law_is_named_with_its_distance() -> None:
    off = Kernel("off_law", "K", 4.0 * 1.1, 4.1, 0.25, 0.25, law="c_stationary", edge=16, shared_law=0.25)
    drawing = law_figure.draw(section(make_results(10**6, kernels=(*KERNELS[2:5], off))))
    assert drawing is not None
    assert "within 10 %" in drawing.alt


def test_the_transition_pairs_a_conflict_with_its_remedy() -> None:
    rows = [row for row in section(make_results(256)).rows if row.run.intensity.get("shared")]
    pair = banks_figure.family(rows)
    assert pair is not None
    assert [row.name for row in pair] == ["tiled_conflict", "padded"]
    without = [row for row in rows if row.name != "padded"]
    pair = banks_figure.family(without)
    assert pair is not None
    assert pair[1].name == "tiled_32"
    assert banks_figure.family([row for row in rows if row.name != "tiled_conflict"]) is None


def test_alt_texts_state_the_findings_of_these_numbers() -> None:
    alt = {module: module.draw(section(make_results(256))).alt for module in MODULES}
    assert (
        "of 12 kernels the lowest roof is shared memory for 9, SM data pipe for 2 and FP32 for 1"
        in alt[roofline_figure]
    )
    assert "bounds, no times" in alt[roofline_figure]
    assert "register_tile FP32 64.7 TFLOP/s" in alt[bounds_figure]
    assert "follow T/6 exactly, slope 1.000" in alt[law_figure]
    assert "tiled_conflict takes 10.1 wavefronts" in alt[banks_figure]
    assert "padded, with 1.00, is back at 0.246, 16.2 times to the right" in alt[banks_figure]
    clean = banks_figure.draw(section(make_results(256, kernels=KERNELS[2:5])))
    assert clean is not None
    assert "none of 3 kernels spends more wavefronts" in clean.alt
    timed = bounds_figure.draw(section(make_results(4096, timed=True)))
    assert timed is not None
    assert "91 % reached" in timed.alt


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__.rpartition(".")[2])
def test_files_are_whole_described_and_the_same_each_time(module: ModuleType) -> None:
    one, two = (module.draw(section(make_results(256))) for _ in range(2))
    assert (one.svg, one.png) == (two.svg, two.png)
    root = ET.fromstring(one.svg)
    space = {"svg": "http://www.w3.org/2000/svg"}
    assert root.get("role") == "img"
    assert root.findtext("svg:title", namespaces=space) == one.title
    assert root.findtext("svg:desc", namespaces=space) == one.alt
    assert "<text" not in one.svg
    with Image.open(io.BytesIO(one.png)) as image:
        assert image.width == pytest.approx(9.6 * 160, abs=1)
        assert len(image.convert("RGB").getcolors(1 << 24) or []) > 50


def test_an_inlined_figure_is_themed_and_its_ids_are_its_own() -> None:
    drawing = roofline_figure.draw(section(make_results(256)))
    assert drawing is not None
    svg = inline(drawing, "fig-1")
    ET.fromstring(svg)
    assert "var(--dram, #0072b2)" in svg
    assert "<metadata" not in svg
    ids = re.findall(r'\bid="([^"]+)"', svg)
    assert all(identifier.startswith("fig-1-") for identifier in ids)
    assert len(ids) == len(set(ids))
    for target in re.findall(r'href="#([^"]+)"', svg) + re.findall(r"url\(#([^)]+)\)", svg):
        assert target in ids


def test_a_name_is_never_mathematics_or_markup() -> None:
    names = ("$\\frac{", "<script>&", "名前", "tab\there", "esc\x1b[0m")
    kernels = tuple(
        Kernel(name, "K", 4.0, 8.0, 0.2, 0.2, law="c_stationary", edge=16, shared_law=0.25) for name in names
    )
    for module in MODULES:
        drawing = module.draw(section(make_results(256, kernels=kernels)))
        root = ET.fromstring(drawing.svg)
        assert root.findtext("{http://www.w3.org/2000/svg}desc") == drawing.alt


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__.rpartition(".")[2])
def test_nothing_placed_draws_nothing(module: ModuleType) -> None:
    assert module.draw(section(make_results(256, kernels=(), extra=unhappy_runs()))) is None
