"""Tables fit the terminal: what has no room is named, nothing that stays is cut."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from helpers.results import H200_ROOFS, make_results
from rich.console import Console

from ladder.catalog import load_catalog
from ladder.cli.tables import Columns, activity, catalogue, outcome, places, traffic
from ladder.model import Activity, Check, Law, Placement, Quantity, Roofs, Shape, Timing, Traffic
from ladder.store import Run

RIGHT = Check(passed=True, exact_integers=True, worst_error_over_bound=0.01)
PLACE = Placement(bound_by="shared", roof_flop_per_s=10.1e12, bounds_flop_per_s={"sm": 10.1e12}, fraction=0.934)
RUN = Run(
    rung="register_tile_1d",
    title="",
    kind="rung",
    shape=Shape(m=64, n=64, k=64),
    check=RIGHT,
    time=Timing(median=1e-6, p20=1e-6, p80=1e-6, samples=3),
    traffic=Traffic(
        levels={
            "asked": Quantity(bytes=4096, origin="emulated"),
            "l1": Quantity(bytes=65536, origin="emulated"),
            "l2": Quantity(bytes=32768, origin="modelled"),
            "dram": Quantity(bytes=100, origin="counted"),
            "shared": Quantity(bytes=128 * 30, origin="emulated"),
            "sm": Quantity(bytes=128 * 40, origin="emulated"),
        },
        wavefronts_ld=20,
        wavefronts_st=10,
        requests_ld=5,
        requests_st=10,
        global_wavefronts=10,
        global_requests=5,
    ),
    law=Law(name="c_stationary", predicted={"l1": 7.5, "shared": 0.25}),
    placement=PLACE,
)


def drawn(columns: Columns, width: int) -> tuple[list[list[str]], str]:
    """The cells of every line below the rule, and the caption."""
    table, caption = columns.fit(width)
    console = Console(file=io.StringIO(), width=width, markup=False)
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert all(len(line) <= width for line in lines)
    return [line.split() for line in lines], caption


def test_a_wide_table_has_everything() -> None:
    (heads, _, cells), caption = drawn(places([RUN], H200_ROOFS), 200)
    assert " ".join(heads) == "rung check dram l2 l1 shared sm law l1 law shared bound by roof rate of roof"
    assert cells == [
        "register_tile_1d",
        "right",
        "5243",
        "16",
        "8",
        "137",
        "102",
        "7.5",
        "0.25",
        "shared",
        "10.1",
        "0.524",
        "93%",
    ]
    assert "No room" not in caption


def test_a_cold_time_stands_last_and_is_the_first_to_go() -> None:
    assert RUN.time is not None
    run = replace(RUN, time_cold=Timing(median=1.5e-6, p20=1e-6, p80=2e-6, samples=3))
    (heads, _, cells), _ = drawn(places([run], H200_ROOFS), 200)
    assert (heads[-1], cells[-1]) == ("cold/warm", "1.5")
    _, caption = drawn(places([run], H200_ROOFS), 80)
    assert caption.endswith("cold/warm.")


@pytest.mark.parametrize("width", [120, 100, 80, 60])
def test_a_narrow_table_names_what_it_leaves_out(width: int) -> None:
    lines, caption = drawn(places([RUN], H200_ROOFS), width)
    assert len(lines) == 3, "folded"
    heads = " ".join(lines[0])
    left_out = caption.partition("No room for: ")[2].rstrip(".").split(", ") if "No room" in caption else []
    assert all(name not in heads for name in left_out)
    assert lines[2][:2] == ["register_tile_1d", "right"]
    assert "bound by" in heads


def test_the_law_stands_beside_l1_at_80_columns_without_a_time() -> None:
    emulated = replace(RUN, time=None, placement=replace(PLACE, fraction=None))
    (heads, _, _), _ = drawn(places([emulated], H200_ROOFS), 80)
    assert "law l1" in " ".join(heads)


def test_shapes_are_shown_when_there_are_several() -> None:
    other = replace(RUN, shape=Shape(m=5, n=6, k=7))
    lines, _ = drawn(places([RUN, other], H200_ROOFS), 200)
    assert [cells[1] for cells in lines[2:]] == ["64x64x64", "5x6x7"]


def test_a_modelled_roof_says_so() -> None:
    roofs = Roofs(bytes_per_s={"sm": 1e12}, flop_per_s={"fp32": 1e12}, origin={"sm": "modelled", "fp32": "modelled"})
    run = replace(RUN, placement=replace(PLACE, bound_by="fp32"))
    lines, _ = drawn(places([run], roofs), 200)
    assert "fp32 (modelled)" in " ".join(lines[2])


@pytest.mark.parametrize(
    ("run", "word"),
    [
        (RUN, "right"),
        (replace(RUN, check=replace(RIGHT, passed=False, failure="no")), "WRONG"),
        (replace(RUN, error="the device has gone"), "FAILED"),
        (replace(RUN, check=None), "unchecked"),
        (replace(RUN, check=None, skipped="too old", traffic=None), "skipped"),
        (replace(RUN, check=None, skipped="too old"), "recorded"),
    ],
)
def test_outcomes(run: Run, word: str) -> None:
    assert outcome(run) == word
    lines, _ = drawn(places([run], H200_ROOFS), 200)
    assert lines[2][1] == word


def test_a_row_without_results_is_blank() -> None:
    bare = Run(rung="naive", title="", kind="rung", shape=RUN.shape, skipped="too old")
    lines, _ = drawn(places([bare], H200_ROOFS), 80)
    assert lines[2] == ["naive", "skipped"]
    lines, _ = drawn(traffic([bare]), 80)
    assert len(lines) == 2


def test_traffic_has_a_row_for_each_level() -> None:
    lines, _ = drawn(traffic([RUN]), 120)
    by_level = {cells[1]: cells[2:] for cells in lines[2:]}
    assert list(by_level) == ["asked", "l1", "l2", "dram", "shared", "global", "sm"]
    assert by_level["l1"] == ["65536", "8", "emulated"]
    assert by_level["dram"] == ["100", "5243", "counted"]
    assert by_level["shared"] == ["3840", "137", "30", "15", "2", "emulated"]
    assert by_level["global"] == ["10", "5", "2"]
    assert by_level["sm"] == ["5120", "102", "emulated"]


@pytest.mark.parametrize("width", [200, 80, 60])
def test_the_catalogue(width: int) -> None:
    rungs = load_catalog()
    lines, _ = drawn(catalogue(rungs), width)
    assert [cells[0] for cells in lines[2:]] == [rung.name for rung in rungs]


def test_a_wide_terminal_shows_what_each_rung_removes() -> None:
    rungs = load_catalog()
    lines, caption = drawn(catalogue(rungs), 200)
    padded = next(cells for cells in lines if cells[0] == "padded")
    assert "the bank conflicts of rung 04" in " ".join(padded)
    assert caption == ""
    narrow, caption = drawn(catalogue(rungs), 80)
    assert "removes" not in narrow[0]
    assert caption.startswith("No room for:")
    assert caption.endswith("removes.")


def test_what_warps_did_has_a_row_for_each_rung_that_was_counted() -> None:
    seen = Activity(
        origin="counted", fadd=0, fmul=0, ffma=64**3, tensor_instructions=0, occupancy=0.5, busy=0.9,
        issue_active=0.25, stalls={"wait": 0.2, "mio_throttle": 0.4, "barrier": 0.01},
    )  # fmt: skip
    assert activity([RUN]) is None
    others = (RUN, replace(RUN, rung="other", activity=Activity(origin="emulated")))
    columns = activity([replace(RUN, rung="mine", activity=seen), *others])
    assert columns is not None
    lines, _ = drawn(columns, 160)
    (mine,) = [line for line in lines if line[:1] == ["mine"]]
    assert mine == ["mine", str(2 * 64**3), "1", "50%", "90%", "25%", "mio_throttle", "40%,", "wait", "20%", "counted"]
    assert ["other", "emulated"] in lines


def test_the_table_of_a_run_fits_100_columns_in_a_log_too() -> None:
    runs = make_results(256, timed=True).runs
    wide = places(runs, H200_ROOFS)
    assert wide.most == 100
    table, caption = wide.fit(wide.most)
    assert "No room for: " in caption
    console = Console(width=1000)
    assert console.measure(table).maximum <= 100
