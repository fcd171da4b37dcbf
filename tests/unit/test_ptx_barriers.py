"""Named barriers: who waits for whom, what they order, how they are misused; vector clocks against a naive model."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import pytest
from helpers.fast_ptx import lanes
from hypothesis import given
from hypothesis import strategies as st

from ladder.errors import KernelFaultError, UnsupportedPtxError
from ladder.ptx import Order
from ladder.ptx.clocks import Clocks
from ladder.ptx.site import Site

ORDERS: tuple[Order, ...] = ("lockstep", "warp_serial", "warp_serial_reversed")
in_any_order = pytest.mark.parametrize("order", ORDERS)

MINE = "shl.b32 %r1, %lane, 2; add.u32 %r1, %r1, %smem;"
"""%r1: the word of shared memory with the lane's number, the same one in every warp."""

PRODUCER = f"""{MINE} setp.lt.u32 %q1, %tid, 32; @%q1 bra PRODUCE;
    {{wait}} ld.shared.u32 %o0, [%r1]; bra DONE;
    PRODUCE: st.shared.u32 [%r1], %lane; {{arrive}}"""


@in_any_order
def test_a_consumer_waits_for_its_producer(order: Order) -> None:
    body = PRODUCER.format(wait="bar.sync 1, 64;", arrive="bar.arrive 1, 64;")
    got = lanes(body, threads=64, blocks=3, shared_bytes=128, order=order)[0]
    assert got.tolist() == ([0] * 32 + list(range(32))) * 3


@in_any_order
@pytest.mark.parametrize(
    "opcodes", [("barrier.sync", "barrier.arrive"), ("bar.cta.sync", "barrier.cta.arrive.aligned")]
)
def test_other_spellings_and_names_in_registers(opcodes: tuple[str, str], order: Order) -> None:
    names = "mov.u32 %r5, 9; mov.u32 %r6, 64; "
    body = names + PRODUCER.format(wait=f"{opcodes[0]} %r5, %r6;", arrive=f"{opcodes[1]} %r5, 64;")
    assert lanes(body, threads=64, shared_bytes=128, order=order)[0][32:].tolist() == list(range(32))


@in_any_order
def test_arriving_at_another_barrier_orders_nothing(order: Order) -> None:
    # Barrier 2 is never completed; barrier 1 is the consumer's own.
    body = PRODUCER.format(wait="bar.sync 1, 32;", arrive="bar.arrive 2, 64;")
    with pytest.raises(KernelFaultError) as caught:
        lanes(body, threads=64, shared_bytes=128, order=order)
    assert caught.value.kind == "race"


@in_any_order
def test_a_barrier_of_two_warps_orders_those_two(order: Order) -> None:
    """Warps 0 and 1 meet at barrier 1; warp 2 has a barrier for itself and reads what warp 0 wrote."""
    body = f"""{MINE} setp.ge.u32 %q1, %tid, 64; @%q1 bra ALONE;
        setp.ge.u32 %q1, %tid, 32; @!%q1 st.shared.u32 [%r1], %lane;
        bar.sync 1, 64; ld.shared.u32 %o0, [%r1]; bra DONE;
        ALONE: bar.sync 2, 32; {{read}}"""
    got = lanes(body.format(read=""), threads=96, shared_bytes=128, order=order)[0]
    assert got.tolist() == list(range(32)) * 2 + [0] * 32
    with pytest.raises(KernelFaultError, match=r"race|uninitialised"):
        lanes(body.format(read="ld.shared.u32 %o0, [%r1];"), threads=96, shared_bytes=128, order=order)


@in_any_order
def test_order_is_passed_on_from_barrier_to_barrier(order: Order) -> None:
    """Warp 0 -> warp 1 by barrier 1, warp 1 -> warp 2 by barrier 2: so warp 2 may read what warp 0 wrote."""
    body = f"""{MINE} setp.lt.u32 %q1, %tid, 32; @%q1 bra FIRST; setp.ge.u32 %q1, %tid, 64; @%q1 bra LAST;
        bar.sync 1, 64; bar.arrive 2, 64; bra DONE;
        FIRST: st.shared.u32 [%r1], %lane; bar.arrive 1, 64; bra DONE;
        LAST: bar.sync 2, 64; ld.shared.u32 %o0, [%r1];"""
    assert lanes(body, threads=96, shared_bytes=128, order=order)[0][64:].tolist() == list(range(32))


@in_any_order
def test_who_arrives_learns_nothing(order: Order) -> None:
    """``bar.arrive`` lets the others go; it does not show the arriving warp what they wrote."""
    body = f"""{MINE} setp.lt.u32 %q1, %tid, 32; @%q1 bra ARRIVE;
        st.shared.u32 [%r1], %lane; bar.sync 1, 64; bra DONE;
        ARRIVE: bar.arrive 1, 64; ld.shared.u32 %o0, [%r1];"""
    with pytest.raises(KernelFaultError, match=r"race|uninitialised"):
        lanes(body, threads=64, shared_bytes=128, order=order)


@in_any_order
def test_a_barrier_is_ready_again_once_it_is_over(order: Order) -> None:
    body = f"""{MINE} mov.u32 %r9, 0; setp.lt.u32 %q1, %tid, 32; mov.u32 %o0, 0;
        LOOP: add.u32 %r2, %r9, %lane; @%q1 st.shared.u32 [%r1], %r2;
        bar.sync 3, 64; @!%q1 ld.shared.u32 %r3, [%r1]; @!%q1 add.u32 %o0, %o0, %r3; bar.sync 3, 64;
        add.u32 %r9, %r9, 1; setp.lt.u32 %q2, %r9, 5; @%q2 bra LOOP;"""
    got = lanes(body, threads=64, shared_bytes=128, order=order)[0]
    assert got[32:].tolist() == [5 * lane + 10 for lane in range(32)]


@in_any_order
def test_warps_that_have_exited_do_not_count_for_a_barrier_of_all(order: Order) -> None:
    body = f"""{MINE} setp.ge.u32 %q1, %tid, 64; @%q1 exit;
        setp.lt.u32 %q1, %tid, 32; @%q1 st.shared.u32 [%r1], %lane; bar.sync 4; ld.shared.u32 %o0, [%r1];"""
    got = lanes(body, threads=96, shared_bytes=128, order=order)[0]
    assert got.tolist() == list(range(32)) * 2 + [0] * 32


@in_any_order
def test_what_an_exited_warp_wrote_is_ordered_by_a_barrier_of_all(order: Order) -> None:
    body = f"""{MINE} setp.lt.u32 %q1, %tid, 32; @%q1 bra WRITE; bar.sync 4; ld.shared.u32 %o0, [%r1]; bra DONE;
        WRITE: st.shared.u32 [%r1], %lane; exit;"""
    assert lanes(body, threads=64, shared_bytes=128, order=order)[0][32:].tolist() == list(range(32))


@in_any_order
@pytest.mark.parametrize("threads", [32, 64, 40])
def test_reductions_over_a_barrier(threads: int, order: Order) -> None:
    body = """setp.lt.u32 %q1, %i0, 5;
        bar.red.popc.u32 %o0, 0, %q1;
        bar.red.and.pred %q2, 0, %q1; selp.u32 %o1, 1, 0, %q2;
        barrier.cta.red.or.aligned.pred %q3, 0, !%q1; selp.u32 %o2, 1, 0, %q3;"""
    values = np.concatenate([np.arange(threads), np.zeros(threads), np.full(threads, 9)])
    got = lanes(body, [values], outputs=3, threads=threads, blocks=3, order=order).reshape(3, 3, threads)
    assert got[:, 0].T.tolist() == [[5, 0, 1]] * threads
    assert got[:, 1].T.tolist() == [[threads, 1, 0]] * threads
    assert got[:, 2].T.tolist() == [[0, 0, 1]] * threads


def test_the_result_of_a_reduction_does_not_leak_into_a_jump_past_it() -> None:
    body = """mov.u32 %o0, 77; setp.lt.u32 %q2, %n, 32; setp.ge.u32 %q1, %n, 0; @%q2 bra AFTER;
        bar.red.popc.u32 %o0, 0, %q1;
        AFTER: add.u32 %o0, %o0, 1;"""
    assert lanes(body, blocks=2)[0].tolist() == [78] * 32 + [33] * 32


MISUSE = {
    "invalid barrier": [
        ("bar.sync 16, 64;", "names barrier 16"),
        ("mov.u32 %r1, %lane; bar.sync %r1, 64;", "disagrees"),
        ("bar.sync 1, 48;", "waits for 48 threads; give a multiple of 32"),
        ("mov.u32 %r1, 0; bar.sync 1, %r1;", "waits for 0 threads"),
        ("bar.sync 1, 32;", "more arrivals"),
        ("bar.arrive 1, 96; bar.arrive 1, 96;", "again before it is over"),
        ("shr.u32 %r1, %tid, 5; mad.lo.u32 %r1, %r1, 32, 64; bar.sync 1, %r1;", "disagree about the thread count"),
    ],
    "divergent barrier": [
        ("bar.sync 1, 96;", "barrier 1, with 64 of 96 threads, and nobody else will come"),
        ("setp.lt.u32 %q1, %tid, 32; @%q1 bra L; bar.sync 1; bra DONE; L: bar.sync 2;", "32 of all threads; thread"),
        ("setp.lt.u32 %q1, %lane, 16; @%q1 bra L; bar.sync 1, 64; bra DONE; L: add.u32 %o0, %o0, 1; bar.sync 2, 64;",
         "some of its lanes"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "body", "message"), [(kind, body, message) for kind, rows in MISUSE.items() for body, message in rows]
)
def test_misuse(kind: str, body: str, message: str) -> None:
    with pytest.raises(KernelFaultError, match=message) as caught:
        lanes(body, threads=64)
    assert caught.value.kind == kind
    assert "thread (" in str(caught.value)


@pytest.mark.parametrize(
    "line",
    [
        "@%q1 bar.sync 1, 64;",
        "bar.arrive 1;",
        "bar.red.xor.pred %q1, 1, %q2;",
        "barrier.cluster.arrive;",
        "bar.sync 1, 64, 3;",
    ],
)
def test_other_forms_are_refused_by_name(line: str) -> None:
    with pytest.raises(UnsupportedPtxError, match=r"PTX `bar"):
        lanes(line, threads=64)


# Clocks against a model that keeps, for every thread, the accesses that it can tell are over. ------------------------

THREADS, GRANULES = 96, 3


class _RaceFoundError(Exception):
    pass


def _raise(*found: Any) -> NoReturn:
    raise _RaceFoundError(found)


def _site(kind: str) -> Site:
    return Site(0, kind, kind, "shared", np.dtype(np.uint32), 1, 0, "here")


SITES = {kind: _site(kind) for kind in ("ld", "st", "red")}

accesses = st.tuples(
    st.sampled_from(["ld", "st", "red"]),
    st.lists(st.integers(0, THREADS - 1), min_size=1, max_size=3, unique=True),
    st.integers(0, GRANULES - 1),
)
warps = st.lists(st.integers(0, 2), min_size=1, max_size=3, unique=True)
events = st.lists(
    st.one_of(
        accesses,
        st.tuples(st.just("syncwarp"), warps),
        st.tuples(st.just("barrier"), warps, st.lists(st.booleans(), min_size=3, max_size=3)),
        st.tuples(st.just("syncthreads")),
    ),
    min_size=2,
    max_size=14,
)


class _Naive:
    def __init__(self) -> None:
        self.done: list[tuple[str, int, int]] = []
        self.over: list[set[int]] = [set() for _ in range(THREADS)]

    def access(self, kind: str, threads: list[int], granule: int) -> bool:
        """Whether one of the accesses races with an earlier one, or two with each other."""
        races = kind == "st" and len(threads) > 1
        for thread in threads:
            for number, (other_kind, other, other_granule) in enumerate(self.done):
                quiet = {kind, other_kind} in ({"ld"}, {"red"})
                if other_granule == granule and other != thread and not quiet and number not in self.over[thread]:
                    races = True
        for thread in threads:
            self.over[thread].add(len(self.done))
            self.done.append((kind, thread, granule))
        return races

    def tell(self, givers: list[int], takers: list[int]) -> None:
        known = set().union(*(self.over[t] for w in givers for t in range(32 * w, 32 * w + 32)))
        for warp in takers:
            for thread in range(32 * warp, 32 * warp + 32):
                self.over[thread] |= known


def _mask(threads: list[int]) -> np.ndarray:
    mask = np.zeros((THREADS, 1), np.bool_)
    mask[threads] = True
    return mask


def _agree(trace: list[tuple[Any, ...]], *, wide: bool) -> None:
    blocks = 2
    clocks, naive = Clocks(GRANULES, 4, THREADS, blocks, _raise), _Naive()
    # The second block repeats the first, or does nothing.
    columns = np.array([[True, not wide]])
    for kind, *rest in trace:
        if kind == "syncwarp":
            clocks.sync_warps(_mask([32 * w for w in rest[0]]) & columns)
            for warp in rest[0]:
                naive.tell([warp], [warp])
        elif kind == "syncthreads":
            clocks.barrier(columns[0])
            naive.tell([0, 1, 2], [0, 1, 2])
        elif kind == "barrier":
            came = np.zeros((3, blocks), np.bool_)
            came[rest[0]] = columns
            waits = np.zeros((3, blocks), np.bool_)
            takers = [w for w, waiting in zip(rest[0], rest[1], strict=False) if waiting]
            waits[takers] = columns
            clocks.join(waits, clocks.depart(came))
            for warp in rest[0]:
                # A warp comes to a barrier as a whole: its lanes are in step from there on.
                naive.tell([warp], [warp])
            naive.tell(rest[0], takers)
        else:
            threads, granule = rest
            races = naive.access(kind, threads, granule)
            mask = _mask(threads) & columns if wide else _mask(threads)
            try:
                clocks.note(SITES[kind], np.full((1, 1), 4 * granule), mask)
            except _RaceFoundError:
                assert races
                return
            assert not races


@given(trace=events)
def test_clocks_agree_with_the_naive_model(trace: list[tuple[Any, ...]]) -> None:
    _agree(trace, wide=False)


@given(trace=events)
def test_clocks_agree_where_blocks_differ(trace: list[tuple[Any, ...]]) -> None:
    _agree(trace, wide=True)


def test_a_race_of_two_warps_is_told_before_one_within_a_warp() -> None:
    clocks = Clocks(1, 4, 64, 1, _raise)
    mask = np.zeros((64, 1), np.bool_)
    for threads in ([40], [5]):
        clocks.note(SITES["ld"], np.zeros((1, 1), np.int64), mask | np.isin(np.arange(64), threads)[:, None])
    with pytest.raises(_RaceFoundError) as caught:
        clocks.note(SITES["st"], np.zeros((1, 1), np.int64), mask | (np.arange(64) == 7)[:, None])
    first, lane, second, other, granule, column = caught.value.args[0]
    assert (first.kind, lane, second.kind, other, granule, column) == ("ld", 40, "st", 7, 0, 0)
