"""The protocol that both backends keep. Nothing above this layer knows which one ran."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ladder.model import Activity, Device, Resources, Shape, Timing, Traffic
from ladder.nvrtc import Compiled

__all__ = ["Backend", "Engine", "Outcome"]

Engine = Literal["auto", "numpy", "c"]
"""What executes PTX on the CPU: numpy, or C built by the system's compiler; auto takes C where there is one."""

F32 = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one product gave.

    Attributes:
        c: (M, N) float32, C-contiguous.
        damage: what the kernel overwrote outside C (a canary, A or B), None when all is intact.
        traffic: exact counts of this very run when it was asked for and the backend can, else None.
        activity: the FP32 instructions of this very run, under the same condition.
    """

    c: F32
    damage: str | None = None
    traffic: Traffic | None = None
    activity: Activity | None = None


class Backend(Protocol):
    """Runs compiled rungs on arrays of the host."""

    name: Literal["cuda", "emulated"]

    @property
    def device(self) -> Device:
        """The GPU that runs, or the recorded one that is emulated."""
        ...

    def run(
        self, kernel: Compiled, a: F32, b: F32, *, count: bool = False, offsets: tuple[int, int, int] = (0, 0, 0)
    ) -> Outcome:
        """C = A @ B with A (M, K), B (K, N), both C-contiguous float32; C is poisoned (or zeroed) first.

        ``offsets`` shifts A, B and C by that many elements from a 256-byte boundary, to try misaligned pointers.

        Raises:
            ShapeError: the rung does not support the shape.
            BackendError: the launch failed.
            KernelFaultError: an emulated kernel did something undefined.
        """
        ...

    @property
    def executes_flop(self) -> float:
        """Work up to which a product is executed; beyond it, :meth:`replay` gives the traffic."""
        ...

    def replay(self, kernel: Compiled, shape: Shape) -> Traffic:
        """Traffic of a product too large to execute here, from a few of its threadblocks.

        Raises:
            BackendError: its threadblocks are not all alike, or this backend executes everything.
        """
        ...

    def resources(self, kernel: Compiled) -> Resources:
        """Registers, shared memory, spills, and the occupancy they allow on ``device``."""
        ...

    def time(self, kernel: Compiled, a: F32, b: F32, *, cold: bool = False) -> Timing | None:
        """Seconds per product from device events, caches warm or ``cold``; None on a backend that has no clock."""
        ...

    def close(self) -> None:
        """Free what the backend holds on the device."""
        ...
