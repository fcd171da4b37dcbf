"""Synthetic results in the proportions of an H200, for tests of everything that reads results.

The intensities follow the laws and the wavefront rule closely enough to look like a real ladder; they are no record of
one. Nothing here compiles or runs a kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

from ladder.model import Check, Device, Kind, Law, Level, Origin, Quantity, Resources, Roofs, Shape, Timing, Traffic
from ladder.roofline import place
from ladder.store import Results, Run

H200_ROOFS = Roofs(
    bytes_per_s={"dram": 4.12e12, "l2": 8.3e12, "sm": 32.6e12},
    flop_per_s={"fp32": 64.7e12},
    origin={"dram": "recorded", "l2": "recorded", "sm": "recorded", "fp32": "recorded"},
    note={"dram": "copy, float4", "l2": "ld.cg reads", "sm": "LDS.128", "fp32": "eight FMA chains"},
)
MEASURED_ROOFS = Roofs(
    bytes_per_s=dict(H200_ROOFS.bytes_per_s),
    flop_per_s=dict(H200_ROOFS.flop_per_s),
    origin=dict.fromkeys(("dram", "l2", "sm", "fp32"), "measured"),
    note=dict(H200_ROOFS.note),
)


def h200(*, timed: bool = False) -> Device:
    """An H200 that ran (``timed``) or was emulated."""
    return Device(
        backend="cuda" if timed else "emulated",
        name="NVIDIA H200",
        compute_capability=(9, 0),
        sm_count=132,
        l2_bytes=62914560,
        smem_per_sm_bytes=233472,
        driver="580.159.04" if timed else None,
        nvrtc="13.0",
        sm_clock_hz=1.98e9,
        power_w=612.0 if timed else None,
    )


@dataclass(frozen=True)
class Kernel:
    """One synthetic row: FLOP/byte by level; ``edge`` is the tile edge of its law."""

    name: str
    title: str
    l1: float
    l2: float
    sm: float
    shared: float | None = None
    asked: float | None = None
    per_request: float = 1.0
    kind: Kind = "rung"
    law: str | None = None
    edge: int = 0
    shared_law: float | None = None
    rate_flop_per_s: float | None = None


KERNELS: tuple[Kernel, ...] = (
    Kernel(
        "naive",
        "One thread an element, lanes walk rows",
        64 / 1056,
        0.9,
        64 / (33 * 128),
        asked=0.25,
        rate_flop_per_s=0.45e12,
    ),
    Kernel("coalesced", "Lanes walk columns", 0.4, 8.65, 0.25, asked=0.25, rate_flop_per_s=5.9e12),
    Kernel(
        "tiled_16",
        "Shared-memory tile",
        0,
        4.1,
        0.288,
        0.303,
        per_request=1.2,
        law="c_stationary",
        edge=16,
        shared_law=0.25,
        rate_flop_per_s=8.2e12,
    ),
    Kernel(
        "tiled_32",
        "Shared-memory tile",
        0,
        8.0,
        0.306,
        0.318,
        per_request=1.19,
        law="c_stationary",
        edge=32,
        shared_law=0.25,
        rate_flop_per_s=8.9e12,
    ),
    Kernel(
        "tiled_64",
        "Shared-memory tile",
        0,
        16.0,
        0.315,
        0.32,
        per_request=1.19,
        law="c_stationary",
        edge=64,
        rate_flop_per_s=9.3e12,
    ),
    Kernel(
        "tiled_conflict",
        "Transposed tile, 32-way conflicts",
        0,
        8.0,
        0.01514,
        0.01516,
        per_request=16.2,
        law="c_stationary",
        edge=32,
        shared_law=0.25,
        rate_flop_per_s=0.47e12,
    ),
    Kernel(
        "padded",
        "Transposed tile, one word of padding",
        0,
        8.0,
        0.238,
        0.246,
        per_request=1.0,
        law="c_stationary",
        edge=32,
        shared_law=0.25,
        rate_flop_per_s=7.0e12,
    ),
    Kernel(
        "register_tile_1d",
        "Eight results a thread",
        0,
        16.0,
        0.61,
        0.64,
        per_request=1.5,
        law="c_stationary",
        edge=64,
        shared_law=8 / 18,
        rate_flop_per_s=16.4e12,
    ),
    Kernel(
        "register_tile",
        "An 8 x 8 tile of C in registers",
        0,
        32.0,
        2.31,
        2.44,
        per_request=2.1,
        law="c_stationary",
        edge=128,
        shared_law=2.0,
        rate_flop_per_s=32.7e12,
    ),
    *(
        Kernel(
            f"tile_product_{t}",
            "Three tiles touched",
            0,
            1.05 * t / 6,
            sm,
            shared,
            per_request=1.19,
            kind="law",
            law="tile_product",
            edge=t,
            shared_law=0.25,
            rate_flop_per_s=rate,
        )
        for t, sm, shared, rate in ((16, 0.26, 0.273, 7.0e12), (32, 0.29, 0.303, 7.8e12), (64, 0.30, 0.31, 8.1e12))
    ),
)


def make_run(kernel: Kernel, n: int = 256, *, timed: bool = False, roofs: Roofs = H200_ROOFS) -> Run:
    """``kernel``'s row at n x n x n, proved right and counted, with a time if ``timed``."""
    shape = Shape(m=n, n=n, k=n)
    law = _law(kernel, n)
    l1 = kernel.l1 or (law.predicted["l1"] if law else 0.0)
    dram = n / 6 if n <= 2048 else max(4.2, min(kernel.l2 * 2.02, n / 4))
    intensity: dict[Level, float] = {"asked": kernel.asked or l1, "l1": l1, "l2": kernel.l2, "dram": dram}
    if kernel.shared:
        intensity["shared"] = kernel.shared
    intensity["sm"] = kernel.sm
    traffic = _traffic(shape, intensity, kernel.per_request, counted=timed)
    time = None
    if timed and kernel.rate_flop_per_s:
        seconds = shape.flop / kernel.rate_flop_per_s
        time = Timing(median=seconds, p20=0.99 * seconds, p80=1.02 * seconds, samples=50)
    rate = shape.flop / time.median if time else None
    return Run(
        rung=kernel.name,
        title=kernel.title,
        kind=kernel.kind,
        shape=shape,
        source_sha256="0" * 64,
        check=Check(passed=True, exact_integers=True, worst_error_over_bound=0.02, crc32=1),
        time=time,
        traffic=traffic,
        law=law,
        placement=place(traffic.intensity(shape.flop), roofs, flop_per_s=rate),
        resources=Resources(registers=40, smem_bytes=8192, spill_bytes=0, occupancy=1.0),
    )


def make_results(
    n: int = 256, *, timed: bool = False, kernels: tuple[Kernel, ...] = KERNELS, extra: tuple[Run, ...] = ()
) -> Results:
    """A whole session: every kernel at n x n x n, then ``extra``."""
    roofs = MEASURED_ROOFS if timed else H200_ROOFS
    return Results(
        created="2025-01-02T03:04:05Z",
        command=f"ladder run --shape {n}x{n}x{n}",
        device=h200(timed=timed),
        roofs=roofs,
        runs=(*(make_run(k, n, timed=timed, roofs=roofs) for k in kernels), *extra),
    )


def peer(n: int, rate_flop_per_s: float, *, name: str = "cublas_sgemm") -> Run:
    """A timed library product without counters."""
    shape = Shape(m=n, n=n, k=n)
    seconds = shape.flop / rate_flop_per_s
    return Run(
        rung=name,
        title="cuBLAS SGEMM",
        kind="peer",
        shape=shape,
        time=Timing(median=seconds, p20=seconds, p80=seconds, samples=30),
    )


def unhappy_runs(n: int = 256) -> tuple[Run, ...]:
    """A wrong, a skipped and a broken-off row."""
    shape = Shape(m=n, n=n, k=n)
    wrong = Check(
        passed=False,
        exact_integers=False,
        worst_error_over_bound=7.5,
        failure="C[3, 5] = 1.0, expected 2.0 (bound 1e-05)",
    )
    return (
        Run(rung="broken_edge", title="Forgets the last row", kind="rung", shape=shape, check=wrong),
        Run(rung="tma_pipeline", title="Bulk copies", kind="rung", shape=shape, skipped="needs compute capability 9.0"),
        Run(rung="endless", title="Never ends", kind="rung", shape=shape, error="step limit of 1000 reached at x.cu:7"),
    )


def _law(kernel: Kernel, n: int) -> Law | None:
    if kernel.law is None:
        return None
    edge = kernel.edge
    l1 = edge / 6 if kernel.law == "tile_product" else (edge / 4) / (1 + edge / (2 * n))
    predicted = {"l1": l1} | ({"shared": kernel.shared_law} if kernel.shared_law else {})
    return Law(name=kernel.law, predicted=predicted)


def _traffic(shape: Shape, intensity: dict[Level, float], per_request: float, *, counted: bool) -> Traffic:
    modelled: tuple[Level, ...] = ("l2", "dram")
    levels: dict[Level, Quantity] = {}
    for level, value in intensity.items():
        origin: Origin = "counted" if counted and level != "asked" else "emulated"
        if not counted and level in modelled:
            origin = "modelled"
        levels[level] = Quantity(bytes=round(shape.flop / value), origin=origin)
    shared = levels["shared"].bytes // 128 if "shared" in levels else 0
    every = levels["sm"].bytes // 128
    stores = shared // 25
    loads = shared - stores
    return Traffic(
        levels=levels,
        wavefronts_ld=loads,
        wavefronts_st=stores,
        requests_ld=round(loads / per_request),
        requests_st=stores,
        global_wavefronts=every - shared,
        global_requests=max(1, (every - shared) // 2),
    )
