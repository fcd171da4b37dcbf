"""Where L2 stops holding the operands: the lines, what they are said to show, and when there are none."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from helpers.figures import assert_legible, texts
from helpers.results import KERNELS, h200, make_results, make_run, unhappy_runs
from matplotlib.figure import Figure

from ladder.laws import compulsory
from ladder.model import Origin, Quantity, Shape
from ladder.report import l2_figure
from ladder.report.draw import COLOURS, PAPER, Drawing
from ladder.report.l2 import Point, Series, compulsory_cube, finding, full_at, series
from ladder.report.view import Section, sections
from ladder.store import Results, Run

BY_NAME = {kernel.name: kernel for kernel in KERNELS}
SIZES = (512, 1024, 2048, 4096)
FULL = math.sqrt(62914560 / 12)


def at(name: str, n: int, intensity: float, origin: Origin = "counted") -> Run:
    """``name``'s row at n x n x n with ``intensity`` FLOP/byte at DRAM."""
    run = make_run(BY_NAME[name], n)
    assert run.traffic is not None
    dram = Quantity(bytes=round(run.shape.flop / intensity), origin=origin)
    return replace(run, traffic=replace(run.traffic, levels={**run.traffic.levels, "dram": dram}))


def ladder(*, origin: Origin = "counted") -> Results:
    """Five kernels in the proportions of an H200: all hold up to 2048, and at 4096 only the widest tile does."""
    last = {"naive": 16.0, "tiled_16": 8.1, "tiled_64": 61.0, "register_tile": 400.0, "tile_product_32": 7.95}
    runs = [at(name, n, n / 6 if n < 4096 else low, origin) for name, low in last.items() for n in SIZES]
    return replace(make_results(256, kernels=()), runs=tuple(runs))


def both(results: Results) -> tuple[tuple[Section, ...], tuple[Series, ...]]:
    found = sections(results)
    return found, series(found)


@pytest.fixture
def figure(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    seen: list[Figure] = []

    def keep(figure: Figure, **words: str) -> Drawing:
        seen.append(figure)
        return Drawing(svg="", png=b"", **words)

    monkeypatch.setattr(l2_figure, "finish", keep)
    return seen


def test_the_lines_hold_each_kernels_cubic_points_by_size() -> None:
    _, found = both(ladder())
    assert [each.name for each in found] == ["naive", "tiled_16", "tiled_64", "register_tile", "tile_product_32"]
    for each in found:
        assert [point.n for point in each.points] == list(SIZES)
    tiled = found[1]
    assert (tiled.law, tiled.edge) == ("c_stationary", pytest.approx(16, rel=1e-9))
    assert tiled.points[0].intensity == pytest.approx(512 / 6, rel=1e-6)


def test_the_compulsory_lines_are_the_laws() -> None:
    for n in SIZES:
        assert compulsory_cube(n) == pytest.approx(compulsory(Shape(m=n, n=n, k=n)))
        assert compulsory_cube(n, c_moves=False) == pytest.approx(n / 4)


def test_three_matrices_fill_l2_at_the_root_of_its_twelfth() -> None:
    assert full_at(h200()) == pytest.approx(FULL)
    assert full_at(replace(h200(), l2_bytes=0)) is None


@pytest.mark.parametrize(
    ("intensities", "falls"),
    [((85.0, 170.0), None), ((43.0, 85.4), None), ((43.0, 85.3), 1024), ((42.0, 170.0), 512)],
)
def test_a_line_falls_where_it_first_has_less_than_half_of_the_compulsory(
    intensities: tuple[float, float], falls: int | None
) -> None:
    points = tuple(Point(n, x, "counted") for n, x in zip((512, 1024), intensities, strict=True))
    assert Series(name="k", law="", edge=None, points=points).falls_at == falls


@pytest.mark.parametrize(
    ("last", "settled"), [(8.0, 2), (8.39, 2), (8.41, None), (4.0, 4), (15.4, None), (680.0, None)]
)
def test_a_line_settles_on_half_or_a_quarter_of_its_tile_only_after_it_fell(last: float, settled: int | None) -> None:
    points = (Point(2048, 341.0, "counted"), Point(4096, last, "counted"))
    assert Series(name="k", law="c_stationary", edge=16.0, points=points).settled == settled
    assert Series(name="k", law="", edge=None, points=points).settled is None


def test_the_finding_names_who_falls_where_and_onto_what() -> None:
    _, found = both(ladder())
    assert finding(found, h200()) == (
        "Intensity at DRAM falls below half of the compulsory N/6 first at N = 4096 for naive, T = 16, T = 64 and "
        "T = 32; up to N = 4096 it never does for T = 128. At N = 4096 tiled_16 lies at T/2. At N = 4096 "
        "tile_product_32 lies at T/4. A, B and C fill L2 at N = 2290."
    )


def test_tiles_of_one_edge_that_part_are_named_one_by_one() -> None:
    runs = [at(name, n, x) for name, x in (("tiled_32", 300.0), ("padded", 16.0)) for n, x in ((512, 85.0), (2048, x))]
    _, found = both(replace(make_results(256, kernels=()), runs=tuple(runs)))
    text = finding(found, h200())
    assert "first at N = 2048 for padded; up to N = 2048 it never does for tiled_32" in text
    assert "T = 32" not in text


def test_while_all_hold_that_is_said() -> None:
    _, found = both(replace(ladder(), runs=tuple(run for run in ladder().runs if run.shape.n < 4096)))
    assert finding(found, h200()).startswith("From N = 512 to 2048 no kernel falls below half of the compulsory N/6")


@pytest.mark.parametrize(
    "runs",
    [
        (),
        tuple(unhappy_runs()),
        (at("naive", 512, 85.0),),
        (at("naive", 512, 85.0), at("tiled_16", 1024, 170.0)),
        (at("naive", 512, 85.0), replace(at("naive", 1024, 170.0), shape=Shape(m=1024, n=512, k=2048))),
        (at("naive", 512, 85.0), replace(at("naive", 1024, 170.0), traffic=None)),
    ],
    ids=["none", "unhappy", "one size", "one size each", "not a cube", "not counted"],
)
def test_without_two_cubic_shapes_of_one_kernel_there_is_no_figure(runs: tuple[Run, ...]) -> None:
    assert l2_figure.draw(sections(replace(make_results(256, kernels=()), runs=runs))) is None


CASES = {
    "h200": ladder(),
    "modelled": ladder(origin="modelled"),
    "all": replace(make_results(256), runs=tuple(make_run(k, n) for k in KERNELS for n in (*SIZES, 8192))),
    "small": replace(make_results(256), runs=tuple(make_run(k, n) for k in KERNELS for n in (64, 128))),
    "beyond": replace(make_results(256), runs=tuple(make_run(k, n) for k in KERNELS for n in (8192, 16384))),
    "near": replace(make_results(256), runs=tuple(make_run(k, n) for k in KERNELS for n in (1000, 1024, 1050))),
    "no l2": replace(ladder(), device=replace(h200(), l2_bytes=0)),
}


@pytest.mark.parametrize("case", CASES)
def test_no_text_covers_another_or_leaves_the_page(case: str, figure: list[Figure]) -> None:
    assert l2_figure.draw(sections(CASES[case])) is not None
    assert_legible(figure[0])


@pytest.mark.parametrize(("origin", "face"), [("counted", COLOURS["dram"]), ("modelled", PAPER)])
def test_every_point_is_drawn_hollow_when_it_is_modelled(origin: Origin, face: str, figure: list[Figure]) -> None:
    found, lines = both(ladder(origin=origin))
    assert l2_figure.draw(found) is not None
    drawn = {
        (float(line.get_xdata()[0]), round(float(line.get_ydata()[0]), 6)): line.get_markerfacecolor()
        for line in figure[0].axes[0].get_lines()
        if line.get_marker() == "o"
    }
    expected = {(p.n, round(p.intensity, 6)) for each in lines if each.law == "c_stationary" for p in each.points}
    assert set(drawn) == expected
    assert set(drawn.values()) == {face}
    words = [text.get_text() for text in texts(figure[0])]
    assert ("hollow: modelled" in words) == (origin == "modelled")


def test_limits_the_size_of_l2_and_the_settled_levels_are_marked(figure: list[Figure]) -> None:
    drawing = l2_figure.draw(sections(ladder()))
    assert drawing is not None
    words = [text.get_text() for text in texts(figure[0])]
    assert "A + B + C = L2 (60.0 MiB): N = 2290" in words
    assert "N/6: A, B and C cross once" in words
    assert "N/4: C stays in L2" in words
    assert "T/2 of 16 = T/4 of 32" in words
    levels = [line.get_ydata() for line in figure[0].axes[0].get_lines() if line.get_linestyle() == ":"]
    assert [float(ys[0]) for ys in levels] == pytest.approx([8.0])
    assert "T/2: a tile of one operand" in drawing.caption
    assert drawing.alt.startswith("FLOP/byte at DRAM against N on NVIDIA H200, log-log. Intensity at DRAM falls")


def test_equal_results_give_equal_files() -> None:
    one, two = (l2_figure.draw(sections(ladder())) for _ in range(2))
    assert one is not None
    assert two is not None
    assert (one.svg, one.png) == (two.svg, two.png)
