"""PTX text -> functions: operands, scopes, variables, line marks, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from helpers.ptx import module

from ladder.errors import UnsupportedPtxError
from ladder.ptx import Function, build, parse
from ladder.ptx.syntax import (
    Address,
    Immediate,
    Instruction,
    Operand,
    Param,
    Register,
    Symbol,
    Variable,
    Vector,
    destinations,
    registers_of,
    sources,
)


def function(body: str, *, declarations: str = "", outside: str = "") -> Function:
    return parse(module(body, declarations=declarations, outside=outside))["f"]


def last(body: str) -> Instruction:
    """The last instruction of a body, before the ``ret`` that :func:`module` adds."""
    return function(body).instructions[-2]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%w1", Register("%w1")),
        ("%tid.x", Register("%tid.x")),
        ("7", Immediate(7)),
        ("-7", Immediate(-7)),
        ("0x1F", Immediate(31)),
        ("0XffffffffU", Immediate(0xFFFFFFFF)),
        ("-0x10", Immediate(-16)),
        ("0b101", Immediate(5)),
        ("017", Immediate(15)),
        ("0", Immediate(0)),
        ("WARP_SZ", Immediate(32)),
        ("0f3F800000", Immediate(0x3F800000, 32)),
        ("0d3FF0000000000000", Immediate(0x3FF0000000000000, 64)),
        ("name$1", Symbol("name$1")),
        ("!%q1", Symbol("!%q1")),
        ("[%x1]", Address(Register("%x1"), 0)),
        ("[%x1+-12]", Address(Register("%x1"), -12)),
        ("[ %x1 + 0x10 ]", Address(Register("%x1"), 16)),
        ("[box+4]", Address(Symbol("box"), 4)),
        ("[64]", Address(None, 64)),
        ("{%w1, _, 3}", Vector((Register("%w1"), Symbol("_"), Immediate(3)))),
        ("%q1|%q2", Vector((Register("%q1"), Register("%q2")))),
    ],
)
def test_operands(text: str, expected: Operand) -> None:
    found = last(f"op.b32 %w0, {text};").operands[1]
    assert type(found) is type(expected)
    assert found == expected


def test_instructions_keep_name_guard_and_order() -> None:
    text = "@!%q1 ld.shared::cta.v2.f32 {%f1,%f2}, [%w1+8];add.s32\t%w1,%w2,%w3;\n\tbar.sync\t0 ;"
    load, add, barrier = function(text).instructions[-4:-1]
    assert (load.op, load.parts, load.guard) == (
        "ld.shared::cta.v2.f32", ("ld", "shared::cta", "v2", "f32"), ("%q1", True),
    )  # fmt: skip
    assert len(load.operands) == 2
    assert (add.op, add.guard, len(add.operands)) == ("add.s32", None, 3)
    assert (barrier.op, barrier.operands) == ("bar.sync", (Immediate(0),))
    assert str(barrier) == "bar.sync"


@pytest.mark.parametrize(
    ("text", "written", "read"),
    [
        ("add.s32 %w1, %w2, 3;", ("%w1",), ("%w2",)),
        ("setp.lt.and.s32 %q1|%q2, %w1, %w2, !%q3;", ("%q1", "%q2"), ("%w1", "%w2", "%q3")),
        ("mov.b64 {%w1, _}, %x1;", ("%w1",), ("%x1",)),
        ("ld.global.v2.f32 {%f1, %f2}, [%x1+4];", ("%f1", "%f2"), ("%x1",)),
        ("st.global.v2.f32 [%x1], {%f1, %f2};", (), ("%x1", "%f1", "%f2")),
        ("red.global.add.f32 [%x1], %f1;", (), ("%x1", "%f1")),
        ("atom.global.add.f32 %f2, [%x1], %f1;", ("%f2",), ("%x1", "%f1")),
        ("bar.sync 0;", (), ()),
        ("bra END;\nEND:", (), ()),
    ],
)
def test_what_an_instruction_writes_and_reads(text: str, written: tuple[str, ...], read: tuple[str, ...]) -> None:
    found = last(text)
    assert tuple(name for o in destinations(found) for name in registers_of(o)) == written
    assert tuple(name for o in sources(found) for name in registers_of(o)) == read


def test_registers_by_family_by_name_and_several_at_once() -> None:
    registers = function("", declarations=".reg .f32 %a<3>; .reg.pred ready, done; .reg\t.b16 half;").registers
    assert {name: registers[name] for name in ("%a0", "%a2", "ready", "done", "half")} == {
        "%a0": "f32", "%a2": "f32", "ready": "pred", "done": "pred", "half": "b16",
    }  # fmt: skip
    assert "%a3" not in registers


def test_scopes_keep_their_registers_and_labels_apart() -> None:
    block = "{ .reg .b32 t; mov.b32 t, %w1; { .reg .b32 t; mov.b32 t, 1; } L: add.u32 %w1, t, 1; bra L; }"
    found = function(f"{block}\n{block}\nL: bra L;")
    moves = [i.operands[0] for i in found.instructions if i.op == "mov.b32"]
    names = [target.name for target in moves if isinstance(target, Register)]
    assert len(set(names)) == 4
    assert all(found.registers[name] == "b32" for name in names)
    targets = [i.operands[0].name for i in found.instructions if i.op == "bra" and isinstance(i.operands[0], Symbol)]
    assert len(set(targets)) == 3
    assert targets[2] == "L"
    # Each branch goes to the label of its own scope, which stands before it.
    places = [index for index, i in enumerate(found.instructions) if i.op == "bra"]
    assert [place - found.labels[target] for place, target in zip(places, targets, strict=True)] == [1, 1, 0]


def test_a_branch_out_of_a_scope_finds_the_label_outside() -> None:
    found = function("{ .reg .b32 t; bra OUT; }\nOUT:")
    (branch,) = (i for i in found.instructions if i.op == "bra")
    assert branch.operands == (Symbol("OUT"),)


def test_parameters_are_laid_out_by_their_alignment() -> None:
    text = """.entry g(.param .u32 n, .param .u64 .ptr .global .align 1 a, .param .align 8 .b8 s[12], .param .f32 x,
        .param .u8 flag, .param .u64 .ptr b) .maxntid 256 .minnctapersm 2 { ret; }"""
    assert parse(text)["g"].params == (
        Param("n", "u32", 0, 4), Param("a", "u64", 8, 8), Param("s", "b8", 16, 12), Param("x", "f32", 28, 4),
        Param("flag", "u8", 32, 1), Param("b", "u64", 40, 8),
    )  # fmt: skip


def test_variables_of_every_kind() -> None:
    found = function(
        "".join(f"mov.u32 %w1, {name};\n" for name in ("one", "two", "grid", "dyn", "mod", "depot")),
        declarations=".shared .align 16 .b8 one[40], two[2]; .shared .f32 grid[3][5]; .local .align 8 .b8 depot[24];",
        outside=".extern .shared .align 16 .b8 dyn[];\n.visible .shared .align 4 .b8 mod[8];",
    )
    assert set(found.variables) == {
        Variable("one", "shared", 16, 40), Variable("two", "shared", 16, 2), Variable("grid", "shared", 4, 60),
        Variable("dyn", "shared", 16, 0), Variable("mod", "shared", 4, 8), Variable("depot", "local", 8, 24),
    }  # fmt: skip


def test_shared_memory_lies_as_ptxas_lays_it() -> None:
    """As declared, each by its own alignment, dynamic memory last; ptxas puts these at 0, 36, 168 ..."""
    program = build(
        function(
            "".join(f"mov.u32 %w1, {name};\n" for name in ("dyn", "e", "d", "c", "b", "a")),
            declarations=".shared .align 1 .b8 a[33]; .shared .align 4 .b8 b[132]; .shared .align 8 .b8 c[264];"
            ".shared .align 2 .b8 d[66]; .shared .align 4 .b8 e[132];",
            outside=".extern .shared .align 16 .b8 dyn[];",
        )
    )
    assert program.addresses == {"a": 0, "b": 36, "c": 168, "d": 432, "e": 500, "dyn": 640}
    assert program.static_smem_bytes == 640


def test_a_function_holds_only_the_variables_that_it_uses() -> None:
    text = """.target sm_80
    .shared .align 4 .b8 both[4];
    .entry a() { .shared .align 4 .b8 x[64]; .reg .b32 %r<2>; mov.u32 %r0, x; mov.u32 %r1, both; ret; }
    .entry b() { .shared .align 4 .b8 y[8]; .shared .align 4 .b8 unused[8]; .reg .b32 %r<2>; mov.u32 %r0, y; ret; }
    """
    functions = parse(text)
    assert [v.name for v in functions["a"].variables] == ["both", "x"]
    assert [v.name for v in functions["b"].variables] == ["y"]
    assert functions["a"].target == functions["b"].target == 80


@pytest.mark.parametrize(("target", "number"), [("sm_75", 75), ("sm_90a", 90), ("sm_100f, debug", 100)])
def test_the_target_is_read(target: str, number: int) -> None:
    assert parse(module("", target=target))["f"].target == number


def test_lines_follow_the_last_mark_that_has_one() -> None:
    outside = '.file 1 "dir//kernel.cu"\n.file 2 "other.cuh"'
    body = """mov.b32 %w1, 0;
    .loc 1 12 5
    mov.b32 %w2, 0; mov.b32 %w3, 0;
    .loc 2 7 1, function_name $L__info_string0, inlined_at 1 30 4
    mov.b32 %w4, 0;
    .loc 1 0 0
    mov.b32 %w5, 0;
    """
    found = function(body, outside=outside)
    moves = [i for i in found.instructions if i.op == "mov.b32"]
    assert [found.where(i) for i in moves] == [
        "PTX `mov.b32`", "dir/kernel.cu:12", "dir/kernel.cu:12", "other.cuh:7", "other.cuh:7",
    ]  # fmt: skip


def test_paths_are_shown_from_the_working_folder_and_without_escapes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    found = function(
        ".loc 1 3 1\nmov.b32 %w1, 0;\n.loc 2 4 1\nmov.b32 %w1, 0;",
        outside=f'.file 1 "{tmp_path}/sub/k\\303\\251rnel.cu"\n.file 2 "/elsewhere/k.cu"',
    )
    assert [found.where(i) for i in found.instructions[-3:-1]] == ["sub/kérnel.cu:3", "/elsewhere/k.cu:4"]


def test_comments_and_pragmas_say_nothing() -> None:
    found = function('// mov.b32 %w1, 1;\n/* mov.b32 %w2, 2;\n */ .pragma "nounroll"; mov.b32 %w3, 3; // {')
    assert [i.operands[0] for i in found.instructions if i.op == "mov.b32"] == [Register("%w3")]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (".callprototype x;", "PTX directive `.callprototype x`"),
        (".shared .align 4 .texref x;", "PTX variable `.shared .align 4 .texref x`"),
        (".shared .align 4 .b8 x[4] = {1};", "PTX variable `.shared .align 4 .b8 x[4] = {1}`"),
        (".reg .texref x;", "PTX registers `.reg .texref x`"),
        ("{ mov.b32 %w1, 0;", "ends inside a function body"),
        ("L: mov.b32 %w1, 0;\nL: mov.b32 %w1, 0;", "label `L` twice"),
        ("mov.b32 %w1, 0;\n.loc 1 2 3\nmov.b32 %w2", "cannot read PTX: 'mov.b32 %w2"),
    ],
)
def test_what_the_grammar_does_not_know_is_refused(body: str, said: str) -> None:
    with pytest.raises(UnsupportedPtxError, match=re.escape(said)):
        parse(module(body).replace("\nret;", ""))


@pytest.mark.parametrize("body", ["mov.b32 %w1 0;", "add.s32 %w1, %w2 %w3, 0;", "mov.b32 %w1, 0 mov.b32 %w2, 0;"])
def test_a_missing_comma_or_semicolon_is_no_operand(body: str) -> None:
    with pytest.raises(UnsupportedPtxError):
        build(function(body))


def test_a_parameter_type_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UnsupportedPtxError, match=r"parameter type \.texref"):
        parse(".entry f(.param .texref t) { ret; }")
