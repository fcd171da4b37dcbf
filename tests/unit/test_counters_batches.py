"""A product that fails, hangs or crashes under ncu loses its own counters, in bounded time, and no others."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ladder import counters
from ladder.catalog import find
from ladder.counters import batches, ncu, profile_products
from ladder.counters.batches import MOST_HANGS
from ladder.counters.metrics import CORE, PIPE, TENSOR, WORK, warp_metrics
from ladder.errors import BackendError
from ladder.model import Rung, Shape

# Stands for ncu and the process that it profiles: what becomes of a product is read from a file, by the rung's name.
NCU = """#!{python}
import csv, json, os, signal, sys, time
words = sys.argv[1:]
def option(name): return words[words.index(name) + 1]
metrics = option("--metrics").split(",")
spec, fate = json.load(open(words[-1])), json.load(open({fate!r}))
names = [job[1] for job in spec["jobs"]]
with open({told!r}, "a") as file:
    print(json.dumps([len(metrics), names]), file=file)
unknown = [name for name in fate.get("unknown", []) if name in metrics]
if unknown:
    open(option("--log-file"), "w").write(f"==ERROR== Failed to find metric {{unknown[0]}}\\n")
    sys.exit(1)
if fate.get("start") == "hangs": time.sleep(60)
if names[0] in fate.get("busy after", []) and not os.path.exists({told!r} + "-busy"):
    open({told!r} + "-busy", "w").close()
    open(option("--log-file"), "w").write("==ERROR== The driver resource was unavailable.\\n")
    sys.exit(1)
progress, done, code = os.open(spec["progress"], os.O_CREAT | os.O_WRONLY | os.O_APPEND), 0, 0
def tell(event): os.write(progress, (event + "\\n").encode())
profiled = os.fork()
if not profiled:
    tell(f"ready {{os.getpid()}}")
    for name in names:
        tell("begin")
        how = fate.get(name, "counted")
        if how.startswith("hangs"): time.sleep(60)
        if how == "fails":
            tell("failed CUDA_ERROR_ILLEGAL_ADDRESS")
            os._exit(1)
        if how == "crashes": os.kill(os.getpid(), signal.SIGSEGV)
        tell("end")
    os._exit(0)
ended = os.waitpid(profiled, 0)[1]
bad = [name for name in names if name in fate]
if bad and fate[bad[0]] == "hangs and takes ncu with it": time.sleep(60)
with open(option("--log-file"), "w") as file:
    if ended: file.write("==ERROR== The application returned an error code\\n")
    kept = names[: names.index(bad[0])] if bad else names
    if bad and fate[bad[0]] == "crashes": kept = []
    if bad and fate[bad[0]] == "unprofiled":
        kept, ended = [name for name in names if name != bad[0]], 1
        file.write("==ERROR== Failed to profile a kernel\\n")
    writer = csv.writer(file, quoting=csv.QUOTE_ALL)
    if kept: writer.writerow(["ID", "Kernel Name", *metrics])
    for number, name in enumerate(kept):
        writer.writerow([number, f"void {{name.rpartition('_')[0] or name}}<1>(float *)", *["64"] * len(metrics)])
sys.exit(1 if ended else 0)
"""

SMALL = Shape.parse("8x8x8")
NAMES = ("naive", "coalesced", "tiled_16", "tiled_32")


@pytest.fixture
def profiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Any]:
    """Profile NAMES, given what becomes of some; how many counters each process read of which rungs is in ``told``."""
    monkeypatch.setattr(counters, "find_gpu", lambda: None)
    monkeypatch.setattr(counters, "compute_capability", lambda: (9, 0))
    monkeypatch.setattr(ncu, "why_forbidden", lambda: None)
    monkeypatch.setattr(batches, "_AFTER_A_KILL_S", 1.0)
    monkeypatch.setattr(batches, "_LOOK_S", 0.01)
    fate, told, program = tmp_path / "fate.json", tmp_path / "told", tmp_path / "bin" / "ncu"
    program.parent.mkdir()
    program.write_text(NCU.format(python=sys.executable, fate=str(fate), told=str(told)), encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")

    def run(becomes: dict[str, Any], *, activity: bool = False, limit_s: float = 1.0) -> tuple[Any, list[Any]]:
        fate.write_text(json.dumps(becomes), encoding="utf-8")
        jobs: list[tuple[Rung, Shape]] = [(rung, SMALL) for rung in find(NAMES)]
        found = profile_products(jobs, cold=True, limit_s=limit_s, activity=activity)
        return found, [json.loads(line) for line in told.read_text(encoding="utf-8").splitlines()]

    return run


def names_of(counted: dict[tuple[str, Shape], object]) -> list[str]:
    return [name for name, _ in counted]


@pytest.mark.parametrize(
    ("how", "words", "first_batches"),
    [
        ("fails", "CUDA_ERROR_ILLEGAL_ADDRESS", [[*NAMES], ["tiled_16", "tiled_32"]]),
        ("hangs", "did not end within 1 s", [[*NAMES], ["tiled_16", "tiled_32"]]),
        ("unprofiled", "Failed to profile a kernel", [[*NAMES], ["tiled_16", "tiled_32"]]),
        ("crashes", "exit code 1", [[*NAMES], ["naive"], ["tiled_16", "tiled_32"]]),
        ("hangs and takes ncu with it", "did not end within 1 s", [[*NAMES], ["naive"], ["tiled_16", "tiled_32"]]),
    ],
)
def test_one_bad_product_loses_its_own_counters(
    profiled: Callable[..., Any], how: str, words: str, first_batches: list[list[str]]
) -> None:
    start = time.monotonic()
    found, told = profiled({"coalesced": how})
    assert time.monotonic() - start < 10
    assert names_of(found.traffic) == ["naive", "tiled_16", "tiled_32"]
    assert list(found.lost) == [("coalesced", SMALL)]
    assert words in found.lost["coalesced", SMALL]
    assert "\n" not in found.lost["coalesced", SMALL]
    batches_of_core = [names for count, names in told if count == len(CORE)]
    assert batches_of_core == first_batches
    # What the first run has lost the second does not try.
    assert [names for count, names in told if count == len(PIPE)] == [["naive", "tiled_16", "tiled_32"]]


def test_a_gpu_that_is_busy_after_a_hang_is_tried_again(
    profiled: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "_RECOVERY_S", 0.1)
    found, told = profiled({"coalesced": "hangs", "busy after": ["tiled_16"]})
    assert names_of(found.traffic) == ["naive", "tiled_16", "tiled_32"]
    assert list(found.lost) == [("coalesced", SMALL)]
    assert [names[0] for count, names in told if count == len(CORE)] == ["naive", "tiled_16", "tiled_16"]


def test_what_fails_everything_is_an_error_and_no_rungs_fault(profiled: Callable[..., Any]) -> None:
    with pytest.raises(BackendError, match="dcgmi profile --pause"):
        profiled({"busy after": ["naive"]})


def test_after_a_few_that_hang_the_others_are_given_up(
    profiled: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "MOST_HANGS", 2)
    found, _ = profiled(dict.fromkeys(("naive", "coalesced", "tiled_16"), "hangs"), limit_s=0.3)
    assert found.traffic == {}
    assert [why.partition(":")[0] for why in found.lost.values()] == [
        *["ncu did not end within 0.3 s"] * 2,
        *["not tried after 2 products that did not end"] * 2,
    ]
    assert MOST_HANGS >= 2


def test_a_process_that_never_starts_is_stopped(profiled: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "START_LIMIT_S", 0.5)
    with pytest.raises(BackendError, match=r"within 0\.5 s"):
        profiled({"start": "hangs"})


def test_what_warps_do_comes_with_the_traffic(profiled: Callable[..., Any]) -> None:
    found, told = profiled({}, activity=True)
    assert [count for count, _ in told] == [len(CORE), len(PIPE) + len(warp_metrics((9, 0))), len(WORK)]
    activity = found.activity["tiled_32", SMALL]
    assert activity.flop == 64 + 64 + 2 * 64
    assert activity.origin == "counted"
    assert activity.occupancy == 0.64
    assert found.notes == ()


def test_a_gpu_without_those_counters_gives_the_traffic_and_says_so(profiled: Callable[..., Any]) -> None:
    found, _ = profiled({"unknown": [TENSOR, WORK[0]]}, activity=True)
    assert names_of(found.traffic) == [*NAMES]
    assert found.activity == {}
    waits, work = found.notes
    assert "what warps wait for" in waits
    assert f"Failed to find metric {TENSOR}" in waits
    assert "FP32 instructions" in work


def test_counting_fp32_instructions_may_fail_for_one_rung(
    profiled: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = batches.profile_each

    def fail_at_work(jobs: Any, metrics: Any, **how: Any) -> Any:
        if WORK[0] not in metrics:
            return real(jobs, metrics, **how)
        kept = real(jobs[1:], metrics, **how)
        rows = {index + 1: found for index, found in kept.rows.items()}
        return batches.Batched(rows=rows, lost={0: "no end within 1 s"})

    monkeypatch.setattr(counters, "profile_each", fail_at_work)
    found, _ = profiled({}, activity=True)
    assert names_of(found.traffic) == [*NAMES]
    assert found.activity["naive", SMALL].flop is None
    assert found.activity["naive", SMALL].occupancy == 0.64
    assert found.activity["coalesced", SMALL].flop == 256
    assert found.notes == ("not counted: FP32 instructions of naive at 8x8x8: no end within 1 s",)
