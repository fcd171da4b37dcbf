"""Where the counts of a GPU's rows come from: its counters, else the emulator, else nowhere; and it is said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from helpers.results import H200_ROOFS, h200

from ladder import catalog
from ladder.cli import counting
from ladder.cli.counting import counted
from ladder.cli.session import Limits, Session
from ladder.climb import blank
from ladder.counters import Profiled
from ladder.errors import BackendError
from ladder.model import Activity, Check, Quantity, Rung, Shape, Timing, Traffic
from ladder.profiles import load_profile
from ladder.store import Run

SMALL, LARGE = Shape(m=33, n=17, k=9), Shape(m=4096, n=4096, k=4096)
RIGHT = Check(passed=True, exact_integers=True, worst_error_over_bound=0.01)
COUNTS = Traffic(levels={"sm": Quantity(bytes=4096, origin="counted")})
ACTIVITY = Activity(origin="counted", occupancy=0.5)


def session(*shapes: Shape, rungs: Sequence[str] = ("naive", "tiled")) -> Session:
    return Session(
        backend="cuda",
        profile=load_profile("h200"),
        device=h200(timed=True),
        roofs=H200_ROOFS,
        rungs=catalog.find(rungs),
        shapes=shapes,
        limits=Limits(timeout_s=100),
        about="",
    )


def climbed(made: Session, check: Check | None = RIGHT) -> list[Run]:
    timing = Timing(median=1e-6, p20=1e-6, p80=1e-6, samples=3)
    return [replace(blank(*job), check=check, time=timing) for job in made.jobs]


class Ncu:
    """Stands for the profiled run; remembers what was asked of it."""

    def __init__(self, error: str | None = None, lost: Sequence[str] = ()) -> None:
        self.error, self.lost = error, lost
        self.asked: list[tuple[str, Shape]] = []
        self.limit_s = 0.0

    def __call__(self, jobs: Sequence[tuple[Rung, Shape]], *, cold: bool, limit_s: float) -> Profiled:
        assert cold
        self.limit_s = limit_s
        keys = [(rung.name, shape) for rung, shape in jobs]
        self.asked += keys
        if self.error is not None:
            raise BackendError(self.error)
        kept = [key for key in keys if key[0] not in self.lost]
        return Profiled(
            traffic=dict.fromkeys(kept, COUNTS),
            activity=dict.fromkeys(kept, ACTIVITY),
            lost={key: "ncu did not end within 60 s" for key in keys if key not in kept},
            notes=("not counted: FP32 instructions: this ncu is old",),
        )


@pytest.fixture
def ncu(monkeypatch: pytest.MonkeyPatch) -> Ncu:
    stand_in = Ncu()
    monkeypatch.setattr(counting, "ncu_status", lambda: None)
    monkeypatch.setattr(counting, "profile_products", stand_in)
    return stand_in


def test_the_gpus_counters_place_every_right_row(ncu: Ncu) -> None:
    made = session(LARGE, SMALL)
    runs = counted(made, climbed(made))
    assert ncu.asked == [(rung.name, shape) for rung, shape in made.jobs]
    assert ncu.limit_s == pytest.approx(60, abs=0.1)
    for run in runs:
        assert run.traffic == COUNTS
        assert run.activity == ACTIVITY
        assert run.placement is not None
        assert run.placement.fraction is not None


def test_what_is_wrong_is_not_counted(ncu: Ncu) -> None:
    made = session(SMALL)
    runs = climbed(made)
    runs[0] = replace(runs[0], check=replace(RIGHT, passed=False, failure="no"))
    runs[1] = replace(runs[1], check=None, skipped="too old")
    runs[2] = replace(runs[2], error="the device has gone")
    out = counted(made, runs)
    assert [run.traffic for run in out] == [None, None, None, COUNTS]
    assert ncu.asked == [("tiled_64", SMALL)]


def test_what_ncu_loses_is_said_and_costs_its_own_row_alone(ncu: Ncu, capsys: pytest.CaptureFixture[str]) -> None:
    ncu.lost = ("tiled_16",)
    made = session(SMALL)
    runs = {run.rung: run for run in counted(made, climbed(made))}
    assert runs["tiled_16"].traffic is None
    assert runs["tiled_16"].check == RIGHT
    assert runs["tiled_32"].placement is not None
    output = capsys.readouterr().out
    assert "No counts of tiled_16 at 33x17x9: ncu did not end within 60 s.\n" in output
    assert "Not counted: FP32 instructions: this ncu is old.\n" in output


def test_a_long_product_may_take_longer_under_ncu_but_not_longer_than_a_rung(ncu: Ncu) -> None:
    made = session(SMALL)
    slow = Timing(median=0.1, p20=0.1, p80=0.1, samples=3)
    counted(made, [replace(run, time=slow) for run in climbed(made)])
    assert ncu.limit_s == pytest.approx(80)
    counted(replace(made, limits=Limits(timeout_s=7)), climbed(made))
    assert ncu.limit_s == 7


def test_tensor_cores_are_not_placed_under_the_fp32_roof(ncu: Ncu) -> None:
    made = session(LARGE, rungs=["tensor_tf32"])
    run = counted(made, climbed(made))[0]
    assert run.placement is not None
    assert "fp32" not in run.placement.bounds_flop_per_s


def test_nothing_right_asks_nobody(ncu: Ncu) -> None:
    made = session(SMALL)
    runs = climbed(made, check=None)
    assert counted(made, runs) == tuple(runs)
    assert ncu.asked == []


@pytest.mark.parametrize("how", ["missing", "fails"])
def test_without_counters_small_shapes_are_emulated_and_it_is_said(
    how: str, ncu: Ncu, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if how == "missing":
        monkeypatch.setattr(counting, "ncu_status", lambda: "there is no ncu; install it")
    else:
        ncu.error = "there is no ncu; install it"
    made = session(SMALL, LARGE)
    runs = {(run.rung, run.shape): run for run in counted(made, climbed(made))}
    small, large = runs["tiled_32", SMALL], runs["tiled_32", LARGE]
    assert small.traffic is not None
    assert small.traffic.levels["l1"].origin == "emulated"
    assert small.placement is not None
    assert small.placement.fraction is not None
    assert large.traffic is None
    assert large.placement is None
    output = capsys.readouterr().out
    assert "No hardware counters: there is no ncu; install it.\n" in output
    assert "4 rows stay without counts" in output


def test_without_counters_large_shapes_are_left_alone(
    ncu: Ncu, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(counting, "ncu_status", lambda: "there is no ncu")
    made = session(LARGE)
    runs = climbed(made)
    assert counted(made, runs) == tuple(runs)
    assert "Counting" not in capsys.readouterr().out
