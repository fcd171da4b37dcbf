"""The order of the page: the largest cube first and open, the others folded, one figure across them, prose once."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.results import KERNELS, make_results, make_run

from ladder.catalog import load_catalog
from ladder.model import Rung, Shape
from ladder.report import write_report
from ladder.report.view import sections
from ladder.store import Results, Run

BY_NAME = {kernel.name: kernel for kernel in KERNELS}
FEW = ("naive", "tiled_32")
CATALOG = {rung.name: rung for rung in load_catalog()}


def row(name: str, n: int, *, timed: bool = True, proved: bool = True) -> Run:
    run = make_run(BY_NAME[name], n, timed=timed)
    digest = hashlib.sha256(CATALOG[name].source.encode()).hexdigest()
    return replace(run, source_sha256=digest, check=run.check if proved else None)


def results(*sizes: int, timed: bool = True, unproved: tuple[int, ...] = ()) -> Results:
    runs = [row(name, n, timed=timed, proved=n not in unproved) for n in sizes for name in FEW]
    ragged = replace(row("naive", 100, timed=timed), shape=Shape(m=9000, n=9000, k=9001))
    return replace(make_results(256, timed=timed, kernels=()), runs=(*runs, ragged))


def order(given: Results) -> list[str]:
    return [str(section.shape) for section in sections(given)]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sections") / "report"
    write_report([results(512, 4096, 1024)], out, catalog=CATALOG)
    return out


def md(out: Path) -> str:
    return (out / "index.md").read_text(encoding="utf-8")


def page(out: Path) -> str:
    """The page without what its scripts hold."""
    html = (out / "index.html").read_text(encoding="utf-8")
    return re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)


def test_the_largest_cube_leads_and_other_shapes_end() -> None:
    assert order(results(512, 4096, 1024)) == ["4096x4096x4096", "1024x1024x1024", "512x512x512", "9000x9000x9001"]


def test_what_ran_comes_before_what_was_only_sampled() -> None:
    given = results(256, 8192, 4096, timed=False, unproved=(8192, 4096))
    assert order(given) == ["256x256x256", "8192x8192x8192", "4096x4096x4096", "9000x9000x9001"]


def test_the_first_shape_is_open_and_the_others_are_folded_around_their_anchors(report: Path) -> None:
    html = page(report)
    prefix = "nvidia-h200-cuda-"
    assert html.count('<details class="part">') == 3
    assert html.index(f'<section id="{prefix}4096x4096x4096">') < html.index('<details class="part">')
    for shape in ("1024x1024x1024", "512x512x512", "9000x9000x9001"):
        # A link opens the fold only when its target lies inside.
        start = rf'<details class="part">\s*<summary>.*{shape}.*</summary>'
        assert re.search(rf'{start}\s*<section id="{prefix}{shape}">', html) is not None
    assert "2 kernels: 2 right. Fastest: tiled_32 at 8.90 TFLOP/s." in html


def test_the_contents_list_the_page_in_its_order(report: Path) -> None:
    links = re.findall(r"\]\(#nvidia-h200-cuda-?([a-z0-9-]*)\)", md(report))
    assert links == ["", "4096x4096x4096", "l2-limit", "1024x1024x1024", "512x512x512", "9000x9000x9001"]
    anchors = re.findall(r'<a id="nvidia-h200-cuda-?([a-z0-9-]*)"></a>', md(report))
    assert anchors == links
    nav = page(report).split("</nav>")[0]
    assert re.findall(r'href="#nvidia-h200-cuda-?([a-z0-9-]*)"', nav) == links


def test_the_figure_across_shapes_comes_once_with_its_finding(report: Path) -> None:
    for suffix in ("svg", "png"):
        assert (report / "figures" / f"nvidia-h200-cuda-l2-limit.{suffix}").is_file()
    assert len(re.findall(r"!\[[^]]*]\(figures/nvidia-h200-cuda-l2-limit\.svg\)", md(report))) == 1
    words = "Intensity at DRAM falls below half of the compulsory N/6 first at N = 4096"
    assert words in md(report)
    assert page(report).count(f"<p>{words}") == 1


def test_one_cubic_shape_makes_no_such_figure_and_removes_an_old_one(tmp_path: Path) -> None:
    write_report([results(512, 1024)], tmp_path)
    assert (tmp_path / "figures" / "nvidia-h200-cuda-l2-limit.svg").is_file()
    write_report([results(512)], tmp_path)
    assert not list((tmp_path / "figures").glob("*l2-limit*"))
    assert "Where L2 stops" not in md(tmp_path)
    assert "Where L2 stops" not in page(tmp_path)


def test_the_headers_prose_stands_by_the_kernel_where_it_first_appears(report: Path) -> None:
    for text in (md(report).replace("\\", ""), re.sub(r"</?d[tdl]>|<[^>]*>", "", page(report))):
        assert text.count("Removes the missing reuse of rung 02") == 1
        assert text.count("Leaves uncoalesced access: per k a warp touches 33 sectors") == 1


def test_another_text_than_the_catalogues_gets_no_prose(tmp_path: Path) -> None:
    given = results(512)
    given = replace(given, runs=tuple(replace(run, source_sha256="0" * 64) for run in given.runs))
    write_report([given], tmp_path, catalog=CATALOG)
    assert "Removes" not in md(tmp_path)
    assert "<dt>Removes" not in page(tmp_path)


def test_few_tiles_are_no_suspect_where_the_grid_is_what_fits() -> None:
    """16 tiles for 132 SMs; blocks that stay may share each of them out, and only counters tell."""
    rung = next(rung for rung in CATALOG.values() if rung.persistent)

    def lever(known: Rung) -> str:
        run = make_run(replace(BY_NAME["tiled_32"], name=known.name), 512, timed=True)
        assert run.placement is not None
        slow = replace(run.placement, fraction=0.1)
        run = replace(run, placement=slow, source_sha256=hashlib.sha256(known.source.encode()).hexdigest())
        (section,) = sections(make_results(timed=True, kernels=(), extra=(run,)), {known.name: known})
        return section.rows[0].reading.lever

    assert "16 threadblocks for 132 SMs" in lever(replace(rung, persistent=False))
    assert "threadblock" not in lever(rung)


def test_counts_from_samples_are_no_failure(tmp_path: Path) -> None:
    write_report([results(256, 8192, timed=False, unproved=(8192,))], tmp_path)
    text = md(tmp_path)
    assert "2 kernels: 2 not run, counted from sampled threadblocks." in text
    assert text.count("| not run: counted from sampled threadblocks |") == 2
    assert "broke off" not in text
    assert "- **naive** (One thread an element, lanes walk rows; not run: counted from sampled threadblocks): " in text
    assert '<td class="quiet words">not run: counted from sampled threadblocks</td>' in page(tmp_path)


def test_on_a_gpu_a_missing_check_is_not_called_a_sample() -> None:
    given = replace(results(512), runs=(row("naive", 512, proved=False),))
    assert [each.status for each in sections(given)[0].rows] == ["not checked"]
