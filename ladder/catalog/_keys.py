"""Typed reading of one declaration's keys: a wrong type or value is refused with file, line, key and fix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from ladder.catalog._declaration import Declaration
from ladder.catalog._expression import evaluate

__all__ = [
    "boolean",
    "choice",
    "computed",
    "entries",
    "fraction",
    "integer",
    "integer_list",
    "integer_table",
    "lists_table",
    "sweep_table",
    "table",
    "text",
]

INT_MIN, INT_MAX = -(2**31), 2**31 - 1

_Choice = TypeVar("_Choice", bound=str)


def text(declaration: Declaration, key: str) -> str:
    """A required, non-empty string.

    Raises:
        CatalogError: the key is missing or not such a string.
    """
    if key not in declaration.values:
        declaration.refuse(key, "missing", f'add `// {key} = "..."` to the declaration')
    value = declaration.values[key]
    if not isinstance(value, str) or not value.strip():
        declaration.refuse(key, f"{value!r} is not text", f'write {key} = "..."')
    return value


def integer(declaration: Declaration, key: str, *, default: int, low: int, high: int) -> int:
    """An integer within ``low .. high``; ``default`` when the key is absent.

    Raises:
        CatalogError: not an integer, or out of range.
    """
    value = declaration.values.get(key, default)
    if not _is_integer(value) or not low <= value <= high:
        declaration.refuse(
            key, f"{value!r} is not an integer from {low} to {high}", f"write for example {key} = {default}"
        )
    return int(value)


def computed(
    declaration: Declaration, key: str, value: Any, params: Mapping[str, int], *, low: int, high: int, example: str
) -> int:
    """``value`` of ``key``, an integer or arithmetic on parameters, within ``low .. high``.

    Raises:
        CatalogError: neither, or out of range.
    """
    found = value
    if isinstance(value, str):
        try:
            found = evaluate(value, params)
        except ValueError as error:
            declaration.refuse(key, str(error), f"write an integer, or for example {example}")
    if not _is_integer(found) or not low <= found <= high:
        is_ = f", which is {found}," if isinstance(value, str) else ""
        declaration.refuse(
            key, f"{value!r}{is_} is not an integer from {low} to {high}", f"write an integer, or for example {example}"
        )
    return int(found)


def boolean(declaration: Declaration, key: str, *, default: bool) -> bool:
    """``true`` or ``false``; ``default`` when the key is absent.

    Raises:
        CatalogError: neither.
    """
    value = declaration.values.get(key, default)
    if not isinstance(value, bool):
        declaration.refuse(key, f"{value!r} is not a truth value", "write true or false")
    return value


def fraction(declaration: Declaration, key: str, *, default: float) -> float:
    """A number strictly between 0 and 1; ``default`` when the key is absent.

    Raises:
        CatalogError: not such a number.
    """
    value = declaration.values.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        declaration.refuse(
            key, f"{value!r} is not a number between 0 and 1", "write for example 5.96e-8, which is 2**-24"
        )
    return float(value)


def choice(declaration: Declaration, key: str, options: tuple[_Choice, ...]) -> _Choice | None:
    """One of ``options``; None when the key is absent.

    Raises:
        CatalogError: another value.
    """
    if key not in declaration.values:
        return None
    value = declaration.values[key]
    found = next((option for option in options if option == value), None)
    if found is None:
        declaration.refuse(key, f"{value!r} is unknown", "write " + " or ".join(f'"{option}"' for option in options))
    return found


def integer_list(declaration: Declaration, key: str, *, least: int, most: int, example: str) -> tuple[int, ...] | None:
    """A list of ``least .. most`` positive integers; None when the key is absent.

    Raises:
        CatalogError: not such a list.
    """
    if key not in declaration.values:
        return None
    value = declaration.values[key]
    if (
        not isinstance(value, list)
        or not least <= len(value) <= most
        or not all(_is_integer(v) and v >= 1 for v in value)
    ):
        declaration.refuse(key, f"{value!r} is not a list of positive integers", f"write for example {key} = {example}")
    return tuple(value)


def integer_table(declaration: Declaration, key: str, *, example: str) -> dict[str, int]:
    """A table of 32-bit integers, in the order written; empty when the key is absent.

    Raises:
        CatalogError: not a table, or a value that is not such an integer.
    """
    found = table(declaration, key, example)
    for name, value in found.items():
        if not _is_integer(value) or not INT_MIN <= value <= INT_MAX:
            declaration.refuse(
                f"{key}.{name}", f"{value!r} is not a 32-bit integer", f"write for example {key} = {example}"
            )
    return found


def sweep_table(declaration: Declaration, key: str) -> dict[str, tuple[int, ...]]:
    """A table of equally long lists of integers; empty when the key is absent.

    Raises:
        CatalogError: not such a table, or the first list repeats a value.
    """
    example = "{ T = [16, 32, 64] }"
    found = lists_table(declaration, key, example=example)
    if key in declaration.values and not found:
        declaration.refuse(key, "no parameter to sweep", f"write for example {key} = {example}, or leave the key out")
    lengths = sorted({len(values) for values in found.values()})
    if len(lengths) > 1:
        declaration.refuse(
            key, f"its lists have {lengths} values", "the lists advance together: make them equally long"
        )
    for name, values in list(found.items())[:1]:
        if len(set(values)) < len(values):
            declaration.refuse(
                f"{key}.{name}", f"{list(values)} repeats a value", "the first list names the rungs: make it distinct"
            )
    return found


def lists_table(declaration: Declaration, key: str, *, example: str) -> dict[str, tuple[int, ...]]:
    """A table of lists of 32-bit integers, none of them empty; empty itself when the key is absent.

    Raises:
        CatalogError: not such a table.
    """
    found = table(declaration, key, example)
    for name, values in found.items():
        if (
            not isinstance(values, list)
            or not values
            or not all(_is_integer(v) and INT_MIN <= v <= INT_MAX for v in values)
        ):
            declaration.refuse(
                f"{key}.{name}", f"{values!r} is not a list of integers", f"write for example {key} = {example}"
            )
    return {name: tuple(values) for name, values in found.items()}


def entries(
    declaration: Declaration,
    key: str,
    value: Any,
    *,
    required: tuple[str, ...],
    optional: tuple[str, ...],
    example: str,
) -> dict[str, Any]:
    """``value`` of ``key`` as a table that has all of ``required``, and beside them ``optional`` alone.

    Raises:
        CatalogError: not such a table.
    """
    if not isinstance(value, dict):
        declaration.refuse(key, f"{value!r} is not a table", f"write for example {example}")
    for name in value:
        if name not in (*required, *optional):
            known = ", ".join((*required, *optional))
            declaration.refuse(f"{key}.{name}", "unknown entry", f"the entries are {known}: {example}")
    for name in required:
        if name not in value:
            declaration.refuse(key, f"{name} is missing", f"write for example {example}")
    return value


def table(declaration: Declaration, key: str, example: str) -> dict[str, Any]:
    """A table of anything; empty when the key is absent.

    Raises:
        CatalogError: not a table.
    """
    value = declaration.values.get(key, {})
    if not isinstance(value, dict):
        declaration.refuse(key, f"{value!r} is not a table", f"write for example {key} = {example}")
    return value


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
