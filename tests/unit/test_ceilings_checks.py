"""How roofs are checked: by the machine code of a probe, and by what counters saw of one launch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from helpers.fake_cuda import FakeCuda, installed

from ladder.ceilings import Ceilings, Sustained, _bench, _counters, _machine, child, with_counters
from ladder.ceilings._bench import Counted
from ladder.ceilings._choice import ceiling
from ladder.ceilings._counters import judge_counts
from ladder.ceilings._dram import copy_code, copy_configs
from ladder.ceilings._machine import Coded, by_machine_code, judge
from ladder.ceilings._probes import PROBES
from ladder.ceilings._record import config_from_json, config_to_json
from ladder.counters.ncu import Row
from ladder.errors import BackendError, DisassemblerMissingError
from ladder.model import Resources
from ladder.nvrtc import Compiled
from ladder.profiles import load_profile
from ladder.sass import Code, kernels

H200 = load_profile("h200").device
LOADS = Coded(opcode=("LDS", "128"), count=4)


def code(*lines: str) -> Code:
    """A kernel of instructions; ``loop:`` and ``back`` are a label and the branch to it."""
    text = ["//--------------------- .text.k --------------------------"]
    for i, line in enumerate(lines):
        if line == "loop:":
            text.append(".L_x_0:")
        else:
            body = "@P0 BRA `(.L_x_0)" if line == "back" else line
            text.append(f"        /*{16 * i:04x}*/                   {body} ;")
    return kernels("\n".join(text))["k"]


def looped(body: Sequence[str], before: Sequence[str] = ()) -> Code:
    return code("MOV R1, R2", *before, "loop:", *body, "back", "EXIT")


LOAD = "LDS.128 R4, [R2]"


@pytest.mark.parametrize("times", [1, 4])
def test_a_loop_with_what_is_meant_or_a_multiple_of_it_is_right(times: int) -> None:
    finding = judge("sm", LOADS, looped([LOAD] * 4 * times + ["FADD R8, R4, R5"]))
    assert finding.ok
    assert (finding.meant, finding.found) == (4, 4 * times)
    assert finding.what == "LDS.128 a pass of the loop"


@pytest.mark.parametrize(
    ("body", "before", "why"),
    [
        (["FADD R8, R4, R5"], [LOAD] * 4, "some were moved out of it"),
        ([LOAD] * 3, [LOAD], "some were moved out of it"),
        ([LOAD] * 3, [], ""),
        ([LOAD] * 4 + ["LDG.E R9, [R2]"], [], "beside LDG"),
        ([LOAD] * 4 + ["STL [R1], R9"], [], "beside STL"),
        ([LOAD] * 4, ["LDL R9, [R1]"], "beside LDL"),
    ],
)
def test_hoisted_dropped_and_stray_instructions_are_found(body: list[str], before: list[str], why: str) -> None:
    finding = judge("sm", LOADS, looped(body, before))
    assert finding.ok is False
    assert finding.why == why


def test_without_a_loop_the_whole_kernel_counts() -> None:
    expected = Coded(opcode=("LDG", "128"), count=2, looped=False, also=("STG",))
    right = ["LDG.E.128 R4, [R2]", "LDG.E.128 R8, [R2]", "STG.E.128 [R2], R4"]
    assert judge("dram", expected, code(*right, "EXIT")).ok
    assert judge("dram", expected, code(right[0], "EXIT")).ok is False
    assert judge("dram", expected, code(*right, "LDS R4, [R2]", "EXIT")).ok is False


@pytest.mark.parametrize("roof", list(PROBES))
def test_the_first_configuration_of_each_probe_is_as_meant(roof: str) -> None:
    config = next(iter(PROBES[roof].configs(H200)))
    finding = by_machine_code(config, PROBES[roof].code(config), H200.arch)
    assert finding.ok, finding


def test_what_cannot_be_looked_at_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    *_, by_driver = copy_configs(H200)
    assert copy_code(by_driver) is None
    assert by_machine_code(by_driver, None, "sm_90").why == "the driver's copy is no kernel of ours"

    def missing(_: bytes) -> str:
        raise DisassemblerMissingError("nvdisasm is not installed")

    monkeypatch.setattr(_machine, "disassemble", missing)
    config = next(iter(PROBES["fp32"].configs(H200)))
    finding = by_machine_code(config, PROBES["fp32"].code(config), "sm_90")
    assert (finding.ok, finding.why) == (None, "nvdisasm is not installed")


def test_a_probe_that_spills_is_not_as_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    config = next(iter(PROBES["fp32"].configs(H200)))
    expected = PROBES["fp32"].code(config)
    real = _machine.compiled(config, "sm_90")
    spilt = Resources(registers=255, smem_bytes=0, spill_bytes=64)
    fields = {name: getattr(real, name) for name in Compiled.__dataclass_fields__} | {"resources": spilt}
    monkeypatch.setattr(_machine, "compiled", lambda _config, _arch: Compiled(**fields))
    finding = by_machine_code(config, expected, "sm_90")
    assert (finding.ok, finding.why) == (False, "64 bytes are spilled")


NAMES = {"read": "dram__read", "write": "dram__write"}
BOTH = Counted(what="bytes", counters=("read", "write"), each=1, meant=1000)


@pytest.mark.parametrize(
    ("read", "write", "ok"), [(500, 500, True), (510, 510, True), (511, 511, False), (0, 0, False)]
)
def test_counts_within_two_percent_are_as_meant(read: float, write: float, ok: bool) -> None:
    (finding,) = judge_counts("dram", [BOTH], {"dram__read": read, "dram__write": write}, NAMES)
    assert (finding.ok, finding.meant, finding.found) == (ok, 1000, read + write)


@pytest.mark.parametrize(("read", "ok"), [(0, True), (30, True), (31, False)])
def test_some_counts_only_have_a_bound(read: float, ok: bool) -> None:
    few = Counted(what="bytes from DRAM", counters=("read",), each=1, meant=30, at_most=True)
    (finding,) = judge_counts("l2", [few], {"dram__read": read}, NAMES)
    assert finding.ok is ok


def test_wavefronts_are_bytes() -> None:
    check = Counted(what="bytes", counters=("read",), each=128, meant=128e6)
    assert judge_counts("sm", [check], {"dram__read": 1e6}, NAMES)[0].ok


def test_a_counter_that_the_gpu_lacks_is_not_a_failure() -> None:
    (finding,) = judge_counts("dram", [BOTH], {"dram__read": 500}, NAMES)
    assert finding.ok is None
    assert "dram__write" in finding.why


def some_ceilings() -> Ceilings:
    made = []
    for roof in ("dram", "l2", "sm", "fp32"):
        config = next(iter(PROBES[roof].configs(H200)))
        kept_up = Sustained(config=config, words=roof, rate=1e12, samples=3, timer_clock_hz=1.98e9)
        made.append(ceiling([kept_up], H200))
    return Ceilings(device=H200, created="2026-01-31T12:00:00Z", ceilings=tuple(made))


def test_a_configuration_survives_its_record() -> None:
    for probe in PROBES.values():
        for config in probe.configs(H200):
            again = config_from_json(json.loads(json.dumps(config_to_json(config))))
            assert again == config
            assert list(again.params) == list(config.params)  # the order of the template's arguments


def test_without_ncu_each_roof_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_counters, "ncu_status", lambda: "there is no ncu")
    found = with_counters(some_ceilings())
    assert [(f.by, f.ok, f.why) for each in found.ceilings for f in each.findings if f.by == "counters"] == [
        ("counters", None, "there is no ncu")
    ] * 4
    # Asked again, it does not add up.
    assert with_counters(found) == found


def test_a_failure_of_ncu_is_a_reason_and_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> tuple[Row, ...]:
        raise BackendError("ncu did not end within 120 s")

    monkeypatch.setattr(_counters, "ncu_status", lambda: None)
    monkeypatch.setattr(_counters.ncu, "profile", fail)
    found = with_counters(some_ceilings())
    assert all("did not end" in f.why for each in found.ceilings for f in each.findings if f.by == "counters")
    assert all("counters" not in each.verified_by for each in found.ceilings)


def profiled(off: Mapping[str, float]) -> Any:
    """An ncu that counts what is meant, times ``off`` by counter."""

    def profile(module: Sequence[str], metrics: Mapping[str, str], *, cold: bool, timeout_s: float) -> tuple[Row, ...]:
        assert not cold
        name, spec, meant = module
        assert name == "ladder.ceilings.child"
        rows, checks = [], []
        for data in json.loads(Path(spec).read_text()):
            config = config_from_json(data)
            counters = PROBES[config.roof].counters
            assert set(counters) <= set(metrics)
            mine = [Counted(what=c, counters=(c,), each=2, meant=2e9) for c in counters]
            checks.append([asdict(check) for check in mine])
            rows.append(Row(kernel=config.kernel, values={metrics[c]: 1e9 * off.get(c, 1.0) for c in counters}))
        Path(meant).write_text(json.dumps(checks))
        return tuple(rows)

    return profile


def test_what_counters_see_is_kept_with_each_roof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_counters, "ncu_status", lambda: None)
    (wavefronts,) = PROBES["sm"].counters
    monkeypatch.setattr(_counters.ncu, "profile", profiled({wavefronts: 1.25}))
    found = with_counters(some_ceilings())
    assert {each.roof for each in found.ceilings if "counters" in each.verified_by} == {"dram", "l2", "fp32"}
    assert [finding.roof for finding in found.failed] == ["sm"]
    assert "NOT AS MEANT" in found.roofs.note["sm"]


def test_launches_that_ncu_missed_are_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = profiled({})
    monkeypatch.setattr(_counters, "ncu_status", lambda: None)
    monkeypatch.setattr(_counters.ncu, "profile", lambda *a, **k: whole(*a, **k)[:-1])
    reasons = {f.why for each in with_counters(some_ceilings()).ceilings for f in each.findings if f.by == "counters"}
    assert reasons == {"ncu reports 3 launches of probes where 4 were made"}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    def uncompiled(rung: Any, *, arch: str) -> Compiled:
        return Compiled(
            rung=rung, arch=arch, ptx="", cubin=b"\x7fELF", lowered_name=rung.name_expression, log="",
            nvrtc_version="13.0", resources=Resources(registers=32, smem_bytes=0, spill_bytes=0), cached=False,
        )  # fmt: skip

    for name in ("cuProfilerStart", "cuProfilerStop"):
        monkeypatch.setattr(f"cuda.bindings.driver.{name}", lambda: None)
    monkeypatch.setattr(_bench, "compile_rung", uncompiled)
    names = ("fma", "shared_read", "l2_read", "copy", "tensor_mma", "tensor_wgmma")
    with installed(kernels={name: lambda _: None for name in names}) as fake:
        yield fake


def test_the_child_launches_each_configuration_twice_and_says_what_is_meant(world: FakeCuda, tmp_path: Path) -> None:
    device = load_profile("h200").device
    configs = [next(iter(PROBES[roof].configs(device))) for roof in ("fp32", "tf32")]
    spec, meant = tmp_path / "configs.json", tmp_path / "meant.json"
    spec.write_text(json.dumps([config_to_json(config) for config in configs]))
    assert child.main([str(spec), str(meant)]) == 0
    checks = json.loads(meant.read_text())
    assert [tuple(check["counters"]) for each in checks for check in each] == [
        PROBES["fp32"].counters, PROBES["tf32"].counters,
    ]  # fmt: skip
    assert all(check["meant"] > 0 for each in checks for check in each)
    assert [launch.kernel for launch in world.launches] == ["fma", "fma", "tensor_wgmma", "tensor_wgmma"]
    assert world.live == []


def test_the_childs_error_is_a_line(world: FakeCuda, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world.free_bytes = 0
    spec = tmp_path / "configs.json"
    spec.write_text(json.dumps([config_to_json(next(iter(PROBES["dram"].configs(H200))))]))
    assert child.main([str(spec), str(tmp_path / "meant.json")]) == 1
    assert "asked for" in capsys.readouterr().err
