"""The experiments on a GPU: streams proved, laws counted, and nothing faster than its roofs."""

from __future__ import annotations

import pytest

from ladder.catalog import cuda_src
from ladder.catalog.streams import load_streams
from ladder.counters import ncu_status
from ladder.experiments import plan
from ladder.experiments.counting import counted
from ladder.experiments.padding import predicted
from ladder.experiments.work import Worker
from ladder.laws import predict, sector_share
from ladder.model import Shape
from ladder.profiles import load_profile

pytestmark = pytest.mark.gpu

PROFILE = load_profile("h200")
STREAMS = load_streams(cuda_src() / "laws" / "streams")
SMALL = Shape(m=256, n=256, k=256)


@pytest.fixture(scope="module")
def work():
    return Worker("cuda", PROFILE, PROFILE.roofs)()


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name)
def test_a_stream_is_right_and_timed(work, stream) -> None:
    row = work(plan.Streamed(stream=stream, n=stream.largest(2**26)))
    assert row.problem is None
    assert row.time is not None


@pytest.mark.parametrize("job", plan.edges([SMALL], "cuda") + plan.padded(SMALL), ids=lambda job: job.rung.name)
def test_a_product_is_right_and_timed(work, job) -> None:
    row = work(job)
    assert row.error is None
    assert row.check is not None
    assert row.check.passed
    assert row.time is not None


def test_counters_agree_with_the_laws_the_banks_and_the_declarations() -> None:
    reason = ncu_status()
    if reason is not None:
        pytest.skip(reason)
    edges, padding = plan.edges([SMALL], "cuda"), plan.padded(SMALL)
    streams = [plan.Streamed(stream=stream, n=stream.largest(2**24)) for stream in STREAMS]
    found = counted([*edges, *padding, *streams])
    for job, traffic in zip(edges, found, strict=False):
        want = predict(job.rung, job.shape).predicted["l1"] * sector_share(job.rung.params["T"])
        assert traffic.intensity(job.shape.flop)["l1"] == pytest.approx(want, rel=0.01), job.name
    for job, traffic in zip(padding, found[len(edges) :], strict=False):
        want = predicted(32 + job.rung.params.get("PAD", 0)).per_request
        assert traffic.wavefronts_per_request == pytest.approx(want, rel=0.01), job.name
    for job, traffic in zip(streams, found[len(edges) + len(padding) :], strict=True):
        want = job.stream.at(job.stream.l1_bytes, job.n)
        assert traffic.levels["l1"].bytes == pytest.approx(want, rel=0.01), job.name
