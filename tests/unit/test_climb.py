"""One row: what runs, in which order, and what a row that went wrong is not allowed to hold. The backend is a fake."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Literal, get_args

import numpy as np
import pytest
from helpers import fake_backend as fake
from helpers.fake_backend import F32, FakeBackend, fake_kernel
from helpers.results import H200_ROOFS

from ladder import climb as climbing
from ladder.backends.base import Outcome
from ladder.climb import Climber, Searcher, blank, climb, why_skipped
from ladder.errors import (
    BackendError,
    CompileError,
    KernelFaultError,
    LadderError,
    NvrtcMissingError,
    UnsupportedPtxError,
)
from ladder.model import (
    Device,
    Level,
    Precision,
    Quantity,
    Resources,
    Roofs,
    Rung,
    Shape,
    TensorTile,
    Timing,
    Traffic,
    Watched,
)
from ladder.nvrtc import Compiled
from ladder.profiles import load_profile

SHAPE = Shape(m=35, n=79, k=19)
TIMING = Timing(median=2e-6, p20=1e-6, p80=3e-6, samples=5)
BYTES: dict[Level, int] = {"dram": 8000, "l2": 20000, "l1": 40000, "shared": 200000, "sm": 250000}
TRAFFIC = Traffic(levels={level: Quantity(bytes=value, origin="emulated") for level, value in BYTES.items()})


class Recorder(FakeBackend):
    """A fake that counts and times, and remembers what it was asked for."""

    name: Literal["cuda", "emulated"] = "cuda"

    def __init__(self, bug: Callable[..., Outcome] | None = None, *, timing: Timing | None = TIMING) -> None:
        super().__init__(bug)
        self.timing = timing
        self.asked: list[str] = []
        self.timed: tuple[F32, F32] | None = None

    def run(
        self, kernel: Compiled, a: F32, b: F32, *, count: bool = False, offsets: tuple[int, int, int] = (0, 0, 0)
    ) -> Outcome:
        self.asked.append("count" if count else "check")
        outcome = super().run(kernel, a, b, offsets=offsets)
        return replace(outcome, traffic=TRAFFIC) if count else outcome

    def time(self, kernel: Compiled, a: F32, b: F32, *, cold: bool = False) -> Timing | None:
        self.asked.append("cold time" if cold else "time")
        self.timed = (a, b)
        return self.timing


@pytest.fixture(autouse=True)
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(climbing, "compile_rung", lambda rung, *, arch: replace(fake_kernel(), rung=rung, arch=arch))


def rung(**changes: object) -> Rung:
    return fake_kernel(**({"source": "text\n", "law": "c_stationary"} | changes)).rung


def test_a_right_rung_has_everything() -> None:
    backend = Recorder()
    row = climb(rung(), SHAPE, backend, H200_ROOFS)
    assert row.rung == "fake"
    assert row.source_sha256 == hashlib.sha256(b"text\n").hexdigest()
    assert row.skipped is None
    assert row.error is None
    assert row.check is not None
    assert row.check.passed
    assert row.traffic == TRAFFIC
    assert row.time == TIMING
    assert row.resources == fake.RESOURCES
    assert row.law is not None
    assert set(row.law.predicted) == {"l1", "shared"}
    assert row.placement is not None
    assert row.placement.bound_by == "shared"
    roof = SHAPE.flop / BYTES["sm"] * H200_ROOFS.bytes_per_s["sm"]
    assert row.placement.roof_flop_per_s == pytest.approx(roof)
    assert row.placement.fraction == pytest.approx(SHAPE.flop / TIMING.median / roof)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("precision", get_args(Precision))
def test_tensor_cores_have_a_roof_of_their_own_or_none(precision: Precision, known: bool) -> None:
    peaks = {"fp32": 1e12, "tf32": 4e12} if known else {"fp32": 1e12}
    row = climb(rung(precision=precision), SHAPE, Recorder(), replace(H200_ROOFS, flop_per_s=peaks))
    assert row.placement is not None
    bounds = row.placement.bounds_flop_per_s
    pipes = {name: bounds[name] for name in bounds.keys() - {"dram", "l2", "sm", "shared"}}
    # Split operands take three TF32 products.
    own = {"fp32": {"fp32": 1e12}, "tf32": {"tf32": 4e12}, "fp32_split": {"tf32": pytest.approx(4e12 / 3)}}[precision]
    assert pipes == {name: peak for name, peak in own.items() if name in peaks}


def test_what_nothing_bounds_has_no_place() -> None:
    bare = Roofs(bytes_per_s={}, flop_per_s={"fp32": 1e12})
    row = climb(rung(precision="tf32"), SHAPE, Recorder(), bare)
    assert row.traffic == TRAFFIC
    assert row.placement is None


def test_a_row_has_both_times_and_the_clock_of_the_warm_one() -> None:
    seen = Watched(
        samples=9,
        sm_clock_hz=1.7e9,
        sm_clock_low_hz=1.6e9,
        sm_clock_high_hz=1.8e9,
        power_w=650.0,
        limits=("power cap",),
    )

    class Both(Recorder):
        def time(self, kernel: Compiled, a: F32, b: F32, *, cold: bool = False) -> Timing | None:
            return Timing(median=4e-6, p20=4e-6, p80=4e-6, samples=3) if cold else replace(TIMING, watched=seen)

    row = climb(rung(), SHAPE, Both(), H200_ROOFS)
    assert row.cold_over_warm == pytest.approx(2)
    assert (row.sm_clock_hz, row.power_w, row.clock_hz) == (1.7e9, 650.0, 1.7e9)
    assert row.remark == "SM clock moved by 11.8 %, 1.600 to 1.800 GHz; held down by: power cap"


def test_what_needs_no_launch_is_not_timed_cold() -> None:
    backend = Recorder(timing=None)
    row = climb(rung(), SHAPE, backend, H200_ROOFS)
    assert (row.time, row.time_cold, row.remark) == (None, None, None)
    assert "cold time" not in backend.asked


def test_the_proof_counts_as_well_and_comes_before_the_time() -> None:
    backend = Recorder()
    climb(rung(), SHAPE, backend, H200_ROOFS)
    # Integers, normal data counted, the same again for its bits.
    assert backend.asked == ["check", "count", "check", "time", "cold time"]


def test_an_emulated_proof_is_not_repeated() -> None:
    backend = Recorder()
    backend.name = "emulated"
    climb(rung(), SHAPE, backend, H200_ROOFS)
    assert backend.asked == ["check", "count", "time", "cold time"]


@pytest.mark.parametrize("bug", [fake.nan_in_last_element, fake.last_row_unwritten, fake.writes_outside_c])
def test_a_wrong_rung_has_its_check_and_nothing_else(bug: Callable[..., Outcome]) -> None:
    backend = Recorder(bug)
    row = climb(rung(), SHAPE, backend, H200_ROOFS)
    assert row.failed
    assert row.check is not None
    assert row.check.failure
    assert row == replace(blank(rung(), SHAPE), check=row.check)
    assert set(backend.asked) == {"check"}


def test_without_a_clock_there_is_no_time_and_no_fraction() -> None:
    row = climb(rung(), SHAPE, Recorder(timing=None), H200_ROOFS)
    assert row.time is None
    assert row.flop_per_s is None
    assert row.placement is not None
    assert row.placement.fraction is None


@pytest.mark.parametrize(("option", "absent"), [("prove", "check"), ("count", "count"), ("time", "time")])
def test_steps_can_be_left_out(option: str, absent: str) -> None:
    backend = Recorder()
    climb(rung(), SHAPE, backend, H200_ROOFS, **{option: False})
    assert absent not in backend.asked


def test_counts_made_elsewhere_replace_the_backends_own() -> None:
    counted = Traffic(levels={"l2": Quantity(bytes=99, origin="counted")})
    backend = Recorder()
    row = climb(rung(), SHAPE, backend, H200_ROOFS, traffic=counted)
    assert row.traffic == counted
    assert "count" not in backend.asked


def test_without_traffic_nothing_is_placed() -> None:
    row = climb(rung(), SHAPE, Recorder(), H200_ROOFS, count=False)
    assert row.time == TIMING
    assert row.placement is None


def test_no_work_has_no_place_and_no_law() -> None:
    row = climb(rung(), Shape(m=5, n=7, k=0), Recorder(timing=None), H200_ROOFS)
    assert row.check is not None
    assert row.check.passed
    assert row.placement is None
    assert row.law is None


def test_an_unsupported_shape_is_skipped_before_anything_runs() -> None:
    backend = Recorder()
    row = climb(rung(multiple=(1, 4, 1)), SHAPE, backend, H200_ROOFS)
    assert row.skipped is not None
    assert "needs N % 4 == 0; got N=79 (shape 35x79x19). Pad N to 80" in row.skipped
    assert row == replace(blank(rung(multiple=(1, 4, 1)), SHAPE), skipped=row.skipped)
    assert backend.asked == []
    assert not row.failed


def test_a_rung_that_needs_a_newer_gpu_is_skipped() -> None:
    row = climb(rung(min_cc=100), SHAPE, Recorder(), H200_ROOFS)
    assert row.skipped == "needs compute capability 10.0; Fake has 9.0"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"min_cc": 90, "tma": (TensorTile(of="A", box=(8, 8)),)}, "tma needs a GPU of compute capability 9.0"),
        ({"min_cc": 90, "arch": "sm_90a"}, "sm_90a needs a GPU of compute capability 9.0"),
    ],
)
def test_what_the_emulator_cannot_run_is_skipped_and_no_error(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, object], why: str
) -> None:
    backend = Recorder()
    row = climb(rung(**changes), SHAPE, backend, H200_ROOFS)
    assert row.skipped == f"the emulator runs PTX up to sm_80 features; {why}"
    assert why_skipped(rung(**changes), SHAPE, backend.device) == row.skipped
    assert (row.failed, backend.asked) == (False, [])
    opened(monkeypatch, backend)
    found = searcher()()(rung(**changes))
    assert (found.skipped, found.failed) == (row.skipped, False)


def test_a_rung_of_one_architecture_is_compiled_for_that(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def compiled(rung: Rung, *, arch: str) -> Compiled:
        asked.append(arch)
        return replace(fake_kernel(), rung=rung, arch=arch)

    monkeypatch.setattr(climbing, "compile_rung", compiled)

    class OnCuda(Recorder):
        @property
        def device(self) -> Device:
            return replace(super().device, backend="cuda")

    opened(monkeypatch, OnCuda())
    climb(rung(min_cc=90, arch="sm_90a"), SHAPE, OnCuda(), H200_ROOFS)
    searcher()()(rung(min_cc=90, arch="sm_90a"))
    climb(rung(min_cc=90), SHAPE, OnCuda(), H200_ROOFS)
    assert asked == ["sm_90a", "sm_90a", "sm_90"]


def test_a_grid_that_is_too_wide_is_skipped() -> None:
    reason = why_skipped(rung(), Shape(m=1, n=2**31 * 16, k=1), Recorder().device)
    assert reason is not None
    assert "the limit is 2147483647" in reason


@pytest.mark.parametrize(
    "error",
    [
        CompileError("fake.cu(3): error: expected a ;"),
        BackendError("too many resources requested for launch"),
        KernelFaultError("race", "fake.cu:12", "two threads"),
        UnsupportedPtxError("bfind.u32"),
    ],
)
def test_a_rung_that_breaks_off_says_why(error: LadderError, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_rung: Rung, *, arch: str) -> Compiled:
        raise error

    monkeypatch.setattr(climbing, "compile_rung", refuse)
    row = climb(rung(), SHAPE, Recorder(), H200_ROOFS)
    assert row.error == str(error)
    assert row.failed
    assert row.check is None


def test_a_failure_after_the_proof_keeps_the_proof() -> None:
    class Gone(Recorder):
        def time(self, kernel: Compiled, a: F32, b: F32, *, cold: bool = False) -> Timing | None:
            raise BackendError("the device has gone")

    row = climb(rung(), SHAPE, Gone(), H200_ROOFS)
    assert row.error == "the device has gone"
    assert row.check is not None
    assert row.check.passed
    assert row.time is None


def test_without_nvrtc_no_rung_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_rung: Rung, *, arch: str) -> Compiled:
        raise NvrtcMissingError("not installed")

    monkeypatch.setattr(climbing, "compile_rung", refuse)
    with pytest.raises(NvrtcMissingError):
        climb(rung(), SHAPE, Recorder(), H200_ROOFS)


def test_timed_inputs_use_the_whole_mantissa() -> None:
    backend = Recorder()
    climb(rung(), SHAPE, backend, H200_ROOFS)
    assert backend.timed is not None
    for array in backend.timed:
        bits = array.view(np.uint32)
        assert np.count_nonzero(bits & 0xFF) > 0.9 * bits.size


def opened(monkeypatch: pytest.MonkeyPatch, backend: FakeBackend) -> None:
    monkeypatch.setattr(climbing, "open_backend", lambda _name, _profile, **_: backend)


def test_a_climber_opens_its_backend_and_climbs(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Recorder()
    opened(monkeypatch, backend)
    task = Climber("cuda", load_profile("h200"), H200_ROOFS, time=False)()
    row = task((rung(), SHAPE))
    assert row.traffic == TRAFFIC
    assert "time" not in backend.asked


def searcher(shapes: tuple[Shape, ...] = ()) -> Searcher:
    return Searcher("cuda", load_profile("h200"), shapes, examples=5, budget_s=30)


def test_a_searcher_finds_nothing_wrong_with_a_right_rung(monkeypatch: pytest.MonkeyPatch) -> None:
    opened(monkeypatch, FakeBackend())
    found = searcher()()(rung())
    assert not found.failed
    assert found.counterexample is None
    assert found.tried > 5


def test_a_searcher_tries_the_given_shapes_first_and_shrinks_what_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = FakeBackend(fake.last_k_missing)
    opened(monkeypatch, backend)
    found = searcher((SHAPE,))()(rung())
    assert backend.runs[0][0] == SHAPE
    assert found.failed
    assert found.counterexample is not None
    assert found.counterexample.shape == Shape(m=1, n=1, k=1)
    assert "got 0, expected" in str(found.counterexample)


def test_a_searcher_skips_what_the_gpu_is_too_old_for(monkeypatch: pytest.MonkeyPatch) -> None:
    opened(monkeypatch, FakeBackend())
    found = searcher()()(rung(min_cc=100))
    assert found.skipped == "needs compute capability 10.0; Fake has 9.0"
    assert not found.failed


def test_a_searcher_reports_what_does_not_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_rung: Rung, *, arch: str) -> Compiled:
        raise CompileError("no")

    monkeypatch.setattr(climbing, "compile_rung", refuse)
    opened(monkeypatch, FakeBackend())
    found = searcher()()(rung())
    assert found.failed
    assert found.error == "no"


def test_a_product_too_large_to_execute_is_counted_and_placed_but_not_checked() -> None:
    backend = Recorder()
    shape = Shape(m=2048, n=2048, k=2048)
    row = climb(rung(), shape, backend, H200_ROOFS)
    assert row.check is None
    assert row.time is None
    assert not backend.runs
    assert row.intensity == {"sm": 1.0}
    assert row.placement is not None
    assert not row.failed


def test_one_that_cannot_be_replayed_is_executed_after_all() -> None:
    class Small(Recorder):
        executes_flop = 1.0

    backend = Small(timing=None)
    row = climb(rung(), Shape(m=5, n=2, k=3), backend, H200_ROOFS)
    assert row.check is not None
    assert row.check.passed
    assert row.skipped is None


def test_a_block_that_does_not_fit_the_device_is_an_error_and_no_wrong_kernel() -> None:
    class Tight(Recorder):
        def resources(self, kernel: Compiled) -> Resources:
            return replace(fake.RESOURCES, occupancy=0.0)

    row = climb(rung(), SHAPE, Tight(), H200_ROOFS)
    assert row.error is not None
    assert row.error.startswith("a threadblock does not fit an SM of Fake")
    assert row.check is None
