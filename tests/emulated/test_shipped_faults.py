"""Faults that matmul projects have shipped: each kind has a test that is named after it.

``helpers.shipped_faults.FAULTS`` leads from a fault to its tests. The first of them breaks a kernel or a caller in that
way, shows it caught, and shows the sound one passing; the others ask the same of every rung, or of a real GPU.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest
from helpers.shipped_faults import FAULTS

ROOT = Path(__file__).parents[2]


@cache
def names_in(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(
        node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    )


@pytest.mark.parametrize("fault", FAULTS)
def test_the_tests_of_a_fault_exist(fault: str) -> None:
    for node in FAULTS[fault]:
        path, _, name = node.partition("::")
        assert name in names_in(path), f"{node} is gone: name what proves {fault!r} now"


def test_every_test_here_is_named_by_one_fault() -> None:
    here = {
        f"{path.relative_to(ROOT).as_posix()}::{name}"
        for path in Path(__file__).parent.glob("test_shipped_faults_*.py")
        for name in names_in(path.relative_to(ROOT).as_posix())
    }
    named = [node for nodes in FAULTS.values() for node in nodes if "test_shipped_faults_" in node]
    assert len(named) == len(set(named))
    assert set(named) == here
    assert len(FAULTS) == 26
