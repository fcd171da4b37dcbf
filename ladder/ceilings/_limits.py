"""What the hardware can do at most, per clock and SM."""

from __future__ import annotations

from ladder.model import Device

__all__ = ["limit"]

_BANKS_BYTES = 128

_TENSOR = {(8, 0): (1024, 2048), (8, 6): (512, 1024), (8, 7): (1024, 2048), (8, 9): (512, 1024), (9, 0): (2048, 4096)}
"""Dense FLOP per clock per SM of the tensor cores on TF32 and on BF16, summed in FP32. Source: the rates, SMs and boost
clocks of NVIDIA's architecture white papers (GA100, GA102, AD102, GH100); GeForce cards of 8.6 and 8.9 do half."""


def limit(roof: str, device: Device) -> float | None:
    """The most bytes or FLOP per clock per SM; None where nothing is known.

    The data pipe moves 32 banks of 4 bytes, FP32 units do a multiply-add each (CUDA C++ Programming Guide, throughput
    of native arithmetic instructions). DRAM and L2 have clocks of their own.
    """
    if roof == "sm":
        return _BANKS_BYTES
    if roof == "fp32":
        return 2 * device.fma_per_clock
    tensor = _TENSOR.get(device.compute_capability)
    if roof in {"tf32", "bf16"} and tensor is not None:
        return tensor[roof == "bf16"]
    return None
