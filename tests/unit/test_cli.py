"""What a user types and gets: output, files, exit codes. Rungs run on the emulated backend, at small shapes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.command import ROOT, Answer, command, environment, ladder, rows

from ladder.catalog import load_catalog
from ladder.model import Shape
from ladder.profiles import load_profile

SMALL = ("--backend", "emulated", "--shape", "33x17x9")
MUTANTS = Path(__file__).parents[1] / "helpers" / "mutants"
H200 = replace(load_profile("h200").device, backend="emulated")
NAMES = [rung.name for rung in load_catalog()]
RUNNING = {
    rung.name
    for rung in load_catalog()
    if rung.why_not_on(H200) is None and rung.supports(Shape.parse(SMALL[-1])) is None
}
"""Rungs that the emulator runs at the small shape; the others are skipped with a reason."""


def accepted(answer: Answer) -> str:
    """The output of a command that went well."""
    assert answer.returncode == 0, answer.stderr
    assert answer.stderr == ""
    return answer.stdout


def table_rows(output: str) -> dict[str, list[str]]:
    """The cells of each line that begins with a rung's name."""
    lines = [re.split(r" {2,}", line.strip()) for line in output.splitlines()]
    return {cells[0]: cells[1:] for cells in lines if cells[0] in NAMES}


def test_version() -> None:
    assert re.fullmatch(r"ladder \d\S*\n", accepted(ladder("--version")))


COMMANDS = [
    "list",
    "run",
    "count",
    "check",
    "ceilings",
    "profile",
    "experiment",
    "report",
    "doctor",
    "new",
    "explain",
    "diff",
    "compare",
]


def test_help_is_the_manual() -> None:
    output = accepted(ladder("--help"))
    for word in (*COMMANDS, "--version", "--install-completion"):
        assert re.search(rf"^ +{word}\b", output, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_explains_itself(command: str) -> None:
    assert f"Usage: ladder {command}" in accepted(ladder(command, "--help"))


def test_the_page_of_the_commands_has_them_all_and_no_other() -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `ladder (\w+)` \|", page, re.MULTILINE) == COMMANDS


def test_list_shows_the_whole_catalogue() -> None:
    assert list(table_rows(accepted(ladder("list")))) == NAMES


def test_list_shows_what_is_asked_for() -> None:
    assert list(table_rows(accepted(ladder("list", "padded", "tiled")))) == [
        "padded",
        "tiled_16",
        "tiled_32",
        "tiled_64",
    ]


def test_run_writes_every_row_in_the_order_of_the_catalogue(tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder" / "r.json"
    output = accepted(ladder("run", *SMALL, "--json", out))
    found = rows(out)
    assert list(found) == NAMES
    for rung in load_catalog():
        row = found[rung.name]
        if rung.name not in RUNNING:
            assert row["skipped"] == (rung.why_not_on(H200) or rung.supports(Shape.parse(SMALL[-1])))
            assert [row["check"], row["error"], row["traffic"], row["placement"], row["time_s"]] == [None] * 5
            continue
        assert row["skipped"] is None
        assert row["check"]["passed"]
        assert row["error"] is None
        assert row["time_s"] is None
        assert row["flop_per_s"] is None
        assert row["placement"]["fraction"] is None
        assert row["traffic"]["l1"]["origin"] == "emulated"
        assert len(row["source_sha256"]) == 64
    table = table_rows(output)
    assert list(table) == NAMES
    assert {name for name, cells in table.items() if cells[0] == "right"} == RUNNING
    assert {name for name, cells in table.items() if cells == ["skipped"]} == set(NAMES) - RUNNING
    for name in set(NAMES) - RUNNING:
        assert f"  {name} {SMALL[-1]}: skipped: {found[name]['skipped']}\n" in output
    data = json.loads(out.read_text(encoding="utf-8"))
    assert data["schema"] == "ladder/1"
    assert data["command"] == f"ladder run {' '.join(SMALL)} --json {out}"
    assert data["device"]["backend"] == "emulated"
    assert data["device"]["nvrtc"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", data["created"])


def test_run_says_once_what_is_emulated_and_that_no_time_is_invented() -> None:
    output = accepted(ladder("run", "naive", *SMALL, "--profile", "T4"))
    assert output.count("Emulating") == 1
    assert re.search(r"Emulating .*T4 \(sm_75\) on the CPU", output)
    assert "no time is measured or invented" in output


def test_run_prints_a_plain_line_for_each_finished_rung() -> None:
    output = accepted(ladder("run", "naive", "padded", *SMALL))
    lines = re.findall(
        r"^\[(\d)/2\] +\d+\.\d s  (\w+) 33x17x9: right, bound by \w+ at \S+ TFLOP/s$", output, re.MULTILINE
    )
    assert sorted(lines) in ([("1", "naive"), ("2", "padded")], [("1", "padded"), ("2", "naive")])
    assert "\x1b" not in output


def test_piped_lines_are_not_cut(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 20) / ("name" * 20)
    output = accepted(ladder("run", "naive", *SMALL, "--json", folder / "r.json", env=environment(COLUMNS="40")))
    assert f"Results: {folder / 'r.json'}\n" in output


def test_several_shapes_give_a_row_each(tmp_path: Path) -> None:
    out = tmp_path / "r.json"
    accepted(
        ladder(
            "run", "naive", "padded", "--shape", "5x6x7", "--shape", "8x9x10", "--backend", "emulated", "--json", out
        )
    )
    runs = json.loads(out.read_text(encoding="utf-8"))["runs"]
    assert [(run["rung"], run["shape"]["m"]) for run in runs] == [
        ("naive", 5),
        ("padded", 5),
        ("naive", 8),
        ("padded", 8),
    ]


def test_a_users_file_runs_from_any_folder(tmp_path: Path) -> None:
    shutil.copy(MUTANTS / "right.cu", tmp_path / "mine.cu")
    accepted(ladder("run", "mine.cu", *SMALL, "--json", "r.json", cwd=tmp_path))
    assert rows(tmp_path / "r.json")["mine"]["check"]["passed"]


def test_empty_products_are_all_right(tmp_path: Path) -> None:
    out = tmp_path / "r.json"
    empty = ("5x7x0", "0x7x5", "5x0x7")
    shapes = [word for shape in empty for word in ("--shape", shape)]
    accepted(ladder("run", *sorted(RUNNING), "--backend", "emulated", *shapes, "--json", out))
    runs = json.loads(out.read_text(encoding="utf-8"))["runs"]
    right = {(run["rung"], "{m}x{n}x{k}".format(**run["shape"])) for run in runs if (run["check"] or {}).get("passed")}
    assert right == {
        (rung.name, shape)
        for rung in load_catalog()
        for shape in empty
        if rung.name in RUNNING and rung.supports(Shape.parse(shape)) is None
    }


def test_count_tables_bytes_wavefronts_and_intensity() -> None:
    output = accepted(ladder("count", "tiled_32", "--backend", "emulated", "--shape", "64x64x64"))
    rows_by_level = {cells[1]: cells[2:] for line in output.splitlines() if (cells := line.split())[:1] == ["tiled_32"]}
    intensity = 32 / 4 / (1 + 32 / 128)
    flop = 2 * 64**3
    assert rows_by_level["l1"] == [f"{flop / intensity:.0f}", f"{intensity:.3g}", "emulated"]
    _, wavefronts, requests, ratio, origin = rows_by_level["shared"][-5:]
    assert int(rows_by_level["shared"][0]) == 128 * int(wavefronts)
    assert float(ratio) == pytest.approx(int(wavefronts) / int(requests), rel=5e-3)
    assert origin == "emulated"


def test_check_passes_what_is_right() -> None:
    output = accepted(ladder("check", "tiled_16", "--backend", "emulated", "--examples", "5"))
    assert re.search(r"tiled_16: right: \d+ products tried, none wrong", output)


def test_check_prints_the_smallest_failing_shape_and_the_first_wrong_element() -> None:
    answer = ladder(
        "check", MUTANTS / "last_k_missing.cu", "--backend", "emulated", "--shape", "64x64x64", "--examples", "5"
    )
    assert answer.returncode == 1
    found = re.search(r"last_k_missing: WRONG, smallest failing shape 1x1x1\b(.*)", answer.stdout)
    assert found
    assert re.search(r"C\[row 0, column 0\]: got \S+, expected \S+, bound \S+", found[1])
    assert answer.stderr == "ladder: wrong or failed: last_k_missing\n"


def test_report_of_a_run(tmp_path: Path) -> None:
    accepted(ladder("run", "naive", "padded", *SMALL, "--json", tmp_path / "r.json"))
    output = accepted(ladder("report", tmp_path / "r.json", "--out", tmp_path / "report"))
    page = tmp_path / "report" / "index.html"
    assert output.splitlines()[-1] == f"Report: {page}"
    assert "padded" in page.read_text(encoding="utf-8")
    assert list((tmp_path / "report").rglob("*.svg"))


def test_report_takes_the_last_run_of_make_ladder(tmp_path: Path) -> None:
    accepted(ladder("run", "naive", *SMALL, "--json", "docs/report/results.json", cwd=tmp_path))
    accepted(ladder("report", cwd=tmp_path))
    assert (tmp_path / "docs" / "report" / "index.html").exists()


def test_doctor_finds_what_is_there() -> None:
    output = accepted(ladder("doctor"))
    for thing in ("Python", "packages", "NVRTC", "a kernel", "compiler cache"):
        assert re.search(rf"^ok +{thing}: \S", output, re.MULTILINE)
    for thing in ("GPU", "ncu"):
        assert re.search(rf"^(ok|absent +{thing}: .*\n +fix: \S.*)", output, re.MULTILINE)


def test_no_color_is_honoured() -> None:
    output = accepted(ladder("list", env=environment(NO_COLOR="1", FORCE_COLOR="1")))
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", output)


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with subprocess.Popen(
        command("list"), stdout=writing, stderr=subprocess.PIPE, text=True, env=environment()
    ) as process:
        os.close(writing)
        _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert errors == ""
