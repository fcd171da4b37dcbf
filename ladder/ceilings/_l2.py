"""The probe of L2: reads that go past L1, over footprints that fit and some that do not."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from ladder.ceilings._bench import Bench, Counted, Work
from ladder.ceilings._machine import Coded
from ladder.ceilings._types import Config
from ladder.counters.metrics import DRAM_READ, XBAR_READ
from ladder.model import Device

__all__ = ["l2_code", "l2_configs", "l2_prepare"]

L2_READ_BYTES = 2**32
"""Read in one launch by all blocks together."""

L2_FRACTIONS = (0.125, 0.2, 0.25, 1 / 3, 0.4, 0.5, 2 / 3, 0.8)
FROM_DRAM = 0.03
"""Share of the bytes that may come from DRAM: what the first round over the footprint brings in."""


def l2_configs(device: Device) -> Iterator[Config]:
    """Widths and loads in flight, each over footprints from an eighth to four fifths of L2."""
    for (words, unroll), block in product(((4, 4), (4, 8), (2, 4), (2, 8)), (256, 512, 1024)):
        chunk_bytes = 4 * block * words * unroll
        # Blocks that walk side by side are no roof: requests for one line that meet on their way to L2 are merged.
        shares = (1, 2) if (words, unroll, block) == (4, 4, 512) else (1,)
        for share, fraction in product(shares, L2_FRACTIONS):
            chunks = prime_up_to(int(fraction * device.l2_bytes) // chunk_bytes)
            yield Config(
                roof="l2", probe="l2_read", kernel="l2_read", block=block,
                params={"NUM_THREADS": block, "WORDS": words, "UNROLL": unroll},
                numbers={"chunks": chunks, "share": share},
                footprint_bytes=chunks * chunk_bytes,
            )  # fmt: skip


def l2_prepare(bench: Bench, config: Config, times: int) -> Work:
    """Every block walks over the whole footprint, as often as it takes."""
    data = bench.buffer("L2 data", bench.gpu.device.l2_bytes)
    sink, span = bench.buffer("sink", 4), bench.buffer("span", 16)
    kernel, blocks = bench.kernel(config)
    chunks, share, footprint = config.numbers["chunks"], config.numbers["share"], config.footprint_bytes or 1
    rounds = max(1, round(L2_READ_BYTES / (blocks * footprint))) * times
    launch = bench.gpu.launcher(
        kernel, (blocks, 1, 1), (config.block, 1, 1), int(data.handle),
        np.uint32(chunks), np.uint32(chunks * rounds), np.uint32(share), int(sink.handle), int(span.handle),
    )  # fmt: skip
    amount = float(blocks * rounds * footprint)
    words, unroll = config.params["WORDS"], config.params["UNROLL"]
    beside = "" if share == 1 else f", {share} side by side"
    return Work(
        launch=launch,
        amount=amount,
        words=f"ld.global.cg, {4 * words} bytes a thread, {unroll} a step, {blocks} blocks of {config.block}{beside}",
        span=span,
        # With few chunks several blocks read one at a time, whatever their strides.
        counts=share == 1 and chunks >= 2 * blocks,
        counted=(
            Counted(what="bytes from L2 to the SMs", counters=(XBAR_READ,), each=1, meant=amount),
            Counted(what="bytes read from DRAM", counters=(DRAM_READ,), each=1, meant=FROM_DRAM * amount, at_most=True),
        ),
    )


def l2_code(config: Config) -> Coded:
    """The loads of a step, past L1 and of the full width."""
    width = str(32 * config.params["WORDS"])
    return Coded(opcode=("LDG", width, "STRONG"), count=config.params["UNROLL"])


def prime_up_to(n: int) -> int:
    """The largest prime that is at most ``n``; 3 for smaller ones."""
    return next((p for p in range(n, 3, -1) if all(p % d for d in range(2, int(p**0.5) + 1))), 3)
