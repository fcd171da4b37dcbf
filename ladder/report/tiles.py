"""The tiles that a rung's parameters name: what a block, a warp and a thread hold. Pure arithmetic.

Everything is read off the names of the field (BM, BN, BK, T, WM, WN, TM, TN, STAGES, MMA_M, MMA_N, MMA_K); what they do
not tell is left out. Which elements of the block tile a thread holds they never tell.
"""

from __future__ import annotations

from dataclasses import dataclass

from ladder.model import Rung
from ladder.report.text import listing, plural

__all__ = ["WARP", "Tiles", "alt", "by", "given", "tiles"]

WARP = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiles:
    """The tiles that a rung's parameters name, in elements; None where they say nothing.

    Attributes:
        block: (BM, BN) of the threadblock's tile of C.
        depth: BK, or the edge T of square tiles: elements of K in one k tile.
        stages: k tiles in shared memory at once.
        warp: (WM, WN).
        thread: (TM, TN); an edge that is not given is 1.
        mma: (MMA_M, MMA_N) of one matrix instruction, with MMA_K where it is given.
        threads: threads of the block.
    """

    block: tuple[int, int]
    depth: int | None
    stages: int | None
    warp: tuple[int, int] | None
    thread: tuple[int, int] | None
    mma: tuple[int, ...] | None
    threads: int

    @property
    def crew(self) -> str:
        """``"256 threads, 8 warps"``."""
        warps = f", {plural(self.threads // WARP, 'warp')}" if self.threads % WARP == 0 else ""
        return plural(self.threads, "thread") + warps

    @property
    def sums(self) -> int | None:
        """Elements of C a thread, where no tile says and they divide evenly."""
        count, left = divmod(self.block[0] * self.block[1], self.threads)
        return count if self.thread is None and self.mma is None and left == 0 else None

    @property
    def parts(self) -> tuple[str, ...]:
        """What the block tile is cut into, as short phrases."""
        out = []
        if self.warp is not None:
            out.append(self._pieces("warp tile", self.warp))
        if self.mma is not None:
            out.append(f"matrix instructions of {by(self.mma)}")
        if self.thread is not None:
            out.append(self._pieces("thread tile", self.thread))
        if self.sums is not None:
            out.append(f"{plural(self.sums, 'sum')} a thread")
        return tuple(out)

    def _pieces(self, what: str, edges: tuple[int, int]) -> str:
        (down, low), (along, left) = (divmod(whole, edge) for whole, edge in zip(self.block, edges, strict=True))
        return f"{what}s of {by(edges)}" if low or left else f"{plural(down * along, what)} of {by(edges)}"


def tiles(rung: Rung) -> Tiles:
    """Read the tiles off ``rung``'s tile, block and parameters."""
    params = rung.params
    rows, columns = params.get("TM"), params.get("TN")
    mma = [params[name] for name in ("MMA_M", "MMA_N", "MMA_K") if name in params]
    return Tiles(
        block=rung.tile,
        depth=params.get("BK", params.get("T")),
        stages=params.get("STAGES"),
        warp=(params["WM"], params["WN"]) if "WM" in params and "WN" in params else None,
        thread=(rows or 1, columns or 1) if rows or columns else None,
        mma=tuple(mma) if "MMA_M" in params and "MMA_N" in params else None,
        threads=rung.threads,
    )


def by(edges: tuple[int, ...]) -> str:
    """``"64 x 32"``."""
    return " x ".join(str(edge) for edge in edges)


def given(rung: Rung) -> str:
    """``"BM = 64, BN = 64"``: every parameter."""
    return ", ".join(f"{name} = {value}" for name, value in rung.params.items())


def alt(rung: Rung) -> str:
    """The figure in words."""
    found = tiles(rung)
    words = [f"A block of {found.crew} computes a tile of C of {by(found.block)}"]
    words[0] += f": {listing(list(found.parts), 9)}." if found.parts else "."
    if found.depth is not None:
        at_once = f", {found.stages} of them in shared memory at once" if found.stages else ""
        words.append(f"It walks K in k tiles of {found.depth}{at_once}.")
    if rung.persistent:
        words.append("The grid has as many blocks as run at once, and they share out the tiles of C.")
    if rung.grid_z_tile is not None:
        words.append("The grid's z shares out the k tiles.")
    if rung.params:
        words.append(f"Parameters: {given(rung)}.")
    return " ".join(words)
