"""Nsight Compute's command line: find it, run it, read its CSV."""

from __future__ import annotations

import csv
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import ladder
from ladder.counters.surroundings import MIG_FIX, permission_fix
from ladder.errors import BackendError

__all__ = [
    "Row",
    "command",
    "environment",
    "find",
    "parse",
    "problem_in",
    "profile",
    "read",
    "restricted",
    "why_forbidden",
    "why_missing",
    "write_csv",
]

_KNOWN = (
    (
        "driver resource was unavailable",
        "another tool reads the GPU's counters; stop it (DCGM: `dcgmi profile --pause`) and try again",
    ),
    (
        "not compatible with Nsight Compute",
        "the driver is older than this ncu; update the driver, or use the ncu of its own CUDA toolkit",
    ),
    (
        "is not supported on this device",
        f"this GPU, or its instance, cannot be profiled by this ncu; a newer release may do. Under MIG {MIG_FIX}",
    ),
)
"""What ncu says of a few troubles that are not the program's, and the way out of each (Nsight Compute, FAQ)."""

_PARAMS = Path("/proc/driver/nvidia/params")
_STATUS = Path("/proc/self/status")
_CAP_SYS_ADMIN, _CAP_PERFMON = 21, 38
_USUAL_PLACES = ("/usr/local/cuda/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu")
_SCALE = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_SCALED_UNIT = re.compile(r"([KMGT]?)(byte|sector|cycle|inst)s?")
_TIME_UNIT = {"ns": 1.0, "nsecond": 1.0, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9}
_SEPARATORS = str.maketrans("", "", ", '\u00a0\u202f")
_LINES_OF_LOG = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One profiled launch: the kernel's name as ncu writes it and its counters (base units; nanoseconds for times)."""

    kernel: str
    values: Mapping[str, float]

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", MappingProxyType(dict(self.values)))


def find() -> str | None:
    """The path of ncu: on PATH, or where its installers put it."""
    found = shutil.which("ncu")
    if found is not None:
        return found
    for pattern in _USUAL_PLACES:
        root, _, rest = pattern.partition("*")
        matches = sorted(Path(root).glob("*" + rest)) if rest else [Path(pattern)]
        for path in reversed(matches):
            if os.access(path, os.X_OK):
                return str(path)
    return None


def why_missing() -> str | None:
    """The fix when there is no ncu, else None."""
    if find() is not None:
        return None
    return (
        "hardware counters need Nsight Compute and there is no ncu on PATH; install it with the CUDA toolkit or from "
        "https://developer.nvidia.com/nsight-compute. Emulated counts need nothing"
    )


def restricted(params: Path = _PARAMS) -> bool | None:
    """Whether the driver keeps its counters for administrators; None when no driver says so or not."""
    try:
        said = params.read_text(encoding="utf-8", errors="replace")
    except OSError:  # not Linux, or no driver: ncu itself will say
        return None
    found = re.search(r"^RmProfilingAdminOnly:\s*(\d+)\s*$", said, re.MULTILINE)
    return None if found is None else found[1] != "0"


def why_forbidden(params: Path = _PARAMS, status: Path = _STATUS) -> str | None:
    """The fix when the driver keeps its counters for administrators and this process is none, else None."""
    try:
        held_by = status.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    capabilities = re.search(r"^CapEff:\s*([0-9a-fA-F]+)\s*$", held_by, re.MULTILINE)
    if not restricted(params) or not capabilities:
        return None
    held = int(capabilities[1], 16)
    if held >> _CAP_SYS_ADMIN & 1 or held >> _CAP_PERFMON & 1:
        return None
    return f"the driver keeps hardware counters for administrators (ERR_NVGPUCTRPERM): {permission_fix()}"


def profile(module: Sequence[str], metrics: Mapping[str, str], *, cold: bool, timeout_s: float) -> tuple[Row, ...]:
    """Run ``python -m MODULE ...`` under ncu, without touching clocks, and return what each profiled launch counted.

    Nothing is profiled until the module calls ``cuProfilerStart``.

    Args:
        module: its name and its arguments.
        metrics: counters by our name for them.
        cold: flush the caches before each launch.
        timeout_s: after which it is stopped.

    Raises:
        BackendError: ncu or the module failed; the message has their last words.
    """
    with tempfile.TemporaryDirectory(prefix="ladder-ncu-") as folder:
        log = Path(folder) / "ncu.csv"
        try:
            ended = subprocess.run(
                command(module, metrics, cold=cold, log=log),
                capture_output=True,
                text=True,
                check=False,
                timeout=timeout_s,
                env=environment(),
            )
        except subprocess.TimeoutExpired as error:
            raise BackendError(f"ncu did not end within {timeout_s:g} s; profile fewer or smaller products") from error
        text = read(log)
    problem = problem_in(text, ended.stderr, ended.stdout, exit_code=ended.returncode)
    if problem is not None:
        raise BackendError(problem)
    return parse(text)


def command(module: Sequence[str], metrics: Mapping[str, str], *, cold: bool, log: Path) -> list[str]:
    """The command line that profiles ``python -m MODULE ...`` and writes its table into ``log``.

    Raises:
        BackendError: there is no ncu.
    """
    path = find()
    if path is None:
        raise BackendError(why_missing() or "ncu is gone")
    return [
        path,
        *("--csv", "--page", "raw", "--print-units", "base", "--log-file", str(log)),
        *("--clock-control", "none", "--cache-control", "all" if cold else "none"),
        *("--profile-from-start", "off", "--target-processes", "application-only"),
        *("--metrics", ",".join(metrics.values())),
        *(sys.executable, "-m", *module),
    ]


def problem_in(log: str, *outputs: str, exit_code: int) -> str | None:
    """What went wrong in a profiled run, in one line with the fix where one is known; None when nothing did."""
    said = "\n".join((log, *outputs))
    if "ERR_NVGPUCTRPERM" in said:
        return f"ncu may not read hardware counters (ERR_NVGPUCTRPERM): {permission_fix()}"
    failed = exit_code != 0 or "==ERROR==" in log
    known = next((f"ncu says {words!r}: {fix}" for words, fix in _KNOWN if words in said), None)
    if failed and known is not None:
        return known
    return f"ncu failed (exit code {exit_code}): {_last_words(log, *outputs)}" if failed else None


def read(log: Path) -> str:
    """What ncu has written so far; nothing when it has not begun."""
    return log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""


def parse(text: str) -> tuple[Row, ...]:
    """The launches in ncu's ``--csv --page raw`` output, in order.

    The table may follow lines of ncu and of the program. Its first row names the columns, the second gives units (none
    when the first cell holds a number), and there is a row per launch. Counters without a value are left out.

    Raises:
        BackendError: there is no table.
    """
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID",')), None)
    if start is None:
        raise BackendError(f"ncu reports no launch: {_last_words(text)}")
    table = io.StringIO("\n".join(line for line in lines[start:] if not line.startswith("==")))
    header, *rows = list(csv.reader(table))
    rows = [row for row in rows if len(row) == len(header)]
    if "Kernel Name" not in header:
        raise BackendError(f"ncu's table has no column Kernel Name; it has {', '.join(header)}")
    name = header.index("Kernel Name")
    units = dict.fromkeys(header, "")
    if rows and not rows[0][0].strip():
        units = dict(zip(header, rows.pop(0), strict=True))
    return tuple(Row(kernel=row[name], values=_values(header, row, units)) for row in rows if row[0].strip().isdigit())


def _values(header: Sequence[str], row: Sequence[str], units: Mapping[str, str]) -> dict[str, float]:
    out = {}
    for column, text in zip(header, row, strict=True):
        value = _number(text) if "__" in column else None
        if value is not None:
            out[column] = value * _scale(units[column])
    return out


def _number(text: str) -> float | None:
    """``"1,234"``, ``"1.5e+09"`` or ``"12"``; None for ``"n/a"``, an empty cell and the like."""
    try:
        return float(text.translate(_SEPARATORS))
    except ValueError:
        return None


def _scale(unit: str) -> float:
    match = _SCALED_UNIT.fullmatch(unit.strip())
    if match:
        return _SCALE[match[1]]
    return _TIME_UNIT.get(unit.strip(), 1.0)


def write_csv(path: Path, records: Sequence[Mapping[str, str]]) -> None:
    """Write records with their columns in order of appearance.

    Raises:
        BackendError: the file cannot be written.
    """
    columns = list(dict.fromkeys(key for record in records for key in record))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns, restval="")
            writer.writeheader()
            writer.writerows(records)
    except OSError as error:
        raise BackendError(f"cannot write counters to {path}: {error.strerror or error}") from error


def environment() -> dict[str, str]:
    """This process's, with this package importable whatever the folder."""
    here = str(Path(ladder.__file__).resolve().parents[1])
    before = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": here + (os.pathsep + before if before else "")}


def _last_words(*texts: str) -> str:
    lines = [line.strip() for text in texts for line in text.splitlines() if line.strip()]
    told = [line for line in lines if line.startswith(("==ERROR==", "==WARNING=="))] or lines
    return " / ".join(told[-_LINES_OF_LOG:]) or "it said nothing"
