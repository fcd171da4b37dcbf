"""The checker fails when it should: it finds each broken kernel, says what is wrong, and shrinks to a small product."""

from __future__ import annotations

import re

import pytest
from helpers.kernels import MUTANTS, emulator, mutant

from ladder.check import prove, search
from ladder.model import Shape
from ladder.ptx import Order

STEP_LIMIT = 100_000

# Mutant: what the search says of it, and the smallest failing shape.
EXPECTED = {
    "accumulates_into_c": ("not finite|never written|uninitialised", (1, 1, 0)),
    "atomic_on_poison": ("not finite|never written|uninitialised", (1, 1, 0)),
    "b_transposed": ("integers must match exactly", (1, 2, 2)),
    "divergent_barrier": (r"divergent_barrier\.cu:\d+: divergent barrier", (1, 1, 1)),
    "endless": (r"endless\.cu:\d+: endless loop", (1, 1, 1)),
    "first_barrier_missing": (r"first_barrier_missing\.cu:\d+: race: [AB]s", (1, 1, 1)),
    "guarded_by_zero": (r"\(specials\): .*got nan", (1, 1, 1)),
    "last_k_missing": ("integers must match exactly", (1, 1, 1)),
    "last_rows_unwritten": (r"C\[row 0, column 0\].*never written", (1, 1, 0)),
    "load_unguarded": (r"load_unguarded\.cu:\d+: out of bounds: .* A ", (1, 1, 1)),
    "m_and_n_swapped": (r"m_and_n_swapped\.cu:\d+: out of bounds", (1, 2, 1)),
    "misaligned_vector": (r"misaligned_vector\.cu:\d+: misaligned: 16-byte", (1, 5, 2)),
    "nan_writer": (r"got nan, expected -?\d+, .*not finite", (1, 1, 8)),
    "operands_cut": (r"\(normal\): C\[row 0, column 0\].*error over gamma_K", (1, 1, 1)),
    "second_barrier_missing": (r"second_barrier_missing\.cu:\d+: race: [AB]s", (1, 1, 9)),
    "shared_uninitialised": (r"shared_uninitialised\.cu:\d+: uninitialised", (1, 1, 1)),
    "store_unguarded": (r"store_unguarded\.cu:\d+: out of bounds: .* C ", (1, 1, 0)),
    "tile_inconsistent": (r"C\[row 8, column 0\].*never written", (9, 1, 0)),
    "unsigned_wrap": (r"unsigned_wrap\.cu:\d+: out of bounds", (1, 1, 0)),
    "writes_input": (r"input A was overwritten", (1, 1, 1)),
}
# One warp at a time, a barrier that fails shows as words that nobody has written yet.
EXPECTED_IN_SERIAL = {
    "divergent_barrier": "divergent barrier|uninitialised",
    "first_barrier_missing": "race|uninitialised",
}
WHOLE_TILES_ONLY = ("m_and_n_swapped", "last_rows_unwritten", "misaligned_vector", "load_unguarded", "unsigned_wrap")
HIDDEN_FROM_FINITE_DATA = {"guarded_by_zero"}


def test_every_mutant_is_expected() -> None:
    assert {path.stem for path in MUTANTS.glob("*.cu")} == {*EXPECTED, "right"}
    for name in EXPECTED:
        assert (MUTANTS / f"{name}.cu").read_text().count("// BUG") == 1


def test_the_kernel_without_a_bug_passes() -> None:
    assert search(emulator(), mutant("right")) is None
    assert prove(emulator(), mutant("right"), Shape(m=35, n=79, k=19)).passed


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("order", ["lockstep", "warp_serial"])
def test_search_finds_and_shrinks_every_mutant(name: str, order: Order) -> None:
    message, (m, n, k) = EXPECTED[name]
    if order == "warp_serial":
        message = EXPECTED_IN_SERIAL.get(name, message)
    found = search(emulator(order=order, step_limit=STEP_LIMIT), mutant(name))
    assert found is not None
    assert re.search(message, str(found)), found
    assert found.smallest
    assert found.shape == Shape(m=m, n=n, k=k)
    assert found.case.offsets == (0, 0, 0)


@pytest.mark.parametrize("name", EXPECTED)
def test_prove_refuses_every_mutant_at_a_ragged_shape(name: str) -> None:
    shape = Shape(m=35, n=79, k=5 if name == "unsigned_wrap" else 19)
    check = prove(emulator(step_limit=STEP_LIMIT), mutant(name), shape)
    assert check.passed is (name in HIDDEN_FROM_FINITE_DATA)
    assert check.crc32 is None or check.passed
    assert check.exact_integers is (name in HIDDEN_FROM_FINITE_DATA | {"operands_cut"})


@pytest.mark.parametrize("name", WHOLE_TILES_ONLY)
def test_square_products_of_whole_tiles_hide_mutants(name: str) -> None:
    assert prove(emulator(), mutant(name), Shape(m=64, n=64, k=64)).passed
