"""A backend without a compiler: float32 products in numpy, with bugs to switch on, to test the checker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ladder.backends.base import Outcome
from ladder.errors import BackendError, KernelFaultError, ShapeError
from ladder.model import Device, Quantity, Resources, Rung, Shape, Timing, Traffic
from ladder.nvrtc import Compiled
from ladder.oracle import poison

F32 = NDArray[np.float32]

TILE = 16
RESOURCES = Resources(registers=32, smem_bytes=0, spill_bytes=0)


def fake_kernel(**changes: object) -> Compiled:
    """A kernel of a rung with a 16 x 16 tile and BK = 8, with ``changes`` to the rung's fields."""
    fields: dict[str, object] = {
        "name": "fake",
        "number": 0,
        "kind": "rung",
        "title": "Fake",
        "kernel": "fake",
        "params": {"BM": TILE, "BN": TILE, "BK": 8},
        "tile": (TILE, TILE),
        "block": (TILE, TILE, 1),
        "path": Path("fake.cu"),
        "source": "",
    }
    return Compiled(
        rung=Rung(**(fields | changes)),
        arch="sm_90",
        ptx="",
        cubin=b"",
        lowered_name="fake",
        log="",
        nvrtc_version="13.0",
        resources=RESOURCES,
        cached=False,
    )


def chain(a: F32, b: F32) -> F32:
    """C as a kernel computes it: one chain of multiply-adds in k order, each rounded to float32."""
    c = np.zeros((a.shape[0], b.shape[1]), dtype=np.float32)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        for k in range(a.shape[1]):
            wide = a[:, k : k + 1].astype(np.float64) * b[k : k + 1].astype(np.float64)
            c = (wide + c).astype(np.float32)
    return c


class FakeBackend:
    """Runs :func:`chain`, then spoils the result as ``bug`` says."""

    name: Literal["cuda", "emulated"] = "emulated"

    def __init__(self, bug: Callable[[FakeBackend, F32, F32, tuple[int, int, int]], Outcome] | None = None) -> None:
        self.bug = bug
        self.runs: list[tuple[Shape, tuple[int, int, int]]] = []
        self.ran: list[Rung] = []
        self.last: F32 | None = None

    @property
    def device(self) -> Device:
        return Device(backend="emulated", name="Fake", compute_capability=(9, 0), sm_count=132, l2_bytes=60 * 2**20)

    def run(
        self, kernel: Compiled, a: F32, b: F32, *, count: bool = False, offsets: tuple[int, int, int] = (0, 0, 0)
    ) -> Outcome:
        shape = Shape(m=a.shape[0], n=b.shape[1], k=a.shape[1])
        reason = kernel.rung.supports(shape)
        if reason is not None:
            raise ShapeError(reason)
        self.runs.append((shape, offsets))
        self.ran.append(kernel.rung)
        if self.bug is None:
            return Outcome(c=chain(a, b))
        return self.bug(self, a, b, offsets)

    @property
    def executes_flop(self) -> float:
        return 2 * 1024**3

    def replay(self, kernel: Compiled, shape: Shape) -> Traffic:
        if shape.m % 2:
            raise BackendError(f"{shape} is not replayed")
        return Traffic(levels={"sm": Quantity(bytes=shape.flop, origin="emulated")})

    def resources(self, kernel: Compiled) -> Resources:
        return RESOURCES

    def time(self, kernel: Compiled, a: F32, b: F32, *, cold: bool = False) -> Timing | None:
        return None

    def close(self) -> None:
        return None


Offsets = tuple[int, int, int]


def nan_in_last_element(backend: FakeBackend, a: F32, b: F32, offsets: Offsets) -> Outcome:
    c = chain(a, b)
    if c.size and a.shape[1] > 7:
        c[-1, -1] = np.nan
    return Outcome(c=c)


def m_and_n_swapped(backend: FakeBackend, a: F32, b: F32, offsets: Offsets) -> Outcome:
    (m, k), n = a.shape, b.shape[1]
    if 0 in (m, n, k):
        return Outcome(c=chain(a, b))
    c = chain(np.resize(a, (n, k)), np.resize(b, (k, m)))
    return Outcome(c=c.reshape(m, n))


def last_row_unwritten(backend: FakeBackend, a: F32, b: F32, offsets: Offsets) -> Outcome:
    c = chain(a, b)
    if c.shape[0] > 1:
        c[-1] = poison(c[-1].shape)
    return Outcome(c=c)


def last_k_missing(backend: FakeBackend, a: F32, b: F32, offsets: Offsets) -> Outcome:
    return Outcome(c=chain(a[:, :-1], b[:-1]))


def b_transposed(backend: FakeBackend, a: F32, b: F32, offsets: Offsets) -> Outcome:
    return Outcome(c=chain(a, b.reshape(b.shape[::-1]).T))


def writes_outside_c(backend: FakeBackend, a: F32, b: F32, offsets: Offsets) -> Outcome:
    damage = "wrote 3 elements past the end of C" if a.shape[0] % TILE else None
    return Outcome(c=chain(a, b), damage=damage)


def stale(backend: FakeBackend, a: F32, b: F32, offsets: Offsets) -> Outcome:
    """Returns the C of the run before when its shape fits."""
    c = chain(a, b)
    last, backend.last = backend.last, c
    return Outcome(c=last if last is not None and last.shape == c.shape else c)


def faults(backend: FakeBackend, a: F32, b: F32, offsets: Offsets) -> Outcome:
    if a.shape[1] > 8:
        raise KernelFaultError("race", "fake.cu:12", "thread 3 reads what thread 5\nwrites")
    return Outcome(c=chain(a, b))


def context_dies(backend: FakeBackend, a: F32, b: F32, offsets: Offsets) -> Outcome:
    """As CUDA does: after one illegal address every later call fails."""
    if a.shape[0] > TILE or backend.last is not None:
        backend.last = a
        raise BackendError("CUDA_ERROR_ILLEGAL_ADDRESS")
    return Outcome(c=chain(a, b))


def launch_refused(backend: FakeBackend, a: F32, b: F32, offsets: Offsets) -> Outcome:
    """A launch error that leaves the device usable."""
    if b.shape[1] > 2:
        raise BackendError("too many blocks")
    return Outcome(c=chain(a, b))


def misaligned(backend: FakeBackend, a: F32, b: F32, offsets: Offsets) -> Outcome:
    if offsets[1] % 4 and b.size:
        raise KernelFaultError("misaligned", "fake.cu:9", "16-byte load")
    return Outcome(c=chain(a, b))


def no_fixed_order(backend: FakeBackend, a: F32, b: F32, offsets: Offsets) -> Outcome:
    c = chain(a, b)
    return Outcome(c=np.nextafter(c, np.float32(np.inf)) if len(backend.runs) % 2 else c)


def low_precision(backend: FakeBackend, a: F32, b: F32, offsets: Offsets) -> Outcome:
    """Operands cut to 11 significant bits, as TF32: integers stay exact."""
    return Outcome(c=chain(_cut(a), _cut(b)))


def neighbours_leak(backend: FakeBackend, a: F32, b: F32, offsets: Offsets) -> Outcome:
    """Adds 0 times the next row of A: right for finite data."""
    c = chain(a, b)
    with np.errstate(invalid="ignore"):
        c[:-1] += a[1:].sum(axis=1, keepdims=True) * np.float32(0)
    return Outcome(c=c)


def beyond_one_tile(backend: FakeBackend, a: F32, b: F32, offsets: Offsets) -> Outcome:
    c = chain(a, b)
    c[TILE:, TILE:] += 1
    return Outcome(c=c)


def only_long_k(backend: FakeBackend, a: F32, b: F32, offsets: Offsets) -> Outcome:
    c = chain(a, b)
    if a.shape[1] >= 400 and len(a) > 3:
        c += 1
    return Outcome(c=c)


def square_only_wrong(backend: FakeBackend, a: F32, b: F32, offsets: Offsets) -> Outcome:
    c = chain(a, b)
    if c.shape[0] == c.shape[1]:
        c += 1
    return Outcome(c=c)


def _cut(values: F32) -> F32:
    return (values.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
