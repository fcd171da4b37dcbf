"""docs/rungs/ is what `make pages` would write now, but for what depends on the version of NVRTC."""

from __future__ import annotations

import hashlib
import json
import re
from html import escape
from pathlib import Path
from typing import Any

import pytest
from helpers.extras import PACKED_PATH, TMA_PATH

from bench.rung_pages import machine_code
from bench.rung_pages.page import FOLDER, INDEX, File, files, index, page, split
from bench.rung_pages.records import RECORDS, load_records, load_tunings
from ladder.catalog import cuda_src, find, parse_file
from ladder.nvrtc import nvrtc_version
from ladder.report.text import number, seconds
from ladder.report.tiles import alt

AGAIN = "write the pages again: make pages"

each_file = pytest.mark.parametrize("file", files(), ids=lambda file: file.stem)


def text(file: File) -> str:
    path = FOLDER / f"{file.stem}.md"
    assert path.is_file(), f"{path.name} is missing; {AGAIN}"
    return path.read_text(encoding="utf-8")


def stable(body: str) -> list[dict[str, str]]:
    """Rows of the first table, without what another ptxas may give."""
    lines = next(part for part in body.split("\n\n") if part.startswith("|")).splitlines()
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    varies = {"registers a thread", "spilled", "blocks an SM", "occupancy"}
    return [{name: cell for name, cell in zip(head, row, strict=True) if name not in varies} for row in rows]


def test_every_rung_file_has_a_page_and_a_figure_and_nothing_else_lies_there() -> None:
    wanted = {INDEX, *(f"{file.stem}.{ending}" for file in files() for ending in ("md", "svg"))}
    assert {path.name for path in FOLDER.iterdir()} == wanted, AGAIN
    assert {file.path for file in files()} == set((cuda_src() / "rungs").glob("*.cu"))


@each_file
def test_a_page_is_what_its_file_and_the_records_say(file: File) -> None:
    found = text(file)
    assert page(file, load_records(), load_tunings(), split(found)[0]) == found, AGAIN


def test_the_index_is_what_the_files_and_the_records_say() -> None:
    assert index(load_records()) == (FOLDER / INDEX).read_text(encoding="utf-8"), AGAIN


@each_file
def test_the_figure_is_of_the_files_parameters(file: File) -> None:
    drawn = (FOLDER / f"{file.stem}.svg").read_text(encoding="utf-8")
    assert f"<desc>{escape(alt(file.shown))}</desc>" in drawn, AGAIN
    assert f"<title>{file.shown.name}: who holds which tile</title>" in drawn, AGAIN


@each_file
def test_the_compiled_section_is_of_this_code(file: File) -> None:
    _, mark, body = split(text(file))
    assert mark == machine_code.fingerprint(file.rungs), AGAIN
    assert re.match(r"Compiled with NVRTC \d+\.\d+ for the recorded GPUs;", body)
    for rung in file.rungs:
        for device in machine_code.devices():
            runs = rung.why_not_on(device) is None
            assert (f"| {device.name} | `{rung.arch_for(device)}` |" in body) == runs


@each_file
def test_what_every_nvrtc_agrees_on_is_what_this_one_says(file: File) -> None:
    _, _, body = split(text(file))
    made = "\n".join(machine_code.section(file.rungs))
    assert made.startswith(f"Compiled with NVRTC {nvrtc_version()} ")
    assert stable(made) == stable(body), AGAIN
    assert {"GPU", "architecture", "threads a block", "shared memory a block"} <= set(stable(body)[0])


def test_machine_code_is_told_as_it_stands() -> None:
    told = machine_code.section(find(["register_tile"]))
    heads = [line for line in told if line.startswith("| architecture")]
    memory, loop = (told[told.index(head) + 2] for head in heads)
    cells = dict(zip(heads[0].split(" | "), memory.split(" | "), strict=True))
    assert cells["shared loads, LDS"] == "64 × 32, 16 × 128"
    assert cells["global loads, LDG"] == "8 × 32"
    assert " | 512 × FFMA | " in loop
    assert "80 LDS" in loop


def test_a_kernel_that_packs_has_rows_of_its_own() -> None:
    told = machine_code.section(parse_file(PACKED_PATH))
    rows = [line for line in told if line.startswith("| `packed_tile: pack_b` | ")]
    assert len(rows) == 2 * len(machine_code.devices()), "registers and instructions; it multiplies nothing in a loop"
    assert sum(line.startswith("| `packed_tile` | ") for line in told) == 3 * len(machine_code.devices())


def test_a_rung_is_told_of_the_gpus_that_run_it() -> None:
    told = "\n".join(machine_code.section(parse_file(TMA_PATH)))
    assert "2 × UTMALDG.2D" in told
    assert "`sm_90`" in told
    assert "`sm_80`" not in told


def recorded() -> list[Any]:
    """(page, row) of every timed row whose file still has the text that ran, straight from the JSON."""
    pages = {hashlib.sha256(file.rungs[0].source.encode()).hexdigest(): file for file in files()}
    found = []
    for path in sorted(RECORDS.glob("*/*.json")):
        data = json.loads(path.read_text(encoding="utf-8"))
        runs = data.get("runs", ()) if data.get("schema") == "ladder/1" and data["device"]["backend"] == "cuda" else ()
        timed = [run for run in runs if run["time_s"] and run["source_sha256"] in pages and not run.get("params")]
        found += [(data["created"], pages[run["source_sha256"]], run) for run in timed]
    newest = {
        (file.stem, run["rung"], str(run["shape"])): (file, run)
        for _, file, run in sorted(found, key=lambda f: (f[2]["traffic"] is not None, f[0]))
    }
    return [pytest.param(file, run, id=f"{key[1]}-{run['shape']['m']}") for key, (file, run) in newest.items()]


@pytest.mark.parametrize(("file", "run"), recorded())
def test_a_page_has_the_rate_and_the_counters_of_the_newest_counted_row(file: File, run: dict[str, Any]) -> None:
    m, n, k = (run["shape"][axis] for axis in "mnk")
    shown = [line for line in text(file).splitlines() if f" {m}x{n}x{k} |" in line and line.startswith("|")]
    mine = [line for line in shown if len(file.rungs) == 1 or f"`{run['rung']}`" in line]
    rate = 2 * m * n * k / run["time_s"]["median"]
    assert any(f"| {seconds(run['time_s']['median'])} | {number(rate / 1e12)} |" in line for line in mine)
    for level, intensity in (run["intensity"] if run["traffic"] else {}).items():
        assert any(f"| {number(intensity)} |" in line for line in mine), level


def test_pages_link_to_what_is_there() -> None:
    for path in FOLDER.glob("*.md"):
        for target in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
            assert (FOLDER / target).exists(), f"{path.name}: {target}"


def test_no_page_names_a_path_of_the_machine_that_wrote_it() -> None:
    for path in FOLDER.iterdir():
        assert str(Path(__file__).parents[2]) not in path.read_text(encoding="utf-8")
