"""A headless Chromium of the machine, and what a page did in it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
CHROMIUM = next((path for name in NAMES if (path := shutil.which(name))), None)
NO_CHROMIUM = (
    "no Chromium here (Debian: apt install chromium): the page is tested as text only, its figures and controls are not"
)
SIZES = {"desktop": (1280, 900), "phone": (390, 844)}


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser, without a sandbox since tests may run as root, and without looking for anything outside."""
    quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=[*quiet, "--disable-sync", "--disable-quic"])
        yield browser
        browser.close()


class Visit:
    """A page that has drawn its figures, with what it wrote to the console and what it asked for meanwhile."""

    def __init__(self, browser: Browser, path: Path, *, size: str = "desktop", scheme: Any = "light") -> None:
        width, height = SIZES[size]
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
        )
        self.page: Page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html[data-ready]", timeout=60_000)

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()

    def choose(self, place: str) -> None:
        """Press the toggle that places the points by ``place``, and wait for the figure."""
        self.page.check(f"input[name=place][value={place}]")
        self.page.wait_for_timeout(50)

    def points(self) -> list[dict[str, Any]]:
        """The roofline's points as drawn: kernel, x, y, and the pixel on the screen."""
        found: list[dict[str, Any]] = self.page.evaluate(
            """() => {
              const chart = document.getElementById('chart-roofline'), full = chart._fullLayout;
              const box = chart.getBoundingClientRect();
              return chart.data.filter(trace => trace.ids).flatMap(trace => trace.x.map((x, i) => ({
                name: trace.ids[i], x, y: trace.y[i],
                left: box.left + full._size.l + full.xaxis.d2p(x),
                top: box.top + full._size.t + full.yaxis.d2p(trace.y[i]),
              })));
            }"""
        )
        return found

    def hover(self, point: dict[str, Any]) -> list[str]:
        """The lines that appear with the pointer on ``point``."""
        self.page.mouse.move(0, 0)
        self.page.wait_for_selector(".hoverlayer .hovertext", state="detached")
        self.page.mouse.move(point["left"], point["top"])
        self.page.wait_for_selector(".hoverlayer .hovertext")
        lines: list[str] = self.page.evaluate(
            """() => [...document.querySelectorAll('.hoverlayer .hovertext text')].slice(-1).flatMap(text => {
              const lines = [...text.querySelectorAll('tspan.line')];
              return lines.length ? lines.map(line => line.textContent) : [text.textContent];
            })"""
        )
        return lines
