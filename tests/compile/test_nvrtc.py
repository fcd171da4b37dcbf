"""The compiler layer against the real NVRTC: what the cache follows, and what errors say."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from helpers import cu

from ladder.catalog import parse_file
from ladder.errors import CompileError
from ladder.nvrtc import _library, compile_rung, supported_archs

INCLUDING = f'#include "scale.cuh"\n__global__ void plain({cu.ARGUMENTS}) {{ if (M > 0) C[0] = SCALE * A[0]; }}\n'


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of this test's own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("LADDER_CACHE_DIR", str(folder))
    return folder


def test_the_second_compilation_comes_from_the_cache(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (rung,) = parse_file(cu.tiled(tmp_path))
    first = compile_rung(rung, arch="sm_80")
    assert not first.cached

    def compiler_was_asked(*args: object, **kwargs: object) -> None:
        pytest.fail("compiled again")

    monkeypatch.setattr(_library, "translate", compiler_was_asked)
    second = compile_rung(rung, arch="sm_80")
    assert second.cached
    assert dataclasses.replace(second, cached=False) == first


def test_arch_options_source_and_instance_each_compile_anew(cache: Path, tmp_path: Path) -> None:
    path = cu.tiled(tmp_path, params=None, sweep="{ T = [16, 32], NUM_THREADS = [256, 1024] }")
    small, large = parse_file(path)
    assert not compile_rung(small, arch="sm_80").cached
    assert not compile_rung(small, arch="sm_90").cached
    assert not compile_rung(large, arch="sm_80").cached
    assert not compile_rung(small, arch="sm_80", options=("--use_fast_math",)).cached
    cu.write(path, path.read_text(encoding="utf-8") + "// a comment\n")
    assert not compile_rung(parse_file(path)[0], arch="sm_80").cached
    assert compile_rung(small, arch="sm_80").cached


def test_a_change_of_a_header_compiles_anew(cache: Path, tmp_path: Path) -> None:
    header = cu.write(tmp_path / "scale.cuh", '#include "value.cuh"\n#define SCALE VALUE\n')
    value = cu.write(tmp_path / "value.cuh", "constexpr float VALUE = 5.0f;\n")
    (rung,) = parse_file(cu.plain(tmp_path, kernel_text=INCLUDING))
    assert "0f40a00000" in compile_rung(rung, arch="sm_80").ptx.lower(), "5.0f is in the code"
    cu.write(value, "constexpr float VALUE = 3.0f;\n")
    three = compile_rung(rung, arch="sm_80")
    assert not three.cached
    assert "0f40400000" in three.ptx.lower(), "3.0f is in the code"
    cu.write(header, header.read_text(encoding="utf-8") + "// changed\n")
    assert not compile_rung(rung, arch="sm_80").cached


def test_a_header_named_by_an_option_is_followed(cache: Path, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    header = cu.write(folder / "scale.cuh", "#define SCALE 2.0f\n")
    (rung,) = parse_file(cu.plain(tmp_path, kernel_text=INCLUDING))
    options = (f"--include-path={folder}",)
    assert not compile_rung(rung, arch="sm_80", options=options).cached
    assert compile_rung(rung, arch="sm_80", options=options).cached
    cu.write(header, "#define SCALE 5.0f\n")
    assert not compile_rung(rung, arch="sm_80", options=options).cached


def test_a_new_nvrtc_compiles_anew(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (rung,) = parse_file(cu.plain(tmp_path))
    compile_rung(rung, arch="sm_80")
    monkeypatch.setattr(_library, "version", lambda: "99.0")
    assert not compile_rung(rung, arch="sm_80").cached


def test_a_damaged_entry_is_compiled_again(cache: Path, tmp_path: Path) -> None:
    (rung,) = parse_file(cu.plain(tmp_path))
    first = compile_rung(rung, arch="sm_80")
    (entry,) = cache.iterdir()
    entry.write_bytes(entry.read_bytes()[:-20])
    again = compile_rung(rung, arch="sm_80")
    assert not again.cached
    assert again.ptx == first.ptx
    assert compile_rung(rung, arch="sm_80").cached


def test_an_unwritable_cache_never_fails_a_compilation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_the_way = cu.write(tmp_path / "file", "")
    monkeypatch.setenv("LADDER_CACHE_DIR", str(in_the_way))
    (rung,) = parse_file(cu.plain(tmp_path))
    assert not compile_rung(rung, arch="sm_80").cached
    assert not compile_rung(rung, arch="sm_80").cached


def test_an_error_shows_the_log_with_file_and_line(cache: Path, tmp_path: Path) -> None:
    kernel = f"__global__ void plain({cu.ARGUMENTS}) {{\n  C[0] = undeclared;\n}}\n"
    path = cu.plain(tmp_path, kernel_text=kernel)
    (rung,) = parse_file(path)
    with pytest.raises(CompileError) as caught:
        compile_rung(rung, arch="sm_80")
    message = str(caught.value)
    assert message.startswith(f"{path}: NVRTC ")
    assert f'{path}(8): error: identifier "undeclared" is undefined' in message
    assert caught.value.exit_code == 1
    assert not cache.exists(), "a failure is not kept"


def test_a_failed_static_assert_shows_its_reason(cache: Path, tmp_path: Path) -> None:
    kernel = cu.TILED.replace("{\n", '{\n  static_assert(T == 32, "a warp is one row of the tile");\n', 1)
    path = cu.tiled(tmp_path, kernel_text=kernel)
    with pytest.raises(
        CompileError, match=r"tiled.cu\(8\): error: static assertion failed.*a warp is one row of the tile"
    ):
        compile_rung(parse_file(path)[0], arch="sm_80")


def test_a_header_that_is_not_there_is_named(cache: Path, tmp_path: Path) -> None:
    path = cu.plain(tmp_path, kernel_text=INCLUDING)
    with pytest.raises(CompileError, match=r"plain.cu\(7\): (catastrophic )?error: .*scale\.cuh"):
        compile_rung(parse_file(path)[0], arch="sm_80")


@pytest.mark.parametrize("arch", ["sm_10", "compute_80", "sm_80x", "", "native"])
def test_an_architecture_that_nvrtc_does_not_know_is_refused_with_those_it_does(
    arch: str, cache: Path, tmp_path: Path
) -> None:
    (rung,) = parse_file(cu.plain(tmp_path))
    with pytest.raises(CompileError, match=f"does not compile for {arch!r}; it compiles for .*sm_90"):
        compile_rung(rung, arch=arch)


def test_architecture_specific_targets_are_taken(cache: Path, tmp_path: Path) -> None:
    (rung,) = parse_file(cu.plain(tmp_path))
    assert ".target sm_90a" in compile_rung(rung, arch="sm_90a").ptx
    assert "sm_90" in supported_archs()


def test_a_bad_option_shows_nvrtcs_words(cache: Path, tmp_path: Path) -> None:
    (rung,) = parse_file(cu.plain(tmp_path))
    with pytest.raises(CompileError, match="--no-such-option"):
        compile_rung(rung, arch="sm_80", options=("--no-such-option",))


def test_extern_c_and_dynamic_shared_memory(cache: Path, tmp_path: Path) -> None:
    kernel = f"""extern "C" __global__ void plain({cu.ARGUMENTS}) {{
  extern __shared__ float words[];
  __shared__ float fixed[32];
  words[threadIdx.x] = fixed[threadIdx.x % 32] = A[0];
  __syncthreads();
  C[0] = words[0] + fixed[1];
}}
"""
    (rung,) = parse_file(cu.plain(tmp_path, kernel_text=kernel, smem_bytes="1024"))
    compiled = compile_rung(rung, arch="sm_80")
    assert compiled.lowered_name == "plain"
    assert compiled.resources.smem_bytes == 1024 + 128


def test_spills_are_reported(cache: Path, tmp_path: Path) -> None:
    body = "".join(f"  float v{i} = A[{i} * N];\n" for i in range(64)) + "  __syncthreads();\n"
    body += "".join(f"  C[{i} * N] = v{i};\n" for i in range(64))  # all 64 live across the barrier
    kernel = f"__global__ void __maxnreg__(24) plain({cu.ARGUMENTS}) {{\n{body}}}\n"
    (rung,) = parse_file(cu.plain(tmp_path, kernel_text=kernel))
    resources = compile_rung(rung, arch="sm_80").resources
    assert resources.spill_bytes > 0
    assert resources.stack_bytes > 0


def test_a_folder_with_spaces_and_accents(cache: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a folder, d\u00e9j\u00e0 vu"
    folder.mkdir()
    cu.write(folder / "scale.cuh", "#define SCALE 3.0f\n")
    path = cu.plain(folder, kernel_text=INCLUDING)
    assert "0f40400000" in compile_rung(parse_file(path)[0], arch="sm_80").ptx.lower(), "3.0f is in the code"
    cu.write(folder / "scale.cuh", "#error no scale\n")
    with pytest.raises(CompileError, match=r"no scale"):
        compile_rung(parse_file(path)[0], arch="sm_80")
