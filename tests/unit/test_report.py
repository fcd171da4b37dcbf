"""The report's folder: what the pages say, that they are safe to open anywhere, and that a failure harms nothing."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from helpers.results import KERNELS, Kernel, make_results, make_run, peer, unhappy_runs
from markdown_it import MarkdownIt

from ladder.errors import StoreError
from ladder.model import LEVELS, Check, Roofs, Rung, Shape
from ladder.report import render, write_report
from ladder.store import Results, Run

FEW = KERNELS[3:7]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report on an emulated and a timed session."""
    out = tmp_path_factory.mktemp("all") / "report"
    timed = make_results(4096, timed=True, extra=(peer(4096, 51.2e12),))
    write_report([make_results(256, extra=unhappy_runs()), timed], out)
    return out


def md(out: Path) -> str:
    return (out / "index.md").read_text(encoding="utf-8")


def page(out: Path) -> str:
    """The page without what its scripts hold."""
    html = (out / "index.html").read_text(encoding="utf-8")
    return re.sub(r"(<script[^>]*>).*?(</script>)", r"\1\2", html, flags=re.DOTALL)


class Text(HTMLParser):
    """The visible text of a page, its links and ids, and a check that its elements nest."""

    VOID = frozenset({"meta", "link", "br", "hr", "img", "input"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.tags: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attrs:
            assert not name.startswith("on")
            if name in ("href", "src", "xlink:href") and value is not None:
                self.links.append(value)
            if name == "id" and value is not None:
                self.ids.append(value)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def test_the_folder_holds_two_pages_and_each_figure_twice(report: Path) -> None:
    assert {p.name for p in report.iterdir()} == {"index.md", "index.html", "figures"}
    names = {p.name for p in (report / "figures").iterdir()}
    assert len(names) == 16
    for prefix in ("nvidia-h200-emulated-256x256x256", "nvidia-h200-cuda-4096x4096x4096"):
        for kind in ("roofline", "bounds", "law", "banks"):
            assert {f"{prefix}-{kind}.svg", f"{prefix}-{kind}.png"} <= names


def test_it_returns_the_markdown_page(tmp_path: Path) -> None:
    assert write_report([], tmp_path / "a" / "b") == tmp_path / "a" / "b" / "index.md"


def test_equal_results_give_equal_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_report([make_results(256, kernels=FEW)], tmp_path / name)
    one, two = (
        {p.relative_to(tmp_path / name): p.read_bytes() for p in (tmp_path / name).rglob("*") if p.is_file()}
        for name in ("one", "two")
    )
    assert one == two
    assert len(one) == 10


def test_every_link_is_relative_and_leads_somewhere(report: Path) -> None:
    targets = re.findall(r"\]\(([^)]+)\)", md(report))
    assert len(targets) == 20
    anchors = re.findall(r'^<a id="([a-z0-9-]+)"></a>$', md(report), flags=re.MULTILINE)
    assert len(anchors) == len(set(anchors)) == 4
    for target in targets:
        assert not target.startswith(("/", "http"))
        assert target[1:] in anchors if target.startswith("#") else (report / target).is_file()
    parsed = Text(page(report))
    for link in parsed.links:
        assert link.startswith("#")
        assert link[1:] in parsed.ids
    assert len(parsed.ids) == len(set(parsed.ids))


def test_the_page_is_one_small_file_that_loads_nothing(report: Path) -> None:
    assert (report / "index.html").stat().st_size < 6 * 2**20
    html = page(report)
    tags = set(Text(html).tags)
    assert not tags & {"link", "img", "iframe", "object", "embed", "image"}
    assert re.findall(r"<script[^>]*>", html) == [
        '<script type="application/json" id="data" data-plot-px="560">',
        '<script type="application/gzip" id="library">', *["<script>"] * 2,
    ]  # fmt: skip
    assert "url(http" not in html
    assert "@import" not in html
    assert "<svg " not in html
    assert "prefers-color-scheme: dark" in html


@pytest.mark.parametrize("read", [md, page], ids=["markdown", "html"])
def test_every_run_has_its_row_its_sentence_and_its_reason(report: Path, read: object) -> None:
    text = Text(page(report)).text if read is page else md(report).replace("\\", "")
    for kernel in KERNELS:
        assert text.count(kernel.name) >= 4
    for words in (
        "consecutive lanes read consecutive addresses",
        "Pad the tile's rows by a word",
        "C[3, 5] = 1.0, expected 2.0",
        "Skipped: needs compute capability 9.0.",
        "step limit of 1000 reached at x.cu:7",
        "15 kernels: 12 right, 1 wrong, 1 skipped and 1 broke off.",
        "L1 intensity follows T/6 exactly",
        "64 % of cublas_sgemm",
        "NVIDIA H200, emulated on the CPU",
        "NVIDIA H200, run on the GPU",
        "2025-01-02T03:04:05Z",
        "ladder run --shape 4096x4096x4096",
    ):
        assert words in text


@pytest.mark.parametrize("origin", ["measured", "counted", "emulated", "modelled", "recorded"])
def test_every_origin_in_the_results_is_explained(report: Path, origin: str) -> None:
    assert f"**{origin}**, " in md(report)


def test_the_markdown_table_has_a_cell_for_each_number(report: Path) -> None:
    tables = re.findall(r"(\| kernel \|.*?)\n\n", md(report), flags=re.DOTALL)
    assert len(tables) == 2
    for table, timed in zip(tables, (False, True), strict=True):
        lines = table.splitlines()
        head = [cell.strip() for cell in lines[0].strip("|").split("|")]
        assert ("time" in head) == ("TFLOP/s" in head) == ("of roof" in head) == timed
        assert len(lines) == 2 + (14 if not timed else 13)
        for line in lines[1:]:
            assert line.count("|") == len(head) + 1
        row = next(line for line in lines if r"tiled\_32" in line)
        cells = dict(zip(head, (cell.strip() for cell in row.strip("|").split("|")), strict=True))
        assert cells["check"] == "right"
        assert cells["bound by"] == "shared memory"
        assert cells["shared"] == "0.318"
        assert cells["shared law"] == "0.250 (×1.27)"
        assert cells["L1 law"].endswith("(+0.00 %)")
        assert cells["L2"] == "8.00"
        assert cells["wavefronts / request"] == "1.18"
        if timed:
            assert (cells["TFLOP/s"], cells["of roof"]) == ("8.90", "89 %")


def test_without_a_clock_no_time_is_invented(tmp_path: Path) -> None:
    write_report([make_results(256, kernels=FEW)], tmp_path)
    text = md(tmp_path)
    assert "No clock ran" in text
    assert "Fastest" not in text
    assert not re.search(r"\d (ms|µs|s)\b", text)


def test_alt_texts_stand_in_the_markdown(report: Path) -> None:
    alts = re.findall(r"!\[(.*?)\]\(", md(report))
    assert len(alts) == 8
    assert all(len(alt) > 80 for alt in alts)


@pytest.mark.parametrize("results", [[], [make_results(256, kernels=())]], ids=["no file", "no run"])
def test_nothing_to_report_is_said(results: list[Results], tmp_path: Path) -> None:
    write_report(results, tmp_path)
    words = "There are no results" if not results else "This results file holds no runs"
    assert words in md(tmp_path)
    assert words in Text(page(tmp_path)).text
    assert list((tmp_path / "figures").iterdir()) == []


def test_shapes_are_sections_and_two_sessions_of_one_card_stay_apart(tmp_path: Path) -> None:
    both = replace(
        make_results(256, kernels=FEW[:1]),
        runs=(make_run(FEW[0], 256), make_run(FEW[0], 512), make_run(FEW[1], 256)),
    )
    write_report([both, both], tmp_path)
    text = md(tmp_path)
    assert text.count("### M x N x K = 256x256x256") == 2
    assert text.count("### M x N x K = 512x512x512") == 2
    stems = {p.name for p in (tmp_path / "figures").iterdir()}
    assert {"nvidia-h200-emulated-256x256x256-roofline.svg", "nvidia-h200-emulated-2-256x256x256-roofline.svg"} <= stems
    Text(page(tmp_path))


def test_a_shape_without_work_is_reported_without_a_figure(tmp_path: Path) -> None:
    run = Run(
        rung="r", title="R", kind="rung", shape=Shape(m=8, n=8, k=0),
        check=Check(passed=True, exact_integers=True, worst_error_over_bound=0.0),
    )  # fmt: skip
    write_report([make_results(256, kernels=(), extra=(run,))], tmp_path)
    assert "Not placed: there is no work at this shape." in md(tmp_path)
    assert list((tmp_path / "figures").iterdir()) == []


HOSTILE = '<img src=x onerror=alert(1)>|`$x$`](javascript:a) **b** "&amp;\n# c'


def test_names_titles_and_failures_cannot_break_the_pages(tmp_path: Path) -> None:
    bad = Run(
        rung=HOSTILE, title=HOSTILE, kind="rung", shape=Shape(m=256, n=256, k=256),
        check=Check(passed=False, exact_integers=False, worst_error_over_bound=None, failure=HOSTILE),
    )  # fmt: skip
    placed = replace(make_run(FEW[0], 256), rung=f"placed {HOSTILE}", title=HOSTILE)
    results = make_results(256, kernels=(), extra=(bad, placed))
    results = replace(results, command=HOSTILE, device=replace(results.device, name=f"GPU {HOSTILE}"))
    write_report([results], tmp_path)
    parsed = Text(page(tmp_path))
    assert "img" not in parsed.tags
    assert "<img src=x onerror=alert(1)>" in parsed.text
    text = md(tmp_path)
    shown = Text(MarkdownIt("commonmark", {"html": True}).enable("table").render(text))
    flat = " ".join(HOSTILE.split())
    assert f"placed {flat}" in shown.text
    assert f"GPU {flat}, emulated on the CPU" in shown.text
    assert all(link.startswith(("figures/", "#gpu-img-")) for link in shown.links)
    assert shown.tags.count("h1") == 1
    assert "code" not in shown.tags
    widths = {line.count("|") for line in text.splitlines() if line.startswith(("| kernel |", "| card |"))}
    assert len(widths) == 2
    for line in text.splitlines():
        if line.startswith("| ") and "onerror" in line:
            assert len(re.findall(r"(?<!\\)\|", line)) in widths
    for figure in (tmp_path / "figures").iterdir():
        assert re.fullmatch(r"[a-z0-9-]+x\d+-[a-z]+\.(svg|png)", figure.name)


def test_an_unwritable_folder_is_an_error_with_a_fix(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StoreError, match=r"cannot write the report to .*--out"):
        write_report([make_results(256, kernels=FEW)], tmp_path / "file" / "report")
    with pytest.raises(StoreError, match="--out"):
        write_report([], tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_full_disk_leaves_the_old_report_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_report([make_results(256, kernels=FEW)], tmp_path)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    real, calls = os.fsync, 0

    def full(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls > 5:
            raise OSError(28, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="No space left"):
        write_report([make_results(512, kernels=FEW)], tmp_path)
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


def test_figures_of_an_earlier_report_go_and_the_users_files_stay(tmp_path: Path) -> None:
    write_report([make_results(512, kernels=FEW)], tmp_path)
    (tmp_path / "figures" / "mine.svg").write_text("mine")
    (tmp_path / "notes.md").write_text("mine")
    write_report([make_results(256, kernels=FEW)], tmp_path)
    names = {p.name for p in (tmp_path / "figures").iterdir()}
    assert "mine.svg" in names
    assert not any("512x512x512" in name for name in names)
    assert (tmp_path / "notes.md").read_text() == "mine"


def test_a_folder_that_is_not_a_report_keeps_everything(tmp_path: Path) -> None:
    theirs = tmp_path / "figures" / "x-1x1x1-law.svg"
    theirs.parent.mkdir()
    theirs.write_text("mine")
    write_report([make_results(256, kernels=FEW)], tmp_path)
    assert theirs.read_text() == "mine"


def test_past_the_limit_figures_are_linked_instead_of_inlined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = tuple(make_run(kernel, n) for kernel in FEW[:1] for n in (512, 4096))
    results = replace(make_results(256, kernels=()), runs=runs)
    write_report([results], tmp_path)
    assert page(tmp_path).count("<svg ") == 1
    monkeypatch.setattr(render, "INLINE_LIMIT_BYTES", 10_000)
    write_report([results], tmp_path)
    html = page(tmp_path)
    assert "<svg " not in html
    links = [link for link in Text(html).links if not link.startswith("#")]
    assert links == ["figures/nvidia-h200-emulated-l2-limit.svg"]
    assert (tmp_path / links[0]).is_file()
    assert html.count("Open this figure") == 1


def test_the_catalogue_orders_rows_and_links_their_sources(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    source = tmp_path / "cuda_src" / "rungs" / "my rung.cu"
    source.parent.mkdir(parents=True)
    source.write_text("kernel")
    catalog = {
        name: Rung(
            name=name, number=1, kind="rung", title="T", kernel="k", params={}, tile=(32, 32), block=(32, 32, 1),
            path=source, source="kernel",
        )
        for name in ("padded", "tiled_32")
    }  # fmt: skip
    digest = hashlib.sha256(b"kernel").hexdigest()
    runs = [make_run(kernel, 256) for kernel in FEW]
    runs = [replace(run, source_sha256=digest if run.rung == "tiled_32" else "0" * 64) for run in runs]
    results = replace(make_results(256, kernels=()), runs=tuple(runs))
    out = tmp_path / "docs" / "report"
    write_report([results], out, catalog=catalog)
    rows = re.findall(r"^\| \[?(\w[\w\\]*)", md(out), flags=re.MULTILINE)
    kernels = [row.replace("\\", "") for row in rows if row.replace("\\", "") in {k.name for k in FEW}]
    assert kernels == ["padded", "tiled_32", "tiled_64", "tiled_conflict"]
    assert r"[tiled\_32](../../cuda_src/rungs/my%20rung.cu)" in md(out)
    assert r"[padded]" not in md(out)  # another text ran than the catalogue's
    assert "../../cuda_src/rungs/my%20rung.cu" in Text(page(out)).links
    elsewhere = tmp_path.parent / "elsewhere"
    write_report([results], elsewhere, catalog=catalog)
    assert "cuda_src" not in md(elsewhere)


def test_the_method_is_linked_where_it_lies_beside(tmp_path: Path) -> None:
    write_report([make_results(256, kernels=FEW[:1])], tmp_path / "report")
    assert "method.md" not in md(tmp_path / "report")
    (tmp_path / "method.md").write_text("# Method")
    write_report([make_results(256, kernels=FEW[:1])], tmp_path / "report")
    assert "[The method](../method.md)" in md(tmp_path / "report")
    assert "../method.md" in Text(page(tmp_path / "report")).links


def test_a_level_that_nobody_counted_has_no_column(tmp_path: Path) -> None:
    run = make_run(Kernel("bare", "B", 4.0, 8.0, 0.25), 256)
    assert run.traffic is not None
    kept = {level: q for level, q in run.traffic.levels.items() if level in ("dram", "l1")}
    run = replace(run, traffic=replace(run.traffic, levels=kept))
    write_report([make_results(256, kernels=(), extra=(run,))], tmp_path)
    head = next(line for line in md(tmp_path).splitlines() if line.startswith("| kernel |"))
    assert "| DRAM |" in head
    assert all(f"| {name} |" not in head for name in ("L2", "shared", "SM", "asked", "time"))
    assert set(kept) < set(LEVELS)


def test_a_missing_roof_and_a_ragged_shape_are_explained(tmp_path: Path) -> None:
    bare = Roofs(bytes_per_s={"dram": 244.7e9, "sm": 7.18e12}, flop_per_s={"fp32": 7179.2e9})
    run = make_run(replace(FEW[0], l1=6.0), 100, roofs=bare)
    write_report([replace(make_results(64, kernels=()), roofs=bare, runs=(run,))], tmp_path)
    text = md(tmp_path)
    assert "No roof is known here for L2, so true bounds may be lower." in text
    assert "With N = 100 and K = 100 rows do not begin on 32-byte sectors" in text
    write_report([make_results(256, kernels=FEW)], tmp_path)
    assert "No roof is known" not in md(tmp_path)
    assert "32-byte sectors" not in md(tmp_path)


def test_a_gpu_of_which_only_fp32_is_recorded_has_a_page_without_a_roofline(tmp_path: Path) -> None:
    bare = Roofs(bytes_per_s={}, flop_per_s={"fp32": 1e12}, origin={"fp32": "recorded"})
    runs = tuple(make_run(kernel, 256, roofs=bare) for kernel in KERNELS[:2])
    page = write_report([replace(make_results(256, kernels=FEW), roofs=bare, runs=runs)], tmp_path)
    assert "1.00 TFLOP/s" in page.read_text(encoding="utf-8")
    drawn = {path.stem.rpartition("-")[2] for path in (tmp_path / "figures").glob("*.svg")}
    assert "bounds" in drawn
    assert "roofline" not in drawn
