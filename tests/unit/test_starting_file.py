"""The file that ``ladder new`` writes: right as it stands, renamed from its first line to its kernel."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.cu import declaration, plain, tiled, write
from helpers.kernels import emulator

from ladder.catalog import code_lines, cuda_src, find, load_catalog, parse_file, prose_fields, starting_file
from ladder.check import prove
from ladder.errors import InputError
from ladder.model import Rung, Shape
from ladder.nvrtc import compile_rung

FILES = {rung.path.name: rung for rung in load_catalog()}


def parsed(text: str, path: Path) -> tuple[Rung, ...]:
    return parse_file(write(path, text))


def test_the_small_one_is_renamed_throughout(tmp_path: Path) -> None:
    text = starting_file("my_tile")
    (rung,) = parsed(text, tmp_path / "my_tile.cu")
    assert (rung.name, rung.kernel, rung.title, rung.number) == ("my_tile", "my_tile", "My tile", 0)
    assert text.startswith("// my_tile.cu -- ")
    assert "starter" not in text.lower()
    assert set(prose_fields(rung)) == {"summary", "removes", "how", "leaves", "source"}


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90"])
@pytest.mark.parametrize("shape", ["64x64x64", "33x17x9", "1x1x1", "16x16x0", "47x1x130"])
def test_the_small_one_is_right_at_any_shape(shape: str, arch: str, tmp_path: Path) -> None:
    (rung,) = parsed(starting_file("my_tile"), tmp_path / "my_tile.cu")
    kernel = compile_rung(rung, arch=arch)
    assert kernel.resources.spill_bytes == 0
    check = prove(emulator(), kernel, Shape.parse(shape))
    assert check.passed, check.failure


def test_a_number_gives_a_place_on_the_ladder(tmp_path: Path) -> None:
    free = max(rung.number for rung in load_catalog()) + 1
    (rung,) = parsed(starting_file(f"{free}_my_tile"), tmp_path / f"{free}_my_tile.cu")
    assert (rung.name, rung.kernel, rung.number) == ("my_tile", "my_tile", free)


@pytest.mark.parametrize("file", FILES)
def test_a_copy_compiles_to_the_same_code_under_its_own_name(file: str, tmp_path: Path) -> None:
    like = FILES[file]
    text = starting_file("zz_mine", like=like)
    copies = parsed(text, tmp_path / "zz_mine.cu")
    originals = [rung for rung in load_catalog() if rung.path == like.path]
    assert len(copies) == len(originals)
    for copy, original in zip(copies, originals, strict=True):
        assert copy.name == "zz_mine" + original.name.removeprefix(re.sub(r"^\d+_", "", original.path.stem))
        assert copy.kernel == "zz_mine"
        assert copy.title.startswith("Zz mine")
        assert (copy.params, copy.tile, copy.block, copy.law) == (
            original.params,
            original.tile,
            original.block,
            original.law,
        )
    assert len({copy.title for copy in copies}) == len(copies)
    here, there = code_lines(text), code_lines(like.source)
    assert [line.replace("zz_mine", like.kernel) for line in here] == there
    first, second, *_ = text.splitlines()
    assert first == f"// zz_mine.cu -- what is new here, in a line. It began as a copy of {file}:"
    assert like.source.splitlines()[0].endswith(second.removeprefix("// "))
    arch = like.arch or "sm_90"
    ours, theirs = (compile_rung(rungs[0], arch=arch).resources for rungs in (copies, originals))
    # NVRTC does not make the same code of the same text every time: registers differ by some, at most by the eight in
    # which they are allotted. That the text is the same, the lines above say.
    assert replace(ours, registers=theirs.registers) == theirs
    assert abs(ours.registers - theirs.registers) <= 8


def test_comments_and_literals_keep_the_word(tmp_path: Path) -> None:
    kernel = (
        "// tiled is tiled\n"
        "template <int T, int NUM_THREADS>\n"
        "__global__ void tiled(const float* A, const float* B, float* C, int M, int N, int K) {\n"
        '  asm volatile("// tiled");  /* tiled */\n'
        "  if (M == K && N == K) C[0] = A[0] * B[0];\n"
        "}\n"
    )
    (like,) = parse_file(tiled(tmp_path, kernel_text=kernel))
    text = starting_file("mine_too", like=like)
    assert "// tiled is tiled\n" in text
    assert 'asm volatile("// tiled");  /* tiled */' in text
    assert "__global__ void mine_too(" in text


def test_a_file_without_a_first_line_gets_one(tmp_path: Path) -> None:
    (like,) = parse_file(plain(tmp_path, "bare.cu"))
    text = starting_file("mine_too", like=like)
    assert text.splitlines()[0] == "// mine_too.cu -- what is new here, in a line. It began as a copy of bare.cu."
    (rung,) = parsed(text, tmp_path / "mine_too.cu")
    assert (rung.kernel, rung.title) == ("mine_too", "Mine too")


def test_a_kernel_in_a_namespace_stays_there(tmp_path: Path) -> None:
    kernel = (
        "namespace deep {\n"
        "__global__ void plain(const float* A, const float* B, float* C, int M, int N, int K) {\n"
        "  if (M == K && N == K) C[0] = A[0] * B[0];\n"
        "}\n"
        "}\n"
    )
    (like,) = parse_file(plain(tmp_path, kernel_text=kernel, kernel='"deep::plain"'))
    (rung,) = parsed(starting_file("mine_too", like=like), tmp_path / "mine_too.cu")
    assert rung.kernel == "deep::mine_too"


def test_a_key_that_cannot_be_renamed_is_named_with_its_line(tmp_path: Path) -> None:
    text = declaration(kernel='"plain"', tile="[16, 16]", block="[16, 16]", title='"""\n// Plain"""')
    body = "__global__ void plain(const float* A, const float* B, float* C, int M, int N, int K) {}\n"
    (like,) = parse_file(write(tmp_path / "odd.cu", text + body))
    with pytest.raises(InputError, match=r"odd\.cu:5: key 'title' is not written as `title = \"text\"`.*write it so"):
        starting_file("mine_too", like=like)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "cannot name a kernel"),
        ("7", "cannot name a kernel"),
        ("7up", "18_my_tile"),
        ("my-tile", "letters, digits and underscores"),
        ("my tile", "letters, digits and underscores"),
        ("kächele", "letters, digits and underscores"),
        ("_mine", "a letter first"),
        ("mine.cu", "without its ending: mine"),
        (".cu", "without its ending: my_tile"),
        ("sub/mine", "--dir"),
        ("sub\\mine", "--dir"),
        ("float", "means something in CUDA C\\+\\+; choose another name, such as my_float"),
        ("3_while", "means something"),
        ("float4", "means something"),
        ("main", "means something"),
        ("nul", "a device on Windows"),
        ("Com1", "a device on Windows"),
        ("naive", "a rung of the ladder already; choose another name, such as my_naive"),
        ("tiled", "a rung of the ladder already"),
        ("tiled_32", "a rung of the ladder already"),
        ("99_tiled_32", "a rung of the ladder already"),
        ("7_mine", r"7 is the number of 07_register_tile\.cu; the next that is free is \d\d$"),
        ("017_mine", "17 is the number of 17_split_tensor.cu"),
        ("x" * 65, "65 characters long; the limit is 64"),
        ("acc", "uses the name 'acc' for something else; choose another name"),
        ("As", "for something else"),
        ("fmaf", "for something else"),
    ],
)
def test_bad_names_are_refused_with_the_way_out(name: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        starting_file(name)


def test_a_name_that_the_copied_file_uses_is_refused() -> None:
    (like,) = find(["vectorized"])
    with pytest.raises(InputError, match=r"08_vectorized\.cu uses the name 'fetch'"):
        starting_file("fetch", like=like)


def test_the_starter_fits_the_line_length_and_is_no_rung_of_the_ladder() -> None:
    path = cuda_src() / "starter.cu"
    assert all(len(line) <= 120 for line in path.read_text(encoding="utf-8").splitlines())
    assert path not in {rung.path for rung in load_catalog()}


def test_code_lines_leave_comments_and_empty_lines_out() -> None:
    source = '// a\nint x;  // b\n\n/* c\n d */ int y; \n  const char* s = "// kept";\n'
    assert code_lines(source) == ["int x;", "  int y;", '  const char* s = "// kept";']
