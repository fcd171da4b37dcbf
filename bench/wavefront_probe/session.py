"""The launches under ncu: a child process makes them, each once unseen, then once counted."""

from __future__ import annotations

import ctypes
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from os import killpg
from pathlib import Path
from typing import Any

from bench.wavefront_probe.case import FIELDS, Case
from ladder.counters import ncu
from ladder.nvrtc._library import translate

__all__ = ["METRICS", "child", "compile_probe", "count"]

SOURCE = Path(__file__).resolve().parents[2] / "cuda_src" / "probes" / "wavefronts.cu"
BUFFER_BYTES = 64 << 20

_PIPE = "l1tex__data_pipe_lsu_wavefronts"
METRICS = {
    "wavefronts": _PIPE,
    "global": f"{_PIPE}_mem_lgds",
    "global_read": f"{_PIPE}_mem_lgds_cmd_read",
    "shared": f"{_PIPE}_mem_shared",
    "shared_ld": f"{_PIPE}_mem_shared_op_ld",
    "shared_st": f"{_PIPE}_mem_shared_op_st",
    "misc": f"{_PIPE}_mem_shared_op_misc",
    "arbitration": "l1tex__data_bank_conflicts_type_arbitration",
    "set_accesses": "l1tex__t_set_accesses_pipe_lsu",
    "set_conflicts": "l1tex__t_set_conflicts_pipe_lsu",
    "filled_sectors": "l1tex__m_xbar2l1tex_read_sectors",
}
"""Names in the record for sums over all SMs. ``misc`` comes with copies alone: it takes more passes of each launch."""

_MAX_SMEM, _CARVEOUT = 8, 9  # CUfunction_attribute
_SHOWN_LINES = 6


class _P(ctypes.Structure):
    """``struct P`` of wavefronts.cu."""

    _fields_ = (("base", ctypes.c_uint64), *((name, ctypes.c_uint32) for name in FIELDS))


def compile_probe(cases: Sequence[Case], arch: str) -> tuple[bytes, dict[str, str]]:
    """The cubin, and the lowered name of each kernel's expression.

    Raises:
        CompileError, NvrtcMissingError: as :func:`ladder.nvrtc.compile_rung`.
    """
    names = tuple(dict.fromkeys(case.expression for case in cases))
    options = (f"--gpu-architecture={arch}", "-std=c++17", f"--include-path={SOURCE.parent}")
    made = translate(SOURCE.read_text(encoding="utf-8"), path=SOURCE, name_expressions=names, options=options)
    return made.cubin, dict(zip(names, made.lowered_names, strict=True))


def count(cases: Sequence[Case], *, arch: str, cold: bool, limit_s: float) -> list[dict[str, int]]:
    """The counters of each case by their names in the record.

    Args:
        cases: what to launch.
        arch: such as ``"sm_90"``.
        cold: with caches that ncu flushes before each launch; else as the launch before has left them.
        limit_s: seconds for all.

    Raises:
        RuntimeError: ncu is missing, failed, or took too long.
    """
    tool = ncu.find()
    if tool is None:
        raise RuntimeError("ncu is not installed; install Nsight Compute")
    cubin, lowered = compile_probe(cases, arch)
    wanted = {
        name: f"{metric}.sum" for name, metric in METRICS.items() if name != "misc" or cases[0].kernel == "k_copy"
    }
    with tempfile.TemporaryDirectory(prefix="wavefronts-") as folder:
        image, spec, log = (Path(folder) / name for name in ("probe.cubin", "job.json", "ncu.csv"))
        image.write_bytes(cubin)
        spec.write_text(json.dumps({"cubin": str(image), "launches": [_launch(case, lowered) for case in cases]}))
        command = [
            tool, "--csv", "--page", "raw", "--print-units", "base", "--log-file", str(log), "--clock-control", "none",
            "--cache-control", "all" if cold else "none", "--profile-from-start", "off",
            "--target-processes", "application-only", "--metrics", ",".join(wanted.values()),
            sys.executable, "-m", "bench.wavefront_probe", "--child", str(spec),
        ]  # fmt: skip
        with (Path(folder) / "said").open("w+", encoding="utf-8") as words:
            process = subprocess.Popen(command, stdout=words, stderr=words, start_new_session=True)
            try:
                code = process.wait(timeout=limit_s)
            except subprocess.TimeoutExpired:
                killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise RuntimeError(f"ncu took over {limit_s:.0f} s") from None
            words.seek(0)
            said = words.read()
        text = log.read_text(encoding="utf-8") if log.exists() else ""
    rows = ncu.parse(text) if code == 0 else []
    if len(rows) != len(cases):
        last = " / ".join(f"{text}\n{said}".strip().splitlines()[-_SHOWN_LINES:])
        raise RuntimeError(f"ncu: exit code {code}, {len(rows)} of {len(cases)} launches: {last}")
    return [{name: round(row.values[metric]) for name, metric in wanted.items()} for row in rows]


def _launch(case: Case, lowered: dict[str, str]) -> dict[str, Any]:
    return {
        "name": case.name,
        "symbol": lowered[case.expression],
        "grid": case.grid,
        "block": 32 * case.warps,
        "smem": case.smem,
        "carveout": case.carveout,
        "off": case.off,
        "mnk": case.mnk,
        "p": {name: getattr(case, name) for name in FIELDS},
    }


def child(spec: Path) -> None:
    """Launch the cases of a file: each once, then once between cuProfilerStart and cuProfilerStop."""
    job = json.loads(spec.read_text())
    cuda = ctypes.CDLL("libcuda.so.1")
    where = "start"

    def call(name: str, *arguments: object) -> None:
        code = getattr(cuda, name)(*arguments)
        if code:
            raise SystemExit(f"{name}: CUresult {code} at {where}")

    device, context, module, buffer = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    call("cuModuleLoadData", ctypes.byref(module), Path(job["cubin"]).read_bytes())
    call("cuMemAlloc_v2", ctypes.byref(buffer), ctypes.c_size_t(BUFFER_BYTES))
    call("cuMemsetD8_v2", buffer, ctypes.c_ubyte(0), ctypes.c_size_t(BUFFER_BYTES))
    for launch in job["launches"]:
        where = launch["name"]
        function = ctypes.c_void_p()
        call("cuModuleGetFunction", ctypes.byref(function), module, launch["symbol"].encode())
        call("cuFuncSetAttribute", function, _MAX_SMEM, launch["smem"])
        call("cuFuncSetAttribute", function, _CARVEOUT, launch["carveout"])
        values: list[Any] = [_P(base=buffer.value + launch["off"], **launch["p"])]
        if launch["mnk"]:
            values = [ctypes.c_uint64(buffer.value + (part << 22)) for part in range(3)]
            values += [ctypes.c_int(size) for size in launch["mnk"]]
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(value) for value in values])
        for counted in (False, True):
            if counted:
                call("cuProfilerStart")
            call(
                "cuLaunchKernel", function, *launch["grid"], launch["block"], 1, 1, launch["smem"], None, pointers, None
            )
            call("cuCtxSynchronize")
            if counted:
                call("cuProfilerStop")
