"""The experiments on the emulator: laws against counts, banks against counts, and kernels that are wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers.command import Answer, ladder

from ladder import experiments
from ladder.catalog import cuda_src
from ladder.catalog.streams import load_streams
from ladder.errors import KernelFaultError
from ladder.experiments import plan
from ladder.experiments.fits import deviation
from ladder.experiments.padding import pitch_of, predicted
from ladder.experiments.streaming import emulate
from ladder.experiments.work import Worker
from ladder.model import Shape
from ladder.profiles import load_profile

PROFILE = load_profile("h200")
STREAMS = load_streams(cuda_src() / "laws" / "streams")
WORK = Worker("emulated", PROFILE, PROFILE.roofs, engine="numpy")()
SMALL = Shape(m=64, n=64, k=64)


def accepted(answer: Answer) -> str:
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


@pytest.mark.parametrize("engine", ["c", "numpy"])
@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name)
def test_a_stream_is_right_and_moves_what_its_law_says(stream, engine: str) -> None:
    n = stream.largest(2**15)
    traffic, wrong = emulate(stream, n, PROFILE.device, engine=engine)
    assert wrong is None
    assert traffic.levels["asked"].bytes == stream.at(stream.asked_bytes, n)
    assert traffic.levels["l1"].bytes == stream.at(stream.l1_bytes, n)


def test_a_ragged_size_is_right_too() -> None:
    for stream in STREAMS:
        n = stream.multiple * 33 + (1 if stream.multiple == 1 else 0)
        assert emulate(stream, n, PROFILE.device)[1] is None


def test_padding_takes_the_transpose_from_32_wavefronts_to_one() -> None:
    counted = {s.name: emulate(s, 64, PROFILE.device)[0] for s in STREAMS if s.name.startswith("transpose_")}
    tiled, padded = counted["transpose_tiled"], counted["transpose_padded"]
    assert tiled.wavefronts_ld == 32 * tiled.requests_ld
    assert padded.wavefronts_ld == padded.requests_ld
    assert counted["transpose_naive"].requests_ld == 0


def test_a_wrong_stream_is_called_wrong() -> None:
    (stream,) = (stream for stream in STREAMS if stream.name == "saxpy")
    wrong = replace(stream, source=stream.source.replace("fmaf(a, x[i], y[i])", "fmaf(a, y[i], y[i])"))
    assert "should be" in (emulate(wrong, 1000, PROFILE.device)[1] or "")


def test_a_stream_that_runs_past_its_end_is_caught_with_its_line() -> None:
    (stream,) = (stream for stream in STREAMS if stream.name == "copy")
    broken = replace(stream, source=stream.source.replace("if (i < n) y[i]", "y[i]"))
    with pytest.raises(KernelFaultError, match=r"copy\.cu:\d+: out of bounds"):
        emulate(broken, 1000, PROFILE.device)


@pytest.mark.parametrize("job", plan.edges([SMALL], "emulated"), ids=lambda job: job.rung.name)
def test_every_edge_lies_on_its_law(job) -> None:
    row = WORK(job)
    assert row.check is not None
    assert row.check.passed
    assert deviation(row) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("job", plan.padded(SMALL), ids=lambda job: job.rung.name)
def test_every_padding_takes_the_wavefronts_that_the_banks_predict(job) -> None:
    row = WORK(job)
    assert row.check is not None
    assert row.check.passed
    assert row.traffic.wavefronts_per_request == predicted(pitch_of(row)).per_request


def test_what_is_too_large_is_counted_from_a_few_threadblocks_or_said_to_be_left_out() -> None:
    large = Shape(m=2048, n=2048, k=2048)
    four, eight = (job for job in plan.edges([large], "emulated") if job.rung.name in ("tiled_4", "tiled_8"))
    assert "too large to execute here" in WORK(four).skipped
    assert deviation(WORK(eight)) == pytest.approx(0, abs=1e-9)


def test_a_t4_goes_from_dram_to_shared_memory_and_an_h200_is_there_at_once() -> None:
    """As docs/experiments.md tells."""
    large = Shape(m=8192, n=8192, k=8192)
    jobs = [job for job in plan.edges([large], "emulated") if job.rung.name in ("tiled_8", "tiled_16")]
    bound = {}
    for name in ("t4", "h200"):
        profile = load_profile(name)
        work = Worker("emulated", profile, profile.roofs)()
        bound[name] = [work(job).placement.bound_by for job in jobs]
    assert bound == {"t4": ["dram", "shared"], "h200": ["shared", "shared"]}


def test_the_command_runs_one_experiment_and_keeps_it(tmp_path) -> None:
    out = tmp_path / "e.json"
    text = accepted(ladder("experiment", "law", "--backend", "emulated", "--shape", "64x64x64", "--json", str(out)))
    assert "tile_product" in text
    assert "Slope of I = slope x T" in text
    found = experiments.load(out)
    assert len(found.edges) == 10
    assert not found.padding
    assert not found.asked
