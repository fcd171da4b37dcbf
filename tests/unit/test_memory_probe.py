"""What an H200 counted, launch by launch, against the rules of ladder.memory; bench/wavefront_probe made the record."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.wavefront_probe.case import Case
from bench.wavefront_probe.groups import GROUPS, dumped, record_of, recorded
from ladder.memory import LINE_BYTES, fetching_wavefronts_batch, reduction_wavefronts_batch, tag_bank, wavefronts
from ladder.memory.copies import copy_wavefronts_batch
from ladder.memory.pipe import BARRIER_WAVEFRONTS, COPY_GROUP_WAVEFRONTS, IDLE_WAVEFRONTS

Row = tuple[Case, dict[str, int]]

RECORD = recorded()
ROWS = [row for group in RECORD.values() for row in group]
ON_ONE_SM = [row for row in ROWS if row[0].grid == (1, 1, 1) and row[0].mnk is None]
WAITED_FOR_BY_MANY_WARPS = {
    "ld walk pitch 516 W32", "ld walk pitch 516 U8 W32", "ld walk pitch 132 W32", "ld walk pitch 1028 W32",
    "ld walk pitch 544 W32", "ld L32 W32 all the same",
}  # fmt: skip
"""32 warps ask for the same lines, which arrive before the last of them has asked."""
REPLAYED_STORES = {"st L8 W8", "st L32 W8", "st L32 W32 gap1000"}
UNDER_WAY_WITH_MISSES = {
    "copy16 lanes 1040B apart", "copy4 32 rows pitch 1028, to contiguous",
    "copy4 32 rows pitch 1028, to contiguous, hits",
}  # fmt: skip
"""Copies from more than four lines that miss."""
THREE_IDLE_LOADS = 3
"""ptxas puts so many before a kernel's copies for sm_90; see ladder.sass.pipe."""


def named(rows: list[Row]) -> list[object]:
    return [pytest.param(*row, id=row[0].name) for row in rows]


def loads(case: Case) -> bool:
    return case.kernel == "k_ld" or (case.kernel == "k_mix" and case.template[0] in {1, 2})


def mask(case: Case) -> NDArray[np.bool_]:
    return np.array([case.active >> lane & 1 for lane in range(32)], np.bool_)


def load_wavefronts(case: Case) -> int:
    """All warps in step: what one of them misses, the others miss too until the next round."""
    warps, width, total = case.global_warps, case.width_bytes, 0
    have = np.zeros((max(max(case.addresses(i, warps - 1)) for i in (0, case.n - 1)) >> 5) + 1, np.bool_)
    active = np.tile(mask(case), (warps * case.at_once, 1))
    for _, start in itertools.product(range(case.reps), range(0, case.n, case.at_once)):
        requests = range(start, start + case.at_once)
        at = np.array([case.addresses(i, warp) for warp in range(warps) for i in requests])
        total += int(fetching_wavefronts_batch(at, width, active=active, missing=active & ~have[at >> 5]).sum())
        have[at[active] >> 5] = True
    return total


@pytest.mark.parametrize(("case", "counted"), named([row for row in ON_ONE_SM if loads(row[0])]))
def test_loads_that_hit_and_miss(case: Case, counted: dict[str, int]) -> None:
    if case.name not in WAITED_FOR_BY_MANY_WARPS:
        assert load_wavefronts(case) - counted["global"] == (case.name == "ld miss w16 L32 pitch 144")
        return
    alone = case.record() | {"warps": 1}
    once = load_wavefronts(Case(**{**alone, "name": case.name}))
    hits = case.reps * case.n * (case.warps - 1) * wavefronts(case.addresses(0), case.width_bytes, space="global")
    assert once + hits <= counted["global"] < load_wavefronts(case)


def reduces(case: Case) -> bool:
    return case.kernel == "k_red" and not case.touch


@pytest.mark.parametrize(("case", "counted"), named([row for row in ON_ONE_SM if reduces(row[0])]))
def test_reductions(case: Case, counted: dict[str, int]) -> None:
    at = np.array([case.addresses(i, warp) for warp in range(case.warps) for i in range(case.n)])
    active = np.tile(mask(case), (len(at), 1))
    expected = case.reps * int(reduction_wavefronts_batch(at, active=active).sum())
    assert counted["global"] == (9 * case.n if case.name == "red 16 x 2 pitch 132" else expected)


def looked_up(case: Case) -> bool:
    return (case.kernel in {"k_ld", "k_st"} and not case.touch) or (case.kernel == "k_copy" and case.template[1] == 1)


@pytest.mark.parametrize(("case", "counted"), named([row for row in ON_ONE_SM if looked_up(row[0])]))
def test_lines_that_meet_in_a_tag_bank(case: Case, counted: dict[str, int]) -> None:
    conflicts = accesses = 0
    for warp, i in itertools.product(range(case.warps), range(case.n)):
        at = np.array(case.addresses(i, warp))[mask(case)]
        lines = {int(line) for line in at // LINE_BYTES}
        accesses += len(lines)
        banks = [tag_bank(line) for line in lines]
        conflicts += max(banks.count(bank) for bank in range(4)) - 1
    assert counted["set_accesses"] == case.reps * accesses
    if case.name in REPLAYED_STORES:
        assert counted["set_conflicts"] > case.reps * conflicts
    else:
        assert counted["set_conflicts"] == case.reps * conflicts


@pytest.mark.parametrize(("case", "counted"), named(RECORD["copies"]))
def test_copies(case: Case, counted: dict[str, int]) -> None:
    width, through_l1, at_once = case.template
    warps = case.warps * case.grid[0]
    everyone = np.ones((case.n, 32), np.bool_)
    sources, targets = (np.array([of(i) for i in range(case.n)]) for of in (case.addresses, case.targets))
    passes = (
        copy_wavefronts_batch(sources, targets, width, reading=everyone, writing=everyone).sum() if through_l1 else 0
    )
    groups = case.reps * case.n // at_once * warps
    idle = IDLE_WAVEFRONTS * (warps + THREE_IDLE_LOADS * groups)
    assert counted["misc"] == idle
    expected = int(passes) * case.reps * warps + idle + COPY_GROUP_WAVEFRONTS * groups
    if case.name in UNDER_WAY_WITH_MISSES:
        assert expected < counted["wavefronts"]
    else:
        assert expected == counted["wavefronts"]


@pytest.mark.parametrize(("case", "counted"), named([row for row in ROWS if row[0].mnk is None]))
def test_each_warp_reads_its_thread_index(case: Case, counted: dict[str, int]) -> None:
    if case.kernel == "k_copy":
        return
    blocks = case.grid[0] * case.grid[1] * case.grid[2]
    between = counted["shared"] - counted["shared_ld"] - counted["shared_st"]
    assert between == IDLE_WAVEFRONTS * case.warps * blocks


@pytest.mark.parametrize("t", [16, 32])
def test_a_tile_product_alone_on_its_sm_takes_what_is_counted(t: int) -> None:
    """Blocks side by side meet in the data pipe, which counts some wavefronts twice: see docs/agreement.md."""
    rows = {case.name: counted for case, counted in RECORD["tiles"]}
    blocks, warps = (512 // t) ** 3, {16: 8, 32: 32}[t]
    words = t * t // 32
    for name, barriers in (("one block an SM", 2), ("barrier before REDs, one block an SM", 3)):
        counted = rows[f"tile{t} {name}"]
        assert counted["shared_st"] == blocks * 2 * words
        assert counted["arbitration"] == 0
        moved = counted["shared_ld"] + counted["shared_st"] + blocks * 3 * words * (2 if t == 16 else 1)
        assert counted["wavefronts"] == moved + blocks * (IDLE_WAVEFRONTS * warps + BARRIER_WAVEFRONTS * barriers)
    assert rows[f"tile{t} as it is"]["arbitration"] > 0.01 * rows[f"tile{t} as it is"]["wavefronts"]


def test_the_record_is_what_the_probe_would_launch() -> None:
    for name, make in GROUPS.items():
        assert [case for case, _ in RECORD[name]] == make()
    rows = {name: [record_of(*row) for row in group] for name, group in RECORD.items()}
    assert '"ld miss L1"' in dumped("now", rows)
