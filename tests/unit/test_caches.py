"""The cache model: least recently used against a dictionary, and what its assumptions imply."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ladder.memory.caches import CacheModel, Touched, UnitLru

NOTHING = Touched(np.zeros(0, np.int64), np.zeros(0, np.int64))


def touched(*sectors_of_block):
    pairs = [(b, s) for b, sectors in enumerate(sectors_of_block) for s in sectors]
    return Touched(*(np.array(part, np.int64) for part in zip(*pairs, strict=True))) if pairs else NOTHING


def model(sectors=1000, *, sm_count=2, l1_bytes=0, l2_bytes=32 * 1000, in_step=2):
    return CacheModel(sectors, sm_count=sm_count, l1_bytes=l1_bytes, l2_bytes=l2_bytes, in_step=in_step)


class PlainLru:
    """Sets of sectors by the unit of their last use, dropped as soon as what came later exceeds the capacity."""

    def __init__(self, capacity):
        self.capacity = capacity
        self.units = []

    def touch(self, sectors):
        for u, held in enumerate(self.units):
            if sum(len(later) for later in self.units[u + 1 :]) + len(sectors) > self.capacity:
                held.clear()
        hits = [any(sector in held for held in self.units) for sector in sectors]
        for held in self.units:
            held.difference_update(sectors)
        self.units.append(set(sectors))
        return hits


@given(st.lists(st.sets(st.integers(0, 15), min_size=1, max_size=8), min_size=1, max_size=12), st.integers(1, 24))
def test_one_cache_equals_a_plain_list_of_sets(units, capacity):
    fast, plain = UnitLru(1, 16, capacity), PlainLru(capacity)
    for unit in units:
        sectors = np.array(sorted(unit), np.int64)
        fast.advance()
        assert fast.touch(np.zeros_like(sectors), sectors).tolist() == plain.touch(sorted(unit))


@given(st.lists(st.sets(st.integers(0, 31), max_size=8), min_size=1, max_size=10), st.integers(1, 40))
def test_caches_side_by_side_do_not_touch_each_other(units, capacity):
    both, alone = UnitLru(2, 32, capacity), [UnitLru(1, 32, capacity) for _ in range(2)]
    for unit in units:
        sets = [np.array(sorted(s for s in unit if s % 2 == side), np.int64) for side in (0, 1)]
        both.advance()
        sectors = np.concatenate(sets)
        cache = np.repeat([0, 1], [len(s) for s in sets])
        hit = both.touch(cache, sectors)
        for side in (0, 1):
            alone[side].advance()
            expected = alone[side].touch(np.zeros_like(sets[side]), sets[side])
            np.testing.assert_array_equal(hit[cache == side], expected)


@given(st.integers(1, 12), st.integers(1, 12), st.integers(2, 6))
def test_a_working_set_hits_from_its_second_use_exactly_when_it_fits(size, capacity, rounds):
    cache = UnitLru(1, 16, capacity)
    sectors = np.arange(size)
    for n in range(rounds):
        cache.advance()
        hit = cache.touch(np.zeros_like(sectors), sectors)
        assert hit.all() == (n > 0 and size <= capacity)
        assert hit.any() == hit.all()


def test_a_dirty_sector_leaves_once_and_only_when_pushed_out():
    cache = UnitLru(1, 100, 10)
    for sectors, written in ((range(5), True), (range(5), False), (range(20, 28), False), (range(40, 48), False)):
        numbers = np.array(sectors, np.int64)
        cache.advance()
        cache.touch(np.zeros_like(numbers), numbers, written=np.full(len(numbers), written))
    assert cache.written_back == 5


def test_weighted_objects_fill_a_cache_by_their_weight():
    cache = UnitLru(1, 3, 10, weights=np.array([6, 6, 3]))
    one, other, small = (np.array([i], np.int64) for i in range(3))
    zero = np.zeros(1, np.int64)
    found = []
    for unit in (one, small, one, other, one):
        cache.advance()
        found.append(bool(cache.touch(zero, unit)[0]))
    # 6 + 3 fit, a second 6 pushes the first out.
    assert found == [False, False, True, False, False]


def test_l1_serves_the_second_block_of_an_sm_and_not_its_neighbours():
    caches = model(sm_count=2, l1_bytes=32 * 100)
    first_wave = touched(range(10), range(10))
    caches.blocks(np.array([0, 1]), reads=first_wave, updates=NOTHING, writes=NOTHING)
    assert caches.l2_read_sectors == 20, "two SMs fetch the same sectors each for itself"
    caches.blocks(np.array([2, 3]), reads=first_wave, updates=NOTHING, writes=NOTHING)
    assert caches.l2_read_sectors == 20, "the second wave finds them"


def test_without_an_l1_every_block_fetches_from_l2():
    caches = model(l1_bytes=0)
    for wave in range(3):
        caches.blocks(np.array([2 * wave, 2 * wave + 1]), reads=touched([1], [1]), updates=NOTHING, writes=NOTHING)
    caches.end_launch()
    assert caches.l2_read_sectors == 6
    assert caches.dram_read_sectors == 1


@pytest.mark.parametrize(("in_step", "fetched"), [(2, 4 * 8), (4, 2 * 8), (8, 8)])
def test_blocks_in_step_share_what_does_not_fit_l2(in_step, fetched):
    """Eight sectors, read by every block, in an L2 of four: each group of blocks in step fetches them once."""
    caches = model(sm_count=2, l2_bytes=4 * 32, in_step=in_step)
    for wave in range(4):
        pair = np.array([2 * wave, 2 * wave + 1])
        caches.blocks(pair, reads=touched(range(8), range(8)), updates=NOTHING, writes=NOTHING)
    caches.end_launch()
    assert caches.dram_read_sectors == fetched


def test_reductions_fetch_and_dirty_their_sectors_while_stores_only_dirty():
    caches = model(l2_bytes=4 * 32)
    caches.blocks(np.array([0]), reads=NOTHING, updates=touched(range(3)), writes=NOTHING)
    caches.end_launch()
    assert (caches.dram_read_sectors, caches.dram_write_sectors) == (3, 0)
    caches.blocks(np.array([0]), reads=NOTHING, updates=NOTHING, writes=touched(range(10, 15)))
    caches.end_launch()
    assert (caches.dram_read_sectors, caches.dram_write_sectors) == (3, 3)


def test_the_same_launch_gives_the_same_counts():
    def run():
        caches = model(sm_count=5, l1_bytes=32 * 40)
        random = np.random.default_rng(1)
        for wave in range(6):
            sets = [sorted(random.choice(200, 12, replace=False)) for _ in range(5)]
            caches.blocks(5 * wave + np.arange(5), reads=touched(*sets), updates=NOTHING, writes=NOTHING)
        caches.end_launch()
        return caches.l2_read_sectors, caches.dram_read_sectors

    assert run() == run()
