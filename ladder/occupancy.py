"""How many threadblocks of a kernel an SM holds at once. Pure arithmetic."""

from __future__ import annotations

from ladder.model import Device

__all__ = ["blocks_per_sm", "occupancy", "padded_smem_bytes"]

WARP = 32
REGISTERS_A_STEP = 256
"""Registers are handed to a warp in steps of 256 (CUDA Occupancy Calculator, register allocation unit size)."""

WARPS_A_STEP = 4
"""and warps in fours, one for each quarter of the SM."""


def blocks_per_sm(device: Device, *, threads: int, registers: int, smem_bytes: int) -> int:
    """Resident threadblocks an SM: the least that threads, registers, shared memory and block slots allow.

    Shared memory comes in steps of 128 bytes with 1 KiB reserved for each block from compute capability 8.0 on, in
    steps of 256 bytes before (CUDA Occupancy Calculator).
    """
    warps = -(-threads // WARP)
    limits = [device.max_blocks_per_sm, device.max_threads_per_sm // (warps * WARP)]
    if registers:
        a_warp = -(-registers * WARP // REGISTERS_A_STEP) * REGISTERS_A_STEP
        resident = device.registers_per_sm // a_warp // WARPS_A_STEP * WARPS_A_STEP
        limits.append(resident // warps)
    if device.smem_per_sm_bytes:
        step, reserved = _smem_steps(device)
        a_block = -(-(smem_bytes + reserved) // step) * step
        if a_block:
            limits.append(device.smem_per_sm_bytes // a_block)
    return min(limits)


def padded_smem_bytes(device: Device, *, smem_bytes: int, most: int | None) -> int:
    """Shared memory that a block takes so that an SM has room for ``most`` of them; no more than it needs for None."""
    if most is None or not device.smem_per_sm_bytes:
        return smem_bytes
    step, reserved = _smem_steps(device)
    a_block = -(-(device.smem_per_sm_bytes // (most + 1) + 1) // step) * step
    return max(smem_bytes, a_block - reserved)


def _smem_steps(device: Device) -> tuple[int, int]:
    """The bytes in which shared memory is given out, and those that the system keeps of each block."""
    return (128, 1024) if device.compute_capability >= (8, 0) else (256, 0)


def occupancy(device: Device, *, threads: int, registers: int, smem_bytes: int) -> float:
    """Resident warps over the SM's maximum, 0..1."""
    blocks = blocks_per_sm(device, threads=threads, registers=registers, smem_bytes=smem_bytes)
    return blocks * -(-threads // WARP) * WARP / device.max_threads_per_sm
