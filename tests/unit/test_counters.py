"""Nsight Compute's CSV, what its counters mean, and what is said when they cannot be read."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.extras import PACKED_PATH, TMA_PATH
from hypothesis import given
from hypothesis import strategies as st

from ladder import counters
from ladder.counters import count_with_ncu, ncu, ncu_status
from ladder.counters.metrics import CORE, PIPE, add_up, for_chip, traffic_of
from ladder.counters.ncu import Row, parse, why_forbidden
from ladder.errors import BackendError, DriverMissingError
from ladder.model import Shape

SAMPLE = """\
==PROF== Connected to process 4711 (/usr/bin/python3.12)
a line of the program
==PROF== Profiling "tiled" - 0: 0%....50%....100% - 1 pass
==PROF== Profiling "naive" - 1: 0%....50%....100% - 1 pass
==PROF== Disconnected from process 4711
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC",\
"dram__bytes_read.sum","gpu__time_duration.sum","lts__t_sectors_srcunit_tex.sum","smsp__inst_executed_op_shared_ld.sum"
"","","","","","","","","","","","byte","nsecond","sector","inst"
"0","4711","python3.12","127.0.0.1","void tiled<16, 256>(const float *, const float *, float *, int, int, int)","1",\
"13","(256, 1, 1)","(64, 64, 1)","0","9.0","8,388,608","123,456","1.234567e+09","262144"
"1","4711","python3.12","127.0.0.1","naive(const float *, const float *, float *, int, int, int)","1",\
"13","(32, 32, 1)","(32, 32, 1)","0","9.0","0","22,656.5","112,383","n/a"
==WARNING== a late remark
"""

FULL = {
    "dram__bytes_read.sum": 1000.0,
    "dram__bytes_write.sum": 24.0,
    "lts__t_sectors_srcunit_tex.sum": 10.0,
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": 7.0,
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum": 2.0,
    "sm__cycles_elapsed.max": 5000.0,
    "gpu__time_duration.sum": 3000.0,
    "l1tex__t_bytes.sum": 640.0,
    "l1tex__data_pipe_lsu_wavefronts.sum": 20.0,
    "smsp__inst_executed_op_shared_ld.sum": 6.0,
    "smsp__inst_executed_op_shared_st.sum": 2.0,
    "smsp__inst_executed_op_global_ld.sum": 3.0,
    "smsp__inst_executed_op_global_st.sum": 1.0,
    "smsp__inst_executed_op_global_red.sum": 4.0,
    "l1tex__m_xbar2l1tex_read_bytes.sum": 256.0,
    "l1tex__m_l1tex2xbar_write_bytes.sum": 64.0,
}


def test_the_table_is_found_among_other_lines_and_read_in_order() -> None:
    tiled, naive = parse(SAMPLE)
    assert tiled.kernel == "void tiled<16, 256>(const float *, const float *, float *, int, int, int)"
    assert tiled.values == {
        "dram__bytes_read.sum": 8388608.0,
        "gpu__time_duration.sum": 123456.0,
        "lts__t_sectors_srcunit_tex.sum": 1234567000.0,
        "smsp__inst_executed_op_shared_ld.sum": 262144.0,
    }
    assert naive.values["dram__bytes_read.sum"] == 0
    assert naive.values["gpu__time_duration.sum"] == 22656.5
    assert "smsp__inst_executed_op_shared_ld.sum" not in naive.values


@pytest.mark.parametrize(
    ("unit", "text", "value"),
    [
        ("byte", "12", 12.0),
        ("Kbyte", "8.5", 8500.0),
        ("Mbyte", "8.5", 8.5e6),
        ("Gbyte", "1,024.5", 1.0245e12),
        ("bytes", "3", 3.0),
        ("Ksector", "2", 2000.0),
        ("us", "22.5", 22500.0),
        ("usecond", "22.5", 22500.0),
        ("ms", "1.5", 1.5e6),
        ("ns", "1.5", 1.5),
        ("%", "97.5", 97.5),
        ("", "1e3", 1000.0),
    ],
)
def test_units_and_notations_are_brought_to_base_units(unit: str, text: str, value: float) -> None:
    table = f'"ID","Kernel Name","x__y.sum"\n"","","{unit}"\n"0","k","{text}"\n'
    assert parse(table)[0].values == {"x__y.sum": pytest.approx(value)}


def test_a_table_without_units_keeps_its_first_row() -> None:
    (row,) = parse('"ID","Kernel Name","x__y.sum"\n"0","k","5"\n')
    assert row == Row(kernel="k", values={"x__y.sum": 5.0})


@given(count=st.integers(0, 2**50))
def test_thousands_separators_of_any_kind_are_no_digits(count: int) -> None:
    for separator in (",", "'", "\u202f", "\u00a0", ""):
        text = f"{count:,}".replace(",", separator)
        assert parse(f'"ID","Kernel Name","x__y.sum"\n"0","k","{text}"\n')[0].values["x__y.sum"] == count


@pytest.mark.parametrize("text", ["", "==PROF== Connected\n==WARNING== No kernels were profiled.\n"])
def test_no_table_is_an_error_with_ncus_last_words(text: str) -> None:
    with pytest.raises(BackendError, match=r"reports no launch: (it said nothing|==WARNING== No kernels)"):
        parse(text)


def test_counters_become_traffic() -> None:
    traffic = traffic_of(FULL)
    assert {level: quantity.bytes for level, quantity in traffic.levels.items()} == {
        "l1": 640,
        "l2": 320,
        "dram": 1024,
        "shared": 9 * 128,
        "sm": 20 * 128,
    }
    assert {quantity.origin for quantity in traffic.levels.values()} == {"counted"}
    assert (traffic.wavefronts_ld, traffic.wavefronts_st, traffic.requests_ld, traffic.requests_st) == (7, 2, 6, 2)
    assert (traffic.global_wavefronts, traffic.global_requests) == (11, 8)
    assert traffic.wavefronts_per_request == 9 / 8


def test_launches_of_one_product_are_added_up() -> None:
    names = for_chip((*CORE, *PIPE), (9, 0))
    rows = [Row(kernel="k", values=FULL), Row(kernel="k", values=FULL)]
    assert add_up(rows, names) == {name: 2 * value for name, value in FULL.items()}


def test_a_counter_without_a_value_is_an_error() -> None:
    rows = [Row(kernel="k", values={**FULL}), Row(kernel="other", values={})]
    with pytest.raises(BackendError, match=r"no dram__bytes_read\.sum for 'other'"):
        add_up(rows, for_chip(CORE, (9, 0)))


@pytest.mark.parametrize(
    ("capability", "name"), [((7, 5), "dram__bytes_read.sum"), ((9, 0), "dram__bytes_read.sum"),
                             ((12, 0), "dram__bytes_op_read.sum")]
)  # fmt: skip
def test_dram_counters_go_by_another_name_on_some_gpus(capability: tuple[int, int], name: str) -> None:
    names = for_chip(CORE, capability)
    assert names["dram__bytes_read.sum"] == name
    (values,) = [add_up([Row(kernel="k", values={names[key]: FULL[key] for key in CORE})], names)]
    assert values["dram__bytes_read.sum"] == 1000.0


def proc(folder: Path, *, restricted: int, capabilities: str) -> tuple[Path, Path]:
    params, status = folder / "params", folder / "status"
    params.write_text(f'EnableMSI: 1\nRmProfilingAdminOnly: {restricted}\nRegistryDwords: ""\n', encoding="utf-8")
    status.write_text(f"Name:\tpython3\nCapEff:\t{capabilities}\n", encoding="utf-8")
    return params, status


@pytest.mark.parametrize(
    ("restricted", "capabilities", "forbidden"),
    [
        (1, "0000000000000000", True),
        (1, "00000000a80425fb", True),  # root in a container without SYS_ADMIN
        (1, "0000000000200000", False),  # SYS_ADMIN
        (1, "0000004000000000", False),  # PERFMON
        (1, "000001ffffffffff", False),
        (0, "0000000000000000", False),
    ],
)
def test_permission_is_read_from_the_driver_and_the_process(
    tmp_path: Path, restricted: int, capabilities: str, forbidden: bool
) -> None:
    reason = why_forbidden(*proc(tmp_path, restricted=restricted, capabilities=capabilities))
    assert (reason is not None) == forbidden
    if reason is not None:
        assert "ERR_NVGPUCTRPERM" in reason
        assert "--cap-add=SYS_ADMIN" in reason
        assert "\n" not in reason


def test_without_a_driver_folder_nothing_is_forbidden(tmp_path: Path) -> None:
    assert why_forbidden(tmp_path / "none", tmp_path / "none") is None


@pytest.fixture
def no_ncu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(ncu, "_USUAL_PLACES", (str(tmp_path / "opt" / "*" / "ncu"),))


def test_the_status_is_the_first_thing_in_the_way(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, no_ncu: None
) -> None:
    monkeypatch.setattr(counters, "find_gpu", lambda: "no driver; install it")
    assert ncu_status() == "no driver; install it"
    monkeypatch.setattr(counters, "find_gpu", lambda: None)
    monkeypatch.setattr(ncu, "why_forbidden", lambda: "no permission")
    status = ncu_status()
    assert status is not None
    assert "no ncu on PATH" in status
    for release in ("2024.1", "2025.3"):
        program = tmp_path / "opt" / release / "ncu"
        program.parent.mkdir(parents=True)
        program.touch(mode=0o755)
    assert ncu.find() == str(tmp_path / "opt" / "2025.3" / "ncu")
    assert ncu_status() == "no permission"
    monkeypatch.setattr(ncu, "why_forbidden", lambda: None)
    assert ncu_status() is None


def test_counting_without_a_gpu_or_ncu_says_how_to_get_them(monkeypatch: pytest.MonkeyPatch, no_ncu: None) -> None:
    monkeypatch.setattr(counters, "find_gpu", lambda: "no driver; install it")
    with pytest.raises(DriverMissingError, match="install it"):
        count_with_ncu(["naive"], [Shape.parse("8x8x8")], cold=True)
    monkeypatch.setattr(counters, "find_gpu", lambda: None)
    with pytest.raises(BackendError, match="Nsight Compute"):
        count_with_ncu(["naive"], [Shape.parse("8x8x8")], cold=True)


NCU = """#!{python}
import csv, json, os, sys
words = sys.argv[1:]
def option(name): return words[words.index(name) + 1]
metrics = option("--metrics").split(",")
assert words[words.index("-m") - 1] == sys.executable and "-m ladder.counters.child" in " ".join(words)
spec = json.load(open(words[-1]))
progress = open(spec["progress"], "w")
def tell(event): print(event, file=progress, flush=True)
tell(f"ready {{os.getpid()}}")
for _ in spec["jobs"]: tell("begin"), tell("end")
with open({told!r}, "a") as file:
    json.dump({{"cache": option("--cache-control"), "clock": option("--clock-control"), "caches": spec["caches"],
               "from_start": option("--profile-from-start"), "jobs": spec["jobs"], "metrics": metrics}}, file)
    file.write("\\n")
{trouble}
with open(option("--log-file"), "w") as file:
    writer = csv.writer(file, quoting=csv.QUOTE_ALL)
    file.write("==PROF== Connected to process 1\\n")
    writer.writerow(["ID", "Process ID", "Kernel Name", *metrics])
    writer.writerow(["", "", "", *["byte" for _ in metrics]])
    for number, kernel in enumerate({kernels!r}):
        value = f"{{1000 * (number + 1):,}}"
        writer.writerow([number, 1, f"void {{kernel}}(const float *)", *[value for _ in metrics]])
"""


@pytest.fixture
def fake_ncu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    told = tmp_path / "told.jsonl"
    monkeypatch.setattr(counters, "find_gpu", lambda: None)
    monkeypatch.setattr(counters, "compute_capability", lambda: (9, 0))
    monkeypatch.setattr(ncu, "why_forbidden", lambda: None)

    def install(*kernels: str, trouble: str = "") -> Path:
        program = tmp_path / "bin" / "ncu"
        program.parent.mkdir(exist_ok=True)
        text = NCU.format(python=sys.executable, told=str(told), kernels=kernels, trouble=trouble)
        program.write_text(text, encoding="utf-8")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(program.parent), prepend=":")
        return told

    return install


SMALL, TALL, EMPTY = Shape.parse("8x8x8"), Shape.parse("1048593x2x1"), Shape.parse("0x8x8")


@pytest.mark.parametrize("cold", [True, False])
def test_each_rung_is_profiled_once_at_each_shape(fake_ncu: Any, tmp_path: Path, cold: bool) -> None:
    told = fake_ncu("tiled<16, 256>", "naive<32, 32>", "tiled<16, 256>", "tiled<16, 256>", "naive<32, 32>")
    keep = tmp_path / "deep" / "counters.csv"
    found = count_with_ncu(["tiled_16", "naive"], [SMALL, EMPTY, TALL], cold=cold, keep=keep)
    # tiled_16 takes two launches for a million rows: 1000 each for the third and the fourth.
    assert {key: traffic.levels["l1"].bytes for key, traffic in found.items()} == {
        ("tiled_16", SMALL): 1000,
        ("naive", SMALL): 2000,
        ("tiled_16", TALL): 3000 + 4000,
        ("naive", TALL): 5000,
    }
    runs = [json.loads(line) for line in told.read_text(encoding="utf-8").splitlines()]
    assert [run["metrics"] for run in runs] == [list(CORE), list(PIPE)]
    # A second pass over a launch would find what the first has left, unless ncu empties the caches in between.
    expected = [("none", "cold at first"), ("all", "cold")] if cold else [("none", "warm")] * 2
    assert [(run["cache"], run["caches"]) for run in runs] == expected
    for run in runs:
        assert (run["clock"], run["from_start"]) == ("none", "off")
        assert [(name, shape) for _, name, shape in run["jobs"]] == [
            (rung, str(shape)) for shape in (SMALL, TALL) for rung in ("tiled_16", "naive")
        ]
    with keep.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["rung"] for row in rows] == ["tiled_16", "naive", "tiled_16", "tiled_16", "naive"]
    assert {row["cache"] for row in rows} == {"cold" if cold else "warm"}
    assert all(float(row[name]) > 0 for row in rows for name in (*CORE, *PIPE))


def test_packing_counts_as_part_of_the_product(fake_ncu: Any) -> None:
    fake_ncu("pack_b<16, 16, 8, 256>", "multiply_packed<16, 16, 8, 256>", "multiply_packed<16, 16, 8, 256>")
    found = count_with_ncu([str(PACKED_PATH)], [SMALL, Shape.parse("8x8x0")], cold=True)
    assert [traffic.levels["l1"].bytes for traffic in found.values()] == [1000 + 2000, 3000]
    fake_ncu("multiply_packed<16, 16, 8, 256>", "pack_b<16, 16, 8, 256>")
    with pytest.raises(BackendError, match="it reports 'void multiply_packed"):
        count_with_ncu([str(PACKED_PATH)], [SMALL], cold=True)


def test_rungs_that_the_gpu_cannot_run_are_left_out(fake_ncu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_ncu("tma_tile<16, 32, 16, 64, 256>")
    assert list(count_with_ncu([str(TMA_PATH)], [SMALL], cold=True)) == [("tma_tile", SMALL)]
    monkeypatch.setattr(counters, "compute_capability", lambda: (8, 0))
    fake_ncu(trouble="raise SystemExit('not called')")
    assert count_with_ncu([str(TMA_PATH)], [SMALL], cold=True) == {}


def test_nothing_to_launch_needs_no_profiler(fake_ncu: Any) -> None:
    fake_ncu(trouble="raise SystemExit('not called')")
    assert count_with_ncu(["naive"], [EMPTY], cold=True) == {}


@pytest.mark.parametrize(
    ("kernels", "trouble", "words"),
    [
        (["tiled<16, 256>"], "", "it reports 1 of 1 launches|it reports 'void tiled"),
        ([], "", "it reports 0 of 1 launches"),
        (["naive<1>", "naive<1>"], "", "reports 1 launches more"),
        ([], "sys.exit('a word')", "exit code 1.*a word"),
        ([], "print('==ERROR== ERR_NVGPUCTRPERM - no'); sys.exit(1)", "ERR_NVGPUCTRPERM.*--cap-add=SYS_ADMIN"),
        ([], "open(option('--log-file'), 'w').write('==ERROR== Failed to find metric'); sys.exit(0)", "Failed to find"),
    ],
)
def test_what_goes_wrong_is_told(fake_ncu: Any, kernels: list[str], trouble: str, words: str) -> None:
    fake_ncu(*kernels, trouble=trouble)
    with pytest.raises(BackendError, match=words):
        count_with_ncu(["naive"], [SMALL], cold=True)
