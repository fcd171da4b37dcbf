"""What warps did and waited for: the record refuses nonsense, adds up launches, and survives a file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.results import KERNELS, make_results, make_run
from hypothesis import given
from hypothesis import strategies as st

from ladder.model import Activity, all_of
from ladder.store import load, save, to_json

WHOLE = Activity(
    origin="counted",
    fadd=3,
    fmul=5,
    ffma=7,
    tensor_instructions=0,
    occupancy=0.5,
    busy=0.9,
    issue_active=0.25,
    stalls={"wait": 0.1, "mio_throttle": 0.4, "barrier": 0.1},
)


def test_an_ffma_is_two_flop() -> None:
    assert WHOLE.flop == 3 + 5 + 2 * 7
    assert replace(WHOLE, fmul=None).flop is None


def test_the_leading_stall_comes_first() -> None:
    assert WHOLE.leading_stalls == (("mio_throttle", 0.4), ("barrier", 0.1), ("wait", 0.1))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ffma": -1}, "ffma -1 < 0"),
        ({"occupancy": 1.5}, "occupancy 1.5"),
        ({"busy": float("nan")}, "busy nan"),
        ({"stalls": {"wait": -0.1}}, "wait -0.1"),
        ({"origin": "guessed"}, "origin 'guessed'"),
    ],
)
def test_nonsense_is_refused(change: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        replace(WHOLE, **change)  # type: ignore[arg-type]


counts = st.none() | st.integers(0, 2**50)
activities = st.builds(Activity, origin=st.just("emulated"), fadd=counts, fmul=counts, ffma=counts)


@given(parts=st.lists(activities, min_size=1, max_size=4))
def test_launches_add_up_and_an_unknown_one_makes_the_sum_unknown(parts: list[Activity]) -> None:
    total = all_of(parts)
    assert total is not None
    flops = [part.flop for part in parts]
    assert total.flop == (None if None in flops else sum(flop for flop in flops if flop is not None))
    assert all_of([*parts, None]) is None


def test_no_launch_has_no_sum() -> None:
    with pytest.raises(ValueError, match="no launch"):
        all_of([])


def test_it_is_kept_in_results_and_older_files_have_none(tmp_path: Path) -> None:
    rows = (replace(make_run(KERNELS[3]), activity=WHOLE), make_run(KERNELS[4]))
    results = replace(make_results(), runs=rows)
    save(results, tmp_path / "r.json")
    assert load(tmp_path / "r.json") == results
    first, second = to_json(results)["runs"]
    assert json.loads(json.dumps(first["activity"]))["flop"] == 22
    assert "activity" not in second
    emulated = replace(make_run(KERNELS[3]), activity=Activity(origin="emulated", ffma=4))
    assert set(to_json(replace(results, runs=(emulated,)))["runs"][0]["activity"]) == {"origin", "ffma", "stalls"}
