"""Why a run is below its roof: the clock, too little concurrency, or the wait that its counters name."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers.results import H200_ROOFS, KERNELS, make_run
from hypothesis import given
from hypothesis import strategies as st

from ladder.climb import implausible
from ladder.counters.metrics import STALLS as COUNTED
from ladder.model import LEVELS, Activity, Quantity, Resources, Shape, Timing, Traffic
from ladder.report.causes import Cause, Launch, causes, counted
from ladder.report.diagnose import read
from ladder.report.stalls import STALLS, leading, told
from ladder.roofline import above, place
from ladder.store import Run

TILED = make_run(next(k for k in KERNELS if k.name == "tiled_32"), 4096, timed=True)
BUSY = Activity(
    origin="counted", ffma=2**36, fadd=0, fmul=0, tensor_instructions=0, occupancy=0.9, busy=0.98, issue_active=0.4,
    stalls={"mio_throttle": 0.55, "not_selected": 0.6 - 0.55 + 0.15, "wait": 0.11, "barrier": 0.05},
)  # fmt: skip
MANY = Launch(sm_count=132, blocks=16384, blocks_per_sm=2, roof_clock_hz=1.98e9)


def at(fraction: float, **changes: object) -> Run:
    """The run at this share of its roof."""
    assert TILED.placement is not None
    rate = fraction * TILED.placement.roof_flop_per_s
    seconds = TILED.shape.flop / rate
    timed = replace(TILED, time=Timing(median=seconds, p20=seconds, p80=seconds, samples=9), **changes)  # type: ignore[arg-type]
    return replace(timed, placement=place(timed.intensity, H200_ROOFS, flop_per_s=rate))


def test_every_reason_that_is_counted_has_its_words() -> None:
    assert set(STALLS) == {*COUNTED, "other"}
    for stall in STALLS.values():
        assert stall.lever.endswith(".")
        assert not stall.waits_for.endswith(".")


def test_waiting_for_a_turn_is_named_last_and_small_shares_not_at_all() -> None:
    assert [reason for reason, _ in leading(BUSY)] == ["mio_throttle", "wait", "not_selected"]
    assert told(leading(BUSY)).startswith("room in the queue to shared memory (mio_throttle, 55 % of their time), then")


@pytest.mark.parametrize(
    ("change", "launch", "kind", "words"),
    [
        ({"sm_clock_hz": 1.4e9, "power_w": 690.0}, {}, "clocks", "1.40 GHz at 690 W, 71 % of that"),
        (
            {"activity": replace(BUSY, busy=0.4)},
            {"blocks": 64},
            "concurrency",
            "64 threadblocks for 132 SMs, and SMs that",
        ),
        ({"activity": None}, {"blocks": 64}, "concurrency", "64 threadblocks for 132 SMs: use smaller tiles"),
        ({"activity": None}, {"blocks": 300}, "concurrency", "1.14 waves of threadblocks, which fill 57 %"),
        ({"activity": replace(BUSY, busy=0.5)}, {}, "concurrency", "SMs that have a warp in 50 % of their cycles"),
        ({"activity": replace(BUSY, occupancy=0.1)}, {}, "concurrency", "an occupancy of 10 %"),
        ({"resources": Resources(registers=255, smem_bytes=0, spill_bytes=64)}, {}, "spills", "64 bytes of spilled"),
        ({"activity": BUSY}, {}, "stalls", "room in the queue to shared memory"),
        ({"activity": replace(BUSY, issue_active=0.93)}, {}, "issue", "issued in 93 % of the cycles"),
    ],
)
def test_the_first_suspect(change: dict[str, object], launch: dict[str, int], kind: str, words: str) -> None:
    run = at(0.3, **change)
    found = causes(run, replace(MANY, **launch))
    assert found[0].kind == kind
    reading = read(run, H200_ROOFS, sm_count=132, blocks=launch.get("blocks", 16384), blocks_per_sm=2,
                   roof_clock_hz=1.98e9)  # fmt: skip
    assert reading.cause == kind
    assert words in reading.lever
    assert "First suspect" in reading.lever


def test_blocks_that_stay_on_their_sm_may_be_as_few_as_the_sms() -> None:
    """A persistent kernel: counters show that no SM idles, so its few threadblocks are no cause."""
    found = causes(at(0.3, activity=BUSY), Launch(sm_count=132, blocks=132, blocks_per_sm=1))
    assert [cause.kind for cause in found] == ["stalls"]
    assert causes(at(0.3), Launch(sm_count=132, blocks=132, blocks_per_sm=1))[0].kind == "concurrency"


def test_few_warps_are_enough_where_the_schedulers_issue_all_the_time() -> None:
    found = causes(at(0.3, activity=replace(BUSY, occupancy=0.12, issue_active=0.9)), MANY)
    assert [cause.kind for cause in found] == ["issue"]


def test_nearer_the_roof_one_cause_is_told_beside_the_roofs_own_lever() -> None:
    reading = read(at(0.6, activity=BUSY), H200_ROOFS)
    assert reading.lever.startswith("Give each thread a larger tile")
    assert "What is missing to the roof: warps wait for room in the queue to shared memory" in reading.lever
    assert reading.cause == "stalls"
    on_it = read(at(0.95, activity=BUSY), H200_ROOFS)
    assert on_it.cause == ""
    assert "missing" not in on_it.lever


def test_what_warps_did_is_told_in_a_sentence() -> None:
    text = read(at(0.95, activity=BUSY), H200_ROOFS).counted
    assert text.startswith("Counters: 137 GFLOP in FP32 instructions (exactly 2MNK), 90 % of an SM's warps resident, ")
    assert "an instruction issued in 40 % of the cycles. Warps wait for room" in text
    assert counted(None, 10) == ""
    assert "1.50 times 2MNK" in counted(Activity(origin="emulated", fadd=0, fmul=0, ffma=150), 200)
    tensor = Activity(origin="counted", fadd=0, fmul=0, ffma=0, tensor_instructions=5000)
    assert counted(tensor, 10**9) == "Counters: 5,000 tensor instructions."
    constants = Activity(origin="counted", fadd=0, fmul=0, ffma=100, tensor_instructions=7)
    assert counted(constants, 200) == "Counters: 200 FLOP in FP32 instructions (exactly 2MNK)."


@pytest.mark.parametrize("level", ["dram", "l2", "sm", "shared", "fp32"])
def test_a_rate_above_any_roof_is_noticed_and_each_roof_is_named(level: str) -> None:
    intensity: dict[str, float] = {"dram": 500.0, "l2": 500.0, "sm": 500.0, "shared": 501.0}
    if level != "fp32":
        intensity[level] = 1.0
    if level == "sm":
        intensity["shared"] = 1.0
    placement = place(intensity, H200_ROOFS, flop_per_s=1.0)  # type: ignore[arg-type]
    bound = placement.bounds_flop_per_s[level]
    assert level in above(placement, 1.03 * bound)
    assert above(placement, 1.01 * placement.roof_flop_per_s) == {}
    assert above(placement, None) == {}


def test_a_row_above_its_roofs_says_which() -> None:
    run = at(1.2)
    binds = read(run, H200_ROOFS).binds
    assert "which no kernel can: the ceiling or the bytes are wrong" in binds
    assert "120 % of the bound of the SM data pipe" in binds


shares = st.floats(0, 1)
maybe = st.none() | shares
activities = st.builds(
    Activity, origin=st.sampled_from(["counted", "emulated"]), fadd=st.none() | st.integers(0, 2**60),
    fmul=st.none() | st.integers(0, 2**60), ffma=st.none() | st.integers(0, 2**60),
    tensor_instructions=st.none() | st.integers(0, 2**50), occupancy=maybe, busy=maybe, issue_active=maybe,
    stalls=st.dictionaries(st.sampled_from([*STALLS, "a_new_reason"]), shares),
)  # fmt: skip
traffics = st.builds(
    lambda sizes: Traffic(levels={level: Quantity(bytes=size, origin="counted") for level, size in sizes.items()}),
    st.dictionaries(st.sampled_from(LEVELS), st.integers(0, 2**50)),
)


@given(
    traffic=traffics,
    activity=st.none() | activities,
    seconds=st.none() | st.floats(1e-9, 1e3),
    edge=st.integers(1, 8192),
    resources=st.none()
    | st.builds(Resources, registers=st.integers(0, 255), smem_bytes=st.integers(0, 2**18),
                spill_bytes=st.integers(0, 999), occupancy=maybe),
    blocks=st.none() | st.integers(0, 10**6),
    blocks_per_sm=st.none() | st.integers(1, 32),
    clock=st.none() | st.floats(1e8, 3e9),
)  # fmt: skip
def test_every_placed_run_has_a_level_a_lever_and_no_exception(
    traffic: Traffic, activity: Activity | None, seconds: float | None, edge: int, resources: Resources | None,
    blocks: int | None, blocks_per_sm: int | None, clock: float | None,
) -> None:  # fmt: skip
    shape = Shape(m=edge, n=edge, k=edge)
    time = None if seconds is None else Timing(median=seconds, p20=seconds, p80=seconds, samples=3)
    run = Run(
        rung="any", title="Any", kind="rung", shape=shape, time=time, traffic=traffic, activity=activity,
        resources=resources, sm_clock_hz=clock,
    )  # fmt: skip
    run = replace(run, placement=place(run.intensity, H200_ROOFS, flop_per_s=run.flop_per_s))
    reading = read(run, H200_ROOFS, sm_count=132, blocks=blocks, blocks_per_sm=blocks_per_sm, roof_clock_hz=1.98e9)
    assert run.placement is not None
    named = {"dram": "DRAM", "l2": "L2", "sm": "data pipe", "shared": "hared memory", "fp32": "FP32"}
    assert named[run.placement.bound_by] in reading.binds
    assert reading.lever.endswith(".")
    assert "None" not in f"{reading.sentence}{reading.counted}"
    assert reading.cause in {"", "clocks", "concurrency", "launch", "spills", "issue", "stalls"}


def test_a_cause_reads_as_one_text() -> None:
    assert Cause("launch", "1 us is short", "use more").text == "1 us is short: use more"


def test_a_run_and_a_report_say_in_a_line_what_lies_above_its_roofs() -> None:
    (line,) = implausible([at(0.99), at(1.2), replace(at(1.2), placement=None)])
    assert line.startswith("tiled_32 at 4096x4096x4096 runs at ")
    assert "120% of what sm allows" in line
    assert "l2" not in line
    assert line.endswith("a roof or a count is wrong.")
