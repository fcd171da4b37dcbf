"""The catalogue of rungs: the sorted directory of ``.cu`` files, plus any file the user names.

A rung is one file: prose, a TOML declaration in its comments, and the kernel. Nothing is registered anywhere else.
"""

from __future__ import annotations

import difflib
import importlib.resources
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ladder.catalog._build import KEYS, build, rebuild
from ladder.catalog._cpp import code_lines
from ladder.catalog._declaration import parse_declaration, read_declaration
from ladder.catalog._digest import code_sha256, source_sha256
from ladder.catalog._signature import ARGUMENTS
from ladder.catalog._starting import require_name, starting_text
from ladder.errors import CatalogError, InputError, UnknownRungError
from ladder.model import Kind, Rung

__all__ = [
    "ARGUMENTS",
    "KEYS",
    "code_lines",
    "code_sha256",
    "cuda_src",
    "find",
    "load_catalog",
    "parse_file",
    "prose_fields",
    "source_sha256",
    "starting_file",
    "with_params",
]

_FIELD = re.compile(r"([A-Z][a-z]+) {2,}(\S.*)")


def cuda_src() -> Path:
    """The folder of the CUDA sources: inside an installed package, or beside it in a checkout.

    Raises:
        CatalogError: neither is there.
    """
    package = Path(str(importlib.resources.files("ladder")))
    candidates = (package / "cuda_src", package.parent / "cuda_src")
    for candidate in candidates:
        if (candidate / "rungs").is_dir():
            return candidate
    raise CatalogError(f"no CUDA sources at {' or '.join(map(str, candidates))}; install the package again")


def load_catalog() -> tuple[Rung, ...]:
    """Every rung in order of number, then every law kernel in order of name.

    Raises:
        CatalogError: a declaration is malformed, or two rungs share a name.
    """
    root = cuda_src()
    rungs = [rung for path in sorted((root / "rungs").glob("*.cu")) for rung in parse_file(path)]
    rungs.sort(key=lambda rung: rung.number)
    laws = [rung for path in sorted((root / "laws").glob("*.cu")) for rung in parse_file(path)]
    return _distinct([*rungs, *laws])


def parse_file(path: Path) -> tuple[Rung, ...]:
    """The rungs that one ``.cu`` file declares: one, or one per value of its sweep.

    Raises:
        CatalogError: the file cannot be read, or its declaration is malformed; the message gives file, line and key.
    """
    kind: Kind = "law" if path.resolve().parent == (cuda_src() / "laws").resolve() else "rung"
    return build(read_declaration(path), kind)


def find(names: Sequence[str]) -> tuple[Rung, ...]:
    """The rungs called ``names``, each once, in the order asked for; the whole catalogue for no name.

    A name is a rung's (``tiled_32``), its file's (``tiled`` or ``03_tiled``: all of a sweep), or the path of a ``.cu``
    file in any folder.

    Raises:
        UnknownRungError: no such rung; the closest names are offered.
        CatalogError: a declaration is malformed, or two of the rungs share a name.
    """
    if not names:
        return load_catalog()
    by_name: dict[str, list[Rung]] = {}
    if not all(_is_path(name) for name in names):
        for rung in load_catalog():
            stem = rung.path.stem
            for alias in dict.fromkeys((rung.name, stem, re.sub(r"^\d+_", "", stem))):
                by_name.setdefault(alias, []).append(rung)
    found: list[Rung] = []
    for name in names:
        if _is_path(name):
            found.extend(parse_file(Path(name)))
        elif name in by_name:
            found.extend(by_name[name])
        else:
            raise UnknownRungError(_unknown(name, by_name))
    return _distinct({(rung.name, rung.path.resolve()): rung for rung in found}.values())


def with_params(rung: Rung, params: Mapping[str, int]) -> Rung:
    """``rung`` with other template arguments, and all that its declaration derives from them; its name stays.

    Args:
        rung: a rung of a ``.cu`` file.
        params: values by template parameter; those that are absent keep theirs.

    Raises:
        InputError: the kernel has no such parameter, or a value is no positive integer.
        CatalogError: the declaration does not allow the values: a block of too many threads, say.
    """
    for name, value in params.items():
        if name not in rung.params:
            known = ", ".join(rung.params) or "none"
            raise InputError(f"rung {rung.name} has no parameter {name!r}; it has {known}: remove {name!r}")
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InputError(f"rung {rung.name}: {name} = {value!r}; give a positive integer")
    return rebuild(parse_declaration(rung.path, rung.source), rung, {**rung.params, **params})


def starting_file(name: str, *, like: Rung | None = None) -> str:
    """The text of a right, commented rung to start from, to be kept as ``name.cu``.

    Args:
        name: the file's name without ending, such as ``"my_tile"`` or ``"18_my_tile"``; its kernel is called after it.
        like: the rung whose file is copied; None for a small tiled kernel.

    Raises:
        InputError: the name cannot be used; the message says why and what to write.
        CatalogError: the file of ``like`` is malformed.
    """
    rungs = load_catalog()
    taken = {alias for rung in rungs for alias in (rung.name, re.sub(r"^\d+_", "", rung.path.stem))}
    kernel = require_name(name, taken)
    places = {rung.number: rung.path.name for rung in rungs if rung.number}
    place = int(name.removesuffix(f"_{kernel}")) if name != kernel else 0
    if place in places:
        raise InputError(
            f"{name!r}: {place} is the number of {places[place]}; the next that is free is {max(places) + 1}"
        )
    path = cuda_src() / "starter.cu" if like is None else like.path
    source = path.read_text(encoding="utf-8") if like is None else like.source
    return starting_text(name, kernel, path, source)


def prose_fields(rung: Rung) -> dict[str, str]:
    """The labelled paragraphs of a rung's header, by lower-case label, and its first line as ``"summary"``.

    ``Removes   what it removes`` begins the paragraph ``"removes"``; indented lines continue it. The catalogue's own
    files have ``removes``, ``how``, ``leaves`` and ``source``; a file without them gives what it has.
    """
    fields: dict[str, list[str]] = {}
    label = "summary"
    for line in rung.prose.splitlines():
        match = _FIELD.fullmatch(line)
        if match:
            label = match[1].lower()
            fields[label] = [match[2]]
        elif not line.strip():
            label = ""
        elif label and (label == "summary" or line.startswith("  ")):
            fields.setdefault(label, []).append(line.strip())
        else:
            label = ""
    joined = {label: " ".join(lines) for label, lines in fields.items()}
    if "summary" in joined:
        joined["summary"] = joined["summary"].removeprefix(rung.path.name).lstrip(" -")
    return joined


def _is_path(name: str) -> bool:
    return name.endswith(".cu")


def _unknown(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}? " if close else ""
    return (
        f"no rung is called {name!r}; {hint}`ladder list` shows them all, and a file of your own is given by its path, "
        f"ending in .cu"
    )


def _distinct(rungs: Iterable[Rung]) -> tuple[Rung, ...]:
    seen: dict[str, Rung] = {}
    for rung in rungs:
        other = seen.setdefault(rung.name, rung)
        if other is not rung:
            raise CatalogError(
                f"{rung.path}:1: a second rung called {rung.name!r}; {other.path} has it: rename one file"
            )
    return tuple(seen.values())
