"""The card while it works: SM clock, power and what limits the clock, polled by a thread through NVML.

NVML is the library that nvidia-smi is made of, and comes with the driver. Its C interface is called directly: the
Python bindings of CUDA have it only in newer versions. Where it cannot be loaded, nvidia-smi is asked instead, which
gives a few samples a second; where that is missing too, every field is None.
"""

from __future__ import annotations

import ctypes
import shutil
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from ladder.model import Watched

__all__ = ["INTERVAL_S", "LIMITS", "Nvml", "Sample", "Sensor", "Smi", "Watch", "Watched", "sensor_of", "watching"]

INTERVAL_S = 0.01
"""Between two polls. The driver itself renews power and clocks every few tens of milliseconds."""

LIMITS = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal limit",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
    0x100: "display clocks",
}
"""Bits of nvmlDeviceGetCurrentClocksEventReasons that hold the clock down, in words (nvml.h). Application clocks (0x2)
are left out: they are a setting, which holds from one run to the next, and the clock itself tells it."""

LASTING = 0.1
"""Share of the moments above which a limit counts: the first may still tell of what ran before."""

IDLE = 0x1
"""The bit that says that nothing runs: the clock of such a moment is not that of the load."""

_SUCCESS = 0
_CLOCK_SM = 1
_FIELD_POWER_INSTANT = 186
_VALUE_UNSIGNED_INT = 1
_SMI_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One look at the card; None for what it does not tell. ``reasons`` has the bits of :data:`LIMITS`."""

    sm_clock_hz: float | None = None
    power_w: float | None = None
    reasons: int = 0


class Sensor(Protocol):
    """Something that can look at the card now."""

    def read(self) -> Sample:
        """One sample; it may take a while."""
        ...


class _FieldValue(ctypes.Structure):
    """``nvmlFieldValue_t``."""

    _fields_ = (
        ("field_id", ctypes.c_uint),
        ("scope_id", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latency_us", ctypes.c_longlong),
        ("value_type", ctypes.c_int),
        ("status", ctypes.c_int),
        ("value", ctypes.c_ulonglong),
    )


class Nvml:
    """One card through NVML.

    Args:
        library: the loaded ``libnvidia-ml``.
        pci_bus_id: such as ``00000000:0f:00.0``.

    Raises:
        OSError: NVML does not start, or knows no such card.
    """

    def __init__(self, library: Any, pci_bus_id: str) -> None:
        self._library = library
        self._card = ctypes.c_void_p()
        for name, status in (
            ("nvmlInit_v2", library.nvmlInit_v2()),
            (
                "nvmlDeviceGetHandleByPciBusId_v2",
                library.nvmlDeviceGetHandleByPciBusId_v2(pci_bus_id.encode(), ctypes.byref(self._card)),
            ),
        ):
            if status != _SUCCESS:
                raise OSError(f"{name} for the GPU at {pci_bus_id} gave NVML error {status}")
        # The older name of the same call, which drivers before 535 know alone.
        self._reasons = getattr(library, "nvmlDeviceGetCurrentClocksEventReasons", None) or getattr(
            library, "nvmlDeviceGetCurrentClocksThrottleReasons", None
        )

    def read(self) -> Sample:
        """The card now; it takes well under a millisecond."""
        clock, reasons = ctypes.c_uint(), ctypes.c_ulonglong()
        known = self._library.nvmlDeviceGetClockInfo(self._card, _CLOCK_SM, ctypes.byref(clock)) == _SUCCESS
        told = self._reasons is not None and self._reasons(self._card, ctypes.byref(reasons)) == _SUCCESS
        return Sample(
            sm_clock_hz=1e6 * clock.value if known and clock.value else None,
            power_w=self._power_w(),
            reasons=reasons.value if told else 0,
        )

    def _power_w(self) -> float | None:
        """At this instant where the card tells it, else as its mean over a second (nvml.h, nvmlDeviceGetPowerUsage)."""
        field = _FieldValue(field_id=_FIELD_POWER_INSTANT)
        status = self._library.nvmlDeviceGetFieldValues(self._card, 1, ctypes.byref(field))
        if status == field.status == _SUCCESS and field.value_type == _VALUE_UNSIGNED_INT:
            return 1e-3 * float(field.value & 0xFFFFFFFF)
        milliwatts = ctypes.c_uint()
        status = self._library.nvmlDeviceGetPowerUsage(self._card, ctypes.byref(milliwatts))
        return 1e-3 * milliwatts.value if status == _SUCCESS else None


class Smi:
    """One card through nvidia-smi, a process for each look.

    Args:
        path: of nvidia-smi.
        pci_bus_id: of the card.
    """

    _NEW = ("clocks.sm", "power.draw.instant", "clocks_event_reasons.active")
    _OLD = ("clocks.sm", "power.draw", "clocks_throttle_reasons.active")

    def __init__(self, path: str, pci_bus_id: str) -> None:
        self._path, self._pci_bus_id = path, pci_bus_id
        self._fields = self._NEW

    def read(self) -> Sample:
        """The card when nvidia-smi got to it, some tenths of a second after the call."""
        answer = self._ask(self._fields)
        if answer is None and self._fields is self._NEW:
            self._fields = self._OLD
            answer = self._ask(self._fields)
        clock, power, reasons = answer or ("", "", "")
        megahertz = _number(clock)
        try:
            bits = int(reasons, 16)
        except ValueError:
            bits = 0
        return Sample(sm_clock_hz=None if megahertz is None else 1e6 * megahertz, power_w=_number(power), reasons=bits)

    def _ask(self, fields: Sequence[str]) -> list[str] | None:
        command = [
            self._path,
            f"--id={self._pci_bus_id}",
            f"--query-gpu={','.join(fields)}",
            "--format=csv,noheader,nounits",
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_SMI_TIMEOUT_S)
        except (OSError, subprocess.SubprocessError):
            return None
        found = [text.strip() for text in done.stdout.split(",")]
        return found if len(found) == len(fields) else None


class Watch:
    """What a block of code is watched by; ``result`` is there once the block has ended."""

    def __init__(self) -> None:
        self.result = Watched()


@lru_cache(maxsize=8)
def sensor_of(pci_bus_id: str) -> Sensor | None:
    """NVML for the card, else nvidia-smi, else None; opened once a process."""
    name = "nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1"
    try:
        return Nvml(ctypes.CDLL(name), pci_bus_id)
    except (OSError, AttributeError):  # not there, does not start, or is too old to have what is asked
        path = shutil.which("nvidia-smi")
        return None if path is None else Smi(path, pci_bus_id)


@contextmanager
def watching(pci_bus_id: str, *, interval_s: float = INTERVAL_S, sensor: Sensor | None = None) -> Iterator[Watch]:
    """Poll the card while the block runs; ``watch.result`` has what was seen, after it.

    Start it once the load has warmed the card up: moments at which nothing ran are left out, but not those at which
    the clock still climbed.

    Args:
        pci_bus_id: of the card, as :attr:`ladder.backends.gpu.Gpu.pci_bus_id`.
        interval_s: between polls.
        sensor: what to ask, by default what :func:`sensor_of` finds.
    """
    watch = Watch()
    asked = sensor_of(pci_bus_id) if sensor is None else sensor
    if asked is None:
        yield watch
        return
    seen: list[Sample] = []
    ended = threading.Event()

    def poll() -> None:
        while True:
            sample = asked.read()
            if ended.is_set():
                return  # the load may have been over when the card answered
            seen.append(sample)
            if ended.wait(interval_s):
                return

    thread = threading.Thread(target=poll, name="card watch", daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        ended.set()
        thread.join()
        watch.result = condensed(seen)


def condensed(samples: Sequence[Sample]) -> Watched:
    """Medians and extremes of what was seen; moments at which nothing ran count only if there are no others."""
    busy = [sample for sample in samples if not sample.reasons & IDLE] or list(samples)
    clocks = [sample.sm_clock_hz for sample in busy if sample.sm_clock_hz is not None]
    powers = [sample.power_w for sample in busy if sample.power_w is not None]
    least = LASTING * len(busy)
    lasting = {bit for bit in LIMITS if sum(bool(sample.reasons & bit) for sample in busy) > least}
    return Watched(
        samples=len(busy),
        sm_clock_hz=statistics.median(clocks) if clocks else None,
        sm_clock_low_hz=min(clocks, default=None),
        sm_clock_high_hz=max(clocks, default=None),
        power_w=statistics.median(powers) if powers else None,
        power_high_w=max(powers, default=None),
        limits=tuple(word for bit, word in LIMITS.items() if bit in lasting),
    )


def _number(text: str) -> float | None:
    """A field of nvidia-smi: ``[N/A]`` and the like are None."""
    try:
        return float(text)
    except ValueError:
        return None
