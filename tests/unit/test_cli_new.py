"""``ladder new``: a file that runs, never one less, and the way to a placed point."""

from __future__ import annotations

import re
import shlex
import time
from pathlib import Path

import pytest
from helpers.command import ladder, rows
from helpers.kernels import MUTANTS

from ladder.catalog import parse_file

EMULATED = ("--backend", "emulated")
A_MINUTE_S = 60


def test_from_nothing_to_a_placed_point_in_under_a_minute(tmp_path: Path) -> None:
    began = time.monotonic()
    made = ladder("new", "my_tile", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    next_lines = [shlex.split(line) for line in made.stdout.splitlines() if line.startswith("  ")]
    assert next_lines == [["ladder", "run", "my_tile.cu"], ["ladder", "check", "my_tile.cu"]]
    (_, *words), (_, *check) = next_lines
    assert ladder(*words, *EMULATED, "--json", "r.json", cwd=tmp_path).returncode == 0
    assert time.monotonic() - began < A_MINUTE_S
    row = rows(tmp_path / "r.json")["my_tile"]
    assert row["check"]["passed"]
    assert row["placement"]["bound_by"] == "shared"
    assert row["intensity"]["l1"] == pytest.approx(row["law"]["predicted"]["l1"])
    assert ladder(*check, *EMULATED, "--examples", "5", cwd=tmp_path).returncode == 0


def test_a_copy_of_a_rung_runs_beside_it(tmp_path: Path) -> None:
    made = ladder("new", "mine", "--from", "padded", "--dir", tmp_path / "a" / "b")
    assert made.returncode == 0, made.stderr
    path = tmp_path / "a" / "b" / "mine.cu"
    assert f"Wrote {path}: mine, 'Mine'." in made.stdout
    assert shlex.split(made.stdout.splitlines()[-2]) == ["ladder", "run", str(path)]
    out = tmp_path / "r.json"
    assert ladder("run", path, "padded", *EMULATED, "--shape", "65x33x40", "--json", out).returncode == 0
    found = rows(out)
    assert found["mine"]["check"] == found["padded"]["check"]
    assert found["mine"]["traffic"] == found["padded"]["traffic"]


def test_a_copy_of_a_users_file(tmp_path: Path) -> None:
    assert ladder("new", "mine", "--from", MUTANTS / "right.cu", cwd=tmp_path).returncode == 0
    (rung,) = parse_file(tmp_path / "mine.cu")
    assert rung.kernel == "mine"


def test_a_copy_of_a_sweep_names_all_its_rungs(tmp_path: Path) -> None:
    made = ladder("new", "mine", "--from", "tiled", cwd=tmp_path)
    assert re.search(r"mine_16, 'Mine, T = 16', mine_32, .* mine_64, 'Mine, T = 64'", made.stdout)


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "mine.cu"
    path.write_text("precious", encoding="utf-8")
    answer = ladder("new", "mine", cwd=tmp_path)
    assert answer.returncode == 2
    assert answer.stderr == (
        "ladder: mine.cu is there already and is left as it is; choose another name or another --dir\n"
    )
    assert path.read_text(encoding="utf-8") == "precious"


def test_a_dangling_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "mine.cu").symlink_to(tmp_path / "elsewhere.cu")
    answer = ladder("new", "mine", cwd=tmp_path)
    assert answer.returncode == 2
    assert "Traceback" not in answer.stderr
    assert not (tmp_path / "elsewhere.cu").exists()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("my-tile",), "'my-tile' cannot name a kernel: use letters, digits and underscores"),
        (("mine.cu",), "give the name without its ending: mine"),
        (("tiled_32",), "choose another name, such as my_tiled_32"),
        (("mine", "--from", "tiled_23"), "no rung is called 'tiled_23'; did you mean"),
        (("mine", "--from", "absent.cu"), "absent.cu: cannot be read"),
        (("mine", "--dir", "file"), "--dir file is a file; name a folder"),
        (("mine", "--dir", "file/deeper"), "cannot write"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line_and_leaves_nothing(
    words: tuple[str, ...], problem: str, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    answer = ladder("new", *words, cwd=tmp_path)
    assert answer.returncode == 2
    assert problem in answer.stderr
    assert answer.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
