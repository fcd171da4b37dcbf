"""Without a C compiler the emulator runs on numpy and says so. Runs on every machine, whatever it has."""

from pathlib import Path

import numpy as np
import pytest
from helpers.kernels import RUNGS, compiled

from ladder.backends.emulated import EmulatedBackend
from ladder.errors import BackendError
from ladder.profiles import load_profile
from ladder.ptx.c import EngineUnavailableError, build, find_compiler

H200 = load_profile("h200").device


@pytest.fixture(params=["CC names none", "none on PATH"])
def no_compiler(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if request.param == "CC names none":
        monkeypatch.setenv("CC", "no-such-compiler")
    else:
        monkeypatch.delenv("CC", raising=False)
        monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.usefixtures("no_compiler")
def test_numpy_runs_and_the_reason_is_told_once() -> None:
    assert find_compiler() is None
    backend = EmulatedBackend(H200)
    a, b = np.ones((9, 5), np.float32), np.ones((5, 7), np.float32)
    for rung in RUNGS[:2]:
        assert (backend.run(compiled(rung), a, b).c == 5).all()
    (note,) = backend.notes
    assert "numpy" in note
    assert "install gcc or clang" in note


@pytest.mark.usefixtures("no_compiler")
def test_c_asked_for_is_refused_with_the_fix() -> None:
    a = np.ones((9, 9), np.float32)
    with pytest.raises(BackendError, match="install gcc or clang, or let CC name one"):
        EmulatedBackend(H200, engine="c").run(compiled(RUNGS[0]), a, a)
    with pytest.raises(EngineUnavailableError, match="install gcc or clang"):
        build.load("int seven(void) { return 7; }\n")
