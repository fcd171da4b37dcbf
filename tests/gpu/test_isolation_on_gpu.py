"""An illegal address, a hang or a lack of memory loses its own row, and under ncu its own counters. On a GPU."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from helpers.command import ladder
from helpers.kernels import MUTANTS

from ladder.catalog import find
from ladder.counters import ncu_status, profile_products
from ladder.model import Shape

pytestmark = pytest.mark.gpu

BROKEN = Path(__file__).parents[1] / "helpers" / "broken"
ILLEGAL, ENDLESS = BROKEN / "illegal_address.cu", MUTANTS / "endless.cu"
HUGE = "400000x400000x8"
"""C takes 640 GB."""


def test_a_broken_rung_loses_its_own_row(tmp_path: Path) -> None:
    out = tmp_path / "r.json"
    answer = ladder(
        *("run", "naive", ILLEGAL, "coalesced", ENDLESS, "tiled_16"),
        *("--backend", "cuda", "--profile", "h200", "--timeout", "15", "--shape", HUGE, "--shape", "33x17x9"),
        *("--json", out),
    )
    assert answer.returncode == 1, answer.stderr
    found = {(r["rung"], r["shape"]["m"]): r for r in json.loads(out.read_text(encoding="utf-8"))["runs"]}
    assert len(found) == 10
    for (name, rows), row in found.items():
        why = str(row["error"] or (row["check"] or {}).get("failure"))
        if rows == 400000:
            assert "memory" in why.lower(), (name, why)
        elif name == "illegal_address":
            assert "ILLEGAL_ADDRESS" in why
        elif name == "endless":
            assert "no end after 15 s" in why
        else:
            assert row["check"]["passed"], (name, why)
            assert row["time_s"]["median"] > 0
            assert row["traffic"] is not None


def test_under_ncu_a_broken_product_loses_its_own_counters() -> None:
    reason = ncu_status()
    if reason is not None:
        pytest.skip(reason)
    small = Shape(m=33, n=17, k=9)
    rungs = find(["naive", str(ILLEGAL), "coalesced", str(ENDLESS), "tiled_16"])
    start = time.monotonic()
    found = profile_products([(rung, small) for rung in rungs], cold=True, limit_s=15)
    assert time.monotonic() - start < 240
    assert [name for name, _ in found.traffic] == ["naive", "coalesced", "tiled_16"]
    lost = {name: why for (name, _), why in found.lost.items()}
    assert set(lost) == {"illegal_address", "endless"}
    assert "did not end within 15 s" in lost["endless"]
    assert all(found.activity[key].flop for key in found.traffic)
