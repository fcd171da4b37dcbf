"""Launches of the tile product at 512^3 with parts left out or moved, and with one block an SM."""

from __future__ import annotations

from bench.wavefront_probe.case import Case

__all__ = ["g_tiles"]

THREADS = {16: 256, 32: 1024, 64: 1024}
ONE_BLOCK_AN_SM = 120 << 10
"""Dynamic shared memory of which an H200's SM has room for one block's."""


def g_tiles() -> list[Case]:
    """Three tiles, each whole and in parts."""
    out: list[Case] = []
    for t, threads in THREADS.items():
        z = 512 // t

        def add(
            name: str, mode: int | None, grid: tuple[int, int, int] = (z, z, z), smem: int = 0, *, t: int = t,
            threads: int = threads,
        ) -> None:  # fmt: skip
            kernel, arguments = ("tile_product", (t, threads)) if mode is None else ("k_tile", (t, threads, mode))
            out.append(
                Case(
                    name=f"tile{t} {name}", kernel=kernel, template=arguments, mnk=(512, 512, 512), grid=grid,
                    warps=threads // 32, smem=smem,
                )
            )  # fmt: skip

        add("as it is", None)
        add("barrier before REDs", 1)
        add("one block an SM", None, smem=ONE_BLOCK_AN_SM)
        add("barrier before REDs, one block an SM", 1, smem=ONE_BLOCK_AN_SM)
        add("128 blocks at once", None, grid=(2, 64 // z, z) if z < 64 else (2, 2, z))
        add("k-tiles in a loop", None, grid=(z, z, 1))
        add("k-tiles in a loop, 64 blocks", None, grid=(8, 8, 1))
        add("stores for REDs", 2)
        add("nothing sent", 4)
        add("no product", 8)
        add("no product, nothing sent", 12)
        add("no loads", 16)
        add("no loads, nothing sent", 20)
        add("no loads, no product", 24)
        add("no loads, no product, one block an SM", 24, smem=ONE_BLOCK_AN_SM)
        add("REDs spread by warp", 32)
    return out
