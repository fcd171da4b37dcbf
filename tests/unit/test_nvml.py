"""The watch on the card, with a library in place of NVML that answers what the test wants."""

from __future__ import annotations

import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from ladder.backends import nvml
from ladder.backends.nvml import IDLE, Nvml, Sample, Smi, Watched, condensed, sensor_of, watching

BUS = "00000000:0f:00.0"


class Library:
    """Answers as NVML's C functions do: a status, and what was asked through a pointer."""

    def __init__(self, *, init: int = 0, clock_mhz: int | None = 1755, instant_mw: int | None = 612_500) -> None:
        self.init, self.clock_mhz, self.instant_mw = init, clock_mhz, instant_mw
        self.asked: list[bytes] = []

    def nvmlInit_v2(self) -> int:
        return self.init

    def nvmlDeviceGetHandleByPciBusId_v2(self, bus: bytes, card: Any) -> int:
        self.asked.append(bus)
        card._obj.value = 7
        return 0

    def nvmlDeviceGetClockInfo(self, card: Any, kind: int, found: Any) -> int:
        assert (card.value, kind) == (7, 1)
        found._obj.value = self.clock_mhz or 0
        return 0 if self.clock_mhz else 3

    def nvmlDeviceGetFieldValues(self, card: Any, count: int, field: Any) -> int:
        assert (card.value, count, field._obj.field_id) == (7, 1, 186)
        field._obj.status = 0 if self.instant_mw else 3
        field._obj.value_type, field._obj.value = 1, self.instant_mw or 0
        return 0

    def nvmlDeviceGetPowerUsage(self, card: Any, found: Any) -> int:
        found._obj.value = 598_000
        return 0

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, card: Any, found: Any) -> int:
        found._obj.value = 0x4
        return 0


def test_nvml_tells_clock_power_and_limits() -> None:
    library = Library()
    assert Nvml(library, BUS).read() == Sample(sm_clock_hz=1.755e9, power_w=612.5, reasons=0x4)
    assert library.asked == [b"00000000:0f:00.0"]


def test_what_the_card_does_not_tell_is_none_and_power_falls_back_to_the_mean() -> None:
    found = Nvml(Library(clock_mhz=None, instant_mw=None), BUS).read()
    assert found == Sample(sm_clock_hz=None, power_w=598.0, reasons=0x4)


def test_an_nvml_that_does_not_start_is_said() -> None:
    with pytest.raises(OSError, match=r"nvmlInit_v2 for the GPU at 00000000:0f:00\.0 gave NVML error 9"):
        Nvml(Library(init=9), BUS)


def smi(folder: Path, script: str) -> Smi:
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return Smi(str(path), BUS)


def test_nvidia_smi_gives_the_same(tmp_path: Path) -> None:
    script = 'case "$*" in *id=00000000:0f:00.0*) echo "1980, 421.30, 0x0000000000000044";; esac'
    expected = Sample(sm_clock_hz=1.98e9, power_w=421.3, reasons=0x44)
    assert smi(tmp_path, script).read() == expected


def test_an_older_nvidia_smi_is_asked_with_its_own_words(tmp_path: Path) -> None:
    sensor = smi(tmp_path, 'case "$*" in *event*) exit 2;; *throttle*) echo "900, [N/A], 0x1";; esac')
    assert sensor.read() == Sample(sm_clock_hz=9e8, power_w=None, reasons=IDLE)
    assert sensor.read() == Sample(sm_clock_hz=9e8, power_w=None, reasons=IDLE)


@pytest.mark.parametrize("script", ["exit 9", "echo nonsense", "exec sleep 60"])
def test_a_failing_nvidia_smi_tells_nothing(script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "_SMI_TIMEOUT_S", 0.3)
    assert smi(tmp_path, script).read() == Sample()


def test_a_limit_counts_once_it_lasts() -> None:
    stale, free = Sample(sm_clock_hz=1.9e9, reasons=0x4), Sample(sm_clock_hz=1.9e9, reasons=0)
    assert condensed([stale, *[free] * 9]).limits == (), "the first moment may tell of what ran before"
    assert condensed([stale, stale, *[free] * 9]).limits == ("power cap",)


def test_samples_are_condensed_and_idle_moments_left_out() -> None:
    busy = [
        Sample(sm_clock_hz=clock, power_w=power, reasons=bits)
        for clock, power, bits in ((1.7e9, 600.0, 0), (1.8e9, 640.0, 0x4), (1.9e9, None, 0x44))
    ]
    idle = Sample(sm_clock_hz=3e8, power_w=70.0, reasons=IDLE)
    found = condensed([idle, *busy])
    assert found == Watched(
        samples=3,
        sm_clock_hz=1.8e9,
        sm_clock_low_hz=1.7e9,
        sm_clock_high_hz=1.9e9,
        power_w=620.0,
        power_high_w=640.0,
        limits=("power cap", "hardware thermal slowdown"),
    )
    assert found.clock_spread == pytest.approx(0.2 / 1.8)
    assert condensed([idle]).sm_clock_hz == 3e8
    assert condensed([]) == Watched()
    assert Watched().clock_spread is None


class Counting:
    """A sensor whose clock falls with each look, to 0.1 GHz; it tells when it has been asked ``enough`` times."""

    def __init__(self, enough: int) -> None:
        self.left, self.reached = enough, threading.Event()

    def read(self) -> Sample:
        self.left -= 1
        if self.left < 0:
            self.reached.set()
        return Sample(sm_clock_hz=max(1e8, 2e9 + 1e8 * self.left), power_w=500.0)


def test_the_card_is_polled_while_the_block_runs_and_no_longer() -> None:
    sensor = Counting(5)
    with watching(BUS, interval_s=1e-4, sensor=sensor) as watch:
        assert sensor.reached.wait(20)
    asked = sensor.left
    assert watch.result.samples >= 5
    assert watch.result.sm_clock_high_hz == 2.4e9
    assert watch.result.power_w == 500.0
    assert not any(thread.name == "card watch" for thread in threading.enumerate())
    assert sensor.left == asked


def test_the_watch_ends_when_the_block_breaks_off() -> None:
    with pytest.raises(ZeroDivisionError), watching(BUS, interval_s=1e-4, sensor=Counting(1)):
        raise ZeroDivisionError
    assert not any(thread.name == "card watch" for thread in threading.enumerate())


def test_without_nvml_and_nvidia_smi_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr("ctypes.CDLL", missing)
    monkeypatch.setattr("shutil.which", lambda _: None)
    sensor_of.cache_clear()
    try:
        with watching(BUS) as watch:
            pass
        assert watch.result == Watched()
        monkeypatch.setattr("shutil.which", lambda _: "/usr/bin/nvidia-smi")
        sensor_of.cache_clear()
        assert isinstance(sensor_of(BUS), Smi)
        monkeypatch.setattr("ctypes.CDLL", lambda _: Library())
        sensor_of.cache_clear()
        assert isinstance(sensor_of(BUS), Nvml)
    finally:
        sensor_of.cache_clear()


def test_clocks_out_of_order_are_refused() -> None:
    with pytest.raises(ValueError, match="out of order"):
        Watched(samples=1, sm_clock_hz=2e9, sm_clock_low_hz=2.1e9, sm_clock_high_hz=2.2e9)
    with pytest.raises(ValueError, match="out of order"):
        Watched(samples=1, sm_clock_hz=2e9)
