"""One launch of the probe: its kernel, its addresses, and how they read from a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

__all__ = ["FIELDS", "FULL", "Case", "fresh", "lines", "of_record"]

FULL = 0xFFFFFFFF
FIELDS = (
    "g", "pitch", "q", "active", "step_mask", "n", "step", "dup", "reps", "gap", "touch", "warp_step", "block_step",
    "dg", "dpitch", "dq", "dstep", "dwarp", "split", "n2", "gap2",
)  # fmt: skip
"""The members of ``struct P`` of wavefronts.cu after its pointer, in order."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A launch. Lane l of warp w of block b asks, in request i of ``n``, for the byte

        off + b block_step + w warp_step + (l // g) pitch + (l % g) q + (i >> dup) step

    with ``step`` in the lanes of ``step_mask`` only; all of it ``reps`` times, ``gap`` clocks apart. Names with a ``d``
    are those of the shared side of a copy. ``split`` warps of a mix access global memory, the others shared memory,
    ``n2`` times. ``mnk`` makes it a product of the tile kernels instead. ``carveout`` is the percentage of L1 that is
    kept for shared memory, -1 for the driver's choice; ``touch`` loads everything once before.
    """

    name: str
    kernel: str
    template: tuple[int, ...]
    grid: tuple[int, int, int] = (1, 1, 1)
    warps: int = 1
    smem: int = 0
    carveout: int = -1
    off: int = 0
    g: int = 32
    pitch: int = 0
    q: int = 4
    active: int = FULL
    step_mask: int = FULL
    n: int = 1
    step: int = 0
    dup: int = 0
    reps: int = 1
    gap: int = 0
    touch: int = 0
    warp_step: int = 0
    block_step: int = 0
    dg: int = 32
    dpitch: int = 0
    dq: int = 4
    dstep: int = 0
    dwarp: int = 0
    split: int = 0
    n2: int = 0
    gap2: int = 0
    mnk: tuple[int, int, int] | None = None

    @property
    def expression(self) -> str:
        """The kernel's name to NVRTC."""
        return f"{self.kernel}<{', '.join(map(str, self.template))}>"

    @property
    def width_bytes(self) -> int:
        """Bytes that a lane accesses in global memory."""
        return self.template[0] if self.kernel in {"k_ld", "k_st", "k_copy"} else 4

    @property
    def at_once(self) -> int:
        """Requests of a warp that are under way together."""
        if self.kernel == "k_mix":
            return 8 if self.template[0] == 2 else 1
        return self.template[-1]

    @property
    def global_warps(self) -> int:
        """Warps of a block that access global memory."""
        return self.split if self.kernel == "k_mix" else self.warps

    def addresses(self, request: int, warp: int = 0) -> list[int]:
        """The byte of each lane, from where the buffer begins, in block 0."""
        moved = (request >> self.dup) * self.step
        return [
            self.off
            + warp * self.warp_step
            + lane // self.g * self.pitch
            + lane % self.g * self.q
            + (moved if self.step_mask >> lane & 1 else 0)
            for lane in range(32)
        ]

    def targets(self, request: int) -> list[int]:
        """The shared byte that each lane of warp 0 copies to."""
        return [
            lane // self.dg * self.dpitch + lane % self.dg * self.dq + (request & 3) * self.dstep for lane in range(32)
        ]

    def record(self) -> dict[str, Any]:
        """What differs from the defaults."""
        plain = {each.name: each.default for each in fields(self)}
        return {name: value for name, value in asdict(self).items() if value != plain[name]}


def of_record(record: Mapping[str, Any]) -> Case:
    """The launch of a row of the record."""
    known = {each.name for each in fields(Case)}
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in record.items()
    }
    return Case(**{name: value for name, value in values.items() if name in known})


def lines(count: int, apart: int = 1, *, spread: bool = False) -> dict[str, int]:
    """A request of 4-byte words on ``count`` lines, ``apart`` lines from each other, without a bank conflict."""
    g = 32 // (1 << (count - 1).bit_length())
    active = (1 << (count * g)) - 1
    if spread:
        return {"g": g, "pitch": 128 * apart + 4, "q": 128 // g, "active": active}
    return {"g": g, "pitch": 128 * apart + 4 * g, "q": 4, "active": active}


def fresh(count: int, n: int, **more: bool) -> dict[str, int]:
    """Each request on ``count`` lines of its own, warp after warp."""
    return {**lines(count, **more), "n": n, "step": count * 128, "warp_step": n * count * 128}
