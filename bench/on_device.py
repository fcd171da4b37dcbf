"""One session on a GPU: sanity, the GPU tests, the roofs, a full run, the peers and the counters, a process each.

    python bench/on_device.py --out results/ [--stages sanity,tests,ceilings,run,peers,counts] [--budget 540]
    python bench/on_device.py --out results/ --stages run,fast-small,fast-large,fast-oblong,large,experiments,errors

A stage that fails or overruns its time is reported and the next one goes on. Everything measured is written below
``--out`` as JSON or CSV; a short table comes last. Needs a GPU; ncu for the counters;
nvmath-python or torch for the peers.
"""

# ruff: noqa: PLC0415 -- the stages import the package, with the path that this script gives them
from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHAPES = ("4096x4096x4096", "512x512x512", "1024x1024x1024", "2048x2048x2048")
LARGE = (
    (
        "coalesced",
        "tiled_32",
        "register_tile",
        "warp_tile",
        "tma_pipeline",
        "stream_k",
        "tensor_tf32",
        "split_tensor_256",
    ),
    ("8192x8192x8192", "16384x1024x1024", "1024x16384x1024", "1024x1024x16384"),
)
"""Counted where everything would take too long: rungs and shapes."""
CRC_SHAPES = ("256x256x256", "131x77x259")
RAGGED_SHAPES = ("1x1x1", "33x17x5", "257x129x65", "3x3x431", "5x7x0")
RESULTS, COUNTERS = "results.json", "counters.csv"

FAST = {
    "fast-small": (
        ("slice_k", "tma_slice_k", "tma_pipeline", "split_mma", "split_tensor_64", "tensor_tf32"),
        ("512x512x512", "1024x1024x1024"),
        70,
    ),
    "fast-large": (
        (
            "vectorized",
            "warp_tile",
            "async_pipeline",
            "tma_pipeline",
            "stream_k",
            "split_mma",
            "split_tensor_256",
            "tensor_tf32",
        ),
        ("2048x2048x2048", "4096x4096x4096", "8192x8192x8192"),
        110,
    ),
    "fast-oblong": (
        ("tma_pipeline", "stream_k", "split_tensor_256"),
        ("16384x1024x1024", "1024x16384x1024", "1024x1024x16384"),
        60,
    ),
}
"""Stages beside cuBLAS: rungs, shapes, and the seconds that they may take (about 2.5 a rung and shape on an H200)."""
ACCURATE = ("split_tensor_256", "split_mma", "tma_pipeline", "tensor_tf32")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A process of the session: its command, and the seconds that it may take."""

    name: str
    command: tuple[str, ...]
    limit_s: float


def stages(out: Path) -> tuple[Stage, ...]:
    """All stages, the most telling first."""
    me = (sys.executable, str(Path(__file__).resolve()), "--out", str(out), "--only")
    shapes = [word for shape in SHAPES for word in ("--shape", shape)]
    run = (sys.executable, "-m", "ladder", "run", "--backend", "cuda", *shapes, "--json", str(out / RESULTS))
    peers = (sys.executable, str(ROOT / "bench" / "peers.py"), *shapes, "--into", str(out / RESULTS))
    beside = (sys.executable, str(ROOT / "bench" / "peers.py"))
    errors = (
        *beside,
        *_flags("--rung", ACCURATE),
        *_flags("--shape", SHAPES[:3]),
        "--errors",
        str(out / "errors.json"),
    )
    ladder = (sys.executable, "-m", "ladder")
    large = (*ladder, "run", *LARGE[0], "--backend", "cuda", *_flags("--shape", LARGE[1]))
    experiments = (*ladder, "experiment", "--backend", "cuda", "--json", str(out / "experiments.json"))
    tests = (sys.executable, "-m", "pytest", "-q", "-m", "gpu", "--durations=15", "-p", "no:cacheprovider", "tests/gpu")
    return (
        Stage(name="sanity", command=(*me, "sanity"), limit_s=120),
        Stage(name="tests", command=tests, limit_s=600),
        Stage(name="ceilings", command=(*me, "ceilings"), limit_s=90),
        Stage(name="run", command=run, limit_s=270),
        Stage(name="peers", command=peers, limit_s=90),
        Stage(name="counts", command=(*me, "counts"), limit_s=150),
        *(
            Stage(
                name=name,
                command=(
                    *beside,
                    *_flags("--rung", rungs),
                    *_flags("--shape", sizes),
                    "--json",
                    str(out / f"{name}.json"),
                ),
                limit_s=limit_s,
            )
            for name, (rungs, sizes, limit_s) in FAST.items()
        ),
        Stage(name="errors", command=errors, limit_s=60),
        Stage(name="large", command=(*large, "--json", str(out / "large.json")), limit_s=150),
        Stage(name="experiments", command=experiments, limit_s=90),
    )


def _flags(flag: str, values: Sequence[str]) -> tuple[str, ...]:
    return tuple(word for value in values for word in (flag, value))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the stages asked for; 0 when all ended well."""
    parser = argparse.ArgumentParser(description="A measuring session on a GPU.")
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "on_device")), metavar="DIR")
    parser.add_argument("--stages", default="", metavar="NAME,...", help="default: all of them")
    parser.add_argument("--budget", type=float, default=540, metavar="S", help="seconds for all stages together")
    parser.add_argument("--only", choices=sorted(BODIES), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    if options.only:
        return BODIES[options.only](options.out)
    asked = options.stages.split(",") if options.stages else None
    # Records keep their commands: a path below the checkout is the same everywhere.
    out = options.out.resolve()
    within = out.relative_to(ROOT) if out.is_relative_to(ROOT) else out
    chosen = [stage for stage in stages(within) if asked is None or stage.name in asked]
    ends = []
    deadline = time.monotonic() + options.budget
    for stage in chosen:
        left = min(stage.limit_s, deadline - time.monotonic())
        ends.append((stage.name, *_run(stage, left)))
    print(f"\n{'stage':<12} {'seconds':>8}  outcome")
    for name, seconds, outcome in ends:
        print(f"{name:<12} {seconds:8.1f}  {outcome}")
    return int(any(outcome != "ok" for _, _, outcome in ends))


def _run(stage: Stage, limit_s: float) -> tuple[float, str]:
    if limit_s < 1:
        return 0.0, "left out: no time left"
    print(f"\n== {stage.name} (at most {limit_s:.0f} s)", flush=True)
    paths = [str(ROOT), str(ROOT / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}
    begun = time.monotonic()
    with subprocess.Popen(stage.command, cwd=ROOT, env=environment, process_group=0) as process:
        try:
            code = process.wait(timeout=limit_s)
        except (subprocess.TimeoutExpired, KeyboardInterrupt) as error:
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, KeyboardInterrupt):
                raise
            return time.monotonic() - begun, f"stopped after {limit_s:.0f} s"
    return time.monotonic() - begun, "ok" if code == 0 else f"exit code {code}"


def sanity(out: Path) -> int:
    """Prove every rung at small shapes, each where its crash cannot hurt the others; CRC32s of the ordered ones."""
    from ladder.backends.cuda import find_gpu
    from ladder.catalog import load_catalog
    from ladder.climb import Climber
    from ladder.model import Shape
    from ladder.profiles import load_profile
    from ladder.workers import run_jobs

    reason = find_gpu()
    if reason is not None:
        print(reason)
        return 2
    profile = load_profile("h200")
    shapes = [Shape.parse(text) for text in (*CRC_SHAPES, *RAGGED_SHAPES)]
    jobs = [(rung, shape) for rung in load_catalog() for shape in shapes]
    start = Climber("cuda", profile, profile.roofs, count=False, time=False)
    found: dict[str, dict[str, str]] = {}
    wrong = 0
    for end in run_jobs(jobs, start, timeout_s=60, one_thread=False, retire=lambda run: run.failed):
        rung, shape = end.job
        run = end.result
        check = run.check if run is not None else None
        text = end.failure or (run.skipped or run.error if run is not None else None)
        if check is not None and check.passed:
            text = "right" if check.crc32 is None else f"{check.crc32:08x}"
        elif text is None or run is None or run.skipped is None:
            wrong += 1
            text = f"WRONG: {text or (check.failure if check is not None else None)}"
            print(f"{rung.name} at {shape}: {text}")
        found.setdefault(rung.name, {})[str(shape)] = text
    for name, by_shape in found.items():
        print(f"{name:<20}", *(f"{by_shape[shape][:12]:<12}" for shape in CRC_SHAPES))
    _write(out / "sanity.json", found)
    return int(wrong > 0)


def ceilings(out: Path) -> int:
    """Measure the roofs anew, with what counters see of them; every trial goes to the file."""
    command = [sys.executable, "-m", "ladder", "ceilings", "--fresh", "--json", str(out / "ceilings.json")]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def counts(out: Path) -> int:
    """Read every rung's counters cold and warm; intensities by level go to the output, all counters to CSV files."""
    from ladder.counters import count_with_ncu, ncu_status
    from ladder.model import Shape

    reason = ncu_status()
    if reason is not None:
        print(reason)
        return 1
    shapes = [Shape.parse(text) for text in SHAPES]
    for cold in (True, False):
        cache = "cold" if cold else "warm"
        found = count_with_ncu([], shapes, cold=cold, keep=out / f"{cache}_{COUNTERS}")
        for (name, shape), traffic in found.items():
            levels = " ".join(f"{level} {value:.4g}" for level, value in traffic.intensity(shape.flop).items())
            print(f"{cache} {name:<20} {shape!s:<16} {levels}")
    return 0


BODIES: dict[str, Callable[[Path], int]] = {"sanity": sanity, "ceilings": ceilings, "counts": counts}


def _write(path: Path, record: object) -> None:
    path.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
