"""One run, right rungs between broken ones: each broken one loses its own row and no other. On the CPU."""

from __future__ import annotations

from pathlib import Path

from helpers.command import ladder, rows
from helpers.kernels import MUTANTS

BROKEN = Path(__file__).parents[1] / "helpers" / "broken"


def test_broken_rungs_lose_their_own_rows(tmp_path: Path) -> None:
    out = tmp_path / "r.json"
    rungs = ("naive", BROKEN / "illegal_address.cu", "tiled_16", MUTANTS / "endless.cu", "coalesced")
    answer = ladder("run", *rungs, "--backend", "emulated", "--shape", "33x17x9", "--json", out)
    assert answer.returncode == 1
    found = rows(out)
    for name in ("naive", "tiled_16", "coalesced"):
        assert found[name]["check"]["passed"], name
        assert found[name]["traffic"], name
    assert "illegal_address.cu" in str(found["illegal_address"]["check"]["failure"])
    assert "endless loop" in str(found["endless"]["check"]["failure"])
    assert all(found[name]["traffic"] is None for name in ("illegal_address", "endless"))
