"""Which rung is picked: the fastest recorded one that can run, from tables made up for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from helpers.fake_backend import fake_kernel

from ladder import catalog
from ladder.choice import pick
from ladder.errors import InputError, ShapeError
from ladder.model import Device, Precision, Rung, Shape
from ladder.profiles import available, load_profile
from ladder.rates import Rate, Rates, TunedParams
from ladder.shapes import ShapeClass, shape_class

H200 = Device(backend="cuda", name="NVIDIA H200", compute_capability=(9, 0), sm_count=132, l2_bytes=60 * 2**20)
A100 = replace(H200, name="NVIDIA A100", compute_capability=(8, 0), sm_count=108)
EMULATED = replace(H200, backend="emulated")
BIG, SMALL = Shape(m=4096, n=4096, k=4096), Shape(m=512, n=512, k=512)


def rung(name: str, number: int, **changes: object) -> Rung:
    return fake_kernel(name=name, number=number, **changes).rung


OLD = rung("old", 1)
SLICED = rung("sliced", 2, ordered=False)
ASYNC = rung("async", 3, min_cc=80)
BULK = rung("bulk", 4, min_cc=90, arch="sm_90", align_bytes=16, multiple=(1, 4, 4))
MMA = rung("mma", 5, min_cc=80, precision="fp32_split")
WGMMA = rung("wgmma", 6, min_cc=90, arch="sm_90a", precision="fp32_split")
LAW = rung("law", 7, kind="law")
RUNGS = (OLD, SLICED, ASYNC, BULK, MMA, WGMMA, LAW)


def table(rates: dict[tuple[str, Shape], float], *, tuned: tuple[TunedParams, ...] = (), **changes: Any) -> Rates:
    rows = tuple(Rate(rung=name, shape=shape, flop_per_s=rate) for (name, shape), rate in rates.items())
    fields = {"card": H200.name, "compute_capability": (9, 0), "sm_count": 132, "sources": ("r.json",)} | changes
    return Rates(**fields, rows=rows, tuned=tuned)


RATES = {
    ("old", SMALL): 3e12, ("sliced", SMALL): 15e12, ("async", SMALL): 4e12, ("bulk", SMALL): 6e12,
    ("old", BIG): 30e12, ("sliced", BIG): 20e12, ("async", BIG): 46e12, ("bulk", BIG): 56e12,
    ("mma", BIG): 66e12, ("wgmma", BIG): 120e12, ("law", BIG): 999e12, ("gone", BIG): 998e12,
}  # fmt: skip
TABLE = table(RATES)


def chosen(shape: Shape, precision: Precision = "fp32", device: Device = H200, **options: Any) -> str:
    return pick(shape, precision, device, **{"rungs": RUNGS, "tables": (TABLE,), **options}).rung.name


def test_the_fastest_recorded_at_the_shape() -> None:
    found = pick(BIG, "fp32", H200, rungs=RUNGS, tables=(TABLE,))
    assert found.rung is BULK
    assert found.reason == "the fastest fp32 rung recorded on NVIDIA H200 at 4096x4096x4096 (56 TFLOP/s)"
    assert str(found) == f"bulk: {found.reason}"
    assert chosen(SMALL) == "sliced"


def test_the_nearest_recorded_shape_decides() -> None:
    found = pick(Shape(m=600, n=400, k=500), "fp32", H200, rungs=RUNGS, tables=(TABLE,))
    assert found.rung is SLICED
    assert found.reason.endswith("at 512x512x512, the nearest recorded shape (15 TFLOP/s)")
    assert chosen(Shape(m=20000, n=3000, k=2000)) == "bulk"


def test_precision_is_kept_apart() -> None:
    assert chosen(BIG, "fp32_split") == "wgmma"
    assert chosen(SMALL, "fp32_split") == "wgmma"  # recorded at another shape alone


def test_what_the_shape_the_device_and_the_addresses_rule_out_is_passed_over() -> None:
    assert chosen(Shape(m=4096, n=4095, k=4096)) == "async"
    assert chosen(BIG, address_bytes=8) == "async"
    assert chosen(BIG, address_bytes=16) == "bulk"
    assert chosen(BIG, device=A100) == "async"
    assert chosen(BIG, "fp32_split", A100) == "mma"
    assert chosen(BIG, device=replace(A100, compute_capability=(7, 5))) == "old"


def test_a_card_without_a_record_goes_by_the_one_most_like_it() -> None:
    other = table({("old", BIG): 2e12, ("async", BIG): 1e12}, card="Old GPU", compute_capability=(7, 5))
    found = pick(BIG, "fp32", A100, rungs=RUNGS, tables=(TABLE, other))
    assert found.rung is ASYNC
    assert found.reason.endswith(
        "recorded on NVIDIA H200 at 4096x4096x4096 (46 TFLOP/s); NVIDIA A100 has no record of its own"
    )
    turing = replace(A100, name="T4", compute_capability=(7, 5), sm_count=40)
    assert pick(BIG, "fp32", turing, rungs=RUNGS, tables=(TABLE, other)).reason.startswith(
        "the fastest fp32 rung recorded on Old"
    )


@pytest.mark.parametrize("tables", [(), (table({("gone", BIG): 1e12}),)], ids=["no table", "no row of it"])
def test_without_a_record_the_last_rung_that_can_run(tables: tuple[Rates, ...]) -> None:
    found = pick(BIG, "fp32", H200, rungs=RUNGS, tables=tables)
    assert found.rung is BULK
    assert "no record knows one" in found.reason
    assert chosen(BIG, device=A100, tables=tables) == "async"


def test_when_none_can_every_reason_is_told() -> None:
    turing = replace(A100, name="T4", compute_capability=(7, 5))
    with pytest.raises(ShapeError, match=r"no fp32_split rung multiplies .* on T4: mma: needs .* 8\.0.*; wgmma: needs"):
        chosen(BIG, "fp32_split", turing)
    with pytest.raises(ShapeError, match=r"no tf32 rung multiplies .*: the catalogue has none"):
        chosen(BIG, "tf32")
    with pytest.raises(ShapeError, match=r"bulk: needs A, B and C at multiples of 16 bytes, .* at a multiple of 4$"):
        chosen(BIG, rungs=(BULK,), address_bytes=4)


def test_an_unknown_precision_is_refused() -> None:
    wrong: Any = "fp16"
    with pytest.raises(InputError, match="no precision is called 'fp16'; there are fp32, fp32_split, tf32"):
        chosen(BIG, wrong)


def test_the_emulator_takes_what_runs_everywhere_in_k_order() -> None:
    assert chosen(BIG, device=EMULATED) == "old"
    assert chosen(BIG, "fp32_split", EMULATED) == "mma"
    found = pick(BIG, "fp32", EMULATED, rungs=(OLD, rung("later", 9), SLICED, ASYNC), tables=())
    assert found.rung.name == "later"
    assert found.reason.startswith("emulated: ")


TUNED = """
// /// rung
// title  = "Tuned"
// kernel = "mine"
// params = { BM = 16, BN = 16, BK = 8, NUM_THREADS = 256 }
// tune   = { BK = [8, 16] }
// ///
template <int BM, int BN, int BK, int NUM_THREADS>
__global__ void mine(const float* A, const float* B, float* C, int M, int N, int K) {}
"""


@pytest.fixture
def mine(tmp_path: Path) -> Rung:
    path = tmp_path / "40_mine.cu"
    path.write_text(TUNED)
    return catalog.parse_file(path)[0]


def tuned_table(of: Rung, kind: ShapeClass, params: dict[str, int] | None = None, **changes: Any) -> Rates:
    entry = TunedParams(
        rung=of.name, shape_class=kind, params=params or {"BK": 16}, code_sha256=catalog.code_sha256(of)
    )
    return table({("mine", BIG): 5e13}, tuned=(replace(entry, **changes),))


def test_parameters_tuned_for_the_class_are_taken(mine: Rung) -> None:
    tables = (tuned_table(mine, shape_class(BIG, 132)),)
    found = pick(BIG, "fp32", H200, rungs=(mine,), tables=tables)
    assert found.rung.params["BK"] == 16
    assert found.rung.name == "mine"
    assert found.reason.endswith("with BK=16 as tuned for 8 tiles an SM, K about 4096, rows aligned")
    assert pick(Shape(m=4000, n=4000, k=4000), "fp32", H200, rungs=(mine,), tables=tables).rung.params["BK"] == 16


def test_parameters_tuned_for_the_class_of_the_recorded_shape_serve_its_neighbours(mine: Rung) -> None:
    found = pick(SMALL, "fp32", H200, rungs=(mine,), tables=(tuned_table(mine, shape_class(BIG, 132)),))
    assert found.rung.params["BK"] == 16
    own = tuned_table(mine, shape_class(SMALL, 132))
    assert pick(BIG, "fp32", H200, rungs=(mine,), tables=(own,)).rung is mine


def test_parameters_tuned_for_other_code_another_card_or_another_declaration_are_not(mine: Rung) -> None:
    kind = shape_class(BIG, 132)
    for stale in (
        tuned_table(mine, kind, code_sha256="0" * 64),
        tuned_table(mine, kind, {"NO_LONGER": 3}),
        tuned_table(mine, kind, {"BK": -1}),
        tuned_table(mine, kind, {"NUM_THREADS": 2048}),
        replace(tuned_table(mine, kind), card="NVIDIA H100"),
    ):
        found = pick(BIG, "fp32", H200, rungs=(mine,), tables=(stale,))
        assert found.rung is mine
        assert "tuned" not in found.reason


def test_prose_may_change_and_code_may_not(mine: Rung) -> None:
    same = replace(mine, source=f"// better words\n{mine.source}\n")
    assert catalog.code_sha256(same) == catalog.code_sha256(mine)
    assert catalog.code_sha256(replace(mine, source=mine.source.replace("{}", "{ ; }"))) != catalog.code_sha256(mine)
    asm = replace(mine, source=mine.source.replace("{}", '{ asm("// not a comment"); }'))
    other = replace(mine, source=mine.source.replace("{}", '{ asm("// no comment"); }'))
    assert catalog.code_sha256(asm) != catalog.code_sha256(other)


@pytest.mark.parametrize("precision", get_args(Precision))
@pytest.mark.parametrize("backend", ["cuda", "emulated"])
@pytest.mark.parametrize("profile", available())
def test_the_catalogue_gives_a_rung_or_says_why_not(precision: Precision, backend: Any, profile: str) -> None:
    device = replace(load_profile(profile).device, backend=backend)
    of_it = [r for r in catalog.load_catalog() if r.precision == precision and r.kind == "rung"]
    for shape in (BIG, SMALL, Shape(m=1, n=1, k=1), Shape(m=5, n=7, k=0), Shape(m=0, n=7, k=5)):
        able = [r.name for r in of_it if r.why_not_on(device) is None and r.supports(shape) is None]
        assert able or precision != "fp32"
        if able:
            assert pick(shape, precision, device).rung.name in able
        else:
            with pytest.raises(ShapeError, match=f"no {precision} rung multiplies {shape}"):
                pick(shape, precision, device)
