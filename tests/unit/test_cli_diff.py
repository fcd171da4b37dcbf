"""``ladder diff``: the sources in step, and the numbers beside each other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from helpers.command import ladder
from helpers.kernels import MUTANTS
from hypothesis import given
from hypothesis import strategies as st

from ladder.catalog import code_lines, find
from ladder.cli.diff import paired
from ladder.nvrtc import compile_rung

SMALL = ("--shape", "64x64x64")

lines = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=12)


def shown(*words: str | Path, code: int = 0) -> str:
    answer = ladder("diff", *words)
    assert answer.returncode == code, answer.stderr
    assert answer.stderr == ""
    return answer.stdout


def numbers(output: str) -> dict[str, list[str]]:
    """The cells of each line of the table of numbers, by its label."""
    *_, table = output.split("\n\n")
    rows = [re.split(r" {2,}", line.strip()) for line in table.splitlines()]
    return {cells[0]: cells[1:] for cells in rows}


@given(a=lines, b=lines)
def test_lines_in_step_lose_nothing_and_keep_their_order(a: list[str], b: list[str]) -> None:
    found = list(paired(a, b))
    assert [left for left, _, _ in found if left is not None] == a
    assert [right for _, _, right in found if right is not None] == b
    for left, mark, right in found:
        if left is None or right is None:
            assert mark == ("<" if right is None else ">")
        else:
            assert (mark == " ") == (left == right)


def test_unified_shows_both_files_and_only_what_differs() -> None:
    output = shown("tiled_conflict", "padded", *SMALL)
    before, after, *rest = output.splitlines()
    assert before.startswith("--- ")
    assert before.endswith("04_tiled_conflict.cu")
    assert after.startswith("+++ ")
    assert after.endswith("05_padded.cu")
    assert "-  constexpr int PITCH = T;  // words from one column of B to the next" in rest
    assert "+  constexpr int PITCH = T + PAD;  // words from one column of B to the next" in rest
    assert not any(line.startswith(("+  __shared__", "-  __shared__")) for line in rest)


def test_code_alone_differs_in_the_lines_that_matter() -> None:
    output = shown("tiled_conflict", "padded", "--code", *SMALL)
    changed = [line for line in output.splitlines() if re.match(r"[+-](?![+-]{2} )", line)]
    assert changed == [
        "-template <int T, int NUM_THREADS>",
        "+template <int T, int PAD, int NUM_THREADS>",
        "-  constexpr int PITCH = T;",
        "+  constexpr int PITCH = T + PAD;",
    ]


def test_side_by_side_shows_both_whole() -> None:
    output = shown("naive", "coalesced", "--side-by-side", "--code", *SMALL)
    one, other = (code_lines(rung.source) for rung in find(["naive", "coalesced"]))
    table = output.split("\n\n")[0].lstrip("\n").splitlines()
    assert re.fullmatch(r"01_naive\.cu +02_coalesced\.cu", table[0])
    middle = table[0].index("02_coalesced.cu")
    assert [line[middle:].rstrip() for line in table[1:] if line[middle:].strip()] == other
    assert [line[: middle - 2].rstrip() for line in table[1:] if line[: middle - 2].strip()] == one
    assert {line[middle - 2] for line in table[1:] if len(line) > middle} <= {"|", "<", ">", " "}


def test_numbers_are_those_of_the_compiler_and_the_counters() -> None:
    found = numbers(shown("tiled_conflict", "padded", *SMALL))
    conflict, padded = (compile_rung(rung, arch="sm_90").resources for rung in find(["tiled_conflict", "padded"]))
    assert found["registers a thread"][:2] == [str(conflict.registers), str(padded.registers)]
    assert found["shared memory, bytes"][:2] == ["8192", "8320"]
    assert found["tile of C"] == ["32x32", "32x32"]
    assert found["bound by"] == ["shared", "shared"]
    worse, better, ratio = map(float, found["wavefronts a request"])
    assert worse > 10 * better
    assert ratio == pytest.approx(better / worse, rel=1e-2)
    one, other, ratio = map(float, found["recorded, 4096x4096x4096"])
    assert ratio == pytest.approx(other / one, rel=1e-2)


def test_what_only_one_has_is_left_blank() -> None:
    output = shown("naive", "register_tile", *SMALL)
    *_, table = output.split("\n\n")
    heading = next(line for line in table.splitlines() if "register_tile" in line)
    end_of_naive = heading.index("naive") + len("naive")
    (line,) = (line for line in table.splitlines() if line.startswith("TM "))
    assert line[:end_of_naive].split() == ["TM"]
    assert line[end_of_naive:].split() == ["8"]
    assert max(map(len, table.splitlines())) <= 100


def test_two_rungs_of_one_file_have_one_source() -> None:
    output = shown("tiled_16", "tiled_32", *SMALL)
    assert output.startswith("tiled_16 and tiled_32 have the same source, 03_tiled.cu.\n")
    assert numbers(output)["T"] == ["16", "32", "2"]


def test_what_cannot_be_emulated_is_said_below() -> None:
    output = shown("async_pipeline", "tma_pipeline", "--code", *SMALL)
    assert "tma_pipeline: Skipped: the emulator runs PTX up to sm_80 features" in output


def test_a_wrong_one_is_said_and_gives_exit_code_1() -> None:
    output = shown(MUTANTS / "right.cu", MUTANTS / "last_k_missing.cu", "--code", *SMALL, code=1)
    assert "last_k_missing: Wrong: " in output


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("tiled", "padded"), "'tiled' stands for 3 rungs, tiled_16, tiled_32, tiled_64; name one of them"),
        (("naive", "pudded"), "did you mean padded"),
        (("naive", "absent.cu"), "absent.cu: cannot be read"),
    ],
)
def test_what_cannot_be_is_refused(words: tuple[str, ...], problem: str) -> None:
    answer = ladder("diff", *words)
    assert answer.returncode == 2
    assert answer.stdout == ""
    assert problem in answer.stderr
    assert answer.stderr.count("\n") == 1
