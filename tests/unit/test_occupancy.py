"""Resident threadblocks, against figures of NVIDIA's occupancy calculator and a count one block at a time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ladder.model import Device
from ladder.occupancy import blocks_per_sm, occupancy, padded_smem_bytes
from ladder.profiles import load_profile

T4, A100, H200 = (load_profile(name).device for name in ("t4", "a100", "h200"))


@pytest.mark.parametrize(
    ("device", "threads", "registers", "smem_bytes", "blocks", "share"),
    [
        (H200, 256, 32, 0, 8, 1.0),  # threads
        (H200, 256, 40, 0, 6, 0.75),  # registers: 1280 a warp, 51 warps, 48 in fours
        (H200, 256, 128, 0, 2, 0.25),
        (H200, 256, 255, 0, 1, 0.125),
        (H200, 1024, 32, 8192, 2, 1.0),
        (H200, 1024, 33, 0, 1, 0.5),  # one register more takes a step of 256 a warp
        (H200, 1024, 64, 0, 1, 0.5),
        (H200, 1024, 65, 0, 0, 0.0),  # cannot be launched
        (H200, 32, 16, 0, 32, 0.5),  # block slots
        (H200, 33, 16, 0, 32, 1.0),  # a warp of one thread counts as a warp
        (H200, 128, 32, 32768, 6, 0.375),  # 33 KiB of 228 KiB
        (H200, 128, 32, 226 * 1024, 1, 0.0625),
        (H200, 128, 32, 227 * 1024, 1, 0.0625),  # the most a block may have
        (H200, 128, 32, 227 * 1024 + 1, 0, 0.0),
        (A100, 256, 64, 8192, 4, 0.5),
        (A100, 128, 32, 16384, 9, 0.5625),  # 17 KiB of 164 KiB
        (T4, 256, 64, 0, 4, 1.0),
        (T4, 1024, 64, 0, 1, 1.0),
        (T4, 32, 32, 0, 16, 0.5),
        (T4, 256, 32, 16384, 4, 1.0),  # no kibibyte is reserved before 8.0
        (T4, 256, 32, 16385, 3, 0.75),
    ],
)
def test_known_figures(
    device: Device, threads: int, registers: int, smem_bytes: int, blocks: int, share: float
) -> None:
    assert blocks_per_sm(device, threads=threads, registers=registers, smem_bytes=smem_bytes) == blocks
    assert occupancy(device, threads=threads, registers=registers, smem_bytes=smem_bytes) == share


def test_what_is_unknown_does_not_limit() -> None:
    bare = Device(backend="emulated", name="?", compute_capability=(9, 0), sm_count=1, l2_bytes=0)
    assert blocks_per_sm(bare, threads=256, registers=0, smem_bytes=10**9) == 8


def one_at_a_time(device: Device, threads: int, registers: int, smem_bytes: int) -> int:
    """Place blocks on an SM of four quarters until one does not fit."""
    warps = -(-threads // 32)
    a_warp = -(-registers * 32 // 256) * 256
    step, reserved = (128, 1024) if device.compute_capability >= (8, 0) else (256, 0)
    quarters = [device.registers_per_sm // 4] * 4
    smem, slots, room = device.smem_per_sm_bytes, device.max_blocks_per_sm, device.max_threads_per_sm // 32
    placed = 0
    while True:
        smem -= -(-(smem_bytes + reserved) // step) * step
        slots -= 1
        room -= warps
        for _ in range(warps):
            best = max(range(4), key=lambda q: quarters[q])
            quarters[best] -= a_warp
        if min(smem, slots, room, *quarters) < 0:
            return placed
        placed += 1


@given(
    device=st.sampled_from([T4, A100, H200]),
    threads=st.integers(1, 1024),
    registers=st.integers(16, 255),
    smem_bytes=st.integers(0, 100_000),
)
def test_as_many_as_fit_one_after_the_other(device: Device, threads: int, registers: int, smem_bytes: int) -> None:
    expected = one_at_a_time(device, threads, registers, smem_bytes)
    assert blocks_per_sm(device, threads=threads, registers=registers, smem_bytes=smem_bytes) == expected
    share = occupancy(device, threads=threads, registers=registers, smem_bytes=smem_bytes)
    assert 0 <= share <= 1


@pytest.mark.parametrize("most", [1, 2, 5, None])
@pytest.mark.parametrize("own", [0, 2048, 40_000])
@pytest.mark.parametrize("device", [T4, A100, H200], ids=lambda device: device.name)
def test_shared_memory_keeps_other_blocks_away(device: Device, own: int, most: int | None) -> None:
    padded = padded_smem_bytes(device, smem_bytes=own, most=most)
    free = blocks_per_sm(device, threads=64, registers=16, smem_bytes=own)
    kept = blocks_per_sm(device, threads=64, registers=16, smem_bytes=padded)
    assert padded >= own
    if most is None or free <= most:
        assert kept == free
    else:
        assert 1 <= kept <= most


def test_an_unknown_size_of_shared_memory_keeps_nobody_away() -> None:
    bare = Device(backend="emulated", name="?", compute_capability=(9, 0), sm_count=1, l2_bytes=0)
    assert padded_smem_bytes(bare, smem_bytes=100, most=1) == 100
