"""What the machine code adds to the data pipe is read from the cubin as nvdisasm would read it."""

from __future__ import annotations

import re

import pytest

from ladder.catalog import find
from ladder.nvrtc import compile_rung
from ladder.sass import disassemble
from ladder.sass.pipe import PipeUse, pipe_use

NAMES = ("naive", "tiled_16", "tiled_64", "register_tile_1d", "register_tile", "tile_product_16", "tile_product_64")


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90"])
@pytest.mark.parametrize("name", NAMES)
def test_all_reads_of_thread_indices_and_barriers_are_found(name: str, arch: str) -> None:
    kernel = compile_rung(find([name])[0], arch=arch)
    use = pipe_use(kernel.cubin, kernel.lowered_name, arch=arch)
    listing = disassemble(kernel.cubin)
    assert use.once + use.each_turn == len(re.findall(r"S2R \w+, SR_TID|@!PT LDS", listing)) > 0
    assert use.barriers_once + use.barriers_each_turn == len(re.findall(r"BAR\.SYNC", listing))


def test_a_mainloop_is_told_from_what_is_outside() -> None:
    kernel = compile_rung(find(["tiled_16"])[0], arch="sm_90")
    use = pipe_use(kernel.cubin, kernel.lowered_name, arch="sm_90")
    assert (use.once, use.each_turn, use.barriers_once, use.barriers_each_turn) == (1, 0, 0, 2)
    assert use.loads_each_turn == 2


def test_an_unknown_kernel_is_refused() -> None:
    kernel = compile_rung(find(["tiled_16"])[0], arch="sm_90")
    with pytest.raises(ValueError, match=r"no section \.text\.nothing"):
        pipe_use(kernel.cubin, "nothing", arch="sm_90")


def test_turns_are_told_by_barriers_and_idle_accesses_by_requests() -> None:
    use = PipeUse(once=2, each_turn=1, barriers_once=1, barriers_each_turn=2, loads_each_turn=3, stores=4)
    everybody = use.wavefronts(warps=8, blocks=2, barriers=2 * (1 + 2 * 5), loads=8 * 10 * 3, stores=8 * 2 * 4)
    assert everybody == 8 * (2 * 2 + 10)
    fewer = use.wavefronts(warps=8, blocks=2, barriers=22, loads=8 * 10 * 3 - 7, stores=8 * 2 * 4 - 5)
    assert fewer == everybody + 7 + 5
    assert PipeUse(once=2).wavefronts(warps=8, blocks=2, barriers=22, loads=9, stores=9) == 32
