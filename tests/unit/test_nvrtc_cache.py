"""The store of compiled kernels: what goes in comes out, and whatever is wrong with it reads as absent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ladder.nvrtc import _cache, cache_dir
from ladder.nvrtc._library import Product

PRODUCT = Product(ptx=".version 9.0 \u00d7", cubin=bytes(range(256)), lowered_names=("_Z1kv", "_Z1pv"), log="")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LADDER_CACHE_DIR", str(tmp_path / "deep" / "cache"))
    return tmp_path / "deep" / "cache"


def test_what_goes_in_comes_out(folder: Path) -> None:
    assert _cache.load("k") is None
    _cache.save("k", PRODUCT)
    assert _cache.load("k") == PRODUCT
    assert [path.name for path in folder.iterdir()] == ["k.json"], "no temporary file is left"


def test_keys_follow_every_input() -> None:
    inputs = {"source": "a", "flags": ["-x"], "headers": []}
    keys = {_cache.key_of(**inputs)}
    keys.update(
        _cache.key_of(**{**inputs, **change}) for change in ({"source": "b"}, {"flags": []}, {"headers": [["h", "00"]]})
    )
    assert len(keys) == 4
    assert _cache.key_of(**inputs) in keys


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda data: data[: len(data) // 2],
        lambda data: b"\xff" + data,
        lambda _: b"[]",
        lambda _: b"3",
        lambda _: b"{}",
        lambda data: data.replace(b"_Z1kv", b"_Z1kw"),
        lambda data: json.dumps({**json.loads(data), "sha256": 3}).encode(),
        lambda data: json.dumps({**json.loads(data), "product": 3}).encode(),
    ],
)
def test_a_damaged_entry_reads_as_absent(folder: Path, damage) -> None:
    _cache.save("k", PRODUCT)
    path = folder / "k.json"
    path.write_bytes(damage(path.read_bytes()))
    assert _cache.load("k") is None
    _cache.save("k", PRODUCT)
    assert _cache.load("k") == PRODUCT


def test_a_folder_that_cannot_be_made_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    monkeypatch.setenv("LADDER_CACHE_DIR", str(in_the_way / "cache"))
    _cache.save("k", PRODUCT)
    assert _cache.load("k") is None


def test_an_entry_that_cannot_be_replaced_leaves_nothing_behind(folder: Path) -> None:
    (folder / "k.json").mkdir(parents=True)
    _cache.save("k", PRODUCT)
    assert [path.name for path in folder.iterdir()] == ["k.json"]
    assert _cache.load("k") is None


def test_the_folder_is_chosen_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LADDER_CACHE_DIR", str(tmp_path))
    assert cache_dir() == tmp_path
    monkeypatch.delenv("LADDER_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_dir() == tmp_path / "xdg" / "matmul-ladder"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    assert cache_dir() == tmp_path / "home" / ".cache" / "matmul-ladder"
