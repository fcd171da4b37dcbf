"""Each thing that can be missing is found missing, and comes with its fix."""

from __future__ import annotations

import stat
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from ladder import doctor
from ladder.backends import cuda
from ladder.counters.surroundings import Surroundings, permission_fix
from ladder.doctor import Finding, examine, works
from ladder.errors import BackendError, CompileError, NvrtcMissingError
from ladder.ptx.c import EngineUnavailableError


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "find_gpu", lambda: "no NVIDIA driver; install one")


def found(name: str) -> Finding:
    return next(finding for finding in examine() if finding.name == name)


def test_everything_that_emulation_needs_is_here() -> None:
    findings = examine()
    assert works(findings)
    assert [finding.name for finding in findings] == [
        "Python",
        "packages",
        "NVRTC",
        "a kernel",
        "C engine",
        "compiler cache",
        "system",
        "GPU",
        "MIG",
        "ncu",
        "counters",
    ]
    assert f"numpy {version('numpy')}" in found("packages").found
    assert "libnvrtc" in found("NVRTC").found or "nvrtc" in found("NVRTC").found


def test_what_is_not_ok_has_a_fix_and_what_is_ok_has_none() -> None:
    for finding in examine():
        assert (finding.fix is None) == (finding.status == "ok"), finding


def test_no_gpu_is_no_obstacle() -> None:
    assert found("GPU") == Finding(
        name="GPU",
        status="absent",
        found="none: rungs are emulated, without times",
        fix="no NVIDIA driver; install one",
    )


def test_a_gpu_that_cannot_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> cuda.CudaBackend:
        raise BackendError("opening GPU 0: CUDA_ERROR_OUT_OF_MEMORY")

    monkeypatch.setattr(doctor, "find_gpu", lambda: None)
    monkeypatch.setattr(doctor, "CudaBackend", refuse)
    finding = found("GPU")
    assert finding.status == "absent"
    assert finding.fix == "opening GPU 0: CUDA_ERROR_OUT_OF_MEMORY"


def test_without_nvrtc_nothing_works(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> str:
        raise NvrtcMissingError("NVRTC is not there; pip install it")

    monkeypatch.setattr(doctor.nvrtc, "nvrtc_version", missing)
    monkeypatch.setattr(doctor.nvrtc, "compile_rung", missing)
    finding = found("NVRTC")
    assert finding.status == "missing"
    assert finding.fix == "NVRTC is not there; pip install it"
    assert not works(examine())


def test_an_nvrtc_that_cannot_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise CompileError("NVRTC 9.0 does not compile for sm_90")

    monkeypatch.setattr(doctor.nvrtc, "compile_rung", refuse)
    assert found("a kernel").status == "missing"
    assert not works(examine())


def test_a_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def some(name: str) -> str:
        if name == "matplotlib":
            raise PackageNotFoundError(name)
        return "1.0"

    monkeypatch.setattr(doctor, "version", some)
    finding = found("packages")
    assert finding.status == "missing"
    assert finding.found == "no matplotlib"
    assert finding.fix is not None
    assert "pip install matplotlib" in finding.fix


def test_the_cache_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LADDER_CACHE_DIR", str(tmp_path))
    (tmp_path / "one").write_bytes(bytes(2**20))
    (tmp_path / "two").write_bytes(bytes(2**19))
    (finding,) = [doctor._cache()]
    assert finding.status == "ok"
    assert finding.found == f"{tmp_path}: 2 files, 1.5 MiB"


def test_a_cache_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    monkeypatch.setenv("LADDER_CACHE_DIR", str(tmp_path / "file" / "cache"))
    finding = found("compiler cache")
    assert finding.status == "absent"
    assert "not writable" in finding.found
    assert finding.fix is not None
    assert "LADDER_CACHE_DIR" in finding.fix
    assert works(examine())


def test_ncu_is_asked_for_its_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tool = tmp_path / "ncu"
    tool.write_text("#!/bin/sh\necho 'NVIDIA (R) Nsight Compute'\necho 'Version 2025.3.1.0'\n", encoding="utf-8")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(doctor.ncu, "find", lambda: str(tool))
    assert found("ncu") == Finding(name="ncu", status="ok", found=f"Version 2025.3.1.0 ({tool})")
    tool.write_text("no program", encoding="utf-8")
    broken = found("ncu")
    assert broken.status == "absent"
    assert "does not start" in broken.found
    assert broken.fix is not None


def test_counters_that_the_driver_keeps_for_administrators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.ncu, "why_forbidden", lambda: "run as root")
    finding = found("counters")
    assert finding == Finding(
        name="counters", status="absent", found="kept for administrators by the driver", fix="run as root"
    )
    monkeypatch.setattr(doctor.ncu, "why_forbidden", lambda: None)
    monkeypatch.setattr(doctor.ncu, "restricted", lambda: False)
    assert found("counters").found == "this process may read them"


def test_under_wsl_windows_decides_about_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "look_around", lambda: Surroundings(wsl=True))
    monkeypatch.setattr(doctor, "permission_fix", lambda: permission_fix(Surroundings(wsl=True)))
    monkeypatch.setattr(doctor.ncu, "why_forbidden", lambda: None)
    finding = found("counters")
    assert finding.status == "ok"
    assert "NVIDIA Control Panel" in finding.found
    assert found("system").found.endswith("WSL")


def test_mig_is_found_and_told_how_to_live_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "mig_instances", lambda: "1g.18gb, 1g.18gb")
    finding = found("MIG")
    assert finding.status == "absent"
    assert "1g.18gb" in finding.found
    assert finding.fix is not None
    assert "nvidia-smi -mig 0" in finding.fix
    monkeypatch.setattr(doctor, "mig_instances", lambda: None)
    assert found("MIG").status == "ok"


def test_without_ncu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.ncu, "find", lambda: None)
    finding = found("ncu")
    assert finding.status == "absent"
    assert finding.fix is not None
    assert "Nsight Compute" in finding.fix


def test_without_a_c_compiler_the_engine_is_numpy_and_the_fix_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise EngineUnavailableError("install gcc")

    monkeypatch.setattr(doctor, "runtime", refuse)
    engine = found("C engine")
    assert engine.status == "absent"
    assert "numpy" in engine.found
    assert engine.fix == "install gcc"
    assert works(examine())
