"""Where memories and pipes meet, and what moves that: by hand, on recorded cards, and in a report."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.results import KERNELS, make_results
from hypothesis import given
from hypothesis import strategies as st

from ladder.model import Roofs
from ladder.profiles import available, load_profile
from ladder.report import write_report
from ladder.report.ridges import ridge_rows
from ladder.ridges import known_cards, moves, ridges

OLD = Roofs(bytes_per_s={"dram": 1e12, "sm": 10e12}, flop_per_s={"fp32": 10e12})
NEW = Roofs(
    bytes_per_s={"dram": 4e12, "l2": 8e12, "sm": 40e12}, flop_per_s={"bf16": 800e12, "fp32": 80e12, "tf32": 400e12}
)


def test_ridges_are_peak_over_bandwidth_and_factors_against_the_first_row() -> None:
    first, fp32, tf32, bf16 = moves([("old", OLD), ("new", NEW)])
    assert (first.card, first.pipe, fp32.card) == ("old", "fp32", "new")
    assert [row.pipe for row in (fp32, tf32, bf16)] == ["fp32", "tf32", "bf16"]
    assert first.flop_per_byte == {"dram": 10, "sm": 1}
    assert fp32.flop_per_byte == {"dram": 20, "l2": 10, "sm": 2}
    assert fp32.factor == {"dram": 2, "l2": 1, "sm": 2}
    # The old card has no L2 roof: factors there are against the first row that has one.
    assert bf16.factor == {"dram": 20, "l2": 10, "sm": 20}
    assert [row.factor for row in ridges("new", NEW)][1] == {"dram": 5, "l2": 5, "sm": 5}


@given(st.floats(0.1, 100), st.floats(0.1, 100))
def test_a_faster_pipe_moves_every_ridge_right_and_a_faster_memory_its_own_left(pipe: float, memory: float) -> None:
    other = Roofs(bytes_per_s={"dram": 1e12 * memory, "sm": 10e12}, flop_per_s={"fp32": 10e12 * pipe})
    _, moved = moves([("a", OLD), ("b", other)])
    assert moved.factor["dram"] == pytest.approx(pipe / memory)
    assert moved.factor["sm"] == pytest.approx(pipe)


def test_known_cards_are_in_order_of_generation_with_this_card_in_its_place() -> None:
    h200 = load_profile("h200")
    cards = known_cards(h200.device, NEW)
    assert [name for name, _ in cards] == ["Tesla T4", "NVIDIA A100", "NVIDIA H200"]
    assert dict(cards)["NVIDIA H200"] == NEW
    assert dict(cards)["Tesla T4"] == load_profile("t4").roofs
    mine = known_cards(replace(h200.device, name="Mine"), NEW)
    assert len(mine) == len(available()) + 1
    assert mine[-1] == ("Mine", NEW)


def test_a_report_has_the_ridges_of_its_own_roofs_and_of_the_known_cards(tmp_path: Path) -> None:
    results = make_results(256, kernels=KERNELS[:2])
    results = replace(results, roofs=replace(results.roofs, flop_per_s={"fp32": 64.7e12, "bf16": 800e12}))
    again = make_results(512, kernels=KERNELS[:2])
    write_report([results, again], tmp_path)
    text = (tmp_path / "index.md").read_text()
    # Once a card: the second file is of the same.
    assert text.count("### What moves the ridge") == 1
    fp32, bf16 = (64.7 / 4.12, 800 / 4.12)
    assert re.search(rf"\| NVIDIA H200 \| FP32 \| 64.7 TFLOP/s \| {fp32:.1f} \(× 0.535\) \|", text)
    assert re.search(rf"\| NVIDIA H200 \| BF16 \| 800 TFLOP/s \| {bf16:.0f} \(× 6.62\) \|", text)
    assert re.search(r"\| Tesla T4 \| FP32 \| 7.18 TFLOP/s \| 29.3 \(× 1.00\) \| – \|", text)
    page = (tmp_path / "index.html").read_text()
    for row in ridge_rows(results):
        assert all(f">{point}<" in page for point in row.points)
        assert row.own == (row.card == "NVIDIA H200")
