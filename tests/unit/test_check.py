"""The checker finds every bug that a backend can show, and says which. No compiler is needed: the backend is a fake."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers import fake_backend as fake
from helpers.fake_backend import TILE, FakeBackend, chain, fake_kernel

from ladder.check import Case, Counterexample, inputs, prove, search
from ladder.check._prove import attempt
from ladder.errors import InputError, ShapeError, UnsupportedPtxError
from ladder.model import Shape

RAGGED = Shape(m=35, n=79, k=19)


def test_a_right_rung_is_proved() -> None:
    backend = FakeBackend()
    check = prove(backend, fake_kernel(), RAGGED)
    assert check.passed
    assert check.exact_integers
    assert check.failure is None
    assert check.worst_error_over_bound is not None
    assert 0 < check.worst_error_over_bound < 1
    expected = chain(*inputs(RAGGED))
    assert check.crc32 == zlib.crc32(expected.astype("<f4").tobytes())
    assert len(backend.runs) == 3


@pytest.mark.parametrize("repeats", [True, False])
def test_unordered_rungs_have_no_crc_and_are_repeated_if_they_promise_their_bits(repeats: bool) -> None:
    backend = FakeBackend()
    check = prove(backend, fake_kernel(ordered=False, repeats=repeats), RAGGED)
    assert check.passed
    assert check.crc32 is None
    assert len(backend.runs) == (3 if repeats else 2)


def test_the_repeat_can_be_left_out() -> None:
    backend = FakeBackend()
    assert prove(backend, fake_kernel(), RAGGED, repeat=False).crc32 is not None
    assert len(backend.runs) == 2


@pytest.mark.parametrize("sides", [(5, 7, 0), (0, 7, 5), (5, 0, 7), (0, 0, 0), (1, 1, 1)])
def test_degenerate_products_are_proved(sides: tuple[int, int, int]) -> None:
    m, n, k = sides
    check = prove(FakeBackend(), fake_kernel(), Shape(m=m, n=n, k=k))
    assert check.passed
    assert check.crc32 == zlib.crc32(bytes(4 * m * n) if k == 0 else chain(*inputs(Shape(m=m, n=n, k=k))).tobytes())


FAILURES = [
    (fake.nan_in_last_element, r"\(integers\): C\[row 34, column 78\]: got nan, expected -?\d+, bound 0: not finite"),
    (fake.m_and_n_swapped, r"\(integers\): C\[row 0, column \d+\]: .* integers must match exactly"),
    (fake.last_row_unwritten, r"C\[row 34, column 0\]: got nan, .* never written \(79 of 2765 elements wrong\)"),
    (fake.last_k_missing, "integers must match exactly"),
    (fake.b_transposed, "integers must match exactly"),
    (fake.writes_outside_c, r"\(integers\): wrote 3 elements past the end of C$"),
    (fake.stale, r"\(normal\): C\[row 0, column 0\]: .* error over"),
    (fake.faults, r"\(integers\): fake.cu:12: race: thread 3 reads what thread 5 writes$"),
    (fake.launch_refused, r"\(integers\): too many blocks"),
    (fake.low_precision, r"\(normal\): C\[row \d+, column \d+\]: got .*, bound \d\S*e-\d\d: error over"),
    (fake.beyond_one_tile, r"C\[row 16, column 16\]"),
]


@pytest.mark.parametrize(("bug", "message"), FAILURES, ids=[bug.__name__ for bug, _ in FAILURES])
def test_a_wrong_rung_is_not_proved(bug: Callable[..., object], message: str) -> None:
    check = prove(FakeBackend(bug), fake_kernel(), RAGGED)
    assert not check.passed
    assert check.failure is not None
    assert re.search(message, check.failure), check.failure
    assert "\n" not in check.failure
    assert check.failure.startswith("35x79x19 (")
    assert check.exact_integers is ("(normal" in check.failure)
    assert check.crc32 is None


@pytest.mark.parametrize("ordered", [True, False])
def test_bits_that_change_between_runs_fail_a_rung_that_promises_them(ordered: bool) -> None:
    class LastBit(FakeBackend):
        def run(self, kernel, a, b, **options):
            outcome = super().run(kernel, a, b, **options)
            if len(self.runs) == 3:
                outcome.c[4, 2] = np.nextafter(outcome.c[4, 2], np.float32(np.inf))
            return outcome

    check = prove(LastBit(), fake_kernel(ordered=ordered), RAGGED)
    assert not check.passed
    assert check.failure is not None
    assert "C[row 4, column 2]" in check.failure
    assert "1 of 2765 elements differ" in check.failure


def test_a_fault_of_the_second_run_only_fails_too() -> None:
    class SecondRunBreaks(FakeBackend):
        def run(self, kernel, a, b, **options):
            self.bug = fake.faults if len(self.runs) == 2 else None
            return super().run(kernel, a, b, **options)

    check = prove(SecondRunBreaks(), fake_kernel(), RAGGED)
    assert check.failure is not None
    assert "(normal, second run): fake.cu:12: race" in check.failure


def test_a_nan_on_normal_data_leaves_a_check_that_json_can_hold() -> None:
    class NanOnNormalData(FakeBackend):
        def run(self, kernel, a, b, **options):
            self.bug = fake.nan_in_last_element if len(self.runs) == 1 else None
            return super().run(kernel, a, b, **options)

    check = prove(NanOnNormalData(), fake_kernel(), RAGGED)
    assert not check.passed
    assert check.exact_integers
    assert check.worst_error_over_bound is None
    assert "got nan" in str(check.failure)


def test_damage_and_wrong_values_are_both_told() -> None:
    def both(backend: FakeBackend, a, b, offsets):
        c = chain(a, b)
        c[0, 0] += 1
        return fake.Outcome(c=c, damage="overwrote A")

    failure = attempt(FakeBackend(both), fake_kernel(), RAGGED, kind="integers").failure
    assert failure is not None
    assert failure.startswith("overwrote A; C[row 0, column 0]")


def test_a_stated_unit_roundoff_widens_the_bound_but_not_the_integers() -> None:
    kernel = fake_kernel(unit_roundoff=2.0**-10, ordered=False)
    assert prove(FakeBackend(fake.low_precision), kernel, RAGGED).passed
    assert attempt(FakeBackend(fake.low_precision), kernel, RAGGED, kind="identity").failure is None
    assert attempt(FakeBackend(fake.low_precision), fake_kernel(), RAGGED, kind="identity").failure is not None
    assert not prove(FakeBackend(fake.last_k_missing), kernel, RAGGED).passed


def test_unsupported_shapes_are_the_callers_error() -> None:
    with pytest.raises(ShapeError, match="N % 4 == 0"):
        prove(FakeBackend(), fake_kernel(multiple=(1, 4, 1)), RAGGED)


def test_search_passes_a_right_rung_and_tries_what_matters() -> None:
    backend, seen = FakeBackend(), []
    found = search(backend, fake_kernel(), progress=lambda tried, case: seen.append((tried, case)))
    assert found is None
    tried = {(s.m, s.n, s.k) for s, _ in backend.runs}
    assert {
        (35, 79, 19), (3, 3, 431), (33, 32, 32), (1, 1, 1), (64, 64, 1), (100, 100, 100), (17, 300, 5),
        (TILE, TILE, 8), (TILE + 1, TILE - 1, 9), (5, 7, 0), (0, 7, 5), (5, 0, 7),
    } <= tried  # fmt: skip
    assert len({offsets for _, offsets in backend.runs}) > 3
    assert [number for number, _ in seen] == list(range(1, len(backend.runs) + 1))
    assert len(backend.runs) > 60
    drawn = {(s.m, s.n, s.k) for s, _ in backend.runs}
    assert any(max(shape) > 250 and min(shape) <= 2 for shape in drawn)


SMALLEST = [
    (fake.nan_in_last_element, (1, 1, 8), "not finite"),
    (fake.m_and_n_swapped, (1, 2, 1), "match exactly"),
    (fake.last_row_unwritten, (2, 1, 0), "never written"),
    (fake.last_k_missing, (1, 1, 1), "match exactly"),
    (fake.b_transposed, (1, 2, 2), "match exactly"),
    (fake.writes_outside_c, (1, 0, 0), "past the end of C"),
    (fake.faults, (0, 0, 9), "fake.cu:12: race"),
    (fake.launch_refused, (0, 3, 0), "too many blocks"),
    (fake.misaligned, (0, 1, 1), "misaligned"),
    (fake.low_precision, (1, 1, 1), "error over"),
    (fake.beyond_one_tile, (TILE + 1, TILE + 1, 0), "match exactly"),
    (fake.square_only_wrong, (1, 1, 0), "match exactly"),
]


@pytest.mark.parametrize(("bug", "shape", "message"), SMALLEST, ids=[bug.__name__ for bug, _, _ in SMALLEST])
def test_search_shrinks_to_the_smallest_failing_shape(
    bug: Callable[..., object], shape: tuple[int, int, int], message: str
) -> None:
    found = search(FakeBackend(bug), fake_kernel())
    assert found is not None
    assert found.smallest
    assert (found.shape.m, found.shape.n, found.shape.k) == shape
    assert message in found.failure
    assert str(found).startswith(f"smallest failing shape {found.shape} (")
    again = attempt(FakeBackend(bug), fake_kernel(), found.shape, kind=found.case.kind, offsets=found.case.offsets)
    assert again.failure == found.failure


def test_offsets_and_kinds_are_kept_only_when_they_matter() -> None:
    needs_offset = search(FakeBackend(fake.misaligned), fake_kernel())
    assert needs_offset is not None
    assert needs_offset.case.offsets[0] == needs_offset.case.offsets[2] == 0
    assert needs_offset.case.offsets[1] % 4
    assert ", B + " in str(needs_offset)
    needs_floats = search(FakeBackend(fake.low_precision), fake_kernel())
    assert needs_floats is not None
    assert needs_floats.case.kind == "normal"
    assert needs_floats.case.offsets == (0, 0, 0)


def test_given_shapes_are_tried_first() -> None:
    backend = FakeBackend()
    given = Shape(m=2, n=3, k=50)
    assert search(backend, fake_kernel(), shapes=[given], max_examples=1) is None
    assert backend.runs[0][0] == given
    found = search(FakeBackend(fake.beyond_one_tile), fake_kernel(), shapes=[Shape(m=50, n=40, k=3)])
    assert found is not None
    assert (found.shape.m, found.shape.n) == (TILE + 1, TILE + 1)


def test_shapes_and_offsets_respect_multiples() -> None:
    backend = FakeBackend()
    kernel = fake_kernel(multiple=(1, 4, 8))
    assert search(backend, kernel, shapes=[Shape(m=3, n=3, k=3)]) is None
    assert len(backend.runs) > 30
    for shape, (a, b, c) in backend.runs:
        assert kernel.rung.supports(shape) is None
        assert (a % 8, b % 4, c % 4) == (0, 0, 0)
    found = search(FakeBackend(fake.nan_in_last_element), kernel)
    assert found is not None
    assert (found.shape.m, found.shape.n, found.shape.k) == (1, 4, 8)


def test_offsets_respect_the_alignment_and_sides_their_multiples_however_large() -> None:
    backend = FakeBackend()
    kernel = fake_kernel(multiple=(1, 12, 2048), tile=(128, 128), align_bytes=64)
    assert search(backend, kernel, max_examples=30) is None
    assert any(any(offsets) for _, offsets in backend.runs)
    for shape, (a, b, c) in backend.runs:
        assert kernel.rung.supports(shape) is None
        assert (a % 2048, b % 48, c % 48) == (0, 0, 0)


def test_infinities_find_what_finite_data_cannot() -> None:
    found = search(FakeBackend(fake.neighbours_leak), fake_kernel())
    assert found is not None
    assert found.case.kind == "specials"
    assert found.shape.m == 2
    assert max(found.shape.n, found.shape.k) <= 4


def test_specials_are_not_for_split_arithmetic() -> None:
    assert search(FakeBackend(fake.neighbours_leak), fake_kernel(unit_roundoff=2.0**-21, ordered=False)) is None


def test_a_dead_context_ends_the_search_with_the_first_failure() -> None:
    backend = FakeBackend(fake.context_dies)
    found = search(backend, fake_kernel(), shapes=[Shape(m=TILE, n=3, k=2), Shape(m=200, n=40, k=3)])
    assert found is not None
    assert not found.smallest
    assert found.shape == Shape(m=200, n=40, k=3)
    assert str(found).startswith("failing shape 200x40x3 (integers): CUDA_ERROR_ILLEGAL_ADDRESS")
    assert len(backend.runs) == found.tried + 1


def test_the_same_seed_tries_the_same_products() -> None:
    runs = []
    for _ in range(2):
        backend = FakeBackend()
        search(backend, fake_kernel(), seed=11)
        runs.append(backend.runs)
    assert runs[0] == runs[1]


def test_search_stops_at_its_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(10**6))
    monkeypatch.setattr("ladder.check._search.time.monotonic", lambda: float(next(now)))
    backend = FakeBackend()
    assert search(backend, fake_kernel(), budget_s=10.0) is None
    assert 0 < len(backend.runs) <= 10
    found = search(FakeBackend(fake.beyond_one_tile), fake_kernel(), budget_s=10.0)
    assert found is not None
    assert not found.smallest


def test_an_emulator_that_cannot_run_the_kernel_is_no_counterexample() -> None:
    def unknown(backend, a, b, offsets):
        raise UnsupportedPtxError("fake.cu:3: wgmma")

    with pytest.raises(UnsupportedPtxError, match="wgmma"):
        search(FakeBackend(unknown), fake_kernel())


@pytest.mark.parametrize("options", [{"max_examples": 0}, {"budget_s": 0.0}])
def test_search_refuses_empty_budgets(options: dict[str, int]) -> None:
    with pytest.raises(InputError, match=next(iter(options))):
        search(FakeBackend(), fake_kernel(), **options)


def test_search_is_silent_and_leaves_no_files(tmp_path: Path) -> None:
    script = (
        "from helpers import fake_backend as fake\n"
        "from ladder.check import search\n"
        "assert search(fake.FakeBackend(), fake.fake_kernel()) is None\n"
        "assert search(fake.FakeBackend(fake.only_long_k), fake.fake_kernel()) is not None\n"
    )
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(root), str(root / "tests")))}
    environment.pop("HYPOTHESIS_STORAGE_DIRECTORY", None)
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


def test_what_only_hypothesis_draws_is_found_and_shrunk() -> None:
    found = search(FakeBackend(fake.only_long_k), fake_kernel())
    assert found is not None
    assert (found.shape.m, found.shape.n, found.shape.k) == (4, 1, 400)


def test_counterexample_reads_in_one_line() -> None:
    case = Case(shape=Shape(m=1, n=2, k=3), kind="normal", offsets=(0, 1, 0))
    text = str(Counterexample(case=case, failure="C[row 0, column 1]: got 1", tried=9))
    assert text == "smallest failing shape 1x2x3 (normal, B + 1): C[row 0, column 1]: got 1"
