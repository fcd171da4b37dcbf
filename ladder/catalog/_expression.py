"""Arithmetic on a kernel's parameters, such as ``4 * STAGES * BK * (BM + BN)``."""

from __future__ import annotations

import ast
from collections.abc import Mapping

__all__ = ["evaluate"]


def evaluate(text: str, params: Mapping[str, int]) -> int:
    """The value of ``text``: integers, parameters, + - * / and brackets; a division must leave no remainder.

    Raises:
        ValueError: something else than that stands there, a name is unknown, or a division is not exact; the message
            says which.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"{text!r} is not arithmetic on integers and parameters") from error
    return _value(tree.body, params)


def _value(node: ast.expr, params: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            return number
        case ast.Name(id=name):
            if name not in params:
                raise ValueError(f"{name} is no parameter (there are {', '.join(params) or 'none'})")
            return params[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, params)
        case ast.BinOp(left=left, op=operator, right=right):
            return _combined(_value(left, params), operator, _value(right, params), ast.unparse(node))
    raise ValueError(f"`{ast.unparse(node)}` is neither an integer, nor a parameter, nor a sum, product or quotient")


def _combined(left: int, operator: ast.operator, right: int, text: str) -> int:
    match operator:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.Div():
            if right == 0 or left % right:
                raise ValueError(f"`{text}` is {left} / {right}, which is no integer")
            return left // right
    raise ValueError(f"`{text}` uses something else than + - * /")
