"""Are the kernels that a declaration names in the file, and do they take what they are given?"""

from __future__ import annotations

import re

from ladder.catalog import _keys
from ladder.catalog._cpp import KernelText, find_kernels
from ladder.catalog._declaration import Declaration
from ladder.model import Pack

__all__ = ["ARGUMENTS", "PACK_ARGUMENTS", "require_packing", "template_of_kernel"]

ARGUMENTS = "const float* A, const float* B, float* C, int M, int N, int K"
"""What every rung's kernel takes; a packed operand and tensor maps follow where they are declared."""
PACK_ARGUMENTS = "const float* X, float* packed, int rows, int cols"
"""What a kernel that packs takes."""

_INTEGER_TYPES = frozenset(
    ("int", "unsigned", "unsigned int", "long long", "unsigned long long", "size_t", "int32_t", "uint32_t", "auto")
)
_FLOAT_POINTER = ("float", "*")
_INT_ARGUMENT = frozenset(("int", "unsigned", "unsigned int", "int32_t", "uint32_t"))
_TENSOR_MAPS = frozenset(("TensorMap", "CUtensorMap"))
_QUALIFIERS = re.compile(r"\b(const|__restrict__|__restrict|__grid_constant__)\b")


def template_of_kernel(declaration: Declaration) -> tuple[str, ...]:
    """Names of the template parameters of the rung's kernel, whose arguments are checked.

    Raises:
        CatalogError: it is not in the file, takes other arguments, or has parameters that are no integers.
    """
    _keys.text(declaration, "title")
    name = _keys.text(declaration, "kernel")
    kernel = _find(declaration, "kernel", name)
    maps = declaration.values.get("tma", [])
    maps = maps if isinstance(maps, list) else []
    if not _takes_a_product(kernel.arguments, packed="pack" in declaration.values, maps=len(maps)):
        wanted = [ARGUMENTS, *(["const float* packed"] if "pack" in declaration.values else [])]
        wanted += [f"const __grid_constant__ TensorMap map{i}" for i in range(len(maps))]
        declaration.refuse(
            "kernel",
            f"{name} (line {kernel.line}) takes ({', '.join(kernel.arguments)})",
            f"a rung's kernel takes ({', '.join(wanted)}), in this order",
        )
    return _template_order(declaration, kernel)


def _find(declaration: Declaration, key: str, name: str) -> KernelText:
    """The ``__global__`` function called ``name``; a qualified name finds its last part."""
    kernels = find_kernels(declaration.source)
    kernel = next((k for k in kernels if k.name == name.rpartition("::")[2]), None)
    if kernel is None:
        found = ", ".join(dict.fromkeys(k.name for k in kernels)) or "none"
        declaration.refuse(
            key, f"no __global__ function {name!r} in this file (found: {found})", "name one that is there"
        )
    return kernel


def _takes_a_product(arguments: tuple[str, ...], *, packed: bool, maps: int) -> bool:
    expected = ["pointer"] * 3 + ["int"] * 3 + ["pointer"] * packed + ["map"] * maps
    return [_kind_of(argument) for argument in arguments] == expected


def _kind_of(argument: str) -> str:
    """``"pointer"`` (to float), ``"int"`` or ``"map"`` (a tensor map that stays in constant memory); else ``""``."""
    words = re.findall(r"[\w:]+|\*", _QUALIFIERS.sub(" ", argument))
    if tuple(words[:2]) == _FLOAT_POINTER and len(words) == 3:
        return "pointer"
    if " ".join(words[:-1]) in _INT_ARGUMENT:
        return "int"
    constant = {"const", "__grid_constant__"} <= set(argument.split())
    return "map" if constant and len(words) == 2 and words[0].rpartition("::")[2] in _TENSOR_MAPS else ""


def require_packing(declaration: Declaration, packing: Pack, order: tuple[str, ...]) -> None:
    """Refuse a kernel that packs which is not there, or does not fit the rung's with its parameters ``order``.

    Raises:
        CatalogError: it is not in the file, takes other arguments, or has another template.
    """
    kernel = _find(declaration, "pack.kernel", packing.kernel)
    if [_kind_of(argument) for argument in kernel.arguments] != ["pointer", "pointer", "int", "int"]:
        declaration.refuse(
            "pack.kernel",
            f"{packing.kernel} (line {kernel.line}) takes ({', '.join(kernel.arguments)})",
            f"a kernel that packs takes ({PACK_ARGUMENTS}), in this order",
        )
    if _template_order(declaration, kernel) != order:
        declaration.refuse(
            "pack.kernel",
            f"{packing.kernel} (line {kernel.line}) has template <{', '.join(kernel.template)}>",
            f"give it the parameters of the rung's kernel, in their order: {', '.join(order) or 'none'}",
        )


def _template_order(declaration: Declaration, kernel: KernelText) -> tuple[str, ...]:
    """Names of the kernel's template parameters, each of which must be an integer."""
    names = []
    for parameter in kernel.template:
        words = parameter.partition("=")[0].removeprefix("const ").split()
        if len(words) < 2 or " ".join(words[:-1]) not in _INTEGER_TYPES:
            declaration.refuse(
                "kernel",
                f"template parameter `{parameter}` of {kernel.name} (line {kernel.line}) is not a named integer",
                "rungs are instantiated with integers, such as `int BM`",
            )
        names.append(words[-1])
    return tuple(names)
