"""Why rungs run on numpy although C was allowed: one line for each reason, in whatever command runs them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from helpers.command import environment, ladder

from ladder.ptx.c import find_compiler

SMALL = ("--shape", "9x8x7", "--backend", "emulated")
RUN = ("run", "naive", "padded", *SMALL)
CHECK = ("check", "naive", "padded", "--examples", "2", "--backend", "emulated")
COUNT = ("count", "naive", "padded", *SMALL)


@pytest.fixture
def only_the_runtime(tmp_path: Path) -> str:
    """A compiler that builds the C engine's runtime and no kernel."""
    real = find_compiler()
    if real is None:
        pytest.skip("needs a C compiler, and there is none")
    script = tmp_path / "picky-cc"
    script.write_text(
        f"""#!/bin/sh
for word; do
  case $word in *.c) if grep -q 'struct kernel ladder_kernel =' "$word"; then echo 'no kernels' >&2; exit 1; fi ;; esac
done
exec {" ".join(real)} "$@"
"""
    )
    script.chmod(0o755)
    return str(script)


@pytest.mark.parametrize("arguments", [RUN, COUNT, CHECK], ids=["run", "count", "check"])
def test_a_kernel_that_c_does_not_run_is_noted_once(
    arguments: Sequence[str], only_the_runtime: str, tmp_path: Path
) -> None:
    answer = ladder(*arguments, env=environment(CC=only_the_runtime, LADDER_CACHE_DIR=str(tmp_path)))
    assert answer.returncode == 0, answer.stderr
    notes = [line for line in answer.stdout.splitlines() if line.startswith("note: ")]
    assert len(notes) == 1
    assert "running on numpy, which takes several times as long" in notes[0]
    assert notes[0].endswith("does not compile the C engine: no kernels")


@pytest.mark.parametrize("arguments", [RUN, CHECK], ids=["run", "check"])
def test_without_a_compiler_the_first_line_has_said_so(arguments: Sequence[str]) -> None:
    answer = ladder(*arguments, env=environment(CC="no-such-compiler"))
    assert answer.returncode == 0, answer.stderr
    assert "note: " not in answer.stdout
    assert answer.stdout.count("install gcc or clang") == 1


def test_nothing_is_noted_when_c_runs_it_all() -> None:
    answer = ladder(*RUN)
    assert answer.returncode == 0, answer.stderr
    assert "note: " not in answer.stdout
