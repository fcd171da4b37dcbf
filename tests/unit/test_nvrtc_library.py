"""What happens without NVRTC, and what its log says. No CUDA is loaded here."""

from __future__ import annotations

import importlib.metadata
import sys
from types import ModuleType, SimpleNamespace
from typing import NoReturn

import pytest

from ladder.errors import CompileError, NvrtcMissingError
from ladder.model import Resources
from ladder.nvrtc import nvrtc_version, parse_resources

LOG = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z5otherv' for 'sm_90'
ptxas info    : Function properties for _Z5otherv
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
ptxas info    : Compiling entry function '_Z4minev' for 'sm_90'
ptxas info    : Function properties for _Z4minev
    48 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 128 registers, used 1 barriers, 48 bytes cumulative stack size, 8192 bytes smem, 400 bytes cmem[0]
ptxas info    : Function properties for helper
    16 bytes stack frame, 1 bytes spill stores, 1 bytes spill loads
"""


def test_resources_are_read_from_the_kernels_own_lines() -> None:
    assert parse_resources(LOG, "_Z4minev", dynamic_smem_bytes=1024) == Resources(
        registers=128, smem_bytes=9216, spill_bytes=32, stack_bytes=48
    )
    assert parse_resources(LOG, "_Z5otherv") == Resources(registers=8, smem_bytes=0, spill_bytes=0)


def test_the_wording_of_cuda_12_is_read() -> None:
    log = LOG.replace("used 1 barriers, 48 bytes cumulative stack size, ", "").replace(
        "    48", "ptxas         .     48"
    )
    assert parse_resources(log, "_Z4minev") == Resources(registers=128, smem_bytes=8192, spill_bytes=32, stack_bytes=48)


def test_a_log_that_does_not_know_the_kernel_is_an_error() -> None:
    with pytest.raises(CompileError, match="no registers for _Z3xyzv"):
        parse_resources(LOG, "_Z3xyzv")


def install(monkeypatch: pytest.MonkeyPatch, nvrtc: object | None) -> None:
    bindings = ModuleType("cuda.bindings")
    if nvrtc is not None:
        bindings.nvrtc = nvrtc  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cuda.bindings", bindings)
    monkeypatch.delitem(sys.modules, "cuda.bindings.nvrtc", raising=False)


@pytest.mark.parametrize(("installed", "extra"), [(None, "cu13"), ("13.3.1", "cu13"), ("12.9.0", "cu12")])
def test_no_bindings_tells_what_to_install(monkeypatch: pytest.MonkeyPatch, installed: str | None, extra: str) -> None:
    def version(name: str) -> str:
        if installed is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return installed

    monkeypatch.setattr(importlib.metadata, "version", version)
    install(monkeypatch, None)
    with pytest.raises(NvrtcMissingError, match=rf'pip install "matmul-ladder\[{extra}\]"') as caught:
        nvrtc_version()
    assert caught.value.exit_code == 2


def test_no_library_tells_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> NoReturn:
        raise RuntimeError("Failed to dlopen libnvrtc.so.13")

    install(monkeypatch, SimpleNamespace(nvrtcVersion=missing))
    with pytest.raises(
        NvrtcMissingError, match=r"cannot be loaded \(Failed to dlopen libnvrtc.so.13\); install it with `pip"
    ):
        nvrtc_version()


def test_a_failing_call_gives_nvrtcs_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    result = SimpleNamespace(NVRTC_SUCCESS=0)
    install(
        monkeypatch,
        SimpleNamespace(
            nvrtcResult=result,
            nvrtcVersion=lambda: (1, None, None),
            nvrtcGetErrorString=lambda _: (0, b"NVRTC_ERROR_X"),
        ),
    )
    with pytest.raises(CompileError, match="NVRTC_ERROR_X"):
        nvrtc_version()
