"""The catalogue: what files become rungs, under which names, in which order."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import cu

from ladder.catalog import cuda_src, find, load_catalog, parse_file, prose_fields
from ladder.errors import CatalogError, UnknownRungError
from ladder.model import FP32_UNIT_ROUNDOFF

RUNGS = (
    "naive",
    "coalesced",
    "tiled_16",
    "tiled_32",
    "tiled_64",
    "tiled_conflict",
    "padded",
    "register_tile_1d",
    "register_tile",
)
LAWS = ("tile_product_16", "tile_product_32", "tile_product_64")


def names(rungs: object) -> list[str]:
    return [rung.name for rung in rungs]


def test_the_core_rungs_are_there_in_the_order_of_their_numbers_and_the_laws_last() -> None:
    catalogue = load_catalog()
    ladder = [rung.name for rung in catalogue if rung.name in RUNGS]
    assert tuple(ladder) == RUNGS
    assert set(LAWS) <= set(names(catalogue))
    kinds = [rung.kind for rung in catalogue]
    assert kinds == sorted(kinds, key=["rung", "law"].index)
    numbers = [rung.number for rung in catalogue if rung.kind == "rung"]
    assert numbers == sorted(numbers)


@pytest.mark.parametrize("rung", load_catalog(), ids=lambda rung: rung.name)
def test_every_header_says_what_a_reader_needs(rung) -> None:
    fields = prose_fields(rung)
    assert {"summary", "removes", "how", "leaves", "source"} <= set(fields)
    assert all(fields.values())
    assert rung.path.name not in fields["summary"]
    assert "{" not in rung.title


CORE = ("naive", "coalesced", "tiled", "tiled_conflict", "padded", "register_tile_1d", "register_tile", "tile_product")


@pytest.mark.parametrize("rung", find(CORE), ids=lambda rung: rung.name)
def test_every_core_rung_takes_any_shape(rung) -> None:
    assert rung.multiple == (1, 1, 1)


def test_conflict_and_padded_differ_in_the_padding_alone() -> None:
    one, other = (rung.source.partition("// ///\n\n")[2].splitlines() for rung in find(["tiled_conflict", "padded"]))
    different = [(a, b) for a, b in zip(one, other, strict=True) if a != b]
    head, pitch = different
    assert head == ("template <int T, int NUM_THREADS>", "template <int T, int PAD, int NUM_THREADS>")
    assert pitch[0].replace("PITCH = T;", "PITCH = T + PAD;") == pitch[1]


def test_a_sweep_names_its_rungs_after_the_first_list(tmp_path: Path) -> None:
    path = cu.tiled(
        tmp_path, "07_mine.cu", params=None, sweep="{ T = [16, 32], NUM_THREADS = [256, 1024] }", title='"{T}!"'
    )
    small, large = parse_file(path)
    assert (small.name, small.title, small.tile, small.block) == ("mine_16", "16!", (16, 16), (256, 1, 1))
    assert (large.name, large.title, large.tile, large.block) == ("mine_32", "32!", (32, 32), (1024, 1, 1))
    assert small.number == large.number == 7
    assert large.name_expression == "tiled<32, 1024>"


def test_params_and_sweep_share_the_template_in_the_order_of_the_template(tmp_path: Path) -> None:
    path = cu.tiled(tmp_path, params="{ NUM_THREADS = 64 }", sweep="{ T = [8] }")
    (rung,) = parse_file(path)
    assert list(rung.params.items()) == [("T", 8), ("NUM_THREADS", 64)]


def test_what_a_declaration_leaves_out_has_its_default(tmp_path: Path) -> None:
    (rung,) = parse_file(cu.plain(tmp_path))
    assert rung.name_expression == "plain"
    assert (rung.kind, rung.number, rung.smem_bytes, rung.grid_z_tile, rung.min_cc) == ("rung", 0, 0, None, 75)
    assert (rung.multiple, rung.c_init, rung.ordered, rung.law) == ((1, 1, 1), "poison", True, None)
    assert rung.unit_roundoff == FP32_UNIT_ROUNDOFF


def test_every_key_reaches_the_rung(tmp_path: Path) -> None:
    path = cu.tiled(
        tmp_path,
        multiple="{ N = 4, K = 8 }",
        min_cc="90",
        block="[16, 16]",
        smem_bytes="49152",
        grid_z='"K/T"',
        c_init='"zero"',
        law='"tile_product"',
        unit_roundoff="4.9e-4",
    )
    (rung,) = parse_file(path)
    assert rung.multiple == (1, 4, 8)
    assert (rung.min_cc, rung.block, rung.smem_bytes, rung.grid_z_tile) == (90, (16, 16, 1), 49152, 16)
    assert (rung.c_init, rung.law, rung.unit_roundoff) == ("zero", "tile_product", 4.9e-4)
    assert not rung.ordered, "a kernel that adds into C does not add in k order unless it says so"


def test_what_a_second_run_gives_can_be_stated(tmp_path: Path) -> None:
    assert parse_file(cu.plain(tmp_path))[0].repeats
    assert parse_file(cu.plain(tmp_path, ordered="false"))[0].repeats
    assert not parse_file(cu.plain(tmp_path, ordered="false", repeats="false"))[0].repeats
    assert not parse_file(cu.plain(tmp_path, c_init='"zero"'))[0].repeats, "its blocks come in any order"
    assert parse_file(cu.plain(tmp_path, c_init='"zero"', repeats="true"))[0].repeats


def test_ordered_can_be_stated(tmp_path: Path) -> None:
    assert parse_file(cu.plain(tmp_path, c_init='"zero"', ordered="true"))[0].ordered
    assert not parse_file(cu.plain(tmp_path, ordered="false"))[0].ordered


def test_bm_and_bn_give_the_tile(tmp_path: Path) -> None:
    kernel = f"template <int BM, int BN>\n__global__ void k({cu.ARGUMENTS}) {{}}\n"
    path = cu.tiled(tmp_path, kernel_text=kernel, kernel='"k"', params="{ BN = 64, BM = 32 }", block="[8, 4, 2]")
    (rung,) = parse_file(path)
    assert (rung.tile, rung.block, rung.name_expression) == ((32, 64), (8, 4, 2), "k<32, 64>")


def test_a_qualified_kernel_is_found(tmp_path: Path) -> None:
    kernel = f"namespace mine {{\n__global__ void k({cu.ARGUMENTS}) {{}}\n}}\n"
    (rung,) = parse_file(cu.plain(tmp_path, kernel_text=kernel, kernel='"mine::k"'))
    assert rung.name_expression == "mine::k"


def test_a_file_of_the_users_own_is_a_rung_wherever_it_lies(tmp_path: Path) -> None:
    folder = tmp_path / "laws"
    folder.mkdir()
    (rung,) = find([str(cu.plain(folder))])
    assert (rung.name, rung.kind) == ("plain", "rung")


def test_a_file_of_the_law_folder_is_a_law() -> None:
    assert {rung.kind for rung in find(["tile_product"])} == {"law"}


@pytest.mark.parametrize("name", ["tiled", "03_tiled"])
def test_a_files_name_means_its_whole_sweep(name: str) -> None:
    assert names(find([name])) == ["tiled_16", "tiled_32", "tiled_64"]


def test_find_keeps_the_order_asked_for_and_gives_each_rung_once() -> None:
    path = str(cuda_src() / "rungs" / "01_naive.cu")
    assert names(find(["padded", "tiled_32", "tiled", path, "naive"])) == [
        "padded",
        "tiled_32",
        "tiled_16",
        "tiled_64",
        "naive",
    ]


def test_no_name_means_the_whole_catalogue() -> None:
    assert find([]) == load_catalog()


def test_an_unknown_name_is_answered_with_the_closest_ones() -> None:
    with pytest.raises(UnknownRungError, match=r"'regster_tile'.*did you mean.*register_tile.*`ladder list`") as caught:
        find(["regster_tile"])
    assert caught.value.exit_code == 2


def test_a_name_like_no_other_gets_no_guess() -> None:
    with pytest.raises(UnknownRungError, match="no rung is called 'qqqq'; `ladder list`"):
        find(["qqqq"])


def test_two_rungs_of_one_name_are_refused(tmp_path: Path) -> None:
    path = cu.plain(tmp_path, "9_naive.cu")
    assert names(find([str(path)])) == ["naive"]
    with pytest.raises(CatalogError, match=r"9_naive.cu:1: a second rung called 'naive'; .*01_naive.cu has it"):
        find(["naive", str(path)])


def test_prose_is_the_comment_above_the_declaration(tmp_path: Path) -> None:
    text = (
        "// SPDX: not prose\n\n// mine.cu -- does a thing,\n// and another.\n//\n"
        "// Removes   one thing\n//           and more.\n"
        "// How       so.\n//\n// Loose words.\n//\n"
    )
    path = cu.plain(tmp_path, "mine.cu")
    cu.write(path, text + path.read_text(encoding="utf-8"))
    (rung,) = parse_file(path)
    assert rung.prose.startswith("mine.cu -- does a thing")
    assert prose_fields(rung) == {
        "summary": "does a thing, and another.",
        "removes": "one thing and more.",
        "how": "so.",
    }


def test_a_file_without_prose_has_no_fields(tmp_path: Path) -> None:
    (rung,) = parse_file(cu.plain(tmp_path))
    assert prose_fields(rung) == {}
