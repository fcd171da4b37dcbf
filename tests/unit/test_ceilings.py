"""How roofs come of trials, against a double of ``cuda.core``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.fake_cuda import FakeCuda, floats, installed
from hypothesis import given
from hypothesis import strategies as st

from ladder import ceilings
from ladder.backends.gpu import Gpu
from ladder.ceilings import (
    ROOFS,
    Ceilings,
    Config,
    Finding,
    Sustained,
    Trial,
    _bench,
    _dram,
    _l2,
    _measure,
    _pipes,
    _tensor,
    finding_text,
    keep,
    kept,
    key_of,
    measure_ceilings,
    todays_ceilings,
)
from ladder.ceilings._bench import operand_words
from ladder.ceilings._choice import ceiling, chosen
from ladder.ceilings._limits import limit
from ladder.errors import BackendError, StoreError
from ladder.model import Device, Resources, Watched
from ladder.nvrtc import Compiled
from ladder.profiles import load_profile

H200 = load_profile("h200").device
MEMORY_AND_FP32 = ("dram", "l2", "sm", "fp32")


def uncompiled(rung: Any, *, arch: str) -> Compiled:
    return Compiled(
        rung=rung, arch=arch, ptx="", cubin=b"\x7fELF", lowered_name=rung.name_expression, log="",
        nvrtc_version="13.0", resources=Resources(registers=32, smem_bytes=0, spill_bytes=0), cached=False,
    )  # fmt: skip


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeCuda]:
    """Every launch lasts 1 ms, and block 0 finds its clock at 2 GHz over 20 ms."""

    def tick(launch: Any) -> None:
        span = floats(int(launch.arguments[-1]), 4).view(np.uint64)
        span[:] = (40_000_000, 20_000_000)

    monkeypatch.setenv("LADDER_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(_bench, "compile_rung", uncompiled)
    monkeypatch.setattr("ladder.backends.gpu.compile_rung", uncompiled)
    monkeypatch.setattr(_bench, "SETTLE_S", 0.0)
    monkeypatch.setattr(_bench, "SUSTAIN_S", 0.0)
    monkeypatch.setattr(_bench, "warm_up", lambda sample: sample())
    monkeypatch.setattr(_dram, "COPY_BYTES", 2**20)
    monkeypatch.setattr(_bench, "watching", Watching)
    monkeypatch.setattr(
        _measure, "by_machine_code",
        lambda config, _expected, _arch: Finding(
            roof=config.roof, by="machine code", what="its loop", meant=1, found=1, ok=True
        ),
    )  # fmt: skip
    ticking = ("fma", "shared_read", "l2_read", "tensor_mma", "tensor_wgmma")
    with installed(kernels=dict.fromkeys(ticking, tick) | {"copy": lambda _: None}) as fake:
        yield fake


class Watching:
    """What NVML would see."""

    result = Watched(
        samples=9, sm_clock_hz=1.9e9, sm_clock_low_hz=1.9e9, sm_clock_high_hz=1.9e9, power_w=500.4, power_high_w=510.0
    )

    def __init__(self, pci_bus_id: str) -> None:
        assert pci_bus_id.endswith(".0")

    def __enter__(self) -> Watching:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def test_every_roof_is_measured_with_its_configuration_clock_and_power(world: FakeCuda) -> None:
    lines: list[str] = []
    found = measure_ceilings(Gpu(), progress=lines.append)
    assert tuple(each.roof for each in found.ceilings) == ROOFS
    assert set(found.roofs.bytes_per_s) == {"dram", "l2", "sm"}
    assert set(found.roofs.flop_per_s) == {"fp32", "tf32", "bf16"}
    assert set(found.roofs.origin.values()) == {"measured"}
    assert len(lines) == len(ROOFS)
    for each in found.ceilings:
        note = found.roofs.note[each.roof]
        assert "per clock per SM at" in note
        # DRAM's copies have no clock of their own: NVML's is taken.
        assert ("2.000 GHz" in note) == (each.roof != "dram")
        assert ("1.900 GHz" in note) == (each.roof == "dram")
        assert "500 W" in note
        assert each.verified_by == ("machine code",)
    assert "random operands: " in found.roofs.note["tf32"] or "constant operands: " in found.roofs.note["tf32"]


def test_work_is_counted_from_what_was_launched(world: FakeCuda) -> None:
    found = measure_ceilings(Gpu())
    # The double lasts 1 ms a launch, whatever it is: 4 SMs hold half of 2048 threads each.
    threads, launch_s = 4 * 1024, 1e-3

    def rates(roof: str, probe: str, **params: int) -> list[float]:
        return sorted(
            {
                trial.rate
                for trial in found.trials
                if (trial.roof, trial.config.probe) == (roof, probe) and params.items() <= trial.config.params.items()
            }
        )

    assert rates("sm", "shared_read") == pytest.approx([16 * _pipes.LOADS_A_THREAD * threads / launch_s])
    assert max(rates("fp32", "fma")) == pytest.approx(2 * _pipes.FMAS_A_THREAD * threads / launch_s)
    assert rates("dram", "copy") == pytest.approx([2 * 4 * 2**20 / launch_s])
    for trial in found.trials:
        if trial.roof == "l2":
            size = trial.config.footprint_bytes
            # An eighth to four fifths of L2, down to the next prime number of chunks: 3 for 4 at the least.
            assert size is not None
            assert 0.75 * 0.125 * 2**20 <= size <= 0.8 * 2**20
            assert trial.rate == pytest.approx(_l2.L2_READ_BYTES / launch_s, rel=0.1)
    # 16 x 8 x 8 products of TF32 a warp, 64 x 256 x 8 a warpgroup; BF16 is twice as deep.
    a_warp, a_group = 2 * 16 * 8 * 8, 2 * 64 * 256 * 8
    warps, groups = threads / 32, threads / 128
    assert rates("tf32", "tensor_mma", ROWS=2) == pytest.approx([a_warp * _tensor.MMAS_A_WARP * warps / launch_s])
    assert rates("bf16", "tensor_mma", ROWS=2) == pytest.approx([2 * a_warp * _tensor.MMAS_A_WARP * warps / launch_s])
    assert max(rates("tf32", "tensor_wgmma")) == pytest.approx(a_group * _tensor.WGMMAS_A_GROUP * groups / launch_s)


def test_what_is_kept_up_runs_long_enough_for_its_clock(world: FakeCuda) -> None:
    measure_ceilings(Gpu())
    passes = sorted({int(launch.arguments[0]) for launch in world.launches if launch.kernel == "fma"})
    # Trials last 1 ms in the double; one of them, twenty times as long or one more, is kept up.
    *tried, long = passes
    assert long in {times * each for times in (20, 21) for each in tried}


def test_a_launch_too_short_for_the_timer_tells_no_clock(world: FakeCuda) -> None:
    def brief(launch: Any) -> None:
        floats(int(launch.arguments[-1]), 4).view(np.uint64)[:] = (2000, 1000)

    world.kernels["fma"] = brief
    best = measure_ceilings(Gpu())["fp32"].best
    assert best.timer_clock_hz is None
    assert best.clock_hz == 1.9e9


def test_buffers_are_given_back_even_after_a_fault(world: FakeCuda) -> None:
    measure_ceilings(Gpu())
    assert world.live == []

    def fault(_: Any) -> None:
        world.fault = "CUDA_ERROR_LAUNCH_FAILED: gone"

    world.kernels["l2_read"] = fault
    with pytest.raises(BackendError, match="measuring the roofs of Fake GPU: CUDA_ERROR_LAUNCH_FAILED"):
        measure_ceilings(Gpu())
    assert world.live == []


def test_a_day_shares_its_roofs(world: FakeCuda) -> None:
    gpu = Gpu()
    key, found = todays_ceilings(gpu)
    before = len(world.launches)
    assert todays_ceilings(gpu) == (key, found)
    assert len(world.launches) == before
    again = todays_ceilings(gpu, fresh=True)[1]
    assert len(world.launches) > before
    assert again.roofs.flop_per_s.keys() == found.roofs.flop_per_s.keys()


def test_another_day_driver_or_card_has_roofs_of_its_own(world: FakeCuda) -> None:
    gpu = Gpu()
    keys = {key_of(gpu, today="2026-01-01"), key_of(gpu, today="2026-01-02")}
    gpu.device = replace(gpu.device, driver="581.0")
    keys.add(key_of(gpu, today="2026-01-01"))
    gpu.pci_bus_id = "00000000:2f:00.0"
    keys.add(key_of(gpu, today="2026-01-01"))
    assert len(keys) == 4


def test_a_damaged_cache_is_measured_again(world: FakeCuda, tmp_path: Path) -> None:
    gpu = Gpu()
    key, _ = todays_ceilings(gpu)
    (path,) = tmp_path.glob("ceilings-*.json")
    path.write_text(path.read_text()[:-100])
    assert kept(key) is None
    assert todays_ceilings(gpu)[0] == key
    assert kept(key) is not None
    assert kept(f"{key} of another") is None


def test_a_cache_that_cannot_be_written_is_passed_over(
    world: FakeCuda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = measure_ceilings(Gpu())
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LADDER_CACHE_DIR", str(tmp_path / "file"))
    keep("key", found)
    assert kept("key") is None


def test_a_record_is_read_as_it_was_written(world: FakeCuda, tmp_path: Path) -> None:
    found = measure_ceilings(Gpu())
    path = tmp_path / "new" / "ceilings.json"
    ceilings.save(found, path)
    assert ceilings.load(path) == found
    text = path.read_text()
    path.write_text(text.replace(ceilings.SCHEMA, "ladder-ceilings/9"))
    with pytest.raises(StoreError, match="ladder-ceilings/9"):
        ceilings.load(path)
    path.write_text(text.replace('"created"', '"erased"'))
    with pytest.raises(StoreError, match="damaged"):
        ceilings.load(path)
    with pytest.raises(StoreError, match="cannot read"):
        ceilings.load(tmp_path / "none.json")


def trials(words: str, *rates: float, roof: str = "l2", counts: bool = True, data: Any = "") -> list[Trial]:
    return [
        Trial(
            config=Config(roof=roof, probe=words, footprint_bytes=(i + 1) * 2**20, data=data),
            words=words, rate=rate, counts=counts,
        )
        for i, rate in enumerate(rates)
    ]  # fmt: skip


def test_the_l2_roof_is_a_plateau_and_no_peak() -> None:
    found = [*trials("peaky", 1, 100, 1, 1), *trials("steady", 10, 40, 40, 40, 5), *trials("pairs", 99, counts=False)]
    sizes = [config.footprint_bytes for config in chosen(found)]
    assert sizes == [3 * 2**20, 2 * 2**20, 4 * 2**20]
    kept_up = [Sustained(config=config, words="steady", rate=rate, samples=5) for config, rate in
               zip(chosen(found), (30, 36, 33), strict=True)]  # fmt: skip
    made = ceiling(kept_up, H200)
    assert made.rate == 33
    assert made.what == "steady, footprints of 2.0 to 4.0 MiB"
    assert made.per_clock is None
    assert "SM clock unknown" in made.note


def test_fewer_footprints_than_a_window_are_taken_as_they_are() -> None:
    assert len(chosen(trials("small", 10, 20))) == 2


def test_where_no_trial_counts_those_of_lone_blocks_do() -> None:
    paired = [replace(t, config=replace(t.config, numbers={"share": 2})) for t in trials("b", 9, counts=False)]
    (config,) = chosen([*trials("a", 7, counts=False), *paired])
    assert config.probe == "a"
    with pytest.raises(ValueError, match="no trial"):
        chosen([])


def test_the_highest_trial_that_counts_wins() -> None:
    found = [*trials("a", 5, roof="sm"), *trials("b", 7, roof="sm"), *trials("c", 9, roof="sm", counts=False)]
    assert [config.probe for config in chosen(found)] == ["b"]


def test_tensor_cores_are_kept_up_on_two_kinds_of_operands_and_the_higher_rate_is_the_roof() -> None:
    random, constant = chosen(trials("mma", 5e14, roof="tf32", data="random"))
    assert (random.data, constant.data) == ("random", "constant")
    watched = Watched(samples=3, sm_clock_hz=1.4e9, sm_clock_low_hz=1.4e9, sm_clock_high_hz=1.5e9, power_w=699.0,
                      limits=("power cap",))  # fmt: skip
    made = ceiling(
        [
            Sustained(config=random, words="random words", rate=3.7e14, samples=9, watched=watched),
            Sustained(config=constant, words="constant words", rate=5e14, samples=9, timer_clock_hz=1.98e9),
        ],
        H200,
    )
    assert made.rate == 5e14
    assert made.best.config.data == "constant"
    assert made.what == "constant words; random operands: 370 TFLOP/s at 1.400 GHz, 699 W"
    assert made.per_clock == pytest.approx(5e14 / 1.98e9 / 132)
    assert made.share == pytest.approx(made.per_clock / 2048)


@pytest.mark.parametrize(("clock_hz", "right"), [(1.98e9, True), (1.896e9, False)])
def test_a_rate_above_the_hardwares_limit_is_flagged(clock_hz: float, right: bool) -> None:
    config = Config(roof="fp32", probe="fma")
    kept_up = Sustained(config=config, words="chains", rate=65.2e12, samples=9, timer_clock_hz=clock_hz)
    made = ceiling([kept_up], H200)
    (finding,) = made.findings
    assert (finding.by, finding.meant, finding.ok) == ("clock", 256, right)
    assert ("NOT AS MEANT" in made.note) is not right
    assert bool(made.failed) is not right


def test_limits_are_those_of_the_generation() -> None:
    t4, a100 = (load_profile(name).device for name in ("t4", "a100"))
    assert [limit("fp32", device) for device in (t4, a100, H200)] == [128, 128, 256]
    assert [limit("tf32", device) for device in (t4, a100, H200)] == [None, 1024, 2048]
    assert [limit("bf16", device) for device in (t4, a100, H200)] == [None, 2048, 4096]
    assert limit("sm", t4) == 128
    assert limit("dram", H200) is None


@pytest.mark.parametrize(
    ("capability", "probes"),
    [((7, 5), set()), ((8, 6), {"tensor_mma"}), ((9, 0), {"tensor_mma", "tensor_wgmma"}), ((10, 0), set())],
)
def test_tensor_probes_are_those_that_the_generation_has(capability: tuple[int, int], probes: set[str]) -> None:
    device = replace(H200, compute_capability=capability)
    for element in ("tf32", "bf16"):
        assert {config.probe for config in _tensor.tensor_configs(element)(device)} == probes


@pytest.mark.parametrize("element", ["tf32", "bf16"])
def test_operands_are_numbers_with_full_mantissas_or_ones(element: Any) -> None:
    count = 4096
    random, constant = (operand_words(data, element, count) for data in ("random", "constant"))
    assert random.size == constant.size == count
    assert np.array_equal(random, operand_words("random", element, count))

    def values(words: Any) -> Any:
        if element == "tf32":
            return words.view(np.float32)
        return (words.view(np.uint16).astype(np.uint32) << 16).view(np.float32)

    assert set(values(constant)) == {1.0}
    assert np.abs(values(random)).max() <= 1
    assert abs(values(random).mean()) < 0.05
    mantissas = values(random).view(np.uint32) >> 16 & 0x7F
    assert set(mantissas) == set(range(128))


def test_findings_say_what_was_meant() -> None:
    finding = Finding(roof="sm", by="counters", what="bytes", meant=100.0, found=150.0, ok=False)
    assert finding_text(finding) == "bytes: 150 found, 100 meant"
    unseen = Finding(roof="sm", by="counters", what="bytes", why="no ncu")
    assert finding_text(unseen) == "bytes: not looked at, no ncu"
    with pytest.raises(ValueError, match="say why"):
        Finding(roof="sm", by="counters", what="bytes")


def test_a_ceiling_needs_its_four_roofs() -> None:
    with pytest.raises(ValueError, match="no ceiling of dram, l2, sm"):
        Ceilings(
            device=H200, created="2026-01-01T00:00:00Z",
            ceilings=(ceiling([Sustained(config=Config(roof="fp32"), words="w", rate=1e12, samples=1)], H200),),
        )  # fmt: skip
    with pytest.raises(ValueError, match="none of"):
        Config(roof="l3")
    with pytest.raises(ValueError, match="positive"):
        Trial(config=Config(roof="sm"), words="w", rate=0)


@given(st.integers(4, 20_000))
def test_the_number_of_chunks_is_the_largest_prime_that_fits(n: int) -> None:
    p = _l2.prime_up_to(n)
    assert all(p % d for d in range(2, p))
    assert not any(all(q % d for d in range(2, q)) for q in range(p + 1, min(n, p + 40) + 1))


def test_a_known_device_makes_no_odd_footprint() -> None:
    device: Device = load_profile("t4").device
    for config in _l2.l2_configs(device):
        assert config.footprint_bytes is not None
        assert 0 < config.footprint_bytes <= device.l2_bytes
