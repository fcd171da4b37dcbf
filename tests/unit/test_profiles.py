"""Recorded GPUs: every number has an origin and a note, and a wrong file is refused with file and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from ladder.errors import ProfileError
from ladder.profiles import available, load_profile
from ladder.roofline import ridge
from ladder.store import load

RECORDS = Path(__file__).parents[2] / "bench" / "results"

GOOD = """
schema = "ladder-profile/1"
name = "My GPU"
[device]
compute_capability = "8.6"
sm_count = 10
l2_bytes = 1048576
sm_clock_hz = 1700000000
[roofs.dram]
bytes_per_s = 5e11
origin = "measured"
note = "my copy"
[roofs.fp32]
flop_per_s = 1e13
origin = "measured"
note = "my FMA chains"
"""


def test_the_packaged_profiles() -> None:
    assert available() == ("a100", "h200", "t4")


@pytest.mark.parametrize("name", available())
def test_every_number_has_an_origin_and_a_note(name: str) -> None:
    profile = load_profile(name)
    assert profile.name == name
    assert profile.device.backend == "emulated"
    roofs = profile.roofs
    for roof in (*roofs.bytes_per_s, *roofs.flop_per_s):
        assert roofs.origin[roof] in ("recorded", "modelled")
        assert len(roofs.note[roof]) > 10


@pytest.mark.parametrize("name", available())
def test_the_roofs_nest(name: str) -> None:
    roofs = load_profile(name).roofs
    inner = [roofs.bytes_per_s[level] for level in ("dram", "l2", "sm") if level in roofs.bytes_per_s]
    assert inner == sorted(inner)


def test_the_h200_is_as_measured() -> None:
    profile = load_profile("H200")
    device, roofs = profile.device, profile.roofs
    assert (device.arch, device.sm_count, device.l2_bytes) == ("sm_90", 132, 60 * 2**20)
    measured = load(RECORDS / "nvidia-h200" / "2026-11-30-ladder.json").roofs
    assert dict(roofs.bytes_per_s) == pytest.approx(dict(measured.bytes_per_s), rel=2e-3)
    assert dict(roofs.flop_per_s) == pytest.approx(dict(measured.flop_per_s), rel=2e-3)
    assert set(measured.origin.values()) == {"measured"}
    assert device.sm_clock_hz is not None
    assert roofs.bytes_per_s["sm"] < device.sm_count * 128 * device.sm_clock_hz


def test_the_ridges_of_the_older_cards() -> None:
    assert ridge(load_profile("t4").roofs, "dram") == pytest.approx(29.34, abs=0.01)
    assert ridge(load_profile("a100").roofs, "dram") == pytest.approx(12.5, abs=0.05)
    assert "l2" not in load_profile("t4").roofs.bytes_per_s


def test_a_users_own_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GOOD)
    profile = load_profile(path)
    assert (profile.name, profile.device.name, profile.device.compute_capability) == ("mine", "My GPU", (8, 6))
    assert profile.device.sm_clock_hz == 1.7e9
    assert profile.roofs.origin["dram"] == "measured"


@pytest.mark.parametrize(("name", "offer"), [("h20", "h200"), ("A10", "a100"), ("zzzz", "a100, h200, t4")])
def test_an_unknown_name_offers_the_closest(name: str, offer: str) -> None:
    with pytest.raises(ProfileError, match=offer):
        load_profile(name)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('schema = "ladder-profile/1"', 'schema = "ladder-profile/9"', "key schema is 'ladder-profile/9'"),
        ('schema = "ladder-profile/1"\n', "", "key schema is missing"),
        ('name = "My GPU"', "name = 7", "key name is 7"),
        ("sm_count = 10", "sm_count = 0", "key device.sm_count is 0"),
        ("sm_count = 10", "sm_count = 1.5", "key device.sm_count is 1.5; give a positive integer"),
        ("sm_count = 10", "sm_count = true", "key device.sm_count is True"),
        ("sm_count = 10", "sm_cuont = 10", "key device.sm_cuont is unknown; did you mean sm_count"),
        ("sm_count = 10\n", "", "key device.sm_count is missing"),
        ('compute_capability = "8.6"', "compute_capability = 8.6", "key device.compute_capability is 8.6"),
        ('compute_capability = "8.6"', 'compute_capability = "sm_86"', "key device.compute_capability is 'sm_86'"),
        ("bytes_per_s = 5e11", "bytes_per_s = -1.0", "key roofs.dram.bytes_per_s is -1.0"),
        ("bytes_per_s = 5e11", "bytes_per_s = inf", "key roofs.dram.bytes_per_s is inf"),
        ("bytes_per_s = 5e11", "flop_per_s = 5e11", "key roofs.dram.flop_per_s is unknown"),
        ("[roofs.dram]", "[roofs.l3]", "key roofs.l3 is unknown"),
        ("[roofs.fp32]", "[roofs.tf32]", "key roofs.fp32 is missing"),
        ('note = "my copy"', 'note = " "', "key roofs.dram.note is ' '"),
        ('note = "my copy"\n', "", "key roofs.dram.note is missing"),
        ('origin = "measured"', 'origin = "guessed"', "key roofs.dram.origin is 'guessed'"),
        ("[device]", "[device", "is not TOML"),
    ],
)
def test_a_wrong_file_is_refused_with_file_and_key(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in GOOD
    path = tmp_path / "mine.toml"
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(ProfileError) as caught:
        load_profile(str(path))
    assert "mine.toml" in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["device = 3", 'device = "h200"'])
def test_a_table_must_be_a_table(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text(f'schema = "ladder-profile/1"\nname = "x"\n{text}\nroofs = {{}}\n')
    with pytest.raises(ProfileError, match=r"key device is .*it is a table"):
        load_profile(path)


def test_an_unreadable_file_is_an_error_of_the_profile(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="No such file"):
        load_profile(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ProfileError, match="cannot read profile"):
        load_profile(tmp_path / "bytes.toml")
