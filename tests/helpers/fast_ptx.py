"""Table tests of opcodes that lanes execute together: each thread gets some words, runs a body, leaves some words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from helpers.ptx import module, run
from ladder.ptx import Counters, Order

__all__ = ["kernel", "lanes"]


def kernel(body: str, *, inputs: int = 0, outputs: int = 1, shared_bytes: int = 0, outside: str = "") -> str:
    """A module whose thread finds its words in %i0, %i1 ... and leaves its results in %o0, %o1 ..., all .b32.

    %lane and %smem (start of shared memory) are set, %src points to the thread's words, ``DONE`` is the end.
    """
    declarations = (
        f".reg .b32 %i<{inputs + 1}>; .reg .b32 %o<{outputs + 1}>; .reg .b32 %lane; .reg .b32 %smem; .reg .b32 %n;\n"
        f".reg .b32 %r<40>; .reg .b64 %src; .reg .b64 %dst;\n.shared .align 16 .b8 smem[{shared_bytes}];"
    )
    before = [
        "mov.u32 %n, %ctaid.x; mov.u32 %lane, %ntid.x; mad.lo.u32 %n, %n, %lane, %tid;",
        "mov.u32 %lane, %laneid; mov.u32 %smem, smem;",
        f"mul.wide.u32 %src, %n, {4 * inputs}; add.s64 %src, %src, %p0;",
        f"mul.wide.u32 %dst, %n, {4 * outputs}; add.s64 %dst, %dst, %p1;",
        *(f"ld.global.u32 %i{i}, [%src+{4 * i}];" for i in range(inputs)),
        *(f"mov.u32 %o{i}, 0;" for i in range(outputs)),
    ]
    after = ["DONE:", *(f"st.global.u32 [%dst+{4 * i}], %o{i};" for i in range(outputs))]
    return module("\n".join([*before, body, *after]), declarations=declarations, outside=outside, target="sm_80")


def lanes(
    body: str,
    words: Sequence[Any] = (),
    *,
    outputs: int = 1,
    threads: int = 32,
    blocks: int = 1,
    shared_bytes: int = 16,
    smem_bytes: int = 0,
    outside: str = "",
    order: Order = "lockstep",
    counters: Counters | None = None,
) -> NDArray[np.uint32]:
    """Run a body on ``threads * blocks`` threads; ``words`` holds a scalar or an array for each input.

    Returns:
        (outputs, threads * blocks) uint32.
    """
    given = np.zeros((threads * blocks, max(len(words), 1)), np.uint32)
    for column, values in enumerate(words):
        array = np.asarray(values)
        given[:, column] = array.view(np.uint32) if array.dtype in (np.float32, np.int32) else array
    text = kernel(body, inputs=len(words), outputs=outputs, shared_bytes=shared_bytes, outside=outside)
    buffers = [given, np.zeros((threads * blocks, outputs), np.uint32)]
    grid, block = (blocks, 1, 1), (threads, 1, 1)
    done = run(text, buffers, grid=grid, block=block, smem_bytes=smem_bytes, order=order, counters=counters)
    return np.ascontiguousarray(done[1].T)
