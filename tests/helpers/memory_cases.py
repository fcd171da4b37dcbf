"""PTX that moves data: loads, stores, atomics, guards, barriers, branches, and what must be in memory afterwards."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["LANES", "MEMORY_CASES", "REGISTER", "TID", "Case", "at", "noise", "zeros"]

Array = NDArray[Any]

LANES = 64
TID = np.arange(LANES)


@dataclass(frozen=True)
class Case:
    """A body of :func:`helpers.ptx.module`; ``after`` is what it leaves of ``before``, buffer by buffer."""

    name: str
    body: str
    before: tuple[Array, ...]
    after: tuple[Array, ...]
    declarations: str = ""
    outside: str = ""
    smem_bytes: int = 0
    lanes: int = LANES
    grid: tuple[int, int, int] = (1, 1, 1)
    in_order: bool = False
    """What lanes get depends on which comes first."""


def at(pointer: int, size: int, register: str = "%at") -> str:
    """The address of this thread's element of ``size`` bytes."""
    return f"mul.wide.u32 {register}, %tid, {size};\nadd.s64 {register}, {register}, %p{pointer};\n"


def noise(dtype: Any, count: int = LANES, seed: int = 0) -> Array:
    """Any bits."""
    raw = np.random.default_rng(seed).integers(0, 256, count * np.dtype(dtype).itemsize, dtype=np.uint8)
    return raw.view(dtype)


def zeros(dtype: Any, count: int = LANES) -> Array:
    return np.zeros(count, dtype)


NUMPY = {"b8": "u1", "u8": "u1", "s8": "i1", "b16": "u2", "u16": "u2", "s16": "i2", "b32": "u4", "u32": "u4",
         "s32": "i4", "f32": "f4", "b64": "u8", "u64": "u8", "s64": "i8", "f64": "f8"}  # fmt: skip
REGISTER = {"f32": "%f", "f64": "%d"} | {k: {1: "%h", 2: "%h", 4: "%w", 8: "%x"}[np.dtype(v).itemsize]
                                         for k, v in NUMPY.items() if k[0] != "f"}  # fmt: skip


def copies() -> Iterator[Case]:
    """Load and store of every type and width, through every hint."""
    for kind, dtype in NUMPY.items():
        data, size, register = noise(dtype), np.dtype(dtype).itemsize, REGISTER[kind]
        body = f"{at(0, size)}ld.global.{kind} {register}1, [%at];\n{at(1, size)}st.global.{kind} [%at], {register}1;"
        yield Case(f"copy {kind}", body, (data, zeros(dtype)), (data, data))
        vectors = [v for v in (2, 4) if v * size <= 16]
        for v in vectors:
            registers = ", ".join(f"{register}{i}" for i in range(v))
            swapped = ", ".join(f"{register}{i}" for i in reversed(range(v)))
            data = noise(dtype, v * LANES)
            body = (
                f"{at(0, v * size)}ld.global.v{v}.{kind} {{{registers}}}, [%at];\n"
                f"{at(1, v * size)}st.global.v{v}.{kind} [%at], {{{swapped}}};"
            )
            turned = data.reshape(-1, v)[:, ::-1].reshape(-1).copy()
            yield Case(f"vector v{v}.{kind}", body, (data, zeros(dtype, v * LANES)), (data, turned))
    data = noise("u4", 4 * LANES)
    for hint in ("nc", "ca", "cg", "cs", "nc.L1::no_allocate", "L2::128B", "volatile", "relaxed.gpu", "acquire.sys"):
        before, _, after = (
            hint.partition(".") if hint.split(".")[0] in {"volatile", "relaxed", "acquire"} else ("", "", hint)
        )
        op = ".".join(p for p in ("ld", before, after if before else "", "global", "" if before else after, "b32") if p)
        body = f"{at(0, 16)}{op} %w1, [%at+8];\n{at(1, 4)}st.global.wt.b32 [%at], %w1;"
        yield Case(f"hint {hint}", body, (data, zeros("u4")), (data, data[2::4].copy()))
    body = f"{at(0, 4)}add.s64 %at, %at, 16;\nld.global.b32 %w1, [%at+-16];\n{at(1, 4)}st.global.b32 [%at+0], %w1;"
    yield Case("negative offset", body, (data[:LANES], zeros("u4")), (data[:LANES], data[:LANES]))


def extensions() -> Iterator[Case]:
    """A register wider than what is loaded is filled by the type's sign; a store takes the low bytes."""
    for kind, dtype, wide in (("s8", "i1", "i4"), ("u8", "u1", "u4"), ("b8", "u1", "u4"), ("s16", "i2", "i4"),
                              ("b16", "u2", "u4"), ("s32", "i4", "i8"), ("u32", "u4", "u8")):  # fmt: skip
        data, size = noise(dtype), np.dtype(dtype).itemsize
        register, width = ("%x1", 8) if wide[1] == "8" else ("%w1", 4)
        body = (
            f"{at(0, size)}ld.global.{kind} {register}, [%at];\n{at(1, width)}st.global.b{8 * width} [%at], {register};"
        )
        yield Case(f"widened {kind}", body, (data, zeros(wide)), (data, data.astype(wide)))
    data = noise("u8")
    for kind, dtype in (("b8", "u1"), ("b16", "u2"), ("b32", "u4")):
        size = np.dtype(dtype).itemsize
        body = f"{at(0, 8)}ld.global.b64 %x1, [%at];\n{at(1, size)}st.global.{kind} [%at], %x1;"
        yield Case(f"narrowed {kind}", body, (data, zeros(dtype)), (data, data.astype(dtype)))


def local() -> Iterator[Case]:
    """Memory of each thread's own, indexed at run time."""
    depot = ".local .align 16 .b8 depot[128];"
    for kind, size in (("b8", 1), ("b16", 2), ("f32", 4), ("b64", 8)):
        register, dtype = REGISTER[kind], NUMPY[kind]
        data = noise(dtype, 4 * LANES)
        load = "".join(
            f"ld.global.{kind} {register}1, [%at+{i * size}];\nst.local.{kind} [%w9+{i * size}], {register}1;\n"
            for i in range(4)
        )
        body = (
            f"mov.u32 %w9, depot;\n{at(0, 4 * size)}{load}and.b32 %w1, %tid, 3;\nmad.lo.u32 %w1, %w1, {size}, %w9;\n"
            f"ld.local.{kind} {register}2, [%w1];\n{at(1, size)}st.global.{kind} [%at], {register}2;"
        )
        picked = data.reshape(-1, 4)[TID, TID & 3]
        yield Case(f"local {kind}", body, (data, zeros(dtype)), (data, picked), declarations=depot)
    data = noise("u4", 4 * LANES)
    body = (
        f"cvta.local.u64 %x9, %x8;\nmov.u64 %x9, depot;\n{at(0, 16)}ld.global.v4.b32 {{%w1, %w2, %w3, %w4}}, [%at];\n"
        f"st.local.v4.b32 [%x9+16], {{%w4, %w3, %w2, %w1}};\nld.v2.b32 {{%w5, %w6}}, [%x9+24];\n"
        f"add.u32 %w5, %w5, %w6;\n{at(1, 4)}st.global.b32 [%at], %w5;"
    )
    four = data.reshape(-1, 4)
    after = (data, four[:, 1] + four[:, 0])
    yield Case("local vectors, read by a generic address", body, (data, zeros("u4")), after, declarations=depot)
    body = (
        f"setp.lt.u32 %q1, %tid, 9;\nmov.u64 %x9, depot;\nmov.b32 %w1, 4;\nst.local.b32 [%x9], %w1;\nmov.b32 %w1, 5;\n"
        f"@%q1 st.local.b32 [%x9], %w1;\nld.local.b32 %w2, [%x9];\n{at(0, 4)}st.global.b32 [%at], %w2;"
    )
    yield Case("guarded local store", body, (zeros("u4"),), (np.where(TID < 9, 5, 4).astype("u4"),), declarations=depot)


def shared() -> Iterator[Case]:
    """Neighbours exchange what they wrote, at every width, in every kind of shared variable."""
    places = {
        "static": (".shared .align 16 .b8 box[1024];", "", 0),
        "of the module": ("", ".shared .align 16 .b8 box[1024];", 0),
        "two-dimensional": (".shared .align 16 .b8 first[3], box[16][64];", "", 0),
        "dynamic": (".shared .align 4 .b8 first[20];", ".extern .shared .align 16 .b8 box[];", 1024),
    }
    for (name, (declarations, outside, dynamic)), kind in itertools.product(
        places.items(), ("b8", "s16", "b32", "f32", "b64", "f64", "v2.b32", "v4.f32", "v2.b64", "v4.b8", "v2.b16")
    ):
        element = kind.split(".")[-1]
        count = int(kind[1]) if "." in kind else 1
        size, register = np.dtype(NUMPY[element]).itemsize * count, REGISTER[element]
        registers = ", ".join(f"{register}{i}" for i in range(count))
        registers = f"{{{registers}}}" if count > 1 else registers
        data = noise(NUMPY[element], count * LANES)
        other = "mov.u32 %w30, first;\nsetp.eq.u32 %q1, %tid, 5;\n@%q1 st.shared.b8 [%w30], %h9;\n"
        body = (
            f"{other if 'first' in declarations else ''}mov.u32 %w31, box;\n"
            f"{at(0, size)}ld.global.{kind} {registers}, [%at];\n"
            f"mad.lo.u32 %w32, %tid, {size}, %w31;\nst.shared.{kind} [%w32], {registers};\nbar.sync 0;\n"
            f"xor.b32 %w33, %tid, 1;\nmad.lo.u32 %w33, %w33, {size}, %w31;\n"
            f"ld.shared::cta.{kind} {registers}, [%w33];\n"
            f"{at(1, size)}st.global.{kind} [%at], {registers};"
        )
        turned = data.reshape(LANES, count)[TID ^ 1].reshape(-1).copy()
        yield Case(
            f"shared {kind}, {name}", body, (data, np.zeros_like(data)), (data, turned),
            declarations=declarations, outside=outside, smem_bytes=dynamic,
        )  # fmt: skip
    data = noise("u4")
    body = (
        f"mov.u64 %x9, box;\nmul.wide.u32 %x1, %tid, 4;\nadd.s64 %x1, %x1, %x9;\n{at(0, 4)}ld.b32 %w1, [%at];\n"
        f"setp.lt.u32 %q1, %tid, 32;\n@!%q1 bra WAIT;\nst.b32 [%x1], %w1;\nWAIT:\nbarrier.sync.aligned 0;\n"
        "mov.b32 %w2, 1;\n"
        f"@%q1 ld.b32 %w2, [%x1];\n{at(1, 4)}st.b32 [%at], %w2;"
    )
    yield Case(
        "generic addresses of shared and global memory, some lanes only", body,
        (data, zeros("u4")), (data, np.where(TID < 32, data, 1).astype("u4")),
        declarations=".shared .align 4 .b8 box[256];",
    )  # fmt: skip
    yield Case(
        "fences and hints change nothing",
        "fence.acq_rel.gpu;\nmembar.gl;\nnanosleep.u32 20;\nprefetch.global.L2 [%p0];\nbar.warp.sync -1;\n"
        f"barrier.cta.sync 0;\nmov.b32 %w1, 2;\n{at(0, 4)}st.global.b32 [%at], %w1;",
        (zeros("u4"),), (np.full(LANES, 2, "u4"),),
    )  # fmt: skip
    yield Case(
        "a trap that nobody reaches",
        f"setp.gt.u32 %q1, %tid, 99;\n@%q1 trap;\nmov.b32 %w1, 2;\n{at(0, 4)}st.global.b32 [%at], %w1;",
        (zeros("u4"),), (np.full(LANES, 2, "u4"),),
    )  # fmt: skip


def geometry() -> Iterator[Case]:
    """Where a thread is, in three dimensions."""
    names = [f"%{name}.{axis}" for name in ("ntid", "ctaid", "nctaid") for axis in "xyz"] + ["%laneid", "%warpid"]
    grid = (2, 3, 2)
    for number, name in enumerate(names):
        body = (
            "mov.u32 %w1, %ctaid.z;\nmad.lo.u32 %w1, %w1, 3, 0;\nmov.u32 %w2, %ctaid.y;\nadd.u32 %w1, %w1, %w2;\n"
            "mad.lo.u32 %w1, %w1, 2, 0;\nmov.u32 %w2, %ctaid.x;\nadd.u32 %w1, %w1, %w2;\n"
            f"mad.lo.u32 %w1, %w1, {LANES}, %tid;\nmul.wide.u32 %at, %w1, 4;\nadd.s64 %at, %at, %p0;\n"
            f"mov.u32 %w3, {name};\nst.global.b32 [%at], %w3;"
        )
        block = np.arange(12)
        values = [LANES, 1, 1, block % 2, block // 2 % 3, block // 6, 2, 3, 2][number] if number < 9 else None
        lane = TID % 32 if name == "%laneid" else TID // 32
        found = np.broadcast_to(lane if values is None else np.reshape(values, (-1, 1)), (12, LANES))
        yield Case(name, body, (zeros("u4", 12 * LANES),), (found.astype("u4").reshape(-1),), grid=grid)


MEMORY_CASES: tuple[Case, ...] = (*copies(), *extensions(), *local(), *shared(), *geometry())
