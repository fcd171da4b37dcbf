"""Every rung of the catalogue compiles for every supported generation, without a GPU, and spills nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest
from helpers.sass import opcodes, shared_load_bits, waits_in_the_mainloop

from ladder.catalog import find, load_catalog
from ladder.model import Rung
from ladder.nvrtc import compile_rung, nvrtc_version

ARCHS = ("sm_75", "sm_80", "sm_90")
MAX_STATIC_SMEM_BYTES = 48 * 1024
REGISTERS_PER_BLOCK = 65536


def builds(rungs: Iterable[Rung]) -> pytest.MarkDecorator:
    """Each rung with each generation that it declares; one of a single architecture with that."""
    cases = [
        pytest.param(rung, rung.arch or arch, id=f"{rung.name}-{rung.arch or arch}")
        for rung in rungs
        for arch in ARCHS
        if (rung.min_cc <= int(arch.removeprefix("sm_")) if rung.arch is None else rung.arch.rstrip("a") == arch)
    ]
    return pytest.mark.parametrize(("rung", "arch"), cases)


@pytest.fixture(params=ARCHS)
def every_arch(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@builds(load_catalog())
def test_every_rung_compiles(rung: Rung, arch: str) -> None:
    kernel = compile_rung(rung, arch=arch)
    assert kernel.cubin.startswith(b"\x7fELF")
    assert f".target {arch}" in kernel.ptx
    assert re.search(rf"\.entry {re.escape(kernel.lowered_name)}\(", kernel.ptx)
    assert rung.kernel.rpartition("::")[2] in kernel.lowered_name
    assert kernel.nvrtc_version == nvrtc_version()
    assert "warning" not in kernel.log


@builds(load_catalog())
def test_every_rung_fits_a_multiprocessor_without_spills(rung: Rung, arch: str) -> None:
    kernel = compile_rung(rung, arch=arch)
    resources = kernel.resources
    assert (resources.spill_bytes, resources.stack_bytes) == (0, 0)
    assert not {opcode for opcode in opcodes(kernel.cubin) if opcode.startswith(("LDL", "STL"))}
    # ptxas hands registers out by 8 a thread.
    assert -(-resources.registers // 8) * 8 * rung.threads <= REGISTERS_PER_BLOCK
    assert resources.smem_bytes - rung.smem_bytes <= MAX_STATIC_SMEM_BYTES


@builds(load_catalog())
def test_every_line_of_the_ptx_points_into_the_rungs_file(rung: Rung, arch: str) -> None:
    ptx = compile_rung(rung, arch=arch).ptx
    files = dict(re.findall(r'^\s*\.file\s+(\d+) "([^"]+)"', ptx, re.MULTILINE))
    places = re.findall(r"^\s*\.loc\s+(\d+) (\d+)", ptx, re.MULTILINE)
    lines = {int(line) for file, line in places if files[file] == str(rung.path)} - {0}  # 0: no line in particular
    source = rung.source.splitlines()
    assert any("__syncthreads" in source[line - 1] or "for (" in source[line - 1] for line in lines)
    assert max(lines) <= len(source)


@builds(rung for rung in load_catalog() if "__shared__" in rung.source)
def test_every_mainloop_waits_for_its_tiles(rung: Rung, arch: str) -> None:
    kernel = compile_rung(rung, arch=arch)
    waits = waits_in_the_mainloop(kernel.cubin, kernel.lowered_name)
    k_tile_bytes = 4 * rung.params.get("BK", rung.params.get("T", 0)) * sum(rung.tile)
    if kernel.resources.smem_bytes < 2 * k_tile_bytes:
        assert len(waits) == 2, "the one k-tile there is room for is complete, and has been read"
    else:
        assert waits


@pytest.mark.parametrize(
    ("name", "loads"),
    [
        ("tiled_16", {32: 16, 128: 4}),
        ("tiled_32", {32: 32, 128: 8}),
        ("tiled_64", {32: 64, 128: 64}),
        ("tiled_conflict", {128: 16}),
        ("padded", {32: 32, 128: 8}),
        ("register_tile_1d", {32: 8, 128: 16}),
        ("register_tile", {32: 64, 128: 16}),
        ("tile_product_32", {32: 32, 128: 8}),
    ],
)
def test_ptxas_reads_four_k_at_once_as_the_headers_say(name: str, loads: dict[int, int], every_arch: str) -> None:
    (rung,) = find([name])
    kernel = compile_rung(rung, arch=every_arch)
    assert shared_load_bits(kernel.cubin) == loads
    words = sum(bits // 32 * count for bits, count in loads.items())
    assert len(re.findall(r"ld\.shared", kernel.ptx)) == words, "in PTX they are still scalar"


@pytest.mark.parametrize("name", ["tile_product_16", "tile_product_32", "tile_product_64"])
def test_the_tile_product_sends_reductions_and_takes_nothing_back(name: str, every_arch: str) -> None:
    (rung,) = find([name])
    found = opcodes(compile_rung(rung, arch=every_arch).cubin)
    assert sum(n for op, n in found.items() if op.startswith("RED")) == max(1, rung.tile[0] ** 2 // rung.threads)
    assert not {op for op in found if op.startswith(("ATOM", "STG"))}


@builds(rung for rung in load_catalog() if rung.ordered)
def test_ordered_rungs_round_once_per_step(rung: Rung, arch: str) -> None:
    found = opcodes(compile_rung(rung, arch=arch).cubin)
    assert found["FFMA"] > 0
    assert not {op for op in found if op.startswith(("FADD", "FMUL"))}
