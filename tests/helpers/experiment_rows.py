"""Rows of experiments that nobody ran, as they come from a GPU."""

from __future__ import annotations

from dataclasses import replace

from ladder import laws
from ladder.climb import placed
from ladder.experiments import AskedRow, Experiments, plan
from ladder.experiments.padding import pitch_of, predicted
from ladder.laws import predict
from ladder.model import Quantity, Shape, Timing, Traffic
from ladder.profiles import load_profile
from ladder.store import Run

__all__ = ["PROFILE", "asked_row", "edge_run", "edge_runs", "padding_runs", "session", "timing"]

PROFILE = load_profile("h200")


def timing(seconds: float) -> Timing:
    return Timing(median=seconds, p20=seconds, p80=seconds, samples=5)


def edge_run(kernel: str, edge: int, shape: Shape, *, off: float = 1.0, dram: float = 40.0) -> Run:
    """A product that is ``off`` from its law at L1, with ``dram`` FLOP/byte at DRAM and a millisecond."""
    rung = plan.with_edge(kernel, edge)
    law = predict(rung, shape)
    assert law is not None
    intensity = law.predicted["l1"] * laws.sector_share(edge) * off
    levels = {
        "l1": Quantity(bytes=round(shape.flop / intensity), origin="counted"),
        "dram": Quantity(bytes=round(shape.flop / dram), origin="counted"),
        "sm": Quantity(bytes=round(shape.flop / 0.3), origin="counted"),
    }
    run = Run(
        rung=rung.name, title=rung.title, kind=rung.kind, shape=shape, params=dict(rung.params), law=law,
        traffic=Traffic(levels=levels), time=timing(1e-3),
    )  # fmt: skip
    return placed(run, PROFILE.roofs)


def edge_runs(shape: Shape, **options: float) -> list[Run]:
    """Both kernels at every edge."""
    return [edge_run(kernel, edge, shape, **options) for kernel in ("tile_product", "tiled") for edge in plan.EDGES]


def padding_runs() -> list[Run]:
    """Every padding, with the wavefronts that the banks predict."""
    out = []
    for job in plan.padded(Shape(m=64, n=64, k=64)):
        bare = Run(rung=job.rung.name, title="P", kind="rung", shape=job.shape, params=dict(job.rung.params))
        want = predicted(pitch_of(bare))
        traffic = Traffic(
            levels={"shared": Quantity(bytes=128 * want.wavefronts, origin="counted"),
                    "sm": Quantity(bytes=128 * want.wavefronts, origin="counted")},
            wavefronts_ld=want.wavefronts, requests_ld=want.requests,
        )  # fmt: skip
        out.append(placed(replace(bare, traffic=traffic, time=timing(1e-6 * want.wavefronts)), PROFILE.roofs))
    return out


def asked_row(name: str = "naive", asked: int = 10**9, dram: int = 10**6, seconds: float | None = 1e-4) -> AskedRow:
    levels = {"asked": Quantity(bytes=asked, origin="emulated"), "dram": Quantity(bytes=dram, origin="counted")}
    return AskedRow(
        name=name, title="N", kind="rung", size="64x64x64", flop=2 * 64**3, traffic=Traffic(levels=levels),
        time=None if seconds is None else timing(seconds),
    )  # fmt: skip


def session() -> Experiments:
    """One of each."""
    small, large = Shape(m=256, n=256, k=256), Shape(m=8192, n=8192, k=8192)
    grows = [
        edge_run(kernel, edge, large, dram=edge / 2) for kernel in ("tile_product", "tiled") for edge in (8, 16, 32)
    ]
    return Experiments(
        created="2026-01-31T12:00:00Z", command="ladder experiment", device=PROFILE.device, roofs=PROFILE.roofs,
        edges=(*edge_runs(small), *grows), padding=tuple(padding_runs()),
        asked=(asked_row(), asked_row("vector_add_strided", 10**6, 8 * 10**6),
               replace(asked_row("copy"), kind="stream", traffic=None, time=None, problem="it broke")),
    )  # fmt: skip
