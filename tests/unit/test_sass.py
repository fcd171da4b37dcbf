"""Machine code is read as it stands: instructions, loops, widths, register banks."""

from __future__ import annotations

import importlib.metadata
from collections import Counter

import pytest

from ladder import sass
from ladder.errors import DisassemblerMissingError
from ladder.sass import BankUse, Code, Instruction, bank_use, hottest_loop, kernels, loops, widths

HEAD = "//--------------------- .text._Z4mainPf --------------------------\n_Z4mainPf:\n.text._Z4mainPf:\n"


def code(*lines: str) -> Code:
    """A kernel from lines of assembly; one that ends in a colon is a label."""
    text = [
        line if line.endswith(":") else f"        /*{16 * i:04x}*/                   {line} ;"
        for i, line in enumerate(lines)
    ]
    return kernels(HEAD + "\n".join(text))["_Z4mainPf"]


def instruction(line: str) -> Instruction:
    return code(line).instructions[0]


def test_a_listing_holds_its_kernels_by_name() -> None:
    other = HEAD.replace("_Z4mainPf", "_Z4pack")
    found = kernels(
        f"\t.target\tsm_90\n\n{HEAD}        /*0000*/                   LDC R1, c[0x0][0x28] ;\n"
        f"        /*0010*/              @!P0 EXIT ;\n\n{other}        /*0000*/                   NOP;\n"
    )
    assert list(found) == ["_Z4mainPf", "_Z4pack"]
    assert found["_Z4mainPf"].instructions == (
        Instruction("LDC", ("R1", "c[0x0][0x28]")),
        Instruction("EXIT", (), "!P0"),
    )
    assert found["_Z4pack"].opcodes == Counter({"NOP": 1})


def test_what_never_runs_is_left_out() -> None:
    found = code("@!PT LDS RZ, [RZ]", ".L_x_0:", "@!PT LDS RZ, [RZ]", "@P1 LDS R4, [R2]")
    assert found.instructions == (Instruction("LDS", ("R4", "[R2]"), "P1"),)
    assert found.labels[".L_x_0"] == 0


@pytest.mark.parametrize(
    ("line", "bits"),
    [
        ("LDS R4, [R2]", 32),
        ("LDS.U.128 R4, [R2]", 128),
        ("LDS.U8 R4, [R2]", 8),
        ("STS.64 [R2], R4", 64),
        ("LDG.E.64.CONSTANT R4, desc[UR4][R2.64]", 64),
        ("LDG.E.CONSTANT R4, desc[UR4][R2.64]", 32),
        ("LDGSTS.E.BYPASS.LTC128B.128 [R4], desc[UR4][R2.64]", 128),
        ("LDGSTS.E.LTC128B [R4], desc[UR4][R2.64]", 32),
        ("STG.E.EF.128 desc[UR4][R2.64], R8", 128),
    ],
)
def test_widths(line: str, bits: int) -> None:
    assert instruction(line).width_bits == bits


def test_widths_are_counted_by_instruction() -> None:
    found = code("LDS R4, [R2]", "LDS.128 R4, [R2]", "LDS.128 R8, [R2+0x10]", "LDG.E R4, desc[UR4][R2.64]").instructions
    assert widths(found, "LDS") == {32: 1, 128: 2}
    assert widths(found, "STS") == {}


@pytest.mark.parametrize(
    ("line", "fmas"),
    [
        ("FFMA R4, R5, R6, R4", 32),
        ("HMMA.1688.F32.TF32 R4, R8, R12, R4", 16 * 8 * 8),
        ("HMMA.1684.F32.TF32 R4, R8, R12, R4", 16 * 8 * 4),
        ("HMMA.16816.F32.BF16 R4, R8, R12, R4", 16 * 8 * 16),
        ("HGMMA.64x128x8.F32.TF32 R24, gdesc[UR8], R24, gsb0", 64 * 128 * 8 / 4),
        ("HFMA2.MMA R81, -RZ, RZ, 0, 0", 0),
        ("FADD R4, R5, R6", 0),
        ("LDS R4, [R2]", 0),
    ],
)
def test_multiply_adds_of_a_warp(line: str, fmas: float) -> None:
    assert instruction(line).fmas == fmas
    assert instruction(line).is_mma == line.startswith(("HMMA", "HGMMA"))


@pytest.mark.parametrize(
    ("line", "sources"),
    [
        ("FFMA R4, R5.reuse, R6, R4", ((0, 5, True), (1, 6, False), (2, 4, False))),
        ("FFMA R4, R5, c[0x0][0x160], -R7.reuse", ((0, 5, False), (2, 7, True))),
        ("FFMA R4, RZ, RZ, R7", ((2, 7, False),)),
        ("FFMA R4, R5, UR6, R7", ((0, 5, False), (2, 7, False))),
        ("ISETP.GE.U32.AND P0, PT, R2.reuse, R3, PT", ((0, 2, True), (1, 3, False))),
        ("LDS.128 R8, [R5+UR6+0x200]", ((0, 5, False),)),
        ("STS [R39+0x400], R52", ((0, 39, False), (1, 52, False))),
        ("S2R R0, SR_TID.X", ()),
    ],
)
def test_source_registers_have_slots(line: str, sources: tuple[tuple[int, int, bool], ...]) -> None:
    assert instruction(line).sources == sources


def names(found: Code, body: frozenset[int]) -> str:
    return " ".join(found.instructions[i].name for i in sorted(body))


def test_straight_code_has_no_loop() -> None:
    found = code(
        "FFMA R4, R5, R6, R4", "@P0 BRA `(.L_end)", "FADD R4, R4, R5", ".L_end:", "EXIT", ".L_pad:", "BRA `(.L_pad)"
    )
    assert loops(found) == ()
    assert hottest_loop(found) == ()


def test_a_guarded_branch_back_closes_a_loop() -> None:
    found = code(
        "MOV R4, RZ", ".L_k:", "LDS R5, [R2]", "FFMA R4, R5, R6, R4", "@!P0 BRA `(.L_k)", "STG.E [R2], R4", "EXIT"
    )
    assert [names(found, body) for body in loops(found)] == ["LDS FFMA BRA"]
    assert [each.name for each in hottest_loop(found)] == ["LDS", "FFMA", "BRA"]


def test_blocks_out_of_line_belong_to_their_loop_and_make_none() -> None:
    found = code(
        ".L_k:", "SYNCS P0, [R2]", "@!P0 BRA `(.L_wait)", ".L_go:", "FFMA R4, R5, R6, R4", "@P1 BRA `(.L_k)",
        "FADD R1, R1, R2", "EXIT", ".L_wait:", "NANOSLEEP 0x20", "BRA `(.L_go)",
    )  # fmt: skip
    assert [names(found, body) for body in loops(found)] == ["SYNCS BRA FFMA BRA NANOSLEEP BRA"]


def test_two_branches_to_one_head_are_one_loop() -> None:
    found = code(".L_k:", "LDS R5, [R2]", "@P0 BRA `(.L_k)", "FFMA R4, R5, R6, R4", "@P1 BRA `(.L_k)", "EXIT")
    assert [names(found, body) for body in loops(found)] == ["LDS BRA FFMA BRA"]


@pytest.mark.parametrize("branch", ["BRA.DIV UR4, `(.L_out)", "BRA P3, `(.L_out)", "BRA.U UP0, `(.L_out)"])
def test_a_branch_with_a_condition_of_any_kind_falls_through(branch: str) -> None:
    found = code(".L_k:", branch, "FFMA R4, R5, R6, R4", "BRA `(.L_k)", ".L_out:", "EXIT")
    assert len(loops(found)) == 1


def test_the_hottest_loop_is_the_one_that_multiplies_most_itself() -> None:
    found = code(
        ".L_tile:", "FFMA R1, R2, R3, R1",
        ".L_k:", "FFMA R4, R5, R6, R4", "FFMA R7, R5, R6, R7",
        ".L_spin:", "SYNCS P1, [R2]", "@!P1 BRA `(.L_spin)", "@P0 BRA `(.L_k)",
        ".L_rest:", "FFMA R4, R5, R6, R4", "@P0 BRA `(.L_rest)", "@P2 BRA `(.L_tile)", "EXIT",
    )  # fmt: skip
    assert len(loops(found)) == 4
    assert [each.name for each in hottest_loop(found)] == ["FFMA", "FFMA", "SYNCS", "BRA", "BRA"]


def test_a_matrix_instruction_outweighs_many_ffmas() -> None:
    found = code(
        ".L_split:", "FFMA R4, R5, R6, R4", "FFMA R7, R5, R6, R7", "@P0 BRA `(.L_split)",
        ".L_k:", "HMMA.1688.F32.TF32 R8, R12, R16, R8", "@P0 BRA `(.L_k)", "EXIT",
    )  # fmt: skip
    assert [each.name for each in hottest_loop(found)] == ["HMMA", "BRA"]


@pytest.mark.parametrize(
    ("lines", "reads", "conflicts", "cycles"),
    [
        (["FFMA R0, R2, R4, R6"], 3, 1, 3),
        (["FFMA R0, R2, R4, R7"], 3, 0, 2),
        (["FFMA R0, R2, R2, R4"], 2, 0, 2),  # one register is read once
        (["FFMA R0, R2, c[0x0][0x160], R4"], 2, 0, 2),
        (["FFMA R0, R2, c[0x0][0x160], R3"], 2, 0, 1),
        # The second finds R4 where the first left it: same slot, same bank.
        (["FFMA R1, R2, R4.reuse, R3", "FFMA R6, R8, R4, R6"], 5, 0, 4),
        # Without the flag, or in another slot, it reads it again.
        (["FFMA R1, R2, R4, R3", "FFMA R6, R8, R4, R6"], 6, 1, 5),
        (["FFMA R1, R4.reuse, R2, R3", "FFMA R6, R8, R4, R6"], 6, 1, 5),
        # A read of the other bank leaves it there; one of the same bank does not; a hit uses it up.
        (["FFMA R1, R2, R4.reuse, R3", "FFMA R1, R2, R5, R3", "FFMA R6, R8, R4, R6"], 8, 0, 6),
        (["FFMA R1, R2, R4.reuse, R3", "FFMA R1, R3, R8, R3", "FFMA R6, R8, R4, R6"], 8, 1, 6),
        (["FFMA R1, R2, R4.reuse, R3", "FFMA R1, R2, R4, R3", "FFMA R6, R8, R4, R6"], 8, 1, 6),
        # Other instructions use the cache as well, but only FFMAs are counted.
        (["IADD3 R9, R3, R4.reuse, R5", "FFMA R6, R8, R4, R6"], 2, 0, 2),
        (["FFMA R1, R2.reuse, R3, R5", "STS [R4], R9", "FFMA R6, R2, R8, R6"], 6, 1, 5),
    ],
)  # fmt: skip
def test_register_reads_and_bank_conflicts(lines: list[str], reads: int, conflicts: int, cycles: int) -> None:
    ffmas = sum(line.startswith("FFMA") for line in lines)
    assert bank_use(code(*lines).instructions) == BankUse(ffmas=ffmas, reads=reads, conflicts=conflicts, cycles=cycles)


def test_without_nvdisasm_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "files", absent)
    monkeypatch.setenv("PATH", "")
    sass._nvdisasm.cache_clear()
    with pytest.raises(DisassemblerMissingError, match="pip install nvidia-cuda-nvdisasm"):
        sass.disassemble(b"no cubin")
    sass._nvdisasm.cache_clear()
