"""The machine: all lanes of a batch of threadblocks in lockstep, basic block by basic block.

Groups of lanes that went different ways run lowest program counter first, which reconverges structured code. A barrier
parks a group until every live lane of its threadblock has come (lanes that have exited do not count).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ladder.errors import KernelFaultError
from ladder.ptx.batch import Batch
from ladder.ptx.counting import Counters
from ladder.ptx.memory import GlobalMemory
from ladder.ptx.program import Block, Program
from ladder.ptx.warp import ballot

__all__ = ["LANES_A_BATCH", "STEP_LIMIT", "Machine", "Order"]

Order = Literal["lockstep", "warp_serial", "warp_serial_reversed"]

LANES_A_BATCH = 32768
"""Enough lanes to hide the interpreter, few enough for temporaries to stay in a core's L2 cache."""

STEP_LIMIT = 20_000_000
"""Instructions of one batch after which a launch is called endless: a K loop of a million steps stays below it."""

Bool = NDArray[np.bool_]
Groups = dict[int, Bool | None]
"""Lanes by the basic block that they run next; None stands for every lane of the batch."""


@dataclass(slots=True)
class _Agent:
    """Lanes that run as one between barriers: ``ready`` to go on, or ``parked`` behind a barrier."""

    ready: Groups
    parked: Groups = field(default_factory=dict)

    def waiting(self) -> Iterable[int]:
        """The basic blocks where its lanes will go on."""
        return (*self.ready, *self.parked)


class Machine:
    """Runs one program over a grid.

    Args:
        program: what to run.
        memory: the buffers that its pointers name.
        arguments: the parameter block's values by byte offset.
        order: ``"lockstep"``, or one warp after the other between barriers, forwards or backwards: a kernel whose
            result depends on it has a race.
        counters: where to add the traffic, or None.
        step_limit: instructions of a batch of threadblocks after which the launch is called endless.
    """

    def __init__(
        self,
        program: Program,
        memory: GlobalMemory,
        arguments: dict[int, int],
        *,
        order: Order = "lockstep",
        counters: Counters | None = None,
        step_limit: int = STEP_LIMIT,
    ) -> None:
        self.program = program
        self.memory = memory
        self.arguments = arguments
        self.order = order
        self.counters = counters
        self.step_limit = step_limit

    def launch(
        self,
        *,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        smem_bytes: int = 0,
        blocks: Iterable[int] | None = None,
    ) -> None:
        """Run the grid, or just the threadblocks whose linear indices are ``blocks``.

        Raises:
            KernelFaultError: the kernel did something undefined.
        """
        size = max(1, LANES_A_BATCH // (block[0] * block[1] * block[2]))
        chosen = range(grid[0] * grid[1] * grid[2]) if blocks is None else list(blocks)
        with np.errstate(all="ignore"):
            for start in range(0, len(chosen), size):
                batch = Batch(
                    self.program,
                    self.memory,
                    self.arguments,
                    numbers=np.asarray(chosen[start : start + size], np.int64),
                    grid=grid,
                    block=block,
                    smem_bytes=smem_bytes,
                    counters=self.counters,
                )
                if self.counters is not None:
                    self.counters.fp32_known &= self.program.fp32_known
                    self.counters.enter(batch.threads, batch.numbers)
                _Run(batch, self.step_limit).to_the_end(self._agents(batch.threads))
                if self.counters is not None:
                    self.counters.barriers += batch.barriers.passed
                    self.counters.leave()

    def _agents(self, threads: int) -> list[_Agent]:
        if self.order == "lockstep":
            return [_Agent({0: None})]
        warp = (np.arange(threads) // 32)[:, None]
        numbers = range(-(-threads // 32))
        return [_Agent({0: warp == w}) for w in (numbers if self.order == "warp_serial" else reversed(numbers))]


class _Run:
    """Control flow of one batch."""

    def __init__(self, batch: Batch, step_limit: int) -> None:
        self.batch = batch
        self.code = batch.program.blocks
        self.shape = (batch.threads, batch.blocks)
        self.step_limit = step_limit
        self.steps = 0
        self.collective = any(block.collective for block in self.code)

    def to_the_end(self, agents: list[_Agent]) -> None:
        """Run every agent to its next barrier, release them all, and again, until all lanes have exited."""
        while any(agent.ready for agent in agents):
            for agent in agents:
                elsewhere = self._live(i for other in agents if other is not agent for i in other.waiting())
                self._to_the_barrier(agent, elsewhere)
            self._release(agents)
        self.batch.shared.close()

    def _live(self, indices: Iterable[int]) -> int:
        """Slots that lanes waiting at these basic blocks may still read; past the last block lanes read nothing."""
        live = 0
        for index in indices:
            if index < len(self.code):
                live |= self.code[index].live_in
        return live

    def _to_the_barrier(self, agent: _Agent, elsewhere: int) -> None:
        self.batch.warps.waiting = (agent.ready, agent.parked)
        while agent.ready:
            index = self._next(agent.ready)
            mask = agent.ready.pop(index)
            if index == len(self.code):
                continue
            code = self.code[index]
            self._count_steps(code)
            if self.batch.counters is not None:
                lanes = math.prod(self.shape) if mask is None else int(np.broadcast_to(mask, self.shape).sum())
                self.batch.counters.execute(code.fp32, lanes)
            if mask is None:
                code.run(self.batch, self.batch.registers)
            else:
                self.batch.keep = elsewhere | self._live(agent.waiting())
                code.run_masked(self.batch, self.batch.registers, mask)
            self._leave(agent, index, mask)

    def _next(self, ready: Groups) -> int:
        """The group that runs: the lowest program counter, which reconverges structured code.

        A group whose basic block is for whole warps gives way to lanes of its warps that will come there as well.
        """
        if len(ready) > 1 and self.collective:
            for index in sorted(ready):
                if index == len(self.code) or not self.code[index].collective or not self._expects(ready, index):
                    return index
        return min(ready)

    def _expects(self, ready: Groups, index: int) -> bool:
        """Other lanes of the group's warps are ready to run, and cannot miss its basic block."""
        mine = self._warps_of(ready[index])
        for other, mask in ready.items():
            comes = other not in {index, len(self.code)} and self.code[other].leads_to >> index & 1
            if comes and (mine & self._warps_of(mask)).any():
                return True
        return False

    def _warps_of(self, mask: Bool | None) -> NDArray[np.uint32]:
        lanes = np.broadcast_to(True if mask is None else mask, self.shape)
        return np.minimum(ballot(lanes, self.batch.threads), 1)

    def _count_steps(self, code: Block) -> None:
        self.steps += len(code.instructions)
        if self.steps > self.step_limit:
            raise KernelFaultError(
                "endless loop",
                code.where,
                f"still running after {self.step_limit} instructions, block {self.batch.block_name(0)}",
            )

    def _leave(self, agent: _Agent, index: int, mask: Bool | None) -> None:
        """Send the lanes of a basic block where its last instruction tells them to go."""
        code = self.code[index]
        if code.guard is not None:
            self._branch(agent, index, mask)
        elif code.end == "fall":
            self._join(agent.ready, index + 1, mask)
        elif code.end == "bar":
            self._join(agent.parked, index + 1, mask)
        elif code.end == "bra":
            self._join(agent.ready, code.target, mask)

    def _branch(self, agent: _Agent, index: int, mask: Bool | None) -> None:
        """A guarded branch or exit: the lanes part, unless they agree."""
        code = self.code[index]
        assert code.guard is not None
        slot, negated = code.guard
        predicate = self.batch.registers[slot]
        predicate = ~predicate if negated else predicate
        taken = predicate if mask is None else mask & predicate
        if not taken.any():
            self._join(agent.ready, index + 1, mask)
            return
        stayed = ~predicate if mask is None else mask & ~predicate
        all_taken = not stayed.any()
        if code.end == "bra":
            self._join(agent.ready, code.target, mask if all_taken else taken)
        if not all_taken:
            self._join(agent.ready, index + 1, stayed)

    @staticmethod
    def _join(groups: Groups, index: int, mask: Bool | None) -> None:
        if index in groups:
            old = groups[index]
            both = None if old is None or mask is None else old | mask
            mask = None if both is None or both.all() else both
        groups[index] = mask

    def _release(self, agents: list[_Agent]) -> None:
        """Let the parked lanes go on, when those of each threadblock all wait behind the same barrier."""
        if self.batch.program.named_barriers:
            self._release_named(agents)
            return
        waiting: dict[int, Bool] = {}
        for agent in agents:
            for index, mask in agent.parked.items():
                lanes = np.broadcast_to(True if mask is None else mask, self.shape)
                waiting[index] = waiting[index] | lanes if index in waiting else lanes
        if not waiting:
            return
        self._refuse_divergence(waiting)
        arrived = np.zeros(self.batch.blocks, np.bool_)
        for lanes in waiting.values():
            arrived |= lanes.any(axis=0)
        self.batch.shared.close(arrived)
        self.batch.barriers.passed += int(np.count_nonzero(arrived))
        for agent in agents:
            agent.ready, agent.parked = agent.parked, {}

    def _release_named(self, agents: list[_Agent]) -> None:
        """The same for barriers with names: those go on whose barrier is over."""
        alive = np.zeros(self.shape, np.bool_)
        for agent in agents:
            for mask in agent.parked.values():
                alive |= np.broadcast_to(True if mask is None else mask, self.shape)
        if not alive.any():
            return
        barriers = self.batch.barriers
        barriers.settle(alive)
        going = barriers.take()
        if not going.any():
            barriers.deadlock()
        if (going == going[:, :1]).all():
            # Masks stay one column wide while all blocks do the same.
            going = going[:, :1]
        for agent in agents:
            parked, agent.parked = agent.parked, {}
            for index, mask in parked.items():
                lanes = np.ones((self.shape[0], 1), np.bool_) if mask is None else mask
                for groups, some in ((agent.ready, lanes & going), (agent.parked, lanes & ~going)):
                    if some.any():
                        groups[index] = some

    def _refuse_divergence(self, waiting: dict[int, Bool]) -> None:
        places = sorted(waiting)
        for position, first in enumerate(places):
            for second in places[position + 1 :]:
                both = waiting[first].any(axis=0) & waiting[second].any(axis=0)
                if not both.any():
                    continue
                column = int(np.flatnonzero(both)[0])
                one, other = (int(np.flatnonzero(waiting[p][:, column])[0]) for p in (first, second))
                # A group is parked at the basic block after the one that its barrier ends.
                here, there = (self.code[p - 1].where for p in (first, second))
                raise KernelFaultError(
                    "divergent barrier",
                    here,
                    f"block {self.batch.block_name(column)}: thread {self.batch.thread_name(one)} waits here, thread "
                    f"{self.batch.thread_name(other)} at {there}. All threads of a block must reach the same barrier.",
                )
