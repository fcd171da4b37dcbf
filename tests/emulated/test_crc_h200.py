"""The emulator's bits are an H200's: CRC32s that `prove` reported on the card, against those it reports here."""

import json
from pathlib import Path

import pytest
from helpers.kernels import RUNGS, compiled, emulator

from ladder.check import prove
from ladder.model import Shape

RECORD = json.loads((Path(__file__).parents[1] / "data" / "crc32_h200.json").read_text(encoding="utf-8"))
CASES = [
    pytest.param(rung, shape, id=f"{rung.name}-{shape}")
    for rung in RUNGS
    for shape in RECORD["crc32"]
    if rung.ordered and rung.supports(Shape.parse(shape)) is None
]


@pytest.mark.parametrize(("rung", "shape"), CASES)
def test_c_equals_the_h200s_bit_for_bit(rung, shape):
    """One fma chain in k order for each element: a new rung gives the bits that the recorded ones gave."""
    check = prove(emulator(), compiled(rung), Shape.parse(shape), repeat=False)
    assert check.passed, check.failure
    assert check.crc32 == RECORD["crc32"][shape]
