"""Where this process runs, as far as it decides whether a GPU's counters can be read: WSL, a container, a MIG instance.

Sources: NVIDIA's page on ERR_NVGPUCTRPERM for permissions; CUPTI's "Special Configurations" for MIG; CUDA on WSL User
Guide. Everything is read from files that Linux and the driver show to everybody.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

__all__ = ["MIG_FIX", "Surroundings", "look_around", "mig_devices", "mig_instances", "permission_fix"]

_PAGE = "https://developer.nvidia.com/ERR_NVGPUCTRPERM"
_EMULATED = "Emulated counts need no permission"
_OPTION = "`options nvidia NVreg_RestrictProfilingToAdminUsers=0` in /etc/modprobe.d, then reboot"
_SMI_TIMEOUT_S = 20.0
_CONTAINER = re.compile(r"docker|containerd|kubepods|libpod|lxc")

MIG_FIX = (
    "counters of what instances share (L2, DRAM) cannot be read in a MIG instance that has neighbours: use a GPU "
    "instance with one compute instance in it, or switch MIG off as root (nvidia-smi -mig 0)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """``wsl``: Linux under Windows. ``container``: what the process's container is known by, None outside one."""

    wsl: bool = False
    container: str | None = None

    @property
    def words(self) -> str:
        """In a few words, for a list of findings."""
        found = [] if self.container is None else [f"a container ({self.container})"]
        found += ["WSL"] if self.wsl else []
        return " in ".join(found) or "neither WSL nor a container"


def look_around(root: Path = Path("/")) -> Surroundings:
    """WSL by the kernel's name; a container by the file that its runtime leaves, or by the first process's groups."""
    kernel = _text(root / "proc/version").lower()
    return Surroundings(wsl="microsoft" in kernel, container=_container(root))


def _container(root: Path) -> str | None:
    for mark, name in ((".dockerenv", "Docker"), ("run/.containerenv", "Podman")):
        if (root / mark).exists():
            return name
    found = _CONTAINER.search(_text(root / "proc/1/cgroup")) or _CONTAINER.search(_text(root / "proc/self/cgroup"))
    return found[0] if found else None


def permission_fix(where: Surroundings | None = None) -> str:
    """How to be let at the counters from here, in one line."""
    where = look_around() if where is None else where
    if where.wsl:
        return (
            "on the Windows side, in the NVIDIA Control Panel, Desktop > Enable Developer Settings, then Developer > "
            f"Manage GPU Performance Counters > allow access to all users, and restart WSL ({_PAGE}). {_EMULATED}"
        )
    if where.container is not None:
        return (
            f"start the container with --cap-add=SYS_ADMIN (root in it is not enough), or on the host {_OPTION} "
            f"({_PAGE}). {_EMULATED}"
        )
    return f"run as root, or let everybody read them: {_OPTION} ({_PAGE}). {_EMULATED}"


def mig_instances() -> str | None:
    """The MIG devices when the first GPU has MIG on, as nvidia-smi lists them; None when it is off or unknown."""
    path = shutil.which("nvidia-smi")
    if path is None:
        return None
    try:
        mode = _said([path, "--query-gpu=mig.mode.current", "--format=csv,noheader"])
        if not mode.strip().lower().startswith("enabled"):
            return None
        return mig_devices(_said([path, "-L"]))
    except (OSError, subprocess.TimeoutExpired):
        return None


def mig_devices(listing: str) -> str:
    """``nvidia-smi -L`` in short: the MIG devices in it, or that there is none."""
    devices = re.findall(r"^\s+MIG (\S+)\s+Device", listing, re.MULTILINE)
    return ", ".join(devices) or "no instance yet"


def _said(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SMI_TIMEOUT_S).stdout


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:  # not Linux, or not for us to read
        return ""
