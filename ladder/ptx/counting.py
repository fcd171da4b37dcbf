"""Counts of one launch: what each memory instruction asked for and what the memory system moved for it.

Asked bytes, L1 sectors and wavefronts by banks are exact and do not depend on the order in which blocks and warps run.
What loads take more because lines are missing, and the L2 and DRAM figures, come from models of the caches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ladder.memory import (
    LINE_BYTES,
    SECTOR_BYTES,
    WAVEFRONT_BYTES,
    WORD_BYTES,
    place_matters,
    reduction_sectors_batch,
    reduction_wavefronts_batch,
    sectors_batch,
    wavefronts_batch,
)
from ladder.memory.caches import CacheModel, Caches, Touched
from ladder.memory.copies import copy_wavefronts_batch
from ladder.memory.pipe import BARRIER_WAVEFRONTS, COPY_GROUP_WAVEFRONTS, IDLE_WAVEFRONTS
from ladder.model import Activity, Level, Quantity, Traffic
from ladder.ptx.fetching import fetch_wavefronts
from ladder.ptx.lanes import Group, Split, groups, rows_of_warps, split
from ladder.ptx.memory import Buffer
from ladder.ptx.site import Site
from ladder.ptx.touched import PairSet
from ladder.ptx.work import Fp32

__all__ = ["Counters"]

_REMEMBERED = 4096
_NOTHING: NDArray[np.int64] = np.zeros(0, np.int64)


class Counters:
    """Adds up the traffic of warp requests.

    ``enter`` starts a batch of threadblocks and ``leave`` ends it. ``caches`` takes the footprints of the blocks;
    without one, L2 and DRAM stay uncounted, and so do the wavefronts of missing lines.

    Attributes:
        barriers: that threadblocks have passed.
        copy_groups: that warps have committed.
        fp32: FADD, FMUL and FFMA instructions times the lanes that executed them.
        fp32_known: False when a predicate decided which lanes those were.
        global_loads: requests among ``global_requests`` that are loads to registers; the others that are stores are
            ``global_stores``.
        idle_wavefronts: what the machine code adds; whoever has it adds them.
    """

    def __init__(self, caches: Caches | None = None) -> None:
        self.asked_bytes = 0
        self.read_sectors = 0
        self.write_sectors = 0
        self.shared_wavefronts = {"ld": 0, "st": 0}
        self.shared_requests = {"ld": 0, "st": 0}
        self.global_wavefronts = 0
        self.global_requests = 0
        self.fetch_wavefronts = 0
        self.barriers = 0
        self.copy_groups = 0
        self.fp32 = [0, 0, 0]
        self.fp32_known = True
        self.global_loads = self.global_stores = 0
        self.idle_wavefronts = 0
        self.caches = caches
        self._threads = self._blocks = 0
        self._numbers: NDArray[np.int64] = np.zeros(0, np.int64)
        self._split: tuple[NDArray[Any] | None, Split | None] = (None, None)
        self._known: dict[tuple[Any, ...], tuple[int, ...]] = {}
        self._sectors_of: dict[tuple[Any, ...], NDArray[np.int64]] = {}
        self._touched: dict[tuple[str, int], PairSet] = {}

    def enter(self, threads: int, numbers: NDArray[np.int64]) -> None:
        """Start a batch of threadblocks, by their linear indices, of ``threads`` threads each."""
        self._threads, self._blocks, self._numbers = threads, len(numbers), numbers
        self._split = (None, None)
        self._touched = {}

    def leave(self) -> None:
        """End the batch: hand each block's footprint to the cache model."""
        if self.caches is None:
            return
        reads, updates, writes = (self._pairs(kind) for kind in ("ld", "red", "st"))
        self.caches.blocks(self._numbers, reads=reads, updates=updates, writes=writes)
        self._touched = {}

    def execute(self, fp32: Fp32 | None, lanes: int) -> None:
        """Some lanes ran through a basic block that has these FP32 instructions."""
        if fp32 is not None and any(fp32):
            self.fp32 = [total + lanes * count for total, count in zip(self.fp32, fp32, strict=True)]

    def _pairs(self, kind: str) -> Touched:
        """The (block, sector) pairs of one kind of access, sorted by block."""
        found = [(first, touched.pairs()) for (k, first), touched in self._touched.items() if k == kind]
        block = np.concatenate([pairs[0] for _, pairs in found] or [_NOTHING])
        sector = np.concatenate([pairs[1] + first for first, pairs in found] or [_NOTHING])
        order = np.argsort(block, kind="stable") if len(found) > 1 else slice(None)
        return Touched(block[order], sector[order])

    def _terms(self, address: NDArray[Any]) -> Split | None:
        if self._split[0] is not address:
            self._split = (address, split(address, self._threads, self._blocks))
        return self._split[1]

    def shared(self, site: Site, address: NDArray[Any], mask: NDArray[np.bool_] | None) -> None:
        """One shared-memory instruction; loads that ptxas merges count once, at their merged width."""
        width, offset = site.width_bytes, site.offset
        if site.fusion is not None:
            if site.fusion.width_bytes == 0:
                return
            width, offset = site.fusion.width_bytes, site.fusion.offset
        kind = "ld" if site.kind in {"ld", "ldmatrix"} else "st"
        # Only plain loads merge groups of lanes; ldmatrix serves one matrix, eight addresses, after the other.
        merges = site.kind == "ld"
        terms = self._terms(address)
        for group in groups(mask, self._threads, self._blocks):
            blocks = self._blocks if group.blocks is None else len(group.blocks)
            if terms is not None:
                key = ("shared", merges, width, offset % WAVEFRONT_BYTES, terms.thread.tobytes(), _bytes(group.lanes))
                found = self._known.get(key)
                if found is None:
                    found = self._shared_rows(merges, width, terms.thread[:, None] + offset, group.lanes, 1)
                    self._remember(key, found)
                wavefronts, requests = (blocks * n for n in found)
            else:
                wavefronts, requests = self._shared_rows(
                    merges, width, self._columns(address, group) + offset, group.lanes, blocks
                )
            self.shared_wavefronts[kind] += wavefronts
            self.shared_requests[kind] += requests

    def _shared_rows(
        self, merges: bool, width: int, address: NDArray[np.int64], lanes: NDArray[np.bool_] | None, blocks: int
    ) -> tuple[int, int]:
        rows, active = self._rows(address, lanes, blocks)
        wavefronts = wavefronts_batch(rows, width, space="shared", store=not merges, active=active)
        return int(wavefronts.sum()), int(np.count_nonzero(active.any(axis=1)))

    def copy(
        self,
        site: Site,
        target: NDArray[Any],
        source: NDArray[Any],
        *,
        mask: NDArray[np.bool_] | None,
        reading: NDArray[np.bool_] | None,
    ) -> None:
        """The wavefronts of one ``cp.async``; ``source`` and ``target`` hold its offsets.

        The rest of its global side is that of a load of the same width. ncu counts no shared request for it.
        """
        if ".cg" in site.op:
            return
        width = site.width_bytes
        alike = all(a.shape[1] == 1 for a in (target, mask, reading) if a is not None)
        terms = split(source, self._threads, self._blocks) if alike else None
        if terms is not None:
            # All blocks copy alike: where the sources of a block begin turns the banks and changes no count.
            source, columns = (terms.thread - terms.thread[:1])[:, None] + int(source[0, 0]) % WAVEFRONT_BYTES, 1
        else:
            columns = self._blocks
        everyone = np.ones((self._threads, columns), np.bool_)
        writing = everyone if mask is None else mask
        rows = [
            np.moveaxis(rows_of_warps(np.broadcast_to(a, everyone.shape), self._threads), 2, 0).reshape(-1, 32)
            for a in (source, target, writing if reading is None else reading, writing)
        ]
        sources, targets = (r.view(np.int64) if r.dtype == np.uint64 else r.astype(np.int64) for r in rows[:2])
        wavefronts = copy_wavefronts_batch(sources, targets, width, reading=rows[2], writing=rows[3])
        times = self._blocks // columns
        self.global_wavefronts += int(wavefronts.sum()) * times

    def commit(self, mask: NDArray[np.bool_] | None) -> None:
        """``cp.async.commit_group`` of some lanes (T, B); None for all."""
        lanes = np.broadcast_to(True if mask is None else mask, (self._threads, self._blocks))
        self.copy_groups += int(np.count_nonzero(rows_of_warps(lanes, self._threads).any(axis=1)))

    def global_(self, site: Site, address: NDArray[Any], mask: NDArray[np.bool_] | None, buffer: Buffer) -> None:
        """One global-memory instruction whose lanes all fall in ``buffer``."""
        terms = self._terms(address)
        for group in groups(mask, self._threads, self._blocks):
            everywhere = np.arange(self._blocks) if group.blocks is None else group.blocks
            if terms is None:
                columns = self._columns(address, group) + site.offset
                self._fetch(site, buffer, columns, group.lanes, everywhere)
                self._add(site, self._global_rows(site, columns, group.lanes, len(everywhere)), 1)
                if self.caches is not None:
                    lanes = slice(None) if group.lanes is None else group.lanes
                    self._touch(site, buffer, (columns[lanes] - buffer.start) // SECTOR_BYTES, everywhere)
                continue
            base = (terms.block if group.blocks is None else terms.block[group.blocks]) + site.offset
            self._fetch_alike(site, buffer, terms.thread, base, group.lanes, everywhere)
            # What is looked up together depends on where in its line an access starts, and perhaps on where that is.
            residues = base % (LINE_BYTES if site.kind in {"red", "atom"} else SECTOR_BYTES)
            for residue in np.unique(residues):
                here = residues == residue
                key = (site.kind, site.width_bytes, int(residue), terms.thread.tobytes(), _bytes(group.lanes))
                found = self._known.get(key)
                if found is None:
                    relative = terms.thread[:, None] + residue
                    placed = site.kind != "ld" and self._placed(site, relative, group.lanes)
                    found = () if placed else self._global_rows(site, relative, group.lanes, 1)
                    self._remember(key, found)
                    touched = relative if group.lanes is None else relative[group.lanes]
                    # No access straddles a sector: its width divides 32 and it is aligned.
                    self._sectors_of[key] = np.unique(touched // SECTOR_BYTES)
                if found:
                    self._add(site, found, int(np.count_nonzero(here)))
                else:
                    columns = terms.thread[:, None] + base[here]
                    self._add(site, self._global_rows(site, columns, group.lanes, columns.shape[1]), 1)
                if self.caches is not None:
                    starts = (base[here] - residue - buffer.start) // SECTOR_BYTES
                    self._touch(site, buffer, self._sectors_of[key][:, None] + starts, everywhere[here])

    def _placed(self, site: Site, address: NDArray[np.int64], lanes: NDArray[np.bool_] | None) -> bool:
        """Whether the cost of an instruction (T, 1) may depend on which lines it names."""
        reduces = site.kind in {"red", "atom"}
        if site.kind != "ld" and not (reduces and site.width_bytes == WORD_BYTES):
            return False
        rows, active = self._rows(address, lanes, 1)
        return bool(place_matters(rows, site.width_bytes, active=active, reduces=reduces).any())

    def _fetch_alike(
        self,
        site: Site,
        buffer: Buffer,
        thread: NDArray[np.int64],
        base: NDArray[np.int64],
        lanes: NDArray[np.bool_] | None,
        blocks: NDArray[np.intp],
    ) -> None:
        """``_fetch`` where addresses are ``thread`` (T,) plus ``base`` (B,): most patterns need no look at memory."""
        if self.caches is None or site.kind != "ld":
            return
        residues = base % LINE_BYTES
        chosen = np.zeros(len(base), np.bool_)
        for residue in np.unique(residues):
            key = ("placed", site.width_bytes, int(residue), thread.tobytes(), _bytes(lanes))
            found = self._known.get(key)
            if found is None:
                found = (int(self._placed(site, thread[:, None] + residue, lanes)),)
                self._remember(key, found)
            chosen |= (residues == residue) & bool(found[0])
        if chosen.any():
            self._fetch(site, buffer, thread[:, None] + base[chosen], lanes, blocks[chosen])

    def _fetch(
        self,
        site: Site,
        buffer: Buffer,
        address: NDArray[np.int64],
        lanes: NDArray[np.bool_] | None,
        blocks: NDArray[np.intp],
    ) -> None:
        """Count what a load (T, B) takes for lines that are missing; before it touches them."""
        if self.caches is None or site.kind != "ld":
            return
        loaded = self._touched_of("ld", buffer)
        self.fetch_wavefronts += fetch_wavefronts(
            address, lanes, site.width_bytes, start=buffer.start, blocks=blocks, loaded=loaded
        )

    def _global_rows(
        self, site: Site, address: NDArray[np.int64], lanes: NDArray[np.bool_] | None, blocks: int
    ) -> tuple[int, ...]:
        rows, active = self._rows(address, lanes, blocks)
        width = site.width_bytes
        if site.kind in {"red", "atom"} and width == WORD_BYTES:
            sectors = reduction_sectors_batch(rows, width, active=active)
            wavefronts = reduction_wavefronts_batch(rows, width, active=active)
        else:
            sectors = sectors_batch(rows, width, active=active)
            wavefronts = wavefronts_batch(rows, width, space="global", store=site.kind != "ld", active=active)
        requests = int(np.count_nonzero(active.any(axis=1)))
        passes = 0 if site.kind == "copy" else int(wavefronts.sum())  # see ``copy``
        return int(np.count_nonzero(active)) * width, int(sectors.sum()), passes, requests

    def _add(self, site: Site, found: tuple[int, ...], times: int) -> None:
        asked, sectors, wavefronts, requests = (n * times for n in found)
        self.asked_bytes += asked
        self.global_wavefronts += wavefronts
        self.global_requests += requests
        self.global_loads += requests if site.kind == "ld" else 0
        self.global_stores += requests if site.kind == "st" else 0
        if site.kind in {"ld", "copy"}:
            self.read_sectors += sectors
        else:
            self.write_sectors += sectors

    def _rows(
        self, address: NDArray[np.int64], lanes: NDArray[np.bool_] | None, blocks: int
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """(T, blocks) addresses -> (warps * blocks, 32), with the lanes that take part."""
        active = np.ones(self._threads, np.bool_) if lanes is None else lanes
        warps = rows_of_warps(address, self._threads)
        active_warps = rows_of_warps(active, self._threads)
        rows = np.ascontiguousarray(np.moveaxis(warps, 2, 0)).reshape(-1, 32)
        return rows, np.broadcast_to(active_warps, (blocks, *active_warps.shape)).reshape(-1, 32)

    def _columns(self, address: NDArray[Any], group: Group) -> NDArray[np.int64]:
        whole = np.broadcast_to(address, (self._threads, self._blocks))
        return (whole if group.blocks is None else whole[:, group.blocks]).astype(np.int64)

    def _touch(self, site: Site, buffer: Buffer, sectors: NDArray[np.int64], blocks: NDArray[np.intp]) -> None:
        """Note the sectors (S, blocks) of ``buffer`` that an instruction needs from below or sends there."""
        kind = {"atom": "red", "copy": "ld"}.get(site.kind, site.kind)
        self._touched_of(kind, buffer).add(blocks, sectors)

    def _touched_of(self, kind: str, buffer: Buffer) -> PairSet:
        key = (kind, buffer.first_sector)
        if key not in self._touched:
            self._touched[key] = PairSet(self._blocks, buffer.sectors)
        return self._touched[key]

    def _remember(self, key: tuple[Any, ...], found: tuple[int, ...]) -> None:
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
            self._sectors_of.clear()
        self._known[key] = found

    def activity(self) -> Activity | None:
        """The FP32 instructions so far; None when they are not known."""
        fadd, fmul, ffma = self.fp32
        return Activity(origin="emulated", fadd=fadd, fmul=fmul, ffma=ffma) if self.fp32_known else None

    def traffic(self) -> Traffic:
        """The traffic so far; L2 and DRAM only with a cache model, and labelled modelled."""
        wavefronts = sum(self.shared_wavefronts.values())
        other = (
            self.idle_wavefronts * IDLE_WAVEFRONTS
            + self.barriers * BARRIER_WAVEFRONTS
            + self.copy_groups * COPY_GROUP_WAVEFRONTS
        )
        pipe = wavefronts + self.global_wavefronts + self.fetch_wavefronts + other
        levels: dict[Level, Quantity] = {
            "asked": Quantity(bytes=self.asked_bytes, origin="emulated"),
            "l1": Quantity(bytes=(self.read_sectors + self.write_sectors) * SECTOR_BYTES, origin="emulated"),
            "shared": Quantity(bytes=wavefronts * WAVEFRONT_BYTES, origin="emulated"),
            "sm": Quantity(bytes=pipe * WAVEFRONT_BYTES, origin="modelled" if self.fetch_wavefronts else "emulated"),
        }
        if isinstance(self.caches, CacheModel):
            below = self.caches.dram_read_sectors + self.caches.dram_write_sectors
            l2 = self.caches.l2_read_sectors + self.write_sectors
            levels |= {
                "l2": Quantity(bytes=l2 * SECTOR_BYTES, origin="modelled"),
                "dram": Quantity(bytes=below * SECTOR_BYTES, origin="modelled"),
            }
        return Traffic(
            levels=levels,
            wavefronts_ld=self.shared_wavefronts["ld"],
            wavefronts_st=self.shared_wavefronts["st"],
            requests_ld=self.shared_requests["ld"],
            requests_st=self.shared_requests["st"],
            global_wavefronts=self.global_wavefronts,
            global_requests=self.global_requests,
            fetch_wavefronts=self.fetch_wavefronts,
            other_wavefronts=other,
        )


def _bytes(lanes: NDArray[np.bool_] | None) -> bytes | None:
    return None if lanes is None else lanes.tobytes()
