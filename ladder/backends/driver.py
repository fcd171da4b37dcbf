"""Is there a GPU, and what does the driver say of it: ``cuda.core`` and ``cuda.bindings``, imported only when used."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ladder.errors import BackendError

__all__ = [
    "compute_capability",
    "device_count",
    "driver_version",
    "find_gpu",
    "translated",
]

_EMULATED = "ladder run, count and check do without one (--backend emulated)."
_SMI_TIMEOUT_S = 20.0


def find_gpu() -> str | None:
    """Why no GPU can be used, with the fix; None when there is one.

    Looks for the CUDA bindings, the driver, its version and its devices. Makes no CUDA context.
    """
    try:
        import cuda.bindings  # noqa: PLC0415 -- so that everything else works without CUDA
        import cuda.core  # noqa: PLC0415
        from cuda.bindings import driver  # noqa: PLC0415
    except ImportError as error:
        return (
            f'the CUDA bindings for Python are not installed ({error}); install them with `pip install "matmul-ladder'
            f'[cu13]"`, or [cu12] for a driver of CUDA 12. {_EMULATED}'
        )
    try:
        (status,) = driver.cuInit(0)
    except RuntimeError:  # what the bindings raise when libcuda is not there
        return (
            "no NVIDIA driver: its library libcuda cannot be loaded; install the driver, or start the container with "
            f"GPU access (docker run --gpus all). {_EMULATED}"
        )
    return _why_unusable(driver, status, bindings_major=int(cuda.bindings.__version__.split(".")[0]))


def _why_unusable(driver: Any, status: Any, *, bindings_major: int) -> str | None:
    codes = driver.CUresult
    if status == codes.CUDA_ERROR_NO_DEVICE:
        return (
            "the NVIDIA driver sees no GPU (CUDA_ERROR_NO_DEVICE); look at `nvidia-smi -L` and at the environment "
            f"variable CUDA_VISIBLE_DEVICES. {_EMULATED}"
        )
    if status != codes.CUDA_SUCCESS:
        return f"the NVIDIA driver does not start ({status.name}); `nvidia-smi` says what it finds. {_EMULATED}"
    status, version = driver.cuDriverGetVersion()
    if status == codes.CUDA_SUCCESS and version // 1000 < bindings_major:
        return (
            f"the driver speaks CUDA {version // 1000}.{version % 1000 // 10} and the installed bindings are for CUDA "
            f'{bindings_major}; update the driver, or `pip install "matmul-ladder[cu{version // 1000}]"`. {_EMULATED}'
        )
    status, count = driver.cuDeviceGetCount()
    if status != codes.CUDA_SUCCESS or count == 0:
        return f"the NVIDIA driver lists no GPU; look at CUDA_VISIBLE_DEVICES and `nvidia-smi -L`. {_EMULATED}"
    return None


def device_count() -> int:
    """How many GPUs the driver lists; call :func:`find_gpu` first."""
    from cuda.bindings import driver  # noqa: PLC0415 -- loads the CUDA bindings

    _, count = driver.cuDeviceGetCount()
    return int(count)


def compute_capability(device_id: int = 0) -> tuple[int, int]:
    """Such as (9, 0), without opening the GPU; call :func:`find_gpu` first."""
    from cuda.bindings import driver  # noqa: PLC0415 -- loads the CUDA bindings

    kinds = driver.CUdevice_attribute
    wanted = (
        kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
        kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
    )
    major, minor = (int(driver.cuDeviceGetAttribute(kind, device_id)[1]) for kind in wanted)
    return major, minor


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Turn the driver's errors into :class:`BackendError`, which says what was tried and the error's own name."""
    from cuda.core._utils.cuda_utils import CUDAError  # noqa: PLC0415 -- cuda.core exports it nowhere else

    try:
        yield
    except CUDAError as error:
        raise BackendError(f"{what}: {str(error).strip()}") from error


def driver_version(pci_bus_id: str) -> str | None:
    """The driver's version as nvidia-smi writes it, such as ``"580.65.06"``; None without nvidia-smi."""
    answer = _ask(pci_bus_id, "driver_version")
    return answer[0] if answer else None


def _ask(pci_bus_id: str, fields: str) -> list[str] | None:
    path = shutil.which("nvidia-smi")
    if path is None:
        return None
    try:
        answer = subprocess.run(
            _command(path, pci_bus_id, fields), capture_output=True, text=True, check=True, timeout=_SMI_TIMEOUT_S
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return [text.strip() for text in answer.stdout.split(",")]


def _command(path: str, pci_bus_id: str, fields: str) -> list[str]:
    return [path, f"--id={pci_bus_id}", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
