"""Where counters are to be read decides how to be let at them: WSL, containers, MIG, and what ncu itself says."""

from __future__ import annotations

from pathlib import Path

import pytest

from ladder.counters import ncu, surroundings
from ladder.counters.surroundings import Surroundings, look_around, mig_devices, mig_instances, permission_fix

LINUX = "Linux version 6.8.0-41-generic (buildd@lcy02) (x86_64-linux-gnu-gcc-13) #41-Ubuntu SMP"
WSL = "Linux version 5.15.153.1-microsoft-standard-WSL2 (root@941d) (gcc (GCC) 11.2.0) #1 SMP"


@pytest.mark.parametrize(
    ("files", "wsl", "container"),
    [
        ({"proc/version": LINUX}, False, None),
        ({"proc/version": WSL}, True, None),
        ({"proc/version": WSL, ".dockerenv": ""}, True, "Docker"),
        ({"proc/version": LINUX, "run/.containerenv": ""}, False, "Podman"),
        ({"proc/version": LINUX, "proc/1/cgroup": "12:cpuset:/docker/4f1c\n0::/docker/4f1c\n"}, False, "docker"),
        ({"proc/version": LINUX, "proc/self/cgroup": "0::/kubepods.slice/kubepods-pod1.slice\n"}, False, "kubepods"),
        ({"proc/version": LINUX, "proc/1/cgroup": "0::/init.scope\n"}, False, None),
        ({}, False, None),
    ],
)
def test_what_the_system_shows(tmp_path: Path, files: dict[str, str], wsl: bool, container: str | None) -> None:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert look_around(tmp_path) == Surroundings(wsl=wsl, container=container)


@pytest.mark.parametrize(
    ("where", "words", "fix", "wrong_fix"),
    [
        (Surroundings(), "neither WSL nor a container", "run as root", "--cap-add"),
        (Surroundings(container="Docker"), "a container (Docker)", "--cap-add=SYS_ADMIN", "run as root"),
        (Surroundings(wsl=True), "WSL", "NVIDIA Control Panel", "modprobe"),
        (Surroundings(wsl=True, container="Docker"), "a container (Docker) in WSL", "NVIDIA Control Panel", "modprobe"),
    ],
)
def test_the_way_to_permission_depends_on_where_it_is(
    where: Surroundings, words: str, fix: str, wrong_fix: str
) -> None:
    assert where.words == words
    told = permission_fix(where)
    assert fix in told
    assert wrong_fix not in told
    assert "\n" not in told
    assert "https://developer.nvidia.com/ERR_NVGPUCTRPERM" in told


SMI = """#!/bin/sh
case "$1" in
  --query-gpu=mig.mode.current) echo '{mode}';;
  -L) echo 'GPU 0: NVIDIA H200 (UUID: GPU-1)'
      echo '  MIG 1g.18gb     Device  0: (UUID: MIG-2)'
      echo '  MIG 3g.71gb     Device  1: (UUID: MIG-3)';;
esac
"""


@pytest.mark.parametrize(
    ("mode", "found"), [("Enabled", "1g.18gb, 3g.71gb"), ("Disabled", None), ("[N/A]", None), ("", None)]
)
def test_mig_is_asked_of_nvidia_smi(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mode: str, found: str | None
) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(SMI.format(mode=mode), encoding="utf-8")
    tool.chmod(0o755)
    monkeypatch.setattr(surroundings.shutil, "which", lambda _name: str(tool))
    assert mig_instances() == found


def test_without_nvidia_smi_or_with_one_that_hangs_nothing_is_known(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(surroundings.shutil, "which", lambda _name: None)
    assert mig_instances() is None
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\nexec sleep 60\n", encoding="utf-8")
    tool.chmod(0o755)
    monkeypatch.setattr(surroundings.shutil, "which", lambda _name: str(tool))
    monkeypatch.setattr(surroundings, "_SMI_TIMEOUT_S", 0.2)
    assert mig_instances() is None
    assert mig_devices("GPU 0: NVIDIA H200 (UUID: GPU-1)\n") == "no instance yet"


@pytest.mark.parametrize(
    ("said", "fix"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", "ERR_NVGPUCTRPERM"),
        ("==ERROR== The driver resource was unavailable. Ensure that no other tool", "dcgmi profile --pause"),
        ("==ERROR== Cuda driver is not compatible with Nsight Compute", "update the driver"),
        ("==ERROR== Profiling is not supported on this device", "MIG"),
        ("==ERROR== Something else", "Something else"),
    ],
)
def test_what_ncu_complains_of_comes_with_its_fix(said: str, fix: str) -> None:
    problem = ncu.problem_in(said, exit_code=1)
    assert problem is not None
    assert fix in problem
    assert "\n" not in problem


def test_nothing_is_wrong_with_a_run_that_ended_well() -> None:
    assert (
        ncu.problem_in("==PROF== Disconnected", "a kernel is not supported on this device, it says", exit_code=0)
        is None
    )


@pytest.mark.parametrize(("line", "known"), [("RmProfilingAdminOnly: 1", True), ("RmProfilingAdminOnly: 0", False),
                                             ("EnableMSI: 1", None)])  # fmt: skip
def test_what_the_driver_says_of_its_counters(tmp_path: Path, line: str, known: bool | None) -> None:
    (tmp_path / "params").write_text(f"EnableMSI: 1\n{line}\n", encoding="utf-8")
    assert ncu.restricted(tmp_path / "params") is known
    assert ncu.restricted(tmp_path / "none") is None
