"""The packaged table of rates: made of proved and timed rungs, read back as written, and equal to its records."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.results import KERNELS, h200, make_results, make_run, peer, unhappy_runs
from helpers.tuned import entry

from bench import rates as command
from ladder.errors import StoreError
from ladder.model import Device, Shape
from ladder.profiles import available, load_profile
from ladder.rates import SUFFIX, Rates, from_text, load_rates, nearest_card, rates_from, to_text
from ladder.recorded import SUFFIX as COUNTS
from ladder.store import load, save
from ladder.tuned import merge_tuned

TIMED = make_results(1024, timed=True)
CUBE = Shape(m=1024, n=1024, k=1024)


def test_proved_and_timed_rungs_count_and_nothing_else() -> None:
    unproved = replace(make_run(KERNELS[0], 512, timed=True), check=None)
    extra = (*unhappy_runs(1024), peer(1024, 33e12), make_run(KERNELS[1], 256), unproved)
    made = rates_from({"r.json": make_results(1024, timed=True, extra=extra)}, {})
    assert {row.rung for row in made.rows} == {kernel.name for kernel in KERNELS if kernel.kind == "rung"}
    assert {row.shape for row in made.rows} == {CUBE}
    assert made.card == "NVIDIA H200"
    assert (made.compute_capability, made.sm_count, made.sources) == ((9, 0), 132, ("r.json",))


def test_a_later_record_replaces_a_rate_and_rates_have_four_digits() -> None:
    again = replace(TIMED, runs=(make_run(replace(KERNELS[3], rate_flop_per_s=1.23456e12), 1024, timed=True),))
    made = rates_from({"old.json": TIMED, "new.json": again}, {})
    assert [row.flop_per_s for row in made.rows if row.rung == KERNELS[3].name] == [1.235e12]
    assert len(made.rows) == len(rates_from({"old.json": TIMED}, {}).rows)


def test_how_much_longer_it_takes_cold_is_kept_where_it_is_known() -> None:
    run = make_run(KERNELS[3], 1024, timed=True)
    assert run.time is not None
    cold = replace(run.time, median=1.23456 * run.time.median, p80=2 * run.time.median)
    made = rates_from({"r.json": replace(TIMED, runs=(replace(run, time_cold=cold), TIMED.runs[0]))}, {})
    assert {row.rung: row.cold_over_warm for row in made.rows} == {"tiled_32": 1.235, "naive": None}
    assert from_text(to_text(made), where="here") == made
    assert to_text(made).count("cold_over_warm") == 1


def test_the_fastest_at_a_shape_comes_first() -> None:
    rows = rates_from({"r.json": TIMED}, {}).rows
    assert [row.flop_per_s for row in rows] == sorted((row.flop_per_s for row in rows), reverse=True)


def test_tuned_parameters_are_kept_unless_they_are_the_declared_ones() -> None:
    same = entry(512, params={"BK": 8, "STAGES": 3})
    made = rates_from({"r.json": TIMED}, {"t.json": [entry(4096), same]})
    assert made.sources == ("r.json", "t.json")
    found = made.tuned_for("fast", entry(4096).shape_class)
    assert found is not None
    assert dict(found.params) == {"BK": 16, "STAGES": 4}
    assert found.code_sha256 == "1" * 64
    assert made.tuned_for("fast", same.shape_class) is None
    assert made.tuned_for("other", entry(4096).shape_class) is None


def test_cards_are_not_mixed() -> None:
    with pytest.raises(StoreError, match="different cards: NVIDIA A100, NVIDIA H200"):
        rates_from({"r.json": TIMED}, {"t.json": [entry(card="NVIDIA A100")]})


@pytest.mark.parametrize("records", [{}, {"r.json": make_results(256)}])
def test_no_times_no_table(records: dict[str, object]) -> None:
    with pytest.raises(StoreError, match=r"no proved and timed rung in (r.json|no record)"):
        rates_from(records, {})


def test_text_and_back() -> None:
    made = rates_from({"r.json": TIMED}, {"t.json": [entry(4096), entry(512)]})
    assert from_text(to_text(made), where="x") == made
    assert from_text(to_text(replace(made, tuned=())), where="x").tuned == ()
    assert len(to_text(made).splitlines()) > len(made.rows) + len(made.tuned)
    json.loads(to_text(made))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "x.json: damaged ladder-rates/1"),
        ("{}", "x.json: damaged .* KeyError"),
        ("[]", "x.json: damaged .* TypeError"),
        ('{"schema": "ladder/1"}', "x.json is 'ladder/1'; this version reads ladder-rates/1"),
    ],
)
def test_a_damaged_table_says_so(text: str, words: str) -> None:
    with pytest.raises(StoreError, match=words):
        from_text(text, where="x.json")


def test_a_rate_is_positive() -> None:
    text = to_text(rates_from({"r.json": TIMED}, {})).replace('"flop_per_s": 8', '"flop_per_s": -8')
    with pytest.raises(StoreError, match="a rate is positive"):
        from_text(text, where="x.json")


def card(name: str, capability: tuple[int, int], sm_count: int) -> Rates:
    return Rates(card=name, compute_capability=capability, sm_count=sm_count, sources=(), rows=())


def test_the_card_most_like_it() -> None:
    tables = [card("A", (8, 0), 108), card("H", (9, 0), 132), card("T", (7, 5), 40), card("small H", (9, 0), 60)]

    def of(name: str, capability: tuple[int, int], sm_count: int) -> str:
        device = Device(backend="cuda", name=name, compute_capability=capability, sm_count=sm_count, l2_bytes=1)
        found = nearest_card(tables, device)
        assert found is not None
        return found.card

    assert of("T", (9, 0), 132) == "T"
    assert of("new", (9, 0), 114) == "H"
    assert of("new", (9, 0), 50) == "small H"
    assert of("new", (8, 6), 84) == "A"
    assert of("new", (12, 0), 170) == "H"
    assert nearest_card([], h200()) is None


def _packaged() -> list[Path]:
    return list(command.FOLDER.glob(f"*{SUFFIX}"))


def test_every_packaged_table_is_what_its_records_give() -> None:
    names = {load_profile(path.name.removesuffix(SUFFIX)).device.name: path for path in _packaged()}
    for table in load_rates():
        assert command.made_from(table.sources) == table, "run bench/rates.py again"
        counts = names[table.card].with_name(names[table.card].name.replace(SUFFIX, COUNTS))
        assert command.counts_made_from(table.sources) == load(counts), "run bench/rates.py again"


def test_the_packaged_tables_are_of_packaged_profiles() -> None:
    names = [path.name.removesuffix(SUFFIX) for path in _packaged()]
    assert "h200" in names
    assert set(names) <= set(available())
    assert sorted(table.card for table in load_rates()) == sorted(load_profile(name).device.name for name in names)


def test_the_command_writes_a_table(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "ROOT", tmp_path)
    monkeypatch.setattr(command, "FOLDER", tmp_path / "profiles")
    save(TIMED, tmp_path / "bench" / "r.json")
    merge_tuned(tmp_path / "bench" / "t.json", [entry()])
    words = [str(tmp_path / "bench" / name) for name in ("r.json", "t.json")]
    assert command.main([*words, "--profile", "H200"]) == 0
    made = from_text((tmp_path / "profiles" / "h200_rates.json").read_text(), where="x")
    assert made == rates_from({"bench/r.json": TIMED}, {"bench/t.json": [entry()]})
    assert "9 rates, 1 tuned" in capsys.readouterr().out
    assert command.main([*words, "--profile", "a100"]) == 2
    assert "the records are of NVIDIA H200" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["none.json", "/etc/passwd"])
def test_the_command_refuses_what_is_no_record_of_the_checkout(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([name, "--profile", "h200"]) == 2
    assert "rates: " in capsys.readouterr().err
