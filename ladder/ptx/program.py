"""Instructions -> basic blocks of generated Python, with liveness, ready to run over arrays of lanes.

Every register is a slot of a list ``R`` holding one numpy array that broadcasts to (threads, blocks): a value that
depends on the thread alone is (T, 1), on the threadblock alone (1, B), on neither (1, 1). Arrays are never changed in
place, so an array's identity names its contents.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ladder.errors import UnsupportedPtxError
from ladder.ptx import arith, halves, mma
from ladder.ptx.barriers import barrier_kind, is_plain, with_results
from ladder.ptx.emit import Emitter
from ladder.ptx.fuse import fuse_shared
from ladder.ptx.opcodes import emit
from ladder.ptx.opcodes_warp import COLLECTIVES
from ladder.ptx.site import DTYPE, LOCAL_BASE, Site
from ladder.ptx.syntax import Function, Instruction, Symbol, destinations, registers_of, sources
from ladder.ptx.work import Fp32, fp32_of

__all__ = ["Block", "Program", "build"]

Array = NDArray[Any]

BRANCHES = ("bra", "ret", "exit")
WAITING = ("sync", "red")


@dataclass(slots=True)
class Block:
    """A basic block. ``run`` serves all lanes, ``run_masked`` some of them.

    ``end`` is ``"fall"``, ``"bra"``, ``"ret"`` or ``"bar"``; ``guard`` the slot of the branch's predicate and whether
    it is negated; ``live_in`` a bit per slot that may be read from here on; ``leads_to`` a bit per block that lanes
    cannot miss on their way from here to the end. ``collective`` says that lanes of a warp had better run it together,
    ``leaves`` that it does nothing but end. ``fp32`` is how many FP32 instructions each of its lanes executes, None
    when that depends on a predicate.
    """

    start: int
    instructions: list[Instruction]
    end: str = "fall"
    guard: tuple[int, bool] | None = None
    target: int = -1
    live_in: int = 0
    where: str = ""
    leads_to: int = 0
    collective: bool = False
    leaves: bool = False
    fp32: Fp32 | None = (0, 0, 0)
    run: Callable[[Any, list[Any]], None] = field(default=lambda _m, _r: None)
    run_masked: Callable[[Any, list[Any], Any], None] = field(default=lambda _m, _r, _k: None)


@dataclass(slots=True)
class Program:
    """A function ready to run.

    ``storage`` holds the numpy type of each slot. ``named_barriers`` says that it has barriers other than
    ``__syncthreads()``, ``partial_syncs`` that it has those or ``__syncwarp()``.
    """

    function: Function
    blocks: list[Block]
    sites: list[Site]
    slots: dict[str, int]
    storage: list[str]
    constants: dict[int, Array]
    addresses: dict[str, int]
    static_smem_bytes: int
    local_bytes: int
    named_barriers: bool
    partial_syncs: bool

    @property
    def fp32_known(self) -> bool:
        """Whether no FP32 instruction has a predicate, so that counting lanes counts all of them."""
        return all(block.fp32 is not None for block in self.blocks)


def build(function: Function) -> Program:
    """Split, analyse and generate.

    Raises:
        UnsupportedPtxError: an opcode or operand that the emulator does not know, with its source line.
    """
    function = with_results(function)
    named = any(barrier_kind(i) and not is_plain(i) for i in function.instructions)
    blocks, block_at = _split(function)
    addresses, smem, local = _lay_out(function)
    emitter = Emitter(function, addresses)
    fusions = fuse_shared(function, [(b.start, len(b.instructions)) for b in blocks], addresses)
    source = []
    for index, block in enumerate(blocks):
        _terminate(function, block, block_at, emitter)
        kept = block.end == "fall" or (block.end == "bar" and named)
        body = block.instructions if kept else block.instructions[:-1]
        block.collective = any(_is_collective(i, named=named) for i in block.instructions)
        for masked in (False, True):
            emitter.begin(masked=masked)
            for position, instruction in enumerate(body):
                emit(emitter, instruction, block.start + position, fusions.get(block.start + position))
            name, extra = (f"masked_{index}", ", M") if masked else (f"full_{index}", "")
            source.append(
                f"def {name}(m, R{extra}):\n" + "".join(f"    {line}\n" for line in (emitter.lines or ["pass"]))
            )
    namespace: dict[str, Any] = {"np": np, "A": arith, "H": halves, "T": mma, "S": emitter.sites}
    namespace |= {name: getattr(np, name) for name in set(DTYPE.values()) if name != "bool"}
    exec(compile("\n".join(source), f"<{function.name}>", "exec"), namespace)
    for index, block in enumerate(blocks):
        block.run, block.run_masked = namespace[f"full_{index}"], namespace[f"masked_{index}"]
    _liveness(blocks, emitter.slots)
    _post_dominators(blocks)
    return Program(
        function=function,
        blocks=blocks,
        sites=emitter.sites,
        slots=emitter.slots,
        storage=emitter.storage,
        constants=emitter.constants,
        addresses=addresses,
        static_smem_bytes=smem,
        local_bytes=local,
        named_barriers=named,
        partial_syncs=named or any(i.op == "bar.warp.sync" for i in function.instructions),
    )


def _is_collective(instruction: Instruction, *, named: bool) -> bool:
    barrier = named and bool(barrier_kind(instruction))
    return barrier or instruction.parts[0] in COLLECTIVES or instruction.op == "bar.warp.sync"


def _split(function: Function) -> tuple[list[Block], dict[int, int]]:
    code = function.instructions
    leaders = {0, *function.labels.values()}
    for i, instruction in enumerate(code):
        if instruction.parts[0] in BRANCHES or barrier_kind(instruction) in WAITING:
            leaders.add(i + 1)
    starts = sorted(s for s in leaders if s < len(code))
    blocks = [
        Block(start=s, instructions=code[s:e], fp32=fp32_of(code[s:e]))
        for s, e in zip(starts, [*starts[1:], len(code)], strict=True)
    ]
    return blocks, {block.start: index for index, block in enumerate(blocks)}


def _terminate(function: Function, block: Block, block_at: dict[int, int], emitter: Emitter) -> None:
    last = block.instructions[-1]
    block.where = function.where(last)
    kind = last.parts[0]
    if kind == "bra":
        label = last.operands[0]
        if not isinstance(label, Symbol) or label.name not in function.labels:
            raise UnsupportedPtxError(f"{block.where}: PTX `{last.op}`: branch target {label}")
        block.end = "bra"
        # A label after the last instruction means the end of the function.
        block.target = block_at.get(function.labels[label.name], len(block_at))
    elif kind in {"ret", "exit"}:
        block.end = "ret"
    elif barrier_kind(last) in WAITING:
        if last.guard:
            raise UnsupportedPtxError(f"{block.where}: PTX `{last.op}`: a barrier with a guard")
        block.end = "bar"
    else:
        return
    if last.guard:
        block.guard = (emitter.slot(last.guard[0]), last.guard[1])


def _lay_out(function: Function) -> tuple[dict[str, int], int, int]:
    """Addresses of shared and local variables: one after the other as declared, dynamic shared memory last.

    ptxas does the same, so that the alignment of an array is what it is on the GPU.
    """
    addresses = {}
    top = {"shared": 0, "local": LOCAL_BASE}
    for variable in sorted(function.variables, key=lambda v: v.size == 0):
        base = -(-top[variable.space] // variable.align) * variable.align
        addresses[variable.name] = base
        top[variable.space] = base + variable.size
    return addresses, top["shared"], top["local"] - LOCAL_BASE


def _liveness(blocks: list[Block], slots: dict[str, int]) -> None:
    """Backward data flow to a fixed point (Aho et al., Compilers, section 9.2.5), with bit sets."""
    uses, defs = [], []
    for block in blocks:
        use = definite = 0
        for instruction in block.instructions:
            written = destinations(instruction)
            bits = sum({1 << slots[n] for o in sources(instruction) for n in registers_of(o) if n in slots})
            kills = sum({1 << slots[n] for o in written for n in registers_of(o) if n in slots})
            if instruction.guard:
                # A guarded write leaves the old value in the other lanes, so it reads it too.
                bits |= 1 << slots[instruction.guard[0]] | kills
            use |= bits & ~definite
            definite |= kills
        uses.append(use)
        defs.append(definite)
    changed = True
    while changed:
        changed = False
        for index in range(len(blocks) - 1, -1, -1):
            block = blocks[index]
            out = 0
            for successor in _following(blocks, index):
                if successor < len(blocks):
                    out |= blocks[successor].live_in
            live = uses[index] | (out & ~defs[index])
            if live != block.live_in:
                block.live_in = live
                changed = True


def _following(blocks: list[Block], index: int) -> list[int]:
    """The blocks that lanes may run next; the number of blocks stands for the end."""
    block = blocks[index]
    following = [index + 1] if block.end in {"fall", "bar"} or block.guard else []
    if block.end == "bra":
        following.append(block.target)
    if block.end == "ret":
        following.append(len(blocks))
    return following


def _post_dominators(blocks: list[Block]) -> None:
    """Which blocks every way to the end leads through (Aho et al., section 9.6.1, on the reversed graph)."""
    everything = (1 << len(blocks)) - 1
    leads_to = [everything] * len(blocks) + [0]
    changed = True
    while changed:
        changed = False
        for index in range(len(blocks) - 1, -1, -1):
            after = everything
            for successor in _following(blocks, index):
                after &= leads_to[successor]
            after |= 1 << index
            if after != leads_to[index]:
                leads_to[index] = after
                changed = True
    for block, found in zip(blocks, leads_to, strict=False):
        block.leads_to = found
        block.leaves = block.end == "ret" and block.guard is None and len(block.instructions) == 1
