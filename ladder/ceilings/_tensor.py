"""Probes of the tensor cores: TF32 and BF16 products summed in FP32, by mma.sync, and by wgmma on sm_90."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np

from ladder.ceilings._bench import Bench, Counted, Work
from ladder.ceilings._machine import Coded
from ladder.ceilings._types import Config
from ladder.model import Device

__all__ = ["tensor_code", "tensor_configs", "tensor_prepare"]

Element = Literal["tf32", "bf16"]

MMAS_A_WARP = 2**15
WGMMAS_A_GROUP = 2**13
STAGES = 2
_TILE_ROWS_BYTES = 128
_COLS = 256
_ROWS_A_GROUP = 64

OPS = {"tf32": "sm__ops_path_tensor_src_tf32_dst_fp32.sum", "bf16": "sm__ops_path_tensor_src_bf16_dst_fp32.sum"}
"""Multiplications and additions that the tensor cores have done, from compute capability 8.0 on."""


def tensor_configs(element: Element) -> Callable[[Device], Iterator[Config]]:
    """Configurations of one element type, for a device; none where there is no probe for its tensor cores.

    Compute capability 7.5 multiplies neither type. 10.x has instructions of its own for them (tcgen05), and what
    mma.sync reaches there would be no roof.
    """

    def configs(device: Device) -> Iterator[Config]:
        if device.compute_capability[0] not in {8, 9, 12}:
            return
        bf16 = int(element == "bf16")
        if device.compute_capability == (9, 0):
            for groups in (1, 2):
                smem_bytes = STAGES * _TILE_ROWS_BYTES * (groups * _ROWS_A_GROUP + _COLS)
                yield Config(
                    roof=element, probe="tensor_wgmma", kernel="tensor_wgmma", block=128 * groups,
                    params={"NUM_THREADS": 128 * groups, "BF16": bf16, "STAGES": STAGES},
                    numbers={"passes": WGMMAS_A_GROUP // (4 * STAGES)}, data="random", arch="sm_90a",
                    smem_bytes=smem_bytes,
                )  # fmt: skip
        for rows, cols, block in ((2, 4, 256), (4, 4, 256), (4, 8, 128)):
            yield Config(
                roof=element, probe="tensor_mma", kernel="tensor_mma", block=block,
                params={"NUM_THREADS": block, "BF16": bf16, "ROWS": rows, "COLS": cols},
                numbers={"passes": MMAS_A_WARP // (rows * cols)}, data="random",
            )  # fmt: skip

    return configs


def tensor_prepare(bench: Bench, config: Config, times: int) -> Work:
    """2 FLOP for each product that is summed."""
    by_group = config.probe == "tensor_wgmma"
    element: Element = "bf16" if config.params["BF16"] else "tf32"
    passes = config.numbers["passes"] * times
    k = (16 if config.params["BF16"] else 8) * passes
    if by_group:
        groups, nbytes = config.block // 128, config.smem_bytes
        flop_a_block = 2.0 * groups * _ROWS_A_GROUP * _COLS * k * 4 * config.params["STAGES"]
        how = f"wgmma m64n{_COLS} from shared memory, {groups} warpgroup{'s' if groups > 1 else ''} a block"
    else:
        rows, cols = config.params["ROWS"], config.params["COLS"]
        nbytes = 4 * config.block * (4 * rows + 2 * cols)
        flop_a_block = 2.0 * (config.block // 32) * 16 * 8 * k * rows * cols
        how = f"mma.sync from registers, {rows * cols} independent sums a warp"
    operands = bench.operands(config.data, element, nbytes)
    sink, span = bench.buffer("sink", 4), bench.buffer("span", 16)
    kernel, blocks = bench.kernel(config)
    launch = bench.gpu.launcher(
        kernel, (blocks, 1, 1), (config.block, 1, 1), np.int32(passes), int(operands.handle), int(sink.handle),
        int(span.handle), smem_bytes=config.smem_bytes,
    )  # fmt: skip
    amount = flop_a_block * blocks
    return Work(
        launch=launch,
        amount=amount,
        words=f"{how}, {blocks} blocks of {config.block}, {config.data} operands",
        span=span,
        counted=(Counted(what="FLOP of the tensor cores", counters=(OPS[element],), each=1, meant=amount),),
    )


def tensor_code(config: Config) -> Coded:
    """Products back to back, and no load beside them."""
    if config.probe == "tensor_wgmma":
        shape = f"64x{_COLS}x{16 if config.params['BF16'] else 8}"
        return Coded(opcode=("HGMMA", shape), count=4 * config.params["STAGES"])
    shape = "16816" if config.params["BF16"] else "1688"
    return Coded(opcode=("HMMA", shape), count=config.params["ROWS"] * config.params["COLS"])
