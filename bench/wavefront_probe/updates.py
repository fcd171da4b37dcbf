"""Launches of reductions and stores."""

from __future__ import annotations

from typing import Any

from bench.wavefront_probe.case import Case, fresh, lines

__all__ = ["g_red", "g_st"]


def _store(name: str, *, w: int = 4, u: int = 1, **more: Any) -> Case:
    return Case(name=f"st {name}", kernel="k_st", template=(w, u), carveout=0, **more)


def _reduction(name: str, *, u: int = 1, **more: Any) -> Case:
    return Case(name=f"red {name}", kernel="k_red", template=(u,), carveout=0, **more)


def g_red() -> list[Case]:
    """Reductions: pace, warps, rows, lines near and far."""
    one = {"n": 64, "step": 128}
    out = [
        _reduction(f"line, {'one' if s == 0 else 'new'} gap{gap}", n=64, step=s, gap=gap)
        for s in (128, 0)
        for gap in (0, 100, 1000)
    ]
    out += [
        _reduction(f"line, {'one' if s == 0 else 'new'} U4 gap{gap}", u=4, n=64, step=s, gap=gap)
        for s in (128, 0)
        for gap in (0, 1000)
    ]
    out += [
        _reduction(f"line, new W{w} gap{gap}", warps=w, gap=gap, warp_step=64 * 128, **one)
        for w in (8, 32)
        for gap in (0, 1000)
    ]
    out += [_reduction(f"line, new U4 W{w}", u=4, warps=w, warp_step=64 * 128, **one) for w in (8, 32)]
    out += [_reduction("line, all warps the same W8", warps=8, **one)]
    out += [_reduction(f"line, in L1 gap{gap}", touch=1, gap=gap, **one) for gap in (0, 1000)]
    out += [_reduction("line, in L1 W32", touch=1, warps=32, warp_step=64 * 128, **one)]
    out += [
        _reduction(f"line, n1 W{w} {b} blocks", warps=w, grid=(b, 1, 1), n=1, warp_step=128, block_step=w * 128)
        for w, b in ((1, 1), (1, 132), (8, 132), (32, 132), (8, 1056), (32, 528))
    ]
    out += [
        _reduction(
            "line, n4 U4 W32 132 blocks",
            u=4,
            warps=32,
            grid=(132, 1, 1),
            n=4,
            step=128,
            warp_step=512,
            block_step=32 * 512,
        )
    ]
    out += [
        _reduction(f"line, all SMs on the same W{w}", warps=w, grid=(132, 1, 1), n=16, step=128, warp_step=2048)
        for w in (1, 8)
    ]
    half = {"g": 16, "n": 32, "step": 64}
    out += [_reduction(f"2 rows pitch 2048 gap{gap}", pitch=2048, gap=gap, **half) for gap in (0, 1000)]
    out += [_reduction("2 rows pitch 2048 W8", pitch=2048, warps=8, warp_step=4096, **half)]
    out += [
        _reduction(
            "2 rows pitch 2048 n1 W8 1056 blocks",
            g=16,
            pitch=2048,
            warps=8,
            grid=(1056, 1, 1),
            n=1,
            warp_step=4096,
            block_step=32768,
        )
    ]
    out += [_reduction("2 rows, free, two windows", pitch=2048 + 64, **{**half, "step": 128})]
    out += [_reduction("2 rows, free, one window", pitch=192, **{**half, "step": 512})]
    out += [_reduction("2 rows, conflicting, one window", pitch=128, **{**half, "step": 512})]
    out += [_reduction("4 rows, free, four windows", g=8, pitch=1024 + 32, n=8, step=128)]
    out += [_reduction("4 rows, conflicting, four windows", g=8, pitch=1024, n=8, step=128)]
    out += [_reduction("4 rows, free, one window", g=8, pitch=128 + 32, n=32, step=512)]
    out += [
        _reduction(f"{c} lines, {'near' if k == 1 else 'far'}", n=8, step=c * 128 if k == 1 else 128, **lines(c, k))
        for c in (8, 32)
        for k in (1, 8)
    ]
    out += [_reduction("16 x 2 pitch 132", g=16, pitch=4, q=132, n=8, step=4096)]
    out += [
        _reduction("all on one word", g=1, n=16, step=128),
        _reduction("pairs on a word", g=2, q=0, pitch=4, n=32, step=128),
    ]
    out += [_reduction(f"{s} sectors", active=(1 << 8 * s) - 1, **one) for s in (1, 2)]
    return out


def g_st() -> list[Case]:
    """Stores: lines, pace, warps, and after a load."""
    out = [_store(f"L{c}", **fresh(c, 32)) for c in (1, 2, 4, 8, 12, 16, 20, 24, 28, 32)]
    out += [_store(f"L{c} U8", u=8, **fresh(c, 32)) for c in (1, 8, 24, 32)]
    out += [_store(f"L{c} gap1000", gap=1000, **fresh(c, 32)) for c in (1, 2, 8, 16, 24, 32)]
    out += [_store(f"L{c} in L1", touch=1, **fresh(c, 32)) for c in (1, 8, 32)]
    out += [_store(f"L{c} W8", warps=8, **fresh(c, 32)) for c in (1, 2, 8, 32)]
    out += [_store(f"L{c} W32 gap1000", warps=32, gap=1000, **fresh(c, 8)) for c in (1, 32)]
    out += [_store(f"L32 pitch {p}", g=1, pitch=p, n=32, step=4) for p in (1028, 1024)]
    out += [
        _store("w16 contiguous", w=16, q=16, n=32, step=512),
        _store("w16 contiguous gap1000", w=16, q=16, n=32, step=512, gap=1000),
    ]
    out += [
        _store("row misaligned, pitch 1028", n=32, step=1028),
        _store("tile16 pitch 1024", g=16, pitch=1024, n=16, step=64),
    ]
    return out
