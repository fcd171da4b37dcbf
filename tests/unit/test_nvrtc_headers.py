"""Which headers the cache's key follows."""

from __future__ import annotations

from pathlib import Path

from helpers.cu import write

from ladder.nvrtc._headers import included


def found(source: str, folder: Path, *include_path: Path) -> set[Path]:
    return set(included(source, folder=folder, include_path=include_path))


def test_headers_are_followed_beside_the_file_and_along_the_path(tmp_path: Path) -> None:
    here, common = tmp_path / "here", tmp_path / "common"
    here.mkdir()
    common.mkdir()
    a = write(here / "a.cuh", '#include "b.cuh"\n')
    b = write(common / "b.cuh", "  #  include <c.cuh>\n")
    c = write(common / "c.cuh", '#include "a.cuh"\n')  # a circle must end
    assert found('#include "a.cuh"\n', here, common, here) == {a, b, c}


def test_a_header_beside_its_includer_wins(tmp_path: Path) -> None:
    folder, sub = tmp_path, tmp_path / "sub"
    sub.mkdir()
    write(folder / "x.cuh", "")
    near = write(sub / "x.cuh", "")
    outer = write(sub / "outer.cuh", '#include "x.cuh"\n')
    assert found('#include "sub/outer.cuh"\n', folder, folder) == {outer, near}


def test_conditional_includes_count(tmp_path: Path) -> None:
    one, two = write(tmp_path / "one.cuh", ""), write(tmp_path / "two.cuh", "")
    assert found('#if __has_include("one.cuh")\n#endif\n#ifdef X\n#include "two.cuh"\n#endif\n', tmp_path) == {one, two}


def test_what_is_nowhere_is_left_to_the_compiler(tmp_path: Path) -> None:
    assert found("#include <cuda_fp16.h>\n", tmp_path) == set()


def test_a_header_need_not_be_text(tmp_path: Path) -> None:
    path = tmp_path / "b.cuh"
    path.write_bytes(b"\xff\xfe")
    assert included('#include "b.cuh"\n', folder=tmp_path, include_path=()) == {path: b"\xff\xfe"}
