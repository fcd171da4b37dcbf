"""Which hardware counters are read, and how they become what :mod:`ladder.model` holds. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ladder.counters.ncu import Row
from ladder.errors import BackendError
from ladder.model import Activity, Level, Quantity, Traffic

__all__ = [
    "CORE",
    "PIPE",
    "STALLS",
    "WORK",
    "activity_of",
    "add_up",
    "for_chip",
    "traffic_of",
    "warp_metrics",
]

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

FADD, FMUL, FFMA = (f"smsp__sass_thread_inst_executed_op_{name}_pred_on.sum" for name in ("fadd", "fmul", "ffma"))

WORK = (FADD, FMUL, FFMA)
"""FP32 instructions, thread by thread, which ncu counts by patching the machine code: a slower pass of its own."""

TENSOR = "sm__inst_executed_pipe_tensor.sum"
WARPS, RESIDENT, ISSUED = "smsp__warps_active.sum", "smsp__cycles_active.sum", "smsp__issue_active.sum"
ELAPSED = "smsp__cycles_elapsed.sum"
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"

STALLS = (
    "barrier",
    "dispatch_stall",
    "gmma",
    "lg_throttle",
    "long_scoreboard",
    "math_pipe_throttle",
    "mio_throttle",
    "no_instruction",
    "not_selected",
    "short_scoreboard",
    "wait",
)
"""Reasons for which a resident warp does not issue that a matrix product meets (Nsight Compute, Profiling Guide, Warp
Scheduler States), as its counters spell them; what is left goes by the name of ``other``."""

_ONLY_ON_CC_90 = frozenset({"gmma"})

WAVEFRONT_BYTES = 128
"""What the SM's data pipe moves in one wavefront: 32 banks of 4 bytes."""

_DRAM_ON_CC_12 = {DRAM_READ: "dram__bytes_op_read.sum", DRAM_WRITE: "dram__bytes_op_write.sum"}


def for_chip(names: Sequence[str], compute_capability: tuple[int, int]) -> dict[str, str]:
    """Counter by our name for it; compute capability 12.x calls the two of DRAM otherwise."""
    other = _DRAM_ON_CC_12 if compute_capability[0] == 12 else {}
    return {name: other.get(name, name) for name in names}


def _stall(reason: str) -> str:
    return f"smsp__warps_issue_stalled_{reason}.sum"


def warp_metrics(compute_capability: tuple[int, int]) -> tuple[str, ...]:
    """What warps do and wait for, on this chip: with PIPE six or seven passes (asked of CUPTI 13.0 for 7.5 to 12.0).

    Sums rather than the ratios that ncu shows, so that launches of one product add up.
    """
    reasons = [r for r in STALLS if r not in _ONLY_ON_CC_90 or compute_capability == (9, 0)]
    return (TENSOR, WARPS, RESIDENT, ISSUED, ELAPSED, OCCUPANCY, *map(_stall, reasons))


def add_up(rows: Sequence[Row], names: Mapping[str, str]) -> dict[str, float]:
    """Counters of a product made of several launches, by our names; occupancies weigh by the cycles that they are of.

    Raises:
        BackendError: ncu gave no value for one of them.
    """
    out: dict[str, float] = {}
    for name, counter in names.items():
        values = [row.values.get(counter) for row in rows]
        lacking = next((row.kernel for row, value in zip(rows, values, strict=True) if value is None), None)
        if lacking is not None:
            raise BackendError(f"ncu gave no {counter} for {lacking!r}; this GPU may not have that counter")
        known = [value for value in values if value is not None]
        if name == OCCUPANCY:
            cycles = [row.values.get(names.get(RESIDENT, RESIDENT)) or 0.0 for row in rows]
            known = [value * weight for value, weight in zip(known, cycles, strict=True)]
        out[name] = sum(known)
    if out.get(RESIDENT) and OCCUPANCY in out:
        out[OCCUPANCY] /= out[RESIDENT]
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


def activity_of(counted: Mapping[str, float]) -> Activity | None:
    """What the product's warps executed and waited for, of origin ``"counted"``; None without any such counter.

    A reason's share is its part of the warps' resident time: warp-cycles that it stalled over warp-cycles that any warp
    was there. Issued instructions take one warp-cycle each, and ``other`` is what then is left.
    """
    fadd, fmul, ffma = (round(counted[name]) if name in counted else None for name in WORK)
    if WARPS not in counted:
        return None if ffma is None else Activity(origin="counted", fadd=fadd, fmul=fmul, ffma=ffma)
    warps, resident, elapsed = (counted[name] for name in (WARPS, RESIDENT, ELAPSED))
    stalls = {reason: _share(counted[_stall(reason)], warps) for reason in STALLS if _stall(reason) in counted}
    return Activity(
        origin="counted",
        fadd=fadd,
        fmul=fmul,
        ffma=ffma,
        tensor_instructions=round(counted[TENSOR]),
        occupancy=min(1.0, counted[OCCUPANCY] / 100),
        busy=_share(resident, elapsed),
        issue_active=_share(counted[ISSUED], resident),
        stalls=stalls | {"other": max(0.0, 1 - sum(stalls.values()) - _share(counted[ISSUED], warps))},
    )


def _share(part: float, whole: float) -> float:
    """Counters of different passes differ by a little, so a share may come out a trifle above 1."""
    return min(1.0, part / whole) if whole else 0.0
