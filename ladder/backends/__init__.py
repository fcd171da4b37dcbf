"""Where a rung runs: on a GPU (``cuda``), or executed from its PTX on the CPU (``emulated``)."""

from __future__ import annotations

from ladder.backends.base import Backend, Engine, Outcome
from ladder.errors import DriverMissingError, InputError
from ladder.profiles import Profile

__all__ = ["Backend", "Engine", "Outcome", "open_backend"]


def open_backend(name: str, profile: Profile, *, engine: Engine = "auto") -> Backend:
    """Open the backend called ``name``.

    Args:
        name: ``"cuda"``, ``"emulated"``, or ``"auto"``: a GPU if there is one, else the emulator.
        profile: the GPU that the emulator stands for; a real one needs none.
        engine: what executes PTX in the emulator.

    Raises:
        InputError: no backend has that name.
        DriverMissingError: ``"cuda"`` without a driver or without a GPU; the message says how to get one.
        BackendError: the driver refuses to open the GPU.
    """
    if name not in {"auto", "cuda", "emulated"}:
        raise InputError(f"no backend is called {name!r}; there are auto, cuda and emulated")
    # Each backend brings in machinery of its own, and only one of them is used.
    if name != "emulated":
        from ladder.backends.cuda import CudaBackend, find_gpu  # noqa: PLC0415

        reason = find_gpu()
        if reason is None:
            return CudaBackend()
        if name == "cuda":
            raise DriverMissingError(reason)
    from ladder.backends.emulated import EmulatedBackend  # noqa: PLC0415

    return EmulatedBackend(profile.device, engine=engine)
