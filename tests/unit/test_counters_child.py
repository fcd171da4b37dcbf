"""What the profiled process does, against a double of ``cuda.core``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.fake_cuda import installed

from ladder.backends import gpu
from ladder.catalog import find
from ladder.counters import child


@pytest.mark.parametrize(("warm", "before"), [(True, 1), (False, 0)])
def test_only_one_product_of_each_job_is_profiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warm: bool, before: int
) -> None:
    events: list[str] = []

    def note(launch: Any) -> None:
        events.append(f"{launch.kernel} {int(launch.arguments[3])}")

    rungs = find(["naive", "tiled_16"])
    jobs = [[str(rung.path), rung.name, shape] for shape in ("8x8x8", "1048593x1x1") for rung in rungs]
    spec = tmp_path / "jobs.json"
    spec.write_text(json.dumps({"warm": warm, "jobs": jobs}), encoding="utf-8")
    with installed(kernels={"naive": note, "tiled_16": note}):
        monkeypatch.setattr("cuda.bindings.driver.cuProfilerStart", lambda: events.append("start"))
        monkeypatch.setattr("cuda.bindings.driver.cuProfilerStop", lambda: events.append("stop"))
        assert child.main([str(spec)]) == 0
    products = [["naive 8"], ["tiled_16 8"], ["naive 1048593"], ["tiled_16 1048560", "tiled_16 33"]]
    expected = [[*(before * product), "start", *product, "stop"] for product in products]
    assert events == [event for job in expected for event in job]


def test_a_failure_is_said_on_the_error_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu, "find_gpu", lambda: "no driver; install it")
    spec = tmp_path / "jobs.json"
    spec.write_text(json.dumps({"warm": False, "jobs": []}), encoding="utf-8")
    assert child.main([str(spec)]) == 1
    assert "install it" in capsys.readouterr().err
