"""What a shell completes: commands, rungs, files and profiles; and how completion is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from helpers.command import command, environment

from ladder.catalog import load_catalog
from ladder.cli.options import complete_profile, complete_rung
from ladder.profiles import available

NAMES = [rung.name for rung in load_catalog()]


def completed(line: str, cwd: Path) -> list[str]:
    """What bash would offer for the last word of ``line``."""
    words = line.split(" ")
    asked = environment(_LADDER_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(len(words) - 1))
    answer = subprocess.run(command(), cwd=cwd, env=asked, capture_output=True, text=True, check=False, timeout=60)
    assert answer.stderr == ""
    return answer.stdout.split()


def test_commands_and_options(tmp_path: Path) -> None:
    assert set(completed("ladder ex", tmp_path)) == {"explain", "experiment"}
    assert set(completed("ladder co", tmp_path)) == {"count", "compare"}
    assert completed("ladder diff --si", tmp_path) == ["--side-by-side"]


@pytest.mark.parametrize("line", ["run", "check", "list", "explain", "diff naive", "new x --from"])
def test_rungs_and_files(line: str, tmp_path: Path) -> None:
    (tmp_path / "padded_mine.cu").touch()
    (tmp_path / "padded.txt").touch()
    assert completed(f"ladder {line} pad", tmp_path) == ["padded", "padded_mine.cu"]


def test_profiles(tmp_path: Path) -> None:
    assert completed("ladder explain naive --profile h", tmp_path) == ["h200"]
    assert complete_profile("") == list(available())
    assert complete_profile("A1") == ["a100"]


def test_every_rung_and_only_what_could_be_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub" / "deep").mkdir(parents=True)
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "sub" / "mine.cu").touch()
    (tmp_path / "sub" / "notes.md").touch()
    monkeypatch.chdir(tmp_path)
    assert complete_rung("") == [*NAMES, "sub/"]
    assert complete_rung("sub/") == ["sub/deep/", "sub/mine.cu"]
    assert complete_rung("sub/m") == ["sub/mine.cu"]
    assert complete_rung(f"{tmp_path}/sub/m") == [f"{tmp_path}/sub/mine.cu"]
    assert complete_rung("nowhere/") == []


def test_completion_installs_itself_into_the_shell_that_asks(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    words = " ".join(command("--install-completion"))
    home = environment(HOME=str(tmp_path))
    answer = subprocess.run(
        [bash, "-c", f"{words}; exit $?"], env=home, capture_output=True, text=True, check=False, timeout=60
    )
    assert answer.returncode == 0, answer.stderr
    script = tmp_path / ".bash_completions" / "ladder.sh"
    assert f"completion installed in {script}" in answer.stdout
    assert str(script) in (tmp_path / ".bashrc").read_text(encoding="utf-8")
    asked = [bash, "--noprofile", "--norc", "-c", f"source {script} && complete -p ladder"]
    loaded = subprocess.run(asked, env=os.environ, capture_output=True, text=True, check=True, timeout=60)
    assert "_ladder_completion ladder" in loaded.stdout
