"""The text of a new ``.cu`` file: another one under a new name, consistent from its first line to its kernel."""

from __future__ import annotations

import re
from collections.abc import Container
from pathlib import Path

from ladder.catalog._build import build
from ladder.catalog._cpp import identifiers, renamed
from ladder.catalog._declaration import Declaration, parse_declaration
from ladder.errors import InputError

__all__ = ["require_name", "starting_text"]

_NAME = re.compile(r"(?:\d+_)?([A-Za-z]\w*)", re.ASCII)
_LONGEST = 64
_RESERVED = frozenset(
    """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class compl const
    constexpr const_cast continue decltype default delete do double dynamic_cast else enum explicit export extern false
    float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private
    protected public register reinterpret_cast return short signed sizeof static static_assert static_cast struct switch
    template this thread_local throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t
    while xor xor_eq main
    """.split()  # noqa: SIM905 -- a list of them would be one word a line
)
_VECTOR_TYPE = re.compile(r"(?:u?(?:char|short|int|long|longlong)|float|double)[1-4]|dim3|size_t")
_DEVICE_FILE = re.compile(r"(?i:con|prn|aux|nul|com\d|lpt\d)")
"""Names that Windows keeps for devices, whatever their ending."""


def require_name(name: str, taken: Container[str] = ()) -> str:
    """The kernel's name in a file that is to be called ``name.cu``: ``name`` without a leading number.

    Args:
        name: letters, digits and underscores, with a number in front if it is to have a place on the ladder.
        taken: what a rung may not be called any more.

    Raises:
        InputError: it cannot be both a file's and a kernel's name, or is taken; the message says what to write.
    """
    if name.endswith(".cu"):
        raise InputError(f"{name!r}: give the name without its ending: {name.removesuffix('.cu') or 'my_tile'}")
    if len({"/", "\\"} & set(name)):
        raise InputError(f"{name!r} holds a folder; name that with --dir, and give the file's name alone")
    found = _NAME.fullmatch(name)
    if found is None:
        raise InputError(
            f"{name!r} cannot name a kernel: use letters, digits and underscores, a letter first, such as my_tile; a "
            f"number and an underscore in front, such as 18_my_tile, give it a place on the ladder"
        )
    kernel = found[1]
    if len(name) > _LONGEST:
        raise InputError(f"{name[:20]}... is {len(name)} characters long; the limit is {_LONGEST}: shorten it")
    if kernel in _RESERVED or _VECTOR_TYPE.fullmatch(kernel):
        raise InputError(f"{kernel!r} means something in CUDA C++; choose another name, such as my_{kernel}")
    if _DEVICE_FILE.fullmatch(name):
        raise InputError(f"{name!r} names a device on Windows, not a file; choose another name, such as my_{name}")
    if kernel in taken:
        raise InputError(f"{kernel!r} is a rung of the ladder already; choose another name, such as my_{kernel}")
    return kernel


def starting_text(name: str, kernel: str, path: Path, source: str) -> str:
    """``source``, the text of ``path``, as that of ``name.cu``.

    The kernel, its name in the declaration, the title and the first line of the header are renamed; a title keeps the
    parameters that it shows. Words of the comments stay.

    Raises:
        InputError: the file uses the name for something else, or its declaration names the kernel or the title in a
            way that cannot be renamed.
        CatalogError: the file is no rung's.
    """
    declaration = parse_declaration(path, source)
    (old, *_) = build(declaration, "rung")
    before = old.kernel.rpartition("::")[2]
    if kernel != before and kernel in identifiers(source):
        raise InputError(f"{path} uses the name {kernel!r} for something else; choose another name")
    lines = renamed(source, before, kernel).split("\n")
    title = _title(kernel, str(declaration.values["title"]))
    _set(lines, declaration, "kernel", old.kernel.removesuffix(before) + kernel)
    _set(lines, declaration, "title", title)
    return _headed("\n".join(lines), f"{name}.cu", path)


def _title(kernel: str, before: str) -> str:
    words = kernel.replace("_", " ").strip()
    shown = [f"{each} = {{{each}}}" for each in dict.fromkeys(re.findall(r"\{(\w+)\}", before))]
    return ", ".join([words[0].upper() + words[1:], *shown])


def _set(lines: list[str], declaration: Declaration, key: str, value: str) -> None:
    """Write the text ``value`` where ``key`` has its text, in its line of the declaration."""
    at = declaration.line_of(key)
    pattern = rf"""(\s*//\s*["']?{key}["']?\s*=\s*)("[^"]*"|'[^']*')(?!["'])"""
    line, count = re.subn(pattern, lambda match: f'{match[1]}"{value}"', lines[at - 1], count=1)
    if not count:
        raise InputError(
            f'{declaration.path}:{at}: key {key!r} is not written as `{key} = "text"` on its own line, so it cannot be '
            f"renamed; write it so, or copy another rung"
        )
    lines[at - 1] = line


def _headed(text: str, file: str, path: Path) -> str:
    """``text`` with a first line for ``file``; what the old first line said of the kernel stands below it."""
    first, _, rest = text.partition("\n")
    said = re.fullmatch(rf"//\s*{re.escape(path.name)}\s*-*\s*(.*)", first)
    if path.name == "starter.cu" and said:
        return f"// {file} -- {said[1]}\n{rest}"
    head = f"// {file} -- what is new here, in a line. It began as a copy of {path.name}"
    if said is None:
        return f"{head}.\n{text if first.startswith('//') else chr(10) + text}"
    return f"{head}:\n// {said[1]}\n{rest}"
