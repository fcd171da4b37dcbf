"""Loads, stores, atomics, guards, branches and barriers of hand-written PTX, and the faults of local memory."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.control_cases import CONTROL_CASES
from helpers.memory_cases import LANES, MEMORY_CASES, Case
from helpers.ptx import module, run

from ladder.errors import BackendError, KernelFaultError
from ladder.ptx import Order

CASES = (*MEMORY_CASES, *CONTROL_CASES)
FORWARDS: tuple[Order, ...] = ("lockstep", "warp_serial")


@pytest.mark.parametrize(
    ("case", "order"),
    [(case, order) for case in CASES for order in FORWARDS]
    + [(case, "warp_serial_reversed") for case in CASES if not case.in_order],
    ids=lambda value: value.name if isinstance(value, Case) else value,
)
def test_memory_holds_what_it_must(case: Case, order: Order) -> None:
    text = module(case.body, declarations=case.declarations, outside=case.outside)
    after = run(text, case.before, block=(LANES, 1, 1), grid=case.grid, smem_bytes=case.smem_bytes, order=order)
    for number, (got, expected) in enumerate(zip(after, case.after, strict=True)):
        bits = f"u{got.itemsize}"
        np.testing.assert_array_equal(got.view(bits), expected.view(bits), f"buffer {number}")


@pytest.mark.parametrize(
    ("code", "kind", "detail"),
    [
        ("st.local.b32 [%x1+16], %tid;", "out of bounds", "4-byte local access at byte 16 of 16, by thread (0, 0, 0)"),
        ("ld.local.b32 %w1, [%x1+-4];", "out of bounds", "4-byte local access at byte -4 of 16"),
        ("ld.local.v4.b32 {%w1, %w2, %w3, %w4}, [%x1+4];", "out of bounds", "16-byte local access at byte 4 of 16"),
        ("ld.b32 %w1, [%x1+2];", "misaligned", "4-byte local access at byte 2 of 16"),
        ("setp.eq.u32 %q1, %tid, 40;\n@%q1 st.local.b8 [%x1+16], %w1;", "out of bounds", "by thread (40, 0, 0)"),
    ],
)
def test_local_memory_is_watched(code: str, kind: str, detail: str) -> None:
    with pytest.raises(KernelFaultError) as fault:
        run(module(f"mov.u64 %x1, depot;\n{code}", declarations=".local .align 16 .b8 depot[16];"), block=(LANES, 1, 1))
    assert fault.value.kind == kind
    assert detail in str(fault.value)


def test_a_trap_names_who_reached_it() -> None:
    body = "mov.u32 %w1, %ctaid.x;\nsetp.eq.u32 %q1, %w1, 2;\nsetp.gt.and.u32 %q1, %tid, 40, %q1;\n@%q1 trap;"
    with pytest.raises(KernelFaultError, match=r"`trap`: trap: reached by thread \(41, 0, 0\) of block \(2, 0, 0\)"):
        run(module(body), grid=(4, 1, 1), block=(LANES, 1, 1))


def test_a_shared_atomic_of_eight_bytes_is_refused() -> None:
    body = "mov.u64 %x1, box;\nsetp.eq.u32 %q1, %tid, 0;\n@%q1 st.b64 [%x1], %x3;\nbar.sync 0;\nred.add.u64 [%x1], %x3;"
    with pytest.raises(BackendError, match=r"red\.add\.u64.*only 4-byte"):
        run(module(body, declarations=".shared .align 8 .b8 box[8];"), block=(LANES, 1, 1))
