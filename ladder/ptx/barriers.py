"""Named barriers: sixteen a threadblock, each with its own count of threads, and ``bar.arrive``, which does not wait.

Barriers count warps, not lanes: a warp comes as a whole, and each warp counts for 32 threads (PTX ISA, ``barrier``).
Kernels that know ``__syncthreads()`` alone do not need this; the machine parks and releases their lanes by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ladder.errors import KernelFaultError
from ladder.ptx.clocks import Clocks
from ladder.ptx.syntax import Function, Immediate, Instruction
from ladder.ptx.warp import WARP, Warps, ballot, rows

__all__ = ["NamedBarriers", "barrier_kind", "is_plain", "with_results"]

NAMES = 16
_ALL = -1

Bool = NDArray[np.bool_]
Int = NDArray[np.int64]


def barrier_kind(instruction: Instruction) -> str:
    """``"sync"``, ``"red"`` or ``"arrive"`` for a barrier of the threadblock, else an empty string."""
    parts = instruction.parts
    if parts[0] not in {"bar", "barrier"} or parts[1] in {"warp", "cluster"}:
        return ""
    return next((p for p in parts[1:] if p in {"sync", "red", "arrive"}), "")


def is_plain(instruction: Instruction) -> bool:
    """Whether it is ``__syncthreads()``: barrier 0, all threads."""
    return barrier_kind(instruction) == "sync" and instruction.operands == (Immediate(0),)


def with_results(function: Function) -> Function:
    """The function with a pseudo instruction after each ``bar.red`` that reads the result once the barrier is over."""
    instructions: list[Instruction] = []
    moved = {}
    for index, instruction in enumerate(function.instructions):
        moved[index] = len(instructions)
        instructions.append(instruction)
        if barrier_kind(instruction) == "red":
            operation = next((p for p in instruction.parts if p in {"popc", "and", "or"}), "")
            result = Instruction(f"barrier_result.{operation}", instruction.operands[:1], None, instruction.line)
            instructions.append(result)
    moved[len(function.instructions)] = len(instructions)
    labels = {name: moved[index] for name, index in function.labels.items()}
    return replace(function, instructions=instructions, labels=labels)


@dataclass(slots=True)
class _Barrier:
    """One barrier in every threadblock: who came and who waits (W, B); the threads wanted (B,), 0 while nobody came."""

    arrived: Bool
    waiting: Bool
    wanted: Int
    known: NDArray[np.int32]
    lanes: Bool
    yes: Bool
    where: str = ""


class NamedBarriers:
    """The barriers of a batch of threadblocks.

    Attributes:
        released: warps (W, B) whose barrier is over and that may go on; the machine takes them.
        passed: barriers that are over, all threadblocks together.
    """

    def __init__(
        self, warps: Warps, *, thread: Callable[[int], str], block: Callable[[int], str], clocks: Clocks | None
    ) -> None:
        self._warps, self._clocks = warps, clocks
        self._thread, self._block = thread, block
        self._shape = (-(-warps.threads // WARP), warps.blocks)
        self._lanes = (warps.threads, warps.blocks)
        self._barriers: dict[int, _Barrier] = {}
        self._yes, self._came = np.zeros(self._lanes, np.uint32), np.zeros(self._lanes, np.uint32)
        self.released: Bool = np.zeros(self._shape, np.bool_)
        self.passed = 0

    def arrive(
        self,
        where: str,
        name: NDArray[Any],
        count: NDArray[Any] | None,
        mask: Bool | None,
        running: Bool | None,
        *,
        waits: bool,
        flag: Bool | None = None,
    ) -> None:
        """Warps come to a barrier.

        Args:
            where: the source line.
            name: barrier 0 to 15.
            count: threads that the barrier waits for; None for all of the block.
            mask: lanes that execute it; None for all.
            running: lanes of the basic block.
            waits: false for ``bar.arrive``.
            flag: the predicate of ``bar.red``.

        Raises:
            KernelFaultError: ``divergent barrier`` or ``invalid barrier``.
        """
        active = np.broadcast_to(True if mask is None else mask, self._lanes)
        here = ballot(active, self._warps.threads)
        alive = ballot(self._warps.alive(running), self._warps.threads)
        broken = (here != 0) & (here != alive)
        if broken.any():
            column, warp = (int(i[0]) for i in np.nonzero(broken.T))
            self._fault(
                "divergent barrier",
                where,
                column,
                warp,
                "comes with some of its lanes. All of them must come together.",
            )
        names = self._of_warp(where, name, active)
        counts = np.full(self._shape, _ALL) if count is None else self._of_warp(where, count, active)
        for number in np.unique(names[here != 0]):
            chosen = (here != 0) & (names == number)
            self._check(where, int(number), counts, chosen)
            self._come(where, int(number), counts, chosen, active, waits=waits, flag=flag)

    def _of_warp(self, where: str, value: NDArray[Any], active: Bool) -> Int:
        """The one value of each warp, 0 where no lane is active."""
        if value.shape == (1, 1):
            return np.full(self._shape, int(value[0, 0]))
        values = np.broadcast_to(value, self._lanes).astype(np.int64)
        most: Int = rows(np.where(active, values, 0), self._warps.threads).max(axis=1)
        differs = active & (values != self._warps.spread(most))
        if differs.any():
            column, thread = (int(i[0]) for i in np.nonzero(differs.T))
            self._fault("invalid barrier", where, column, thread // WARP, "disagrees about the barrier or its count.")
        return most

    def _check(self, where: str, number: int, counts: Int, chosen: Bool) -> None:
        if not 0 <= number < NAMES:
            column, warp = (int(i[0]) for i in np.nonzero(chosen.T))
            self._fault("invalid barrier", where, column, warp, f"names barrier {number}; there are 0 to {NAMES - 1}.")
        odd = chosen & (counts != _ALL) & ((counts <= 0) | (counts % WARP != 0))
        if odd.any():
            column, warp = (int(i[0]) for i in np.nonzero(odd.T))
            wrong = f"waits for {counts[warp, column]} threads; give a multiple of {WARP}."
            self._fault("invalid barrier", where, column, warp, wrong)

    def _come(
        self, where: str, number: int, counts: Int, chosen: Bool, active: Bool, *, waits: bool, flag: Bool | None
    ) -> None:
        if number not in self._barriers:
            self._barriers[number] = _Barrier(
                arrived=np.zeros(self._shape, np.bool_),
                waiting=np.zeros(self._shape, np.bool_),
                wanted=np.zeros(self._shape[1], np.int64),
                known=np.zeros(self._shape, np.int32),
                lanes=np.zeros(self._lanes, np.bool_),
                yes=np.zeros(self._lanes, np.bool_),
            )
        barrier = self._barriers[number]
        self._refuse(where, chosen & barrier.arrived, f"comes to barrier {number} again before it is over.")
        wanted = np.where(barrier.wanted != 0, barrier.wanted, np.where(chosen, counts, _ALL).max(axis=0))
        other = f"and the warps before it disagree about the thread count of barrier {number}."
        self._refuse(where, chosen & (counts != wanted), other)
        barrier.where = where
        barrier.wanted = np.where(chosen.any(axis=0), wanted, barrier.wanted)
        barrier.arrived = barrier.arrived | chosen
        came = active & self._warps.spread(chosen)
        barrier.lanes = barrier.lanes | came
        if flag is not None:
            barrier.yes = barrier.yes | (came & flag)
        if waits:
            barrier.waiting = barrier.waiting | chosen
        if self._clocks is not None:
            barrier.known = np.maximum(barrier.known, self._clocks.depart(chosen))
        threads = barrier.arrived.sum(axis=0) * WARP
        crowded = chosen & (barrier.wanted != _ALL) & (threads > barrier.wanted)
        self._refuse(where, crowded, f"comes to barrier {number}, which has more arrivals than it waits for.")
        self._complete(barrier, (barrier.wanted > 0) & (threads == barrier.wanted))

    def _complete(self, barrier: _Barrier, columns: Bool) -> None:
        """Let the waiting warps of some blocks go, and start the barrier afresh there."""
        if not columns.any():
            return
        self.passed += int(np.count_nonzero(columns))
        leaving = barrier.waiting & columns
        self.released = self.released | leaving
        lanes = self._warps.spread(leaving)
        self._yes = np.where(lanes, barrier.yes.sum(axis=0, dtype=np.uint32), self._yes)
        self._came = np.where(lanes, barrier.lanes.sum(axis=0, dtype=np.uint32), self._came)
        if self._clocks is not None:
            self._clocks.join(leaving, barrier.known)
        for part in (barrier.arrived, barrier.waiting, barrier.lanes, barrier.yes, barrier.known):
            part[:, columns] = 0
        barrier.wanted = np.where(columns, 0, barrier.wanted)

    def result(self, operation: str) -> NDArray[Any]:
        """What ``bar.red`` gave the lanes that have left their barrier: a count for ``popc``, else a predicate."""
        if operation == "popc":
            return self._yes
        return self._yes == self._came if operation == "and" else self._yes > 0

    def settle(self, alive: Bool) -> None:
        """No lane can run: barriers of all threads are over where every warp that is left has come."""
        left = ballot(alive, self._warps.threads) != 0
        for barrier in self._barriers.values():
            columns = (barrier.wanted == _ALL) & barrier.arrived.any(axis=0) & (barrier.arrived | ~left).all(axis=0)
            if self._clocks is not None and columns.any():
                # A warp that has exited counts as one that came.
                barrier.known = np.maximum(barrier.known, self._clocks.depart(~left & columns))
            self._complete(barrier, columns)

    def take(self) -> Bool:
        """The lanes (T, B) that may go on."""
        lanes: Bool = self._warps.spread(self.released)
        self.released = np.zeros(self._shape, np.bool_)
        return lanes

    def deadlock(self) -> NoReturn:
        """Everybody waits and nobody can come.

        Raises:
            KernelFaultError: ``divergent barrier``.
        """
        stuck = {n: b for n, b in sorted(self._barriers.items()) if b.waiting.any()}
        column = min(int(np.flatnonzero(b.waiting.any(axis=0))[0]) for b in stuck.values())
        parts = []
        for number, barrier in stuck.items():
            if barrier.waiting[:, column].any():
                warp = int(np.flatnonzero(barrier.waiting[:, column])[0])
                wanted = int(barrier.wanted[column])
                came = int(barrier.arrived[:, column].sum()) * WARP
                parts.append(
                    f"thread {self._thread(warp * WARP)} waits at {barrier.where} for barrier {number}, with {came} of "
                    f"{'all' if wanted == _ALL else wanted} threads"
                )
        where = next(b.where for b in stuck.values() if b.waiting[:, column].any())
        raise KernelFaultError(
            "divergent barrier",
            where,
            f"block {self._block(column)}: {'; '.join(parts)}, and nobody else will come. Every thread that a barrier "
            f"counts must reach it.",
        )

    def _refuse(self, where: str, bad: Bool, what: str) -> None:
        if bad.any():
            column, warp = (int(i[0]) for i in np.nonzero(bad.T))
            self._fault("invalid barrier", where, column, warp, what)

    def _fault(self, kind: str, where: str, column: int, warp: int, what: str) -> NoReturn:
        first = self._thread(warp * WARP)
        raise KernelFaultError(kind, where, f"warp {warp} (thread {first}) of block {self._block(column)} {what}")
