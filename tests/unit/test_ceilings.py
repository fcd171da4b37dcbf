"""How roofs come of trials, against a double of ``cuda.core``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from helpers.fake_cuda import FakeCuda, floats, installed

from ladder import ceilings
from ladder.backends.driver import Reading
from ladder.backends.gpu import Gpu
from ladder.ceilings import ROOFS, Trial, measure_ceilings
from ladder.errors import BackendError
from ladder.model import Resources
from ladder.nvrtc import Compiled

CLOCK_HZ = 2e9


def uncompiled(rung: Any, *, arch: str) -> Compiled:
    return Compiled(
        rung=rung, arch=arch, ptx="", cubin=b"\x7fELF", lowered_name=rung.name_expression, log="",
        nvrtc_version="13.0", resources=Resources(registers=32, smem_bytes=0, spill_bytes=0), cached=False,
    )  # fmt: skip


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    def tick(launch: Any) -> None:
        span = floats(int(launch.arguments[-1]), 4).view(np.uint64)
        span[:] = (2000, 1000)

    monkeypatch.setattr(ceilings, "compile_rung", uncompiled)
    monkeypatch.setattr("ladder.backends.gpu.compile_rung", uncompiled)
    monkeypatch.setattr(ceilings, "COPY_BYTES", 2**20)
    monkeypatch.setattr(ceilings, "reading_during", lambda *_: Reading(sm_clock_hz=1.9e9, power_w=500.4))
    with installed(kernels={"fma": tick, "shared_read": tick, "l2_read": tick, "copy": lambda _: None}) as fake:
        yield fake


def test_every_roof_is_measured_with_its_configuration_clock_and_power(world: FakeCuda) -> None:
    lines: list[str] = []
    found = measure_ceilings(Gpu(), progress=lines.append)
    assert set(found.roofs.bytes_per_s) == {"dram", "l2", "sm"}
    assert set(found.roofs.flop_per_s) == {"fp32"}
    assert set(found.roofs.origin.values()) == {"measured"}
    assert len(lines) == len(ROOFS)
    for roof in ROOFS:
        note = found.roofs.note[roof]
        assert "per clock per SM at" in note
        assert note.endswith("500 W")
        assert ("2.000 GHz" in note) == (roof != "dram")
        best = {**found.roofs.bytes_per_s, **found.roofs.flop_per_s}[roof]
        tried = [trial for trial in found.trials if trial.roof == roof and trial.counts]
        assert best <= max(trial.rate for trial in tried) * (1 + 1e-12)
        if roof != "l2":
            assert best == max(trial.rate for trial in tried)
    assert {trial.sm_clock_hz for trial in found.trials if trial.roof != "dram"} == {CLOCK_HZ}
    assert found.readings["sm"].power_w == 500.4


def test_work_is_counted_from_what_was_launched(world: FakeCuda) -> None:
    found = measure_ceilings(Gpu())
    # The double lasts 1 ms a launch, whatever it is: 4 SMs hold half of 2048 threads each.
    threads = 4 * 1024
    (rate,) = {trial.rate for trial in found.trials if trial.roof == "sm"}
    assert rate == pytest.approx(16 * ceilings.LOADS_A_THREAD * threads / 1e-3)
    rates = {trial.rate for trial in found.trials if trial.roof == "fp32"}
    assert max(rates) == pytest.approx(2 * ceilings.FMAS_A_THREAD * threads / 1e-3)
    copies = {trial.rate for trial in found.trials if trial.roof == "dram" and "driver" not in trial.config}
    assert len(copies) == 1
    assert copies.pop() == pytest.approx(2 * 4 * 2**20 / 1e-3)
    for trial in found.trials:
        if trial.roof == "l2":
            assert trial.footprint_bytes is not None
            # An eighth to four fifths of L2, down to the next prime number of chunks: 3 for 4 at the least.
            assert 0.75 * 0.125 * 2**20 <= trial.footprint_bytes <= 0.8 * 2**20
            assert trial.rate == pytest.approx(ceilings.L2_READ_BYTES / 1e-3, rel=0.1)


def test_buffers_are_given_back_even_after_a_fault(world: FakeCuda) -> None:
    measure_ceilings(Gpu())
    assert world.live == []

    def fault(_: Any) -> None:
        world.fault = "CUDA_ERROR_LAUNCH_FAILED: gone"

    world.kernels["l2_read"] = fault
    with pytest.raises(BackendError, match="measuring the roofs of Fake GPU: CUDA_ERROR_LAUNCH_FAILED"):
        measure_ceilings(Gpu())
    assert world.live == []


def l2(config: str, *rates: float, counts: bool = True) -> list[Any]:
    return [
        (Trial(roof="l2", config=config, rate=rate, footprint_bytes=(i + 1) * 2**20, counts=counts), lambda: None)
        for i, rate in enumerate(rates)
    ]


def test_the_l2_roof_is_a_plateau_and_no_peak() -> None:
    found = [*l2("peaky", 1, 100, 1, 1), *l2("steady", 10, 40, 40, 40, 5), *l2("paired", 99, 99, 99, counts=False)]
    rate, trial, _, what = ceilings._plateau(found)
    assert rate == 40
    assert trial.footprint_bytes == 3 * 2**20
    assert what == "steady, footprints of 2.0 to 4.0 MiB"


def test_fewer_footprints_than_a_window_are_taken_as_they_are() -> None:
    rate, _, _, what = ceilings._plateau(l2("small", 10, 20))
    assert rate == 15
    assert what == "small, footprints of 1.0 to 2.0 MiB"


def test_the_highest_trial_that_counts_wins() -> None:
    found = [*l2("a", 5), *l2("b", 7), *l2("c", 9, counts=False)]
    assert ceilings._highest(found)[0] == 7
