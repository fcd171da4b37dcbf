"""What compiling a rung tells without a GPU, as Markdown: registers, occupancy, and its machine code."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from bench.rung_pages.tables import Column, table
from ladder.catalog import code_sha256
from ladder.model import Device, Resources, Rung
from ladder.nvrtc import compile_rung, included_headers, nvrtc_version, parse_resources
from ladder.occupancy import blocks_per_sm, occupancy
from ladder.profiles import available, load_profile
from ladder.report.text import percent, plural
from ladder.sass import Code, Instruction, bank_use, disassemble, hottest_loop, kernels

__all__ = ["devices", "fingerprint", "section"]

_TOLD = 6
"""Instructions beside the multiply-adds that a loop's row names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """One kernel compiled for one recorded GPU."""

    label: str
    device: Device
    arch: str
    threads: int
    resources: Resources
    code: Code


def devices() -> tuple[Device, ...]:
    """The recorded GPUs, oldest generation first, each as if it were here."""
    found = (replace(load_profile(name).device, backend="cuda") for name in available())
    return tuple(sorted(found, key=lambda device: device.compute_capability))


def fingerprint(rungs: Sequence[Rung]) -> str:
    """What decides how ``rungs`` compile: their code and headers without comments, and what their declarations say."""
    told = hashlib.sha256()
    for rung in rungs:
        launch = (rung.name_expression, rung.pack_expression, rung.block, rung.smem_bytes, rung.arch, rung.min_cc)
        told.update(f"{code_sha256(rung)} {launch}".encode())
        for content in sorted(included_headers(rung).values()):
            told.update(hashlib.sha256(content).digest())
    return told.hexdigest()[:16]


def section(rungs: Sequence[Rung]) -> list[str]:
    """The lines of the section ``As compiled`` for the rungs of one file.

    Raises:
        DisassemblerMissingError: nvdisasm is not installed.
        NvrtcMissingError: NVRTC is not installed.
    """
    builds = [build for rung in rungs for build in _builds(rung)]
    labels = list(dict.fromkeys(build.label for build in builds))
    builds.sort(key=lambda build: labels.index(build.label))
    label: list[Column[Build]] = [("kernel", lambda build: f"`{build.label}`")]
    which = label if len(labels) > 1 else []
    return [
        f"Compiled with NVRTC {nvrtc_version()} for the recorded GPUs; no GPU took part. Registers, shared memory and "
        "spills are what ptxas reports; blocks and occupancy follow from them.",
        "",
        *table(builds, [*which, *_RESOURCES]),
        "",
        "### Machine code",
        "",
        "Instructions that stand in the kernel, by bits a lane; a loop's are counted once.",
        "",
        *table(builds, [*which, *_MEMORY]),
        "",
        "The hottest loop, where the multiply-adds are:",
        "",
        *table([build for build in builds if hottest_loop(build.code)], [*which, *_LOOP]),
    ]


def _builds(rung: Rung) -> Iterator[Build]:
    for device in devices():
        if rung.why_not_on(device) is not None:
            continue
        arch = rung.arch_for(device)
        made = compile_rung(rung, arch=arch)
        found = kernels(disassemble(made.cubin))
        if rung.pack is not None and made.pack_lowered_name is not None:
            name = made.pack_lowered_name
            resources = parse_resources(made.log, name)
            label, threads = f"{rung.name}: {rung.pack.kernel}", rung.pack.block
            yield Build(label=label, device=device, arch=arch, threads=threads, resources=resources, code=found[name])
        yield Build(
            label=rung.name,
            device=device,
            arch=arch,
            threads=rung.threads,
            resources=made.resources,
            code=found[made.lowered_name],
        )


def _use(build: Build) -> dict[str, int]:
    made = build.resources
    return {"threads": build.threads, "registers": made.registers, "smem_bytes": made.smem_bytes}


def _widths(*names: str) -> Callable[[Build], str]:
    def cell(build: Build) -> str:
        found = Counter(each.width_bits for each in build.code.instructions if each.name in names)
        return ", ".join(f"{count} × {bits}" for bits, count in sorted(found.items()))

    return cell


def _opcodes(chosen: Callable[[Instruction], bool]) -> Callable[[Build], str]:
    def cell(build: Build) -> str:
        found = Counter(each.opcode for each in build.code.instructions if chosen(each))
        return ", ".join(f"{count} × {opcode}" for opcode, count in found.items())

    return cell


def _named(*names: str) -> Callable[[Build], str]:
    return _opcodes(lambda each: each.name in names)


def _in_loop(tell: Callable[[tuple[Instruction, ...]], str]) -> Callable[[Build], str]:
    def cell(build: Build) -> str:
        loop = hottest_loop(build.code)
        return tell(loop) if loop else ""

    return cell


def _work(loop: Iterable[Instruction]) -> str:
    found = Counter(each.opcode for each in loop if each.fmas)
    return ", ".join(f"{count} × {opcode}" for opcode, count in found.items())


def _others(loop: Iterable[Instruction]) -> str:
    found = Counter(each.name for each in loop if not each.fmas).most_common()
    rest = sum(count for _, count in found[_TOLD:])
    told = [f"{count} {name}" for name, count in found[:_TOLD]] + ([plural(rest, "other")] if rest else [])
    return ", ".join(told)


def _reads(loop: Iterable[Instruction]) -> str:
    use = bank_use(loop)
    return f"{use.reads / use.ffmas:.2f}" if use.ffmas else ""


def _conflicts(loop: Iterable[Instruction]) -> str:
    use = bank_use(loop)
    return f"{use.conflicts} ({percent(use.conflicts / use.ffmas)})" if use.ffmas else ""


def _bank_cycles(loop: Iterable[Instruction]) -> str:
    use = bank_use(loop)
    return f"{use.cycles / use.ffmas:.2f}" if use.ffmas else ""


_ARCH: Column[Build] = ("architecture", lambda build: f"`{build.arch}`")
_RESOURCES: tuple[Column[Build], ...] = (
    ("GPU", lambda build: build.device.name),
    _ARCH,
    ("threads a block", lambda build: f"{build.threads}"),
    ("registers a thread", lambda build: f"{build.resources.registers}"),
    ("shared memory a block", lambda build: f"{build.resources.smem_bytes / 1024:.4g} KiB"),
    ("spilled", lambda build: f"{build.resources.spill_bytes} bytes"),
    ("blocks an SM", lambda build: f"{blocks_per_sm(build.device, **_use(build))}"),
    ("occupancy", lambda build: percent(occupancy(build.device, **_use(build)))),
)
_MEMORY: tuple[Column[Build], ...] = (
    _ARCH,
    ("instructions", lambda build: f"{len(build.code.instructions)}"),
    ("global loads, LDG", _widths("LDG")),
    ("global stores, STG", _widths("STG")),
    ("reductions", _named("RED", "REDG", "ATOM", "ATOMG")),
    ("copies to shared, LDGSTS", _widths("LDGSTS")),
    ("bulk copies", _named("UTMALDG", "UTMASTG", "UTMAREDG", "UBLKCP", "UBLKRED")),
    ("shared loads, LDS", _widths("LDS")),
    ("matrix loads", _named("LDSM")),
    ("shared stores, STS", _widths("STS")),
    ("matrix stores", _named("STSM")),
    ("local memory", _named("LDL", "STL")),
    ("matrix instructions", _opcodes(lambda each: each.is_mma)),
)
_LOOP: tuple[Column[Build], ...] = (
    _ARCH,
    ("instructions", _in_loop(lambda loop: f"{len(loop)}")),
    ("multiply-adds", _in_loop(_work)),
    ("their share", _in_loop(lambda loop: percent(sum(each.fmas > 0 for each in loop) / len(loop)))),
    ("beside them", _in_loop(_others)),
    ("register reads an FFMA", _in_loop(_reads)),
    ("FFMAs in a bank conflict", _in_loop(_conflicts)),
    ("bank cycles an FFMA", _in_loop(_bank_cycles)),
)
