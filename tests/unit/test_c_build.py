"""Building C: kept between sessions, built anew when anything is wrong, and arithmetic that no flag may change."""

from __future__ import annotations

import ctypes
import os
import stat
import subprocess
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ladder.errors import LadderError
from ladder.ptx.c import EngineUnavailableError, build, find_compiler

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C compiler")

EXPORT = '__attribute__((visibility("default")))'
SEVEN = f"{EXPORT} int seven(void) {{ return 7; }}\n"
ARITHMETIC = f"""
#include "operations.h"
{EXPORT} float fused(float a, float b, float c) {{ return __builtin_fmaf(a, b, c); }}
{EXPORT} float twice_rounded(float a, float b, float c) {{ return a * b + c; }}
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A compiler that notes each time it builds kernel.c, and an empty cache."""
    real = find_compiler()
    assert real is not None
    log, compiler = tmp_path / "calls", tmp_path / "compiler"
    compiler.write_text(
        f'#!/bin/sh\ncase "$*" in *kernel.c*) echo x >> "{log}";; esac\nexec {" ".join(real)} "$@"\n', encoding="utf-8"
    )
    compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
    log.write_text("")
    monkeypatch.setenv("CC", str(compiler))
    monkeypatch.setenv("LADDER_CACHE_DIR", str(tmp_path / "cache"))
    return log


def load_anew(source: str = SEVEN) -> ctypes.CDLL:
    """Load as a new session would."""
    build._load.cache_clear()
    return build.load(source)


def times(log: Path) -> int:
    return len(log.read_text().splitlines())


def entries(log: Path) -> list[Path]:
    return sorted((log.parent / "cache" / "engine").iterdir())


def test_a_library_is_built_once_and_kept(calls: Path) -> None:
    assert load_anew().seven() == 7
    assert load_anew().seven() == 7
    assert times(calls) == 1
    assert sorted(path.suffix for path in entries(calls)) == [".so", ".txt"], "no temporary file is left"


def test_another_source_flag_compiler_or_cpu_is_another_library(
    calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_anew()
    load_anew(SEVEN + "\n")
    build._load.cache_clear()
    build.load(SEVEN, optimise="-O2")
    assert times(calls) == 3
    for name, value in (("_cpu", "another"), ("_version", "9.9")):
        with monkeypatch.context() as patch:
            patch.setattr(build, name, lambda *_, value=value: value)
            load_anew()
    assert times(calls) == 5
    load_anew()
    assert times(calls) == 5


def test_the_headers_are_part_of_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = build._key(SEVEN, (), "")
    assert build._key(SEVEN, (), "") == before
    (tmp_path / "machine.h").write_text("/* another */")
    monkeypatch.setattr(build, "HEADERS", tmp_path)
    assert build._key(SEVEN, (), "") != before


@pytest.mark.parametrize("suffix", [".so", ".txt"])
@pytest.mark.parametrize("damage", ["empty", "cut", "changed", "gone"])
def test_a_damaged_entry_is_built_anew(calls: Path, suffix: str, damage: str) -> None:
    load_anew()
    path = next(path for path in entries(calls) if path.suffix == suffix)
    content = path.read_bytes()
    # A library that is loaded must not change under this process: a damaged one is another file.
    path.unlink()
    if damage != "gone":
        changed = {"empty": b"", "cut": content[: len(content) // 2], "changed": b"\xff" + content[1:]}
        path.write_bytes(changed[damage])
    assert load_anew().seven() == 7
    assert times(calls) == 2
    assert load_anew().seven() == 7
    assert times(calls) == 2


def test_a_folder_that_cannot_be_made_is_passed_over(
    calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    monkeypatch.setenv("LADDER_CACHE_DIR", str(in_the_way / "cache"))
    assert load_anew().seven() == 7
    assert times(calls) == 1


def test_what_the_compiler_says_is_passed_on(calls: Path) -> None:
    with pytest.raises(EngineUnavailableError, match="no_such_type"):
        load_anew("no_such_type x;\n")
    assert not (calls.parent / "cache" / "engine").exists()


def test_a_compiler_that_does_nothing_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    idle = tmp_path / "idle"
    idle.write_text("#!/bin/sh\nexit 0\n")
    idle.chmod(0o755)
    monkeypatch.setenv("CC", str(idle))
    monkeypatch.setenv("LADDER_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.raises(LadderError, match="does not compile"):
        load_anew()


def test_the_compiler_is_the_users_choice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first = find_compiler()
    assert first is not None
    monkeypatch.setenv("CC", f"{first[0]} -pipe")
    assert find_compiler() == (first[0], "-pipe")
    monkeypatch.setenv("CC", "no-such-compiler")
    assert find_compiler() is None
    with pytest.raises(EngineUnavailableError, match="install gcc or clang, or let CC name one"):
        load_anew()
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_compiler() is None


def test_the_runtime_compiles_without_a_warning(tmp_path: Path) -> None:
    compiler = find_compiler()
    assert compiler is not None
    strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    source = build.HEADERS / "runtime.c"
    command = [*compiler, *build.BASE_FLAGS, "-O3", *strict, "-o", str(tmp_path / "r.so"), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"})
    assert done.returncode == 0, done.stderr


# Arithmetic -----------------------------------------------------------------------------------------------------------

ADVERSARIAL = [
    *(0x3F800001, 0x3F7FFFFF, 0x3F800000, 0xBF800001, 0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF),
    *(0x33800000, 0xB3800000, 0x33800001, 0x4B800000, 0x20000000, 0x1F800001, 0x00000000, 0x80000000),
]


def float_of(bits: int) -> float:
    return float(np.uint32(bits).view(np.float32))


def rounded(exact: Fraction) -> float:
    """The nearest float32: to odd in float64 first, so that the second rounding is the only one that counts."""
    near = float(exact)
    if Fraction(near) != exact and not int(np.float64(near).view(np.uint64)) & 1:
        near = float(np.nextafter(near, np.inf if exact > Fraction(near) else -np.inf))
    with np.errstate(over="ignore", under="ignore"):
        return float(np.float32(near))


@pytest.fixture(scope="module", params=[None, ()], ids=["this CPU", "any CPU"])
def arithmetic(request: pytest.FixtureRequest) -> ctypes.CDLL:
    """Compiled as the engine is, and without the CPU's own fused multiply-add."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param is not None:
            patch.setattr(build, "CPU_FLAGS", (request.param,))
        build._flags.cache_clear()
        library = load_anew(ARITHMETIC)
    build._flags.cache_clear()
    for name in ("fused", "twice_rounded"):
        function = getattr(library, name)
        function.restype, function.argtypes = ctypes.c_float, (ctypes.c_float,) * 3
    return library


finite = st.one_of(
    st.sampled_from([float_of(bits) for bits in ADVERSARIAL]),
    st.floats(width=32, allow_nan=False, allow_infinity=False),
)


@given(a=finite, b=finite, c=finite)
def test_a_fused_multiply_add_rounds_once_and_others_twice(
    arithmetic: ctypes.CDLL, a: float, b: float, c: float
) -> None:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if abs(exact) < 2.0**128 * (1 - 2.0**-25):
        assert arithmetic.fused(a, b, c) == rounded(exact)
    product = Fraction(a) * Fraction(b)
    if abs(product) < 2.0**127 and abs(c) < 2.0**126:
        assert arithmetic.twice_rounded(a, b, c) == rounded(Fraction(rounded(product)) + Fraction(c))
