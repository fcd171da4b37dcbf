"""The record of tuned parameters: nothing is lost, a newer entry replaces its own kind, a wrong file says so."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.tuned import entry

from ladder.errors import StoreError
from ladder.tuned import SCHEMA, load_tuned, merge_tuned


def test_a_round_trip_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "tuned.json"
    written = merge_tuned(path, [entry(4096), entry(512, driver=None, peer_flop_per_s=None, left_out={})])
    assert load_tuned(path) == written
    assert [tuned.shape.n for tuned in written] == [512, 4096]


def test_the_schema_is_the_documented_one(tmp_path: Path) -> None:
    merge_tuned(tmp_path / "t.json", [entry()])
    data = json.loads((tmp_path / "t.json").read_text())
    assert data["schema"] == SCHEMA == "ladder-tuned/1"
    (found,) = data["entries"]
    assert found["shape"] == {"m": 4096, "n": 4096, "k": 4096}
    assert found["class"] == {"tiles_log2": 3, "depth_log2": 12, "aligned": True}
    assert found["gain"] == pytest.approx(56 / 50)
    assert found["ratio_to_cublas"] == pytest.approx(56 / 51.2)
    assert set(found) == {
        "card", "driver", "nvrtc", "date", "rung", "source_sha256", "code_sha256", "shape", "class", "params",
        "flop_per_s", "samples", "declared", "declared_flop_per_s", "peer_flop_per_s", "tried", "left_out", "gain",
        "ratio_to_cublas",
    }  # fmt: skip


def test_without_a_peer_there_is_no_ratio() -> None:
    assert entry(peer_flop_per_s=None).ratio_to_cublas is None


def test_an_entry_replaces_that_of_its_card_rung_and_class_alone(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    merge_tuned(path, [entry(4096), entry(512), entry(4096, rung="other"), entry(4096, card="NVIDIA A100")])
    newer = replace(entry(4000), params={"BK": 32, "STAGES": 2}, flop_per_s=1e12)
    assert newer.shape_class == entry(4096).shape_class
    after = merge_tuned(path, [newer])
    assert load_tuned(path) == after
    assert len(after) == 4
    assert newer in after
    assert entry(4096) not in after


def test_merging_into_what_is_no_record_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text('{"schema": "ladder/1"}')
    with pytest.raises(StoreError, match=r"is not schema ladder-tuned/1 \(found 'ladder/1'\)"):
        merge_tuned(path, [entry()])
    assert path.read_text() == '{"schema": "ladder/1"}'
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not JSON"),
        ("[]", "found 'list'"),
        ('{"schema": "ladder-tuned/1"}', "damaged ladder-tuned/1 file: KeyError: 'entries'"),
        ('{"schema": "ladder-tuned/1", "entries": [{}]}', "damaged .* KeyError"),
        ('{"schema": "ladder-tuned/1", "entries": [3]}', "damaged .* TypeError"),
    ],
)
def test_a_wrong_file_says_what_is_wrong(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(StoreError, match=words):
        load_tuned(path)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"cannot read .*No such file"):
        load_tuned(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"flop_per_s": 0.0}, "flop_per_s is 0.0"),
        ({"declared_flop_per_s": float("nan")}, "declared_flop_per_s is nan"),
        ({"peer_flop_per_s": float("inf")}, "peer_flop_per_s is inf"),
        ({"params": {"BK": 8}}, r"params are \['BK'\] and declared \['BK', 'STAGES'\]"),
    ],
)
def test_a_damaged_entry_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        entry(**changes)
