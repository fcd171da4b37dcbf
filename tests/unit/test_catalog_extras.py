"""Declarations of what a kernel needs beside A, B and C, and rungs with other template arguments."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from helpers import cu
from helpers.extras import PACKED, TMA

from ladder.catalog import parse_file, with_params
from ladder.errors import CatalogError, InputError
from ladder.model import Device, Pack, Rung, TensorTile

KERNEL = """template <int BM, int BN, int BK, int STAGES, int NUM_THREADS>
__global__ void staged(const float* A, const float* B, float* C, int M, int N, int K) {}
"""


def staged(folder: Path, **keys: str | None) -> Rung:
    given: dict[str, str | None] = {
        "title": '"{BM} x {BN}, {STAGES} stages"',
        "kernel": '"staged"',
        "params": "{ BM = 64, BN = 32, BK = 8, STAGES = 3, NUM_THREADS = 128 }",
        "smem_bytes": '"4 * STAGES * BK * (BM + BN)"',
        "tune": "{ BK = [8, 16], STAGES = [3, 4] }",
    }
    (rung,) = parse_file(cu.write(folder / "staged.cu", cu.declaration(**{**given, **keys}) + KERNEL))
    return rung


def device(cc: tuple[int, int], backend: str = "cuda") -> Device:
    return Device(backend=backend, name="GPU", compute_capability=cc, sm_count=1, l2_bytes=0)


def test_shared_memory_may_follow_from_the_parameters(tmp_path: Path) -> None:
    rung = staged(tmp_path)
    assert rung.smem_bytes == 4 * 3 * 8 * (64 + 32)
    assert staged(tmp_path, smem_bytes='"(BM * BN - -BK) / 4 + 1"').smem_bytes == (64 * 32 + 8) // 4 + 1
    assert staged(tmp_path, smem_bytes="512").smem_bytes == 512


def test_blocks_may_be_kept_to_themselves(tmp_path: Path) -> None:
    assert staged(tmp_path, blocks_per_sm="2").blocks_per_sm == 2
    assert staged(tmp_path).blocks_per_sm is None


def test_defaults_ask_for_nothing(tmp_path: Path) -> None:
    rung = staged(tmp_path, tune=None)
    assert (rung.precision, rung.arch, rung.align_bytes, rung.tma, rung.pack, dict(rung.tune)) == (
        "fp32", None, 4, (), None, {},
    )  # fmt: skip
    assert rung.needs == "sm_75"


def test_precision_architecture_alignment_and_tuning_are_read(tmp_path: Path) -> None:
    rung = staged(tmp_path, precision='"fp32_split"', arch='"sm_90a"', align_bytes="16")
    assert (rung.precision, rung.arch, rung.min_cc, rung.align_bytes) == ("fp32_split", "sm_90a", 90, 16)
    assert dict(rung.tune) == {"BK": (8, 16), "STAGES": (3, 4)}
    assert rung.needs == "sm_90a"


def test_other_parameters_change_all_that_follows_from_them(tmp_path: Path) -> None:
    rung = staged(tmp_path)
    other = with_params(rung, {"BM": 128, "STAGES": 4, "NUM_THREADS": 256})
    assert (other.title, other.tile, other.block) == ("128 x 32, 4 stages", (128, 32), (256, 1, 1))
    assert other.smem_bytes == 4 * 4 * 8 * (128 + 32)
    assert other.name_expression == "staged<128, 32, 8, 4, 256>"
    assert (other.name, other.number, other.kind, other.source) == (rung.name, rung.number, rung.kind, rung.source)
    assert with_params(other, dict(rung.params)) == rung
    assert with_params(rung, {}) == rung


def test_a_swept_rung_keeps_its_name_with_other_parameters(tmp_path: Path) -> None:
    path = cu.tiled(tmp_path, params=None, sweep="{ T = [16, 32], NUM_THREADS = [256, 1024] }")
    small, _ = parse_file(path)
    other = with_params(small, {"T": 32})
    assert (other.name, other.tile, other.threads) == ("tiled_16", (32, 32), 256)


def test_the_declaration_that_counts_is_the_rungs_own(tmp_path: Path) -> None:
    rung = staged(tmp_path)
    rung.path.write_text("changed since", encoding="utf-8")
    assert with_params(rung, {"BK": 16}).smem_bytes == 2 * rung.smem_bytes


@pytest.mark.parametrize(
    ("params", "error", "what"),
    [
        ({"Q": 1}, InputError, "rung staged has no parameter 'Q'; it has BM, BN, BK, STAGES, NUM_THREADS"),
        ({"BK": 0}, InputError, "BK = 0; give a positive integer"),
        ({"BK": True}, InputError, "BK = True; give a positive integer"),
        ({"BK": "8"}, InputError, "BK = '8'; give a positive integer"),
        ({"STAGES": 1000}, CatalogError, "staged.cu:5: key 'smem_bytes': .* is not an integer from 0 to 232448"),
        ({"NUM_THREADS": 2048}, CatalogError, "staged.cu:4: key 'params': 2048 threads a block"),
    ],
)
def test_parameters_that_cannot_be_are_refused(
    tmp_path: Path, params: dict[str, int], error: type[Exception], what: str
) -> None:
    with pytest.raises(error, match=what):
        with_params(staged(tmp_path), params)


@pytest.mark.parametrize(
    ("changes", "cc", "backend", "why"),
    [
        ({}, (7, 5), "cuda", None),
        ({"min_cc": 80}, (7, 5), "cuda", "needs compute capability 8.0; GPU has 7.5"),
        ({"arch": "sm_90a"}, (9, 0), "cuda", None),
        ({"arch": "sm_90a"}, (10, 0), "cuda", "needs compute capability 9.0 exactly (sm_90a); GPU has 10.0"),
        ({"arch": "sm_90a"}, (8, 0), "cuda", "needs compute capability 9.0 exactly (sm_90a); GPU has 8.0"),
        ({"arch": "sm_90a"}, (9, 0), "emulated", "sm_90a needs a GPU of compute capability 9.0"),
        ({"arch": "sm_80"}, (8, 0), "emulated", None),
        ({"min_cc": 90}, (9, 0), "emulated", None),
        ({"min_cc": 90, "tma": (TensorTile(of="A", box=(8, 8)),)}, (9, 0), "cuda", None),
        ({"min_cc": 90, "tma": (TensorTile(of="A", box=(8, 8)),)}, (9, 0), "emulated",
         "the emulator runs PTX up to sm_80 features; tma needs a GPU of compute capability 9.0"),
    ],
)  # fmt: skip
def test_where_a_rung_runs(
    tmp_path: Path, changes: dict[str, object], cc: tuple[int, int], backend: str, why: str | None
) -> None:
    found = replace(staged(tmp_path), **changes).why_not_on(device(cc, backend))
    assert (found is None) if why is None else (why in str(found))


def test_a_rung_of_one_architecture_is_compiled_for_it(tmp_path: Path) -> None:
    rung = staged(tmp_path)
    assert rung.arch_for(device((8, 6))) == "sm_86"
    assert replace(rung, arch="sm_90a").arch_for(device((9, 0))) == "sm_90a"


# Tensor maps and packing ----------------------------------------------------------------------------------------------


def tma(folder: Path, **keys: str | None) -> Path:
    return cu.write(folder / "tma.cu", cu.changed(TMA, **keys))


def packed(folder: Path, *, old: str = "", new: str = "", **keys: str | None) -> Path:
    return cu.write(folder / "packed.cu", cu.changed(PACKED, **keys).replace(old, new))


def test_tensor_maps_are_read(tmp_path: Path) -> None:
    (rung,) = parse_file(tma(tmp_path))
    assert rung.tma == (TensorTile(of="A", box=(16, 16), swizzle=64), TensorTile(of="B", box=(16, 32)))
    (rung,) = parse_file(tma(tmp_path, tma='[{ of = "C", box = [8, "2 * BK"] }, { of = "B", box = [256, 4] }]'))
    assert rung.tma == (TensorTile(of="C", box=(8, 32)), TensorTile(of="B", box=(256, 4)))
    assert with_params(rung, {"BK": 32}).tma[0].box == (8, 64)


@pytest.mark.parametrize(
    ("keys", "key", "what"),
    [
        ({"tma": '"A"'}, "kernel", "int K), in this order"),
        ({"tma": '["A", "B"]'}, "tma", "'A' is not a table"),
        ({"tma": '[{ of = "A" }, { of = "B" }]'}, "tma", "box is missing"),
        ({"tma": '[{ of = "D", box = [8, 8] }, {}]'}, "tma.of", "'D' is no matrix"),
        ({"tma": '[{ of = "A", box = [8] }, {}]'}, "tma.box", "[8] is not [rows, columns]"),
        ({"tma": '[{ of = "A", box = [8, "Q"] }, {}]'}, "tma.box", "Q is no parameter"),
        ({"tma": '[{ of = "A", box = [257, 8] }, {}]'}, "tma.box", "257 is not an integer from 1 to 256"),
        ({"tma": '[{ of = "A", box = [8, 0] }, {}]'}, "tma.box", "0 is not an integer from 1 to 256"),
        ({"tma": '[{ of = "A", box = [8, 6] }, {}]'}, "tma.box", "a row of 6 floats is 24 bytes"),
        ({"tma": '[{ of = "A", box = [8, 64], swizzle = 128 }, {}]'}, "tma.box", "256 bytes, past a swizzle of 128"),
        ({"tma": '[{ of = "A", box = [8, 8], swizzle = 16 }, {}]'}, "tma.swizzle", "16 is no swizzle"),
        (
            {"tma": '[{ of = "A", box = [8, 8], fill = 1 }, {}]'},
            "tma.fill",
            "unknown entry; the entries are of, box, s",
        ),
        ({"min_cc": "80"}, "tma", "no device before compute capability 9.0 has it; add min_cc = 90"),
        ({"align_bytes": None}, "tma", "multiples of 16; add align_bytes = 16"),
        ({"multiple": "{ N = 4 }"}, "tma", "rows of A are 4 * K bytes, which must be a multiple of 16; add multiple"),
        ({"multiple": "{ K = 4, N = 2 }"}, "tma", "rows of B are 4 * N bytes"),
    ],
)
def test_what_the_tma_unit_cannot_serve_is_refused(
    tmp_path: Path, keys: dict[str, str | None], key: str, what: str
) -> None:
    path = tma(tmp_path, **keys)
    refuses(path, key, what)


def test_a_tensor_map_stays_in_constant_memory(tmp_path: Path) -> None:
    for wrong in ("const TensorMap map_a", "__grid_constant__ TensorMap map_a", "const __grid_constant__ int4 map_a"):
        text = TMA.replace("const __grid_constant__ TensorMap map_a", wrong)
        refuses(cu.write(tmp_path / "tma.cu", text), "kernel", "const __grid_constant__ TensorMap map0")


def test_packing_is_read(tmp_path: Path) -> None:
    (rung,) = parse_file(packed(tmp_path))
    assert rung.pack == Pack(kernel="pack_b", of="B", tile=(8, 16), planes=2, block=128)
    assert rung.pack_expression == "pack_b<16, 16, 8, 256>"
    (rung,) = parse_file(packed(tmp_path, pack='{ kernel = "pack_b", of = "A", tile = [4, "BN * 2"] }'))
    assert rung.pack == Pack(kernel="pack_b", of="A", tile=(4, 32), planes=1, block=256)
    other = with_params(rung, {"BN": 64})
    assert other.pack == Pack(kernel="pack_b", of="A", tile=(4, 128))
    assert other.pack_expression == "pack_b<16, 64, 8, 256>"


def test_a_persistent_grid_and_the_room_of_its_blocks_are_read(tmp_path: Path) -> None:
    room = '{ kernel = "pack_b", of = "B", tile = [8, 8], room_bytes = "64 + 8 * BM * BN * BLOCKS" }'
    (rung,) = parse_file(packed(tmp_path, pack=room, grid='"persistent"'))
    assert rung.persistent
    assert rung.pack is not None
    assert rung.pack.room == (64, 8 * 16 * 16)
    assert rung.pack.room_bytes(3) == 64 + 3 * 2048
    (plain,) = parse_file(packed(tmp_path))
    assert not plain.persistent
    assert plain.pack is not None
    assert plain.pack.room_bytes(1000) == 0


@pytest.mark.parametrize(
    ("pack", "key", "what"),
    [
        ("3", "pack", "3 is not a table"),
        ('{ kernel = "pack_b", of = "B" }', "pack", "tile is missing"),
        ('{ kernel = 3, of = "B", tile = [8, 8] }', "pack.kernel", "3 is not text"),
        (
            '{ kernel = "pack_c", of = "B", tile = [8, 8] }',
            "pack.kernel",
            "no __global__ function 'pack_c' in this file",
        ),
        (
            '{ kernel = "multiply_packed", of = "B", tile = [8, 8] }',
            "pack.kernel",
            "float* packed, int rows, int cols)",
        ),
        ('{ kernel = "pack_b", of = "C", tile = [8, 8] }', "pack.of", "'C' is no operand"),
        ('{ kernel = "pack_b", of = "B", tile = 8 }', "pack.tile", "8 is not [rows, columns]"),
        (
            '{ kernel = "pack_b", of = "B", tile = [8, 8], planes = 0 }',
            "pack.planes",
            "0 is not an integer from 1 to 16",
        ),
        ('{ kernel = "pack_b", of = "B", tile = [8, 8], block = 2048 }', "pack.block", "2048 is not an integer from 1"),
        ('{ kernel = "pack_b", of = "B", tile = [8, 8], grid = 2 }', "pack.grid", "unknown entry"),
        ('{ kernel = "pack_b", of = "B", tile = [8, 8], overlap = 1 }', "pack.overlap", "1 is neither true nor false"),
        ('{ kernel = "pack_b", of = "B", tile = [8, 8], overlap = true }', "pack.overlap", "add min_cc = 90"),
        (
            '{ kernel = "pack_b", of = "B", tile = [8, 8], room_bytes = "BLOCKS * BLOCKS" }',
            "pack.room_bytes",
            "'BLOCKS * BLOCKS' is not a + b * BLOCKS with multiples of 16; write for example",
        ),
        ('{ kernel = "pack_b", of = "B", tile = [8, 8], room_bytes = 4 }', "pack.room_bytes", "with multiples of 16"),
        (
            '{ kernel = "pack_b", of = "B", tile = [8, 8], room_bytes = "SMS" }',
            "pack.room_bytes",
            "SMS is no parameter",
        ),
    ],
)
def test_packing_that_cannot_be_is_refused(tmp_path: Path, pack: str, key: str, what: str) -> None:
    refuses(packed(tmp_path, pack=pack), key, what)


def test_both_kernels_have_the_same_template(tmp_path: Path) -> None:
    path = packed(tmp_path, old="template <int BM, int BN, int BK, int NUM_THREADS>\n__global__ void pack_b",
                  new="template <int BN, int BM, int BK, int NUM_THREADS>\n__global__ void pack_b")  # fmt: skip
    refuses(path, "pack.kernel", "in their order: BM, BN, BK, NUM_THREADS")


def refuses(path: Path, key: str, what: str) -> None:
    """The declaration is refused on the line of the key's table."""
    with pytest.raises(CatalogError) as caught:
        parse_file(path)
    message = str(caught.value)
    lines = path.read_text(encoding="utf-8").splitlines()
    line = 1 + next(i for i, text in enumerate(lines) if re.match(rf"// {key.partition('.')[0]}\b", text))
    assert message.startswith(f"{path}:{line}: key {key!r}: "), message
    assert what in message
    assert re.search(r"; \S", message), "says how to fix it"
