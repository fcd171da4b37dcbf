"""``docs/add-a-rung.md`` keeps its word: the example compiles as it stands, and every key is documented."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from helpers.cu import write

from ladder.catalog import ARGUMENTS, KEYS, find, prose_fields
from ladder.nvrtc import compile_rung

PAGE = Path(__file__).parents[2] / "docs" / "add-a-rung.md"


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def test_the_example_compiles_as_it_stands(page: str, tmp_path: Path) -> None:
    (example,) = re.findall(r"^```cuda\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (rung,) = find([str(write(tmp_path / "my.cu", example))])
    assert (rung.name, rung.tile, rung.block) == ("my", (16, 32), (256, 1, 1))
    assert set(prose_fields(rung)) == {"summary", "removes", "how", "leaves", "source"}
    for arch in ("sm_75", "sm_90"):
        assert compile_rung(rung, arch=arch).resources.spill_bytes == 0


def test_every_key_has_a_row_and_no_other(page: str) -> None:
    rows = re.findall(r"^\| `(\w+)` \| .* \| .* \| .* \|$", page, re.MULTILINE)
    assert sorted(rows) == sorted(KEYS)


def test_the_arguments_are_the_ones_that_are_checked(page: str) -> None:
    for argument in ("const float* A", "const float* B", "float* C", "int M", "int N", "int K"):
        assert argument in ARGUMENTS
        kind, name = argument.rsplit(" ", 1)
        assert re.search(rf"^\| [^|]*`{name}`[^|]* \| `{re.escape(kind)}` \|", page, re.MULTILINE)
