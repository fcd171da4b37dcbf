"""Rungs with tensor maps and with a packed operand compile, both kernels of a file at once."""

from __future__ import annotations

import re

import pytest
from helpers.extras import PACKED_PATH, TMA_PATH
from helpers.sass import opcodes

from ladder.catalog import parse_file, with_params
from ladder.nvrtc import compile_rung


@pytest.mark.parametrize("arch", ["sm_90", "sm_90a"])
def test_a_tensor_map_is_read_where_it_was_passed(arch: str) -> None:
    kernel = compile_rung(parse_file(TMA_PATH)[0], arch=arch)
    found = opcodes(kernel.cubin)
    assert found["UTMALDG.2D"] == 2
    assert not {opcode for opcode in found if opcode.startswith(("LDL", "STL"))}, "no thread copies a map"
    assert (kernel.resources.spill_bytes, kernel.resources.stack_bytes) == (0, 0)
    assert kernel.resources.smem_bytes == 4 * (16 * 16 + 16 * 32) + 8
    assert kernel.pack_lowered_name is None
    assert len(re.findall(r"\.param \.align 64 \.b8 \w+\[128\]", kernel.ptx)) == 2


def test_a_map_is_described_by_the_common_header() -> None:
    assert '#include "tensor_map.cuh"' in TMA_PATH.read_text(encoding="utf-8")


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
def test_the_kernel_that_packs_is_compiled_with_the_rungs_own(arch: str) -> None:
    (rung,) = parse_file(PACKED_PATH)
    for given in (rung, with_params(rung, {"BM": 32, "NUM_THREADS": 512})):
        for _ in range(2):  # compiled, then from the cache
            kernel = compile_rung(given, arch=arch)
            assert kernel.pack_lowered_name is not None
            assert "multiply_packed" in kernel.lowered_name
            assert "pack_b" in kernel.pack_lowered_name
            for name in (kernel.lowered_name, kernel.pack_lowered_name):
                assert f".entry {name}(" in kernel.ptx
