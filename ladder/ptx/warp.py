"""Warp collectives: shuffles, votes, matches, reductions, and who must be there for them.

A collective names its lanes in a member mask. Every named lane that has not exited must execute it together with the
others (PTX ISA, ``shfl.sync``, ``vote.sync`` ...): the emulator brings lanes together where control flow lets it, and
faults where it does not. Flags of lanes travel as one uint32 a warp: (W, B) arrays, W warps in each of B threadblocks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ladder.errors import KernelFaultError

__all__ = ["UNREADABLE", "Warps", "ballot"]

WARP = 32
FULL = 0xFFFFFFFF

UNREADABLE = np.uint32(0xFFFFFFFF)
"""What a shuffle reads from a lane that is not there, or not in its member mask. The ISA leaves it undefined, and
idioms such as a tree over half a warp do it in lanes whose result nobody reads: so it is a NaN and no fault."""

Array = NDArray[Any]
Bool = NDArray[np.bool_]
Ballot = NDArray[np.uint32]
Groups = dict[int, Bool | None]


def rows(values: Array, threads: int) -> Array:
    """(T, C) -> (W, 32, C), the last warp filled up with zeros; C is left as it is."""
    whole = np.broadcast_to(values, (threads, values.shape[1]))
    missing = -threads % WARP
    if missing:
        whole = np.concatenate([whole, np.zeros((missing, whole.shape[1]), whole.dtype)])
    return whole.reshape(-1, WARP, whole.shape[1])


def ballot(flags: Bool, threads: int) -> Ballot:
    """(T, C) flags -> (W, C) words, bit i for lane i."""
    packed = np.packbits(rows(flags, threads), axis=1, bitorder="little")
    words: Ballot = np.ascontiguousarray(np.moveaxis(packed, 1, 2)).view("<u4")[..., 0]
    return words.astype(np.uint32, copy=False)


class Warps:
    """The collectives of a batch of threadblocks.

    ``thread`` and ``block`` name a lane and a column for messages; lanes that wait for a basic block of ``gone`` have
    as good as exited. ``waiting`` holds the groups of lanes that wait elsewhere: the machine sets it, so that lanes
    which have exited can be told from lanes which took another way.
    """

    def __init__(
        self,
        threads: int,
        blocks: int,
        *,
        thread: Callable[[int], str],
        block: Callable[[int], str],
        gone: Collection[int],
    ) -> None:
        self.threads, self.blocks = threads, blocks
        self.waiting: tuple[Groups, ...] = ()
        self._gone = gone
        self._thread, self._block = thread, block
        self._lane = (np.arange(threads, dtype=np.int32) % WARP)[:, None]
        self._first = (np.arange(threads) // WARP * WARP)[:, None]

    # Who is there -----------------------------------------------------------------------------------------------

    def alive(self, running: Bool | None) -> Bool:
        """Lanes that have not exited: those of the basic block in hand (``None`` for all) and those that wait."""
        shape = (self.threads, self.blocks)
        if running is None:
            return np.ones(shape, np.bool_)
        lanes = np.broadcast_to(running, shape)
        for groups in self.waiting:
            for index, mask in groups.items():
                if index not in self._gone:
                    lanes = lanes | (True if mask is None else mask)
        return lanes

    def meet(self, where: str, op: str, members: Ballot, mask: Bool | None, running: Bool | None) -> None:
        """Check that the lanes which every active lane names have come together.

        Args:
            where: the source line, for messages.
            op: the instruction, for messages.
            members: member masks, broadcastable to (T, B).
            mask: the lanes that execute it; None for all.
            running: the lanes of the basic block, which ``mask`` may be a part of by its guard.

        Raises:
            KernelFaultError: ``divergent warp collective``.
        """
        constant = members.shape == (1, 1)
        if mask is None and constant and int(members[0, 0]) == FULL:
            return
        active = self._active(mask, members)
        outside = active & (((members >> self._lane.astype(np.uint32)) & 1) == 0)
        self._refuse(where, op, members, outside, "is not in its own mask {}")
        here = ballot(active, self.threads)
        if constant:
            named = np.where(here != 0, members[0, 0], np.uint32(0))
        else:
            masks = rows(np.where(active, members, np.uint32(0)), self.threads)
            named = np.bitwise_or.reduce(masks, axis=1)
            if (active & (members != self.spread(named))).any():
                self._refuse_unequal(where, op, members, active)
        absent = named & ~here
        if absent.any():
            missing = self._bits(absent) & self.alive(running) & ~active
            self._refuse(where, op, self.spread(named), missing, "is named in the mask {} but is not there")

    def _refuse_unequal(self, where: str, op: str, members: Ballot, active: Bool) -> None:
        """Lanes may form several groups in one warp; within a group all masks must be equal."""
        masks = rows(np.where(active, members, np.uint32(0)), self.threads)
        for lane in range(WARP):
            own = masks[:, lane : lane + 1]
            named = ((own >> np.arange(WARP, dtype=np.uint32)[None, :, None]) & 1) == 1
            differs = (named & (masks != own) & (masks != 0)).reshape(-1, masks.shape[2])[: self.threads]
            self._refuse(where, op, members, differs, "brings another mask, {}, than a lane that names it")

    def _refuse(self, where: str, op: str, members: Ballot, bad: Bool, what: str) -> None:
        if not bad.any():
            return
        column, thread = (int(i[0]) for i in np.nonzero(bad.T))
        mask = int(np.broadcast_to(members, (self.threads, self.blocks))[thread, column])
        self.refuse(where, op, thread, column, what.format(f"{mask:#010x}"))

    def refuse(self, where: str, op: str, thread: int, column: int, what: str) -> NoReturn:
        """The fault of one lane."""
        raise KernelFaultError(
            "divergent warp collective",
            where,
            f"`{op}`: lane {thread % WARP} of warp {thread // WARP}, thread {self._thread(thread)} of block "
            f"{self._block(column)}, {what}. All lanes that it names must execute it together.",
        )

    def whole(self, where: str, op: str, mask: Bool | None) -> Bool | None:
        """The (W, B) warps that execute an instruction which takes all 32 lanes; None for all of them.

        Raises:
            KernelFaultError: a warp is there in part.
        """
        if mask is None and self.threads % WARP == 0:
            return None
        here = ballot(self._active(mask), self.threads)
        broken = (here != 0) & (here != FULL)
        if broken.any():
            column, warp = (int(i[0]) for i in np.nonzero(broken.T))
            lane = next(i for i in range(WARP) if not int(here[warp, column]) >> i & 1)
            thread = warp * WARP + lane
            what = "is not there" if thread < self.threads else "does not exist"
            self.refuse(where, op, min(thread, self.threads - 1), column, f"{what}: it takes 32 lanes")
        return np.broadcast_to(here != 0, (len(here), self.blocks))

    # Between (W, B) and (T, B) ----------------------------------------------------------------------------------

    def spread(self, words: Array) -> Array:
        """Each warp's value in all of its lanes."""
        return np.repeat(words, WARP, axis=0)[: self.threads]

    def _active(self, mask: Bool | None, *operands: Array) -> Bool:
        """The active lanes, in as many columns as they and the operands need."""
        columns = max(1 if a is None else a.shape[1] for a in (mask, *operands))
        return np.broadcast_to(True if mask is None else mask, (self.threads, columns))

    def _bits(self, words: Ballot) -> Bool:
        """Each warp's bit of each lane."""
        flags: Bool = ((self.spread(words) >> self._lane.astype(np.uint32)) & 1) == 1
        return flags

    def _unrows(self, values: Array) -> Array:
        return values.reshape(-1, values.shape[2])[: self.threads]

    # Collectives ------------------------------------------------------------------------------------------------

    def shuffle(
        self, mode: str, value: Ballot, source: Ballot, control: Ballot, members: Ballot, mask: Bool | None
    ) -> tuple[Ballot, Bool]:
        """``shfl.sync``: each lane's value from another lane, and whether that lane was in range.

        ``control`` packs the clamp (bits 0 to 4) and the segment mask (bits 8 to 12), as the ISA has them.
        """
        b = (source & np.uint32(31)).astype(np.int32)
        clamp = (control & np.uint32(31)).astype(np.int32)
        segment = ((control >> np.uint32(8)) & np.uint32(31)).astype(np.int32)
        lane = self._lane
        most, least = (lane & segment) | (clamp & ~segment), lane & segment
        wanted = {
            "up": lane - b,
            "down": lane + b,
            "bfly": lane ^ b,
            "idx": least | (b & ~segment),
        }[mode]
        inside = wanted >= most if mode == "up" else wanted <= most
        chosen = np.where(inside, wanted, lane)
        thread = np.minimum(self._first + chosen, self.threads - 1)
        values = np.broadcast_to(value, (self.threads, value.shape[1]))
        if thread.shape[1] == 1:
            got = values[thread[:, 0]]
        else:
            got = np.take_along_axis(np.broadcast_to(values, thread.shape), thread, axis=0)
        if mask is not None or self.threads % WARP or members.shape != (1, 1) or int(members[0, 0]) != FULL:
            active = self._active(mask, members)
            who = self.spread(ballot(active, self.threads)) & members
            readable = ((who >> (chosen & 31).astype(np.uint32)) & 1) == 1
            got = np.where(readable, got, UNREADABLE)
        return got, inside

    def vote(self, mode: str, flag: Bool, members: Ballot, mask: Bool | None) -> Array:
        """``vote.sync``: ``all``, ``any`` and ``uni`` of the members' flags, or their ``ballot``."""
        active = self._active(mask, members, flag)
        yes = self.spread(ballot(active & flag, self.threads)) & members
        voters = self.spread(ballot(active, self.threads)) & members
        if mode == "ballot":
            return yes
        verdict: Bool = yes != 0
        if mode != "any":
            verdict = (yes == voters) if mode == "all" else (yes == voters) | ~verdict
        return verdict

    def active(self, mask: Bool | None) -> Ballot:
        """``activemask``: the lanes that are there. On a GPU it depends on the schedule."""
        return self.spread(ballot(self._active(mask), self.threads))

    def match(self, mode: str, value: Array, members: Ballot, mask: Bool | None) -> tuple[Ballot, Bool]:
        """``match.sync``: the members with the same value; for ``all`` the members, or 0, and whether they agree."""
        active = self._active(mask, members, value)
        voters = self.spread(ballot(active, self.threads)) & members
        values = rows(np.broadcast_to(value, active.shape), self.threads)
        same = np.zeros(values.shape, np.uint32)
        for lane in range(WARP):
            same |= (values == values[:, lane : lane + 1]).astype(np.uint32) << np.uint32(lane)
        equal = self._unrows(same) & voters
        if mode == "any":
            return equal, equal != 0
        agree = equal == voters
        return np.where(agree, voters, np.uint32(0)), agree

    def reduce(self, operation: str, value: Array, members: Ballot, mask: Bool | None) -> Array:
        """``redux.sync``: ``add``, ``min``, ``max``, ``and``, ``or`` or ``xor`` over the members' 32-bit values."""
        active = self._active(mask, members, value)
        voters = rows(self.spread(ballot(active, self.threads)) & members, self.threads)
        values = rows(np.broadcast_to(value, active.shape), self.threads)
        limits = np.iinfo(value.dtype)
        combine, neutral = {
            "add": (np.add, 0),
            "min": (np.minimum, limits.max),
            "max": (np.maximum, limits.min),
            "and": (np.bitwise_and, limits.max if value.dtype.kind == "u" else -1),
            "or": (np.bitwise_or, 0),
            "xor": (np.bitwise_xor, 0),
        }[operation]
        out = np.full(values.shape, neutral, value.dtype)
        for lane in range(WARP):
            named = ((voters >> np.uint32(lane)) & 1) == 1
            out = combine(out, np.where(named, values[:, lane : lane + 1], value.dtype.type(neutral)))
        return self._unrows(out)
