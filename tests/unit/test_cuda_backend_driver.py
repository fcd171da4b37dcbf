"""What is said when there is no GPU to use, and what nvidia-smi is asked."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cuda.bindings import driver as bindings
from cuda.core._utils.cuda_utils import CUDAError

from ladder.backends.driver import driver_version, find_gpu, translated
from ladder.errors import BackendError

CODES = bindings.CUresult


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def give(*, init: Any = CODES.CUDA_SUCCESS, version: int = 13000, count: int = 1) -> None:
        def start(_: int) -> tuple[Any]:
            if isinstance(init, Exception):
                raise init
            return (init,)

        monkeypatch.setattr(bindings, "cuInit", start)
        monkeypatch.setattr(bindings, "cuDriverGetVersion", lambda: (CODES.CUDA_SUCCESS, version))
        monkeypatch.setattr(bindings, "cuDeviceGetCount", lambda: (CODES.CUDA_SUCCESS, count))
        monkeypatch.setattr("cuda.bindings.__version__", "13.0.1")

    return give


def test_a_gpu_is_found(answers: Callable[..., None]) -> None:
    answers()
    assert find_gpu() is None
    answers(version=13050)
    assert find_gpu() is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"init": RuntimeError("libcuda.so.1: cannot open")}, ["no NVIDIA driver", "--gpus all"]),
        ({"init": CODES.CUDA_ERROR_NO_DEVICE}, ["CUDA_ERROR_NO_DEVICE", "CUDA_VISIBLE_DEVICES"]),
        ({"init": CODES.CUDA_ERROR_SYSTEM_DRIVER_MISMATCH}, ["CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "nvidia-smi"]),
        ({"version": 12080}, ["CUDA 12.8", "for CUDA 13", "[cu12]"]),
        ({"count": 0}, ["lists no GPU", "CUDA_VISIBLE_DEVICES"]),
    ],
)
def test_what_is_missing_is_said_with_the_fix(
    answers: Callable[..., None], given: dict[str, Any], words: list[str]
) -> None:
    answers(**given)
    reason = find_gpu()
    assert reason is not None
    assert "\n" not in reason
    assert all(word in reason for word in [*words, "--backend emulated"])


def test_missing_bindings_are_said_with_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    reason = find_gpu()
    assert reason is not None
    assert "pip install" in reason
    assert "[cu13]" in reason


def test_the_drivers_errors_become_ours_and_others_pass() -> None:
    with pytest.raises(BackendError, match="rung x: CUDA_ERROR_LAUNCH_FAILED: words"), translated("rung x"):
        raise CUDAError("CUDA_ERROR_LAUNCH_FAILED: words\n")
    with pytest.raises(KeyError), translated("rung x"):
        raise KeyError


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def install(script: str) -> None:
        program = tmp_path / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    return install


def test_the_drivers_version_is_nvidia_smis(smi: Callable[[str], None]) -> None:
    smi('test "$1" = "--id=0:1:0.0" && echo "580.65.06"')
    assert driver_version("0:1:0.0") == "580.65.06"
    smi("exit 1")
    assert driver_version("0:1:0.0") is None


def test_no_nvidia_smi_tells_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert driver_version("0:1:0.0") is None
