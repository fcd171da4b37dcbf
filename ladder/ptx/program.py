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
from ladder.ptx import arith
from ladder.ptx.emit import Emitter
from ladder.ptx.fuse import fuse_shared_loads
from ladder.ptx.opcodes import emit
from ladder.ptx.site import DTYPE, LOCAL_BASE, Site
from ladder.ptx.syntax import Function, Immediate, Instruction, Symbol, destinations, registers_of, sources

__all__ = ["Block", "Program", "build"]

Array = NDArray[Any]

BRANCHES = ("bra", "ret", "exit")
BARRIERS = (
    "bar.sync",
    "barrier.sync",
    "barrier.sync.aligned",
    "bar.cta.sync",
    "barrier.cta.sync",
    "barrier.cta.sync.aligned",
)


@dataclass(slots=True)
class Block:
    """A basic block. ``run`` serves all lanes, ``run_masked`` some of them.

    ``end`` is ``"fall"``, ``"bra"``, ``"ret"`` or ``"bar"``; ``guard`` the slot of the branch's predicate and whether
    it is negated; ``live_in`` a bit per slot that may be read from here on.
    """

    start: int
    instructions: list[Instruction]
    end: str = "fall"
    guard: tuple[int, bool] | None = None
    target: int = -1
    live_in: int = 0
    where: str = ""
    run: Callable[[Any, list[Any]], None] = field(default=lambda _m, _r: None)
    run_masked: Callable[[Any, list[Any], Any], None] = field(default=lambda _m, _r, _k: None)


@dataclass(slots=True)
class Program:
    """A function ready to run."""

    function: Function
    blocks: list[Block]
    sites: list[Site]
    slots: dict[str, int]
    constants: dict[int, Array]
    addresses: dict[str, int]
    static_smem_bytes: int
    local_bytes: int


def build(function: Function) -> Program:
    """Split, analyse and generate.

    Raises:
        UnsupportedPtxError: an opcode or operand that the emulator does not know, with its source line.
    """
    blocks, block_at = _split(function)
    addresses, smem, local = _lay_out(function)
    emitter = Emitter(function, addresses)
    fusions = fuse_shared_loads(function, [(b.start, len(b.instructions)) for b in blocks], addresses)
    source = []
    for index, block in enumerate(blocks):
        _terminate(function, block, block_at, emitter)
        body = block.instructions[:-1] if block.end != "fall" else block.instructions
        for masked in (False, True):
            emitter.begin(masked=masked)
            for position, instruction in enumerate(body):
                emit(emitter, instruction, block.start + position, fusions.get(block.start + position))
            name, extra = (f"masked_{index}", ", M") if masked else (f"full_{index}", "")
            source.append(
                f"def {name}(m, R{extra}):\n" + "".join(f"    {line}\n" for line in (emitter.lines or ["pass"]))
            )
    namespace: dict[str, Any] = {"np": np, "A": arith, "S": emitter.sites}
    namespace |= {name: getattr(np, name) for name in set(DTYPE.values()) if name != "bool"}
    exec(compile("\n".join(source), f"<{function.name}>", "exec"), namespace)
    for index, block in enumerate(blocks):
        block.run, block.run_masked = namespace[f"full_{index}"], namespace[f"masked_{index}"]
    _liveness(blocks, emitter.slots)
    return Program(
        function=function,
        blocks=blocks,
        sites=emitter.sites,
        slots=emitter.slots,
        constants=emitter.constants,
        addresses=addresses,
        static_smem_bytes=smem,
        local_bytes=local,
    )


def _split(function: Function) -> tuple[list[Block], dict[int, int]]:
    code = function.instructions
    leaders = {0, *function.labels.values()}
    for i, instruction in enumerate(code):
        if instruction.parts[0] in BRANCHES or instruction.op in BARRIERS:
            leaders.add(i + 1)
    starts = sorted(s for s in leaders if s < len(code))
    blocks = [Block(start=s, instructions=code[s:e]) for s, e in zip(starts, [*starts[1:], len(code)], strict=True)]
    return blocks, {block.start: index for index, block in enumerate(blocks)}


def _terminate(function: Function, block: Block, block_at: dict[int, int], emitter: Emitter) -> None:
    last = block.instructions[-1]
    block.where = function.where(last)
    kind = last.parts[0]
    if kind == "bra":
        label = last.operands[0]
        if not isinstance(label, Symbol) or label.name not in function.labels:
            raise UnsupportedPtxError(f"{block.where}: branch target `{label}`")
        block.end = "bra"
        # A label after the last instruction means the end of the function.
        block.target = block_at.get(function.labels[label.name], len(block_at))
    elif kind in {"ret", "exit"}:
        block.end = "ret"
    elif last.op in BARRIERS:
        if last.guard or [o for o in last.operands if o != Immediate(0)]:
            raise UnsupportedPtxError(f"{block.where}: `{last.op}` with a guard, a name other than 0 or a thread count")
        block.end = "bar"
    else:
        return
    if last.guard:
        block.guard = (emitter.slot(last.guard[0]), last.guard[1])


def _lay_out(function: Function) -> tuple[dict[str, int], int, int]:
    """Addresses of shared and local variables; 16-byte steps, as ptxas aligns what it vectorises."""
    addresses = {}
    top = {"shared": 0, "local": LOCAL_BASE}
    for variable in sorted(function.variables, key=lambda v: v.size == 0):
        step = max(variable.align, 16)
        base = -(-top[variable.space] // step) * step
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
            following = []
            if block.end in {"fall", "bar"} or block.guard:
                following.append(index + 1)
            if block.end == "bra":
                following.append(block.target)
            out = 0
            for successor in following:
                if successor < len(blocks):
                    out |= blocks[successor].live_in
            live = uses[index] | (out & ~defs[index])
            if live != block.live_in:
                block.live_in = live
                changed = True
