"""The shared accesses that the emulator counts are those of the machine code, width by width. Needs NVRTC, no GPU."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from helpers.kernels import RUNGS, compiled
from helpers.ptx import compile_snippet
from helpers.sass import opcodes_by_kernel, shared_accesses

from ladder.model import Rung
from ladder.nvrtc import Compiled
from ladder.ptx import Function, Program, build, parse

ARCHS = ("sm_75", "sm_80", "sm_90")
SNIPPETS = Path(__file__).parents[1] / "helpers" / "fusion_snippets.cu"
BEFORE_80, FROM_80 = (
    re.findall(r"^KERNEL\((\w+)\)", part, re.M)
    for part in re.split(r"^#if .*80", SNIPPETS.read_text(encoding="utf-8"), flags=re.M)
)
CASES = [(name, arch) for arch in ARCHS for name in BEFORE_80 + (FROM_80 if arch != "sm_75" else [])]


def counted(program: Program) -> Counter[str]:
    """Shared accesses of a program by kind and width, as :func:`helpers.sass.shared_accesses` names them."""
    widths: Counter[str] = Counter()
    for site in program.sites:
        if site.space == "shared" and site.kind in {"ld", "st"} and not site.op.startswith("cp.async"):
            width = site.width_bytes if site.fusion is None else site.fusion.width_bytes
            if width:
                widths[f"{site.kind.upper()}S {8 * width}"] += 1
    return widths


@cache
def program(name: str, arch: str) -> Program:
    kernel = compiled(next(rung for rung in RUNGS if rung.name == name), arch)
    return build(parse(kernel.ptx)[kernel.lowered_name])


each_rung = pytest.mark.parametrize(
    ("rung", "arch"),
    [
        pytest.param(rung, arch, id=f"{rung.name}-{arch}")
        for rung in RUNGS
        for arch in ARCHS
        if rung.min_cc <= int(arch[3:])
    ],
)


@each_rung
def test_a_rungs_shared_accesses_are_those_of_its_machine_code(rung: Rung, arch: str) -> None:
    kernel = compiled(rung, arch)
    assert counted(program(rung.name, arch)) == shared_accesses(opcodes_by_kernel(kernel.cubin)[kernel.lowered_name])


@each_rung
def test_a_rungs_static_shared_memory_is_what_ptxas_says(rung: Rung, arch: str) -> None:
    known = compiled(rung, arch).resources
    assert program(rung.name, arch).static_smem_bytes == known.smem_bytes - rung.smem_bytes


@cache
def snippets(arch: str) -> tuple[Compiled, dict[str, Function]]:
    kernels = compile_snippet(SNIPPETS, BEFORE_80[0], arch=arch)
    return kernels, parse(kernels.ptx)


@pytest.mark.parametrize(("name", "arch"), CASES)
def test_a_snippets_shared_accesses_are_those_of_its_machine_code(name: str, arch: str) -> None:
    kernels, functions = snippets(arch)
    assert counted(build(functions[name])) == shared_accesses(opcodes_by_kernel(kernels.cubin)[name])
