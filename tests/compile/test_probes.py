"""The probes' machine code does what they claim: ptxas has hoisted, merged and dropped nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from helpers.sass import opcodes

from ladder.backends.gpu import probe
from ladder.nvrtc import Compiled, compile_rung

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


def test_the_hold_reads_the_timer_in_a_loop(arch: str) -> None:
    assert "%globaltimer" in made("hold", "hold", arch, block=1).ptx
