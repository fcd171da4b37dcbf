"""The report's page in headless Chromium: its toggles and hover values against the results, and whom it serves."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from helpers.browser import CHROMIUM, NO_CHROMIUM, SIZES, Visit, chromium
from helpers.results import make_results, peer, unhappy_runs
from playwright.sync_api import Browser

from ladder.catalog import load_catalog
from ladder.model import LEVELS, Level, Precision, Roofs, Shape
from ladder.report import write_report
from ladder.roofline import PRODUCTS, ROOFED_LEVELS, pipe_of
from ladder.store import Results, Run, load

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)

RECORD = Path(__file__).resolve().parents[2] / "docs" / "report" / "results.json"
PLACES: tuple[Level, ...] = ("asked", "l1", "l2", "dram", "shared", "sm")
OPENS_IN_S = 2.0
POINT_PX = 13


def the_record() -> Results:
    """Two shapes of the committed record."""
    found = load(RECORD)
    return replace(found, runs=tuple(run for run in found.runs if run.shape.m in (1024, 4096)))


def synthetic() -> Results:
    """A timed session with what lanes ask for, peers of two precisions, and runs that failed or were skipped."""
    extra = (peer(256, 51.2e12), peer(256, 390e12, name="cublas_tf32"), *unhappy_runs(256))
    return make_results(256, timed=True, extra=extra)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("page")
    write_report([the_record(), synthetic()], out, catalog={rung.name: rung for rung in load_catalog()})
    return out / "index.html"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def runs_at(results: Results, shape: Shape) -> dict[str, Run]:
    return {run.rung: run for run in results.runs if run.shape == shape}


def value(text: str) -> float:
    """The number that a line begins with, its SI prefix applied."""
    match = re.match(r"(?:at most )?([\d.]+) ?([kMGTP]?)", text)
    assert match, text
    return float(match[1]) * {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}[match[2]]


def peak_of(precision: Precision, roofs: Roofs) -> float:
    """FLOP/s of the pipe, over the products that one of float32 takes there."""
    pipe = pipe_of(precision, roofs)
    return math.inf if pipe is None else roofs.flop_per_s[pipe] / PRODUCTS[precision]


def near(text: str, expected: float) -> bool:
    """Equal as far as three digits tell."""
    return abs(value(text) - expected) <= 0.0051 * expected


@pytest.mark.parametrize("size", SIZES)
def test_every_toggle_moves_the_points_to_the_bytes_of_its_level(browser: Browser, page: Path, size: str) -> None:
    for device, results in enumerate((the_record(), synthetic())):
        with Visit(browser, page, size=size) as visit:
            visit.page.select_option("#device", str(device))
            shape = results.runs[0].shape
            runs = runs_at(results, shape)
            for level in PLACES:
                counted = {name: run.intensity[level] for name, run in runs.items() if level in run.intensity}
                toggle = visit.page.locator(f"input[name=place][value={level}]")
                assert toggle.is_enabled() == bool(counted)
                if not counted:
                    continue
                visit.choose(level)
                shown = {point["name"]: point for point in visit.points()}
                assert {name: point["x"] for name, point in shown.items()} == pytest.approx(counted, rel=1e-12)
                for name, point in shown.items():
                    assert point["y"] == pytest.approx(runs[name].flop_per_s, rel=1e-12)
            assert visit.complaints == []
            assert visit.requests == [page.as_uri()]


@pytest.mark.parametrize("size", SIZES)
def test_hovering_shows_the_results_numbers(browser: Browser, page: Path, size: str) -> None:
    results = the_record()
    runs = runs_at(results, results.runs[0].shape)
    roofs = results.roofs
    peak = {rung.name: peak_of(rung.precision, roofs) for rung in load_catalog()}
    read = set()
    with Visit(browser, page, size=size) as visit:
        for level in ("l1", "dram", "shared"):
            visit.choose(level)
            visit.page.locator("#chart-roofline").scroll_into_view_if_needed()
            points = {point["name"]: point for point in visit.points()}
            for point in points.values():
                lines = visit.hover(point)
                name = lines[0].split(",")[0]
                run, shown = runs[name], points[name]  # of points that touch, one is shown
                assert math.dist((shown["left"], shown["top"]), (point["left"], point["top"])) < 2 * POINT_PX
                assert near(lines[1], run.intensity[level])
                assert lines[1].endswith("FLOP/byte")
                assert run.flop_per_s is not None
                assert near(lines[2], run.flop_per_s)
                dram = min(run.intensity[level] * roofs.bytes_per_s["dram"], peak[name])
                assert lines[3].endswith("of the DRAM roof there")
                assert value(lines[3]) == pytest.approx(100 * run.flop_per_s / dram, rel=0.051, abs=0.51)
                assert run.traffic is not None
                assert near(lines[-1], run.traffic.levels[level].bytes)
                assert lines[-1].endswith(run.traffic.levels[level].origin)
                read.add((level, name))
    assert len(read) > 20


def test_naive_falls_from_above_the_dram_roof_to_below_it(browser: Browser, page: Path) -> None:
    with Visit(browser, page) as visit:
        visit.choose("l1")
        finding = visit.page.inner_text("#finding-roofline")
        assert re.search(r"lie above the DRAM roof, which no kernel can: coalesced at \d{3} % of it", finding)
        assert re.search(r"naive lies at 19\d % of the DRAM roof", finding)
        visit.choose("dram")
        finding = visit.page.inner_text("#finding-roofline")
        assert "no kernel lies above the DRAM roof" in finding
        assert re.search(r"naive lies at 0\.\d % of the DRAM roof", finding)


def test_points_glide_where_motion_is_welcome(browser: Browser, page: Path) -> None:
    with Visit(browser, page) as visit:
        visit.page.emulate_media(reduced_motion="no-preference")
        visit.choose("l1")
        visit.page.evaluate(
            """() => {
              window.places = new Set();
              const watch = () => {
                const dots = document.querySelectorAll('#chart-roofline .scatterlayer .point');
                window.places.add(dots[dots.length - 1].getAttribute('transform'));
                requestAnimationFrame(watch);
              };
              watch();
            }"""
        )
        visit.page.check("input[name=place][value=dram]")
        visit.page.wait_for_function(
            "x => document.getElementById('chart-roofline')._fullLayout.xaxis.title.text.includes(x)", arg="DRAM"
        )
        assert visit.page.evaluate("window.places.size") > 3
        assert visit.complaints == []


def test_levels_kinds_shape_and_precision_choose_what_is_drawn(browser: Browser, page: Path) -> None:
    with Visit(browser, page) as visit:
        full = len(visit.points())
        visit.page.uncheck("input[name=level][value=l2]")
        visit.page.uncheck("input[name=kind][value=law]")
        names = {point["name"] for point in visit.points()}
        assert "naive" in names
        assert "tile_product_16" not in names
        assert len(visit.points()) < 0.75 * full
        visit.page.select_option("#shape", "1024x1024x1024")
        runs = runs_at(the_record(), Shape(m=1024, n=1024, k=1024))
        assert visit.points()[0]["y"] == pytest.approx(runs["naive"].flop_per_s)
        visit.page.select_option("#device", "1")
        text = visit.page.inner_html("#chart-roofline")
        assert "cublas_tf32" in text
        visit.page.select_option("#precision", "tf32")
        text = visit.page.inner_html("#chart-roofline")
        assert "cublas_tf32" in text
        assert "cublas_sgemm" not in text
        assert visit.points() == []


def test_the_numbers_behind_the_roofline_are_the_results(browser: Browser, page: Path) -> None:
    results = synthetic()
    runs = runs_at(results, results.runs[0].shape)
    with Visit(browser, page) as visit:
        visit.page.select_option("#device", "1")
        visit.choose("dram")
        lines = visit.page.locator("#numbers-roofline tbody tr").evaluate_all(
            "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
        )
        counted = {name for name, run in runs.items() if "dram" in run.intensity}
        assert {line[0] for line in lines} == counted
        for name, intensity, rate, _, _, count, origin in lines:
            run = runs[name]
            assert near(intensity, run.intensity["dram"])
            assert near(rate, run.flop_per_s or 0)
            assert run.traffic is not None
            assert (int(count.replace(",", "")), origin) == (run.traffic.levels["dram"].bytes, "counted")


@pytest.mark.parametrize("size", SIZES)
def test_it_opens_quickly_whole_and_no_wider_than_the_screen(browser: Browser, page: Path, size: str) -> None:
    with Visit(browser, page, size=size) as visit:
        session = visit.context.new_cdp_session(visit.page)
        # The time that the page's own thread works: other load on the machine does not count.
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        worked_s = []
        for _ in range(3):
            visit.page.reload()
            visit.page.wait_for_selector("html[data-ready]")
            metrics = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
            worked_s.append(metrics["TaskDuration"])
        assert 0 < min(worked_s) < OPENS_IN_S
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= SIZES[size][0]
        for name in ("roofline", "law", "transition", "banks"):
            assert visit.page.locator(f"#chart-{name} svg").first.is_visible()
            assert len(visit.page.inner_text(f"#finding-{name}")) > 40
        names = visit.page.locator("#chart-roofline").evaluate(
            "chart => [...chart.querySelectorAll('text')].map(text => text.getBoundingClientRect().right)"
        )
        assert max(names) <= SIZES[size][0]


def test_a_table_sorts_by_the_column_that_is_pressed(browser: Browser, page: Path) -> None:
    with Visit(browser, page) as visit:
        head = visit.page.locator("table.runs").first.locator("thead th", has_text="DRAM")
        column = head.evaluate("cell => cell.cellIndex")
        values = (
            "(table, column) => [...table.tBodies[0].rows].map(row => row.cells[column].dataset.value)"
            ".filter(value => value !== undefined).map(Number)"
        )
        table = visit.page.locator("table.runs").first.element_handle()
        runs = runs_at(the_record(), the_record().runs[0].shape).values()
        counted = sorted(run.intensity["dram"] for run in runs if "dram" in run.intensity)
        assert len(counted) > 20
        for order, reverse in (("ascending", False), ("descending", True)):
            head.locator("button").focus()
            visit.page.keyboard.press("Enter")
            assert head.get_attribute("aria-sort") == order
            found = visit.page.evaluate(f"([table, column]) => ({values})(table, column)", [table, column])
            assert found == sorted(found, reverse=reverse)
            assert sorted(found) == pytest.approx(counted)


def test_the_keyboard_reaches_and_works_every_control(browser: Browser, page: Path) -> None:
    with Visit(browser, page) as visit:
        seen = []
        visit.page.focus("nav a >> nth=-1")
        for _ in range(12):
            visit.page.keyboard.press("Tab")
            seen.append(visit.page.evaluate("document.activeElement.name || document.activeElement.id"))
        assert seen[:11] == ["device", "shape", "precision", "place", *["level"] * 4, *["kind"] * 3]
        visit.page.focus("input[name=place]:checked")
        visit.page.keyboard.press("ArrowRight")
        assert visit.page.evaluate("document.querySelector('input[name=place]:checked').value") == "l1"
        assert "L1's bytes" in visit.page.inner_text("#finding-roofline")
        outline = visit.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid"


@pytest.mark.parametrize(("size", "scheme"), [("desktop", "light"), ("phone", "dark")])
def test_axe_finds_nothing_serious(browser: Browser, page: Path, size: str, scheme: str) -> None:
    with Visit(browser, page, size=size, scheme=scheme) as visit:
        visit.page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        visit.choose("l1")
        found = Axe().run(visit.page)
        serious = [
            (one["id"], [node["html"][:120] for node in one["nodes"][:3]])
            for one in found.response["violations"]
            if one["impact"] in ("serious", "critical")
        ]
        assert serious == []


def test_figures_follow_the_colour_scheme(browser: Browser, page: Path) -> None:
    with Visit(browser, page) as visit:
        paper = "document.getElementById('chart-roofline')._fullLayout.paper_bgcolor"
        light = visit.page.evaluate(paper)
        visit.page.emulate_media(color_scheme="dark")
        visit.page.wait_for_function(f"light => {paper} !== light", arg=light)
        red = int(visit.page.evaluate(paper)[1:3], 16)
        assert red < 0x30


def test_without_scripts_the_tables_and_a_word_remain(browser: Browser, page: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    quiet = context.new_page()
    quiet.goto(page.as_uri())
    assert quiet.locator(".notice:not(.undrawn)").is_visible()
    assert not quiet.locator("#explore").is_visible()
    assert quiet.locator("table.runs").first.is_visible()
    context.close()


def test_every_level_has_its_toggle() -> None:
    assert set(PLACES) == set(LEVELS)
    assert set(ROOFED_LEVELS) <= set(PLACES)
