"""Stream kernels: laws that are no matrix products, such as saxpy, dot and transpose, and what each declares.

They live in ``cuda_src/laws/streams``, one file a kernel, with a declaration between ``// /// stream`` and ``// ///``.
The signature tells what a kernel takes: a pointer to const is an input, another pointer the output, an integer ``n``
the size, a float a scalar. Sizes, work and bytes are arithmetic on ``n`` and the parameters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from ladder.catalog import _formula, _keys
from ladder.catalog._cpp import KernelText, find_kernels
from ladder.catalog._declaration import Declaration, read_declaration
from ladder.catalog._stream import Argument, Stream, reference, roundings
from ladder.errors import CatalogError

__all__ = ["KEYS", "Argument", "Stream", "load_streams", "parse_stream", "reference", "roundings"]

KEYS = (
    "title",
    "kernel",
    "params",
    "block",
    "grid",
    "multiple",
    "elements",
    "scalars",
    "computes",
    "init",
    "flop",
    "asked_bytes",
    "l1_bytes",
)

_KINDS: dict[str, Literal["input", "output", "size", "scalar"]] = {
    "float*": "output",
    "float": "scalar",
    "int": "size",
    "unsigned": "size",
    "unsigned int": "size",
}
_TRIAL = 1024
"""Times ``multiple``: the size at which a declaration's arithmetic is tried."""


def load_streams(folder: Path) -> tuple[Stream, ...]:
    """Every stream kernel of ``folder``, in order of name.

    Raises:
        CatalogError: a declaration is malformed; the message gives file, line and key.
    """
    return tuple(parse_stream(path) for path in sorted(folder.glob("*.cu")))


def parse_stream(path: Path) -> Stream:
    """The stream kernel that a ``.cu`` file declares.

    Raises:
        CatalogError: the file cannot be read, or its declaration is malformed; the message gives file, line and key.
    """
    declaration = read_declaration(path, fence="stream")
    for key in declaration.values:
        if key not in KEYS:
            declaration.refuse(key, "unknown key", f"the keys are {', '.join(KEYS)}")
    kernel = _kernel(declaration)
    arguments = tuple(_argument(declaration, kernel, text) for text in kernel.arguments)
    params = _params(declaration, kernel)
    target, formula = _computes(declaration, arguments)
    asked = _keys.text(declaration, "asked_bytes")
    stream = Stream(
        name=path.stem,
        title=_keys.text(declaration, "title"),
        kernel=kernel.name,
        params=params,
        block=_block(declaration, params),
        grid=_grid(declaration),
        multiple=_keys.integer(declaration, "multiple", default=1, low=1, high=2**20),
        arguments=arguments,
        elements=_texts(declaration, "elements", _of(arguments, "input", "output"), '{ x = "n", y = "n" }'),
        scalars=_scalars(declaration, _of(arguments, "scalar")),
        target=target,
        formula=formula,
        zeroed=_keys.choice(declaration, "init", _INITS) == "zero",
        flop=_keys.text(declaration, "flop"),
        asked_bytes=asked,
        l1_bytes=_keys.text(declaration, "l1_bytes") if "l1_bytes" in declaration.values else asked,
        path=path,
        source=declaration.source,
        prose=declaration.prose,
    )
    _try(declaration, stream)
    return stream


_INITS: tuple[Literal["poison", "zero"], ...] = ("poison", "zero")


def _kernel(declaration: Declaration) -> KernelText:
    name = _keys.text(declaration, "kernel")
    kernels = find_kernels(declaration.source)
    found = next((kernel for kernel in kernels if kernel.name == name), None)
    if found is None:
        there = ", ".join(kernel.name for kernel in kernels) or "none"
        declaration.refuse(
            "kernel", f"no __global__ function {name!r} in this file (found: {there})", "name one that is there"
        )
    return found


def _argument(declaration: Declaration, kernel: KernelText, text: str) -> Argument:
    words = re.findall(r"\w+|\*", re.sub(r"\b__restrict__\b", " ", text))
    constant = "const" in words
    *kinds, name = [word for word in words if word != "const"]
    kind = _KINDS.get("float*" if kinds == ["float", "*"] else " ".join(kinds))
    if kind == "output" and constant:
        kind = "input"
    if kind is None or (kind == "size" and name != "n"):
        declaration.refuse(
            "kernel",
            f"argument `{text}` of {kernel.name} (line {kernel.line}) is none that a stream kernel takes",
            "give pointers to float, a float, or an integer called n",
        )
    return Argument(name=name, kind=kind)


def _of(arguments: tuple[Argument, ...], *kinds: str) -> tuple[str, ...]:
    return tuple(argument.name for argument in arguments if argument.kind in kinds)


def _params(declaration: Declaration, kernel: KernelText) -> dict[str, int]:
    order = [parameter.partition("=")[0].split()[-1] for parameter in kernel.template]
    given = _keys.integer_table(declaration, "params", example="{ NUM_THREADS = 256 }")
    if set(given) != set(order):
        signature = f"template <{', '.join(order)}>" if order else "no template"
        declaration.refuse(
            "params", f"{', '.join(given) or 'none'} for {signature}", "set each parameter, and no other"
        )
    return {name: given[name] for name in order}


def _block(declaration: Declaration, params: Mapping[str, int]) -> tuple[int, int, int]:
    explicit = _keys.integer_list(declaration, "block", least=1, most=3, example="[32, 8]")
    if explicit is None and "NUM_THREADS" not in params:
        declaration.refuse("block", "the block size is not known", "add `block = [32, 8]`, or a parameter NUM_THREADS")
    x, y, z = (*(explicit or (params.get("NUM_THREADS", 1),)), 1, 1)[:3]
    if not 1 <= x * y * z <= 1024:
        declaration.refuse("block", f"{x * y * z} threads a block", "a block has 1 to 1024")
    return x, y, z


def _grid(declaration: Declaration) -> tuple[tuple[str, str], ...]:
    example = '["n / NUM_THREADS"]'
    value = declaration.values.get("grid")
    sides = value if isinstance(value, list) else []
    cut = [side.partition("/") for side in sides if isinstance(side, str) and "/" in side]
    if not 1 <= len(cut) <= 3 or len(cut) < len(sides):
        declaration.refuse("grid", f"{value!r} is no list of quotients", f"write for example grid = {example}")
    return tuple((above.strip(), below.strip()) for above, _, below in cut)


def _texts(declaration: Declaration, key: str, wanted: tuple[str, ...], example: str) -> dict[str, str]:
    found = _keys.table(declaration, key, example)
    if set(found) != set(wanted) or not all(isinstance(value, str) for value in found.values()):
        declaration.refuse(key, f"{found!r} is not a text for each of {', '.join(wanted)}", f"write {key} = {example}")
    return {name: found[name] for name in wanted}


def _scalars(declaration: Declaration, wanted: tuple[str, ...]) -> dict[str, float]:
    found = _keys.table(declaration, "scalars", "{ a = 2.5 }")
    if set(found) != set(wanted) or not all(isinstance(value, float) for value in found.values()):
        declaration.refuse(
            "scalars", f"{found!r} is not a number for each of {', '.join(wanted) or 'none'}", "write { a = 2.5 }"
        )
    return {name: found[name] for name in wanted}


def _computes(declaration: Declaration, arguments: tuple[Argument, ...]) -> tuple[str, str]:
    """The array that is computed, and the formula of it."""
    example = '{ y = "a * x + y" }'
    found = _keys.table(declaration, "computes", example)
    outputs = _of(arguments, "output")
    if len(outputs) != 1:
        declaration.refuse(
            "kernel", f"{len(outputs)} pointers that are not to const", "a stream kernel writes one array"
        )
    formula = found.get(outputs[0])
    if len(found) != 1 or not isinstance(formula, str):
        declaration.refuse("computes", f"{found!r} is no formula of {outputs[0]}", f"write for example {example}")
    return outputs[0], formula


def _try(declaration: Declaration, stream: Stream) -> None:
    """Refuse arithmetic that does not work out, and a formula of what is not there."""
    n = _TRIAL * stream.multiple
    for key, texts in (
        ("grid", [text for side in stream.grid for text in side]),
        ("elements", list(stream.elements.values())),
        ("flop", [stream.flop]),
        ("asked_bytes", [stream.asked_bytes]),
        ("l1_bytes", [stream.l1_bytes]),
    ):
        for text in texts:
            try:
                value = stream.at(text, n)
            except ValueError as error:
                declaration.refuse(key, str(error), "write arithmetic on n, blocks and the parameters")
            if value < 0 or (value == 0 and key in ("grid", "elements")):
                declaration.refuse(key, f"{text!r} is {value} at n = {n}", "it must be positive")
    try:
        unknown = _formula.names(stream.formula) - {*stream.arrays, *stream.scalars}
        # Reads every part of the formula once, so that what it cannot do shows here.
        _formula.evaluate(stream.formula, dict.fromkeys((*stream.arrays, *stream.scalars), 1.0))
    except ValueError as error:
        declaration.refuse("computes", str(error), "write for example a * x + y, sum(x * y) or transpose(x)")
    if unknown:
        raise CatalogError(f"{declaration.path}: key 'computes': unknown {', '.join(sorted(unknown))}")
