"""Closed forms for the intensity of blocked matrix products, each with its derivation. Pure arithmetic.

All matrices are float32, 4 bytes an element, and the work is 2 M N K FLOP: a multiply and an add for each element of
the M x N x K cube. A law counts the elements that a level moves for that cube and divides.

The closed forms hold exactly where the tile divides the shape. :func:`predict` uses the ceilings of the real launch
grid, so it stays exact for a ragged shape in *elements*; the L1 level moves whole 32-byte sectors, and a row segment
that does not begin and end on a sector boundary moves up to 28 bytes more at each end.
"""

from __future__ import annotations

from ladder.model import Law, Rung, Shape

__all__ = [
    "block_tile",
    "c_stationary",
    "compulsory",
    "copy",
    "dot",
    "predict",
    "register_tile",
    "saxpy",
    "sector_share",
    "strided",
    "tile_product",
    "useful",
    "vector_add",
    "warp_request",
    "warp_wavefronts",
]

_F32_BYTES = 4
_SECTOR_BYTES = 32
_WAVEFRONT_BYTES = 128
_WARP_FMA_FLOP = 64


def tile_product(t: float) -> float:
    """T / 6 FLOP/byte: a T x T x T tile product that touches three tiles in memory.

    Cut the N^3 cube into (N/T)^3 tile products. Each does 2 T^3 FLOP, reads a T x T tile of A and one of B and updates
    one of C: 3 T^2 elements, 12 T^2 bytes. The ratio is 2 T^3 / (12 T^2) = T/6, and N has dropped out.
    """
    _positive(t=t)
    return t / 6


def c_stationary(t: float, k: float | None = None) -> float:
    """(T/4) / (1 + T/(2K)) FLOP/byte: the C tile stays in registers while the tiles of A and B stream past.

    A block owns a T x T tile of C. For each of its K/T steps it reads T^2 elements of A and T^2 of B and does 2 T^3
    FLOP: T/4 without C. At the end it writes T^2 elements once, so its bytes are 4 (2 T K + T^2), its work 2 T^2 K, and
    the ratio T K / (2 (2K + T)), which is (T/4) / (1 + T/(2K)).

    Args:
        t: tile edge.
        k: length of the sum; None is the limit of a long one, T/4.
    """
    _positive(t=t)
    if k is None:
        return t / 4
    _positive(k=k)
    return (t / 4) / (1 + t / (2 * k))


def block_tile(bm: float, bn: float, k: float | None = None) -> float:
    """BM BN / (2 (BM + BN)) FLOP/byte before the C store: :func:`c_stationary` for a BM x BN tile of C.

    One step of k reads BM elements of A and BN of B, 4 (BM + BN) bytes, for 2 BM BN FLOP. The C store adds 4 BM BN
    bytes to the K steps: 2 BM BN K / (4 (BM + BN) K + 4 BM BN). The square tile is the best for its area: the ratio is
    a quarter of the harmonic mean of BM and BN, the *effective tile edge*.
    """
    _positive(bm=bm, bn=bn)
    per_k = 2 * (bm + bn) / (bm * bn)
    if k is None:
        return 1 / per_k
    _positive(k=k)
    return 1 / (per_k + 2 / k)


def register_tile(tm: float, tn: float) -> float:
    """TM TN / (2 (TM + TN)) FLOP/byte at the shared level: the block's law, one level further in.

    For each k a thread loads TM values of A and TN of B from shared memory, 4 (TM + TN) bytes, and does TM TN FMAs. One
    value a thread of each gives 1/4, whatever the block tile.

    This counts the bytes that lanes ask for. Wavefronts may be fewer (a 16-byte load whose neighbours share an address
    is served in half the passes) or more (an n-way bank conflict takes n), so measured over predicted is at once the
    gain from broadcasts and the loss from conflicts.
    """
    return block_tile(tm, tn)


def compulsory(shape: Shape, *, c_moves: bool = True) -> float:
    """2 M N K / (4 (M K + K N + M N)) FLOP/byte: every matrix crosses the interface once. N/6 for a square.

    The limit of any blocking, and of :func:`tile_product` at T = N. A cache that holds all three matrices reaches it.
    When C is written but still in L2 as the kernel ends, only A and B have crossed to DRAM: ``c_moves=False``, N/4.

    Raises:
        ValueError: the shape does no work.
    """
    if shape.flop == 0:
        raise ValueError(f"shape {shape} does no work, so it has no intensity")
    elements = shape.m * shape.k + shape.k * shape.n + (shape.m * shape.n if c_moves else 0)
    return shape.flop / (_F32_BYTES * elements)


def warp_request(sectors: float) -> float:
    """64 FLOP over ``sectors`` 32-byte sectors: a warp that loads its operands afresh for every FMA.

    A warp's FMA is 64 FLOP. With neighbouring lanes on neighbouring columns, A is one address for all lanes (1 sector)
    and B is 128 contiguous bytes (4 sectors): 64 / 160 = 0.4 FLOP/byte at L1, for every M, N and K. With neighbouring
    lanes on neighbouring *rows*, A falls into 32 sectors and B into 1: 64 / 1056 = 0.061.
    """
    _positive(sectors=sectors)
    return _WARP_FMA_FLOP / (sectors * _SECTOR_BYTES)


def warp_wavefronts(wavefronts: float) -> float:
    """64 FLOP over ``wavefronts`` 128-byte passes through the SM's data pipe, for every FMA of a warp.

    Two conflict-free operands are two wavefronts: 0.25 FLOP/byte, from global or from shared memory alike.
    """
    _positive(wavefronts=wavefronts)
    return _WARP_FMA_FLOP / (wavefronts * _WAVEFRONT_BYTES)


def sector_share(t: int) -> float:
    """Bytes of a row of ``t`` floats over those of its sectors, 0..1: what L1 leaves of a law below T = 8.

    Memory moves 32-byte sectors, eight floats each. A tile's row that begins on a multiple of its own length takes
    ceil(T / 8) of them: whole ones where T is a multiple of 8, and half of one at T = 4.
    """
    _positive(t=t)
    return _F32_BYTES * t / (_SECTOR_BYTES * -(-_F32_BYTES * t // _SECTOR_BYTES))


def copy() -> float:
    """0 FLOP/byte: a copy or a transpose moves 8 bytes an element and computes nothing."""
    return 0.0


def vector_add() -> float:
    """1/12 FLOP/byte: z = x + y reads two words, writes one, and adds once an element."""
    return 1 / (3 * _F32_BYTES)


def strided(intensity: float) -> float:
    """What is left of ``intensity`` where each lane stands in a sector of its own: an eighth.

    4 bytes of 32 are used. That is so at L1 for every access, and at DRAM once the sweep over all sectors, which comes
    before the next word of the same sector, no longer fits L2.
    """
    return intensity * _F32_BYTES / _SECTOR_BYTES


def saxpy() -> float:
    """2/12 FLOP/byte: y = a x + y reads x and y, writes y, and does one multiply and one add an element."""
    return 2 / (3 * _F32_BYTES)


def dot() -> float:
    """2/8 FLOP/byte: a dot product reads two vectors; its single result is nothing beside them."""
    return 2 / (2 * _F32_BYTES)


def predict(rung: Rung, shape: Shape) -> Law | None:
    """The intensities that the rung's declared law gives at ``shape``; None without a law or without work.

    At L1, with the launch grid's own ceilings: A is read once by every column of blocks, B once by every row of blocks,
    and C is stored once (``c_stationary``) or updated by every k-tile (``tile_product``):

        bytes = 4 (M K ceil(N/BN) + K N ceil(M/BM) + M N c),   c = 1 or ceil(K/BK)

    which is the closed form when the tile divides the shape. At the shared level :func:`register_tile`, with TM and TN
    from the parameters, or 1 x 1 when there is a thread for each element of the tile, times the part of the FMAs that
    is :func:`useful`.

    What the copy engine brings (``tma``, and packed operands) passes L1 by, and its bytes there obey no law.
    """
    if rung.law is None or shape.flop == 0:
        return None
    bm, bn = rung.tile
    bk = _k_tile(rung)
    if rung.law == "tile_product" and bk is None:
        return None
    c_updates = _tiles(shape.k, bk) if rung.law == "tile_product" and bk is not None else 1
    a_reads, b_reads = _tiles(shape.n, bn), _tiles(shape.m, bm)
    elements = shape.m * shape.k * a_reads + shape.k * shape.n * b_reads + shape.m * shape.n * c_updates
    copied = bool(rung.tma) or rung.pack is not None
    predicted = {} if copied else {"l1": shape.flop / (_F32_BYTES * elements)}
    thread_tile = _thread_tile(rung)
    if thread_tile is not None:
        predicted["shared"] = register_tile(*thread_tile) * useful(rung, shape)
    return Law(name=rung.law, predicted=predicted)


def useful(rung: Rung, shape: Shape) -> float:
    """M N K over the volume of the whole tiles that cover it, 0..1.

    A tile that sticks out of the shape is filled with zeros, and read and multiplied all the same. A k-tile that is not
    declared counts as exact.

    Raises:
        ValueError: the shape does no work.
    """
    if shape.flop == 0:
        raise ValueError(f"shape {shape} does no work, so no part of it is useful")
    bm, bn = rung.tile
    bk = _k_tile(rung) or 1
    padded = bm * _tiles(shape.m, bm) * bn * _tiles(shape.n, bn) * bk * _tiles(shape.k, bk)
    return shape.m * shape.n * shape.k / padded


def _tiles(length: int, tile: int) -> int:
    return -(-length // tile)


def _k_tile(rung: Rung) -> int | None:
    """BK of one step of the mainloop; None when the declaration does not say."""
    return rung.grid_z_tile or rung.params.get("BK") or rung.params.get("T")


def _thread_tile(rung: Rung) -> tuple[int, int] | None:
    """(TM, TN) of one thread; None when the declaration does not say."""
    if "TM" in rung.params or "TN" in rung.params:
        return rung.params.get("TM", 1), rung.params.get("TN", 1)
    bm, bn = rung.tile
    return (1, 1) if bm * bn == rung.threads else None


def _positive(**values: float) -> None:
    bad = {name: value for name, value in values.items() if not value > 0}
    if bad:
        raise ValueError(f"must be positive: {', '.join(f'{name}={value}' for name, value in bad.items())}")
