"""A pytest plugin: whatever :func:`helpers.ptx.run` runs on numpy is run on the C engine too, and must agree.

``pytest -p helpers.both_engines tests/unit/test_ptx_warp.py`` holds a table of opcodes against both engines: bits,
counts and footprints have to be the same, and where numpy finds a fault, C has to be suspicious. Programs that C does
not know are left to numpy; a table of which it knows nothing fails.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import settings
from numpy.typing import NDArray

import helpers.ptx
from helpers.engines import Footprints, in_c
from ladder.errors import KernelFaultError, UnsupportedPtxError
from ladder.ptx import Counters, Machine, Program
from ladder.ptx.c import CMachine, SuspectError

Array = NDArray[Any]

_run_numpy = helpers.ptx.run
_seen: Counter[str] = Counter()


def _run(program: Program | str, buffers: Sequence[Array] = (), **how: Any) -> list[Array]:
    """Both engines, with counters of their own; the caller's counters get numpy's."""
    ready = helpers.ptx.program_of(program) if isinstance(program, str) else program
    theirs = how.pop("counters", None)
    try:
        in_c(ready, how.get("block", (32, 1, 1)))
    except UnsupportedPtxError:
        _seen["unknown"] += 1
        return _run_numpy(ready, buffers, counters=theirs, **how)
    by_numpy, by_c = Counters(Footprints()), Counters(Footprints())
    try:
        expected = _run_numpy(ready, buffers, counters=by_numpy, **how)
    except KernelFaultError:
        with pytest.raises((SuspectError, KernelFaultError)):
            _run_c(ready, buffers, by_c, how)
        _seen["faults"] += 1
        raise
    got = _run_c(ready, buffers, by_c, how)
    assert [a.tobytes() for a in got] == [a.tobytes() for a in expected]
    assert _counts(by_c) == _counts(by_numpy)
    _seen["same"] += 1
    return expected if theirs is None else _run_numpy(ready, buffers, counters=theirs, **how)


def _run_c(program: Program, buffers: Sequence[Array], counters: Counters, how: dict[str, Any]) -> list[Array]:
    """The same launch with the C machine in place of the numpy one."""

    def machine(ready: Program, *arguments: Any, **options: Any) -> CMachine:
        return CMachine(in_c(ready, how.get("block", (32, 1, 1))), *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(helpers.ptx, "Machine", machine)
        return _run_numpy(program, buffers, counters=counters, **how)


def _counts(counters: Counters) -> dict[str, Any]:
    assert isinstance(counters.caches, Footprints)
    kept = {name: value for name, value in vars(counters).items() if name[0] != "_" and name != "caches"}
    return {**kept, "footprints": counters.caches.of_blocks}


def pytest_configure() -> None:
    """Take the place of the runner before any test imports it."""
    assert helpers.ptx.Machine is Machine
    helpers.ptx.run = _run


def pytest_sessionstart() -> None:
    """Each program is compiled, so that fewer are drawn than for numpy alone."""
    settings.register_profile("few", deadline=None, derandomize=True, max_examples=20)
    settings.load_profile("few")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Nothing compared is a failure."""
    if not _seen["same"]:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    sys.stdout.write(f"\nboth engines: {dict(_seen)}\n")
