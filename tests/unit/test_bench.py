"""The benchmark scripts, as far as they go without a GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from helpers.command import ROOT, environment

from bench import on_device
from ladder import catalog
from ladder.model import Shape


def stage(name: str, program: str, limit_s: float = 30) -> on_device.Stage:
    return on_device.Stage(name=name, command=(sys.executable, "-c", program), limit_s=limit_s)


def test_a_stage_that_fails_or_hangs_does_not_stop_the_next(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    made = (
        stage("fails", "raise SystemExit(3)"),
        stage("hangs", "import time; time.sleep(60)", limit_s=1.5),
        stage("ends", "print('reached')"),
        stage("unwanted", "print('not me')"),
    )
    monkeypatch.setattr(on_device, "stages", lambda _: made)
    assert on_device.main(["--out", str(tmp_path / "new"), "--stages", "fails,hangs,ends"]) == 1
    told = capfd.readouterr().out
    assert "reached" in told
    assert "not me" not in told
    table = told.partition("outcome\n")[2].splitlines()
    assert [line.split(maxsplit=2)[::2] for line in table] == [
        ["fails", "exit code 3"],
        ["hangs", "stopped after 2 s"],
        ["ends", "ok"],
    ]


def test_a_spent_budget_leaves_stages_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(on_device, "stages", lambda _: (stage("late", "print('ran')"),))
    assert on_device.main(["--out", str(tmp_path), "--budget", "0"]) == 1
    assert "left out: no time left" in capfd.readouterr().out


def test_every_stage_can_be_started(tmp_path: Path) -> None:
    found = on_device.stages(tmp_path)
    assert [stage.name for stage in found] == [
        "sanity", "tests", "ceilings", "run", "peers", "counts",
        "fast-small", "fast-large", "fast-oblong", "errors", "large", "experiments",
    ]  # fmt: skip
    for made in found:
        own = "--only" in made.command
        assert own == (made.name in on_device.BODIES)
        assert made.command[0] == sys.executable


def test_the_rungs_that_are_timed_beside_cublas_are_there() -> None:
    for rungs, shapes, _ in on_device.FAST.values():
        assert catalog.find(rungs)
        assert [str(Shape.parse(shape)) for shape in shapes] == list(shapes)
    assert catalog.find(on_device.ACCURATE)


def test_sanity_without_a_gpu_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("ladder.backends.cuda.find_gpu", lambda: "no driver; install it")
    assert on_device.sanity(tmp_path) == 2


def test_the_scripts_explain_themselves() -> None:
    for name in ("on_device.py", "peers.py", "rates.py", "tune.py"):
        command = [sys.executable, str(ROOT / "bench" / name), "--help"]
        ended = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False, timeout=60)
        assert ended.returncode == 0, ended.stderr
        assert "usage:" in ended.stdout
