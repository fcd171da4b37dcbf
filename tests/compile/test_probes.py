"""The probes' machine code does what they claim: ptxas has hoisted, merged and dropped nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from helpers.sass import opcodes

from ladder.backends.gpu import probe
from ladder.nvrtc import Compiled, compile_rung
from ladder.sass import disassemble, hottest_loop, kernels

ARCHS = ("sm_75", "sm_80", "sm_90")
REGISTERS_PER_SM = 65536

Count = Callable[[Compiled], int]


@pytest.fixture(params=ARCHS)
def arch(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def made(name: str, kernel: str, arch: str, *, block: int = 1024, **params: int) -> Compiled:
    compiled = compile_rung(probe(name, kernel, block=block, **params), arch=arch)
    assert compiled.resources.spill_bytes == 0
    assert compiled.resources.registers * block <= REGISTERS_PER_SM
    return compiled


def count(compiled: Compiled, *parts: str) -> int:
    """Instructions whose opcode begins with the first part and has the others among its modifiers."""
    first, *rest = parts
    return sum(
        number
        for opcode, number in opcodes(compiled.cubin).items()
        if opcode.split(".")[0] == first and set(rest) <= set(opcode.split("."))
    )


@pytest.mark.parametrize("unroll", [8, 16, 32])
def test_shared_reads_stay_in_the_loop_and_16_bytes_wide(arch: str, unroll: int) -> None:
    kernel = made("shared_read", "shared_read", arch, UNROLL=unroll)
    wide = count(kernel, "LDS", "128")
    # The loop may be unrolled further, with a remainder: never fewer loads than it has.
    assert wide >= unroll
    assert wide % unroll == 0
    assert count(kernel, "LDS") == wide
    assert count(kernel, "FADD") >= 4 * wide


@pytest.mark.parametrize("words", [2, 4])
@pytest.mark.parametrize("unroll", [4, 8])
def test_l2_reads_go_past_l1(arch: str, words: int, unroll: int) -> None:
    kernel = made("l2_read", "l2_read", arch, block=512, NUM_THREADS=512, WORDS=words, UNROLL=unroll)
    width = str(32 * words)
    loads = count(kernel, "LDG", width, "STRONG", "GPU")
    assert loads >= unroll
    assert loads % unroll == 0
    assert count(kernel, "LDG", width) == loads


@pytest.mark.parametrize(("chains", "unroll"), [(8, 16), (12, 12), (16, 8)])
def test_fma_chains_are_fmas_in_registers(arch: str, chains: int, unroll: int) -> None:
    kernel = made("fma", "fma_chains", arch, CHAINS=chains, UNROLL=unroll)
    assert count(kernel, "FFMA") >= chains * unroll
    assert count(kernel, "LDG") + count(kernel, "LDS") + count(kernel, "LDL") == 0


@pytest.mark.parametrize("streaming", [0, 1])
@pytest.mark.parametrize("unroll", [2, 4, 8])
def test_copies_are_16_bytes_wide_with_all_loads_in_flight(arch: str, unroll: int, streaming: int) -> None:
    kernel = made("copy", "copy", arch, UNROLL=unroll, STREAMING=streaming)
    assert count(kernel, "LDG", "128") == count(kernel, "STG", "128") == unroll
    order = [op.split(".")[0] for op in opcodes(kernel.cubin) if op.startswith(("LDG", "STG"))]
    assert order == ["LDG", "STG"]


@pytest.mark.parametrize("bf16", [0, 1])
@pytest.mark.parametrize(("rows", "cols", "block"), [(2, 4, 256), (4, 4, 256), (4, 8, 128)])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_120"])
def test_products_of_a_warp_stand_back_to_back(arch: str, rows: int, cols: int, block: int, bf16: int) -> None:
    kernel = made("tensor_mma", "tensor_mma", arch, block=block, NUM_THREADS=block, BF16=bf16, ROWS=rows, COLS=cols)
    products = count(kernel, "HMMA", "16816" if bf16 else "1688")
    assert products >= rows * cols
    assert products % (rows * cols) == 0
    assert count(kernel, "LDL") == 0


@pytest.mark.parametrize("bf16", [0, 1])
@pytest.mark.parametrize("groups", [1, 2])
def test_products_of_a_warpgroup_keep_their_sums_where_they_are(groups: int, bf16: int) -> None:
    kernel = made(
        "tensor_wgmma", "tensor_wgmma", "sm_90a", block=128 * groups, NUM_THREADS=128 * groups, BF16=bf16, STAGES=2
    )
    code = kernels(disassemble(kernel.cubin))[kernel.lowered_name]
    loop = hottest_loop(code)
    products = [each for each in loop if each.name == "HGMMA"]
    assert len(products) % 8 == 0
    # One set of 128 registers: what is added to is what comes out, and nothing else writes there.
    assert len({each.operands[0] for each in products}) == 1
    assert all(each.operands[0] == each.operands[2] for each in products)
    first = int(products[0].operands[0].removeprefix("R"))
    sums = {f"R{i}" for i in range(first, first + 128)}
    assert not {each.operands[0] for each in loop if each.name != "HGMMA" and each.operands} & sums


def test_the_hold_reads_the_timer_in_a_loop(arch: str) -> None:
    assert "%globaltimer" in made("hold", "hold", arch, block=1).ptx
