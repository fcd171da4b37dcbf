"""The benchmarks with the real torch and the real GPU, at sizes that take seconds."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from helpers.on_gpu import RUNGS, backend, compiled, mutant, need

from bench import peers, tune
from bench.gpu_oracle import GpuOracle
from ladder.backends.cuda import multiply_device
from ladder.check import prove
from ladder.model import Rung, Shape
from ladder.store import load
from ladder.tuned import load_tuned

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]

SIZE = "512x512x512"


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


def judged(torch: Any, rung: Rung, shape: Shape) -> Any:
    return GpuOracle(torch, shape).prove(
        lambda a, b, out: multiply_device(rung, a, b, out=out), unit_roundoff=rung.unit_roundoff, ordered=rung.ordered
    )


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
def test_the_judge_on_the_gpu_agrees_with_numpy(torch: Any, rung: Rung) -> None:
    need(rung)
    shape = Shape(m=256, n=384, k=512)
    found, expected = judged(torch, rung, shape), prove(backend(), compiled(rung), shape)
    assert found.passed, found.failure
    assert expected.passed, expected.failure
    assert found.crc32 == expected.crc32
    assert found.worst_error_over_bound == pytest.approx(expected.worst_error_over_bound, rel=1e-6)


@pytest.mark.parametrize(
    "name", ["last_rows_unwritten", "nan_writer", "b_transposed", "last_k_missing", "writes_input"]
)
def test_the_judge_on_the_gpu_sees_what_is_wrong(torch: Any, name: str) -> None:
    check = judged(torch, mutant(name).rung, Shape(m=35, n=79, k=19))
    assert not check.passed
    assert check.failure


def test_peers_are_timed_in_turn_and_errors_written(torch: Any, tmp_path: Path) -> None:
    path, errors = tmp_path / "fast.json", tmp_path / "errors.json"
    words = ["--rung", "register_tile", "--shape", SIZE, "--json", str(path), "--errors", str(errors)]
    assert peers.main(words) == 0
    rows = {run.rung: run for run in load(path).runs}
    assert set(rows) == {"cublas_sgemm", "cublas_tf32", "register_tile"}
    for row in rows.values():
        assert row.check is not None
        assert row.check.passed
        assert row.flop_per_s is not None
        assert 1e11 < row.flop_per_s < 1e15
        assert row.time is not None
        assert row.time.method == "graph"
        assert row.cold_over_warm is not None
        assert (row.kernel is None) == (row.kind == "rung")
    assert "gemm" in (rows["cublas_sgemm"].kernel or "")
    assert rows["cublas_sgemm"].kernel != rows["cublas_tf32"].kernel
    assert rows["register_tile"].speedup is not None
    found = {(row["name"], row["data"]): row for row in json.loads(errors.read_text())["rows"]}
    assert found["cublas_sgemm", "normal"]["normwise"] < 1e-6
    assert 1e-5 < found["cublas_tf32", "normal"]["normwise"] < 1e-3


@pytest.mark.parametrize("package", ["nvmath", "torch"])
def test_cublas_through_each_package_is_right_and_can_be_captured(
    package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    order = ["nvmath", "torch"]
    pytest.importorskip(package)
    for other in order[: order.index(package)]:
        monkeypatch.setitem(sys.modules, other, None)
        monkeypatch.setitem(sys.modules, f"{other}.bindings", None)
    path = tmp_path / "r.json"
    begun = time.perf_counter()
    assert peers.main(["--shape", SIZE, "--json", str(path)]) == 0
    assert time.perf_counter() - begun < 20
    rows = {run.rung: run for run in load(path).runs}
    assert set(rows) == {"cublas_sgemm", "cublas_tf32"}
    for row in rows.values():
        assert row.check is not None
        assert row.check.passed
        assert row.kernel


TUNABLE = """
// /// rung
// title  = "A tunable copy of the one-element-a-thread kernel"
// kernel = "tunable"
// params = { BM = 4, BN = 16, BK = 1, NUM_THREADS = 64 }
// tune   = { BM = [4, 8], BN = [16, 32], NUM_THREADS = [64, 128, 256] }
// ///
template <int BM, int BN, int BK, int NUM_THREADS>
__global__ void tunable(const float* A, const float* B, float* C, int M, int N, int K) {
  static_assert(BM * BN == NUM_THREADS, "one thread, one element");
  const unsigned row = blockIdx.y * BM + threadIdx.x / BN, col = blockIdx.x * BN + threadIdx.x % BN;
  float acc = 0.0f;
  if (row < M && col < N) {
    for (int k = 0; k < K; ++k) acc = fmaf(A[size_t(row) * K + k], B[size_t(k) * N + col], acc);
    C[size_t(row) * N + col] = acc;
  }
}
"""


def test_the_tuner_keeps_the_best(tmp_path: Path) -> None:
    source, out = tmp_path / "tunable.cu", tmp_path / "tuned.json"
    source.write_text(TUNABLE)
    assert tune.main([str(source), "--shape", SIZE, "--out", str(out), "--limit-s", "40"]) == 0
    (found,) = load_tuned(out)
    assert found.card == backend().device.name
    assert found.params["BM"] * found.params["BN"] == found.params["NUM_THREADS"]
    assert dict(found.left_out) == {"does not compile": 8}
    assert found.tried == 3
    assert found.gain >= 1
