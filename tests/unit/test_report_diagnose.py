"""The sentence for each run follows from its numbers alone: a rule each, and the name never matters."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers.results import H200_ROOFS, KERNELS, Kernel, make_run, peer, unhappy_runs

from ladder.model import Activity, Quantity, Resources, Roofs, Shape
from ladder.report.diagnose import read
from ladder.report.signals import conflict_degree, scatter, scattered, unroofed
from ladder.roofline import place
from ladder.store import Run

BY_NAME = {kernel.name: kernel for kernel in KERNELS}
ALL_HIGH = {"l1": 50.0, "l2": 500.0, "sm": 50.0}


def kernel(**numbers: object) -> Kernel:
    return Kernel(**{"name": "mine", "title": "Mine", **ALL_HIGH, **numbers})  # type: ignore[arg-type]


def slow(run: Run, fraction: float) -> Run:
    assert run.placement is not None
    return replace(run, placement=replace(run.placement, fraction=fraction))


@pytest.mark.parametrize(
    ("name", "rule", "lever"),
    [
        ("naive", "scattered", "consecutive lanes read consecutive addresses"),
        ("coalesced", "operands", "Keep a tile of C in registers"),
        ("tiled_32", "shared", "larger tile of C in registers"),
        ("tiled_conflict", "conflicts", "Pad the tile's rows"),
        ("padded", "shared", "larger tile of C in registers"),
        ("register_tile", "pipe", "instruction mix"),
    ],
)
def test_the_ladder_reads_as_it_should(name: str, rule: str, lever: str) -> None:
    run = make_run(BY_NAME[name], 1024)
    reading = read(run, H200_ROOFS)
    assert reading.rule == rule
    assert lever in reading.lever
    renamed = replace(run, rung="anything", title="Else")
    assert read(renamed, H200_ROOFS) == reading


def test_below_the_dram_ridge_block_more() -> None:
    roofs = replace_roof("dram", 1e11)
    reading = read(make_run(kernel(l2=16.0), 8192, roofs=roofs), roofs)
    assert reading.rule == "dram"
    assert "Block more" in reading.lever
    assert "below the ridge at 647" in reading.binds


def test_bytes_that_are_compulsory_cannot_be_blocked_away() -> None:
    roofs = replace_roof("dram", 1e11)
    reading = read(make_run(kernel(), 64, roofs=roofs), roofs)
    assert reading.rule == "compulsory"
    assert "fuse" in reading.lever
    assert "(modelled)" in reading.binds


def test_l2_wants_a_larger_block_tile() -> None:
    reading = read(make_run(kernel(l2=2.0), 1024), H200_ROOFS)
    assert reading.rule == "l2"
    assert "16.6 TFLOP/s" in reading.binds
    assert "Next comes FP32 at 64.7 TFLOP/s, 3.9 times higher." in reading.binds
    assert "Enlarge the block tile" in reading.lever


def test_tensor_cores_are_not_held_against_fp32() -> None:
    """Far to the right of FP32's ridge a memory still binds what is not bound by FP32; its own peak is missed."""
    run = make_run(kernel(l2=20.0), 1024)
    run = replace(run, placement=place(run.intensity, H200_ROOFS, pipe=None, flop_per_s=120e12))
    reading = read(run, H200_ROOFS)
    assert reading.rule == "l2"
    assert "166 TFLOP/s: 20.0 FLOP/byte (modelled). " in reading.binds
    assert "It reaches 72 % of this bound" in reading.binds
    assert "The peak of its own arithmetic is not known here, so a lower roof may be missing." in reading.binds
    assert not any("FP32" in words or "ridge" in words for words in (reading.binds, reading.lever))


def test_more_wavefronts_than_the_widest_access_needs_are_conflicts_without_any_law() -> None:
    run = make_run(kernel(sm=0.1, shared=0.11, per_request=8.0), 1024)
    assert run.traffic is not None
    assert run.traffic.wavefronts_per_request is not None
    assert run.traffic.wavefronts_per_request > 5
    assert conflict_degree(run) == pytest.approx(run.traffic.wavefronts_per_request / 4)
    reading = read(run, H200_ROOFS)
    assert reading.rule == "conflicts"
    assert "no clean access needs over 4" in reading.binds
    assert "lifts the bound to at least" in reading.lever


def test_two_wavefronts_without_a_law_may_be_width_or_conflict() -> None:
    run = make_run(kernel(sm=0.1, shared=0.11, per_request=2.0), 1024)
    assert conflict_degree(run) is None
    reading = read(run, H200_ROOFS)
    assert reading.rule == "shared"
    assert "if every access is 4 bytes wide they are conflicts" in reading.lever


def test_the_law_tells_width_from_conflict() -> None:
    wide = make_run(kernel(sm=1.9, shared=2.0, per_request=4.0, law="c_stationary", edge=64, shared_law=2.0), 1024)
    assert conflict_degree(wide) == pytest.approx(1.0, rel=1e-3)
    assert read(wide, H200_ROOFS).rule == "shared"


def test_the_promise_after_padding_stops_at_the_next_roof() -> None:
    run = make_run(
        kernel(l2=2.0, sm=0.05, shared=0.0501, per_request=16.0, law="c_stationary", edge=8, shared_law=2.0), 256
    )
    reading = read(run, H200_ROOFS)
    assert reading.rule == "conflicts"
    assert "the bound to at least 16.6 TFLOP/s" in reading.lever


def test_scatter_is_touched_over_asked() -> None:
    assert scatter(make_run(BY_NAME["naive"], 256)) == pytest.approx(1056 / 256, rel=1e-3)
    assert scatter(peer(256, 1e12)) is None


def counted(wavefronts: int, requests: int, l1_bytes: int) -> Run:
    """Naive's row as a GPU counts it: nobody knows what its lanes asked for."""
    run = make_run(BY_NAME["naive"], 1024)
    assert run.traffic is not None
    levels = {level: q for level, q in run.traffic.levels.items() if level != "asked"}
    levels["l1"] = Quantity(bytes=l1_bytes, origin="counted")
    traffic = replace(run.traffic, levels=levels, global_wavefronts=wavefronts, global_requests=requests)
    return replace(run, traffic=traffic)


@pytest.mark.parametrize(
    ("wavefronts", "l1_bytes", "words"),
    [
        (16_500, 528_000, "16.5 wavefronts a global request"),
        (4_001, 640_000, "4.00 wavefronts a global request"),
        (1_200, 528_000, "13.8 sectors for each wavefront"),
        (4_000, 512_000, ""),  # 16 bytes a lane, contiguous
        (1_000, 160_000, ""),  # 4 bytes a lane, across a sector's edge
    ],
)
def test_a_gpu_shows_scattered_lanes_by_its_wavefronts_and_sectors(wavefronts: int, l1_bytes: int, words: str) -> None:
    run = counted(wavefronts, 1_000, l1_bytes)
    assert scatter(run) is None
    assert (words in scattered(run)) if words else (scattered(run) == "")
    assert (read(run, H200_ROOFS).rule == "scattered") == bool(words)
    assert scattered(counted(0, 0, l1_bytes)) == ""


def test_wavefronts_of_asynchronous_copies_and_tensor_cores_are_no_scattered_requests() -> None:
    assert scattered(counted(38_000, 1_000, 1_025_000)) == "", "more than the lanes of a thousand requests can touch"
    apart = counted(38_000, 1_000, 528_000)
    assert "38.0 wavefronts a global request" in scattered(apart)
    assert scattered(replace(apart, activity=Activity(origin="counted", fadd=0, fmul=0, ffma=0))) == ""


def test_split_operands_are_held_against_a_third_of_the_tensor_cores() -> None:
    roofs = Roofs(bytes_per_s={"dram": 4e12}, flop_per_s={"fp32": 65e12, "tf32": 390e12})
    run = make_run(BY_NAME["register_tile"], 1024)
    run = replace(run, placement=place({"dram": 300.0}, roofs, pipe="tf32", products=3))
    assert "The TF32 pipe binds at 130 TFLOP/s, 3 products for each: no memory" in read(run, roofs).binds


def test_scattered_lanes_far_below_the_pipe_are_not_called_latency() -> None:
    reading = read(slow(counted(1_200, 1_000, 528_000), 0.2), H200_ROOFS)
    assert "only 20 % of this bound: so many sectors cost time that no roof here counts" in reading.binds
    assert "latency" not in reading.binds
    assert reading.lever == "Let consecutive lanes read consecutive addresses."


def test_the_share_reached_follows_the_bound_that_it_is_of() -> None:
    binds = read(make_run(BY_NAME["tiled_32"], 4096, timed=True), H200_ROOFS).binds
    assert binds.index("Shared memory binds") < binds.index("of this bound") < binds.index("Next comes")


@pytest.mark.parametrize(
    ("fraction", "words"),
    [
        (1.2, "which no kernel can"),
        (0.95, "sits on its roof"),
        (0.6, "not all of it"),
        (0.2, "latency holds it, not this roof"),
    ],
)
def test_the_fraction_decides_whether_the_roof_is_to_blame(fraction: float, words: str) -> None:
    assert words in read(slow(make_run(BY_NAME["tiled_32"], 4096, timed=True), fraction), H200_ROOFS).binds


@pytest.mark.parametrize(
    ("change", "blocks", "words"),
    [
        ({}, 64, "64 threadblocks for 132 SMs"),
        ({}, 4096, "stall reasons"),
        ({"resources": Resources(registers=255, smem_bytes=0, spill_bytes=64)}, None, "64 bytes of spilled registers"),
        (
            {"resources": Resources(registers=255, smem_bytes=0, spill_bytes=0, occupancy=0.125)},
            None,
            "an occupancy of 12 %",
        ),
    ],
)
def test_far_below_the_roof_the_idle_machine_is_named(
    change: dict[str, object], blocks: int | None, words: str
) -> None:
    run = replace(slow(make_run(BY_NAME["tiled_32"], 4096, timed=True), 0.1), **change)  # type: ignore[arg-type]
    lever = read(run, H200_ROOFS, sm_count=132, blocks=blocks).lever
    assert words in lever
    assert "For the roof itself: give each thread" in lever


def test_a_short_run_blames_the_launch() -> None:
    run = slow(make_run(BY_NAME["tiled_32"], 256, timed=True), 0.1)
    assert run.time is not None
    assert run.time.median < 20e-6
    assert "is short beside a launch" in read(run, H200_ROOFS).lever


def test_two_roofs_of_one_height_are_both_named() -> None:
    run = make_run(kernel(l2=1.0, sm=0.26), 1024)
    assert read(run, H200_ROOFS).rule == "l2"
    assert "Enlarge the block tile" in read(run, H200_ROOFS).lever
    assert "Keep a tile of C in registers" in read(run, H200_ROOFS).lever
    assert "The bound of the SM data pipe is nearly as low" in read(run, H200_ROOFS).binds


def test_levels_without_a_roof_are_told() -> None:
    bare = Roofs(bytes_per_s={"dram": 244.7e9}, flop_per_s={"fp32": 7179.2e9})
    assert unroofed(make_run(BY_NAME["tiled_32"], 1024, roofs=bare), bare) == ["L2", "SM data pipe", "shared memory"]
    assert unroofed(make_run(BY_NAME["tiled_32"], 1024), H200_ROOFS) == []


def test_tiles_full_of_zeros_are_named() -> None:
    run = make_run(BY_NAME["tiled_32"], 1024)
    poor = read(run, H200_ROOFS, useful=0.078)
    assert "Only 7.8 % of its tiles' volume lies inside this shape" in poor.binds
    assert poor.lever.startswith("Use smaller tiles")
    assert read(run, H200_ROOFS, useful=0.9) == read(run, H200_ROOFS)


def test_rows_without_a_place_give_their_reason() -> None:
    wrong, skipped, error = (read(run, H200_ROOFS) for run in unhappy_runs())
    assert "C[3, 5] = 1.0, expected 2.0" in wrong.binds
    assert "needs compute capability 9.0" in skipped.binds
    assert "x.cu:7" in error.binds
    timed_only = read(peer(1024, 33e12), H200_ROOFS)
    assert timed_only.binds == "Timed at 33.0 TFLOP/s; its traffic was not counted."
    idle = Run(rung="r", title="R", kind="rung", shape=Shape(m=4, n=4, k=0))
    assert "no work" in read(idle, H200_ROOFS).binds
    assert "not counted" in read(replace(idle, shape=Shape(m=4, n=4, k=4)), H200_ROOFS).binds


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("each", KERNELS, ids=lambda k: k.name)
def test_every_run_gets_both_a_cause_and_a_lever(each: Kernel, timed: bool) -> None:
    reading = read(make_run(each, 4096, timed=timed), H200_ROOFS, sm_count=132, blocks=1024)
    assert reading.sentence == f"{reading.binds} {reading.lever}"
    assert reading.binds.endswith(".")
    assert reading.lever.endswith(".")
    assert "None" not in reading.sentence


def replace_roof(name: str, value: float) -> Roofs:
    return Roofs(bytes_per_s={**H200_ROOFS.bytes_per_s, name: value}, flop_per_s=H200_ROOFS.flop_per_s)


def test_placements_of_the_helper_follow_the_roofs_given() -> None:
    roofs = replace_roof("dram", 1e11)
    run = make_run(kernel(), 64, roofs=roofs)
    assert run.placement == place(run.intensity, roofs)
