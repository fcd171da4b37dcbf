"""Packed operands, tensor maps and alignment on the ``cuda`` backend, against a double of ``cuda.core``."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from helpers.extras import PACKED_PATH, TMA_PATH
from helpers.fake_cuda import LAUNCH_S, FakeCuda, Launch, floats, installed
from numpy.typing import NDArray

from ladder.backends import tensor_map as maps
from ladder.backends.cuda import CudaBackend
from ladder.backends.launches import launchers
from ladder.catalog import parse_file
from ladder.errors import BackendError, InputError, ShapeError
from ladder.geometry import MAX_GRID_YZ, plan
from ladder.model import Pack, Resources, Rung, Shape, TensorTile
from ladder.nvrtc import Compiled
from ladder.oracle import POISON_BITS
from ladder.stats import StopRule

F32 = NDArray[np.float32]
QUICK = StopRule(min_samples=3, min_time_s=0.0, max_time_s=0.1)

(TMA,) = parse_file(TMA_PATH)
(PACKED,) = parse_file(PACKED_PATH)
MAP = struct.Struct("<QQQQIIiii")


def kernel(rung: Rung) -> Compiled:
    return Compiled(
        rung=rung, arch="sm_90", ptx="", cubin=b"\x7fELF", lowered_name="_Zmain", log="", nvrtc_version="13.0",
        resources=Resources(registers=32, smem_bytes=0, spill_bytes=0), cached=False,
        pack_lowered_name=None if rung.pack is None else "_Zpack",
    )  # fmt: skip


def operands(m: int, n: int, k: int) -> tuple[F32, F32]:
    rng = np.random.default_rng(1)
    return rng.random((m, k), dtype=np.float32), rng.random((k, n), dtype=np.float32)


def pack(launch: Launch) -> None:
    """Copies the operand to the workspace, row after row, and fills the rest."""
    source, workspace, rows, cols = (int(argument) for argument in launch.arguments)
    x, y, _ = launch.config.grid
    # Tiles of 8 x 16, as the rung declares them.
    room = floats(workspace, 2 * 8 * y * 16 * x)
    assert (room.view(np.uint32) == POISON_BITS).all()
    room[...] = 0
    room[: rows * cols] = floats(source, rows * cols)


def multiply_packed(launch: Launch) -> None:
    a, b, c = launch.operands()
    packed = floats(int(launch.arguments[6]), b.size).reshape(b.shape)
    np.testing.assert_array_equal(packed, b)
    c[...] = a @ packed


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    def encode(to, kind, rank, pointer, sizes, strides, box, steps, interleave, swizzle, promotion, fill):
        assert (rank, tuple(steps)) == (2, (1, 1))
        assert to % 64 == 0
        content = MAP.pack(pointer, *sizes, *strides, *box, swizzle, promotion, fill)
        ctypes.memmove(to, content, len(content))
        return 1 if world_refuses else 0

    world_refuses: list[bool] = []
    monkeypatch.setattr(maps, "_encoder", lambda: encode)
    with installed() as fake:
        fake.refusals = world_refuses  # type: ignore[attr-defined]
        fake.kernels |= {"_Zpack": pack, "_Zmain": multiply_packed}
        fake.structures["_Zmain"] = "pppiiimm"
        yield fake


@pytest.fixture
def backend(world: FakeCuda) -> CudaBackend:
    return CudaBackend()


# Packing --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(33, 20, 17), (16, 16, 8), (1, 1, 1), (4, 4, 0), (0, 3, 4), (3, 0, 4)], ids=str)
def test_an_operand_is_packed_right_before_it_is_needed(
    backend: CudaBackend, world: FakeCuda, sizes: tuple[int, int, int]
) -> None:
    a, b = operands(*sizes)
    outcome = backend.run(kernel(PACKED), a, b)
    np.testing.assert_array_equal(outcome.c, a @ b)
    assert outcome.damage is None
    launched = [launch.kernel for launch in world.rung_launches]
    assert launched == ([] if 0 in sizes[:2] else ["_Zmain"] if sizes[2] == 0 else ["_Zpack", "_Zmain"])
    assert world.live == []


def test_the_kernel_that_packs_gets_its_operand_the_workspace_and_the_sizes(
    backend: CudaBackend, world: FakeCuda
) -> None:
    backend.run(kernel(PACKED), *operands(33, 20, 17))
    first, second = world.rung_launches
    assert (first.config.grid, first.config.block, first.config.shmem_size) == ((2, 3, 1), (128, 1, 1), 0)
    assert [type(argument) for argument in first.arguments] == [int, int, np.int32, np.int32]
    assert first.arguments[:2] == (second.arguments[1], second.arguments[6])
    assert [int(size) for size in first.arguments[2:]] == [17, 20]
    assert first.arguments[1] % 256 == 0
    assert [int(size) for size in second.arguments[3:6]] == [33, 20, 17]


def test_a_is_packed_for_each_part_of_c(backend: CudaBackend, world: FakeCuda) -> None:
    rung = replace(PACKED, pack=Pack(kernel="pack_a", of="A", tile=(16, 8)))
    m = 16 * MAX_GRID_YZ + 5
    seen: list[tuple[int, int, int]] = []
    world.kernels["_Zpack"] = lambda launch: seen.append(tuple(int(x) for x in launch.arguments[1:]))
    world.kernels["_Zmain"] = lambda _: None
    backend.run(kernel(rung), *operands(m, 3, 2))
    assert [launch.kernel for launch in world.rung_launches] == ["_Zpack", "_Zmain"] * 2
    first, main, second, last = world.rung_launches
    assert [int(launch.arguments[2]) for launch in (first, second)] == [m - 5, 5]
    assert (first.arguments[0], second.arguments[0]) == (main.arguments[0], last.arguments[0])
    assert first.arguments[1] == second.arguments[1] == main.arguments[6]


def test_b_is_packed_once_for_all_parts_of_c(backend: CudaBackend, world: FakeCuda) -> None:
    a, b = operands(16 * MAX_GRID_YZ + 5, 3, 2)
    np.testing.assert_array_equal(backend.run(kernel(PACKED), a, b).c, a @ b)
    assert [launch.kernel for launch in world.rung_launches] == ["_Zpack", "_Zmain", "_Zmain"]


@pytest.mark.parametrize(
    ("at", "damage"),
    [(-1, "wrote 1 words before packed B"), (2 * 8 * 16, "wrote 1 words past the end of packed B, the first 0 bytes")],
)
def test_the_workspace_is_guarded(backend: CudaBackend, world: FakeCuda, at: int, damage: str) -> None:
    def stray(launch: Launch) -> None:
        pack(launch)
        floats(int(launch.arguments[1]) + 4 * at, 1)[0] = 1

    world.kernels["_Zpack"] = stray
    assert str(backend.run(kernel(PACKED), *operands(5, 6, 7)).damage).startswith(damage)


def test_the_time_is_that_of_both_kernels(backend: CudaBackend, world: FakeCuda) -> None:
    # What is packed again finds what was packed before.
    world.kernels["_Zpack"] = lambda _: None
    world.kernels["_Zmain"] = lambda _: None
    timing = backend.time(kernel(PACKED), *operands(5, 6, 7), rule=QUICK)
    assert timing is not None
    assert timing.median == pytest.approx(2 * LAUNCH_S)
    with backend.prepared(kernel(PACKED), *operands(5, 6, 7)) as (_, launches):
        assert launches == 2


def test_memory_for_the_workspace_is_asked_for_by_name(backend: CudaBackend, world: FakeCuda) -> None:
    world.free_bytes = 2**20
    with pytest.raises(BackendError, match=r"memory for A, B, C and packed B, \d{8} bytes in all"):
        backend.run(kernel(PACKED), *operands(2, 1000, 1000))
    assert world.live == []


def test_an_operand_of_too_many_tiles_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"packing B \(524281 x 1\) takes 1 x 65536 blocks.*Use a rung that packs"):
        plan(PACKED, Shape(m=1, n=1, k=8 * MAX_GRID_YZ + 1))


def test_without_a_workspace_of_its_own_a_product_takes_the_gpus(backend: CudaBackend, world: FakeCuda) -> None:
    gpu, made = backend.gpu, kernel(PACKED)
    small, _ = launchers(gpu, made, Shape(m=1, n=1, k=1), (0, 0, 0))
    assert len(world.live) == 1
    assert launchers(gpu, made, Shape(m=1, n=16, k=8), (0, 0, 0))[0].args[4] == small.args[4]
    larger, _ = launchers(gpu, made, Shape(m=1, n=17, k=8), (0, 0, 0))
    assert [buffer.handle for buffer in world.live] == [larger.args[4]]
    assert world.live[0].size == 4 * 2 * 8 * 32
    gpu.close()
    assert world.live == []


def test_a_kernel_that_was_compiled_without_its_packing_is_refused(backend: CudaBackend) -> None:
    with pytest.raises(BackendError, match="compiled without a kernel that packs; compile it again"):
        backend.run(replace(kernel(PACKED), pack_lowered_name=None), *operands(5, 6, 7))


# Tensor maps ----------------------------------------------------------------------------------------------------------


def multiply_mapped(launch: Launch) -> None:
    """A product of what the maps describe."""
    a, b = (floats(p, rows * cols).reshape(rows, cols) for p, cols, rows, *_ in map(unpacked, launch.arguments[6:]))
    c = launch.operands()[2]
    c[...] = a @ b


def unpacked(content: bytes) -> tuple[int, ...]:
    return MAP.unpack(content[: MAP.size])


def test_maps_describe_the_operands(backend: CudaBackend, world: FakeCuda) -> None:
    world.kernels["_Zmain"] = multiply_mapped
    a, b = operands(33, 20, 12)
    np.testing.assert_array_equal(backend.run(kernel(TMA), a, b).c, a @ b)
    (launch,) = world.rung_launches
    of_a, of_b = (unpacked(content) for content in launch.arguments[6:])
    # Address, columns, rows, bytes of a row, columns and rows of the box, swizzle of 64 bytes or none, L2 256 B, zeros.
    assert of_a == (launch.arguments[0], 12, 33, 48, 16, 16, 2, 3, 0)
    assert of_b == (launch.arguments[1], 20, 12, 80, 32, 16, 0, 3, 0)
    assert (launch.config.grid, launch.config.block, launch.config.shmem_size) == ((1, 3, 1), (256, 1, 1), 0)
    assert world.live == []


def test_maps_follow_the_parts_of_c(backend: CudaBackend, world: FakeCuda) -> None:
    world.kernels["_Zmain"] = multiply_mapped
    rung = replace(TMA, tma=(*TMA.tma, TensorTile(of="C", box=(16, 32), swizzle=128)))
    world.structures["_Zmain"] = "pppiiimmm"
    world.kernels["_Zmain"] = lambda _: None
    m = 16 * MAX_GRID_YZ + 5
    backend.run(kernel(rung), *operands(m, 4, 4))
    first, second = world.rung_launches
    for launch in (first, second):
        of_a, of_b, of_c = (unpacked(content) for content in launch.arguments[6:])
        assert [of_a[0], of_b[0], of_c[0]] == list(launch.arguments[:3])
        assert (of_a[2], of_c[2]) == (int(launch.arguments[3]),) * 2
        assert of_c[6] == 3
    assert int(second.arguments[3]) == 5


def test_a_matrix_without_elements_has_a_map_of_zeros(backend: CudaBackend, world: FakeCuda) -> None:
    world.kernels["_Zmain"] = lambda _: None
    backend.run(kernel(TMA), *operands(5, 8, 0))
    (launch,) = world.rung_launches
    assert launch.arguments[6:] == (bytes(128), bytes(128))


def test_a_product_with_maps_is_timed(backend: CudaBackend, world: FakeCuda) -> None:
    world.kernels["_Zmain"] = multiply_mapped
    timing = backend.time(kernel(TMA), *operands(5, 8, 8), rule=QUICK)
    assert timing is not None
    assert timing.median == pytest.approx(LAUNCH_S)


def test_what_the_encoder_refuses_is_said(backend: CudaBackend, world: FakeCuda) -> None:
    world.refusals.append(True)  # type: ignore[attr-defined]
    with pytest.raises(
        BackendError, match=r"a tensor map of A \(5 x 8 at 0x.*box 16 x 16, swizzle 64\): CUDA_ERROR_INV"
    ):
        backend.run(kernel(TMA), *operands(5, 8, 8))


def test_a_failed_launch_is_said(backend: CudaBackend, world: FakeCuda) -> None:
    launch, *_ = launchers(backend.gpu, kernel(TMA), Shape(m=4, n=4, k=4), (256, 512, 1024))
    world.fault = "anything"
    with pytest.raises(BackendError, match="launching on Fake GPU: CUDA_ERROR_LAUNCH_FAILED"):
        launch()


def test_a_driver_without_tensor_maps_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from cuda.bindings import driver  # noqa: PLC0415

    answer = (driver.CUresult.CUDA_ERROR_NOT_FOUND, 0, None)
    monkeypatch.setattr(driver, "cuGetProcAddress", lambda *_: answer)
    maps._encoder.cache_clear()
    with pytest.raises(BackendError, match=r"knows no tensor maps .*update it to one of CUDA 12"):
        maps.tensor_map(256, 4, 4, TensorTile(of="A", box=(4, 4)))


# Alignment ------------------------------------------------------------------------------------------------------------


def test_offsets_that_break_the_alignment_are_refused(backend: CudaBackend, world: FakeCuda) -> None:
    aligned = replace(PACKED, align_bytes=16)
    what = (
        "needs A, B and C at multiples of 16 bytes and B starts 8 bytes past one; give offsets that are multiples of 4"
    )
    with pytest.raises(InputError, match=what):
        backend.run(kernel(aligned), *operands(5, 6, 7), offsets=(4, 6, 0))
    assert world.fills == []
    a, b = operands(5, 6, 7)
    np.testing.assert_array_equal(backend.run(kernel(aligned), a, b, offsets=(4, 8, 12)).c, a @ b)


def test_every_part_of_c_starts_aligned() -> None:
    rung = replace(PACKED, pack=None, tile=(3, 16), align_bytes=16)
    parts = plan(rung, Shape(m=10**6, n=1, k=1))
    assert len(parts) > 1
    assert all(4 * part.row0 % 16 == 0 and part.row0 % 3 == 0 for part in parts)
    assert sum(part.rows for part in parts) == 10**6


@pytest.mark.parametrize("overlap", [False, True])
def test_only_a_kernel_that_waits_itself_may_start_early(backend: CudaBackend, world: FakeCuda, overlap: bool) -> None:
    assert PACKED.pack is not None
    packing = replace(PACKED.pack, overlap=overlap)
    world.structures["_Zmain"] = "pppiiip"
    a, b = operands(9, 20, 17)
    outcome = backend.run(kernel(replace(PACKED, pack=packing)), a, b)
    np.testing.assert_array_equal(outcome.c, a @ b)
    assert world.overlapped == (["_Zmain"] if overlap else [])
