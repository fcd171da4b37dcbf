"""The scripts of docs/examples run from any folder, and what docs/python.md shows is so."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import ladder

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.py"))


def blocks_of(path: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)


@cache
def ran(script: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}
    words = [sys.executable, str(script)]
    return subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("elsewhere")


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs_and_prints(script: Path, elsewhere: Path) -> None:
    answer = ran(script, elsewhere)
    assert answer.returncode == 0, answer.stderr
    assert answer.stderr == ""
    assert len(answer.stdout.splitlines()) > 10
    assert max(len(line) for line in answer.stdout.splitlines()) < 160
    assert list(elsewhere.iterdir()) == []


def test_first_steps_prints_what_is_so(elsewhere: Path) -> None:
    (script,) = (path for path in EXAMPLES if path.name == "first_steps.py")
    assert script.read_text(encoding="utf-8").count("# %%") >= 12
    printed = ran(script, elsewhere).stdout
    assert "same bits from tiled_32: True" in printed
    assert "transposed views: True" in printed
    run = ladder.run("tiled_32", "128x128x128", backend="emulated")
    assert run.placement is not None
    measured = rf"{run.intensity['l1']:.2f} +{run.intensity['shared']:.3f}"
    assert re.search(rf"^tiled_32 +True +{measured} +shared$", printed, re.MULTILINE)
    assert re.search(rf"^h200 +shared +{run.placement.roof_flop_per_s / 1e12:.2f} +15%$", printed, re.MULTILINE)
    assert re.search(r"^register_tile +30\.\d\d +46%$", printed, re.MULTILINE)
    assert re.search(r"^stream_k +53\.\d\d +82%$", printed, re.MULTILINE)


def test_the_pages_code_does_what_its_comments_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    multiply, results, table = blocks_of(ROOT / "docs" / "python.md")
    names: dict[str, object] = {}
    exec(multiply.replace("b)", 'b, backend="emulated")', 1).replace('e")', 'e", backend="emulated")'), names)
    a, b = names["a"], names["b"]
    assert isinstance(a, np.ndarray)
    np.testing.assert_allclose(names["c"], a @ b, rtol=1e-5)
    exec(results, names)
    run = names["run"]
    assert isinstance(run, ladder.Run)
    assert run.traffic is not None
    shared = run.traffic.levels["shared"]
    assert f"# {(shared.bytes, shared.origin)}" in results
    assert run.time is None
    exec(table.split("\n", 1)[0], names)
    assert names["rows"] == ladder.rows(names["results"])
    assert {"rung", "flop_per_s", "bound_by", "share_of_bound", "n"} <= set(names["rows"][0])
