"""``ladder ceilings``: the tables of a measured card, and those of a recorded one where there is no GPU."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ladder import ceilings as measured
from ladder.ceilings import Ceilings, Config, Finding, Sustained, Trial
from ladder.ceilings._choice import ceiling
from ladder.ceilings._l2 import l2_configs
from ladder.cli import ceilings as command
from ladder.cli import session
from ladder.cli.app import app
from ladder.model import Watched
from ladder.profiles import load_profile
from ladder.workers import Finished

H200 = replace(load_profile("h200").device, backend="cuda", driver="600.1")
RATES = {"dram": 4.2e12, "l2": 9e12, "sm": 33e12, "fp32": 65e12, "tf32": 5e14, "bf16": 1e15}


def kept_up(config: Config, rate: float, power_w: float = 400.0) -> Sustained:
    watched = Watched(samples=9, sm_clock_hz=1.98e9, sm_clock_low_hz=1.98e9, sm_clock_high_hz=1.98e9, power_w=power_w)
    return Sustained(config=config, words=f"{config.roof} {config.data}", rate=rate, samples=9, watched=watched)


def found(*findings: Finding, created: str | None = None) -> Ceilings:
    """What a card gave, with ``findings`` at the roofs that they are of."""
    footprints = [config for config in l2_configs(H200) if config.numbers["share"] == 1][:8]
    made = []
    for roof, rate in RATES.items():
        runs = (
            [kept_up(config, rate) for config in footprints[2:5]]
            if roof == "l2"
            else [kept_up(Config(roof=roof), rate)]
        )
        if roof in {"tf32", "bf16"}:
            runs = [
                kept_up(Config(roof=roof, data="random"), 0.75 * rate, 699.0),
                kept_up(Config(roof=roof, data="constant"), rate),
            ]
        each = ceiling(runs, H200)
        made.append(replace(each, findings=(*each.findings, *(f for f in findings if f.roof == roof))))
    trials = tuple(Trial(config=config, words="l2", rate=9e12, counts=i > 0) for i, config in enumerate(footprints))
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    return Ceilings(device=H200, created=created or now, ceilings=tuple(made), trials=trials, seconds=14.2)


SEEN = tuple(Finding(roof=roof, by="counters", what="bytes", meant=1.0, found=1.0, ok=True) for roof in RATES)
CODED = tuple(Finding(roof=roof, by="machine code", what="LDS", meant=1.0, found=1.0, ok=True) for roof in RATES)


class Gpu:
    """What the command finds: ``has`` is measured, ``asked`` whether anew, ``watched`` how often ncu ran."""

    def __init__(self) -> None:
        self.has: Ceilings | None = found(*SEEN, *CODED)
        self.asked: list[bool] = []
        self.watched = 0
        self.keys: list[str] = []

    def run_jobs(self, jobs: Any, start: Any, **_: Any) -> Iterator[Finished[None, Any]]:
        self.asked.append(start.keywords["fresh"])
        result = None if self.has is None else ("key", self.has)
        return iter([Finished(0, None, result, None if self.has else "the launch failed")])

    def with_counters(self, ceilings: Ceilings) -> Ceilings:
        self.watched += 1
        return ceilings

    def keep(self, key: str, _: Ceilings) -> None:
        self.keys.append(key)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    made = Gpu()
    monkeypatch.setattr(command, "find_gpu", lambda: None)
    for name in ("run_jobs", "with_counters", "keep"):
        monkeypatch.setattr(command, name, getattr(made, name))
    return made


def ladder(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["ceilings", *arguments])


def row(text: str, name: str) -> str:
    return next(line for line in text.splitlines() if re.match(rf"{name}\s{{2,}}", line))


def test_a_measured_card_has_each_roof_with_clock_power_and_checks(gpu: Gpu) -> None:
    result = ladder()
    assert result.exit_code == 0
    text = result.output
    assert "NVIDIA H200, driver 600.1: measured today at" in text
    assert re.search(
        r"33 TB/s\s+126.3 B\s+98.6%\s+1.980 GHz\s+400 W\s+machine code, counters", row(text, "shared read")
    )
    assert re.search(r"65 TFLOP/s\s+248.7 FLOP\s+97.1%", row(text, "FP32"))
    # The higher of two kinds of operands is the roof, and both are shown with what they draw.
    assert re.search(r"500 TFLOP/s.*400 W", row(text, "TF32, constant operands"))
    assert re.search(r"375 TFLOP/s.*699 W", row(text, "TF32, random operands"))
    assert "NOT AS MEANT" not in text
    assert (gpu.asked, gpu.watched, gpu.keys) == ([False], 0, [])


def test_the_sweep_marks_the_plateau(gpu: Gpu) -> None:
    text = ladder().output
    assert text.count("plateau") == 4  # three rows and the caption
    assert text.count("too few chunks") == 1


def test_ridges_of_this_card_and_of_the_known_ones(gpu: Gpu) -> None:
    text = ladder().output
    own, beside = text.split("What moves the ridge")
    assert re.search(r"FP32\s+65 TFLOP/s\s+15.5\s+7.22\s+1.97", own)
    assert re.search(r"BF16\s+1000 TFLOP/s\s+238\s+111\s+30.3", own)
    assert re.search(r"Tesla T4\s+FP32 .* x 1.00", beside)
    assert re.search(r"NVIDIA H200\s+BF16 .*238  x 8.1", beside)


def test_counters_are_read_once(gpu: Gpu) -> None:
    gpu.has = found(*CODED)
    text = ladder("--fresh").output
    assert (gpu.asked, gpu.watched, gpu.keys) == ([True], 1, ["key"])
    assert re.search(r"machine code(?!, counters)", row(text, "shared read"))


def test_a_roof_that_is_not_as_meant_is_not_passed_over(gpu: Gpu) -> None:
    wrong = Finding(roof="sm", by="counters", what="bytes of wavefronts", meant=100.0, found=50.0, ok=False)
    gpu.has = found(*CODED, wrong)
    result = ladder()
    assert result.exit_code == 1
    assert "NOT AS MEANT" in row(result.output, "shared read")
    assert "shared read: bytes of wavefronts: 50 found, 100 meant. Do not trust this roof." in result.output


def test_checks_that_cannot_be_made_say_why_in_one_line(gpu: Gpu) -> None:
    blind = tuple(Finding(roof=roof, by="counters", what="bytes", why="there is no ncu") for roof in RATES)
    gpu.has = found(*CODED, *blind)
    result = ladder()
    assert result.exit_code == 0
    assert result.output.count("there is no ncu") == 1
    assert "not checked by counters: there is no ncu" in result.output


def test_everything_that_was_tried_is_kept(gpu: Gpu, tmp_path: Path) -> None:
    path = tmp_path / "new" / "ceilings.json"
    assert str(path) in ladder("--json", str(path)).output.replace("\n", "")
    assert measured.load(path) == gpu.has


def test_a_card_that_cannot_be_measured_says_why(gpu: Gpu) -> None:
    gpu.has = None
    result = ladder()
    assert "the roofs cannot be measured: the launch failed" in str(result.exception)


def test_without_a_gpu_the_recorded_roofs_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "find_gpu", lambda: "no NVIDIA driver: install it")
    result = ladder()
    assert result.exit_code == 0
    assert result.output.splitlines()[0] == "Nothing is measured here: no NVIDIA driver: install it"
    dram = load_profile("h200").roofs.bytes_per_s["dram"] / 1e12
    assert re.search(rf"DRAM copy\s+{dram:.2f} TB/s\s+recorded", result.output)
    assert re.search(r"NVIDIA A100\s+FP32\s+19.5 TFLOP/s\s+12.5  x 0.43\s+3.61", result.output)


def test_a_profile_is_shown_instead_of_measuring(gpu: Gpu) -> None:
    result = ladder("--profile", "t4")
    assert gpu.asked == []
    assert "Recorded roofs of Tesla T4 (profile t4):" in result.output
    assert "–" in row(result.output.split("Ridge points")[1], "FP32")  # no L2 roof, no ridge


def test_nothing_measured_is_nothing_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "find_gpu", lambda: "no driver")
    result = ladder("--json", str(tmp_path / "c.json"))
    assert result.exit_code == 2
    assert not (tmp_path / "c.json").exists()


def test_ceilings_come_back_from_a_child_process_whole() -> None:
    made = found(*SEEN)
    assert pickle.loads(ForkingPickler.dumps(made)) == made


def test_a_run_says_when_its_roofs_were_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu()
    gpu.has = found(replace(SEEN[2], ok=False, found=2.0), created="2026-01-31T09:15:42Z")

    def run_jobs(jobs: Any, start: Any, **_: Any) -> Iterator[Finished[None, Any]]:
        return iter([Finished(0, None, ("key", gpu.has))])

    monkeypatch.setattr(session, "run_jobs", run_jobs)
    device, roofs, source = session._measured(H200, load_profile("h200").roofs, "recorded")
    assert source.startswith(
        "measured on 2026-01-31 at 09:15 UTC; the sm roof is not as meant, bytes: 2 found, 1 meant"
    )
    assert roofs == gpu.has.roofs
    assert (device.sm_clock_hz, device.power_w) == (1.98e9, 400.0)
