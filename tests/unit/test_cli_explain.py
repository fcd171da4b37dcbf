"""``ladder explain``: the card says what the header, the compiler, the counters and the roofs say."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.command import Answer, ladder
from helpers.cu import plain
from helpers.extras import PERSISTENT_PATH
from helpers.kernels import MUTANTS

from ladder.catalog import find, load_catalog, parse_file, prose_fields, starting_file
from ladder.cli.explain import say_card
from ladder.cli.session import Session
from ladder.cli.study import examine
from ladder.laws import predict
from ladder.model import Shape
from ladder.nvrtc import compile_rung
from ladder.profiles import load_profile
from ladder.rates import Rate, load_rates
from ladder.report.study import Study, build, next_rung, recorded

SMALL = "64x48x40"
H200 = load_profile("h200").device
RUNGS = load_catalog()
ONE_A_FILE = {rung.path: rung.name for rung in reversed(RUNGS)}
"""The first rung of each file."""


def flat(text: str) -> str:
    """Without the line breaks of wrapping."""
    return " ".join(text.split())


def table(output: str) -> dict[str, list[str]]:
    """The cells of each level's line."""
    lines = [line.split() for line in output.splitlines()]
    known = ("asked", "l1", "l2", "dram", "shared", "sm", "fp32", "tf32")
    return {cells[0]: cells[1:] for cells in lines if cells and cells[0] in known}


def explained(*words: str | Path, code: int = 0) -> str:
    answer: Answer = ladder("explain", *words)
    assert answer.returncode == code, answer.stderr
    assert answer.stderr == ""
    return answer.stdout


@pytest.fixture(scope="module")
def every() -> tuple[Session, dict[str, Study]]:
    session, found = examine([*ONE_A_FILE.values()], SMALL, None)
    return session, {study.rung.name: study for study in found}


@pytest.fixture(params=ONE_A_FILE.values())
def card(
    request: pytest.FixtureRequest, every: tuple[Session, dict[str, Study]], capsys: pytest.CaptureFixture[str]
) -> tuple[Study, str]:
    session, found = every
    say_card(found[request.param], session)
    return found[request.param], capsys.readouterr().out


def test_every_rung_has_a_card_of_100_columns(card: tuple[Study, str]) -> None:
    study, text = card
    rung = study.rung
    assert max(map(len, text.splitlines())) <= 100
    assert text.startswith(f"{rung.name}: {rung.title} (")
    for label, prose in prose_fields(rung).items():
        if label in {"removes", "how", "leaves", "source"}:
            assert flat(prose) in flat(text)
    assert re.search(r"^(Binds    |Skipped  ) \S", text, re.MULTILINE)
    assert rung.name_expression in flat(text)


def test_a_card_tells_what_the_compiler_gave_for_the_recorded_gpu(card: tuple[Study, str]) -> None:
    study, text = card
    resources = compile_rung(study.rung, arch=study.rung.arch or "sm_90").resources
    assert f": {resources.registers} registers a thread, " in flat(text)
    assert study.build is not None
    assert study.build.resources.occupancy is not None
    assert 0 < study.build.resources.occupancy <= 1


def test_a_card_ends_with_the_next_rung_and_what_it_removes(card: tuple[Study, str]) -> None:
    study, text = card
    after = next_rung(study.rung)
    if after is None:
        assert study.rung.kind == "law" or study.rung.number == max(rung.number for rung in RUNGS)
    else:
        assert after.number == study.rung.number + 1
        assert f"Next {after.name} (rung {after.number:02d}), which removes" in flat(text)
        assert flat(prose_fields(after)["removes"]) in flat(text)


def test_the_table_holds_the_counts_the_law_and_the_bound() -> None:
    text = explained("tiled_32", "--shape", "96x96x96")
    (rung,) = find(["tiled_32"])
    law = predict(rung, Shape(m=96, n=96, k=96))
    assert law is not None
    rows = table(text)
    size, intensity, predicted, of_law, *rest = rows["l1"]
    assert int(size) == 2 * 96**3 / law.predicted["l1"]
    assert float(intensity) == pytest.approx(law.predicted["l1"], rel=5e-3)
    assert (intensity, of_law, rest) == (predicted, "1.000", ["emulated"])
    assert rows["shared"][-2:] == ["binds", "emulated"]
    assert rows["sm"][-2:] == ["binds", "emulated"]
    assert rows["fp32"] == [f"{load_profile('h200').roofs.flop_per_s['fp32'] / 1e12:.3g}"]
    assert float(rows["sm"][2]) == pytest.approx(
        float(rows["sm"][1]) * load_profile("h200").roofs.bytes_per_s["sm"] / 1e12, rel=1e-2
    )
    assert "Give each thread a larger tile of C in registers" in flat(text)
    assert "at 96x96x96 for NVIDIA H200, under its recorded roofs: right." in flat(text)
    assert "a grid of 3 x 3 x 1 blocks (x, y, z) of 1024 threads" in flat(text)


def test_recorded_rates_are_those_of_the_packaged_record() -> None:
    (rung,) = find(["padded"])
    rates = recorded(rung, H200)
    assert rates == tuple(row for row in load_rates()[0].rows if row.rung == "padded")
    text = flat(explained("padded", "--shape", "32x32x32"))
    for rate in rates:
        assert f"{rate.flop_per_s / 1e12:.3g} at {rate.shape}" in text


def test_a_file_of_a_rungs_name_has_neither_its_rates_nor_its_place(tmp_path: Path) -> None:
    path = plain(tmp_path, "padded.cu", tile="[1, 1]", block="[1, 1]")
    (rung,) = find([str(path)])
    assert recorded(rung, H200) == ()
    assert next_rung(rung) is None


def test_a_recorded_rate_tells_what_a_cold_cache_costs(
    every: tuple[Session, dict[str, Study]], capsys: pytest.CaptureFixture[str]
) -> None:
    session, found = every
    shape = Shape(m=64, n=64, k=64)
    rates = [Rate(rung="padded", shape=shape, flop_per_s=1e12, cold_over_warm=cold) for cold in (None, 1.234)]
    say_card(replace(found["padded"], rates=tuple(rates)), session)
    told = "measured: 1 at 64x64x64, 1 at 64x64x64 (1.23 times that time from a cold L2)."
    assert told in flat(capsys.readouterr().out)


def test_another_profile_compiles_for_it_and_uses_its_roofs() -> None:
    text = flat(explained("tiled_16", "--shape", "32x32x32", "--profile", "t4"))
    assert "Compiled for sm_75 by NVRTC" in text
    assert "for Tesla T4, under its recorded roofs" in text
    assert "Recorded" not in text


def test_what_the_profile_cannot_run_says_why() -> None:
    text = flat(explained("async_pipeline", "--shape", "32x32x32", "--profile", "t4"))
    assert "Compiled not for Tesla T4: needs compute capability 8.0; Tesla T4 has 7.5" in text
    assert "Skipped needs compute capability 8.0" in text


def test_the_grid_of_blocks_that_stay_is_what_the_device_holds() -> None:
    """64x64x64 has 16 of its tiles: a grid of so few is what it does not launch."""
    (rung,) = parse_file(PERSISTENT_PATH)
    held = build(rung, H200).blocks_per_sm * H200.sm_count
    text = flat(explained(PERSISTENT_PATH, "--shape", "64x64x64"))
    assert f"a grid of {held} x 1 x 1 blocks (x, y, z) of {rung.threads} threads at 64x64x64" in text


def test_no_grid_is_told_where_it_depends_on_a_build_that_there_is_not() -> None:
    text = flat(explained("stream_k", "--shape", "32x32x32", "--profile", "t4"))
    assert "Compiled not for Tesla T4: needs compute capability 9.0" in text
    assert "a grid of" not in text


def test_what_the_emulator_cannot_run_is_still_compiled() -> None:
    text = flat(explained("tma_pipeline", "--shape", "32x32x32"))
    assert "Compiled for sm_90 by NVRTC" in text
    assert "packs A, then tma_pipeline<" in text
    assert "Skipped the emulator runs PTX up to sm_80 features" in text


def test_a_sweep_has_a_card_for_each() -> None:
    text = explained("tiled", "--shape", "64x64x64")
    assert re.findall(r"^(tiled_\d+): Shared-memory tile", text, re.MULTILINE) == ["tiled_16", "tiled_32", "tiled_64"]


def test_a_users_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.cu"
    path.write_text(starting_file("mine"), encoding="utf-8")
    text = explained(path, "--shape", "31x17x9")
    assert text.startswith("mine: Mine (rung, mine.cu)\n")
    assert "\nNext" not in text


def test_a_wrong_kernel_has_a_card_and_exit_code_1() -> None:
    text = flat(explained(MUTANTS / "last_k_missing.cu", "--shape", "32x32x32", code=1))
    assert "Binds Wrong: " in text
    assert "A wrong kernel is not placed." in text


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("tiled_23",), "no rung is called 'tiled_23'"),
        (("naive", "--shape", "12"), "is not MxNxK"),
        (("naive", "--profile", "h20"), "no profile 'h20'"),
    ],
)
def test_what_cannot_be_is_refused(words: tuple[str, ...], problem: str) -> None:
    answer = ladder("explain", *words)
    assert answer.returncode == 2
    assert problem in answer.stderr
    assert answer.stderr.count("\n") == 1


def test_fewer_blocks_where_the_rung_keeps_others_away() -> None:
    (rung,) = find(["naive"])
    free, alone = build(rung, H200), build(replace(rung, blocks_per_sm=1), H200)
    assert alone.blocks_per_sm == 1 < free.blocks_per_sm
    assert alone.resources.registers == free.resources.registers
    assert alone.resources.occupancy == rung.threads / H200.max_threads_per_sm
