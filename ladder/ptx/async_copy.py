"""``cp.async``: copies from global to shared memory that land when their thread waits for them.

From issue until the issuing thread has waited for the copy's group, its words belong to the copy: whoever reads or
writes them gets the fault ``use before cp.async wait``, even where a GPU would have had the luck to be done. For races
a copy counts as a write by its thread twice: when it is issued, against those who still read what it will overwrite,
and when it lands, against those who read it without a barrier in between. Groups are counted lane by lane.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ladder.errors import KernelFaultError
from ladder.ptx.site import Site

if TYPE_CHECKING:
    from ladder.ptx.batch import Batch

__all__ = ["AsyncCopies"]

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]
Words = tuple[NDArray[np.uint32], ...]

_WORD = np.dtype(np.uint32)


@dataclass(slots=True)
class _Copy:
    """One instruction's copies under way: where to, what, whose, and the group that each lane put them in."""

    number: int
    site: Site
    byte: Int
    words: Words
    mask: Bool | None
    group: Int


class AsyncCopies:
    """The copies of a batch of threadblocks."""

    def __init__(self, batch: Batch) -> None:
        self._batch, self._shared = batch, batch.shared
        self._shape = (batch.threads, batch.blocks)
        self._groups: Int = np.zeros((1, 1), np.int64)
        self._copies: list[_Copy] = []
        self._number = 0
        # The number of the copy that owns a granule, 0 for none; one column while all blocks do the same.
        granules = -(-self._shared.size_bytes // self._shared.granule_bytes)
        self._owner: Int = np.zeros((granules, 1), np.int64)
        self._sources: dict[int, Site] = {}

    def issue(
        self,
        site: Site,
        target: NDArray[Any],
        source: NDArray[Any],
        source_offset: int,
        size: NDArray[np.uint32] | None,
        mask: Bool | None,
    ) -> None:
        """``cp.async``.

        Args:
            site: the shared side; its width is the cp-size.
            target: shared addresses, to which the site's offset is added.
            source: global addresses.
            source_offset: what is added to them.
            size: bytes to read in each lane, the rest being filled with zeros; None for all.
            mask: lanes that execute it; None for all.

        Raises:
            KernelFaultError: out of bounds, misaligned, a size over cp-size, or words that another copy still owns.
        """
        if mask is not None and not mask.any():
            return
        self._shared.guard = self._refuse_use
        byte = self._shared.locate(site, target, mask, reading=False)
        reading = mask if size is None else self._readers(site, size, mask)
        words = self._fetch(site, source, source_offset, size, reading)
        if self._batch.counters is not None:
            self._batch.counters.copy(site, byte, source + source.dtype.type(source_offset), mask=mask, reading=reading)
        self._shared.order.note(site, byte, mask)
        self._number += 1
        copy = _Copy(self._number, site, byte, words, mask, self._groups)
        self._copies.append(copy)
        self._own(copy, mask, self._number)

    def commit(self, mask: Bool | None) -> None:
        """``cp.async.commit_group``: what each lane has issued since its last commit becomes a group."""
        self._groups = self._groups + (1 if mask is None else mask)
        if self._batch.counters is not None:
            self._batch.counters.commit(mask)

    def wait(self, keep: int | None, mask: Bool | None) -> None:
        """``cp.async.wait_group``: all but each lane's last ``keep`` groups land; None for ``wait_all``."""
        left = []
        for copy in self._copies:
            done: Bool = np.ones((1, 1), np.bool_) if keep is None else copy.group < self._groups - keep
            if mask is not None:
                done = done & mask
            if done.all():
                self._land(copy, copy.mask)
                continue
            if done.any():
                mine = done if copy.mask is None else done & copy.mask
                self._land(copy, mine)
                rest = ~done if copy.mask is None else copy.mask & ~done
                if not rest.any():
                    continue
                copy = replace(copy, mask=rest)  # noqa: PLW2901
            left.append(copy)
        self._copies = left

    def _readers(self, site: Site, size: NDArray[np.uint32], mask: Bool | None) -> Bool:
        """Lanes that read anything of their source."""
        over = size > site.width_bytes
        if mask is not None:
            over = over & mask
        if over.any():
            block, thread = (int(i[0]) for i in np.nonzero(np.broadcast_to(over, self._shape).T))
            asked = int(np.broadcast_to(size, self._shape)[thread, block])
            raise KernelFaultError(
                "invalid copy",
                site.where,
                f"`{site.op}`: src-size {asked} is over cp-size {site.width_bytes}, by thread "
                f"{self._batch.thread_name(thread)} of block {self._batch.block_name(block)}",
            )
        some: Bool = size > 0
        return some if mask is None else some & mask

    def _fetch(
        self, site: Site, source: NDArray[Any], offset: int, size: NDArray[np.uint32] | None, reading: Bool | None
    ) -> Words:
        """The words to copy, zeros where nothing is read."""
        if site.index not in self._sources:
            self._sources[site.index] = replace(site, kind="copy", space="global", offset=offset, fusion=None)
        whole = self._sources[site.index]
        if size is None:
            return self._zeroed(self._batch.fetch(whole, source, reading), reading)
        assert reading is not None
        full = reading & (size == site.width_bytes)
        pieces = (full != reading).any()
        words = self._zeroed(self._batch.fetch(whole, source, full, count=not pieces), full)
        return self._in_pieces(whole, source, size, reading, words) if pieces else words

    @staticmethod
    def _zeroed(words: Words, lanes: Bool | None) -> Words:
        return words if lanes is None else tuple(np.where(lanes, word, np.uint32(0)) for word in words)

    def _in_pieces(
        self, whole: Site, source: NDArray[Any], size: NDArray[np.uint32], reading: Bool, words: Words
    ) -> Words:
        """Add the copies that stop in the middle, byte after byte, so that none reads past its src-size."""
        out = list(words)
        for position in range(whole.width_bytes - 1):
            part = reading & (size < whole.width_bytes) & (size > position)
            byte_site = replace(whole, dtype=np.dtype(np.uint8), elements=1, offset=whole.offset + position)
            (value,) = self._batch.fetch(byte_site, source, part, count=False)
            moved = np.where(part, value, 0).astype(np.uint32) << np.uint32(8 * (position % 4))
            out[position // 4] = out[position // 4] | moved
        if self._batch.counters is not None:
            lanes = np.broadcast_to(reading, self._shape)
            some = int(np.broadcast_to(source, self._shape)[lanes][0]) + whole.offset
            buffer = self._batch.memory.holding(some, some + 1)
            assert buffer is not None
            self._batch.counters.global_(whole, source, reading, buffer)
            asked = np.broadcast_to(size, self._shape)[lanes].astype(np.int64)
            self._batch.counters.asked_bytes -= int((whole.width_bytes - asked).sum())
        return tuple(out)

    def _land(self, copy: _Copy, mask: Bool | None) -> None:
        self._own(copy, mask, 0)
        for position, word in enumerate(copy.words):
            self._shared.put(copy.byte + 4 * position, word, mask, _WORD)
        self._shared.mark(copy.byte, mask, copy.site.width_bytes)
        self._shared.order.note(copy.site, copy.byte, mask)

    # Words under way --------------------------------------------------------------------------------------------

    def _own(self, copy: _Copy, mask: Bool | None, number: int) -> None:
        """Give a copy's granules to it, or (0) to nobody."""
        uniform = copy.byte.shape[1] == 1 and (mask is None or mask.shape[1] == 1)
        if not uniform and self._owner.shape[1] == 1:
            self._owner = np.repeat(self._owner, self._batch.blocks, axis=1)
        shape = (self._batch.threads, 1 if uniform else self._batch.blocks)
        thread, column = np.nonzero(np.broadcast_to(True if mask is None else mask, shape))
        first = np.broadcast_to(copy.byte, shape)[thread, column] // self._shared.granule_bytes
        for i in range(max(copy.site.width_bytes // self._shared.granule_bytes, 1)):
            if uniform:
                self._owner[first + i] = number
            else:
                self._owner[first + i, column] = number

    def _refuse_use(self, site: Site, byte: Int, mask: Bool | None) -> None:
        """Fault when an access touches words of a copy that is under way."""
        if not self._copies:
            return
        unit = byte // self._shared.granule_bytes
        for i in range(max(site.width_bytes // self._shared.granule_bytes, 1)):
            if self._owner.shape[1] == 1:
                owner = self._owner[unit + i, 0]
            elif unit.shape[1] == 1:
                owner = self._owner[unit[:, 0] + i]
            else:
                owner = self._owner[unit + i, np.arange(unit.shape[1])[None, :]]
            used = owner > 0 if mask is None else (owner > 0) & mask
            if used.any():
                self._fault(site, byte, used, owner)

    def _fault(self, site: Site, byte: Int, used: Bool, owner: Int) -> None:
        block, thread = (int(i[0]) for i in np.nonzero(np.broadcast_to(used, self._shape).T))
        at = int(np.broadcast_to(byte, self._shape)[thread, block])
        number = int(np.broadcast_to(owner, self._shape)[thread, block])
        copy = next(c for c in self._copies if c.number == number)
        places = np.broadcast_to(copy.byte, self._shape)[:, block]
        lanes = np.broadcast_to(True if copy.mask is None else copy.mask, self._shape)[:, block]
        theirs = lanes & (places < at + site.width_bytes) & (places + copy.site.width_bytes > at)
        issuer = int(np.flatnonzero(theirs)[0])
        batch = self._batch
        raise KernelFaultError(
            "use before cp.async wait",
            site.where,
            f"{batch.variable_name(at)} is {'read' if site.kind.startswith('ld') else 'written'} by thread "
            f"{batch.thread_name(thread)} while the copy of thread {batch.thread_name(issuer)} at {copy.site.where} is "
            f"under way, block {batch.block_name(block)}. Let that thread wait for its group (cp.async.wait_group), "
            f"then add __syncthreads().",
        )
