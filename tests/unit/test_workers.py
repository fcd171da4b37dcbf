"""The worker pool: what one job does to its process never reaches another job."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from types import MappingProxyType

import pytest
from helpers import tasks

from ladder.workers import Finished, Refused, default_workers, run_jobs

MIB = 1 << 20


def outcome(jobs: Sequence[str], **options: object) -> dict[str, Finished[str, str]]:
    return {end.job: end for end in run_jobs(jobs, tasks.start, **options)}  # type: ignore[arg-type]


def test_every_job_is_yielded_once_with_its_index() -> None:
    jobs = [f"say {word}" for word in ("one", "two", "three", "four", "five")]
    ends = sorted(run_jobs(jobs, tasks.start, workers=2), key=lambda end: end.index)
    assert [end.result for end in ends] == ["one", "two", "three", "four", "five"]
    assert [end.job for end in ends] == jobs
    assert all(end.failure is None for end in ends)


def test_no_job_starts_no_process() -> None:
    assert list(run_jobs([], tasks.die_at_start)) == []


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ("signal 9", "killed by SIGKILL"),
        ("segfault", "killed by SIGSEGV"),
        ("exit 7", "exited with code 7"),
        ("exit 0", "exited with code 0"),
        ("sleep 60", "no end after 1 s"),
        ("fail", "the launch failed"),
        ("bug", "exited with code 1"),
    ],
)
def test_a_lost_job_is_reported_and_the_others_go_on(job: str, words: str) -> None:
    ends = outcome(["say before", job, "say after"], timeout_s=1.0)
    assert ends[job].result is None
    assert words in (ends[job].failure or "")
    assert ends["say before"].result == "before"
    assert ends["say after"].result == "after"


def test_a_stopped_job_does_not_hold_the_others_up() -> None:
    began = time.monotonic()
    ends = outcome(["sleep 60", "sleep 60", "say after"], timeout_s=0.5, workers=2)
    assert time.monotonic() - began < 20
    assert ends["say after"].result == "after"


def test_a_memory_blow_up_fails_alone() -> None:
    ends = outcome([f"hog {4096 * MIB}", "say after"], memory_bytes=1024 * MIB)
    assert "ran out of memory (limit 1024 MiB)" in (ends[f"hog {4096 * MIB}"].failure or "")
    assert ends["say after"].result == "after"


def test_a_child_ignores_an_interrupt() -> None:
    assert outcome(["interrupt lived"])["interrupt lived"].result == "lived"


def test_a_start_that_refuses_stops_everything_with_its_exit_code() -> None:
    with pytest.raises(Refused, match="no NVRTC here; install it") as caught:
        list(run_jobs(["say never"], tasks.refuse_to_start))
    assert caught.value.exit_code == 2


def test_a_child_that_dies_before_its_first_job_is_not_started_for_ever() -> None:
    with pytest.raises(Refused, match="did not start: it exited with code 3"):
        list(run_jobs(["say never"], tasks.die_at_start))


def test_a_usage_error_of_a_task_is_raised() -> None:
    with pytest.raises(Refused, match="not like this") as caught:
        list(run_jobs(["refuse"], tasks.start))
    assert caught.value.exit_code == 2


def test_a_child_serves_many_jobs() -> None:
    ends = list(run_jobs(["pid a", "pid b", "pid c"], tasks.start))
    assert len({end.result for end in ends}) == 1
    assert ends[0].result != str(os.getpid())


def test_blas_of_a_child_has_one_thread_and_ours_is_left_alone() -> None:
    before = dict(os.environ)
    assert outcome(["env OMP_NUM_THREADS"])["env OMP_NUM_THREADS"].result == "1"
    assert dict(os.environ) == before


def test_read_only_mappings_cross_the_pipe() -> None:
    job = MappingProxyType({"BM": 128})
    (end,) = run_jobs([job], partial(partial, dict))
    assert end.result == {"BM": 128}
    assert end.job == job


def test_closing_the_iterator_ends_the_children() -> None:
    pids: list[int] = []
    with closing(run_jobs(["pid a", "sleep 60"], tasks.start, workers=1)) as ends:
        pids.append(int(next(ends).result or 0))
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


INTERRUPTED = """
import sys
from helpers import tasks
from ladder.workers import run_jobs
if __name__ == "__main__":
    try:
        for end in run_jobs(["pid a", "sleep 60", "sleep 60"], tasks.start, workers=2):
            print(end.result, flush=True)
    except KeyboardInterrupt:
        sys.exit(130)
"""


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_of_the_whole_process_group_ends_the_children(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(INTERRUPTED, encoding="utf-8")
    paths = os.pathsep.join([str(Path(__file__).parents[2]), str(Path(__file__).parents[1])])
    with subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"PYTHONPATH": paths},
    ) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 130
    assert errors == ""
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_default_workers() -> None:
    assert default_workers("cuda") == 1
    assert 1 <= default_workers("emulated") <= 4
