"""Launches of global loads: lines, fills, walks along rows, tiles."""

from __future__ import annotations

from typing import Any

from bench.wavefront_probe.case import FULL, Case, fresh, lines

__all__ = ["g_fill", "g_ld_lines", "g_naive", "g_tile_loads"]

SMS = 132


def _load(name: str, *, w: int = 4, pol: int = 0, u: int = 1, **more: Any) -> Case:
    return Case(name=f"ld {name}", kernel="k_ld", template=(w, pol, u), carveout=0, **more)


def g_ld_lines() -> list[Case]:
    """Requests of 1 to 32 lines that miss, then hit; warps, policies, widths."""
    out = [_load(f"miss L{c}", **fresh(c, 32)) for c in (1, 2, 3, 4, 5, 6, 8, 9, 12, 16, 17, 20, 24, 28, 32)]
    out += [_load(f"miss+4hits L{c}", reps=5, **fresh(c, 16)) for c in (1, 2, 4, 8, 16, 32)]
    out += [_load(f"miss L{c} all sectors", **fresh(c, 32, spread=True)) for c in (2, 4, 8, 16)]
    out += [_load(f"miss L{c} pitch 4K", n=32, step=128, **lines(c, 32)) for c in (2, 4, 5, 8, 16, 32)]
    out += [_load(f"miss L{c} pitch 1K", n=8, step=128, **lines(c, 8)) for c in (2, 4, 8, 32)]
    out += [_load(f"miss L{c} U8", u=8, **fresh(c, 32)) for c in (1, 2, 4, 8, 16, 32)]
    out += [_load(f"miss L{c} W8", warps=8, **fresh(c, 32)) for c in (1, 2, 4, 8, 16, 32)]
    out += [_load(f"miss L{c} W32", warps=32, **fresh(c, 16)) for c in (1, 2, 4, 8, 32)]
    out += [_load(f"miss L{c} gap2000", gap=2000, **fresh(c, 32)) for c in (1, 8, 32)]
    out += [
        _load(f"miss L{c} policy {'.ca' if pol == 1 else '.cg'}", pol=pol, **fresh(c, 32))
        for pol in (1, 2)
        for c in (1, 8, 32)
    ]
    # The same lines, every row in the same banks: c wavefronts by the bank rule.
    out += [_load(f"miss L{c} conflicting", g=32 // c, pitch=128, n=32, step=c * 128) for c in (2, 4, 8, 32)]
    out += [
        _load("miss w8 contiguous", w=8, q=8, n=32, step=256),
        _load("miss w16 contiguous", w=16, q=16, n=32, step=512),
    ]
    out += [_load("miss w16 rows of 64B", w=16, g=4, q=16, pitch=1024, n=8, step=64)]
    out += [_load("miss w16 L32 pitch 144", w=16, g=1, pitch=144, n=32, step=36 * 128)]
    out += [_load("miss w8 L32 pitch 136", w=8, g=1, pitch=136, n=32, step=34 * 128)]
    return out


def g_fill() -> list[Case]:
    """What filling lines takes: by lines, sectors, warps and SMs."""
    out = [_load(f"fill n{n}", **fresh(1, n)) for n in (1, 2, 4, 7, 8, 9, 15, 16, 17, 32, 64, 128, 256)]
    out += [_load(f"fill n128 {s} sectors a line", active=(1 << 8 * s) - 1, n=128, step=128) for s in (1, 2, 3)]
    out += [_load("fill n128 sector by sector", active=0xFF, n=128, step=32)]
    out += [_load("fill n256 word by word (broadcast)", q=0, n=256, step=4)]
    out += [
        _load("fill n128 U8", u=8, **fresh(1, 128)),
        _load("fill n128 U8 1 sector a line", u=8, active=0xFF, n=128, step=128),
    ]
    out += [_load(f"fill n64 W{w}", warps=w, **fresh(1, 64)) for w in (2, 4, 8, 16, 32)]
    out += [_load(f"fill n64 U8 W{w}", u=8, warps=w, **fresh(1, 64)) for w in (8, 32)]
    out += [
        _load(f"fill n64 W{w} all SMs", warps=w, grid=(SMS, 1, 1), block_step=w * 64 * 128, **fresh(1, 64))
        for w in (1, 8, 32)
    ]
    out += [_load(f"fill n64 W{w} all SMs, same data", warps=w, grid=(SMS, 1, 1), **fresh(1, 64)) for w in (1, 32)]
    out += [
        _load(f"fill n1 W32 {b} blocks", warps=32, grid=(b, 1, 1), block_step=4096, **fresh(1, 1)) for b in (132, 1056)
    ]
    # Rows of 128 bytes that lie across two lines: 5 sectors.
    out += [_load("row misaligned by 4B", off=4, n=64, step=256), _load("row misaligned, pitch 516", n=64, step=516)]
    out += [_load("row misaligned, pitch 1028", n=64, step=1028)]
    out += [_load("row misaligned by 4B, neighbours", off=4, n=64, step=128)]
    out += [_load("row misaligned, pitch 516 W32", warps=32, warp_step=516, n=8, step=32 * 516)]
    out += [_load("row misaligned, pitch 1028 W32", warps=32, warp_step=1028, n=8, step=32 * 1028)]
    return out


def g_naive() -> list[Case]:
    """Lanes that walk along rows, and requests of which only some lines are new."""
    walk = {"g": 1, "n": 128, "step": 4}
    out = [_load(f"walk pitch 516 W{w}", pitch=516, warps=w, **walk) for w in (1, 2, 4, 8, 16, 32)]
    out += [_load(f"walk pitch 516 U8 W{w}", u=8, pitch=516, warps=w, **walk) for w in (1, 32)]
    out += [_load(f"walk pitch {p} W{w}", pitch=p, warps=w, **walk) for p in (132, 1028, 512, 544) for w in (1, 32)]
    out += [_load("walk pitch 516 W1, later passes hit", pitch=516, reps=5, **walk)]
    # Of 32 lines some are new, the others stay.
    masks = {
        "1": 1,
        "2 near": 3,
        "4 near": 0xF,
        "4 every 8th": 0x01010101,
        "8 near": 0xFF,
        "8 every 4th": 0x11111111,
        "16 near": 0xFFFF,
        "16 every 2nd": 0x55555555,
        "31": FULL >> 1,
    }
    out += [_load(f"L32, {name} new", step_mask=mask, n=32, step=32 * 128, **lines(32)) for name, mask in masks.items()]
    out += [
        _load(f"L8, {name} new", step_mask=mask, n=32, step=8 * 128, **lines(8))
        for name, mask in {
            "1": 0xF,
            "2 near": 0xFF,
            "2 apart": 0xF000F,
            "4 near": 0xFFFF,
            "4 every 2nd": 0x0F0F0F0F,
        }.items()
    ]
    out += [_load("L2, 1 new", step_mask=0xFFFF, n=32, step=256, **lines(2))]
    # The same request again while it is under way.
    out += [
        _load(f"L{c} again {1 << d} times at once", u=8, dup=d, n=64, step=c * 128, **lines(c))
        for c in (1, 8, 32)
        for d in (1, 3)
    ]
    out += [
        _load(f"L{c} W{w} all the same", warps=w, **{**fresh(c, 32), "warp_step": 0})
        for c in (1, 2, 8, 32)
        for w in (8, 32)
    ]
    return out


def g_tile_loads() -> list[Case]:
    """Rows of 8 or 16 words, as tiles are loaded."""
    out = []
    for edge in (256, 512):
        p = edge * 4
        out += [
            _load(f"tile16 A {edge} W{w}", g=16, pitch=p, n=edge // 16, step=64, warps=w, warp_step=2 * p)
            for w in (1, 8)
        ]
        out += [
            _load(f"tile16 B {edge} W{w}", g=16, pitch=p, n=edge // 16, step=16 * p, warps=w, warp_step=2 * p)
            for w in (1, 8)
        ]
    out += [_load("tile16 A 256 W1 U8", u=8, g=16, pitch=1024, n=16, step=64)]
    out += [_load("tile16 A 129 W8", g=16, pitch=516, n=8, step=64, warps=8, warp_step=1032)]
    out += [_load("tile16 B 257 W8", g=16, pitch=1028, n=8, step=16 * 1028, warps=8, warp_step=2056)]
    out += [_load(f"tile8 A 256 W{w}", g=8, pitch=1024, n=32, step=32, warps=w, warp_step=4096) for w in (1, 8, 16)]
    out += [_load("tile8 A 129 W8", g=8, pitch=516, n=16, step=32, warps=8, warp_step=2064)]
    out += [_load("two half lines, one window", g=16, pitch=192, n=32, step=384)]
    out += [_load("two half lines, one window, conflicting", g=16, pitch=128, n=32, step=256)]
    out += [_load("two half lines, two windows, free", g=16, pitch=1024 + 64, n=32, step=128)]
    return out
