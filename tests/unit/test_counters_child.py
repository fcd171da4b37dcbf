"""What the profiled process does, against a double of ``cuda.core``."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, get_args

import pytest
from helpers.fake_cuda import installed

from ladder.backends import gpu
from ladder.catalog import find
from ladder.counters import child
from ladder.counters.batches import Caches
from ladder.errors import BackendError
from ladder.model import Shape


@pytest.mark.parametrize("caches", get_args(Caches))
def test_only_one_product_of_each_job_is_profiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caches: Caches
) -> None:
    events: list[str] = []
    monkeypatch.setattr(gpu.Gpu, "evict_l2", lambda _gpu: events.append("evict"))

    def note(launch: Any) -> None:
        events.append(f"{launch.kernel} {int(launch.arguments[3])}")

    rungs = find(["naive", "tiled_16"])
    jobs = [[str(rung.path), rung.name, shape] for shape in ("8x8x8", "1048593x1x1") for rung in rungs]
    spec = tmp_path / "jobs.json"
    progress = tmp_path / "progress"
    spec.write_text(json.dumps({"caches": caches, "jobs": jobs, "progress": str(progress)}), encoding="utf-8")
    with installed(kernels={"naive": note, "tiled_16": note}):
        monkeypatch.setattr("cuda.bindings.driver.cuProfilerStart", lambda: events.append("start"))
        monkeypatch.setattr("cuda.bindings.driver.cuProfilerStop", lambda: events.append("stop"))
        assert child.main([str(spec)]) == 0
    products = [["naive 8"], ["tiled_16 8"], ["naive 1048593"], ["tiled_16 1048560", "tiled_16 33"]]
    expected = []
    for product in products:
        before = {"warm": product, "cold": [], "cold at first": ["evict"]}[caches]
        expected.append([*before, "start", *product, "stop"])
    assert events == [event for job in expected for event in job]
    ready, *told = progress.read_text(encoding="utf-8").splitlines()
    assert ready == f"ready {os.getpid()}"
    assert told == ["begin", "end"] * len(jobs)


def test_a_failure_is_said_on_the_error_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu, "find_gpu", lambda: "no driver; install it")
    spec = tmp_path / "jobs.json"
    progress = tmp_path / "progress"
    spec.write_text(json.dumps({"caches": "cold", "jobs": [], "progress": str(progress)}), encoding="utf-8")
    assert child.main([str(spec)]) == 1
    assert "install it" in capsys.readouterr().err
    assert progress.read_text(encoding="utf-8") == "failed no driver; install it\n"


@pytest.mark.parametrize("memory", ["device", "host"])
def test_memory_that_runs_out_is_the_failure_of_that_product(
    memory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    progress, spec = tmp_path / "progress", tmp_path / "jobs.json"
    rung = find(["naive"])[0]
    jobs = [[str(rung.path), rung.name, shape] for shape in ("8x8x8", "16x8x8", "24x8x8")]
    spec.write_text(json.dumps({"caches": "cold", "jobs": jobs, "progress": str(progress)}), encoding="utf-8")
    with installed(kernels={"naive": lambda _launch: None}):
        real = child._operands

        def refuse(shape: Shape) -> Any:
            if shape.m != 16:
                return real(shape)
            raise MemoryError if memory == "host" else BackendError("no memory\nfor A")

        monkeypatch.setattr("cuda.bindings.driver.cuProfilerStart", lambda: None)
        monkeypatch.setattr("cuda.bindings.driver.cuProfilerStop", lambda: None)
        monkeypatch.setattr(child, "_operands", refuse)
        assert child.main([str(spec)]) == 1
    _, *told, failed = progress.read_text(encoding="utf-8").splitlines()
    assert told == ["begin", "end", "begin"]
    assert (
        failed == f"failed {'the host has not the memory for its operands' if memory == 'host' else 'no memory for A'}"
    )
