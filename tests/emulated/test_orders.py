"""How warps interleave between barriers changes neither C nor what accesses cost; what it does change has a race.

The order has one effect: which warp is the first to load a line, and so how many passes bring the lines in.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.kernels import RUNGS, compiled, emulator
from helpers.ptx import compile_snippet, module, program_of, run
from numpy.typing import NDArray

from ladder.backends.base import Outcome
from ladder.errors import KernelFaultError
from ladder.memory import WAVEFRONT_BYTES
from ladder.model import Quantity, Rung, Traffic
from ladder.ptx import Order

F32 = NDArray[np.float32]
SERIAL: tuple[Order, ...] = ("warp_serial", "warp_serial_reversed")
FAULTY = Path(__file__).parents[1] / "helpers" / "faulty"


def product(rung: Rung, a: F32, b: F32, order: Order) -> Outcome:
    return emulator(order=order, engine="numpy").run(compiled(rung), a, b, count=True)


def operands(rung: Rung) -> tuple[F32, F32]:
    """One ragged tile of C, and K a little past a tile: barriers are passed more than once.

    Numbers whose sum shows the order of addition, or integers where the rung promises none.
    """
    shape = 5, 9, rung.params.get("BK", rung.params.get("T", 16)) + 1
    m, n, k = (-(-side // step) * step for side, step in zip(shape, rung.multiple, strict=True))
    rng = np.random.default_rng(m)
    draw = rng.standard_normal if rung.ordered else lambda size: rng.integers(-8, 9, size)
    return draw((m, k)).astype(np.float32), draw((k, n)).astype(np.float32)


def without_fetches(outcome: Outcome) -> Traffic:
    """The traffic without the passes that bring lines in, for which the first warp to ask pays."""
    traffic = outcome.traffic
    assert traffic is not None
    pipe = traffic.levels["sm"].bytes - WAVEFRONT_BYTES * traffic.fetch_wavefronts
    levels = {**traffic.levels, "sm": Quantity(bytes=pipe, origin="emulated")}
    return replace(traffic, levels=levels, fetch_wavefronts=0)


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
def test_no_order_changes_a_bit_or_a_count(rung: Rung) -> None:
    a, b = operands(rung)
    lockstep = product(rung, a, b, "lockstep")
    for order in SERIAL:
        serial = product(rung, a, b, order)
        np.testing.assert_array_equal(serial.c.view(np.uint32), lockstep.c.view(np.uint32), order)
        assert without_fetches(serial) == without_fetches(lockstep)
        assert serial.damage is lockstep.damage is None


def test_the_orders_are_three_different_ones() -> None:
    """All threads write one word, of which the last one stays; on the way each leaves what it found."""
    body = "mul.wide.u32 %x1, %tid, 4;\nadd.s64 %x1, %x1, %p1;\nld.global.u32 %w1, [%p0];\nst.global.u32 [%p0], %tid;\n"
    body += "bar.sync 0;\nst.global.u32 [%x1], %w1;"
    found = {}
    for order in ("lockstep", *SERIAL):
        buffers = [np.full(1, 99, np.uint32), np.zeros(96, np.uint32)]
        word, before = run(module(body), buffers, block=(96, 1, 1), order=order)
        found[order] = int(word[0]), [int(x) for x in before[::32]]
    assert found == {
        "lockstep": (95, [99, 99, 99]),
        "warp_serial": (95, [99, 31, 63]),
        "warp_serial_reversed": (31, [63, 95, 99]),
    }


def test_every_order_sees_a_race_that_lockstep_would_hide() -> None:
    """The kernel reads what its neighbour in the next warp wrote; in lockstep the values come out right."""
    kernel = compile_snippet(FAULTY / "race_write_read.cu", "faulty")
    program = program_of(kernel.ptx, kernel.lowered_name)
    for order in ("lockstep", *SERIAL):
        with pytest.raises(KernelFaultError) as fault:
            run(program, [np.arange(64, dtype=np.float32)] * 3, block=(64, 1, 1), scalars=(64, 64, 64), order=order)
        assert fault.value.kind in {"race", "uninitialised"}
