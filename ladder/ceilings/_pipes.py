"""Probes of the SM itself: FP32 multiply-adds in registers, and 16-byte reads of shared memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ladder.ceilings._bench import Bench, Counted, Work
from ladder.ceilings._machine import Coded
from ladder.ceilings._types import Config
from ladder.counters.metrics import SHARED_LD, WAVEFRONT_BYTES
from ladder.model import Device

__all__ = ["fma_code", "fma_configs", "fma_prepare", "shared_code", "shared_configs", "shared_prepare"]

FMAS_A_THREAD = 2**17
LOADS_A_THREAD = 2**13
FFMA = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"


def fma_configs(device: Device) -> Iterator[Config]:  # noqa: ARG001 -- the same on every GPU
    """Independent chains a thread, and how many threads."""
    for chains, unroll in ((8, 16), (12, 12), (16, 8)):
        for block in (256, 512, 1024):
            yield Config(
                roof="fp32", probe="fma", kernel="fma_chains", block=block,
                params={"CHAINS": chains, "UNROLL": unroll}, numbers={"passes": FMAS_A_THREAD // (chains * unroll)},
            )  # fmt: skip


def fma_prepare(bench: Bench, config: Config, times: int) -> Work:
    """2 FLOP for each multiply-add."""
    sink, span = bench.buffer("sink", 4), bench.buffer("span", 16)
    kernel, blocks = bench.kernel(config)
    passes = config.numbers["passes"] * times
    launch = bench.gpu.launcher(
        kernel, (blocks, 1, 1), (config.block, 1, 1),
        np.int32(passes), np.float32(0.999), np.float32(1e-3), int(sink.handle), int(span.handle),
    )  # fmt: skip
    chains = config.params["CHAINS"]
    fmas = passes * chains * config.params["UNROLL"] * config.block * blocks
    return Work(
        launch=launch,
        amount=2.0 * fmas,
        words=f"{chains} independent FMA chains a thread, {blocks} blocks of {config.block}",
        span=span,
        counted=(Counted(what="FLOP of FFMA instructions", counters=(FFMA,), each=2, meant=2.0 * fmas),),
    )


def fma_code(config: Config) -> Coded:
    """Nothing but multiply-adds."""
    return Coded(opcode=("FFMA",), count=config.params["CHAINS"] * config.params["UNROLL"])


def shared_configs(device: Device) -> Iterator[Config]:  # noqa: ARG001 -- the same on every GPU
    """Loads a pass, and how many threads."""
    for unroll in (8, 16, 32):
        for block in (256, 512, 1024):
            yield Config(
                roof="sm", probe="shared_read", kernel="shared_read", block=block,
                params={"UNROLL": unroll}, numbers={"passes": LOADS_A_THREAD // unroll},
            )  # fmt: skip


def shared_prepare(bench: Bench, config: Config, times: int) -> Work:
    """16 bytes for each load of a thread; a warp's take four wavefronts."""
    sink, span = bench.buffer("sink", 4), bench.buffer("span", 16)
    kernel, blocks = bench.kernel(config)
    passes, unroll = config.numbers["passes"] * times, config.params["UNROLL"]
    launch = bench.gpu.launcher(
        kernel, (blocks, 1, 1), (config.block, 1, 1), np.int32(passes), int(sink.handle), int(span.handle)
    )
    amount = 16.0 * passes * unroll * config.block * blocks
    what = "bytes of the wavefronts of shared loads"
    return Work(
        launch=launch,
        amount=amount,
        words=f"conflict-free LDS.128, {unroll} a pass, {blocks} blocks of {config.block}",
        span=span,
        counted=(Counted(what=what, counters=(SHARED_LD,), each=WAVEFRONT_BYTES, meant=amount),),
    )


def shared_code(config: Config) -> Coded:
    """As many 16-byte loads as are meant, all in the loop."""
    return Coded(opcode=("LDS", "128"), count=config.params["UNROLL"])
