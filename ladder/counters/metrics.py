"""Which hardware counters are read, and how they become :class:`ladder.model.Traffic`. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ladder.counters.ncu import Row
from ladder.errors import BackendError
from ladder.model import Level, Quantity, Traffic

__all__ = ["CORE", "PIPE", "add_up", "for_chip", "traffic_of"]

DRAM_READ, DRAM_WRITE = "dram__bytes_read.sum", "dram__bytes_write.sum"
L2_SECTORS = "lts__t_sectors_srcunit_tex.sum"
SHARED_LD = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
SHARED_ST = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"
CYCLES, TIME = "sm__cycles_elapsed.max", "gpu__time_duration.sum"
L1_BYTES = "l1tex__t_bytes.sum"
WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts.sum"
REQUESTS_LD, REQUESTS_ST = "smsp__inst_executed_op_shared_ld.sum", "smsp__inst_executed_op_shared_st.sum"
GLOBAL_REQUESTS = (
    "smsp__inst_executed_op_global_ld.sum",
    "smsp__inst_executed_op_global_st.sum",
    "smsp__inst_executed_op_global_red.sum",
)

CORE = (DRAM_READ, DRAM_WRITE, L2_SECTORS, SHARED_LD, SHARED_ST, CYCLES, TIME)
"""One pass on compute capability 7.5, 8.0, 8.9, 9.0 and 10.0 (asked of CUPTI 13.0's profiler host API)."""

XBAR_READ, XBAR_WRITE = "l1tex__m_xbar2l1tex_read_bytes.sum", "l1tex__m_l1tex2xbar_write_bytes.sum"

PIPE = (L1_BYTES, WAVEFRONTS, REQUESTS_LD, REQUESTS_ST, *GLOBAL_REQUESTS, XBAR_READ, XBAR_WRITE)
"""Several passes; none of these depends on what L2 holds."""

WAVEFRONT_BYTES = 128
"""What the SM's data pipe moves in one wavefront: 32 banks of 4 bytes."""

_DRAM_ON_CC_12 = {DRAM_READ: "dram__bytes_op_read.sum", DRAM_WRITE: "dram__bytes_op_write.sum"}


def for_chip(names: Sequence[str], compute_capability: tuple[int, int]) -> dict[str, str]:
    """Counter by our name for it; compute capability 12.x calls the two of DRAM otherwise."""
    other = _DRAM_ON_CC_12 if compute_capability[0] == 12 else {}
    return {name: other.get(name, name) for name in names}


def add_up(rows: Sequence[Row], names: Mapping[str, str]) -> dict[str, float]:
    """Counters of a product made of several launches, by our names.

    Raises:
        BackendError: ncu gave no value for one of them.
    """
    out: dict[str, float] = {}
    for name, counter in names.items():
        values = [row.values.get(counter) for row in rows]
        lacking = next((row.kernel for row, value in zip(rows, values, strict=True) if value is None), None)
        if lacking is not None:
            raise BackendError(f"ncu gave no {counter} for {lacking!r}; this GPU may not have that counter")
        out[name] = sum(value for value in values if value is not None)
    return out


def traffic_of(counted: Mapping[str, float]) -> Traffic:
    """The bytes of each level, all of origin ``"counted"``.

    DRAM: read plus written. L2: what the SMs took from and sent to it. (The sectors that L2 itself looked up,
    ``lts__t_sectors_srcunit_tex``, are fewer where requests of several SMs for one sector meet on their way.) L1:
    bytes of the sectors that each request touched. Shared and SM: wavefronts of the data pipe times 128 bytes, the
    bandwidth spent.
    """
    pipe, ld, st = (round(counted[name]) for name in (WAVEFRONTS, SHARED_LD, SHARED_ST))
    bytes_of: dict[Level, int] = {
        "l1": round(counted[L1_BYTES]),
        "l2": round(counted[XBAR_READ] + counted[XBAR_WRITE]),
        "dram": round(counted[DRAM_READ] + counted[DRAM_WRITE]),
        "shared": WAVEFRONT_BYTES * (ld + st),
        "sm": WAVEFRONT_BYTES * pipe,
    }
    return Traffic(
        levels={level: Quantity(bytes=size, origin="counted") for level, size in bytes_of.items()},
        wavefronts_ld=ld,
        wavefronts_st=st,
        requests_ld=round(counted[REQUESTS_LD]),
        requests_st=round(counted[REQUESTS_ST]),
        global_wavefronts=max(0, pipe - ld - st),
        global_requests=round(sum(counted[name] for name in GLOBAL_REQUESTS)),
    )
