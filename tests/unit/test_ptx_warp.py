"""Warp collectives against a lane-by-lane reading of the PTX ISA, and the faults of lanes that are not there."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pytest
from helpers.fast_ptx import kernel, lanes
from helpers.ptx import compute, run, signed
from hypothesis import given
from hypothesis import strategies as st

from ladder.errors import KernelFaultError, UnsupportedPtxError
from ladder.ptx.warp import ballot

FULL = 0xFFFFFFFF
LANES = range(32)
NUMBERS = np.random.default_rng(5).integers(0, 2**32, 32, dtype=np.uint32)
SIGNED = NUMBERS.view(np.int32)

words = st.integers(0, FULL)


def source_lane(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """PTX ISA, ``shfl.sync``, "Semantics"."""
    bval, cval, segmask = b & 31, c & 31, c >> 8 & 31
    most, least = (lane & segmask) | (cval & ~segmask & 31), lane & segmask
    j = {
        "up": lane - bval,
        "down": lane + bval,
        "bfly": lane ^ bval,
        "idx": least | (bval & ~segmask & 31),
    }[mode]
    inside = j >= most if mode == "up" else j <= most
    return (j, True) if inside else (lane, False)


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@given(b=st.lists(words, min_size=32, max_size=32), c=st.lists(words, min_size=32, max_size=32))
def test_shuffle_reads_the_lane_that_the_isa_says(mode: str, b: list[int], c: list[int]) -> None:
    body = f"shfl.sync.{mode}.b32 %o0|%q1, %i0, %i1, %i2, -1; selp.u32 %o1, 1, 0, %q1;"
    got = lanes(body, [NUMBERS, b, c], outputs=2)
    expected = [source_lane(mode, lane, b[lane], c[lane]) for lane in LANES]
    assert [int(NUMBERS[j]) for j, _ in expected] == got[0].tolist()
    assert [int(inside) for _, inside in expected] == got[1].tolist()


@pytest.mark.parametrize(
    ("call", "pick"),
    [
        ("down.b32 %o0, %i0, 4, 31", lambda lane: lane + 4 if lane < 28 else lane),  # __shfl_down_sync(v, 4)
        ("down.b32 %o0, %i0, 4, 6175", lambda lane: lane + 4 if lane % 8 < 4 else lane),  # width 8
        ("up.b32 %o0, %i0, 1, 0", lambda lane: max(lane - 1, 0)),
        ("bfly.b32 %o0, %i0, 16, 31", lambda lane: lane ^ 16),
        ("bfly.b32 %o0, %i0, 16, 4127", lambda lane: lane & 15),  # width 16: only earlier segments
        ("idx.b32 %o0, %i0, 9, 31", lambda _: 9),
        ("idx.b32 %o0, %i0, 9, 6175", lambda lane: lane // 8 * 8 + 1),
    ],
)
def test_shuffles_of_cuda_c(call: str, pick: Callable[[int], int]) -> None:
    got = lanes(f"shfl.sync.{call}, -1;", [np.tile(NUMBERS, 6)], threads=64, blocks=3)
    assert got[0].tolist() == [int(NUMBERS[pick(lane)]) for lane in LANES] * 6


def test_a_shuffle_from_a_lane_outside_the_mask_gives_no_number() -> None:
    body = """setp.ge.u32 %q1, %lane, 16; @%q1 bra DONE;
        shfl.sync.down.b32 %o0, %i0, 8, 31, 0xffff;"""
    got = lanes(body, [NUMBERS])[0]
    assert got[:8].tolist() == NUMBERS[8:16].tolist()
    assert got[8:16].tolist() == [FULL] * 8


def test_a_shuffle_from_a_lane_that_does_not_exist_gives_no_number() -> None:
    got = lanes("shfl.sync.down.b32 %o0, %i0, 4, 31, -1;", [NUMBERS[:20]], threads=20)[0]
    assert got[:16].tolist() == NUMBERS[4:20].tolist()
    assert got[16:].tolist() == [FULL] * 4


@given(flags=words, members=words)
def test_votes_of_any_members(flags: int, members: int) -> None:
    body = """shr.u32 %r1, %i1, %lane; and.b32 %r1, %r1, 1; setp.eq.u32 %q1, %r1, 0; @%q1 bra DONE;
        shr.u32 %r1, %i0, %lane; and.b32 %r1, %r1, 1; setp.ne.u32 %q1, %r1, 0;
        vote.sync.ballot.b32 %o0, %q1, %i1;
        vote.sync.all.pred %q2, %q1, %i1; selp.u32 %o1, 1, 0, %q2;
        vote.sync.any.pred %q2, %q1, %i1; selp.u32 %o2, 1, 0, %q2;
        vote.sync.uni.pred %q2, %q1, %i1; selp.u32 %o3, 1, 0, %q2;
        vote.sync.any.pred %q2, !%q1, %i1; selp.u32 %o4, 1, 0, %q2;"""
    got = lanes(body, [flags, members], outputs=5)
    yes = flags & members
    expected = [yes, yes == members, yes != 0, yes in {0, members}, yes != members]
    for lane in LANES:
        here = members >> lane & 1
        assert got[:, lane].tolist() == [int(value) if here else 0 for value in expected]


def test_activemask_is_who_is_there() -> None:
    body = """setp.ge.u32 %q1, %lane, 12; @%q1 bra DONE; activemask.b32 %o0;"""
    assert lanes(body)[0].tolist() == [0xFFF] * 12 + [0] * 20
    assert lanes("activemask.b32 %o0;", threads=40)[0].tolist() == [FULL] * 32 + [0xFF] * 8


@given(values=st.lists(st.integers(0, 3), min_size=32, max_size=32), wide=st.booleans())
def test_match(values: list[int], wide: bool) -> None:
    kind, operand = ("b64", "%x1") if wide else ("b32", "%i0")
    body = f"""cvt.u64.u32 %x1, %i0; shl.b64 %x1, %x1, 32;
        match.any.sync.{kind} %o0, {operand}, -1;
        match.all.sync.{kind} %o1|%q1, {operand}, -1; selp.u32 %o2, 1, 0, %q1;"""
    got = lanes(body, [values], outputs=3)
    alike = len(set(values)) == 1
    for lane in LANES:
        same = sum(1 << other for other in LANES if values[other] == values[lane])
        assert got[:, lane].tolist() == [same, FULL if alike else 0, int(alike)]


@pytest.mark.parametrize("members", [FULL, 0x0F0F00FF])
@pytest.mark.parametrize(
    ("operation", "kind", "combine"),
    [
        ("add", "u32", operator.add),
        ("add", "s32", operator.add),
        ("min", "u32", min),
        ("max", "u32", max),
        ("min", "s32", min),
        ("max", "s32", max),
        ("and", "b32", operator.and_),
        ("or", "b32", operator.or_),
        ("xor", "b32", operator.xor),
    ],
)
def test_reductions(operation: str, kind: str, combine: Callable[[int, int], int], members: int) -> None:
    numbers = (NUMBERS | 0x7000) if operation == "and" else NUMBERS
    body = f"""shr.u32 %r1, %i1, %lane; and.b32 %r1, %r1, 1; setp.eq.u32 %q1, %r1, 0; @%q1 bra DONE;
        redux.sync.{operation}.{kind} %o0, %i0, %i1;"""
    got = lanes(body, [numbers, members])[0]
    typed = numbers.view(np.int32) if kind == "s32" else numbers
    chosen = [int(typed[lane]) for lane in LANES if members >> lane & 1]
    expected = reduce(combine, chosen) & FULL
    assert {int(got[lane]) for lane in LANES if members >> lane & 1} == {expected}


def test_halves_of_a_warp_may_form_two_groups() -> None:
    body = """setp.lt.u32 %q1, %lane, 16; selp.b32 %r1, 0xffff, 0xffff0000, %q1;
        redux.sync.add.u32 %o0, %lane, %r1;"""
    assert lanes(body)[0].tolist() == [sum(range(16))] * 16 + [sum(range(16, 32))] * 16


def test_lanes_of_two_branches_with_masks_of_their_own() -> None:
    body = """setp.lt.u32 %q1, %lane, 16; @%q1 bra LOW;
        redux.sync.max.u32 %o0, %lane, 0xffff0000; bra DONE;
        LOW: redux.sync.max.u32 %o0, %lane, 0xffff;"""
    assert lanes(body)[0].tolist() == [15] * 16 + [31] * 16


def test_a_branch_that_lies_behind_the_join_still_reconverges() -> None:
    body = """setp.lt.u32 %q1, %lane, 16; @%q1 bra COLD;
        JOIN: redux.sync.add.u32 %o0, %lane, -1; bra DONE;
        COLD: mov.u32 %r1, 5; bra JOIN;"""
    assert set(lanes(body)[0].tolist()) == {sum(LANES)}


def test_lanes_that_have_exited_are_not_waited_for() -> None:
    body = """setp.lt.u32 %q1, %lane, 30; @%q1 exit; vote.sync.ballot.b32 %o0, %q1, -1;
        add.u32 %o0, %o0, 7;"""
    assert lanes(body)[0].tolist() == [0] * 30 + [7] * 2


def test_lanes_that_are_about_to_exit_are_not_waited_for() -> None:
    body = """setp.lt.u32 %q1, %lane, 30; @%q1 bra OUT; vote.sync.ballot.b32 %o0, %q1, -1;
        add.u32 %o0, %o0, 7; bra DONE;
        OUT: ret;"""
    assert lanes(body)[0].tolist() == [0] * 30 + [7] * 2


def test_guarded_collectives_serve_the_lanes_that_run_them() -> None:
    body = "setp.lt.u32 %q1, %lane, 8; @%q1 redux.sync.add.u32 %o0, %lane, 0xff;"
    assert lanes(body)[0].tolist() == [28] * 8 + [0] * 24


DIVERGENT = {
    "half the warp, full mask": "setp.lt.u32 %q1, %lane, 16; @!%q1 bra DONE; shfl.sync.idx.b32 %o0, %lane, 0, 31, -1;",
    "a guard leaves lanes out": "setp.lt.u32 %q1, %lane, 16; @%q1 vote.sync.any.pred %q2, %q1, -1;",
    "outside its own mask": "redux.sync.add.u32 %o0, %lane, 0xffff;",
    "masks that differ": """setp.lt.u32 %q1, %lane, 16; selp.b32 %r1, -1, 0xffff0000, %q1;
        match.any.sync.b32 %o0, %lane, %r1;""",
    "a barrier of the warp": "setp.eq.u32 %q1, %lane, 3; @%q1 bra DONE; bar.warp.sync 0xffff;",
    "different instructions": """setp.lt.u32 %q1, %lane, 16; @%q1 bra L; bar.warp.sync -1; bra DONE;
        L: bar.warp.sync -1;""",
    "ldmatrix": "setp.eq.u32 %q1, %lane, 3; @%q1 bra DONE; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%o0}, [%smem];",
}


@pytest.mark.parametrize("body", DIVERGENT.values(), ids=DIVERGENT)
@pytest.mark.parametrize("order", ["lockstep", "warp_serial"])
def test_lanes_that_are_named_and_not_there(body: str, order: Any) -> None:
    with pytest.raises(KernelFaultError, match=r"lane \d+ of warp \d, thread .* of block") as caught:
        lanes(f"{body}\nmov.u32 %o0, 1;", threads=64, order=order)
    assert caught.value.kind == "divergent warp collective"


def test_a_warp_that_is_not_whole_cannot_multiply() -> None:
    with pytest.raises(KernelFaultError, match="does not exist"):
        lanes("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%o0}, [%smem];", threads=40)


@pytest.mark.parametrize(
    "line",
    [
        "shfl.up.b32 %o0, %i0, 1, 0;",
        "shfl.sync.up.b64 %o0, %i0, 1, 0, -1;",
        "vote.sync.all.b32 %o0, %q1, -1;",
        "match.any.sync.b16 %o0, %i0, -1;",
        "redux.sync.min.f32 %o0, %i0, -1;",
        "redux.sync.and.u32 %o0, %i0, -1;",
        "elect.sync %o0|%q1, -1;",
        "shfl.sync.up.b32 %o0, %i0, 1, 0;",
    ],
)
def test_other_forms_are_refused_by_name(line: str) -> None:
    with pytest.raises(UnsupportedPtxError, match=line.split(maxsplit=1)[0].replace(".", r"\.")):
        lanes(line, [0])


def test_syncwarp_orders_the_accesses_of_a_warp() -> None:
    swap = """shl.b32 %r1, %lane, 2; add.u32 %r1, %r1, %smem; xor.b32 %r2, %r1, 4;
        st.shared.u32 [%r1], %lane;
        {sync}
        ld.shared.u32 %o0, [%r2];"""
    got = lanes(swap.format(sync="bar.warp.sync -1;"), shared_bytes=128)[0]
    assert got.tolist() == [lane ^ 1 for lane in LANES]
    with pytest.raises(KernelFaultError, match=r"race.*Add __syncwarp\(\)"):
        lanes(swap.format(sync=""), shared_bytes=128)


def test_syncwarp_does_not_order_two_warps() -> None:
    body = """and.b32 %r2, %tid, 63; shl.b32 %r1, %r2, 2; add.u32 %r1, %r1, %smem; xor.b32 %r2, %r1, 128;
        st.shared.u32 [%r1], %tid; bar.warp.sync -1; ld.shared.u32 %o0, [%r2];"""
    with pytest.raises(KernelFaultError, match=r"race.*Add __syncthreads\(\)"):
        lanes(body, shared_bytes=256, threads=64)


@given(
    threads=st.integers(1, 70),
    seed=st.integers(0, 2**32 - 1),
)
def test_ballots_pack_lane_i_into_bit_i(threads: int, seed: int) -> None:
    flags = np.random.default_rng(seed).random((threads, 3)) < 0.5
    got = ballot(flags, threads)
    assert got.shape == (-(-threads // 32), 3)
    for column in range(3):
        for warp in range(len(got)):
            mine = flags[32 * warp : 32 * warp + 32, column]
            assert int(got[warp, column]) == sum(1 << i for i, flag in enumerate(mine) if flag)


def test_blocks_of_a_batch_may_diverge_from_each_other() -> None:
    body = """mov.u32 %r1, %ctaid.x; setp.eq.u32 %q1, %r1, 1; @%q1 bra DONE;
        add.u32 %r1, %r1, %lane; redux.sync.add.u32 %o0, %r1, -1;"""
    got = lanes(body, threads=64, blocks=3)[0].reshape(3, 64)
    assert [set(row.tolist()) for row in got] == [{496}, {0}, {496 + 64}]


def test_the_result_of_a_collective_in_a_loop() -> None:
    body = """mov.u32 %o0, 0; mov.u32 %r1, 0;
        LOOP: shfl.sync.bfly.b32 %r2, %lane, %r1, 31, -1; add.u32 %o0, %o0, %r2;
        add.u32 %r1, %r1, 1; setp.lt.u32 %q1, %r1, 32; @%q1 bra LOOP;"""
    assert set(lanes(body, threads=64)[0].tolist()) == {496}


def test_kernels_name_their_line() -> None:
    text = kernel("setp.eq.u32 %q1, %lane, 0; @%q1 vote.sync.any.pred %q2, %q1, -1;")
    with pytest.raises(KernelFaultError, match=r"PTX `vote\.sync\.any\.pred`"):
        run(text, [np.zeros(32, np.uint32), np.zeros(32, np.uint32)])


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
@given(values=st.lists(st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2**31, 2**63, 2**64 - 1]), min_size=1))
def test_the_leading_one_of_a_ballot(kind: str, values: list[int]) -> None:
    """``bfind``, which ``__ffs`` becomes together with ``brev``."""
    width = int(kind[1:])
    rows = [[value & 2**width - 1] for value in values]
    found = [(~signed(v, width) if kind[0] == "s" and v >> (width - 1) else v).bit_length() - 1 for (v,) in rows]
    assert compute(f"bfind.{kind} {{d}}, {{a}};", [kind], "u32", rows) == [f & FULL for f in found]
    shifts = [width - 1 - f if f >= 0 else FULL for f in found]
    assert compute(f"bfind.shiftamt.{kind} {{d}}, {{a}};", [kind], "u32", rows) == shifts
