"""What else takes wavefronts of the SM's data pipe: warp instructions that are no memory access.

Reads of a thread index, accesses without a lane, barriers and groups of copies go through the unit that accesses go
through. ncu counts them in ``l1tex__data_pipe_lsu_wavefronts``, under ``mem_shared_op_misc`` and ``mem_lgds``, and so
do we at level ``sm``.

Measured on an H200, to the last wavefront in every kernel that has an SM to itself, by the launches of
``cuda_src/probes/wavefronts.cu`` in ``bench/results/nvidia-h200/wavefront-probe.json``. They do not depend on the
pattern of any access.
"""

from __future__ import annotations

__all__ = ["BARRIER_WAVEFRONTS", "COPY_GROUP_WAVEFRONTS", "IDLE_WAVEFRONTS"]

IDLE_WAVEFRONTS = 1
"""Of a warp that reads one coordinate of ``threadIdx`` (S2R SR_TID), or issues a load or store in which none of its
lanes takes part. Block indices come another way and cost none."""

BARRIER_WAVEFRONTS = 2
"""Of a threadblock, once all its warps have come to ``__syncthreads()``: the same for 8, 16 and 32 warps."""

COPY_GROUP_WAVEFRONTS = 1
"""Of a warp for each ``cp.async.commit_group``, however many copies are in the group."""
