"""``ladder compare``: what it says first, what it shows, and its exit codes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from helpers.command import Answer, ladder
from helpers.results import make_results, unhappy_runs

from ladder.model import Method, Quantity, Timing, Watched
from ladder.store import Results, Run, save

BASE = make_results(1024, timed=True)


def changed(name: str, **changes: object) -> Results:
    return replace(BASE, runs=tuple(replace(r, **changes) if r.rung == name else r for r in BASE.runs))  # type: ignore[arg-type]


def scaled(name: str, by: float) -> Results:
    row = next(run for run in BASE.runs if run.rung == name)
    assert row.time is not None
    time = Timing(median=by * row.time.median, p20=by * row.time.p20, p80=by * row.time.p80, samples=9)
    return changed(name, time=time)


def compared(folder: Path, before: Results, after: Results, *options: str) -> Answer:
    for name, results in (("a.json", before), ("b.json", after)):
        save(results, folder / name)
    return ladder("compare", "a.json", "b.json", *options, cwd=folder)


def good(answer: Answer, code: int = 0) -> str:
    assert answer.returncode == code, answer.stderr
    assert answer.stderr == ""
    return answer.stdout


def test_nothing_changed(tmp_path: Path) -> None:
    assert good(compared(tmp_path, BASE, BASE)).splitlines() == [
        "A  a.json: NVIDIA H200, driver 580.159.04, NVRTC 13.0, 2025-01-02",
        "B  b.json: NVIDIA H200, driver 580.159.04, NVRTC 13.0, 2025-01-02",
        "Same card, driver and NVRTC.",
        f"{len(BASE.runs)} rows in both: 0 slower, 0 faster, {len(BASE.runs)} within the spread or 1 %.",
        "Changed checks: none. Changed traffic: none.",
    ]


def test_clocks_and_methods_that_differ_are_warned_of(tmp_path: Path) -> None:
    row = next(run for run in BASE.runs if run.rung == "padded")
    assert row.time is not None

    def at(clock_hz: float, method: Method) -> Results:
        seen = Watched(samples=9, sm_clock_hz=clock_hz, sm_clock_low_hz=clock_hz, sm_clock_high_hz=clock_hz)
        return changed("padded", time=replace(row.time, watched=seen, method=method))  # type: ignore[type-var]

    output = good(compared(tmp_path, at(1.98e9, "launches"), at(1.755e9, "graph")))
    warned = [line for line in output.splitlines() if line.startswith("Warning")]
    assert warned == [
        "Warning: 1 row was timed at SM clocks more than 2 % apart, padded 1024x1024x1024 at 1.980 and 1.755 GHz "
        "(12.8 %): their times tell of the clocks as well.",
        "Warning: 1 row was timed in a CUDA graph in one file and launch by launch in the other, which takes longer "
        "where products are short.",
    ]
    assert "Warning" not in good(compared(tmp_path, at(1.755e9, "graph"), at(1.77e9, "graph")))


def test_slower_is_shown_and_is_exit_code_1(tmp_path: Path) -> None:
    output = good(compared(tmp_path, BASE, scaled("padded", 1.5)), code=1)
    (row,) = (line.split() for line in output.splitlines() if line.startswith("padded"))
    assert row[:2] == ["padded", "1024x1024x1024"]
    assert row[-2:] == ["1.500", "slower"]
    assert "1 slower, 0 faster" in output


def test_faster_is_shown_and_is_exit_code_0(tmp_path: Path) -> None:
    output = good(compared(tmp_path, BASE, scaled("padded", 0.5)))
    (row,) = (line.split() for line in output.splitlines() if line.startswith("padded"))
    assert row[-2:] == ["0.500", "faster"]


def test_the_tolerance_decides_beside_the_spread(tmp_path: Path) -> None:
    slow = scaled("padded", 1.05)
    good(compared(tmp_path, BASE, slow), code=1)
    assert "within the spread or 10 %" in good(compared(tmp_path, BASE, slow, "--tolerance", "10"))
    # At 0 the ranges still have to be apart, and those of the synthetic rows reach from -1 % to +2 %.
    good(compared(tmp_path, BASE, scaled("padded", 1.02), "--tolerance", "0"))


def test_all_shows_every_ratio(tmp_path: Path) -> None:
    output = good(compared(tmp_path, BASE, BASE, "--all"))
    rows = [line.split() for line in output.splitlines() if "1024x1024x1024" in line]
    assert [row[0] for row in rows] == [run.rung for run in BASE.runs]
    assert {tuple(row[-2:]) for row in rows} == {("1.000", "same")}


def test_what_differs_about_the_session_comes_first(tmp_path: Path) -> None:
    device = replace(BASE.device, driver="590.1", nvrtc="13.5")
    roofs = replace(BASE.roofs, bytes_per_s={**BASE.roofs.bytes_per_s, "dram": 4.0e12})
    output = good(compared(tmp_path, BASE, replace(scaled("padded", 2.0), device=device, roofs=roofs)), code=1)
    first = output.splitlines()
    assert first[2] == "Different: driver 580.159.04 -> 590.1; nvrtc 13.0 -> 13.5."
    assert first[3] == "Roofs, B/s or FLOP/s: dram 4.12e+12 -> 4e+12."
    assert output.index("Different") < output.index("padded")


def test_traffic_is_shown_by_level(tmp_path: Path) -> None:
    row = next(run for run in BASE.runs if run.rung == "naive")
    assert row.traffic is not None
    dram = row.traffic.levels["dram"]
    levels = {**row.traffic.levels, "dram": Quantity(bytes=2 * dram.bytes, origin=dram.origin)}
    output = good(compared(tmp_path, BASE, changed("naive", traffic=replace(row.traffic, levels=levels))))
    heads, rows = (
        next(line.split() for line in output.splitlines() if line.startswith(word)) for word in ("rung", "naive")
    )
    assert heads == ["rung", "shape", "dram"]
    assert rows == ["naive", "1024x1024x1024", "2.0000"]
    assert "Changed traffic: 1." in output


def test_a_rung_that_is_wrong_now(tmp_path: Path) -> None:
    row = next(run for run in BASE.runs if run.rung == "naive")
    assert row.check is not None
    wrong = replace(row.check, passed=False, failure="C[3, 5] = 1.0, expected 2.0\nand more")
    output = good(compared(tmp_path, BASE, changed("naive", check=wrong)), code=1)
    assert "naive 1024x1024x1024: check right -> wrong: C[3, 5] = 1.0, expected 2.0\n" in output
    assert "Changed checks: 1." in output
    good(compared(tmp_path, changed("naive", check=wrong), BASE))


def test_rows_of_one_file(tmp_path: Path) -> None:
    wrong, skipped, _ = unhappy_runs(1024)
    fewer = replace(BASE, runs=BASE.runs[1:])
    output = good(compared(tmp_path, BASE, fewer))
    assert "Only in A: naive 1024x1024x1024\n" in output
    more = replace(BASE, runs=(*BASE.runs, skipped))
    assert "Only in B: tma_pipeline 1024x1024x1024\n" in good(compared(tmp_path, BASE, more))
    output = good(compared(tmp_path, BASE, replace(BASE, runs=(*BASE.runs, wrong))), code=1)
    assert "broken_edge 1024x1024x1024, which is new, is wrong: C[3, 5] = 1.0, expected 2.0 (bound 1e-05)\n" in output


def test_many_rows_of_one_file_are_counted(tmp_path: Path) -> None:
    output = good(compared(tmp_path, BASE, replace(BASE, runs=BASE.runs[-1:])))
    assert f", and {len(BASE.runs) - 1 - 8} more\n" in output


def test_parameters_tell_rows_of_a_rung_apart(tmp_path: Path) -> None:
    def with_params(results: Results, by: float) -> Results:
        row = next(run for run in results.runs if run.rung == "padded")
        assert row.time is not None
        time = Timing(median=by * row.time.median, p20=by * row.time.p20, p80=by * row.time.p80, samples=9)
        more: Run = replace(row, params={"BK": 32}, time=time)
        return replace(results, runs=(*results.runs, more))

    output = good(compared(tmp_path, with_params(BASE, 1.0), with_params(BASE, 2.0)), code=1)
    (row,) = (line.split() for line in output.splitlines() if line.startswith("padded"))
    assert row[2] == "BK=32"
    assert row[-2:] == ["2.000", "slower"]


def test_an_emulated_session_has_no_times_to_compare(tmp_path: Path) -> None:
    emulated = make_results(1024)
    output = good(compared(tmp_path, emulated, emulated))
    assert "A  a.json: NVIDIA H200, emulated, NVRTC 13.0, 2025-01-02" in output
    assert "no times in both" in output


def test_a_wide_comparison_fits_100_columns(tmp_path: Path) -> None:
    slower = replace(BASE, runs=tuple(replace(r, source_sha256="1" * 64) for r in scaled("tile_product_16", 3).runs))
    output = good(compared(tmp_path, BASE, slower, "--all"), code=1)
    table = output[output.index("\nrung") :].splitlines()
    assert all(len(line) <= 100 for line in table)
    assert table[3].split()[-1] == "edited"


def test_nothing_in_common_is_no_comparison(tmp_path: Path) -> None:
    answer = compared(tmp_path, BASE, make_results(512, timed=True))
    assert answer.returncode == 2
    assert answer.stderr == (
        "ladder: a.json and b.json have no rung at the same shape in common; nothing was compared\n"
    )


@pytest.mark.parametrize("value", ["-1", "nan", "inf"])
def test_a_tolerance_that_is_none(value: str, tmp_path: Path) -> None:
    answer = compared(tmp_path, BASE, BASE, f"--tolerance={value}")
    assert answer.returncode == 2
    assert "give percent, 0 or more" in answer.stderr


def test_a_file_that_is_not_there_or_no_results(tmp_path: Path) -> None:
    save(BASE, tmp_path / "a.json")
    absent = ladder("compare", "a.json", "b.json", cwd=tmp_path)
    assert absent.returncode == 2
    assert absent.stderr == "ladder: no results at b.json; make them: ladder run --json b.json\n"
    (tmp_path / "b.json").write_text("{}", encoding="utf-8")
    damaged = ladder("compare", "a.json", "b.json", cwd=tmp_path)
    assert damaged.returncode == 2
    assert "b.json is not schema ladder/1" in damaged.stderr
