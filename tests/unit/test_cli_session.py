"""What a session settles before anything runs: limits, the backend, a real GPU's roofs; and the live display."""

from __future__ import annotations

import os
import pty
import re
import subprocess
from dataclasses import replace

import pytest
from helpers import tasks
from helpers.command import command, environment

from ladder.cli import session
from ladder.cli.session import DEFAULT_SHAPE, Limits, prepare
from ladder.errors import DriverMissingError, InputError, ProfileError
from ladder.model import Shape
from ladder.profiles import load_profile, roofs_of

H200 = load_profile("h200")
GPU = replace(H200.device, backend="cuda")
LIMITS = Limits(timeout_s=10)


def test_a_known_gpu_has_the_roofs_of_its_profile() -> None:
    roofs, source = roofs_of(GPU, None)
    assert roofs == H200.roofs
    assert "profile h200" in source


def test_the_profile_asked_for_wins() -> None:
    roofs, source = roofs_of(GPU, load_profile("t4"))
    assert roofs == load_profile("t4").roofs
    assert "profile t4" in source


@pytest.mark.parametrize(("capability", "lanes"), [((7, 5), 64), ((8, 0), 64), ((8, 6), 128), ((9, 0), 128)])
def test_an_unknown_gpu_has_modelled_roofs_for_what_its_clock_tells(capability: tuple[int, int], lanes: int) -> None:
    device = replace(GPU, name="Some GPU", compute_capability=capability, sm_count=10, sm_clock_hz=1e9)
    roofs, source = roofs_of(device, None)
    assert roofs.flop_per_s == {"fp32": 2 * lanes * 10 * 1e9}
    assert roofs.bytes_per_s == {"sm": 128 * 10 * 1e9}
    assert set(roofs.origin.values()) == {"modelled"}
    assert "modelled" in source


def test_an_unknown_gpu_without_a_clock_needs_a_profile() -> None:
    with pytest.raises(ProfileError, match="name a profile"):
        roofs_of(replace(GPU, name="Some GPU", sm_clock_hz=None), None)


def test_a_device_is_described_by_a_child() -> None:
    assert session._device_of("emulated", H200) == H200.device


@pytest.mark.parametrize("backend", ["auto", "emulated"])
def test_without_a_gpu_rungs_are_emulated(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "find_gpu", lambda: "no driver")
    made = prepare(rungs=["naive"], shapes=[], backend=backend, profile=None, limits=LIMITS)
    assert made.backend == "emulated"
    assert made.shapes == (DEFAULT_SHAPE["emulated"],) == (Shape(m=256, n=256, k=256),)
    assert made.device.name == H200.device.name
    assert made.device.nvrtc is not None


def test_the_cuda_backend_without_a_gpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "find_gpu", lambda: "no driver: install it")
    with pytest.raises(DriverMissingError, match="no driver: install it"):
        prepare(rungs=["naive"], shapes=[], backend="cuda", profile=None, limits=LIMITS)


def test_with_a_gpu_rungs_run_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "find_gpu", lambda: None)
    monkeypatch.setattr(session, "_device_of", lambda _backend, _profile: replace(GPU, driver="580.1"))
    made = prepare(rungs=["naive"], shapes=[], backend="auto", profile=None, limits=LIMITS)
    assert made.backend == "cuda"
    assert made.shapes == (Shape(m=4096, n=4096, k=4096),)
    assert made.roofs == H200.roofs
    assert "driver 580.1" in made.about


def test_a_gpus_roofs_are_measured_unless_a_profile_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = replace(H200.roofs, origin=dict.fromkeys(H200.roofs.origin, "measured"))
    monkeypatch.setattr(session, "find_gpu", lambda: None)
    monkeypatch.setattr(session, "_device_of", lambda _backend, _profile: GPU)
    monkeypatch.setattr(session, "_measured", lambda device, _roofs, _source: (device, measured, "measured just now"))
    options = {"rungs": ["naive"], "shapes": [], "backend": "cuda", "limits": LIMITS}
    assert prepare(**options, profile=None, measure=True).roofs == measured
    assert prepare(**options, profile=None).roofs == H200.roofs
    assert prepare(**options, profile="a100", measure=True).roofs == load_profile("a100").roofs


def test_roofs_that_cannot_be_measured_are_those_that_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "measure_here", tasks.start_and_fail)
    device, roofs, source = session._measured(GPU, H200.roofs, "known")
    assert (device, roofs) == (GPU, H200.roofs)
    assert source == "known; they could not be measured: the launch failed"


def test_jobs_go_shape_by_shape_in_the_order_of_the_rungs() -> None:
    made = prepare(
        rungs=["padded", "naive"], shapes=["1x2x3", "4x5x6"], backend="emulated", profile=None, limits=LIMITS
    )
    assert [(rung.name, shape.m) for rung, shape in made.jobs] == [
        ("padded", 1),
        ("naive", 1),
        ("padded", 4),
        ("naive", 4),
    ]


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_a_time_limit_is_a_positive_number(seconds: float) -> None:
    with pytest.raises(InputError, match="--timeout"):
        Limits(timeout_s=seconds)


def on_a_terminal(*arguments: str, columns: int = 100) -> tuple[int, str]:
    """Run the command with a terminal of ``columns``; its exit code and everything it drew."""
    ours, theirs = pty.openpty()
    env = environment(COLUMNS=str(columns), LINES="40", TERM="xterm-256color")
    with subprocess.Popen(command(*arguments), stdin=theirs, stdout=theirs, stderr=theirs, env=env) as process:
        os.close(theirs)
        drawn = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # what Linux answers when the last process has closed the terminal
                break
            if not part:
                break
            drawn += part
        code = process.wait(60)
    os.close(ours)
    return code, drawn.decode()


def test_a_terminal_shows_live_progress_and_is_left_as_it_was() -> None:
    code, drawn = on_a_terminal("run", "register_tile", "naive", "--backend", "emulated", "--shape", "130x130x130")
    assert code == 0
    assert re.search(r"[01] of 2", drawn)
    hidden, shown = drawn.rfind("\x1b[?25l"), drawn.rfind("\x1b[?25h")
    assert 0 <= hidden < shown
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn)
    assert re.search(r"\[\d/2\] +\d+\.\d s  naive 130x130x130: right", plain)
    assert "bound by" in plain


def test_a_narrow_terminal_folds_instead_of_cutting() -> None:
    code, drawn = on_a_terminal("run", "naive", "--backend", "emulated", "--shape", "5x6x7", columns=60)
    assert code == 0
    assert "…" not in drawn
