"""Measured roofs against what hardware can do, and against what its counters see."""

from __future__ import annotations

from functools import cache

import pytest
from helpers.on_gpu import backend

from ladder.ceilings import ROOFS, Ceilings, todays_ceilings, with_counters
from ladder.ceilings._bench import compiled
from ladder.ceilings._probes import PROBES
from ladder.counters import ncu_status

pytestmark = pytest.mark.gpu


@cache
def today() -> tuple[str, Ceilings]:
    """Measured anew, with probes that are compiled already."""
    gpu = backend().gpu
    for probe in PROBES.values():
        for config in probe.configs(gpu.device):
            if config.probe:
                compiled(config, gpu.device.arch)
    return todays_ceilings(gpu, fresh=True)


@cache
def measured() -> Ceilings:
    return with_counters(today()[1])


def test_roofs_are_in_the_order_of_the_hierarchy() -> None:
    roofs = measured().roofs
    assert roofs.bytes_per_s["dram"] < roofs.bytes_per_s["l2"] < roofs.bytes_per_s["sm"]
    if backend().device.compute_capability >= (8, 0):
        assert roofs.flop_per_s["fp32"] < roofs.flop_per_s["tf32"] < roofs.flop_per_s["bf16"]


def test_no_roof_is_above_what_the_clock_allows() -> None:
    device, found = backend().device, measured()
    # Bytes or FLOP a clock and SM: 32 banks of 4 bytes, FMA units, and the port from L2.
    per_clock = {"sm": 128, "fp32": 2 * device.fma_per_clock, "l2": 64}
    assert device.sm_clock_hz is not None
    for trial in found.trials:
        if trial.roof in per_clock and trial.counts:
            assert trial.rate <= 1.005 * per_clock[trial.roof] * device.sm_count * device.sm_clock_hz, trial
    for each in found.ceilings:
        assert each.share is None or each.share <= 1.01, each.note


def test_the_pipes_of_the_sm_come_close_to_their_limits() -> None:
    assert (measured()["sm"].share or 0) >= 0.97
    assert (measured()["fp32"].share or 0) >= 0.96


@pytest.mark.parametrize("roof", ROOFS)
def test_each_roof_is_as_meant_by_machine_code_and_counters(roof: str) -> None:
    present = {each.roof for each in measured().ceilings}
    if roof not in present:
        assert backend().device.compute_capability < (8, 0)
        return
    ceiling = measured()[roof]
    assert not ceiling.failed, ceiling.note
    assert "machine code" in ceiling.verified_by or not ceiling.best.config.probe
    reason = ncu_status()
    if reason is None and ceiling.best.config.probe:
        assert "counters" in ceiling.verified_by, ceiling.findings


def test_the_two_clocks_agree() -> None:
    """Tensor cores make an H200 skip cycles that NVML does not know of: there the timer's clock may be lower."""
    for each in measured().ceilings:
        timer, watched = each.best.timer_clock_hz, each.best.watched.sm_clock_hz
        if timer is not None and watched is not None and not each.best.watched.limits:
            assert timer <= 1.01 * watched, each.roof
            assert timer >= (0.85 if each.roof in {"tf32", "bf16"} else 0.99) * watched, each.roof


def test_measuring_takes_less_than_25_s_and_a_day_shares_it() -> None:
    assert today()[1].seconds < 25
    assert todays_ceilings(backend().gpu) == today()
