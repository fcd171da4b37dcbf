"""Which shared accesses of hand-written PTX merge, and where the merged requests lie; what is known of alignment."""

from __future__ import annotations

import pytest
from helpers.ptx import module

from ladder.ptx import build, parse
from ladder.ptx.alignment import trailing_zeros

BOX = ".shared .align 4 .b8 box[4096];"
ODD = ".shared .align 4 .b8 first[132]; .shared .align 4 .b8 box[4096];"
BASE = "shl.b32 %w1, %tid, 6;\nmov.u32 %w2, box;\nadd.s32 %w3, %w2, %w1;\n"


def merged(body: str, *, declarations: str = BOX, target: str = "sm_90") -> list[tuple[int, int] | None]:
    """(width, offset) of each shared access in order: (0, offset) for an absorbed one, None for one left alone."""
    program = build(parse(module(body, declarations=declarations, target=target))["f"])
    sites = [site for site in program.sites if site.space == "shared"]
    return [None if s.fusion is None else (s.fusion.width_bytes, s.fusion.offset) for s in sites]


def loads(*offsets: int, base: str = "%w3") -> str:
    return "".join(f"ld.shared.f32 %f1, [{base}+{offset}];\n" for offset in offsets)


def stores(*offsets: int, base: str = "%w3") -> str:
    return "".join(f"st.shared.f32 [{base}+{offset}], %f1;\n" for offset in offsets)


def test_four_loads_become_one_request_on_the_first_of_them() -> None:
    assert merged(BASE + loads(8, 0, 12, 4)) == [(16, 0), (0, 0), (0, 0), (0, 0)]


def test_three_of_four_words_are_enough_and_two_are_a_pair() -> None:
    assert merged(BASE + loads(16, 20, 28)) == [(16, 16), (0, 16), (0, 16)]
    assert merged(BASE + loads(24, 28)) == [(8, 24), (0, 24)]
    assert merged(BASE + loads(4, 8)) == [None, None]
    assert merged(BASE + loads(4, 8, 12, 16)) == [(16, 0), (0, 0), (0, 0), None]


def test_loads_of_two_words_count_as_two() -> None:
    body = BASE + "ld.shared.v2.f32 {%f1, %f2}, [%w3];\nld.shared.b32 %w5, [%w3+12];\n"
    assert merged(body) == [(16, 0), (0, 0)]
    assert merged(BASE + "ld.shared.v2.f32 {%f1, %f2}, [%w3];\n") == [None]
    apart = BASE + "ld.shared.b64 %x1, [%w3];\nld.shared.b32 %w5, [%w3+8];\nld.shared.b64 %x2, [%w3+24];\n"
    assert merged(apart) == [None, None, None]


def test_a_load_of_words_that_a_wider_one_brings_is_not_served_again() -> None:
    wide = "ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [%w3+16];\n"
    narrow = "ld.shared.v2.f32 {%f5, %f6}, [%w3+24];\n"
    beside = "ld.shared.v2.f32 {%f5, %f6}, [%w3+32];\n"
    assert merged(BASE + wide + narrow) == [(16, 16), (0, 16)]
    assert merged(BASE + narrow + wide) == [(16, 16), (0, 16)]
    assert merged(BASE + wide + beside) == [None, None]
    assert merged(BASE + wide) == [None]


def vector(start: int, read: str, *, of: int = 4, mask: bool = True) -> str:
    """A vector load of which some words are read, with or without the pragma that says so."""
    names = [f"%f{number}" for number in range(1, of + 1)]
    pragma = f'.pragma "used_bytes_mask {sum(0xF << 4 * int(word) for word in read)}";\n' if mask else ""
    uses = "".join(f"st.global.f32 [%p0], {names[int(word)]};\n" for word in read)
    return f"{pragma}ld.shared.v{of}.f32 {{{', '.join(names)}}}, [%w3+{start}];\n{uses}"


@pytest.mark.parametrize(
    ("read", "request_"),
    [("01", (8, 32)), ("23", (8, 40)), ("0", (4, 32)), ("2", (4, 40)), ("013", None), ("0123", None)],
)
@pytest.mark.parametrize("mask", [True, False])
def test_of_a_vector_only_what_is_read_is_loaded(read: str, request_: tuple[int, int] | None, mask: bool) -> None:
    assert merged(BASE + vector(32, read, mask=mask and len(read) < 4)) == [request_]


MASKED = {
    # What stands beside the masked load; the requests with the pragma, and without it.
    "012 and 3": (vector(0, "012"), (12,), [None, None], [(16, 0), (0, 0)]),
    "013 and 2": (vector(0, "013"), (8,), [None, None], [(16, 0), (0, 0)]),
    "01 and 2": (vector(0, "01"), (8,), [(8, 0), None], [(16, 0), (0, 0)]),
    "01 and 2, 3": (vector(0, "01"), (8, 12), [(16, 0), (0, 0), (0, 0)], [(16, 0), (0, 0), (0, 0)]),
    "01 and 1": (vector(0, "01"), (4,), [(8, 0), None], [(8, 0), (0, 0)]),
    "0 and 1": (vector(0, "0", of=2), (4,), [(8, 0), (0, 0)], [(8, 0), (0, 0)]),
    "0 and 2, 3": (vector(0, "0", of=2), (8, 12), [(4, 0), (8, 8), (0, 8)], [(16, 0), (0, 0), (0, 0)]),
    "0 and 1, 2, 3": (vector(0, "0"), (4, 8, 12), [(4, 0), (16, 0), (0, 0), (0, 0)], [(16, 0), *[(0, 0)] * 3]),
    "1 and 0, 2": (vector(0, "1"), (0, 8), [(16, 0), (0, 0), (0, 0)], [(16, 0), (0, 0), (0, 0)]),
    "2 and 3": (vector(0, "2"), (12,), [(8, 8), (0, 8)], [(8, 8), (0, 8)]),
}


@pytest.mark.parametrize("name", MASKED)
def test_beside_words_that_are_not_used_no_gap_is_closed(name: str) -> None:
    """As ptxas 13.0 does it for sm_75, sm_80 and sm_90."""
    load, others, masked, plain = MASKED[name]
    assert merged(BASE + load + loads(*others)) == masked
    assert merged(BASE + load.split("\n", 1)[1] + loads(*others)) == plain


def test_two_masked_halves_are_one_request_and_a_mask_holds_for_one_load() -> None:
    assert merged(BASE + vector(16, "01") + vector(16, "23")) == [(16, 16), (0, 16)]
    assert merged(BASE + vector(16, "01") + vector(16, "0123", mask=False)) == [(8, 16), None]
    assert merged(BASE + '.pragma "nounroll";\n' + vector(16, "01")) == [(8, 16)]


def test_stores_merge_whole_or_in_pairs() -> None:
    assert merged(BASE + stores(0, 4, 8, 12)) == [(16, 0), (0, 0), (0, 0), (0, 0)]
    assert merged(BASE + stores(4, 8, 12)) == [None, (8, 8), (0, 8)]
    assert merged(BASE + stores(0, 4, 32, 8, 12)) == [(8, 0), (0, 0), None, (8, 8), (0, 8)]
    shorts = "".join(f"st.shared.b16 [%w3+{offset}], %h1;\n" for offset in (0, 2, 4, 6, 8, 10))
    assert merged(BASE + shorts) == [(8, 0), (0, 0), (0, 0), (0, 0), (4, 8), (0, 8)]
    wide = "".join(f"st.shared.b64 [%w3+{offset}], %x1;\n" for offset in (0, 8, 16))
    assert merged(BASE + wide) == [(16, 0), (0, 0), None]


@pytest.mark.parametrize(
    ("between", "loads_merge", "stores_merge"),
    [
        ("add.f32 %f3, %f4, %f5;", True, True),
        ("ld.global.f32 %f3, [%p0];", True, True),
        ("st.global.f32 [%p0], %f3;", True, True),
        ("red.global.add.f32 [%p0], %f3;", True, True),
        ("shfl.sync.bfly.b32 %w9, %w8, 1, 31, -1;", True, True),
        ("ld.shared.f32 %f3, [%w9];", True, False),
        ("ld.volatile.shared.f32 %f3, [%w9];", True, False),
        ("ld.f32 %f3, [%x1];", True, False),
        ("cp.async.commit_group;", True, False),
        ("st.shared.f32 [%w9], %f3;", False, False),
        ("st.f32 [%x1], %f3;", False, False),
        ("atom.shared.add.u32 %w8, [%w9], %w8;\nmov.b32 %w10, %w8;", False, False),
        ("red.add.u32 [%x1], %w8;", False, False),
        ("bar.sync 0;", False, False),
        ("bar.warp.sync -1;", False, False),
        ("membar.cta;", False, False),
        ("fence.acq_rel.gpu;", False, False),
        ("nanosleep.u32 3;", False, False),
        ("cp.async.wait_group 0;", False, False),
        ("div.rn.f32 %f3, %f4, %f5;", False, False),
        ("sqrt.rn.f32 %f3, %f4;", False, False),
        ("div.s32 %w8, %w9, %w10;", True, True),
        ("rem.u64 %x1, %x2, %x3;", False, False),
        ("L: add.f32 %f3, %f4, %f5;", False, False),
        ("add.s32 %w3, %w3, 16;\nadd.s32 %w3, %w3, -16;", False, False),
    ],
)
def test_what_may_stand_in_between(between: str, loads_merge: bool, stores_merge: bool) -> None:
    # The word that stands in between lies elsewhere and never merges itself.
    whole, apart = [(16, 0), (0, 0), (0, 0), (0, 0)], [(8, 0), (0, 0), (8, 8), (0, 8)]
    for one, merge in ((loads, loads_merge), (stores, stores_merge)):
        found = merged(f"{BASE}{one(0, 4)}{between}\n{one(8, 12)}")
        shown = found[:2] + found[-2:]
        assert shown == (whole if merge else apart), one.__name__


def test_volatile_and_guarded_accesses_stay_as_they_are() -> None:
    assert merged(BASE + loads(0, 4, 8, 12).replace("ld.shared", "ld.volatile.shared")) == [None] * 4
    assert merged(BASE + loads(0, 4, 8, 12).replace("ld.", "@%q1 ld.")) == [None] * 4
    assert merged(BASE + stores(0, 4, 8, 12).replace("st.shared", "st.volatile.shared")) == [None] * 4
    assert merged(BASE + stores(0, 4, 8, 12).replace("st.", "@%q1 st.")) == [None] * 4


@pytest.mark.parametrize(
    ("index", "widths"),
    [
        ("shl.b32 %w1, %tid, 4;", [16, 0, 0, 0]),
        ("shl.b32 %w1, %tid, 3;", [8, 0, 8, 0]),
        ("shl.b32 %w1, %tid, 2;", [None] * 4),
        ("mul.lo.s32 %w1, %n0, 48;", [16, 0, 0, 0]),
        ("mul.lo.s32 %w1, %n0, 40;", [8, 0, 8, 0]),
        ("and.b32 %w1, %n0, -16;", [16, 0, 0, 0]),
        ("mov.b32 %w1, %n0;", [None] * 4),
        ("selp.b32 %w1, 32, 64, %q1;", [16, 0, 0, 0]),
        ("mov.b32 %w1, 64;\nL: add.s32 %w1, %w1, 16;\nsetp.lt.s32 %q1, %w1, %n0;\n@%q1 bra L;", [16, 0, 0, 0]),
        ("mov.b32 %w1, 64;\nL: add.s32 %w1, %w1, 8;\nsetp.lt.s32 %q1, %w1, %n0;\n@%q1 bra L;", [8, 0, 8, 0]),
        ("cvt.rzi.s32.f32 %w1, %f9;", [None] * 4),
    ],
)
def test_a_request_is_as_wide_as_the_base_is_aligned(index: str, widths: list[int | None]) -> None:
    found = merged(f"{index}\nmov.u32 %w2, box;\nadd.s32 %w3, %w2, %w1;\n{loads(0, 4, 8, 12)}")
    assert [None if one is None else one[0] for one in found] == widths


def test_where_an_array_begins_decides_and_how_the_target_folds_it() -> None:
    """``box`` begins 132 bytes in. Up to sm_89 that is part of the offset, from sm_90 on of a base aligned to 4."""
    mention = "mov.u32 %w9, first;\n"
    body = mention + BASE + loads(0, 4, 8, 12)
    assert merged(body, declarations=ODD, target="sm_90") == [None] * 4
    # Words 33, 34 and 35 are three of a window of four; the request starts a word before the address register.
    assert merged(body, declarations=ODD, target="sm_80") == [(16, -4), (0, -4), (0, -4), None]
    fixed = mention + loads(0, 4, 8, 12, base="box")
    assert merged(fixed, declarations=ODD, target="sm_90") == [(16, -4), (0, -4), (0, -4), None]


def test_registers_a_constant_apart_are_one_base() -> None:
    near = BASE + "add.s32 %w4, %w3, 8;\nsub.s32 %w5, %w3, 4;\nor.b32 %w6, %w1, 12;\n"
    assert merged(near + loads(0, 4) + loads(0, 4, base="%w4")) == [(16, 0), (0, 0), (0, 0), (0, 0)]
    # On the register that is 8 further on, the request starts 8 before.
    assert merged(near + loads(0, base="%w4") + loads(0, 4)) == [(16, -8), (0, -8), (0, -8)]
    assert merged(near + loads(4, base="%w5") + loads(4)) == [(8, 4), (0, 4)]
    assert merged(near + loads(0, 4, 8, base="%w1") + loads(0, base="%w6")) == [(16, 0), (0, 0), (0, 0), (0, 0)]
    other = BASE + "shl.b32 %w4, %n0, 4;\n"
    assert merged(other + loads(0, 4) + loads(8, 12, base="%w4")) == [(8, 0), (0, 0), (8, 8), (0, 8)]


def test_the_product_in_a_multiply_add_is_a_base() -> None:
    body = "mov.u32 %w2, box;\nmad.lo.s32 %w3, %n0, 144, %w2;\nadd.s32 %w4, %w3, 8;\n"
    body += loads(0, 4) + loads(0, 4, base="%w4")
    assert merged(body) == [(16, 0), (0, 0), (0, 0), (0, 0)]
    assert merged(body, target="sm_75") == [(16, 0), (0, 0), (0, 0), (0, 0)]


def test_merged_requests_move_the_same_words() -> None:
    """Every request covers the accesses that it stands for."""
    text = module(BASE + loads(4, 8, 12, 20, 24, 28, 40, 44), declarations=BOX)
    program = build(parse(text)["f"])
    sites = [site for site in program.sites if site.space == "shared"]
    for site in sites:
        if site.fusion is not None and site.fusion.width_bytes == 0:
            (owner,) = (s for s in sites if s.fusion and s.fusion.width_bytes and s.fusion.offset == site.fusion.offset)
            assert owner.fusion is not None
            assert owner.fusion.offset <= site.offset
            assert site.offset + 4 <= owner.fusion.offset + owner.fusion.width_bytes


@pytest.mark.parametrize(
    ("code", "zeros"),
    [
        ("mov.b32 %w1, 48;", 4),
        ("mov.b32 %w1, 0;", 64),
        ("add.s32 %w1, 48, 8;", 3),
        ("shl.b32 %w2, %tid, 5;\nsub.s32 %w1, %w2, 16;", 4),
        ("mul.wide.u32 %x1, %tid, 24;\ncvt.u32.u64 %w1, %x1;", 3),
        ("mad.lo.s32 %w1, %tid, 32, 8;", 3),
        ("mul.hi.u32 %w1, 64, 64;", 0),
        ("xor.b32 %w1, 48, 16;", 4),
        ("min.s32 %w1, 48, 32;", 4),
        ("shl.b32 %w1, 4, %tid;", 0),
        ("mov.f32 %f1, 0f40000000;\nmov.b32 %w1, %f1;", 0),
        ("mov.b32 %w1, 64;\nmov.b32 %w1, 8;", 3),
        ("ld.param.u32 %w1, [f_n0];", 0),
    ],
)
def test_low_bits_known_to_be_zero(code: str, zeros: int) -> None:
    assert trailing_zeros(parse(module(code))["f"], {}).get("%w1") == zeros
