"""Rungs and cuBLAS in turn, with doubles of CUDA and torch whose clock is known: what is proved, timed and written."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from helpers.fake_cuda import FakeCuda, Launch, floats, installed, multiply
from helpers.fake_torch import fake_torch, view_of
from helpers.results import make_results, peer, unhappy_runs
from helpers.tuned import entry

from bench import peers
from bench.cublas import library, plain_name
from ladder import catalog
from ladder.backends import device_arrays, timing
from ladder.errors import InputError
from ladder.model import Shape, Watched
from ladder.shapes import shape_class
from ladder.store import Results, Run, load, save
from ladder.tuned import merge_tuned

SIZE = "48x64x36"
SHAPE = Shape.parse(SIZE)
LOADED = Watched(samples=9, sm_clock_hz=1.755e9, sm_clock_low_hz=1.755e9, sm_clock_high_hz=1.755e9, power_w=666.0)


KERNELS = {
    "highest": "_ZN7cutlass7Kernel2I43cutlass_80_simt_sgemm_256x128_8x4_nn_align1EEvNT_6ParamsE",
    "high": "sm90_xmma_gemm_tf32f32",
}


def named(name: str, work: Callable[[], None]) -> Callable[[], None]:
    """As a node of a captured graph."""

    def node() -> None:
        work()

    node.__name__ = name
    return node


@dataclass
class World:
    """The doubles, and in which order products were enqueued."""

    cuda: FakeCuda
    torch: ModuleType
    order: list[str] = field(default_factory=list)
    sgemm_s: dict[str, float] = field(default_factory=dict)

    def seconds(self, precision: str) -> float:
        """Of a product of torch's; SGEMM may depend on what ran before it."""
        if precision == "high":
            return 0.5e-3
        others = (name for name in reversed(self.order) if name != "highest")
        return self.sgemm_s.get(f"after {next(others, None)}", 2e-3)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(timing, "WARM_S", 0)
    monkeypatch.setattr(timing, "MAX_WARM_S", 0)
    monkeypatch.setattr(device_arrays, "_view", view_of)
    monkeypatch.setattr(device_arrays, "find_gpu", lambda: None)
    for name in ("nvmath", "nvmath.bindings"):
        monkeypatch.setitem(sys.modules, name, None)
    device_arrays._gpu.cache_clear()
    with installed() as cuda:

        def enqueued(precision: str) -> None:
            if cuda.capturing is not None:
                cuda.capturing.append(named(KERNELS[precision], lambda: enqueued(precision)))
                return
            cuda.now_s += made.seconds(precision)
            made.order.append(precision)

        def tiled(launch: Launch) -> None:
            made.order.append(launch.kernel)
            multiply(launch)

        made = World(cuda, fake_torch(enqueued=enqueued))
        cuda.kernels |= {"tiled_16": tiled, "tiled_32": tiled}
        monkeypatch.setitem(sys.modules, "torch", made.torch)
        yield made
    device_arrays._gpu.cache_clear()


def rows_of(path: Path) -> dict[str, Run]:
    return {run.rung: run for run in load(path).runs}


@pytest.mark.parametrize("on_gpu", [False, True], ids=["proved by numpy", "proved on the GPU"])
def test_every_row_is_proved_timed_in_turn_and_written(
    on_gpu: bool, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if on_gpu:
        monkeypatch.setattr(peers, "CPU_FLOP", 0)
    monkeypatch.setattr(peers.CudaBackend, "reading", lambda *_, **__: LOADED)
    path = tmp_path / "fast.json"
    words = ["--rung", "tiled_16", "--rung", "tiled_32", "--shape", SIZE, "--json", str(path)]
    assert peers.main(words) == 0
    rows = rows_of(path)
    assert list(rows) == ["cublas_tf32", "tiled_16", "tiled_32", "cublas_sgemm"]
    for name, seconds in (("cublas_tf32", 0.5e-3), ("tiled_16", 1e-3), ("tiled_32", 1e-3), ("cublas_sgemm", 2e-3)):
        row = rows[name]
        assert row.check is not None
        assert row.check.passed
        assert row.time is not None
        assert row.time.median == pytest.approx(seconds)
        assert (row.sm_clock_hz, row.power_w) == (1.755e9, 666.0)
        assert row.kind == ("peer" if name.startswith("cublas") else "rung")
        assert row.shape == SHAPE
        if name == "cublas_sgemm":
            assert row.beside is None
        else:
            assert row.beside is not None
            assert row.beside.rung == "cublas_sgemm"
            assert row.speedup == pytest.approx(2e-3 / seconds)
        assert row.time.method == "launches"
        assert row.time_cold is not None
        assert row.time_cold.median == pytest.approx(seconds)
    names = {name: row.kernel for name, row in rows.items()}
    assert names == {
        "cublas_tf32": "sm90_xmma_gemm_tf32f32", "cublas_sgemm": "cutlass_80_simt_sgemm_256x128_8x4_nn_align1",
        "tiled_16": None, "tiled_32": None,
    }  # fmt: skip
    assert rows["tiled_16"].check == rows["tiled_32"].check  # the same bits, so the same checksum
    assert rows["tiled_16"].resources is not None
    assert rows["tiled_16"].source_sha256
    results = load(path)
    assert results.device.nvrtc
    assert results.command == f"python bench/peers.py {' '.join(words)}"
    told = capsys.readouterr().out
    assert "2.000 x SGEMM" in told
    assert "SM 1.755 GHz  666 W" in told
    assert world.cuda.live == []
    assert world.torch.get_float32_matmul_precision() == "highest"


def test_a_rung_and_sgemm_are_sampled_in_turn(world: World, tmp_path: Path) -> None:
    assert peers.main(["--rung", "tiled_16", "--shape", SIZE]) == 0
    timed = "".join({"tiled_16": "r", "highest": "s", "high": "t"}[name] for name in world.order)
    assert "rrsrrsrrs" in timed.replace("ss", "s")
    assert "t" * 3 + "s" in timed or "tts" in timed


def test_sgemms_row_is_the_fastest_of_its_times(world: World, tmp_path: Path) -> None:
    world.sgemm_s = {"after high": 3e-3, "after tiled_16": 2e-3, "after tiled_32": 2.5e-3}
    path = tmp_path / "fast.json"
    assert peers.main(["--rung", "tiled_16", "--rung", "tiled_32", "--shape", SIZE, "--json", str(path)]) == 0
    rows = rows_of(path)
    found = {name: row.beside.time.median for name, row in rows.items() if row.beside is not None}
    assert found == pytest.approx({"cublas_tf32": 3e-3, "tiled_16": 2e-3, "tiled_32": 2.5e-3})
    time = rows["cublas_sgemm"].time
    assert time is not None
    assert time.median == pytest.approx(2e-3)


def test_what_is_wrong_or_cannot_run_is_not_timed(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(launch: Launch) -> None:
        multiply(launch)
        launch.operands()[2][1, 2] += 1

    world.cuda.kernels["tiled_16"] = wrong
    kernel = tmp_path / "new.cu"
    kernel.write_text(RUNG)
    broken = tmp_path / "broken.cu"
    broken.write_text(RUNG.replace("new", "broken").replace("{}", "{ typo }").replace("min_cc = 100", "min_cc = 75"))
    path = tmp_path / "fast.json"
    words = ["--rung", "tiled_16", "--rung", str(kernel), "--rung", str(broken), "--shape", SIZE, "--json", str(path)]
    assert peers.main(words) == 1
    rows = rows_of(path)
    assert [rows[name].time for name in ("tiled_16", "new", "broken")] == [None] * 3
    check = rows["tiled_16"].check
    assert check is not None
    assert "C[row 1, column 2]" in (check.failure or "")
    assert "needs compute capability 10.0" in (rows["new"].skipped or "")
    assert "typo" in (rows["broken"].error or "")
    assert rows["cublas_sgemm"].time is not None
    told = capsys.readouterr().out
    assert "FAILED" in told
    assert "skipped: needs" in told


RUNG = """
// /// rung
// title  = "New"
// kernel = "new"
// params = { BM = 16, BN = 16, BK = 8, NUM_THREADS = 256 }
// min_cc = 100
// ///
template <int BM, int BN, int BK, int NUM_THREADS>
__global__ void new(const float* A, const float* B, float* C, int M, int N, int K) {}
""".replace("void new", "void mine").replace('"new"', '"mine"')


def test_a_wrong_peer_is_not_timed_and_nothing_is_beside_it(world: World, tmp_path: Path) -> None:
    right = world.torch.mm
    world.torch.mm = lambda a, b, *, out: right(2 * a, b, out=out)
    path = tmp_path / "fast.json"
    assert peers.main(["--rung", "tiled_16", "--shape", SIZE, "--json", str(path)]) == 1
    rows = rows_of(path)
    assert rows["cublas_sgemm"].failed
    assert rows["cublas_sgemm"].time is None
    assert rows["tiled_16"].time is not None
    assert rows["tiled_16"].beside is None


def of_this_card(results: Results) -> Results:
    return replace(results, device=replace(results.device, name="Fake GPU"))


def test_peers_alone_and_into_an_existing_file(world: World, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    before = of_this_card(make_results(48, timed=True))
    save(before, path)
    assert peers.main(["--rung", "tiled_16", "--shape", SIZE, "--into", str(path)]) == 0
    after = load(path)
    assert after.runs[: len(before.runs)] == before.runs
    assert [run.rung for run in after.runs[len(before.runs) :]] == ["cublas_tf32", "cublas_sgemm"]
    assert after.created == before.created
    assert peers.main(["--shape", SIZE]) == 0


def test_without_shapes_the_peers_of_a_file_are_timed_at_its_own(world: World, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    save(of_this_card(make_results(48, timed=True, extra=(peer(64, 1e12), *unhappy_runs(32)))), path)
    assert peers.main(["--into", str(path)]) == 0
    added = [run for run in load(path).runs if run.rung.startswith("cublas") and run.check is not None]
    assert [(run.rung, run.shape.m) for run in added] == [
        ("cublas_tf32", 48), ("cublas_sgemm", 48), ("cublas_tf32", 64), ("cublas_sgemm", 64),
    ]  # fmt: skip
    assert all(run.time is not None for run in added)


def test_a_file_is_left_as_it_is_without_a_gpu_or_cublas(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "r.json"
    save(make_results(48), path)
    assert peers.main(["--into", str(path)]) == 0
    assert capsys.readouterr().err == f"peers: none added: {path} was emulated, and cuBLAS is not\n"
    save(make_results(48, timed=True), path)
    assert peers.main(["--into", str(path)]) == 2
    assert f"{path} is of NVIDIA H200, and this is Fake GPU" in capsys.readouterr().err
    save(of_this_card(make_results(48, timed=True)), path)
    before = path.read_bytes()
    monkeypatch.setitem(sys.modules, "torch", None)
    assert peers.main(["--into", str(path)]) == 0
    assert "none added: neither nvmath-python nor torch" in capsys.readouterr().err
    monkeypatch.setattr("ladder.backends.gpu.find_gpu", lambda: "no NVIDIA driver")
    assert peers.main(["--into", str(path)]) == 0
    assert capsys.readouterr().err == "peers: none added: no NVIDIA driver\n"
    assert path.read_bytes() == before
    assert peers.main(["--shape", SIZE]) == 2


def test_a_record_holds_every_row_that_is_done(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is killed half-way has lost nothing but the row under way."""
    path = tmp_path / "fast.json"
    kept: list[list[str]] = []
    tell = peers._tell

    def told(row: Run) -> None:
        kept.append(list(rows_of(path)) if path.exists() else [])
        tell(row)

    monkeypatch.setattr(peers, "_tell", told)
    assert peers.main(["--rung", "tiled_16", "--shape", SIZE, "--shape", "32x32x32", "--json", str(path)]) == 0
    assert kept[:4] == [[], ["cublas_tf32"], ["cublas_tf32", "tiled_16"], ["cublas_tf32", "tiled_16", "cublas_sgemm"]]


@pytest.mark.parametrize(
    ("mangled", "plain"),
    [
        (
            "_ZN7cutlass7Kernel2I43cutlass_80_simt_sgemm_256x128_8x4_nn_align1EEvNT_6ParamsE",
            "cutlass_80_simt_sgemm_256x128_8x4_nn_align1",
        ),
        ("_ZN8cublasLt19splitKreduce_kernelILi32ELi16EifffLb0EEEvT_", "splitKreduce_kernel"),
        (
            "sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x16",
            "sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x16",
        ),
        ("_Z99", "_Z99"),
    ],
)
def test_kernels_have_plain_names(mangled: str, plain: str) -> None:
    assert plain_name(mangled) == plain


@pytest.fixture
def nvmath(world: World, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """A double of the bindings of cuBLAS, column-major; the math mode and the sizes of each product."""
    calls: list[tuple[int, ...]] = []
    state: dict[str, Any] = {}

    def sgemm(handle: int, ta: int, tb: int, m: int, n: int, k: int, *rest: int) -> None:
        alpha, a, lda, b, ldb, beta, c, ldc = rest
        assert (handle, ta, tb, lda, ldb, ldc) == (5, 0, 0, m, k, m)
        assert (floats(alpha, 1)[0], floats(beta, 1)[0]) == (1, 0)
        assert state["stream"] == 7
        assert state["workspace"] == 32 * 2**20
        left, right = floats(a, m * k).reshape(k, m), floats(b, k * n).reshape(n, k)
        if world.cuda.capturing is None:
            floats(c, m * n).reshape(n, m)[...] = right @ left
        calls.append((state["mode"], m, n, k))
        world.cuda.now_s += 2e-3

    cublas: Any = ModuleType("nvmath.bindings.cublas")
    vars(cublas).update(
        create=lambda: 5, destroy=lambda _: state.clear(), sgemm=sgemm, cuBLASError=OSError,
        set_stream=lambda _, stream: state.update(stream=stream), Operation=SimpleNamespace(N=0),
        set_workspace=lambda _, at, size: state.update(workspace=size, at=at),
        set_math_mode=lambda _, mode: state.update(mode=mode),
        Math=SimpleNamespace(DEFAULT_MATH=0, TF32_TENSOR_OP_MATH=3),
    )  # fmt: skip
    bindings: Any = ModuleType("nvmath.bindings")
    bindings.cublas = cublas
    monkeypatch.setitem(sys.modules, "nvmath", ModuleType("nvmath"))
    monkeypatch.setitem(sys.modules, "nvmath.bindings", bindings)
    return calls


@pytest.mark.parametrize("torch", [True, False])
def test_nvmath_comes_first_with_torch_or_without(
    torch: bool, world: World, nvmath: list[tuple[int, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not torch:
        monkeypatch.setitem(sys.modules, "torch", None)
    path = tmp_path / "fast.json"
    assert peers.main(["--rung", "tiled_16", "--shape", SIZE, "--json", str(path)]) == 0
    rows = rows_of(path)
    assert list(rows) == ["cublas_tf32", "tiled_16", "cublas_sgemm"]
    for row in rows.values():
        assert row.check is not None
        assert row.check.passed
    assert rows["tiled_16"].speedup == pytest.approx(2)
    # The transposes: N of the row-major product is cuBLAS's m.
    assert set(nvmath) == {(0, 64, 48, 36), (3, 64, 48, 36)}
    assert world.order.count("highest") == 0
    gc.collect()
    assert world.cuda.live == []


def test_a_product_that_cublas_refuses_is_an_error_in_one_line(
    world: World, nvmath: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: int) -> None:
        raise OSError("CUBLAS_STATUS_INVALID_VALUE")

    monkeypatch.setattr(sys.modules["nvmath.bindings"].cublas, "sgemm", refuse)
    assert peers.main(["--shape", SIZE]) == 1
    assert capsys.readouterr().err == f"peers: cuBLAS at {SIZE}: CUBLAS_STATUS_INVALID_VALUE\n"


def test_without_the_library_of_cublas_torch_is_taken(
    world: World, nvmath: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> int:
        raise RuntimeError("libcublas is not found")

    monkeypatch.setattr(sys.modules["nvmath.bindings"].cublas, "create", missing)
    with library(peers.CudaBackend()) as lib:
        assert lib.through == "torch"


def test_tuned_parameters_of_the_class_are_taken_and_told(world: World, tmp_path: Path) -> None:
    mine = tmp_path / "mine.cu"
    mine.write_text(RUNG.replace("min_cc = 100", "min_cc = 75"))
    (rung,) = catalog.parse_file(mine)
    found = entry(
        card="Fake GPU", rung="mine", shape=SHAPE, shape_class=shape_class(SHAPE, 4), params={"BK": 16},
        declared={"BK": 8}, code_sha256=catalog.code_sha256(rung),
    )  # fmt: skip
    record, path = tmp_path / "tuned.json", tmp_path / "fast.json"
    merge_tuned(record, [found])
    words = ["--rung", str(mine), "--json", str(path), "--tuned", str(record), "--shape"]
    assert peers.main([*words, SIZE]) == 0
    assert rows_of(path)["mine"].params == {"BM": 16, "BN": 16, "BK": 16, "NUM_THREADS": 256}
    assert peers.main([*words, "48x64x200"]) == 0
    assert rows_of(path)["mine"].params is None
    mine.write_text(mine.read_text().replace("{}", "{ ; }"))
    assert peers.main([*words, SIZE]) == 0
    assert rows_of(path)["mine"].params is None


def test_without_torch_rungs_are_timed_alone_and_one_line_says_so(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    path = tmp_path / "fast.json"
    assert peers.main(["--rung", "tiled_16", "--shape", SIZE, "--json", str(path)]) == 0
    (row,) = load(path).runs
    assert row.time is not None
    assert row.beside is None
    told = capsys.readouterr().err
    assert len(told.splitlines()) == 1
    assert "pip install torch" in told


@pytest.mark.parametrize("words", [[], ["--rung", "tiled_16", "--errors"]])
def test_without_torch_peers_and_errors_are_refused(
    words: list[str], world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert peers.main([*words, "--shape", SIZE]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    with pytest.raises(InputError, match="pip install torch"), library(peers.CudaBackend()):
        pass


def test_errors_are_compared_and_written(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("bench.side_by_side.RESULTS", tmp_path)
    assert peers.main(["--rung", "tiled_16", "--shape", SIZE, "--errors"]) == 0
    path = tmp_path / "fake-gpu" / "errors.json"
    record = json.loads(path.read_text())
    assert record["schema"] == "ladder-errors/1"
    assert record["device"]["name"] == "Fake GPU"
    rows = {(row["name"], row["data"]): row for row in record["rows"]}
    assert len(rows) == len(record["rows"]) == 9
    for (name, _), row in rows.items():
        low, high = (1e-5, 1e-3) if name == "cublas_tf32" else (1e-9, 1e-6)
        assert low < row["normwise"] < high
        assert low < row["equilibrated"] < high
        assert row["shape"] == SIZE
        assert row["kind"] == ("rung" if name == "tiled_16" else "peer")
    assert f"errors are in {path}" in capsys.readouterr().out


def test_an_error_that_is_no_number_is_null(world: World, tmp_path: Path) -> None:
    world.cuda.kernels["tiled_16"] = lambda _: None
    path = tmp_path / "e.json"
    assert peers.main(["--rung", "tiled_16", "--shape", SIZE, "--errors", str(path)]) == 0
    rows = [row for row in json.loads(path.read_text())["rows"] if row["name"] == "tiled_16"]
    assert [row["normwise"] for row in rows] == [None] * 3


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--shape", "5x0x7"], "shape 5x0x7 is empty"),
        (["--shape", "5"], "is not MxNxK"),
        (["--rung", "tiled_17"], "no rung is called 'tiled_17'"),
        (["--into", "none.json"], "cannot read none.json"),
        (["--tuned", "none.json"], "cannot read none.json"),
    ],
)
def test_wrong_words_end_in_one_line(
    words: list[str], told: str, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert peers.main(words) == 2
    err = capsys.readouterr().err
    assert told in err
    assert len(err.splitlines()) == 1
