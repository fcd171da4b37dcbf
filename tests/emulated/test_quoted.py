"""Pages that quote numbers say what the records and the emulator say, and nothing that no record vouches for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.quoted.pages import DOCS, PAGES, quoted, unquoted
from bench.quoted.records import core, run_of
from bench.quoted.values import RUNGS, value

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@each_page
def test_a_page_quotes_what_the_records_say(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text == quoted(text), "write it again: python -m bench.quoted"
    least = 1 if page.name == "tuning.md" else 11  # one table there
    assert text.count("<!--= ") == text.count("<!--=-->") >= least


@each_page
def test_no_number_stands_there_that_nothing_vouches_for(page: Path) -> None:
    assert unquoted(page.read_text(encoding="utf-8")) == []


def test_a_changed_number_is_found() -> None:
    rate = run_of("coalesced", "4096").flop_per_s
    assert rate is not None
    right = quoted("x <!--= rate coalesced 4096 -->9.99<!--=--> y")
    assert right == f"x <!--= rate coalesced 4096 -->{rate / 1e12:.2f}<!--=--> y"
    assert quoted(right) == right
    assert unquoted("at <!--= roof fp32 -->65.2<!--=-->, `0.5`, [1.5](a-2.5.md) and 3.25") == ["1.5", "3.25"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("speed naive 4096", "no quoted value is called speed"),
        ("rate naive 4097", "no record has naive at 4097x4097x4097"),
        ("rate nobody 4096", "no record has nobody"),
        ("request naive 4096", "naive at 4096 has no shared accesses"),
    ],
)
def test_what_no_record_has_is_refused(words: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        value(words.split())


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if target.startswith("https:"):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        if anchor:
            heads = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", head).lower().replace(" ", "-") for head in heads}, target


def share(rung: str, shape: str = "4096") -> float:
    run = run_of(rung, shape)
    assert run.flop_per_s is not None
    assert run.placement is not None
    return run.flop_per_s / run.placement.roof_flop_per_s


def rate(rung: str, shape: str = "4096") -> float:
    found = run_of(rung, shape).flop_per_s
    assert found is not None
    return found


def number(words: str) -> float:
    return float(value(words.split()))


def test_the_words_around_the_numbers_of_the_reading_hold() -> None:
    places = {rung: run_of(rung, "4096").placement for rung in RUNGS}
    for rung, place in places.items():
        assert place is not None
        assert place.bounds_flop_per_s["dram"] > place.roof_flop_per_s, f"{rung}: DRAM never binds"
        assert place.bounds_flop_per_s["dram"] >= places["tiled_16"].bounds_flop_per_s["dram"]
        assert share(rung) < 1.02, f"{rung}: no row is above its roof"
    for t in (16, 32, 64):
        assert run_of(f"tiled_{t}", "4096").intensity["l2"] == pytest.approx(t / 4, rel=0.03)
    conflict, padded = (run_of(name, "4096").intensity for name in ("tiled_conflict", "padded"))
    for level in ("dram", "l2"):
        assert conflict[level] == pytest.approx(padded[level], rel=0.01)
    assert sorted(RUNGS, key=rate)[:2] == ["naive", "tiled_conflict"]
    assert share("tiled_conflict") > 0.98
    assert share("register_tile") == min(share(rung) for rung in RUNGS)
    assert share("tiled_64", "512") < 0.5
    assert share("tiled_64") > 0.8
    assert number("blocks tiled_64 512") < core().device.sm_count / 2
    assert number("intensity coalesced 4096 dram") > number("ridge dram")


def test_the_words_around_the_numbers_of_the_answers_hold() -> None:
    assert 10 < rate("coalesced") / rate("naive") < 16
    naive, coalesced = (run_of(name, "4096").intensity["dram"] for name in ("naive", "coalesced"))
    assert coalesced / naive <= 2
    assert number("emulated request tiled_32_As_padded") == 1 < number("emulated request tiled_32")
    assert number("emulated wavefronts tiled_32_As_padded") > 1.3 * number("emulated wavefronts tiled_32")
    assert number("emulated wavefronts tiled_32_Bs_padded") == number("emulated wavefronts tiled_32")
    assert rate("async_pipeline") < rate("warp_tile") < rate("tma_pipeline")
    assert number("resource registers async_pipeline 4096") < number("resource registers warp_tile 4096")
    h200, a100, t4 = (1 / (4 * number(f"ridge sm {name}")) for name in ("h200", "a100", "t4"))
    assert h200 < a100 == t4, "the share of a kernel without reuse"
    chain, two, four = (number(f"error {name} 64x64x2048") for name in ("register_tile", "slice_k_64", "slice_k_32"))
    assert four < two < chain
    assert run_of("tiled_64", "4096").traffic.wavefronts_per_request > number("request tiled_32 4096")


def test_both_pages_are_linked_from_the_readme() -> None:
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    for page in PAGES:
        assert f"(docs/{page.name})" in readme
