"""Search for the smallest product that a rung gets wrong."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

import hypothesis
from hypothesis import strategies as st

from ladder.backends.base import Backend
from ladder.check._cases import Case, cases, known_traps, simpler
from ladder.check._inputs import SEED
from ladder.check._prove import attempt
from ladder.check._quiet import no_hypothesis_files
from ladder.errors import InputError
from ladder.model import Rung, Shape
from ladder.nvrtc import Compiled

__all__ = ["Counterexample", "search"]

Progress = Callable[[int, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counterexample:
    """The smallest product found that the rung gets wrong.

    Attributes:
        case: how to make it again.
        failure: what went wrong, in one line: the fault, or the first wrong element with its row, column, value,
            expected value and bound.
        tried: how many products were run.
        smallest: no smaller product that was tried fails; False when the search was cut short, or a failed launch left
            the device unusable.
    """

    case: Case
    failure: str
    tried: int
    smallest: bool = True

    @property
    def shape(self) -> Shape:
        """The failing shape."""
        return self.case.shape

    def __str__(self) -> str:
        return f"{'smallest ' if self.smallest else ''}failing shape {self.case}: {self.failure}"


def search(
    backend: Backend,
    kernel: Compiled,
    *,
    shapes: Sequence[Shape] = (),
    max_examples: int = 60,
    seed: int = SEED,
    budget_s: float = 60.0,
    progress: Progress | None = None,
) -> Counterexample | None:
    """Try ``shapes``, then those that kernels are known to get wrong, then what hypothesis draws; shrink what fails.

    Hypothesis draws sides around the rung's tile, primes, long and thin products, shifted pointers and all kinds of
    data. Shapes that the rung declares unsupported are left out. The same seed tries the same products.

    Args:
        backend: where it runs.
        kernel: the compiled rung.
        shapes: tried first.
        max_examples: products that hypothesis draws at most.
        seed: of the data and of hypothesis.
        budget_s: seconds after which nothing new is drawn; shrinking may take half as long again.
        progress: called before each product with its number, from 1, and what it is.

    Returns:
        None when no product fails.

    Raises:
        InputError: a budget or a count that is not positive.
        UnsupportedPtxError: the emulator cannot run the kernel.
    """
    if max_examples < 1 or not budget_s > 0:
        raise InputError(f"max_examples={max_examples} and budget_s={budget_s} must be positive")
    rung = kernel.rung
    probe = _Probe(backend=backend, kernel=kernel, seed=seed, progress=progress, deadline=time.monotonic() + budget_s)
    given = [Case(shape=shape, kind=kind) for shape in shapes for kind in ("integers", "normal")]
    found = next((case for case in (*given, *known_traps(rung)) if probe.fails(case)), None)
    if found is None:
        found = _draw(probe, cases(rung), max_examples=max_examples, seed=seed)
    if found is None:
        return None
    probe.deadline, probe.out_of_time = time.monotonic() + budget_s / 2, False
    smallest = _shrink(found, probe.fails, rung)
    return Counterexample(
        case=smallest,
        failure=probe.failure(smallest),
        tried=probe.tried,
        smallest=not (probe.lost or probe.out_of_time),
    )


@dataclass(slots=True, kw_only=True)
class _Probe:
    """Runs each case once and remembers what came of it, so that hypothesis sees the same answer when it asks again."""

    backend: Backend
    kernel: Compiled
    seed: int
    progress: Progress | None
    deadline: float
    tried: int = 0
    lost: bool = False
    out_of_time: bool = False
    results: dict[Case, str | None] = field(default_factory=dict)

    def fails(self, case: Case) -> bool:
        """Whether ``case`` goes wrong; False for what cannot or may no longer be run."""
        if case not in self.results and self._may_run(case):
            self.results[case] = self._run(case)
        return self.results.get(case) is not None

    def failure(self, case: Case) -> str:
        """What went wrong with a case that failed."""
        return self.results[case] or "passed"

    def _may_run(self, case: Case) -> bool:
        if self.lost or self.kernel.rung.supports(case.shape) is not None:
            return False
        if time.monotonic() >= self.deadline:
            self.out_of_time = True
        return not self.out_of_time

    def _run(self, case: Case) -> str | None:
        self.tried += 1
        if self.progress is not None:
            self.progress(self.tried, str(case))
        result = attempt(self.backend, self.kernel, case.shape, kind=case.kind, seed=self.seed, offsets=case.offsets)
        if result.launch_failed:
            self.lost = not self._still_alive()
        return result.failure

    def _still_alive(self) -> bool:
        """Whether a product that went right before still does: an illegal address leaves a CUDA context unusable."""
        passed = next((case for case, failure in self.results.items() if failure is None), None)
        if passed is None:
            return False
        again = attempt(
            self.backend, self.kernel, passed.shape, kind=passed.kind, seed=self.seed, offsets=passed.offsets
        )
        return again.failure is None


def _draw(probe: _Probe, strategy: st.SearchStrategy[Case], *, max_examples: int, seed: int) -> Case | None:
    settings = hypothesis.settings(
        max_examples=max_examples,
        database=None,
        deadline=None,
        phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
        verbosity=hypothesis.Verbosity.quiet,
        print_blob=False,
    )
    with no_hypothesis_files():
        try:
            return hypothesis.find(strategy, probe.fails, settings=settings, random=Random(seed))
        except hypothesis.errors.NoSuchExample:
            return None


def _shrink(case: Case, fails: Callable[[Case], bool], rung: Rung) -> Case:
    """A case none of whose neighbours (see :func:`simpler`) fails."""
    while True:
        smaller = next((candidate for candidate in simpler(case, rung) if fails(candidate)), None)
        if smaller is None:
            return case
        case = smaller
