"""Machine code that takes the SM's data pipe without accessing memory, read from the cubin itself.

PTX names a thread index once; ptxas may read the special register anew in every turn of a loop rather than keep it. It
turns branches around a load or a store into a predicate, and then a warp none of whose lanes takes part issues it all
the same. For sm_90 it also puts three shared loads that no lane ever executes before some copies. All of these go
through the data pipe, so the emulator, which runs PTX, asks the machine code how many there are. No disassembler is
needed for that; a test compares with nvdisasm's listing.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

__all__ = ["PipeUse", "pipe_use"]

_S2R, _LDS, _BAR, _BRA, _LDG, _STG = 0x919, 0x984, 0xB1D, 0x947, 0x981, 0x986
_THREAD_INDEX = (0x20, 0x21, 0x22, 0x23)
"""SR_TID, SR_TID.X, .Y and .Z. The block's index, SR_CTAID, does not come through the data pipe."""

_ALWAYS, _NEVER = 0x7, 0xF
"""The predicates PT and !PT."""

_BYTES = 16
_FIRST_WITH_SPLIT_TARGETS = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class PipeUse:
    """Instructions of a warp: outside the mainloop, and in one turn of it.

    The mainloop is the longest loop with a barrier in it; its barriers tell how often it turned. In loops without one
    instructions count once.

    Attributes:
        once, each_turn: instructions that always take a wavefront.
        barriers_once, barriers_each_turn: barriers.
        loads_each_turn: predicated global loads of the mainloop; 0 if the kernel has others, or any behind a branch,
            so that how often they are issued is not known.
        stores: predicated global stores after it; 0 if any lies behind a branch.
        other_stores: stores without a predicate.
    """

    once: int = 0
    each_turn: int = 0
    barriers_once: int = 0
    barriers_each_turn: int = 0
    loads_each_turn: int = 0
    stores: int = 0
    other_stores: int = 0

    def wavefronts(self, *, warps: int, blocks: int, barriers: int, loads: int, stores: int) -> int:
        """Of a launch's threadblocks.

        Args:
            warps: of each block.
            blocks: how many there are.
            barriers: that they passed in all.
            loads: global requests of warps with any lane that took part.
            stores: the same.
        """
        turns = 0
        if self.barriers_each_turn:
            turns = max(0, barriers - self.barriers_once * blocks) // self.barriers_each_turn
        idle_loads = max(0, warps * turns * self.loads_each_turn - loads) if self.loads_each_turn else 0
        # Those without a predicate are taken to be as often needed as the others.
        mine = stores * self.stores // max(1, self.stores + self.other_stores)
        idle_stores = max(0, warps * blocks * self.stores - mine)
        return warps * (self.once * blocks + self.each_turn * turns) + idle_loads + idle_stores


def pipe_use(cubin: bytes, kernel: str, *, arch: str) -> PipeUse:
    """What ``kernel`` (its mangled name) takes.

    Args:
        cubin: an ELF file of compute capability 7.0 or later: 16 bytes an instruction.
        kernel: the entry's mangled name.
        arch: such as ``"sm_90"`` or ``"sm_90a"``: branches are encoded in two ways.

    Raises:
        ValueError: the cubin has no such kernel.
    """
    split = int(arch.removeprefix("sm_").rstrip("af")) >= _FIRST_WITH_SPLIT_TARGETS
    code = _section(cubin, f".text.{kernel}")
    words = [low | high << 64 for low, high in struct.iter_unpack("<QQ", code[: len(code) // _BYTES * _BYTES])]
    jumps = [(i, to) for i, word in enumerate(words) if (to := _target(word, i, split)) >= 0]
    barriers, loads, stores = (_those(words, opcode) for opcode in (_BAR, _LDG, _STG))
    taking = {i for i, word in enumerate(words) if _takes(word)}
    loops = [range(to, i + 1) for i, to in jumps if to < i]
    mainloop = max((loop for loop in loops if barriers & {*loop}), key=len, default=range(0))
    inside = {*mainloop}
    guarded = {i for i in loads | stores if words[i] >> 12 & 0xF != _ALWAYS}
    skipped = {j for i, to in jumps if i < to and (i in inside or i >= mainloop.stop) for j in range(i + 1, to)}
    plain_loads = loads <= (guarded & inside) - skipped
    plain_stores = not stores & (skipped | inside)
    return PipeUse(
        once=len(taking - inside),
        each_turn=len(taking & inside),
        barriers_once=len(barriers - inside),
        barriers_each_turn=len(barriers & inside),
        loads_each_turn=len(loads) if plain_loads else 0,
        stores=len(stores & guarded) if plain_stores else 0,
        other_stores=len(stores - guarded) if plain_stores else 0,
    )


def _those(words: list[int], opcode: int) -> set[int]:
    return {i for i, word in enumerate(words) if word & 0xFFF == opcode and word >> 12 & 0xF != _NEVER}


def _takes(word: int) -> bool:
    opcode, guard = word & 0xFFF, word >> 12 & 0xF
    if opcode == _S2R:
        return word >> 72 & 0xFF in _THREAD_INDEX
    return opcode == _LDS and guard == _NEVER


def _target(word: int, index: int, split: bool) -> int:
    """The index of the instruction that a branch goes to; -1 for all else. Offsets count from the next instruction."""
    if word & 0xFFF != _BRA:
        return -1
    offset = word >> 34 & (1 << 48) - 1
    offset -= (offset >> 47) << 48
    if split:
        offset = offset << 8 | word >> 16 & 0xFF
    return index + 1 + offset * 4 // _BYTES


def _section(elf: bytes, name: str) -> bytes:
    """The bytes of a section of a 64-bit little-endian ELF file."""
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<3H", elf, 0x3A)
    headers = [struct.unpack_from("<II4Q", elf, table + i * size) for i in range(count)]
    start = headers[names][4]
    for label, _, _, _, offset, length in headers:
        if elf[start + label : elf.index(b"\0", start + label)].decode() == name:
            return elf[offset : offset + length]
    raise ValueError(f"the cubin has no section {name}")
