"""Paths of Linux and of Windows: names that both can hold, either separator, and no module that only one has."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath

import pytest

from ladder.catalog import find
from ladder.errors import CatalogError, ProfileError
from ladder.profiles import load_profile
from ladder.ptx.syntax import _shown
from ladder.report.text import slug

ROOT = Path(__file__).parents[2]
FOLDERS = ("bench", "cuda_src", "docs", "ladder", "tests")

RESERVED = {"con", "prn", "aux", "nul", *(f"{port}{i}" for port in ("com", "lpt") for i in range(1, 10))}
FORBIDDEN = re.compile(r'[<>:"|?*\\\x00-\x1f]')
LONGEST = 120
"""Windows allows 260 characters, of which the folder of the checkout takes some."""

UNIX_ONLY = {"fcntl", "grp", "pty", "pwd", "resource", "termios"}


def why_not_portable(name: str) -> str | None:
    """What Windows has against a relative path with forward slashes."""
    path = PurePosixPath(name)
    if PureWindowsPath(name).parts != path.parts or FORBIDDEN.search(name):
        return "a character that Windows keeps for itself"
    for part in path.parts:
        if part.split(".")[0].lower() in RESERVED:
            return f"{part} is a device of Windows"
        if part.endswith((".", " ")):
            return "Windows drops a dot or a space at the end"
    return f"longer than {LONGEST} characters" if len(name) > LONGEST else None


def ours() -> Iterator[str]:
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if "__pycache__" not in path.parts and path.is_file():
                yield path.relative_to(ROOT).as_posix()


def test_every_file_can_be_checked_out_on_windows() -> None:
    names = list(ours())
    assert {name: why for name in names if (why := why_not_portable(name)) is not None} == {}
    folded = [name.lower() for name in names]
    assert sorted({name for name in folded if folded.count(name) > 1}) == [], "names that differ in case alone"


@pytest.mark.parametrize(
    "name", ["a/aux.py", "a/NUL", "a/b.", "a/b /c", "a:b", "a\\b", 'a/"b"', "C:/a", "a/" + 119 * "b", "com1.txt/x"]
)
def test_what_windows_cannot_hold_is_seen(name: str) -> None:
    assert why_not_portable(name) is not None


@pytest.mark.parametrize("name", ["NVIDIA H200", 'Card: "A/B" <x>|?*', "C:\\cards\\T4", "Grafikkarte  Ü."])
def test_names_of_figures_hold_no_character_that_a_system_keeps_for_itself(name: str) -> None:
    assert why_not_portable(f"figures/{slug(name)}-roofline.svg") is None


@pytest.mark.parametrize("name", [r"C:\kernels\my.cu", r"..\my.cu", "kernels/my.cu", "./my.cu", "my.cu"])
def test_a_kernel_is_a_path_with_either_separator(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CatalogError, match=r"my\.cu"):  # no such file, rather than no such rung
        find([name])
    assert PureWindowsPath(name).suffix == ".cu"


@pytest.mark.parametrize("name", [r"C:\cards\mine.toml", "cards/mine.toml", "./mine.TOML"])
def test_a_profile_is_a_path_with_either_separator(name: str) -> None:
    with pytest.raises(ProfileError, match="cannot read profile"):
        load_profile(name)


@pytest.mark.parametrize(
    ("in_ptx", "shown"),
    [
        (r"C:\\kernels\\my.cu", r"C:\kernels\my.cu"),
        (r"C:\134kernels\134my.cu", r"C:\kernels\my.cu"),
        (r"C:\\new\\134\\my.cu", r"C:\new\134\my.cu"),
        ("/home/me/my.cu", "/home/me/my.cu"),
        (r"/home/m\303\251/my.cu", "/home/mé/my.cu"),
    ],
)
def test_a_fault_names_the_file_as_its_system_writes_it(in_ptx: str, shown: str) -> None:
    """PTX doubles a backslash, and writes what is no ASCII as octal numbers."""
    assert PurePosixPath(_shown(in_ptx)) == PurePosixPath(shown)
    assert PureWindowsPath(shown).name == "my.cu"


def imported_at_once(tree: ast.Module) -> set[str]:
    """Modules that importing this one imports."""
    found = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found.add(node.module.partition(".")[0])
    return found


@pytest.mark.parametrize("path", sorted((ROOT / "ladder").rglob("*.py")), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_a_module_can_be_imported_on_windows(path: Path) -> None:
    assert imported_at_once(ast.parse(path.read_text(encoding="utf-8"))) & UNIX_ONLY == set()


def test_text_is_read_and_written_in_one_encoding() -> None:
    """Windows' own is not UTF-8."""
    missing = []
    for path in (ROOT / "ladder").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            named = isinstance(node, ast.Call) and getattr(node.func, "attr", "") in {"read_text", "write_text"}
            if named and not any(keyword.arg == "encoding" for keyword in node.keywords):
                missing.append(f"{path.relative_to(ROOT).as_posix()}:{node.lineno}")
    assert missing == []
