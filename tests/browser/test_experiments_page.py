"""The report's part on the experiments in headless Chromium: what is drawn, where it fits, and whom it serves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from helpers.browser import CHROMIUM, NO_CHROMIUM, SIZES, Visit, chromium
from helpers.experiment_rows import session
from helpers.results import make_results
from playwright.sync_api import Browser

from ladder.report import write_report
from ladder.report.experiments import told

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("experiments")
    write_report([make_results()], out, experiments=[session()])
    return out / "index.html"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def test_every_point_is_drawn_inside_its_chart_tells_its_numbers_and_axe_finds_nothing_serious(
    browser: Browser, page: Path
) -> None:
    with Visit(browser, page, size="phone", scheme="dark") as visit:
        visit.page.wait_for_selector("html[data-experiments]", timeout=60_000)
        for index, study in enumerate(told(session(), "e").studies):
            for number, panel in enumerate(study.chart.panels):
                chart = f"#chart-experiment-{index}-{number}"
                drawn = visit.page.evaluate(f"document.querySelectorAll('{chart} .scatterlayer .point').length")
                assert drawn == sum(len(points.x) for points in panel.points)
                outside = visit.page.evaluate(
                    f"""() => {{
                      const box = document.querySelector('{chart}').getBoundingClientRect();
                      return [...document.querySelectorAll('{chart} text')].filter(text => {{
                        const own = text.getBoundingClientRect();
                        return own.left < box.left - 1 || own.right > box.right + 1;
                      }}).map(text => text.textContent);
                    }}"""
                )
                assert outside == []
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= SIZES["phone"][0]
        assert visit.complaints == []
        assert visit.requests == [page.as_uri()]
        found = Axe().run(visit.page).response["violations"]
        assert [each["id"] for each in found if each["impact"] in ("serious", "critical")] == []
        chart = visit.page.locator("#chart-experiment-3-0")
        chart.scroll_into_view_if_needed()
        point = chart.locator(".scatterlayer .trace:has(.point)").last.locator(".point").first
        box = point.bounding_box()
        assert box is not None
        visit.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        visit.page.wait_for_selector(".hoverlayer .hovertext")
        text = visit.page.locator(".hoverlayer .hovertext").last.text_content() or ""
        assert "naive" in text
        assert "DRAM moved 1.00 MB" in text
