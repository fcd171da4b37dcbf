"""Just enough C++ to find a kernel, its template parameters and its arguments in a ``.cu`` file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["KernelText", "code_lines", "find_kernels", "identifiers", "renamed", "without_comments"]

_COMMENT_OR_LITERAL = re.compile(
    r"""
      //[^\n]*
    | /\*.*?\*/
    | R"(?P<delimiter>[^\s()\\]{0,16})\(.*?\)(?P=delimiter)"
    | "(?:\\.|[^"\\\n])*"
    | (?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])*'
    """,
    re.DOTALL | re.VERBOSE,
)
_TOKEN = re.compile(r"[A-Za-z_]\w*|\S")
_PARTNER = {")": "(", ">": "<", "]": "[", "}": "{"}
_ATTRIBUTES = frozenset(
    (
        "__launch_bounds__",
        "__maxnreg__",
        "__cluster_dims__",
        "__block_size__",
        "__align__",
        "__attribute__",
        "__declspec",
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelText:
    """One ``__global__`` function as written.

    Attributes:
        name: the function's name.
        line: 1-based line of ``__global__``.
        template: each template parameter's declaration, such as ``"int BM"``; empty without a template.
        arguments: each argument's declaration, such as ``"const float* __restrict__ A"``.
    """

    name: str
    line: int
    template: tuple[str, ...]
    arguments: tuple[str, ...]


def find_kernels(source: str) -> tuple[KernelText, ...]:
    """Every ``__global__`` function of ``source``, in order; explicit specialisations are left out."""
    return tuple(_kernels(_blank(source)))


def without_comments(source: str) -> str:
    """``source`` with a space for each comment; literals, such as those of ``asm``, stay as they are."""
    return _COMMENT_OR_LITERAL.sub(lambda match: " " if match[0].startswith(("//", "/*")) else match[0], source)


def code_lines(source: str) -> list[str]:
    """The lines of ``source`` without comments, trailing spaces and empty lines."""
    return [line.rstrip() for line in without_comments(source).splitlines() if line.strip()]


def identifiers(source: str) -> frozenset[str]:
    """Every word of ``source`` that is no part of a comment or a literal, keywords among them."""
    return frozenset(re.findall(r"[A-Za-z_]\w*", _blank(source)))


def renamed(source: str, old: str, new: str) -> str:
    """``source`` with the identifier ``old`` as ``new``; comments and literals stay as they are."""
    pieces, start = [], 0
    for found in re.finditer(rf"\b{re.escape(old)}\b", _blank(source)):
        pieces += [source[start : found.start()], new]
        start = found.end()
    return "".join([*pieces, source[start:]])


def _blank(source: str) -> str:
    """Comments and literals as spaces, so that every other character keeps its place."""
    return _COMMENT_OR_LITERAL.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), source)


def _kernels(text: str) -> Iterator[KernelText]:
    for marker in re.finditer(r"\b__global__\b", text):
        name, open_paren = _name(text, marker.end())
        if name is None:
            continue
        yield KernelText(
            name=name,
            line=text.count("\n", 0, marker.start()) + 1,
            template=_template(text[: marker.start()]),
            arguments=_split(_bracketed(text, open_paren)),
        )


def _name(text: str, position: int) -> tuple[str | None, int]:
    """The function's name after ``__global__`` and where its argument list opens.

    Attributes with arguments, such as ``__launch_bounds__(256)``, are stepped over.
    """
    last = None
    while (token := _TOKEN.search(text, position)) is not None:
        word, position = token.group(), token.end()
        if word == "(":
            if last in _ATTRIBUTES:
                position = token.start() + len(_bracketed(text, token.start())) + 2
                last = None
                continue
            return last, token.start()
        if word in ";{}":
            break
        last = word if word[0].isalpha() or word[0] == "_" else None
    return None, position


def _bracketed(text: str, start: int) -> str:
    """What stands between the bracket at ``start`` and its partner, or the end of the text."""
    open_brackets: list[str] = []
    for position in range(start, len(text)):
        _follow(text[position], open_brackets)
        if not open_brackets:
            return text[start + 1 : position]
    return text[start + 1 :]


def _follow(character: str, open_brackets: list[str]) -> None:
    """Open or close a bracket; ``<`` and ``>`` inside another kind of bracket are comparisons."""
    if character in "([{" or (character == "<" and set(open_brackets) <= {"<"}):
        open_brackets.append(character)
    elif open_brackets and _PARTNER.get(character) == open_brackets[-1]:
        open_brackets.pop()


def _template(before: str) -> tuple[str, ...]:
    """Parameters of the ``template <...>`` that belongs to what follows ``before``."""
    head = re.split(r"[;}]", before)[-1]
    marker = re.search(r"\btemplate\s*(<)", head)
    return _split(_bracketed(head, marker.start(1))) if marker else ()


def _split(text: str) -> tuple[str, ...]:
    """``text`` cut at the commas outside brackets, each piece with its spaces made single."""
    pieces, start = [], 0
    open_brackets: list[str] = []
    for position, character in enumerate(text):
        _follow(character, open_brackets)
        if character == "," and not open_brackets:
            pieces.append(text[start:position])
            start = position + 1
    pieces.append(text[start:])
    return tuple(" ".join(piece.split()) for piece in pieces if piece.strip())
