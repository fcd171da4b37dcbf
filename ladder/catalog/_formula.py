"""What a stream kernel computes, as a formula of its arrays: ``a * x + y``, ``sum(x * y)``, ``transpose(x)``."""

from __future__ import annotations

import ast
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

__all__ = ["Value", "evaluate", "names", "roundings"]

F64 = NDArray[np.float64]
Value = F64 | float


def evaluate(text: str, values: Mapping[str, Value]) -> Value:
    """The value of ``text`` in float64: names, + - *, brackets, ``sum(...)`` and ``transpose(...)``.

    Args:
        text: the formula.
        values: arrays and scalars by name.

    Raises:
        ValueError: something else than that stands there, or a name is unknown; the message says which.
    """
    return _value(_parsed(text), values)


def names(text: str) -> frozenset[str]:
    """The arrays and scalars that ``text`` speaks of.

    Raises:
        ValueError: the text is no formula.
    """
    tree = _parsed(text)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in called)


def roundings(text: str, elements: int) -> int:
    """The most float32 roundings that one element of the result has seen: one an operation, and one a term of a sum.

    Args:
        text: the formula.
        elements: terms of a ``sum``.

    Raises:
        ValueError: the text is no formula.
    """
    tree = _parsed(text)
    summed = any(isinstance(node, ast.Call) and _name(node) == "sum" for node in ast.walk(tree))
    return sum(isinstance(node, ast.BinOp) for node in ast.walk(tree)) + elements * summed


def _parsed(text: str) -> ast.expr:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"{text!r} is no formula of arrays") from error


def _name(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _value(node: ast.expr, values: Mapping[str, Value]) -> Value:
    match node:
        case ast.Name(id=name):
            if name not in values:
                raise ValueError(f"{name} is neither an array nor a scalar (there are {', '.join(values) or 'none'})")
            return values[name]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _value(left, values) + _value(right, values)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return _value(left, values) - _value(right, values)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _value(left, values) * _value(right, values)
        case ast.Call(func=ast.Name(id="sum"), args=[argument], keywords=[]):
            return float(np.sum(_value(argument, values)))
        case ast.Call(func=ast.Name(id="transpose"), args=[argument], keywords=[]):
            return _transposed(np.asarray(_value(argument, values), np.float64))
    raise ValueError(f"`{ast.unparse(node)}` is no name, sum, difference or product, and no sum(x) or transpose(x)")


def _transposed(array: F64) -> F64:
    """The transpose of the square matrix that ``array`` holds row by row."""
    edge = round(array.size**0.5)
    if edge * edge != array.size:
        raise ValueError(f"{array.size} elements are no square matrix, so they have no transpose")
    return np.ascontiguousarray(array.reshape(edge, edge).T).reshape(array.shape)
