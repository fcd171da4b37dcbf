"""Every rung of the catalogue compiles for every supported generation, without a GPU, and spills nothing."""

from __future__ import annotations

import re

import pytest
from helpers.sass import opcodes, shared_load_bits

from ladder.catalog import find, load_catalog
from ladder.model import Rung
from ladder.nvrtc import Compiled, compile_rung, nvrtc_version

ARCHS = ("sm_75", "sm_80", "sm_90")
MAX_STATIC_SMEM_BYTES = 48 * 1024
REGISTERS_PER_BLOCK = 65536


def compiled(rung: Rung, arch: str) -> Compiled:
    if int(arch.removeprefix("sm_")) < rung.min_cc:
        pytest.skip(f"{rung.name} declares min_cc = {rung.min_cc}")
    return compile_rung(rung, arch=rung.arch or arch)


@pytest.fixture(params=ARCHS)
def arch(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("rung", load_catalog(), ids=lambda rung: rung.name)
def test_every_rung_compiles(rung: Rung, arch: str) -> None:
    kernel = compiled(rung, arch)
    assert kernel.cubin.startswith(b"\x7fELF")
    assert f".target {rung.arch or arch}" in kernel.ptx
    assert re.search(rf"\.entry {re.escape(kernel.lowered_name)}\(", kernel.ptx)
    assert rung.kernel.rpartition("::")[2] in kernel.lowered_name
    assert kernel.nvrtc_version == nvrtc_version()
    assert "warning" not in kernel.log


@pytest.mark.parametrize("rung", load_catalog(), ids=lambda rung: rung.name)
def test_every_rung_fits_a_multiprocessor_without_spills(rung: Rung, arch: str) -> None:
    kernel = compiled(rung, arch)
    resources = kernel.resources
    assert (resources.spill_bytes, resources.stack_bytes) == (0, 0)
    assert not {opcode for opcode in opcodes(kernel.cubin) if opcode.startswith(("LDL", "STL"))}
    # ptxas hands registers out by 8 a thread.
    assert -(-resources.registers // 8) * 8 * rung.threads <= REGISTERS_PER_BLOCK
    assert resources.smem_bytes - rung.smem_bytes <= MAX_STATIC_SMEM_BYTES


@pytest.mark.parametrize("rung", load_catalog(), ids=lambda rung: rung.name)
def test_every_line_of_the_ptx_points_into_the_rungs_file(rung: Rung, arch: str) -> None:
    ptx = compiled(rung, arch).ptx
    files = dict(re.findall(r'^\s*\.file\s+(\d+) "([^"]+)"', ptx, re.MULTILINE))
    places = re.findall(r"^\s*\.loc\s+(\d+) (\d+)", ptx, re.MULTILINE)
    lines = {int(line) for file, line in places if files[file] == str(rung.path)} - {0}  # 0: no line in particular
    source = rung.source.splitlines()
    assert any("__syncthreads" in source[line - 1] or "for (" in source[line - 1] for line in lines)
    assert max(lines) <= len(source)


def test_a_barrier_stands_on_each_side_of_every_mainloop(arch: str) -> None:
    for rung in load_catalog():
        if "__shared__" in rung.source and rung.min_cc <= int(arch.removeprefix("sm_")):
            found = opcodes(compiled(rung, arch).cubin)
            barriers = sum(n for op, n in found.items() if op.startswith("BAR.SYNC"))
            # Where copies run ahead into further stages, what is overwritten is never what is read next.
            assert barriers == (1 if any(op.startswith("LDGSTS") for op in found) else 2), rung.name


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
def test_ptxas_reads_four_k_at_once_as_the_headers_say(name: str, loads: dict[int, int], arch: str) -> None:
    (rung,) = find([name])
    kernel = compiled(rung, arch)
    assert shared_load_bits(kernel.cubin) == loads
    words = sum(bits // 32 * count for bits, count in loads.items())
    assert len(re.findall(r"ld\.shared", kernel.ptx)) == words, "in PTX they are still scalar"


@pytest.mark.parametrize("name", ["tile_product_16", "tile_product_32", "tile_product_64"])
def test_the_tile_product_sends_reductions_and_takes_nothing_back(name: str, arch: str) -> None:
    (rung,) = find([name])
    found = opcodes(compiled(rung, arch).cubin)
    assert sum(n for op, n in found.items() if op.startswith("RED")) == max(1, rung.tile[0] ** 2 // rung.threads)
    assert not {op for op in found if op.startswith(("ATOM", "STG"))}


@pytest.mark.parametrize("rung", [r for r in load_catalog() if r.ordered], ids=lambda rung: rung.name)
def test_ordered_rungs_round_once_per_step(rung: Rung, arch: str) -> None:
    found = opcodes(compiled(rung, arch).cubin)
    assert found["FFMA"] > 0
    assert not {op for op in found if op.startswith(("FADD", "FMUL"))}
