"""Stream kernels: their declarations, formulas and references."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ladder import laws
from ladder.catalog import cuda_src, load_catalog
from ladder.catalog._formula import evaluate, names, roundings
from ladder.catalog.streams import load_streams, parse_stream, reference
from ladder.errors import CatalogError, InputError
from ladder.experiments.streaming import arguments, data, judge

FOLDER = cuda_src() / "laws" / "streams"
STREAMS = load_streams(FOLDER)
BY_NAME = {stream.name: stream for stream in STREAMS}
each_stream = pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name)

INTENSITY = {
    "copy": laws.copy(),
    "dot": laws.dot(),
    "saxpy": laws.saxpy(),
    "transpose_naive": laws.copy(),
    "transpose_padded": laws.copy(),
    "transpose_tiled": laws.copy(),
    "vector_add": laws.vector_add(),
    "vector_add_strided": laws.vector_add(),
}


def test_every_file_of_the_folder_is_a_stream_and_none_a_rung() -> None:
    assert [stream.path for stream in STREAMS] == sorted(FOLDER.glob("*.cu"))
    assert not {stream.name for stream in STREAMS} & {rung.name for rung in load_catalog()}
    assert INTENSITY.keys() == BY_NAME.keys()


@each_stream
def test_its_declared_work_and_bytes_give_the_intensity_of_its_law(stream) -> None:
    n = 2**22 if stream.name == "dot" else 2**10
    found = stream.at(stream.flop, n) / stream.at(stream.asked_bytes, n)
    # A dot product adds one word a block to its result, beside 4096 elements.
    assert found == pytest.approx(INTENSITY[stream.name], rel=1e-3)


def test_lanes_in_sectors_of_their_own_leave_an_eighth() -> None:
    stream, n = BY_NAME["vector_add_strided"], 2**15
    assert stream.at(stream.flop, n) / stream.at(stream.l1_bytes, n) == laws.strided(laws.vector_add())


@each_stream
def test_numpy_passes_and_a_wrong_element_does_not(stream) -> None:
    n = stream.largest(2**16)
    before = data(stream, n)
    after = {name: array.copy() for name, array in before.items()}
    inputs = {name: array for name, array in before.items() if name != stream.target or stream.reads_target}
    after[stream.target][...] = reference(stream, inputs)
    assert judge(stream, before, after) is None
    after[stream.target][-1] += 0.5
    assert f"{stream.target}[" in (judge(stream, before, after) or "")
    after[stream.target][-1] = np.nan
    assert judge(stream, before, after) is not None
    after[stream.arrays[0]][0] += 1
    if stream.arrays[0] != stream.target:
        assert judge(stream, before, after) == f"input {stream.arrays[0]} was overwritten"


def test_a_target_that_nobody_writes_is_found() -> None:
    stream = BY_NAME["vector_add"]
    before = data(stream, 1024)
    assert judge(stream, before, before) is not None


def test_a_large_array_repeats_itself_and_a_small_one_does_not() -> None:
    stream = BY_NAME["copy"]
    x = data(stream, 2**23, periodic=True)["x"]
    assert np.array_equal(x[: 2**22], x[2**22 :])
    assert len(np.unique(data(stream, 2**10)["x"])) > 1000


def test_arguments_follow_the_signature() -> None:
    assert arguments(BY_NAME["saxpy"], 64) == [2.5, "x", "y", 64]
    assert BY_NAME["saxpy"].reads_target
    assert not BY_NAME["vector_add"].reads_target
    assert BY_NAME["dot"].zeroed


def test_sizes_are_multiples_and_fill_what_they_may() -> None:
    strided = BY_NAME["vector_add_strided"]
    with pytest.raises(InputError, match=r"n % 1024 == 0; got 1000: round it up"):
        strided.grid_at(1000)
    assert strided.grid_at(2048) == (8, 1, 1)
    assert BY_NAME["transpose_naive"].grid_at(96) == (3, 3, 1)
    assert BY_NAME["vector_add"].largest(12 * 1000) == 896  # 7/4 of 512
    assert BY_NAME["vector_add"].largest(12 * 3) == 2
    assert BY_NAME["vector_add_strided"].largest(1) == 1024
    assert BY_NAME["dot"].grid_at(4097) == (2, 1, 1)


def test_formulas() -> None:
    x, y = np.arange(4.0), np.ones(4)
    assert evaluate("a * x + y", {"a": 2.0, "x": x, "y": y}).tolist() == [1, 3, 5, 7]
    assert evaluate("sum(x * (x - y))", {"x": x, "y": y}) == 8
    assert evaluate("transpose(x)", {"x": x}).tolist() == [0, 2, 1, 3]
    assert names("a * x + sum(y)") == {"a", "x", "y"}
    assert (roundings("x", 9), roundings("a * x + y", 9), roundings("sum(x * y)", 9)) == (0, 2, 10)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x / y", "is no name, sum, difference or product"),
        ("max(x)", "is no name, sum, difference or product"),
        ("x +", "is no formula of arrays"),
        ("z", "z is neither an array nor a scalar"),
        ("x.T", "is no name"),
        ("__import__('os')", "is no name"),
    ],
)
def test_what_is_no_formula_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        evaluate(text, {"x": np.ones(4), "y": np.ones(4)})
    with pytest.raises(ValueError, match="no square matrix"):
        evaluate("transpose(x)", {"x": np.ones(5)})


SOURCE = (FOLDER / "saxpy.cu").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("// /// stream", "// /// rung", "no declaration; add comment lines that start with `// /// stream`"),
        ("// title ", "// titel ", "key 'titel': unknown key"),
        ('"saxpy"\n// params', '"sxapy"\n// params', r"no __global__ function 'sxapy' in this file \(found: saxpy\)"),
        ("unsigned n", "unsigned m", "argument `unsigned m` of saxpy .* give pointers to float"),
        ("float a,", "double a,", "argument `double a`"),
        ("NUM_THREADS = 256 }", "THREADS = 256 }", "key 'params'"),
        ("{ NUM_THREADS = 256 }", "{ NUM_THREADS = 2048 }", "key 'block': 2048 threads a block"),
        ('["n / NUM_THREADS"]', '["n"]', "key 'grid'"),
        ('["n / NUM_THREADS"]', '["m / NUM_THREADS"]', "key 'grid': m is no parameter"),
        ('{ x = "n", y = "n" }', '{ x = "n" }', "key 'elements'"),
        ("{ a = 2.5 }", "{ b = 2.5 }", "key 'scalars'"),
        ("a * x + y", "a * x + w", "unknown w|w is neither"),
        ('{ y = "a * x + y" }', '{ x = "a * x + y" }', "key 'computes'"),
        ('"2 * n"', '"2 * blocks * m"', "key 'flop'"),
        ('"12 * n"', '"12 * n - 13 * n"', "key 'asked_bytes'"),
        ("const float* __restrict__ x", "float* __restrict__ x", "2 pointers that are not to const"),
    ],
)
def test_a_malformed_declaration_is_refused_with_file_and_key(
    tmp_path: Path, before: str, after: str, words: str
) -> None:
    path = tmp_path / "mine.cu"
    assert before in SOURCE
    path.write_text(SOURCE.replace(before, after), encoding="utf-8")
    with pytest.raises(CatalogError, match=words) as refused:
        parse_stream(path)
    assert str(path) in str(refused.value)
