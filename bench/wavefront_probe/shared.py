"""Launches that mix global with shared accesses, and asynchronous copies."""

from __future__ import annotations

from typing import Any

from bench.wavefront_probe.case import Case, lines

__all__ = ["g_copy", "g_mix"]


def _mix(name: str, a: int, b: int, *, split: int, shared_warps: int, n2: int, **more: Any) -> Case:
    more = {"dq": 16 if b == 2 else 4, **more}
    more.setdefault("dwarp", 32 * more["dq"])
    smem = max(shared_warps, 1) * max(more["dwarp"], 512) + 1024
    return Case(
        name=f"mix {name}",
        kernel="k_mix",
        template=(a, b),
        warps=split + shared_warps,
        split=split,
        n2=n2,
        smem=smem,
        **more,
    )


def g_mix() -> list[Case]:
    """One kind of global access while other warps access shared memory."""
    lds, lds4, sts = (1, "LDS"), (2, "LDS.128"), (3, "STS")
    out = [
        _mix(f"{s} alone, {w} warps", 0, b, split=0, shared_warps=w, n2=400)
        for b, s in (lds, lds4, sts)
        for w in (1, 8)
    ]
    out += [_mix("LDS.128 broadcast alone", 0, 2, split=0, shared_warps=8, n2=400, dq=0, dwarp=16)]
    one = {"n": 64, "step": 128, "warp_step": 64 * 128}
    two = {"g": 16, "pitch": 2048, "n": 32, "step": 64, "warp_step": 4096}
    for b, s in (lds, lds4, sts):
        n2 = 400 if b != 2 else 100
        out += [_mix(f"RED line gap200 + {s} x8", 4, b, split=1, shared_warps=8, n2=n2, gap=200, **one)]
        out += [_mix(f"RED 2 rows gap200 + {s} x8", 4, b, split=1, shared_warps=8, n2=n2 // 2, gap=200, **two)]
        out += [_mix(f"LDG L1 miss + {s} x8", 1, b, split=1, shared_warps=8, n2=n2 * 2, **one)]
        out += [_mix(f"LDG L1 miss U8 + {s} x8", 2, b, split=4, shared_warps=8, n2=n2, **one)]
        out += [_mix(f"STG line gap200 + {s} x8", 3, b, split=1, shared_warps=8, n2=n2, gap=200, **one)]
    out += [
        _mix("RED line + LDS x8", 4, 1, split=1, shared_warps=8, n2=200, **{**one, "n": 256, "warp_step": 256 * 128})
    ]
    out += [_mix("RED line 8 warps + LDS x8", 4, 1, split=8, shared_warps=8, n2=200, **one)]
    out += [_mix("RED line 8 warps + LDS x24", 4, 1, split=8, shared_warps=24, n2=100, **one)]
    out += [_mix("RED 2 rows 8 warps + LDS x8", 4, 1, split=8, shared_warps=8, n2=200, **two)]
    out += [_mix("RED line gap200 + LDS x8 unhurried", 4, 1, split=1, shared_warps=8, n2=100, gap=200, gap2=100, **one)]
    out += [_mix("RED line gap200 + LDS x1", 4, 1, split=1, shared_warps=1, n2=1500, gap=200, **one)]
    out += [_mix("RED line gap200, no other", 4, 0, split=1, shared_warps=1, n2=0, gap=200, **one)]
    out += [_mix("RED 2 rows gap200, no other", 4, 0, split=1, shared_warps=1, n2=0, gap=200, **two)]
    out += [
        _mix("RED 8 lines gap200 + LDS x8", 4, 1, split=1, shared_warps=8, n2=400, gap=200, n=32, step=1024, **lines(8))
    ]
    out += [_mix("LDG L1 miss + LDS x8 conflicting", 1, 1, split=1, shared_warps=8, n2=200, dq=8, dwarp=256, **one)]
    for c in (2, 8, 32):
        out += [_mix(f"LDG L{c} miss + LDS x8", 1, 1, split=1, shared_warps=8, n2=600, n=32, step=c * 128, **lines(c))]
    out += [_mix("LDG 2 rows miss + LDS x8", 1, 1, split=1, shared_warps=8, n2=500, **two)]
    out += [_mix("LDG L1 hits + LDS x8", 1, 1, split=1, shared_warps=8, n2=800, reps=32, **{**one, "n": 16})]
    out += [_mix("LDG L32 hits + LDS x8", 1, 1, split=1, shared_warps=8, n2=800, reps=64, n=4, step=4096, **lines(32))]
    out += [
        _mix(
            "LDG L1 miss U8 x8 + LDS x8, all SMs",
            2,
            1,
            split=8,
            shared_warps=8,
            n2=400,
            grid=(132, 1, 1),
            block_step=8 * 64 * 128,
            **one,
        )
    ]
    out += [
        _mix(
            "LDG L1 miss U8 x8 + STS x8, all SMs",
            2,
            3,
            split=8,
            shared_warps=8,
            n2=400,
            grid=(132, 1, 1),
            block_step=8 * 64 * 128,
            **one,
        )
    ]
    out += [
        _mix(
            "RED line x8 gap200 + LDS x8, all SMs",
            4,
            1,
            split=8,
            shared_warps=8,
            n2=400,
            gap=200,
            grid=(132, 1, 1),
            block_step=8 * 64 * 128,
            **one,
        )
    ]
    return out


def _copy(name: str, w: int, ca: int, *, u: int = 1, warps: int = 1, **more: Any) -> Case:
    more.setdefault("dq", w)
    dg = more.get("dg", 32)
    extent = (31 // dg) * more.get("dpitch", 0) + (min(dg, 32) - 1) * more["dq"] + w
    extent = -(-extent // 512) * 512
    more.setdefault("dstep", extent)
    more.setdefault("dwarp", 4 * extent)
    return Case(
        name=f"copy{w}{'' if ca else '.cg'} {name}",
        kernel="k_copy",
        template=(w, ca, u),
        warps=warps,
        smem=warps * 4 * extent + 1024,
        **more,
    )


def g_copy() -> list[Case]:
    """cp.async through L1 and past it: widths, rows, targets."""
    out: list[Case] = []
    kinds = ((4, 1), (8, 1), (16, 1), (16, 0))
    for w, ca in kinds:
        flat = {"q": w, "n": 32, "step": 32 * w, "warp_step": 32 * 32 * w}
        out += [_copy("contiguous", w, ca, **flat), _copy("contiguous U4", w, ca, u=4, **flat)]
        out += [_copy("contiguous, then 4 passes of hits", w, ca, **{**flat, "reps": 5})]
        out += [_copy("contiguous W8 U4", w, ca, u=4, warps=8, **flat)]
    for ca in (1, 0):
        out += [_copy("rows of 64B pitch 1K", 16, ca, g=4, q=16, pitch=1024, n=16, step=64)]
        out += [_copy("rows of 64B pitch 1K, hits", 16, ca, g=4, q=16, pitch=1024, n=16, step=64, reps=5)]
        out += [_copy("rows of 128B pitch 1K", 16, ca, g=8, q=16, pitch=1024, n=8, step=128)]
        out += [
            _copy("rows of 128B pitch 1K, to pitch 144", 16, ca, g=8, q=16, pitch=1024, n=8, step=128, dg=8, dpitch=144)
        ]
        out += [_copy("lanes 1040B apart", 16, ca, g=1, pitch=1040, n=8, step=16)]
        out += [_copy("contiguous, to rows of 64B pitch 80", 16, ca, q=16, n=32, step=512, dg=4, dpitch=80)]
        out += [_copy("contiguous, to lanes 128B apart", 16, ca, q=16, n=32, step=512, dg=1, dpitch=128)]
        out += [_copy("contiguous, to lanes 64B apart", 16, ca, q=16, n=32, step=512, dg=1, dpitch=64)]
        out += [
            _copy(
                "contiguous W8 U4, all SMs",
                16,
                ca,
                u=4,
                warps=8,
                grid=(132, 1, 1),
                q=16,
                n=16,
                step=512,
                warp_step=16 * 512,
                block_step=8 * 16 * 512,
            )
        ]
    for name, more in {
        "contiguous, to lanes 132B apart": {"q": 4, "n": 32, "step": 128, "dg": 1, "dpitch": 132},
        "contiguous, to lanes 128B apart": {"q": 4, "n": 32, "step": 128, "dg": 1, "dpitch": 128},
        "4 rows of 32B pitch 1K, turned to pitch 528": {
            "g": 8,
            "pitch": 1024,
            "n": 32,
            "step": 32,
            "dg": 8,
            "dpitch": 4,
            "dq": 528,
        },
        "4 rows of 32B pitch 1K, turned to pitch 512": {
            "g": 8,
            "pitch": 1024,
            "n": 32,
            "step": 32,
            "dg": 8,
            "dpitch": 4,
            "dq": 512,
        },
        "32 rows pitch 1K, to contiguous": {"g": 1, "pitch": 1024, "n": 32, "step": 4},
        "32 rows pitch 1028, to contiguous": {"g": 1, "pitch": 1028, "n": 32, "step": 4},
    }.items():
        out += [_copy(name, 4, 1, **more), _copy(name + ", hits", 4, 1, reps=5, **more)]
    out += [_copy("4 rows of 64B pitch 1K", 8, 1, g=8, q=8, pitch=1024, n=16, step=64)]
    return out
