"""The loops of a kernel's machine code, and the one that does its work."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ladder.sass.code import Code, Instruction

__all__ = ["hottest_loop", "loops"]

_TARGET = re.compile(r"`\(([^)]+)\)")
_JUMPS = frozenset(("BRA", "JMP"))
_ENDS = frozenset(("EXIT", "RET", "BRX", "JMX", "KILL"))


def hottest_loop(code: Code) -> tuple[Instruction, ...]:
    """The loop that does the most multiply-adds a turn itself, not in loops inside it; empty without one.

    In a product that is the mainloop: what is unrolled into it counts, a wait or a remainder does not.
    """
    found = loops(code)
    work = {body: {i for i in body if code.instructions[i].fmas} for body in found}

    def own(body: frozenset[int]) -> float:
        inside = [other for other in found if other < body]
        return sum(code.instructions[i].fmas for i in work[body].difference(*inside))

    best = max(found, key=own, default=frozenset())
    return tuple(code.instructions[i] for i in sorted(best)) if best and own(best) else ()


def loops(code: Code) -> tuple[frozenset[int], ...]:
    """The natural loops, each as the indices of its instructions, in order of their first one.

    A branch to a block that every path to the branch passes closes a loop; what reaches it without passing that block
    again is the loop's body. Blocks that the compiler moved out of line belong to it, and a jump back from cold code
    does not make a loop. Source: Aho, Lam, Sethi, Ullman, "Compilers", section 9.6.
    """
    starts = _starts(code)
    blocks = [range(a, b) for a, b in zip(starts, [*starts[1:], len(code.instructions)], strict=True)]
    after = _successors(code, blocks)
    before: list[list[int]] = [[] for _ in blocks]
    for block, following in enumerate(after):
        for each in following:
            before[each].append(block)
    dominators = _dominators(after, before)
    bodies: dict[int, set[int]] = {}
    for block, following in enumerate(after):
        for head in following:
            if head in dominators.get(block, ()):
                body = bodies.setdefault(head, {head})
                pending = [block]
                while pending:
                    each = pending.pop()
                    if each not in body:
                        body.add(each)
                        pending.extend(b for b in before[each] if b in dominators)
    return tuple(frozenset(i for block in bodies[head] for i in blocks[block]) for head in sorted(bodies))


def _starts(code: Code) -> list[int]:
    count = len(code.instructions)
    leaders = {0, *code.labels.values()}
    leaders |= {i + 1 for i, each in enumerate(code.instructions) if _target(each) or each.name in _ENDS}
    return sorted(i for i in leaders if i < count)


def _target(instruction: Instruction) -> str | None:
    """The label that a branch names; calls come back, and so do not count."""
    if instruction.name not in _JUMPS or not instruction.operands:
        return None
    match = _TARGET.search(instruction.operands[-1])
    return match[1] if match else None


def _successors(code: Code, blocks: Sequence[range]) -> list[list[int]]:
    number = {block.start: index for index, block in enumerate(blocks)}
    after: list[list[int]] = []
    for index, block in enumerate(blocks):
        last = code.instructions[block[-1]]
        target = _target(last)
        following = [number[place]] if target and (place := code.labels.get(target)) in number else []
        # A branch falls through when it is guarded, names a second condition, or is taken by some lanes only.
        always = not last.guard and (
            last.name in _ENDS or (target is not None and len(last.operands) == 1 and last.opcode in _JUMPS)
        )
        if not always and index + 1 < len(blocks):
            following.append(index + 1)
        after.append(following)
    return after


def _dominators(after: Sequence[Sequence[int]], before: Sequence[Sequence[int]]) -> dict[int, frozenset[int]]:
    """By reachable block, the blocks that every path from the first one to it passes, itself among them."""
    order: list[int] = []
    pending = [0] if after else []
    while pending:
        block = pending.pop()
        if block not in order:
            order.append(block)
            pending.extend(after[block])
    everything = frozenset(order)
    found = {block: everything if block else frozenset((0,)) for block in order}
    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            paths = [found[b] for b in before[block] if b in found]
            new = frozenset.intersection(*paths) | {block}
            changed |= new != found[block]
            found[block] = new
    return found
