"""The tuner, with doubles of CUDA and torch whose clock is known: what is left out, proved, timed and recorded."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType

import pytest
from helpers.fake_backend import fake_kernel
from helpers.fake_cuda import FakeCuda, Launch, installed, multiply
from helpers.fake_torch import fake_torch, view_of
from helpers.tuned import entry

from bench import candidates, tune
from ladder import catalog
from ladder.backends import device_arrays, timing
from ladder.backends.cuda import CudaBackend
from ladder.errors import InputError
from ladder.model import Rung, Shape
from ladder.nvrtc import Compiled, compile_rung
from ladder.shapes import shape_class
from ladder.tuned import Tuned, load_tuned, merge_tuned

SIZE = "48x64x36"
SHAPE = Shape.parse(SIZE)
SGEMM_S = 2e-3

SOURCE = """
// /// rung
// title      = "Mine"
// kernel     = "mine"
// params     = { BM = 16, BN = 16, BK = 8, NUM_THREADS = 256 }
// tune       = { BK = [8, 16, 24, 32, 64, 227], NUM_THREADS = [256, 128] }
// smem_bytes = "1024 * BK"
// ///
template <int BM, int BN, int BK, int NUM_THREADS>
__global__ void mine(const float* A, const float* B, float* C, int M, int N, int K) {
  static_assert(BK != 64, "no");
  __shared__ float words[256];
  words[threadIdx.x] = A[threadIdx.x];
  __syncthreads();
  C[threadIdx.x] = words[255 - threadIdx.x];
}
"""


@dataclass
class World:
    """The doubles; seconds a launch by (BK, NUM_THREADS), and the shapes at which a BK is wrong."""

    cuda: FakeCuda
    torch: ModuleType
    folder: Path
    seconds: dict[tuple[int, int], float] = field(default_factory=dict)
    wrong: dict[int, Shape | None] = field(default_factory=dict)
    launches: list[tuple[int, int, Shape]] = field(default_factory=list)

    def rung(self, source: str = SOURCE) -> Rung:
        path = self.folder / "mine.cu"
        path.write_text(source)
        return catalog.parse_file(path)[0]

    def tuned(self, *words: str) -> tuple[int, tuple[Tuned, ...]]:
        out = self.folder / "tuned.json"
        code = tune.main([str(self.folder / "mine.cu"), *(words or ("--shape", SIZE)), "--out", str(out)])
        return code, load_tuned(out) if out.exists() else ()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[World]:
    monkeypatch.setattr(timing, "WARM_S", 0)
    monkeypatch.setattr(timing, "MAX_WARM_S", 0)
    monkeypatch.setattr(device_arrays, "_view", view_of)
    monkeypatch.setattr(device_arrays, "find_gpu", lambda: None)
    device_arrays._gpu.cache_clear()
    with installed() as cuda:

        def enqueued(_precision: str) -> None:
            cuda.now_s += SGEMM_S

        def mine(launch: Launch) -> None:
            _, _, bk, threads = (int(text) for text in re.findall(r"Li(\d+)E", launch.lowered))
            m, n, k = (int(size) for size in launch.arguments[3:])
            shape = Shape(m=m, n=n, k=k)
            made.launches.append((bk, threads, shape))
            multiply(launch)
            if bk in made.wrong and made.wrong[bk] in {None, shape}:
                launch.operands()[2][0, 0] += 1
            cuda.now_s += made.seconds.get((bk, threads), 3e-3) - 1e-3

        made = World(cuda, fake_torch(enqueued=enqueued), tmp_path)
        cuda.kernels["mine"] = mine
        monkeypatch.setitem(sys.modules, "torch", made.torch)
        made.rung()
        yield made
    device_arrays._gpu.cache_clear()


@pytest.fixture
def spilling(monkeypatch: pytest.MonkeyPatch) -> None:
    """BK = 32 spills."""

    def compiled(rung: Rung, *, arch: str) -> Compiled:
        found = compile_rung(rung, arch=arch)
        spill_bytes = 16 if rung.params["BK"] == 32 else 0
        return replace(found, resources=replace(found.resources, spill_bytes=spill_bytes))

    monkeypatch.setattr(candidates, "compile_rung", compiled)


def test_the_best_is_recorded_with_what_was_left_out(
    world: World, spilling: None, capsys: pytest.CaptureFixture[str]
) -> None:
    world.seconds = {(8, 256): 4e-3, (16, 128): 2.5e-3, (32, 256): 1e-3, (32, 128): 1e-3}
    code, (found,) = world.tuned()
    assert code == 0
    assert dict(found.params) == {"BK": 16, "NUM_THREADS": 128}
    assert dict(found.declared) == {"BK": 8, "NUM_THREADS": 256}
    assert found.gain == pytest.approx(4 / 2.5)
    assert found.flop_per_s == pytest.approx(SHAPE.flop / 2.5e-3)
    assert found.ratio_to_cublas == pytest.approx(2 / 2.5)
    assert found.tried == 5
    assert dict(found.left_out) == {"spills registers": 2, "does not compile": 2, "does not fit an SM": 2}
    rung = world.rung()
    assert found.source_sha256 == hashlib.sha256(SOURCE.encode()).hexdigest()
    assert found.code_sha256 == catalog.code_sha256(rung)
    assert (found.card, found.driver, found.shape) == ("Fake GPU", "580.1", SHAPE)
    assert found.shape_class == shape_class(SHAPE, 4)
    assert found.samples >= 7
    told = capsys.readouterr().out
    assert "BK=16 NUM_THREADS=128" in told
    assert "1.600 x declared, 0.800 x cuBLAS; 5 tried" in told
    assert "2 does not fit an SM" in told
    assert not any(bk == 32 for bk, _, _ in world.launches)
    assert world.cuda.live == []
    assert (world.folder / "mine.cu").read_text() == SOURCE


def test_each_is_proved_before_it_is_timed(world: World) -> None:
    world.tuned()
    small = candidates.ragged(world.rung())
    for params in {(bk, threads) for bk, threads, _ in world.launches}:
        own = [shape for bk, threads, shape in world.launches if (bk, threads) == params]
        assert {(shape.m, shape.n) for shape in own[:3]} == {(small.m, small.n)}
        assert own[3:6] == [SHAPE] * 3
    assert {shape.k % 8 for _, _, shape in world.launches if shape != SHAPE} == {7}


def test_the_declared_parameters_stay_unless_others_win_by_more_than_noise(world: World) -> None:
    world.seconds = {(8, 256): 2.5e-3, (16, 256): 2.49e-3}
    _, (found,) = world.tuned()
    assert found.params == found.declared
    assert found.gain == 1
    world.seconds[16, 256] = 2.48e-3
    _, (found,) = world.tuned()
    assert dict(found.params) == {"BK": 16, "NUM_THREADS": 256}


@pytest.mark.parametrize("at", [None, SHAPE], ids=["everywhere", "at the shape alone"])
def test_a_wrong_candidate_is_told_and_never_timed(
    at: Shape | None, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.wrong = {24: at}
    world.seconds = {(24, 256): 1e-3, (24, 128): 1e-3}
    code, (found,) = world.tuned()
    assert code == 1
    assert found.left_out["wrong"] == 2
    assert found.params["BK"] != 24
    told = capsys.readouterr().out
    assert "WRONG: mine with BK=24 NUM_THREADS=256: " in told
    assert "C[row 0, column 0]" in told
    assert sum(bk == 24 for bk, _, _ in world.launches) <= 8


def test_a_rung_that_is_wrong_as_declared_is_not_tuned(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    for at, words in ((None, "does not work as it is declared: wrong"), (SHAPE, "is wrong as it is declared")):
        world.wrong = {8: at}
        assert world.tuned() == (1, ())
        assert words in capsys.readouterr().err


def test_values_that_the_declaration_refuses_are_counted(world: World) -> None:
    world.rung(SOURCE.replace("[256, 128]", "[256, 2048]"))
    _, (found,) = world.tuned()
    assert found.left_out["the declaration does not allow it"] == 6


def test_a_class_has_one_entry_and_others_stay(world: World) -> None:
    other = entry(512, card="Fake GPU")
    merge_tuned(world.folder / "tuned.json", [other])
    same_class = Shape(m=47, n=60, k=32)
    assert shape_class(same_class, 4) == shape_class(SHAPE, 4)
    code, found = world.tuned("--shape", SIZE, "--shape", str(same_class), "--shape", "48x64x200")
    assert code == 0
    assert {(t.rung, str(t.shape)) for t in found} == {
        ("fast", "512x512x512"), ("mine", "47x60x32"), ("mine", "48x64x200"),
    }  # fmt: skip


def test_what_the_time_does_not_reach_is_counted(world: World) -> None:
    code, (found,) = world.tuned("--shape", SIZE, "--limit-s", "0")
    assert code == 0
    assert found.tried == 0
    assert found.left_out["no time left"] + found.left_out.get("does not compile", 0) == 11
    assert found.params == found.declared
    assert found.ratio_to_cublas == pytest.approx(2 / 3)


def test_a_candidate_may_support_fewer_shapes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    why = tune.why_skipped
    monkeypatch.setattr(tune, "why_skipped", lambda rung, *rest: "no" if rung.params["BK"] == 24 else why(rung, *rest))
    _, (found,) = world.tuned()
    assert found.left_out["does not support the shape"] == 2


def test_without_torch_large_shapes_are_proved_at_stand_ins(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr(candidates, "STAND_IN_ELEMENTS", 2**10)
    code, (found,) = world.tuned()
    assert code == 0
    assert found.ratio_to_cublas is None
    assert found.tried == 7
    told = capsys.readouterr().err
    assert len(told.splitlines()) == 1
    assert "pip install torch" in told
    proved = {shape for bk, _, shape in world.launches if bk == 8}
    assert proved >= {Shape(m=24, n=32, k=24), Shape(m=16, n=16, k=36)}


def test_stand_ins_keep_what_matters() -> None:
    rung = fake_kernel(params={"BM": 16, "BN": 16, "BK": 8, "STAGES": 4}, multiple=(1, 4, 8)).rung
    wide, deep = candidates.stand_ins(rung, Shape(m=8192, n=4096, k=4096))
    assert wide.m * wide.n <= candidates.STAND_IN_ELEMENTS
    assert (wide.m, wide.n, wide.k) == (2048, 2048, 40)
    assert deep == Shape(m=16, n=16, k=4096)
    assert candidates.ragged(rung) == Shape(m=19, n=24, k=48)
    small = Shape(m=5, n=8, k=16)
    assert candidates.stand_ins(rung, small) == (small, small)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["naive"], "rung naive declares nothing to tune; add for example"),
        (["tiled"], "tiled is 3 rungs; name one: tiled_16"),
        (["nobody"], "no rung is called 'nobody'"),
        (["naive", "--shape", "0x5x5"], "is empty"),
    ],
)
def test_wrong_words_end_in_one_line(
    words: list[str], told: str, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tune.main([*words, "--out", str(world.folder / "t.json")]) == 2
    err = capsys.readouterr().err
    assert told in err
    assert len(err.splitlines()) == 1


def test_a_rung_that_cannot_run_here_or_at_the_shape_is_not_tuned(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.rung(SOURCE.replace("// ///\n", "// min_cc = 100\n// ///\n"))
    assert world.tuned() == (2, ())
    assert "rung mine cannot be tuned here: it needs compute capability 10.0" in capsys.readouterr().err
    world.rung(SOURCE.replace("// ///\n", "// multiple = { K = 8 }\n// ///\n"))
    assert world.tuned() == (2, ())
    assert "needs K % 8 == 0; got K=36" in capsys.readouterr().err


def test_nothing_to_tune_is_an_error_before_anything_runs(world: World) -> None:
    with pytest.raises(InputError, match="declares nothing to tune"):
        candidates.Candidates.of(CudaBackend(), catalog.find(["naive"])[0], deadline=0)
    assert world.launches == []
