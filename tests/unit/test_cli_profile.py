"""A card's record becomes a profile by one command, and loads as what it says."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.results import make_results
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from ladder import ceilings
from ladder.ceilings import Ceilings, Config, Sustained
from ladder.ceilings._choice import ceiling
from ladder.cli.app import app
from ladder.cli.profile import text_of
from ladder.errors import LadderError
from ladder.model import Device, Roofs, Watched
from ladder.profiles import SCHEMA, load_profile, to_toml
from ladder.store import load, save

ROOT = Path(__file__).parents[2]
H200 = ROOT / "ladder" / "profiles" / "h200.toml"


def made(*arguments: str | Path) -> str:
    result = CliRunner().invoke(app, ["profile", *map(str, arguments)])
    assert result.exit_code == 0, result.output or result.exception
    return result.output


def test_the_packaged_profile_is_what_the_command_makes_of_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    committed = H200.read_text(encoding="utf-8")
    record = re.search(r"^# Made by: ladder profile (\S+)$", committed, re.MULTILINE)
    assert record is not None
    out = tmp_path / "h200.toml"
    assert f"--profile {out}" in made(record[1], "--out", out)
    assert out.read_text(encoding="utf-8") == committed
    assert load_profile(out) == load_profile("h200")
    # Within three digits of what was measured.
    measured = load(record[1]).roofs
    assert dict(load_profile(out).roofs.bytes_per_s) == pytest.approx(dict(measured.bytes_per_s), rel=5e-3)
    assert dict(load_profile(out).roofs.flop_per_s) == pytest.approx(dict(measured.flop_per_s), rel=5e-3)


def test_the_default_name_is_the_cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save(make_results(256, timed=True), "mine.json")
    assert "nvidia-h200.toml" in made("mine.json")
    profile = load_profile(tmp_path / "nvidia-h200.toml")
    assert profile.device.backend == "emulated"
    assert set(profile.roofs.origin.values()) <= {"recorded", "modelled"}


def test_ceilings_are_a_record_too(tmp_path: Path) -> None:
    device = replace(load_profile("h200").device, backend="cuda", driver="600.1")
    seen = Watched(samples=1, sm_clock_hz=1.965e9, sm_clock_low_hz=1.965e9, sm_clock_high_hz=1.965e9)
    rates = {"dram": 4e12, "l2": 9e12, "sm": 33e12, "fp32": 64e12, "bf16": 9e14}
    found = Ceilings(
        device=device, created="2027-02-03T04:05:06Z",
        ceilings=tuple(
            ceiling([Sustained(config=Config(roof=roof), words=f"{roof} so", rate=at, samples=3, watched=seen)], device)
            for roof, at in rates.items()
        ),
    )  # fmt: skip
    ceilings.save(found, tmp_path / "c.json")
    made(tmp_path / "c.json", "--out", tmp_path / "p.toml")
    profile = load_profile(tmp_path / "p.toml")
    assert {**profile.roofs.bytes_per_s, **profile.roofs.flop_per_s} == rates
    assert (profile.device.driver, profile.device.sm_clock_hz) == ("600.1", 1.965e9)
    assert profile.roofs.note["bf16"].startswith("measured 2027-02-03: bf16 so; ")
    # Folders of the machine do not get into the file.
    assert str(tmp_path) not in (tmp_path / "p.toml").read_text()


def test_a_rate_per_clock_that_no_sm_reaches_is_left_out_of_the_note() -> None:
    device = replace(load_profile("h200").device, backend="cuda")
    notes = {
        "fp32": "chains; 260.5 FLOP per clock per SM at 1.896 GHz, 340 W",
        "sm": "reads; 127.1 B per clock per SM at 1.978 GHz",
    }
    roofs = Roofs(
        bytes_per_s={"sm": 33e12}, flop_per_s={"fp32": 65e12}, origin={"sm": "measured", "fp32": "measured"}, note=notes
    )  # fmt: skip
    text = text_of(device, roofs, record=Path("r.json"), created="2026-11-30T00:00:00Z")
    assert "260.5" not in text
    assert 'note = "measured 2026-11-30: chains, 340 W"' in text
    assert "127.1 B per clock" in text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not a JSON record"),
        ("[]", "not a JSON record"),
        ('{"schema": "other/1"}', "is not schema ladder/1"),
        (None, "cannot read"),
    ],
)
def test_what_is_no_record_is_refused(content: str | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    if content is not None:
        path.write_text(content)
    result = CliRunner().invoke(app, ["profile", str(path), "--out", str(tmp_path / "p.toml")])
    assert isinstance(result.exception, LadderError)
    assert message in str(result.exception)
    assert not (tmp_path / "p.toml").exists()


def test_an_emulated_record_has_no_roofs_of_its_own(tmp_path: Path) -> None:
    save(make_results(256), tmp_path / "r.json")
    result = CliRunner().invoke(app, ["profile", str(tmp_path / "r.json")])
    assert "was emulated" in str(result.exception)


def test_a_profile_is_a_toml_file(tmp_path: Path) -> None:
    save(make_results(256, timed=True), tmp_path / "r.json")
    result = CliRunner().invoke(app, ["profile", str(tmp_path / "r.json"), "--out", str(tmp_path / "p.json")])
    assert "ends in .toml" in str(result.exception)


names = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=20)
rates = st.floats(1e3, 1e17)


@given(name=names, note=names.filter(str.strip), dram=rates, fp32=rates, clock=st.none() | st.floats(1e8, 5e9))
def test_any_card_is_read_as_it_was_written(
    name: str, note: str, dram: float, fp32: float, clock: float | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    device = Device(
        backend="emulated", name=name, compute_capability=(8, 6), sm_count=30, l2_bytes=2**20, sm_clock_hz=clock
    )
    roofs = Roofs(
        bytes_per_s={"dram": dram}, flop_per_s={"fp32": fp32},
        origin={"dram": "recorded", "fp32": "modelled"}, note={"dram": note, "fp32": note},
    )  # fmt: skip
    path = tmp_path_factory.mktemp("profiles") / "x.toml"
    path.write_text(to_toml(device, roofs, schema=SCHEMA, comment=("a card",)), encoding="utf-8", newline="")
    read = load_profile(path)
    assert read.device == replace(device, sm_clock_hz=clock and pytest.approx(clock, rel=1e-5))
    assert dict(read.roofs.note) == dict(roofs.note)
    assert dict(read.roofs.origin) == dict(roofs.origin)
    assert read.roofs.bytes_per_s["dram"] == pytest.approx(dram, rel=5e-3)
    assert read.roofs.flop_per_s["fp32"] == pytest.approx(fp32, rel=5e-3)


def test_a_record_in_json_stays_what_it_is(tmp_path: Path) -> None:
    """The command reads and never rewrites the record."""
    save(make_results(256, timed=True), tmp_path / "r.json")
    before = json.loads((tmp_path / "r.json").read_text())
    made(tmp_path / "r.json", "--out", tmp_path / "p.toml")
    assert json.loads((tmp_path / "r.json").read_text()) == before
