"""The command line on a real GPU: rungs run there, are timed, and their numbers say where they come from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.command import ladder, rows
from helpers.kernels import MUTANTS

pytestmark = pytest.mark.gpu

SHAPES = ("--shape", "512x512x512", "--shape", "35x79x19")


def test_run_on_the_gpu(tmp_path: Path) -> None:
    out = tmp_path / "r.json"
    answer = ladder("run", "naive", "tiled_32", "register_tile", "--backend", "cuda", *SHAPES, "--json", out)
    assert answer.returncode == 0, answer.stderr
    data = json.loads(out.read_text(encoding="utf-8"))
    assert data["device"]["backend"] == "cuda"
    assert data["device"]["driver"]
    assert {roof["origin"] for roof in data["ceilings"].values()} == {"measured"}
    assert len(data["runs"]) == 6
    for run in data["runs"]:
        assert run["check"]["passed"]
        assert 0 < run["time_s"]["p20"] <= run["time_s"]["median"] <= run["time_s"]["p80"]
        assert run["flop_per_s"] > 0
        assert {level["origin"] for level in run["traffic"].values()} <= {"counted", "emulated", "modelled"}
        assert run["placement"]["roof_flop_per_s"] > 0


def test_auto_takes_the_gpu(tmp_path: Path) -> None:
    out = tmp_path / "r.json"
    assert ladder("run", "naive", "--shape", "64x64x64", "--json", out).returncode == 0
    assert json.loads(out.read_text(encoding="utf-8"))["device"]["backend"] == "cuda"


def test_an_illegal_access_does_not_hurt_the_next_rung(tmp_path: Path) -> None:
    # A misaligned vector access ends the CUDA context of its process.
    out = tmp_path / "r.json"
    answer = ladder(
        "run", MUTANTS / "misaligned_vector.cu", "naive", "--backend", "cuda", "--shape", "33x17x9", "--json", out
    )
    assert answer.returncode == 1
    found = rows(out)
    assert found["misaligned_vector"]["error"] or not found["misaligned_vector"]["check"]["passed"]
    assert found["naive"]["check"]["passed"]


def test_check_on_the_gpu() -> None:
    assert ladder("check", "tiled_16", "--backend", "cuda", "--examples", "10").returncode == 0
    answer = ladder("check", MUTANTS / "last_k_missing.cu", "--backend", "cuda", "--examples", "10")
    assert answer.returncode == 1
    assert "smallest failing shape 1x1x1" in answer.stdout


def test_doctor_names_the_gpu() -> None:
    answer = ladder("doctor")
    assert answer.returncode == 0
    assert "ok      GPU: " in answer.stdout
