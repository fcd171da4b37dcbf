"""What only a GPU can say of the ``cuda`` backend: guards, shared memory, faults, times, arrays of other libraries."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from helpers.command import environment
from helpers.on_gpu import RUNGS, backend, compiled, kernel_of, mutant, need

from ladder.backends.cuda import CudaBackend, find_gpu, multiply_device
from ladder.backends.timing import measure_interleaved
from ladder.catalog import find
from ladder.check import inputs, prove
from ladder.errors import BackendError, InputError
from ladder.model import Rung, Shape

pytestmark = pytest.mark.gpu

RAGGED = Shape(m=35, n=79, k=19)
ZERO_REST = "for (int i = threadIdx.y * 16 + threadIdx.x; i < M * N; i += 256) C[i] = 0;"

each_rung = pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)


def test_the_gpu_is_found_and_described() -> None:
    assert find_gpu() is None
    device = backend().device
    assert device.backend == "cuda"
    assert device.name
    assert device.compute_capability >= (7, 5)
    assert device.sm_count > 0
    assert device.l2_bytes > 2**20
    assert device.smem_per_sm_bytes >= 64 * 1024
    assert device.sm_clock_hz is not None
    assert 5e8 < device.sm_clock_hz < 5e9


def test_a_store_past_the_end_is_damage() -> None:
    a, b = inputs(RAGGED, kind="integers")
    damage = backend().run(mutant("store_unguarded"), a, b).damage
    assert damage is not None
    assert "past the end of C" in damage


def test_a_store_before_the_start_is_damage() -> None:
    a, b = inputs(RAGGED, kind="integers")
    damage = backend().run(kernel_of("before", f"{ZERO_REST}\nC[-3] = 1;"), a, b).damage
    assert damage is not None
    assert damage.endswith("words before C, the last 12 bytes before it")


def test_a_changed_input_is_damage() -> None:
    a, b = inputs(RAGGED, kind="normal")
    damage = backend().run(mutant("writes_input"), a, b).damage
    assert damage is not None
    assert damage.startswith("changed its input A: [row 0, column 0]")


@pytest.mark.parametrize("name", ["last_rows_unwritten", "nan_writer", "b_transposed", "last_k_missing"])
def test_a_wrong_product_does_not_pass(name: str) -> None:
    check = prove(backend(), mutant(name), RAGGED)
    assert not check.passed
    assert check.failure


SHARED = """
  extern __shared__ float words[];
  const int tid = threadIdx.y * 16 + threadIdx.x;
  words[WORDS - 1 - tid] = tid;
  __syncthreads();
  if (tid == 0) C[0] = words[WORDS - 256] + words[WORDS - 1];
"""


@pytest.mark.parametrize("kib", [16, 48, 64, 96])
def test_dynamic_shared_memory_is_all_there(kib: int) -> None:
    if kib * 1024 > backend().gpu.max_smem_bytes:
        pytest.skip(f"a block of this GPU has at most {backend().gpu.max_smem_bytes} bytes")
    kernel = kernel_of(f"shared_{kib}", SHARED, before=f"#define WORDS {kib * 256}", smem_bytes=kib * 1024)
    a, b = inputs(Shape(m=1, n=1, k=1))
    assert backend().run(kernel, a, b).c[0, 0] == 255
    assert backend().resources(kernel).occupancy > 0


def test_one_static_byte_over_48_kib_of_dynamic_shared_memory() -> None:
    body = f"__shared__ volatile char one; one = 1;\n{SHARED}\n  if (tid == 0) C[0] += one;"
    kernel = kernel_of("edge", body, before="#define WORDS 12288", smem_bytes=48 * 1024)
    assert kernel.resources.smem_bytes > 48 * 1024
    a, b = inputs(Shape(m=1, n=1, k=1))
    assert backend().run(kernel, a, b).c[0, 0] == 256


def test_more_shared_memory_than_there_is_is_refused() -> None:
    kernel = kernel_of("too_much", SHARED, before="#define WORDS 256", smem_bytes=backend().gpu.max_smem_bytes + 16)
    with pytest.raises(BackendError, match="use smaller tiles"):
        backend().run(kernel, *inputs(Shape(m=1, n=1, k=1)))


def test_memory_that_is_not_there_is_told_in_bytes() -> None:
    with pytest.raises(BackendError, match=f"CUDA_ERROR_OUT_OF_MEMORY.*asked for {2**46} bytes"):
        backend().gpu.allocate(2**46, "a test")
    assert prove(backend(), compiled(RUNGS[0]), RAGGED).passed


@pytest.mark.parametrize(
    ("body", "error"),
    [("C[size_t(1) << 45] = 1;", "CUDA_ERROR_ILLEGAL_ADDRESS"), ("__trap();", "CUDA_ERROR_LAUNCH_FAILED|CUDA_ERROR_")],
)
def test_a_fault_is_told_and_stays_in_its_process(body: str, error: str) -> None:
    program = f"""
import re, sys
from helpers.on_gpu import backend, kernel_of
from ladder.check import inputs
from ladder.errors import BackendError
from ladder.model import Shape
try:
    backend().run(kernel_of("wild", {body!r}), *inputs(Shape(m=4, n=5, k=6)))
except BackendError as error:
    sys.exit(0 if re.search(r"rung wild at 4x5x6 on .*({error})", str(error)) else str(error))
sys.exit("no error")
"""
    tests = __file__.rpartition("/gpu/")[0]
    env = environment()
    env["PYTHONPATH"] = f"{tests}:{env['PYTHONPATH']}"
    ended = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False, timeout=120
    )
    assert ended.returncode == 0, ended.stderr
    assert prove(backend(), compiled(RUNGS[0]), RAGGED).passed


@each_rung
def test_occupancy_is_a_share_of_the_warps(rung: Rung) -> None:
    need(rung)
    resources = backend().resources(compiled(rung))
    assert resources.occupancy is not None
    assert 0 < resources.occupancy <= 1
    assert resources.registers > 0


def test_times_repeat_and_rank_the_rungs() -> None:
    shape = Shape(m=1024, n=1024, k=1024)
    a, b = inputs(shape, kind="uniform")
    conflict, tiled, register = (compiled(rung) for rung in find(["tiled_conflict", "tiled_32", "register_tile"]))
    times = {kernel.rung.name: backend().time(kernel, a, b) for kernel in (conflict, tiled, register)}
    assert times["tiled_conflict"].median > 2 * times["tiled_32"].median > 2 * times["register_tile"].median
    again = backend().time(tiled, a, b)
    assert again.median == pytest.approx(times["tiled_32"].median, rel=0.1)
    assert shape.flop / times["register_tile"].median < 1e14


def test_a_short_kernel_is_timed_at_the_gpus_pace() -> None:
    """Back-to-back launches of next to nothing: a few microseconds each, however slow the host is."""
    a, b = inputs(Shape(m=16, n=16, k=1))
    timing = backend().time(compiled(find(["tiled_16"])[0]), a, b)
    assert timing is not None
    assert 1e-7 < timing.median < 2e-5


def test_cold_is_slower_than_warm_where_all_fits_the_l2() -> None:
    a, b = inputs(Shape(m=512, n=512, k=512), kind="uniform")
    kernel = compiled(find(["register_tile"])[0])
    warm, cold = (backend().time(kernel, a, b, cold=flush) for flush in (False, True))
    assert warm is not None
    assert cold is not None
    assert cold.median > warm.median


def test_two_kernels_are_timed_in_turn() -> None:
    a, b = inputs(Shape(m=512, n=512, k=512), kind="uniform")
    kernels = [compiled(rung) for rung in find(["naive", "tiled_32"])]
    with backend().prepared(kernels[0], a, b) as first, backend().prepared(kernels[1], a, b) as second:
        slow, fast = measure_interleaved([backend().sampler(*first), backend().sampler(*second)])
    assert slow.samples == fast.samples
    assert slow.median > fast.median


def test_clock_and_power_can_be_read_under_load() -> None:
    a, b = inputs(Shape(m=1024, n=1024, k=1024), kind="uniform")
    with backend().prepared(compiled(find(["register_tile"])[0]), a, b) as (enqueue, _):
        reading = backend().reading(enqueue, seconds_each=1e-4)
    for value, low, high in ((reading.sm_clock_hz, 5e8, 5e9), (reading.power_w, 10, 2000)):
        assert value is None or low < value < high


def test_a_backend_can_be_opened_again_after_it_was_closed() -> None:
    for _ in range(2):
        other = CudaBackend()
        assert prove(other, compiled(RUNGS[0]), RAGGED).passed
        other.time(compiled(RUNGS[0]), *inputs(RAGGED), cold=True)
        other.close()


@pytest.fixture(params=["torch", "cupy"])
def library(request: pytest.FixtureRequest) -> Any:
    return pytest.importorskip(request.param)


def to_gpu(library: Any, array: np.ndarray) -> Any:
    return library.from_numpy(array).cuda() if library.__name__ == "torch" else library.asarray(array)


def to_cpu(array: Any) -> np.ndarray:
    return array.cpu().numpy() if hasattr(array, "cpu") else array.get()


@pytest.mark.filterwarnings("ignore")
@each_rung
def test_arrays_on_the_gpu_are_multiplied_where_they_are(rung: Rung, library: Any) -> None:
    need(rung)
    a, b = inputs(Shape(m=64, n=96, k=128), kind="integers")
    left, right = to_gpu(library, a), to_gpu(library, b)
    np.testing.assert_array_equal(to_cpu(multiply_device(rung, left, right)), a @ b)
    out = to_gpu(library, np.full((64, 96), np.nan, np.float32))
    assert multiply_device(rung, left, right, out=out) is out
    np.testing.assert_array_equal(to_cpu(out), a @ b)


@pytest.mark.filterwarnings("ignore")
def test_what_the_library_has_enqueued_comes_first(library: Any) -> None:
    a, b = inputs(Shape(m=2048, n=2048, k=2048), kind="integers")
    left, right = to_gpu(library, a), to_gpu(library, b)
    for _ in range(20):
        left = left * 1
    left = left + 1
    c = multiply_device(find(["register_tile"])[0], left, right)
    np.testing.assert_array_equal(to_cpu(c), (a + 1) @ b)


@pytest.mark.filterwarnings("ignore")
def test_device_arrays_that_do_not_fit_are_refused(library: Any) -> None:
    rung = find(["tiled_16"])[0]
    a, b = inputs(Shape(m=8, n=8, k=8), kind="integers")
    left, right = to_gpu(library, a), to_gpu(library, b)
    with pytest.raises(InputError, match="a has strides"):
        multiply_device(rung, left.T, right)
    with pytest.raises(InputError, match="b is float64"):
        multiply_device(rung, left, to_gpu(library, b.astype(np.float64)))
    with pytest.raises(InputError, match="out overlaps a"):
        multiply_device(rung, left, right, out=left)
