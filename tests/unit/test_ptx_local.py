"""Local memory by elements of every size, and dynamic shared memory."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.fast_ptx import lanes

from ladder.errors import KernelFaultError
from ladder.ptx import Order

ORDERS: tuple[Order, ...] = ("lockstep", "warp_serial")
DEPOT = ".local .align 16 .b8 depot[40]; mov.u64 %x1, depot;"
NUMBERS = np.random.default_rng(1).integers(0, 2**32, (4, 64), dtype=np.uint32)

ROUND_TRIPS = {
    "b32": "st.local.u32 [%x1+8], %i0; ld.local.u32 %o0, [%x1+8];",
    "v4": """st.local.v4.u32 [%x1], {%i0, %i1, %i2, %i3};
        ld.local.v2.u32 {%o0, %o1}, [%x1]; ld.local.v2.u32 {%o2, %o3}, [%x1+8];""",
    "b64 as words": """mov.b64 %x2, {%i0, %i1}; st.local.u64 [%x1+24], %x2;
        ld.local.u32 %o0, [%x1+24]; ld.local.u32 %o1, [%x1+28];""",
    "words as b64": """st.local.u32 [%x1], %i0; st.local.u32 [%x1+4], %i1;
        ld.local.b64 %x2, [%x1]; mov.b64 {%o0, %o1}, %x2;""",
    "f64": "mov.b64 %d1, {%i0, %i1}; st.local.f64 [%x1+32], %d1; ld.local.f64 %d2, [%x1+32]; mov.b64 {%o0, %o1}, %d2;",
    "word as halves": """st.local.u32 [%x1+4], %i0; ld.local.u16 %h1, [%x1+4]; ld.local.u16 %h2, [%x1+6];
        mov.b32 %o0, {%h1, %h2};""",
    "word as bytes": """st.local.u32 [%x1+12], %i0; mov.u32 %o0, 0;
        ld.local.u8 %r1, [%x1+12]; or.b32 %o0, %o0, %r1; ld.local.u8 %r1, [%x1+13]; shl.b32 %r1, %r1, 8;
        or.b32 %o0, %o0, %r1; ld.local.u8 %r1, [%x1+14]; shl.b32 %r1, %r1, 16; or.b32 %o0, %o0, %r1;
        ld.local.u8 %r1, [%x1+15]; shl.b32 %r1, %r1, 24; or.b32 %o0, %o0, %r1;""",
    "bytes as a word": """st.local.u8 [%x1], %i0; shr.u32 %r1, %i0, 8; st.local.u8 [%x1+1], %r1;
        shr.u32 %r1, %i0, 16; cvt.u16.u32 %h1, %r1; st.local.u16 [%x1+2], %h1; ld.local.u32 %o0, [%x1];""",
    "generic": "cvta.local.u64 %x2, %x1; st.u32 [%x2+4], %i0; ld.u32 %o0, [%x2+4];",
}
WORDS_BACK = {"v4": 4, "b64 as words": 2, "words as b64": 2, "f64": 2}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_what_is_stored_is_found_again(name: str, order: Order) -> None:
    got = lanes(DEPOT + ROUND_TRIPS[name], [*NUMBERS], outputs=4, threads=32, blocks=2, order=order)
    count = WORDS_BACK.get(name, 1)
    assert (got[:count] == NUMBERS[:count]).all()


def test_each_lane_has_its_own_and_indices_may_differ() -> None:
    body = f"""{DEPOT} and.b32 %r1, %lane, 7; mul.wide.u32 %x2, %r1, 4; add.s64 %x2, %x2, %x1;
        st.local.u32 [%x2], %tid; ld.local.u32 %o0, [%x2]; ld.local.u32 %o1, [%x1+4];"""
    got = lanes(body, outputs=2, threads=64)
    assert got[0].tolist() == list(range(64))
    # Words that a lane has not written are no number.
    assert got[1].tolist() == [t if t % 8 == 1 else 0xFFFFFFFF for t in range(64)]


def test_masked_lanes_keep_theirs() -> None:
    body = f"""{DEPOT} st.local.u32 [%x1], %lane; setp.lt.u32 %q1, %lane, 4; @%q1 st.local.u32 [%x1], %i0;
        ld.local.u32 %o0, [%x1];"""
    assert lanes(body, [99])[0].tolist() == [99] * 4 + list(range(4, 32))


@pytest.mark.parametrize(
    ("access", "kind", "message"),
    [
        ("ld.local.u32 %o0, [%x1+40];", "out of bounds", "4-byte local access at byte 40 of 40"),
        ("st.local.u32 [%x1+-4], %o0;", "out of bounds", "at byte -4 of 40"),
        ("ld.local.v4.u32 {%o0, %o1, %o2, %o3}, [%x1+32];", "out of bounds", "16-byte local access at byte 32"),
        ("ld.local.u32 %o0, [%x1+2];", "misaligned", "4-byte local access at byte 2"),
        ("st.local.f64 [%x1+4], %d1;", "misaligned", "8-byte local access at byte 4"),
    ],
)
def test_bad_local_addresses(access: str, kind: str, message: str) -> None:
    with pytest.raises(KernelFaultError, match=message) as caught:
        lanes(f"{DEPOT} setp.eq.u32 %q1, %lane, 9; @%q1 {access}", outputs=4)
    assert caught.value.kind == kind
    assert "thread (9, 0, 0) of block (0, 0, 0)" in str(caught.value)


DYNAMIC = ".extern .shared .align 16 .b8 more[];"


@pytest.mark.parametrize("smem_bytes", [4096, 100 * 1024])
def test_dynamic_shared_memory_follows_the_static(smem_bytes: int) -> None:
    body = f"""mov.u32 %r1, more; sub.u32 %o1, %r1, %smem; mad.lo.u32 %r1, %tid, {smem_bytes // 32}, %r1;
        st.shared.u32 [%r1], %tid; bar.sync 0; ld.shared.u32 %o0, [%r1];"""
    got = lanes(body, outputs=2, shared_bytes=20, smem_bytes=smem_bytes, outside=DYNAMIC)
    assert got[0].tolist() == list(range(32))
    assert set(got[1].tolist()) == {32}


def test_the_end_of_dynamic_shared_memory() -> None:
    body = "mov.u32 %r1, more; st.shared.u32 [%r1+{}], %tid;"
    lanes("setp.eq.u32 %q1, %tid, 0; @!%q1 bra DONE;" + body.format(60), smem_bytes=64, outside=DYNAMIC)
    with pytest.raises(KernelFaultError, match="out of bounds"):
        lanes(body.format(64), smem_bytes=64, outside=DYNAMIC)
