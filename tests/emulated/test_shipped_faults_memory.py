"""Faults of memory and of synchronisation: barriers, alignment, 32-bit indices, the limits of shared memory."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from helpers import fake_backend as fake
from helpers.fake_backend import FakeBackend, fake_kernel
from helpers.fake_cuda import installed
from helpers.shipped_faults import NUMPY, broken, of_file, sound, tried
from numpy.typing import NDArray

from ladder.backends.cuda import CudaBackend
from ladder.check import inputs, prove
from ladder.errors import BackendError, KernelFaultError
from ladder.model import Rung, Shape
from ladder.nvrtc import Compiled
from ladder.oracle import POISON_BITS
from ladder.ptx import Buffer, GlobalMemory, Machine, build, parse

F32 = NDArray[np.float32]

WRITTEN = "__syncthreads();  // every thread reads words that other threads have just written"
READ = "__syncthreads();  // the next tiles overwrite what slower threads may still be reading"


@pytest.mark.parametrize("barrier", [WRITTEN, READ], ids=["before the reads", "after the reads"])
@pytest.mark.parametrize("name", ["tiled_16", "padded", "register_tile", "vectorized"])
def test_a_missing_barrier(name: str, barrier: str) -> None:
    """Lanes in lockstep give the right C without it, and so does a GPU on most days."""
    assert re.search(r"\.cu:\d+: race: [AB]s", str(tried(broken(name, (barrier, "")), "33x35x37").failure))
    assert tried(sound(name), "33x35x37").failure is None


def test_a_race_that_shows_only_as_other_bits() -> None:
    """What no watch sees, the second run on the same data does."""
    shape = Shape.parse("35x79x19")
    failure = str(prove(FakeBackend(fake.no_fixed_order), fake_kernel(), shape).failure)
    assert "elements differ): the sum has no fixed order, or threads race" in failure or "integers must" in failure
    assert prove(FakeBackend(), fake_kernel(), shape).passed


@pytest.mark.parametrize(
    ("change", "shape", "offsets"),
    [
        (("row_length % 4 == 0 && ", ""), "35x79x19", (0, 0, 0)),
        ((" && reinterpret_cast<size_t>(matrix) % sizeof(float4) == 0", ""), "32x64x16", (0, 1, 0)),
    ],
    ids=["N % 4", "pointer + 4"],
)
def test_misaligned_vector_loads(change: tuple[str, str], shape: str, offsets: tuple[int, int, int]) -> None:
    kernel = broken("vectorized", change)
    assert tried(kernel, "32x64x16").failure is None
    found = str(tried(kernel, shape, offsets=offsets).failure)
    assert re.search(r"08_vectorized\.cu:\d+: misaligned: 16-byte access", found)
    assert tried(sound("vectorized"), shape, offsets=offsets).failure is None


class Corner:
    """The last tile of a product with more than 2^31 elements in one matrix, which is there from that tile on.

    What lies before the tile is no memory: an index that is cut to 32 bits, in whatever way, points outside.
    """

    def __init__(self, rung: Rung, shape: Shape) -> None:
        rows, cols = rung.tile
        self.shape = shape
        row0, col0 = (shape.m - 1) // rows * rows, (shape.n - 1) // cols * cols
        self.grid = (col0 // cols + 1, row0 // rows + 1, 1)
        self.tall, self.wide = shape.m - row0, shape.n - col0
        rng = np.random.default_rng(7)
        self.a = rng.integers(-8, 8, (self.tall, shape.k), endpoint=True).astype(np.float32)
        self.b = rng.integers(-8, 8, (shape.k, self.wide), endpoint=True).astype(np.float32)
        self.memory = GlobalMemory()
        self.bases = (1 << 40, 2 << 40, 3 << 40)
        self._place("A", 0, row0 * shape.k, shape.m * shape.k)[: self.a.size] = self.a.reshape(-1)
        words = self._place("B", 1, col0, shape.k * shape.n)
        for k in range(shape.k):
            words[k * shape.n : k * shape.n + self.wide] = self.b[k]
        self.c = self._place("C", 2, row0 * shape.n + col0, shape.m * shape.n)
        self.c.view(np.uint32)[...] = POISON_BITS

    def _place(self, name: str, which: int, first: int, end: int) -> F32:
        """A buffer with the elements ``first .. end`` of a matrix; untouched pages of it take no memory."""
        buffer = Buffer(name, self.bases[which] + 4 * first, (1, end - first), first_sector=self.memory.sectors)
        self.memory.buffers.append(buffer)
        return buffer.matrix.reshape(-1)

    def run(self, kernel: Compiled) -> F32:
        """C's last tile, from the one block that computes it."""
        program = build(parse(kernel.ptx)[kernel.lowered_name])
        values = (*self.bases, self.shape.m, self.shape.n, self.shape.k)
        arguments = {p.offset: value for p, value in zip(program.function.params, values, strict=True)}
        last = self.grid[0] * self.grid[1] - 1
        Machine(program, self.memory, arguments).launch(
            grid=self.grid, block=kernel.rung.block, smem_bytes=kernel.rung.smem_bytes, blocks=[last]
        )
        return np.stack([self.c[row * self.shape.n :][: self.wide] for row in range(self.tall)])


HUGE = {
    "A": (Shape(m=32 * 65535, n=5, k=1040), "A[size_t(row) * K + k]", "A[int(row) * K + k]"),
    "B": (Shape(m=1, n=2**30 + 8, k=2), "B[size_t(k) * N + col]", "B[int(unsigned(k) * unsigned(N) + col)]"),
    "C": (Shape(m=2**20 + 3, n=2056, k=2), "C[size_t(row) * N + col]", "C[int(row * N + col)]"),
}


@pytest.mark.parametrize("matrix", HUGE)
@pytest.mark.parametrize("name", ["coalesced", "tiled_32", "register_tile", "vectorized"])
def test_an_int32_index_past_two_to_the_31(matrix: str, name: str) -> None:
    shape, wide, narrow = HUGE[matrix]
    assert max(shape.m * shape.k, shape.k * shape.n, shape.m * shape.n) > 2**31
    kernel = sound(name)
    corner = Corner(kernel.rung, shape)
    np.testing.assert_array_equal(corner.run(kernel), corner.a @ corner.b)
    if name == "coalesced":
        with pytest.raises(KernelFaultError, match="out of bounds"):
            corner.run(broken(name, (wide, narrow)))


@pytest.mark.parametrize("kib", [None, 49, 227, 228])
def test_more_than_48_kib_of_shared_memory(kib: int | None) -> None:
    """49152 dynamic bytes need no opt-in, unless there is a static byte as well."""
    kernel = of_file("one_byte_over")
    assert kernel.resources.smem_bytes > kernel.rung.smem_bytes == 48 * 1024
    if kib is not None:
        extra = kib * 1024 - kernel.rung.smem_bytes
        kernel = replace(
            kernel,
            rung=replace(kernel.rung, smem_bytes=kib * 1024),
            resources=replace(kernel.resources, smem_bytes=kernel.resources.smem_bytes + extra),
        )
    a, b = inputs(Shape.parse("9x10x5"), kind="integers")
    with installed() as world:
        if kib is not None and kib >= 227:  # with the static byte, more than a block can have
            for backend in (CudaBackend(), NUMPY):
                with pytest.raises(BackendError, match="shared memory"):
                    backend.run(kernel, a, b)
            return
        CudaBackend().run(kernel, a, b)
        assert world.opted_in == [kernel.rung.smem_bytes]
    np.testing.assert_array_equal(NUMPY.run(kernel, a, b).c, a @ b)
