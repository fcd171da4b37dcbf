"""``cp.async``: what lands when and where, who may look at it, and what it costs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.fast_ptx import lanes
from hypothesis import given
from hypothesis import strategies as st

from ladder.errors import KernelFaultError, UnsupportedPtxError
from ladder.memory.copies import copy_wavefronts_batch
from ladder.ptx import Counters, Order

ORDERS: tuple[Order, ...] = ("lockstep", "warp_serial")
WORDS = np.random.default_rng(3).integers(0, 2**32, (4, 64), dtype=np.uint32)
"""Four words for each of 64 threads."""

PLACE = "shl.b32 %r1, %tid, 4; add.u32 %r1, %r1, %smem;"
"""%r1: 16 bytes of shared memory for each thread."""

LAND = "cp.async.commit_group; cp.async.wait_group 0;"
SHOW = "ld.shared.v4.u32 {%o0, %o1, %o2, %o3}, [%r1];"
ZERO = "mov.u32 %r9, 0; st.shared.v4.u32 [%r1], {%r9, %r9, %r9, %r9};"


def copied(body: str, *, words: Any = WORDS, threads: int = 64, **options: Any) -> np.ndarray:
    """What each thread finds in its 16 bytes afterwards."""
    return lanes(f"{PLACE} {body} {SHOW}", [*words], outputs=4, threads=threads, shared_bytes=1024, **options)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("cache", "size"), [("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16)])
@pytest.mark.parametrize("hint", ["", ".L2::64B", ".L2::128B", ".L2::256B"])
@pytest.mark.parametrize("space", ["shared", "shared::cta"])
def test_copies_of_every_size(cache: str, size: int, hint: str, space: str, order: Order) -> None:
    got = copied(f"{ZERO} cp.async.{cache}.{space}.global{hint} [%r1], [%src], {size}; {LAND}", order=order)
    expected = np.where(np.arange(4)[:, None] < size // 4, WORDS, 0)
    assert (got == expected).all()


def test_offsets_count() -> None:
    got = copied(f"{ZERO} cp.async.ca.shared.global [%r1+4], [%src+8], 4; {LAND}")
    assert (got == [np.zeros(64), WORDS[2], np.zeros(64), np.zeros(64)]).all()


@pytest.mark.parametrize("size", [4, 8, 16])
@given(sizes=st.lists(st.integers(0, 16), min_size=32, max_size=32))
def test_bytes_past_src_size_are_zeros(size: int, sizes: list[int]) -> None:
    asked = [min(s, size) for s in sizes]
    words = [*WORDS[:, :32], asked]
    body = f"{PLACE} cp.async.ca.shared.global [%r1], [%src], {size}, %i4; {LAND}"
    reads = {4: "ld.shared.u32 %o0", 8: "ld.shared.v2.u32 {%o0, %o1}", 16: "ld.shared.v4.u32 {%o0, %o1, %o2, %o3}"}
    # Five words a thread would misalign its sources: the sixth to eighth fill them up to 32 bytes.
    got = lanes(f"{body} {reads[size]}, [%r1];", [*words, 0, 0, 0], outputs=4, shared_bytes=512)
    for lane in range(32):
        source = WORDS[:, lane].tobytes()[: asked[lane]]
        assert got[:, lane].tobytes() == source.ljust(16, b"\0")


def test_ignore_src_writes_zeros_without_reading() -> None:
    # Odd threads point past the end of everything.
    body = f"""and.b32 %r2, %tid, 1; setp.ne.u32 %q1, %r2, 0; selp.b64 %x1, 1, 0, %q1; shl.b64 %x1, %x1, 50;
        add.s64 %src, %src, %x1; cp.async.cg.shared.global [%r1], [%src], 16, %q1; {LAND}"""
    got = copied(body)
    assert (got == np.where(np.arange(64) % 2, 0, WORDS)).all()


def test_src_size_zero_reads_nothing() -> None:
    body = f"mov.u32 %r2, 0; mov.u64 %src, 0; cp.async.cg.shared.global [%r1], [%src], 16, %r2; {LAND}"
    assert (copied(body) == 0).all()


def test_a_guard_chooses_lanes() -> None:
    body = f"{ZERO} setp.lt.u32 %q1, %lane, 5; @%q1 cp.async.cg.shared.global [%r1], [%src], 16; {LAND}"
    assert (copied(body) == np.where(np.arange(64) % 32 < 5, WORDS, 0)).all()


# Groups ---------------------------------------------------------------------------------------------------------------

FOUR_GROUPS = ZERO + "".join(
    f"cp.async.ca.shared.global [%r1+{4 * i}], [%src+{4 * i}], 4; cp.async.commit_group;" for i in range(4)
)


@pytest.mark.parametrize("keep", range(5))
def test_wait_group_leaves_the_last_groups_under_way(keep: int) -> None:
    for word in range(4):
        body = f"{PLACE} {FOUR_GROUPS} cp.async.wait_group {keep}; ld.shared.u32 %o0, [%r1+{4 * word}];"
        if word < 4 - keep:
            got = lanes(body, [*WORDS], threads=64, shared_bytes=1024)
            assert (got[0] == WORDS[word]).all()
        else:
            with pytest.raises(KernelFaultError) as caught:
                lanes(body, [*WORDS], threads=64, shared_bytes=1024)
            assert caught.value.kind == "use before cp.async wait"


def test_wait_all_needs_no_commit() -> None:
    assert (copied("cp.async.cg.shared.global [%r1], [%src], 16; cp.async.wait_all;") == WORDS).all()
    with pytest.raises(KernelFaultError, match="use before"):
        copied("cp.async.cg.shared.global [%r1], [%src], 16; cp.async.wait_group 0;")


def test_empty_groups_count() -> None:
    body = "cp.async.cg.shared.global [%r1], [%src], 16; cp.async.commit_group; cp.async.commit_group;"
    assert (copied(body + "cp.async.wait_group 1;") == WORDS).all()


def test_a_wait_lands_each_group_once() -> None:
    """What was written over a landed copy stays."""
    body = f"cp.async.cg.shared.global [%r1], [%src], 16; {LAND} {ZERO} cp.async.wait_group 0; cp.async.wait_all;"
    assert (copied(body) == 0).all()


def test_groups_are_counted_lane_by_lane() -> None:
    """Lanes below 16 commit twice, so that for them alone one group may stay under way."""
    body = f"""{ZERO} setp.lt.u32 %q1, %lane, 16;
        cp.async.cg.shared.global [%r1], [%src], 16; cp.async.commit_group;
        @%q1 cp.async.commit_group; cp.async.wait_group 1;"""
    got = lanes(f"{PLACE} {body} @!%q1 bra DONE; {SHOW}", [*WORDS], outputs=4, threads=64, shared_bytes=1024)
    assert (got == np.where(np.arange(64) % 32 < 16, WORDS, 0)).all()
    with pytest.raises(KernelFaultError, match=r"by thread \(16, 0, 0\) while the copy of thread \(16, 0, 0\)"):
        copied(body)


def test_lanes_that_took_another_way_wait_for_themselves() -> None:
    body = """setp.lt.u32 %q1, %lane, 16; cp.async.cg.shared.global [%r1], [%src], 16; cp.async.commit_group;
        @%q1 bra LOW; cp.async.wait_group 0; bra JOIN; LOW: add.u32 %r3, %r1, 0; JOIN: {more}"""
    assert (copied(body.format(more="cp.async.wait_group 0;")) == WORDS).all()
    with pytest.raises(KernelFaultError, match=r"by thread \(0, 0, 0\)"):
        copied(body.format(more=""))


def test_blocks_may_be_at_different_stages() -> None:
    body = f"""{PLACE} cp.async.cg.shared.global [%r1], [%src], 16; cp.async.commit_group;
        mov.u32 %r2, %ctaid.x; setp.eq.u32 %q1, %r2, 1; @%q1 bra DONE; cp.async.wait_group 0; {SHOW}"""
    got = lanes(body, [*WORDS[:, :96][:, np.arange(96) % 64]], outputs=4, blocks=3, shared_bytes=512)
    assert (got == np.where(np.arange(96) // 32 == 1, 0, WORDS[:, np.arange(96) % 64])).all()


# Faults ---------------------------------------------------------------------------------------------------------------

COPY = "cp.async.cg.shared.global [%r1], [%src], 16; cp.async.commit_group;"
NEXT = "xor.b32 %r2, %r1, 16;"
"""%r2: the place of the neighbouring thread."""

EARLY = {
    "its own thread reads": (COPY, "is read by thread"),
    "its own thread reads one byte": (COPY + "ld.shared.u8 %r3, [%r1+7];", "is read by thread"),
    "another thread reads after a barrier": (f"{COPY} bar.sync 0; {NEXT} ld.shared.u32 %r3, [%r2];", "is read by"),
    "its own thread writes": (COPY + ZERO, "is written by thread"),
    "an atomic": (COPY + "atom.shared.add.u32 %r3, [%r1], 1;", "is written by thread"),
    "another copy": (COPY + COPY, "is written by thread"),
    "ldmatrix": (COPY + "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r3}, [%r1];", "is read by thread"),
    "the wait is for another group": (COPY + "cp.async.commit_group; cp.async.wait_group 2;", "is read by thread"),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("body", "what"), EARLY.values(), ids=EARLY)
def test_words_under_way_are_nobodys(body: str, what: str, order: Order) -> None:
    with pytest.raises(KernelFaultError, match=f"smem\\+.*{what}.*while the copy of thread .* is under way") as caught:
        copied(body, order=order)
    assert caught.value.kind == "use before cp.async wait"
    assert "at PTX `cp.async.cg.shared.global`" in str(caught.value)


def test_reading_a_neighbours_copy_takes_a_barrier() -> None:
    body = f"{PLACE} {NEXT} {COPY} cp.async.wait_group 0; {{sync}} ld.shared.u32 %o0, [%r2];"
    got = lanes(body.format(sync="bar.sync 0;"), [*WORDS], threads=64, shared_bytes=1024)
    assert (got[0] == WORDS[0][np.arange(64) ^ 1]).all()
    with pytest.raises(KernelFaultError, match=r"race.*is written by thread .* `cp\.async.*and read by"):
        lanes(body.format(sync=""), [*WORDS], threads=64, shared_bytes=1024)


def test_a_copy_over_words_that_others_still_read_is_a_race() -> None:
    before, after = (
        f"{PLACE} {NEXT} {ZERO} bar.sync 0; ld.shared.u32 %o0, [%r2];",
        f"{COPY} bar.sync 0; cp.async.wait_all;",
    )
    assert (lanes(f"{before} bar.sync 0; {after}", [*WORDS], threads=64, shared_bytes=1024)[0] == 0).all()
    with pytest.raises(KernelFaultError, match=r"race.*is read by thread .*and written by thread .* `cp\.async"):
        lanes(f"{before} {after}", [*WORDS], threads=64, shared_bytes=1024)


def test_two_copies_to_one_place_are_a_race() -> None:
    body = f"mov.u32 %r2, %smem; cp.async.cg.shared.global [%r2], [%src], 16; {LAND} bar.sync 0; mov.u32 %r1, %smem;"
    with pytest.raises(KernelFaultError, match=r"race.*is written by thread .*and written by thread"):
        copied(body)


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        ("cp.async.cg.shared.global [%smem+8], [%src], 16;", "misaligned", "16-byte shared access at byte 8 "),
        ("cp.async.cg.shared.global [%r1], [%src+4], 16;", "misaligned", "16-byte access at address"),
        ("cp.async.cg.shared.global [%r1+16], [%src], 16;", "out of bounds", "16-byte shared access at byte 1024"),
        ("cp.async.cg.shared.global [%r1], [%src+16], 16;", "out of bounds", "0 bytes past the end of A"),
        ("mov.u32 %r2, 12; cp.async.cg.shared.global [%r1], [%src+8], 16, %r2;", "out of bounds", "past the end of A"),
        ("mov.u32 %r2, 17; cp.async.cg.shared.global [%r1], [%src], 16, %r2;", "invalid copy", "src-size 17"),
    ],
)
def test_bad_addresses(body: str, kind: str, message: str) -> None:
    with pytest.raises(KernelFaultError, match=message) as caught:
        copied(body)
    assert caught.value.kind == kind


@pytest.mark.parametrize(
    "line",
    [
        "cp.async.cg.shared.global [%r1], [%src], 8;",
        "cp.async.ca.shared.global [%r1], [%src], 32;",
        "cp.async.ca.shared.global [%r1], [%src], %r2;",
        "cp.async.ca.global.shared [%src], [%r1], 16;",
        "cp.async.ca.shared.global.L2::cache_hint [%r1], [%src], 16, %x1;",
        "cp.async.wait_group %r1;",
    ],
)
def test_other_forms_are_refused_by_name(line: str) -> None:
    with pytest.raises(UnsupportedPtxError, match=r"PTX `cp\.async"):
        lanes(line)


@pytest.mark.parametrize(
    "line",
    [
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%src], 16, [%r2];",
        "cp.async.bulk.commit_group;",
        "cp.async.mbarrier.arrive.shared.b64 [%r1];",
        "mbarrier.init.shared.b64 [%r1], 1;",
        "wgmma.fence.sync.aligned;",
        "setmaxnreg.inc.sync.aligned.u32 240;",
        "barrier.cluster.arrive;",
        "fence.proxy.async;",
    ],
)
def test_hopper_is_refused_with_a_hint(line: str) -> None:
    with pytest.raises(UnsupportedPtxError, match=r"sm_90a asynchronous operations are not emulated; run .* on a GPU"):
        lanes(line)


# Counting -------------------------------------------------------------------------------------------------------------


def counted(body: str, **options: Any) -> Counters:
    counters = Counters()
    counters.enter(64, np.arange(1))
    copied(body, counters=counters, **options)
    return counters


COSTS = {
    # source and target byte of lane l, wavefronts of the request by hand
    "contiguous": (np.arange(32) * 16, np.arange(32) * 16, 4),
    "sources 32 bytes apart": (np.arange(32) * 32, np.arange(32) * 16, 8),
    "sources 64 bytes apart": (np.arange(32) * 64, np.arange(32) * 16, 16),
    "sources 128 bytes apart": (np.arange(32) * 128, np.arange(32) * 16, 32),
    "targets 32 bytes apart": (np.arange(32) * 16, np.arange(32) * 32, 8),
    "both 32 bytes apart": (np.arange(32) * 32, np.arange(32) * 32, 12),
    "one source": (np.zeros(32), np.arange(32) * 16, 32),
}


@pytest.mark.parametrize(("sources", "targets", "cost"), COSTS.values(), ids=COSTS)
def test_wavefronts_of_copies(sources: np.ndarray, targets: np.ndarray, cost: int) -> None:
    everyone = np.ones((2, 32), np.bool_)
    half = everyone & (np.arange(32) < 16)
    rows = [np.tile(x.astype(np.int64), (2, 1)) for x in (sources, targets)]
    assert copy_wavefronts_batch(*rows, 16, reading=everyone, writing=everyone).tolist() == [cost] * 2
    assert copy_wavefronts_batch(*rows, 16, reading=half, writing=half).tolist() == [cost / 2] * 2


@pytest.mark.parametrize(("size", "cost"), [(4, 1), (8, 2), (16, 4)])
def test_narrow_copies_are_served_in_wider_groups(size: int, cost: int) -> None:
    everyone, places = np.ones((1, 32), np.bool_), np.arange(32)[None, :] * size
    assert copy_wavefronts_batch(places, places, size, reading=everyone, writing=everyone).tolist() == [cost]


def test_lanes_that_write_zeros_cost_no_reads() -> None:
    everyone, nobody = np.ones((1, 32), np.bool_), np.zeros((1, 32), np.bool_)
    far, near = np.arange(32)[None, :] * 128, np.arange(32)[None, :] * 16
    assert copy_wavefronts_batch(far, near, 16, reading=nobody, writing=everyone).tolist() == [4]


@pytest.mark.parametrize(("through", "passes"), [("ca", 4), ("cg", 0)])
def test_a_copy_counts_as_a_load_that_passes_once(through: str, passes: int) -> None:
    before = counted(ZERO)
    after = counted(f"{ZERO} cp.async.{through}.shared.global [%r1], [%src], 16; {LAND}")
    assert after.asked_bytes - before.asked_bytes == 64 * 16
    assert after.read_sectors - before.read_sectors == 2 * 16
    assert after.global_requests - before.global_requests == 2
    # Past L1 the data pipe sees nothing of it.
    assert after.global_wavefronts - before.global_wavefronts == 2 * passes
    assert after.shared_wavefronts == before.shared_wavefronts
    assert after.shared_requests == before.shared_requests
    assert after.copy_groups - before.copy_groups == 2


@pytest.mark.parametrize(
    ("sizes", "asked", "sectors"), [(16, 64 * 16, 32), (0, 0, 0), (4, 64 * 4, 32), (16 * (np.arange(64) < 32), 512, 16)]
)
def test_only_what_is_read_is_asked_for(sizes: Any, asked: int, sectors: int) -> None:
    words = [*WORDS, sizes, 0, 0, 0]
    before = counted(ZERO, words=words)
    after = counted(f"{ZERO} cp.async.cg.shared.global [%r1], [%src], 16, %i4; {LAND}", words=words)
    assert after.asked_bytes - before.asked_bytes == asked
    # Each thread's words fill a sector here.
    assert after.read_sectors - before.read_sectors == sectors * 2


def test_blocks_that_differ_are_counted_alike() -> None:
    """A condition on the block makes all masks (threads, blocks) wide, which changes no count."""
    plain = f"{PLACE} {{guard}} cp.async.ca.shared.global [%r1], [%src], 16; {LAND}"
    totals = []
    for guard in ("", "mov.u32 %r2, %ctaid.x; setp.ge.u32 %q1, %r2, 3; @%q1 bra DONE;"):
        counters = Counters()
        counters.enter(64, np.arange(3))
        words = [*WORDS[:, np.arange(192) % 64]]
        lanes(plain.format(guard=guard), words, threads=64, blocks=3, shared_bytes=1024, counters=counters)
        totals.append((counters.shared_wavefronts, counters.global_wavefronts, counters.read_sectors))
    assert totals[0] == totals[1]
    assert totals[0][1] >= 3 * 2 * 4
