"""Arrays in, arrays out: what is accepted, what is copied, what is refused. The backend is a fake."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from helpers.fake_backend import FakeBackend, chain, fake_kernel

import ladder
from ladder import api
from ladder import climb as climbing
from ladder.choice import Choice
from ladder.errors import InputError, ShapeError, UnknownRungError
from ladder.model import Device, Rung, Shape


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeBackend]:
    backend = FakeBackend()
    for module in (api, climbing):
        monkeypatch.setattr(module, "open_backend", lambda _name, _profile, **_: backend)
        monkeypatch.setattr(module, "compile_rung", lambda rung, *, arch: replace(fake_kernel(), rung=rung, arch=arch))
    api._opened.cache_clear()
    api._picked.cache_clear()
    yield backend
    api._opened.cache_clear()
    api._picked.cache_clear()


def matrix(rows: int, columns: int, seed: int = 1) -> Any:
    return np.random.default_rng(seed).standard_normal((rows, columns), dtype=np.float32)


A, B = matrix(5, 7), matrix(7, 3, 2)


def test_matmul() -> None:
    c = ladder.matmul(A, B)
    assert c.dtype == np.float32
    assert c.flags.c_contiguous
    np.testing.assert_array_equal(c, chain(A, B))


VIEWS = {
    "transposed": matrix(7, 5).T,
    "strided": matrix(10, 21)[::2, ::3],
    "reversed": matrix(5, 7)[::-1, ::-1],
    "fortran": np.asfortranarray(matrix(5, 7)),
    "offset": matrix(6, 8)[1:, 1:],
    "broadcast": np.broadcast_to(matrix(1, 7), (5, 7)),
    "unaligned": np.frombuffer(b"x" + matrix(5, 7).tobytes(), dtype=np.float32, offset=1).reshape(5, 7),
    "read-only": np.frombuffer(matrix(5, 7).tobytes(), dtype=np.float32).reshape(5, 7),
    "subclass": matrix(5, 7).view(np.recarray),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_is_multiplied_as_what_it_shows(name: str) -> None:
    view = VIEWS[name]
    before = view.copy()
    np.testing.assert_array_equal(ladder.matmul(view, B), chain(np.array(view, order="C"), B))
    np.testing.assert_array_equal(ladder.matmul(B.T, view.T), chain(np.array(B.T), np.array(view.T)))
    np.testing.assert_array_equal(view, before)


@pytest.mark.parametrize("dtype", ["f8", "f2", "i4", "u1", "c8", "O", "?"])
@pytest.mark.parametrize("name", ["a", "b"])
def test_another_dtype_is_refused_with_the_fix(dtype: str, name: str) -> None:
    arrays = {"a": A, "b": B}
    arrays[name] = arrays[name].astype(dtype)
    with pytest.raises(InputError, match=rf"^{name} is {np.dtype(dtype)} .* give {name}.astype\(numpy.float32\)"):
        ladder.matmul(**arrays)


def test_swapped_bytes_are_refused() -> None:
    swapped = A.astype(A.dtype.newbyteorder("S"))
    with pytest.raises(InputError, match=r"a is float32 in swapped byte order .* give a.astype\('=f4'\)"):
        ladder.matmul(swapped, B)


@pytest.mark.parametrize("bad", [A.tolist(), 1.0, None, "matrix"])
def test_what_is_no_array_is_refused(bad: object) -> None:
    with pytest.raises(InputError, match=r"b is a .*; give a numpy array"):
        ladder.matmul(A, bad)


def test_a_masked_array_is_refused() -> None:
    with pytest.raises(InputError, match="masked"):
        ladder.matmul(np.ma.masked_less(A, 0), B)


@pytest.mark.parametrize("bad", [A[0], A[None], np.array(1, np.float32)])
def test_what_is_no_matrix_is_refused(bad: Any) -> None:
    with pytest.raises(InputError, match=rf"a has {bad.ndim} dimensions"):
        ladder.matmul(bad, B)


def test_inner_sizes_must_agree() -> None:
    with pytest.raises(ShapeError, match=r"a \(5, 7\) and b \(5, 7\) do not multiply: 7 columns and 5 rows"):
        ladder.matmul(A, A)


@pytest.mark.parametrize("sides", [(0, 3, 7), (5, 0, 7), (5, 3, 0)])
def test_empty_products(sides: tuple[int, int, int]) -> None:
    m, n, k = sides
    c = ladder.matmul(np.ones((m, k), np.float32), np.ones((k, n), np.float32))
    assert c.shape == (m, n)
    assert not c.any()


def test_out_is_filled_and_returned() -> None:
    out = np.full((5, 3), np.nan, np.float32)
    assert ladder.matmul(A, B, out=out) is out
    np.testing.assert_array_equal(out, chain(A, B))


def test_out_may_be_a_view_and_may_overlap_an_operand() -> None:
    square = matrix(7, 7)
    expected = chain(square, square)
    ladder.matmul(square, square, out=square.T)
    np.testing.assert_array_equal(square.T, expected)


@pytest.mark.parametrize(
    ("out", "words"),
    [
        (np.zeros((3, 5), np.float32), r"out is \(3, 5\) and C is \(5, 3\)"),
        (np.zeros((5, 3)), "out is float64"),
        (np.broadcast_to(np.float32(0), (5, 3)), "read-only"),
        ([[0.0] * 3] * 5, "out is a list"),
    ],
)
def test_an_out_that_does_not_fit_is_refused_before_anything_runs(out: Any, words: str, fake: FakeBackend) -> None:
    with pytest.raises(InputError, match=words):
        ladder.matmul(A, B, out=out)
    assert fake.runs == []


def test_unknown_rung() -> None:
    with pytest.raises(UnknownRungError, match="register_tile"):
        ladder.matmul(A, B, rung="registr_tile")


def test_a_sweep_is_not_one_rung() -> None:
    with pytest.raises(InputError, match="tiled_16, tiled_32, tiled_64"):
        ladder.matmul(A, B, rung="tiled")


def test_a_rung_object() -> None:
    np.testing.assert_array_equal(ladder.matmul(A, B, rung=fake_kernel().rung), chain(A, B))


def test_an_unsupported_shape_is_refused() -> None:
    picky = fake_kernel(multiple=(1, 4, 1)).rung
    with pytest.raises(ShapeError, match="needs N % 4 == 0"):
        ladder.matmul(A, B, rung=picky)


def test_without_a_name_the_rung_is_picked_and_told(caplog: pytest.LogCaptureFixture, fake: FakeBackend) -> None:
    with caplog.at_level(logging.INFO, logger="ladder"):
        np.testing.assert_array_equal(ladder.matmul(A, B), chain(A, B))
    choice = ladder.choose((5, 3, 7))
    assert choice.rung.precision == "fp32"
    assert [record.getMessage() for record in caplog.records] == [f"matmul 5x3x7 on Fake: {choice}"]
    assert fake.ran[-1] == choice.rung


def test_a_named_rung_is_not_told_and_precision_does_not_matter(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="ladder"):
        ladder.matmul(A, B, rung="tiled_16", precision="tf32")
    assert caplog.records == []


def test_precision_picks(monkeypatch: pytest.MonkeyPatch, fake: FakeBackend) -> None:
    asked: list[tuple[Shape, str, Device, int]] = []
    split = replace(fake_kernel().rung, name="split", precision="fp32_split")

    def pick(shape: Shape, precision: str, device: Device, *, address_bytes: int) -> Choice:
        asked.append((shape, precision, device, address_bytes))
        return Choice(rung=split, reason="a test")

    monkeypatch.setattr(api, "pick", pick)
    api._picked.cache_clear()
    for _ in range(2):
        np.testing.assert_array_equal(ladder.matmul(A, B, precision="fp32_split"), chain(A, B))
    assert fake.ran[-1].name == "split"
    assert str(ladder.choose("5x3x7", precision="fp32_split")) == "split: a test"
    assert asked == [(Shape(m=5, n=3, k=7), "fp32_split", fake.device, 256)]


def test_an_unknown_precision_is_refused(fake: FakeBackend) -> None:
    wrong: Any = "fp64"
    with pytest.raises(InputError, match="no precision is called 'fp64'"):
        ladder.matmul(A, B, precision=wrong)
    assert fake.runs == []


@pytest.mark.parametrize("shape", ["5x3", (5, 3), (5, 3, -1)])
def test_choose_refuses_a_malformed_shape(shape: Any) -> None:
    with pytest.raises(ShapeError):
        ladder.choose(shape)


def test_arrays_on_two_sides_are_refused() -> None:
    on_gpu = SimpleNamespace(__cuda_array_interface__={})
    with pytest.raises(InputError, match="b is ndarray on the CPU and the other is on a GPU"):
        ladder.matmul(on_gpu, B)


def test_arrays_on_a_gpu_cannot_be_emulated() -> None:
    on_gpu = SimpleNamespace(__dlpack_device__=lambda: (2, 0))
    with pytest.raises(InputError, match="arrays on a GPU run there"):
        ladder.matmul(on_gpu, on_gpu, backend="emulated")


@pytest.mark.parametrize("shape", ["5x3x7", Shape(m=5, n=3, k=7), (5, 3, 7)])
def test_run_gives_a_row(shape: Any) -> None:
    row = ladder.run("tiled_32", shape)
    assert row.rung == "tiled_32"
    assert row.shape == Shape(m=5, n=3, k=7)
    assert row.check is not None
    assert row.check.passed


@pytest.mark.parametrize("shape", ["5x3", (5, 3), (5, 3, -1), (5, 3, 1.5)])
def test_run_refuses_a_malformed_shape(shape: Any) -> None:
    with pytest.raises(ShapeError):
        ladder.run("tiled_32", shape)


def test_everything_public_is_there() -> None:
    for name in ladder.__all__:
        assert getattr(ladder, name) is not None
        assert name in dir(ladder)
    assert ladder.Rung is Rung


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'matmult'"):
        ladder.matmult  # noqa: B018


def test_importing_the_package_is_light() -> None:
    root = Path(ladder.__file__).parents[1]
    code = "import sys, ladder; print([m for m in ('numpy', 'scipy', 'matplotlib', 'cuda') if m in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
