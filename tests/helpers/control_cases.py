"""PTX in which threads part ways, wait for each other or meet on one word, and what memory holds afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from helpers.memory_cases import LANES, REGISTER, TID, Case, at, noise, zeros

__all__ = ["CONTROL_CASES"]


def guards() -> Iterator[Case]:
    """Instructions that only some lanes run, whose other lanes may hold any address."""
    data, low = noise("u4"), TID < 20
    setup = (
        "setp.lt.u32 %q1, %tid, 20;\nselp.b64 %x5, %p0, 0, %q1;\nmul.wide.u32 %x6, %tid, 4;\nadd.s64 %x5, %x5, %x6;\n"
    )
    keep = f"{at(1, 4)}st.global.b32 [%at], %w1;"
    yield Case(
        "guarded load", f"{setup}mov.b32 %w1, 7;\n@%q1 ld.global.b32 %w1, [%x5];\n{keep}",
        (data, zeros("u4")), (data, np.where(low, data, 7).astype("u4")),
    )  # fmt: skip
    yield Case(
        "guarded load of nobody",
        f"mov.b32 %w1, 9;\nsetp.ne.u32 %q1, %tid, %tid;\n@%q1 ld.global.b32 %w1, [%x0];\n{keep}",
        (data, zeros("u4")), (data, np.full(LANES, 9, "u4")),
    )  # fmt: skip
    pairs = noise("u4", 2 * LANES)
    yield Case(
        "guarded vector load, whose registers the others keep",
        "setp.gt.u32 %q1, %tid, 50;\nmov.b32 %w1, 1;\nmov.b32 %w2, 2;\n"
        f"{at(0, 8)}@%q1 ld.global.v2.b32 {{%w1, %w2}}, [%at];\nadd.u32 %w1, %w1, %w2;\n{keep}",
        (pairs, zeros("u4")), (pairs, np.where(TID > 50, pairs[::2] + pairs[1::2], 3).astype("u4")),
    )  # fmt: skip
    yield Case(
        "guarded store", f"{setup}mov.b32 %w1, 5;\n@%q1 st.global.b32 [%x5], %w1;",
        (data,), (np.where(low, 5, data).astype("u4"),),
    )  # fmt: skip
    yield Case(
        "negated guards", f"{setup}{at(1, 4)}@!%q1 ret;\nmov.b32 %w1, 3;\nst.global.b32 [%at], %w1;",
        (data, zeros("u4")), (data, np.where(low, 3, 0).astype("u4")),
    )  # fmt: skip
    yield Case(
        "guarded arithmetic",
        f"{setup}mov.b32 %w1, %tid;\n@!%q1 add.u32 %w1, %w1, 100;\n@%q1 shl.b32 %w1, %w1, 1;\n{keep}",
        (data, zeros("u4")), (data, np.where(low, 2 * TID, TID + 100).astype("u4")),
    )  # fmt: skip
    yield Case(
        "a guard that its own instruction overwrites",
        "setp.lt.u32 %q1, %tid, 20;\nsetp.ge.u32 %q2, %tid, 40;\n@%q1 setp.ge.u32 %q1|%q2, %tid, 10;\n"
        f"selp.b32 %w1, 1, 0, %q1;\n@%q2 or.b32 %w1, %w1, 2;\n{keep}",
        (data, zeros("u4")),
        (data, (np.where(low, TID >= 10, False) + 2 * np.where(low, TID < 10, TID >= 40)).astype("u4")),
    )  # fmt: skip
    yield Case(
        "guarded exit", f"setp.eq.u32 %q1, %tid, 3;\n@%q1 exit;\nmov.b32 %w1, 8;\n{keep}",
        (data, zeros("u4")), (data, np.where(TID == 3, 0, 8).astype("u4")),
    )  # fmt: skip
    yield Case(
        "a value written on one side of a branch only",
        f"mov.f32 %f1, 0f40000000;\nsetp.lt.u32 %q1, %tid, 20;\n@%q1 bra SKIP;\nmov.f32 %f1, 0f3F800000;\nSKIP:\n"
        f"{at(1, 4)}st.global.f32 [%at], %f1;",
        (data, zeros("f4")), (data, np.where(low, 2, 1).astype("f4")),
    )  # fmt: skip
    yield Case(
        "registers that were never written read as zeros of their type",
        f"add.f32 %f2, %f1, 0f3F800000;\nadd.f64 %d2, %d1, 0d3FF0000000000000;\nselp.b32 %w1, 1, 2, %q5;\n"
        f"cvt.rn.f32.f64 %f3, %d2;\nadd.f32 %f2, %f2, %f3;\n{at(1, 4)}st.global.f32 [%at], %f2;",
        (data, zeros("f4")), (data, np.full(LANES, 2, "f4")),
    )  # fmt: skip


def branches() -> Iterator[Case]:
    data = noise("u4")
    keep = f"{at(1, 4)}st.global.b32 [%at], %w1;"
    yield Case(
        "a loop of as many turns as the thread says",
        "mov.b32 %w1, 0;\nmov.b32 %w2, 0;\nTOP:\nsetp.ge.u32 %q1, %w2, %tid;\n@%q1 bra.uni END;\n"
        f"add.u32 %w1, %w1, %w2;\nadd.u32 %w2, %w2, 1;\nbra TOP;\nEND:\n{keep}",
        (data, zeros("u4")), (data, (TID * (TID - 1) // 2).astype("u4")),
    )  # fmt: skip
    yield Case(
        "loops within loops, left early",
        "mov.b32 %w1, 0;\nmov.b32 %w2, 0;\nOUTER:\nmov.b32 %w3, 0;\nINNER:\nadd.u32 %w1, %w1, 1;\n"
        "add.u32 %w3, %w3, 1;\n"
        "setp.lt.u32 %q1, %w3, %w2;\n@%q1 bra INNER;\nadd.u32 %w2, %w2, 1;\nsetp.gt.u32 %q2, %w1, 40;\n@%q2 bra DONE;\n"
        f"setp.le.u32 %q1, %w2, %tid;\n@%q1 bra OUTER;\nDONE:\n{keep}",
        (data, zeros("u4")), (data, np.array([triangle(t) for t in TID], "u4")),
    )  # fmt: skip
    yield Case(
        "a branch past the last instruction",
        f"mov.b32 %w1, 6;\n{keep}\nsetp.lt.u32 %q1, %tid, 5;\n@%q1 bra END;\nmov.b32 %w1, 7;\n"
        "st.global.b32 [%at], %w1;\nret;\nEND:",
        (data, zeros("u4")), (data, np.where(TID < 5, 6, 7).astype("u4")),
    )  # fmt: skip
    scoped = "{ .reg .pred r; setp.lt.u32 r, %w1, LIMIT; @!r bra OUT; add.u32 %w1, %w1, 10; OUT: }\n"
    yield Case(
        "labels and registers of inline asm, expanded twice",
        f"mov.b32 %w1, %tid;\n{scoped.replace('LIMIT', '30')}{scoped.replace('LIMIT', '20')}{keep}",
        (data, zeros("u4")), (data, (TID + 10 * (TID < 30) + 10 * (TID + 10 * (TID < 30) < 20)).astype("u4")),
    )  # fmt: skip


def triangle(thread: int) -> int:
    """What "loops within loops" counts."""
    total = turn = 0
    while True:
        total += max(turn, 1)
        turn += 1
        if total > 40 or turn > thread:
            return total


Step = Callable[[int, int], int]


def wrap(step: Step, bits: int, *, sign: bool) -> Step:
    """``step`` on two's complement numbers of ``bits`` bits."""
    mask = 2**bits - 1

    def number(x: int) -> int:
        x &= mask
        return x - 2**bits if sign and x >> (bits - 1) else x

    return lambda old, new: step(number(old), number(new)) & mask


ATOMICS: dict[str, tuple[tuple[str, ...], Step]] = {
    "add": (("u32", "s32", "u64"), lambda old, new: old + new),
    "min": (("u32", "s32", "u64", "s64"), min),
    "max": (("u32", "s32", "u64", "s64"), max),
    "and": (("b32", "b64"), lambda old, new: old & new),
    "or": (("b32", "b64"), lambda old, new: old | new),
    "xor": (("b32", "b64"), lambda old, new: old ^ new),
    "exch": (("b32", "b64"), lambda _old, new: new),
    "inc": (("u32",), lambda old, limit: 0 if old >= limit else old + 1),
    "dec": (("u32",), lambda old, limit: limit if old == 0 or old > limit else old - 1),
}


def atomics() -> Iterator[Case]:
    """Every lane on one of two words, so that order shows in what each lane gets back."""
    for name, (kinds, step) in ATOMICS.items():
        for kind in kinds:
            size = int(kind[1:]) // 8
            dtype, one, two, load = f"u{size}", f"{REGISTER[kind]}1", f"{REGISTER[kind]}2", f"b{8 * size}"
            data, words = noise(dtype, seed=1), noise(dtype, 2, seed=2)
            do = wrap(step, 8 * size, sign=kind[0] == "s")
            after, got = words.copy(), zeros(dtype)
            for lane in TID:
                got[lane] = after[lane & 1]
                after[lane & 1] = do(int(got[lane]), int(data[lane]))
            begin = (
                f"and.b32 %w9, %tid, 1;\nmul.wide.u32 %x9, %w9, {size};\nadd.s64 %x9, %x9, %p1;\n"
                f"{at(0, size)}ld.global.{load} {one}, [%at];\n"
            )
            keep = f"\n{at(2, size)}st.global.{load} [%at], {two};"
            ordered = name in {"exch", "inc", "dec"}
            for space in (".global", ".relaxed.gpu.global", ""):
                op = f"atom{space}.{name}.{kind}"
                before, then = (data, words, zeros(dtype)), (data, after, got)
                yield Case(op, f"{begin}{op} {two}, [%x9], {one};{keep}", before, then, in_order=True)
            forms = {
                f"atom.{name}.{kind}, result dead": f"atom.global.{name}.{kind} {two}, [%x9], {one};",
                f"atom.{name}.{kind}, no result": f"atom.global.{name}.{kind} _, [%x9], {one};",
                f"red.{name}.{kind}": f"red.global.{name}.{kind} [%x9], {one};",
            }
            for title, code in forms.items():
                if title != f"red.exch.{kind}":
                    yield Case(title, begin + code, (data, words), (data, after), in_order=ordered)


def compare_and_swap() -> Iterator[Case]:
    """Each lane replaces its number plus 5 by the next: the first finds 5, the second 6 ..."""
    for bits in (32, 64):
        r, dtype, size = REGISTER[f"b{bits}"], f"u{bits // 8}", bits // 8
        convert = f"cvt.u64.u32 {r}1, %tid;\n" if bits == 64 else f"mov.b32 {r}1, %tid;\n"
        body = (
            f"{convert}add.u{bits} {r}1, {r}1, 5;\nadd.u{bits} {r}2, {r}1, 1;\n"
            f"atom.global.cas.b{bits} {r}3, [%p0], {r}1, {r}2;\n{at(1, size)}st.global.b{bits} [%at], {r}3;"
        )
        cells = np.array([5, 0], dtype)
        left = np.array([5 + LANES, 0], dtype), (TID + 5).astype(dtype)
        yield Case(f"atom.cas.b{bits}", body, (cells, zeros(dtype)), left, in_order=True)


def other_atomics() -> Iterator[Case]:
    for kind, dtype in (("f32", "f4"), ("f64", "f8")):
        # Small integers, whose sum does not depend on the order.
        r, size = REGISTER[kind], dtype[1]
        for code in (f"red.global.add.{kind} [%p0+{size}], {r}1;", f"atom.global.add.{kind} {r}2, [%p0+{size}], {r}1;"):
            left = np.array([1, 2 + TID.sum(), 3], dtype)
            yield Case(code, f"cvt.rn.{kind}.u32 {r}1, %tid;\n{code}", (np.array([1, 2, 3], dtype),), (left,))
    body = (
        "mov.u32 %w9, box;\nsetp.lt.u32 %q1, %tid, 2;\nmad.lo.u32 %w1, %tid, 4, %w9;\nmov.b32 %w2, 100;\n"
        "@%q1 st.shared.b32 [%w1], %w2;\nbar.sync 0;\nand.b32 %w3, %tid, 1;\nmad.lo.u32 %w3, %w3, 4, %w9;\n"
        "atom.shared.add.u32 %w4, [%w3], %tid;\nbar.sync 0;\nsetp.gt.u32 %q2, %tid, 61;\n"
        "@%q2 red.shared::cta.or.b32 [%w3], 1;\nbar.sync 0;\nld.shared.b32 %w5, [%w3];\n"
        f"{at(0, 4)}st.global.b32 [%at], %w5;"
    )
    totals = np.array([100 + TID[::2].sum(), 100 + TID[1::2].sum()]) | 1
    box = ".shared .align 4 .b8 box[8];"
    yield Case("atomics on shared memory", body, (zeros("u4"),), (totals[TID & 1].astype("u4"),), declarations=box)
    body = "setp.lt.u32 %q1, %tid, 10;\nselp.b64 %x1, %p0, 0, %q1;\n@%q1 red.add.u32 [%x1], 3;"
    yield Case("guarded reduction by a generic address", body, (np.array([1], "u4"),), (np.array([31], "u4"),))


CONTROL_CASES: tuple[Case, ...] = (
    *guards(),
    *branches(),
    *atomics(),
    *compare_and_swap(),
    *other_atomics(),
)
