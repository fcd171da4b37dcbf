"""The probe of DRAM: a copy between buffers that no cache can hold, bytes read plus bytes written."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from ladder.ceilings._bench import Bench, Counted, Work
from ladder.ceilings._machine import Coded
from ladder.ceilings._types import Config
from ladder.counters.metrics import DRAM_READ, DRAM_WRITE
from ladder.model import Device

__all__ = ["copy_code", "copy_configs", "copy_prepare"]

COPY_BYTES = 2**29


def copy_configs(device: Device) -> Iterator[Config]:
    """Loads in flight, cache hints and block sizes; and the driver's own copy."""
    nbytes = max(COPY_BYTES, 4 * device.l2_bytes)
    nbytes -= nbytes % (16 * 8 * 1024)
    for unroll, streaming, block in product((2, 4, 8), (0, 1), (128, 256, 512, 1024)):
        yield Config(
            roof="dram", probe="copy", kernel="copy", block=block,
            params={"UNROLL": unroll, "STREAMING": streaming}, numbers={"bytes": nbytes},
        )  # fmt: skip
    yield Config(roof="dram", numbers={"bytes": nbytes})


def copy_prepare(bench: Bench, config: Config, times: int) -> Work:
    """``times`` as many bytes, as there is no loop to make longer."""
    nbytes = config.numbers["bytes"] * times
    source, target = bench.buffer("copied from", nbytes), bench.buffer("copied to", nbytes)
    if not config.probe:

        def memcpy() -> None:
            target.copy_from(source, stream=bench.gpu.stream)

        words = f"copy by the driver (cuMemcpyAsync), {nbytes} bytes"
        return Work(launch=memcpy, amount=2.0 * nbytes, words=words, loops=False)
    kernel, _ = bench.kernel(config)
    unroll = config.params["UNROLL"]
    grid = (nbytes // (16 * unroll * config.block), 1, 1)
    hint = "streaming, " if config.params["STREAMING"] else ""
    return Work(
        launch=bench.gpu.launcher(kernel, grid, (config.block, 1, 1), int(source.handle), int(target.handle)),
        amount=2.0 * nbytes,
        words=f"copy, 16 bytes a thread, {unroll} in flight, {hint}blocks of {config.block}, {nbytes} bytes",
        loops=False,
        counted=(
            Counted(
                what="bytes read from and written to DRAM", counters=(DRAM_READ, DRAM_WRITE), each=1, meant=2.0 * nbytes
            ),
        ),
    )


def copy_code(config: Config) -> Coded | None:
    """As many 16-byte loads as stores, and no loop; None for the driver's copy."""
    if not config.probe:
        return None
    return Coded(opcode=("LDG", "128"), count=config.params["UNROLL"], looped=False, also=("STG",))
