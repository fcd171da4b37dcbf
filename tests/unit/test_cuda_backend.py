"""The ``cuda`` backend against a double of ``cuda.core``: what it launches, guards, reports and times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.fake_cuda import LAUNCH_S, MAX_SMEM_BYTES, FakeCuda, Launch, floats, installed, multiply
from numpy.typing import NDArray

from ladder.backends import open_backend
from ladder.backends.cuda import CudaBackend
from ladder.backends.guard import ALIGNMENT_BYTES
from ladder.backends.launches import launchers
from ladder.errors import BackendError, DriverMissingError, InputError, ShapeError
from ladder.geometry import MAX_GRID_YZ
from ladder.model import Device, Resources, Rung, Shape
from ladder.nvrtc import Compiled
from ladder.oracle import POISON_BITS
from ladder.profiles import load_profile
from ladder.stats import StopRule

F32 = NDArray[np.float32]
QUICK = StopRule(min_samples=3, min_time_s=0.0, max_time_s=0.1)


@pytest.fixture
def world() -> Iterator[FakeCuda]:
    with installed() as fake:
        yield fake


@pytest.fixture
def backend(world: FakeCuda) -> CudaBackend:
    return CudaBackend()


def kernel(name: str = "tiled", *, static_smem_bytes: int = 1024, **changes: object) -> Compiled:
    rung = Rung(
        name=name, number=1, kind="rung", title=name, kernel=name, params={}, tile=(16, 16), block=(16, 16, 1),
        path=Path(f"{name}.cu"), source="", **changes,
    )  # fmt: skip
    resources = Resources(registers=32, smem_bytes=static_smem_bytes + rung.smem_bytes, spill_bytes=0)
    return Compiled(
        rung=rung, arch="sm_90", ptx="", cubin=b"\x7fELF", lowered_name=f"_Z{name}", log="", nvrtc_version="13.0",
        resources=resources, cached=False,
    )  # fmt: skip


def operands(m: int, n: int, k: int) -> tuple[F32, F32]:
    rng = np.random.default_rng(1)
    return rng.random((m, k), dtype=np.float32), rng.random((k, n), dtype=np.float32)


@pytest.mark.parametrize("offsets", [(0, 0, 0), (1, 2, 3), (64, 0, 63)])
@pytest.mark.parametrize("sizes", [(33, 20, 17), (1, 1, 1), (4, 4, 0), (0, 3, 4), (3, 0, 4), (0, 0, 0)], ids=str)
def test_a_product_is_right_and_nothing_is_damaged(
    backend: CudaBackend, world: FakeCuda, sizes: tuple[int, int, int], offsets: tuple[int, int, int]
) -> None:
    a, b = operands(*sizes)
    outcome = backend.run(kernel(), a, b, offsets=offsets)
    np.testing.assert_array_equal(outcome.c, a @ b)
    assert (outcome.damage, outcome.traffic) == (None, None)
    assert outcome.c.shape == (sizes[0], sizes[1])
    for launch in world.rung_launches:
        assert [int(p) % ALIGNMENT_BYTES for p in launch.arguments[:3]] == [4 * o % ALIGNMENT_BYTES for o in offsets]
    assert world.live == []


def test_the_device_is_described(backend: CudaBackend) -> None:
    assert backend.name == "cuda"
    assert backend.device == Device(
        backend="cuda",
        name="Fake GPU",
        compute_capability=(9, 0),
        sm_count=4,
        l2_bytes=2**20,
        smem_per_sm_bytes=228 * 1024,
        l1_bytes=256 * 1024,
        driver="580.1",
        sm_clock_hz=1.98e9,
    )
    assert backend.gpu.pci_bus_id == "00000000:1e:00.0"


def test_a_kernel_gets_pointers_as_64_bits_and_sizes_as_c_ints(backend: CudaBackend, world: FakeCuda) -> None:
    backend.run(kernel(smem_bytes=512), *operands(33, 20, 17))
    (launch,) = world.rung_launches
    assert [type(argument) for argument in launch.arguments] == [int, int, int, np.int32, np.int32, np.int32]
    assert [int(size) for size in launch.arguments[3:]] == [33, 20, 17]
    assert (launch.config.grid, launch.config.block, launch.config.shmem_size) == ((2, 3, 1), (16, 16, 1), 512)


def test_an_empty_product_is_not_launched_and_an_empty_sum_is(backend: CudaBackend, world: FakeCuda) -> None:
    for sizes in ((0, 3, 4), (3, 0, 4)):
        backend.run(kernel(), *operands(*sizes))
    assert world.rung_launches == []
    backend.run(kernel(), *operands(3, 4, 0))
    assert len(world.rung_launches) == 1


def test_more_rows_than_a_grid_holds_take_several_launches(backend: CudaBackend, world: FakeCuda) -> None:
    m = 16 * MAX_GRID_YZ + 33
    a, b = operands(m, 5, 3)
    np.testing.assert_array_equal(backend.run(kernel(), a, b).c, a @ b)
    first, second = world.rung_launches
    assert [launch.config.grid for launch in (first, second)] == [(1, MAX_GRID_YZ, 1), (1, 3, 1)]
    assert [int(launch.arguments[3]) for launch in (first, second)] == [m - 33, 33]
    assert second.arguments[0] - first.arguments[0] == 4 * 3 * (m - 33)
    assert second.arguments[1] == first.arguments[1]
    assert second.arguments[2] - first.arguments[2] == 4 * 5 * (m - 33)


@pytest.mark.parametrize(("c_init", "bits"), [("poison", POISON_BITS), ("zero", 0)])
def test_what_the_kernel_does_not_write_keeps_what_c_held(
    backend: CudaBackend, world: FakeCuda, c_init: str, bits: int
) -> None:
    world.kernels["idle"] = lambda _: None
    c = backend.run(kernel("idle", c_init=c_init), *operands(5, 6, 7), offsets=(0, 0, 1)).c
    assert (c.view(np.uint32) == bits).all()


def scribble(which: int, offset: int, *, from_end: bool = False) -> object:
    def spoil(launch: Launch) -> None:
        multiply(launch)
        size = launch.operands()[which].size if from_end else 0
        floats(int(launch.arguments[which]) + 4 * (size + offset), 1)[0] = 5

    return spoil


@pytest.mark.parametrize(
    ("spoil", "damage"),
    [
        (scribble(2, 0, from_end=True), "wrote 1 words past the end of C, the first 0 bytes after it"),
        (scribble(2, 100, from_end=True), "wrote 1 words past the end of C, the first 400 bytes after it"),
        (scribble(2, -1), "wrote 1 words before C, the last 4 bytes before it"),
        (scribble(1, 3, from_end=True), "wrote 1 words past the end of B, the first 12 bytes after it"),
        (scribble(0, -9), "wrote 1 words before A, the last 36 bytes before it"),
        (scribble(0, 8), "changed its input A: [row 1, column 1] was"),
        (scribble(1, 5), "changed its input B: [row 0, column 5] was"),
    ],
)
@pytest.mark.parametrize("offsets", [(0, 0, 0), (1, 2, 3)])
def test_damage_is_found_and_located(
    backend: CudaBackend, world: FakeCuda, spoil: object, damage: str, offsets: tuple[int, int, int]
) -> None:
    world.kernels["spoiler"] = spoil
    found = backend.run(kernel("spoiler"), *operands(5, 6, 7), offsets=offsets).damage
    assert found is not None
    assert found.startswith(damage)


def test_all_damage_is_told(backend: CudaBackend, world: FakeCuda) -> None:
    def spoil(launch: Launch) -> None:
        for which, offset in ((0, 1), (2, -1)):
            scribble(which, offset)(launch)

    world.kernels["spoiler"] = spoil
    found = backend.run(kernel("spoiler"), *operands(5, 6, 7)).damage
    assert found is not None
    assert found.startswith("wrote 1 words before C, the last 4 bytes before it; changed its input A")


def test_a_change_is_found_beyond_the_first_chunk(
    backend: CudaBackend, world: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ladder.backends.cuda._CHUNK_BYTES", 3 * 7 * 4)
    world.kernels["spoiler"] = scribble(0, 7 * 10 + 2)
    found = backend.run(kernel("spoiler"), *operands(12, 6, 7)).damage
    assert found is not None
    assert found.startswith("changed its input A: [row 10, column 2]")


@pytest.mark.parametrize(
    ("static", "dynamic", "opted_in"),
    [(1024, 0, []), (1024, 47 * 1024, []), (1, 48 * 1024, [48 * 1024]), (1024, 100 * 1024, [100 * 1024])],
)
def test_shared_memory_over_48_kib_is_opted_into_once(
    backend: CudaBackend, world: FakeCuda, static: int, dynamic: int, opted_in: list[int]
) -> None:
    made = kernel(static_smem_bytes=static, smem_bytes=dynamic)
    for _ in range(2):
        backend.run(made, *operands(5, 6, 7))
    assert world.opted_in == opted_in


@pytest.mark.parametrize(("most", "asked"), [(None, 512), (1, 114 * 1024 + 128), (3, 57 * 1024 + 128)])
def test_a_launch_asks_for_what_keeps_other_blocks_away(
    backend: CudaBackend, world: FakeCuda, most: int | None, asked: int
) -> None:
    """Just over a half or a fourth of 228 KiB, of which 1 KiB is the system's and 1 KiB the kernel's static memory."""
    made = kernel(smem_bytes=512, blocks_per_sm=most)
    backend.run(made, *operands(5, 6, 7))
    (launch,) = world.rung_launches
    assert launch.config.shmem_size == (asked if most is None else asked - 2048)
    assert world.opted_in == ([] if most is None else [asked - 2048])


def test_more_shared_memory_than_a_block_can_have_is_refused(backend: CudaBackend) -> None:
    with pytest.raises(BackendError, match=rf"tiled.*{MAX_SMEM_BYTES + 1} bytes.*at most {MAX_SMEM_BYTES}"):
        backend.run(kernel(static_smem_bytes=1, smem_bytes=MAX_SMEM_BYTES), *operands(5, 6, 7))


def test_a_fault_names_the_rung_the_shape_and_the_drivers_error(backend: CudaBackend, world: FakeCuda) -> None:
    def fault(_: Launch) -> None:
        world.fault = "CUDA_ERROR_ILLEGAL_ADDRESS: gone"

    world.kernels["wild"] = fault
    with pytest.raises(BackendError, match=r"rung wild at 5x6x7 on Fake GPU: CUDA_ERROR_ILLEGAL_ADDRESS"):
        backend.run(kernel("wild"), *operands(5, 6, 7))
    assert world.live == []
    with pytest.raises(BackendError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        backend.run(kernel(), *operands(5, 6, 7))


def test_short_memory_is_told_in_bytes_and_what_was_taken_is_given_back(backend: CudaBackend, world: FakeCuda) -> None:
    world.free_bytes = 2**20
    with pytest.raises(BackendError, match=r"rung tiled at 1000x2x1000.*\d{7} bytes in all.*CUDA_ERROR_OUT_OF_MEMORY"):
        backend.run(kernel(), *operands(1000, 2, 1000))
    assert world.live == []


def test_unsupported_shapes_and_arrays_are_refused_before_memory_is_taken(
    backend: CudaBackend, world: FakeCuda
) -> None:
    a, b = operands(5, 6, 7)
    with pytest.raises(ShapeError, match="N % 4"):
        backend.run(kernel(multiple=(1, 4, 1)), a, b)
    with pytest.raises(InputError, match="C-contiguous float32"):
        backend.run(kernel(), a.T, b)
    with pytest.raises(InputError, match="float64"):
        backend.run(kernel(), a.astype(np.float64), b)
    with pytest.raises(ShapeError, match="do not multiply"):
        backend.run(kernel(), a, a)
    assert world.fills == []


@pytest.mark.parametrize("shape", [Shape(m=1, n=2**31, k=1), Shape(m=1, n=1, k=2**31)])
def test_sizes_past_a_c_int_are_refused(backend: CudaBackend, shape: Shape) -> None:
    with pytest.raises(ShapeError, match="does not fit an int"):
        launchers(backend.gpu, kernel(), shape, (0, 0, 0))


def test_occupancy_is_warps_over_what_an_sm_holds(backend: CudaBackend) -> None:
    made = kernel()
    assert backend.resources(made) == replace(made.resources, occupancy=0.5)


def test_time_is_what_events_say_for_each_product(backend: CudaBackend, world: FakeCuda) -> None:
    timing = backend.time(kernel(), *operands(5, 6, 7), rule=QUICK)
    assert timing is not None
    assert timing.median == pytest.approx(LAUNCH_S)
    assert timing.samples >= 3
    assert world.live == []


def test_a_product_of_two_launches_is_timed_whole(backend: CudaBackend) -> None:
    timing = backend.time(kernel(), *operands(16 * MAX_GRID_YZ + 1, 1, 1), rule=QUICK)
    assert timing is not None
    assert timing.median == pytest.approx(2 * LAUNCH_S)


def test_nothing_to_launch_has_no_time(backend: CudaBackend) -> None:
    assert backend.time(kernel(), *operands(0, 6, 7)) is None


def test_before_a_cold_sample_all_is_evicted_by_reading(backend: CudaBackend, world: FakeCuda) -> None:
    timing = backend.time(kernel(), *operands(5, 6, 7), cold=True, rule=QUICK)
    assert timing is not None
    assert timing.median == pytest.approx(LAUNCH_S)
    size = 2 * backend.device.l2_bytes
    # What is read has been written once, and has gone back to memory before the first sample.
    assert world.fills.count(size) == 1
    evictions = [launch for launch in world.launches if launch.kernel == "evict"]
    assert all(int(launch.arguments[1]) * 16 == size for launch in evictions)
    names = [launch.kernel for launch in world.launches if launch.kernel != "hold"]
    first = names.index("evict")
    # One launch to load the kernel, and then one after each eviction.
    assert first == 1
    assert names[first + 1 :] == ["evict", world.rung_launches[0].kernel] * (len(world.rung_launches) - 1)
    assert len(evictions) > timing.samples
    backend.close()
    assert world.live == []


def test_a_sample_whose_launches_came_late_is_taken_again_with_a_longer_hold(
    backend: CudaBackend, world: FakeCuda
) -> None:
    with backend.prepared(kernel(), *operands(5, 6, 7)) as (enqueue, launches):
        world.late = 2
        assert backend.gpu.elapsed_s(enqueue, launches=launches) == pytest.approx(LAUNCH_S)
    holds = [int(launch.arguments[0]) for launch in world.launches if launch.kernel == "hold"]
    assert holds == [holds[0], 2 * holds[0], 4 * holds[0]]
    assert len(world.rung_launches) == 3
    assert not backend.gpu.was_late


def test_a_host_that_is_always_late_is_told_with_the_time(backend: CudaBackend, world: FakeCuda) -> None:
    world.late = 10**6
    timing = backend.time(kernel(), *operands(5, 6, 7), rule=QUICK)
    assert timing is not None
    assert timing.late == timing.samples
    assert timing.remark is not None
    assert timing.remark.endswith(f"the host queued {timing.samples} of {timing.samples} samples too late")


def test_a_gpu_that_is_not_there_is_refused(world: FakeCuda) -> None:
    with pytest.raises(BackendError, match="no GPU 1; the driver lists 1"):
        CudaBackend(1)


H200 = load_profile("h200")


def test_auto_takes_a_gpu_when_there_is_one(world: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ladder.backends.cuda.find_gpu", lambda: None)
    assert open_backend("auto", H200).name == "cuda"
    assert open_backend("cuda", H200).name == "cuda"
    assert open_backend("emulated", H200).name == "emulated"


def test_auto_emulates_without_one_and_cuda_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ladder.backends.cuda.find_gpu", lambda: "no driver; install it")
    opened = open_backend("auto", H200)
    assert (opened.name, opened.device.name) == ("emulated", "NVIDIA H200")
    with pytest.raises(DriverMissingError, match="no driver; install it"):
        open_backend("cuda", H200)


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(InputError, match="'gpu'; there are auto, cuda and emulated"):
        open_backend("gpu", H200)
