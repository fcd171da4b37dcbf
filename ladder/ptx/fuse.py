"""What ptxas does to shared loads and stores: neighbouring words of one thread become one wider request.

PTX keeps the accesses of an unrolled loop apart; the machine code issues one access of 8 or 16 bytes where it can prove
alignment. Wavefronts are those of the machine code, so the counters must see the merged requests. The rules were read
off some 300 kernels, alike for sm_75, sm_80 and sm_90, and are tested against the LDS and STS widths of the cubin:

* Loads of 4 or 8 bytes in one basic block off one base register. An aligned window of 16 bytes of which at least three
  words are asked for becomes one LDS.128 (a gap is read and dropped), an aligned pair of words one LDS.64.
* Of a vector load only the words that are read count: one, or an aligned pair, makes a narrower request. Where a pragma
  names them (``used_bytes_mask``), no gap beside them is closed: a word joins the other of its pair, a pair the other
  pair. Words that a 16-byte load brings anyway are not loaded again.
* Stores of 2, 4 or 8 bytes that follow each other within one window of four of them, 16 bytes at most. All of the
  window becomes one request, else an aligned pair does. A store to any other place begins anew.
* A window is as wide as the base is known to be aligned. A shared array begins where the declarations before it end.
* A shared store, atomic, barrier, fence, asynchronous copy or a division that becomes a call ends what can merge; for
  stores so does a shared load. Volatile and guarded accesses never merge.

PTX does not show what ptxas decides later. It may turn short branches into predicates and unroll loops, and then merges
across PTX's basic blocks. Up to sm_89 it may keep an address whole that depends on kernel parameters alone, which
matters where the array begins off a multiple of 16. It may put three dummy loads (``LDS RZ``) before a ``cp.async``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ladder.ptx.alignment import trailing_zeros
from ladder.ptx.syntax import (
    Address,
    Function,
    Immediate,
    Instruction,
    Operand,
    Register,
    Symbol,
    Vector,
    destinations,
    registers_of,
    sources,
)

__all__ = ["Fusion", "fuse_shared"]

WINDOW_BYTES = 16
"""The widest access of one thread."""

FOLDS_SYMBOLS_BEFORE = 90
"""Up to sm_89 a shared array's address is a constant of the instruction; from sm_90 on it is part of the base."""

_ABSOLUTE = 64
"""Low bits known to be zero of address 0, from which addresses without a base count."""

_CALLS = frozenset(["div", "sqrt", "rcp", "rem"])
_ROUNDED = frozenset(["rn", "rz", "rm", "rp", "s64", "u64"])
_FENCES = frozenset(["bar", "barrier", "fence", "membar", "nanosleep", "cp", "mbarrier", "stmatrix"])
_STRONG = frozenset(["volatile", "relaxed", "acquire", "release", "acq_rel"])


@dataclass(frozen=True, slots=True)
class Fusion:
    """``width_bytes`` of the merged request on its first access, 0 on those it absorbs.

    ``offset`` is where the request starts, relative to the first access's address register.
    """

    width_bytes: int
    offset: int


class _Place(NamedTuple):
    """Where an access begins: ``start`` bytes past ``base``, whose low ``zeros`` bits are 0.

    ``shift`` is how much of ``start`` lies in the address register rather than in the instruction.
    """

    base: tuple[str, int]
    zeros: int
    start: int
    shift: int


class _Access(NamedTuple):
    """``masked``: a pragma says that not all bytes of the instruction are used."""

    at: int
    place: _Place
    size: int
    masked: bool = False

    def units(self, unit: int) -> range:
        return range(self.place.start // unit, (self.place.start + self.size) // unit)


@dataclass(slots=True)
class _Run:
    """What may still merge, within one basic block."""

    loads: dict[tuple[tuple[str, int], bool], list[_Access]] = field(default_factory=lambda: defaultdict(list))
    """By base, and apart for 8-byte numbers, which merge with each other only."""

    stores: list[_Access] = field(default_factory=list)

    def end(self) -> Iterator[tuple[int, Fusion]]:
        for accesses in self.loads.values():
            yield from _merge_loads(accesses)
        yield from self.end_stores()
        self.loads.clear()

    def end_stores(self) -> Iterator[tuple[int, Fusion]]:
        if self.stores:
            yield from _merge_stores(self.stores)
        self.stores = []

    def store(self, access: _Access) -> Iterator[tuple[int, Fusion]]:
        if self.stores:
            first = self.stores[0]
            width = min(4 * first.size, WINDOW_BYTES)
            same = first.place.base == access.place.base
            if not same or first.place.start // width != access.place.start // width:
                yield from self.end_stores()
        self.stores.append(access)


def fuse_shared(
    function: Function, spans: Sequence[tuple[int, int]], addresses: Mapping[str, int]
) -> dict[int, Fusion]:
    """Merged shared accesses by instruction index.

    Args:
        function: what the accesses are in; its ``target`` decides how addresses are folded.
        spans: (start, length) of the basic blocks.
        addresses: where the shared variables lie.
    """
    out: dict[int, Fusion] = {}
    places = _Places(function, addresses)
    read = {name for i in function.instructions for o in sources(i) for name in registers_of(o)}
    for start, length in spans:
        run = _Run()
        for index in range(start, start + length):
            instruction = function.instructions[index]
            kind, strong = instruction.parts[0], bool(_STRONG & set(instruction.parts))
            scalar = _scalar_bytes(instruction)
            size = scalar * _elements(instruction)
            plain = "shared" in instruction.parts and not strong and instruction.guard is None and size < WINDOW_BYTES
            if kind == "ld" and _may_be_shared(instruction):
                out |= run.end_stores()
                if size >= 4 and "shared" in instruction.parts and not strong and instruction.guard is None:
                    access = _what_is_read(_Access(index, places.of(instruction.operands[1]), size), instruction, read)
                    if access.size < size:
                        out[index] = Fusion(access.size, access.place.start - access.place.shift)
                    if not access.masked or access.size < WINDOW_BYTES:
                        run.loads[access.place.base, scalar == 8].append(access)
            elif kind == "st" and _may_be_shared(instruction):
                for accesses in run.loads.values():
                    out |= _merge_loads(accesses)
                run.loads.clear()
                if plain and size >= 2:
                    out |= run.store(_Access(index, places.of(instruction.operands[0]), size))
                else:
                    out |= run.end_stores()
            elif instruction.op == "cp.async.commit_group" or kind == "ldmatrix":
                out |= run.end_stores()
            elif _ends_all(instruction):
                out |= run.end()
            places.passed(instruction)
        out |= run.end()
    return out


def _scalar_bytes(instruction: Instruction) -> int:
    return int("".join(c for c in instruction.parts[-1] if c.isdigit()) or 0) // 8


def _elements(instruction: Instruction) -> int:
    return next((int(part[1:]) for part in instruction.parts if part in {"v2", "v4"}), 1)


def _may_be_shared(instruction: Instruction) -> bool:
    """It names shared memory, or no space at all."""
    return not {"global", "local", "param", "const"} & set(instruction.parts)


def _ends_all(instruction: Instruction) -> bool:
    kind, parts = instruction.parts[0], set(instruction.parts)
    is_call = kind in _CALLS and bool(_ROUNDED & parts)
    return kind in _FENCES or is_call or (kind in {"red", "atom"} and _may_be_shared(instruction))


def _what_is_read(access: _Access, instruction: Instruction, read: Container[str]) -> _Access:
    """A vector load cut down to the pair of words, or the one word, that is read of it; else as it is."""
    target, mask = instruction.operands[0], instruction.used_bytes
    if not isinstance(target, Vector) or access.size != 4 * len(target.items):
        return access
    if mask is None:
        words = [n for n, item in enumerate(target.items) if any(name in read for name in registers_of(item))]
    else:
        words = [n for n in range(len(target.items)) if mask >> 4 * n & 0xF]
        access = access._replace(masked=True)
    if len(words) == 1 or words in ([0, 1], [2, 3]):
        place = access.place._replace(start=access.place.start + 4 * words[0])
        return access._replace(place=place, size=4 * len(words))
    return access


def _merge_loads(accesses: Sequence[_Access]) -> Iterator[tuple[int, Fusion]]:
    full = {access.place.start: access for access in accesses if access.size == WINDOW_BYTES}
    windows: dict[int, list[_Access]] = defaultdict(list)
    for access in accesses:
        inside = (f for start, f in full.items() if 0 <= access.place.start - start <= WINDOW_BYTES - access.size)
        if access.size == WINDOW_BYTES:
            continue
        whole = None if access.masked else next(inside, None)
        if whole is None:
            windows[access.place.start // WINDOW_BYTES].append(access)
        else:  # what a 16-byte load brings anyway is not loaded again
            first, second = sorted((whole, access))
            offset = whole.place.start - first.place.shift
            yield first.at, Fusion(WINDOW_BYTES, offset)
            yield second.at, Fusion(0, offset)
    for window, here in windows.items():
        yield from _merge_narrow_loads(here, window)


def _merge_narrow_loads(accesses: Sequence[_Access], window: int) -> Iterator[tuple[int, Fusion]]:
    """What becomes of loads of 4 and 8 bytes that begin in one window of 16."""
    zeros = accesses[0].place.zeros
    plain = [access for access in accesses if not access.masked]
    known = _words(plain)
    if zeros >= 4 and len(known) >= 3:
        yield from _request(plain, WINDOW_BYTES, window)
        return
    pairs = []
    for number in (2 * window, 2 * window + 1):
        pair = [access for access in accesses if access.place.start // 8 == number]
        pair = [access for access in pair if not access.masked or not known & _words([access])]
        if zeros >= 3 and len(_words(pair)) == 2:
            pairs.append((number, pair))
    joined = [access for _, pair in pairs if len(pair) > 1 for access in pair]
    if zeros >= 4 and (len(pairs) == 2 or len(known | _words(joined)) >= 3):
        yield from _request([*plain, *(access for _, pair in pairs for access in pair)], WINDOW_BYTES, window)
        return
    for number, pair in pairs:
        yield from _request(pair, 8, number)


def _words(accesses: Iterable[_Access]) -> set[int]:
    return {word for access in accesses for word in access.units(4)}


def _merge_stores(accesses: Sequence[_Access]) -> Iterator[tuple[int, Fusion]]:
    zeros, unit = accesses[0].place.zeros, accesses[0].size
    units: dict[int, _Access] = {}
    for access in accesses:
        # The first store sets the unit; a narrower one goes its own way.
        units |= dict.fromkeys(access.units(unit) if access.size % unit == 0 else (), access)
    width = min(4 * unit, WINDOW_BYTES)
    if 1 << zeros >= width and len(units) == width // unit:
        yield from _request(list(units.values()), width, accesses[0].place.start // width)
    elif 1 << zeros >= 2 * unit:
        for pair in sorted({number // 2 for number in units}):
            if 2 * pair in units and 2 * pair + 1 in units:
                yield from _request([units[2 * pair], units[2 * pair + 1]], 2 * unit, pair)


def _request(members: Sequence[_Access], width: int, number: int) -> Iterator[tuple[int, Fusion]]:
    """One request of ``width`` bytes, the ``number``-th from the base, on the earliest of its members."""
    ordered = sorted(set(members))
    if len(ordered) < 2:
        return
    offset = number * width - ordered[0].place.shift
    yield ordered[0].at, Fusion(width, offset)
    for member in ordered[1:]:
        yield member.at, Fusion(0, offset)


class _Places:
    """Splits addresses into a base and a constant, as far as ptxas folds constants into the instruction."""

    def __init__(self, function: Function, addresses: Mapping[str, int]) -> None:
        self._addresses = addresses
        self._folds_symbols = function.target < FOLDS_SYMBOLS_BEFORE
        self._zeros = {"": _ABSOLUTE, **trailing_zeros(function, addresses)}
        self._versions: Counter[str] = Counter()
        written = [(name, i) for i in function.instructions for o in destinations(i) for name in registers_of(o)]
        times = Counter(name for name, _ in written)
        self._rewritten = {name for name, count in times.items() if count > 1}
        self._write = {name: i for name, i in written if name not in self._rewritten and i.guard is None}

    def of(self, operand: Operand) -> _Place:
        """Where the memory operand of an access points."""
        assert isinstance(operand, Address)
        if not isinstance(operand.base, Register):
            held = operand.offset if operand.base is None else self._addresses.get(operand.base.name, 0)
            return _Place(("", 0), _ABSOLUTE, held + (operand.offset if operand.base else 0), held)
        base, held = operand.base.name, 0
        while (step := self._before(base)) is not None:
            base, held = step[0], held + step[1]
        # The value that a rewritten register had elsewhere is not the one it has now: only its alignment carries over.
        key = operand.base.name if self._rewritten & set(base.split("*")) else base
        return _Place((key, self._versions[key]), self._zeros.get(base, 0), held + operand.offset, held)

    def passed(self, instruction: Instruction) -> None:
        """Registers that the instruction writes have a new value from here on."""
        for operand in destinations(instruction):
            self._versions.update(registers_of(operand))

    def _before(self, name: str) -> tuple[str, int] | None:
        """What a register was before a constant was added to it, and the constant; "" when nothing but a constant."""
        write = self._write.get(name)
        if write is None:
            return None
        *others, last = write.operands[1:]
        constant = self._constant(last)
        match write.parts[0]:
            case "mov" if isinstance(last, Immediate | Symbol) and constant is not None:
                return "", constant
            case "add" if constant is None and isinstance(last, Register) and self._constant(others[0]) is not None:
                return last.name, self._constant(others[0]) or 0
            case "add" | "sub" if constant is not None and isinstance(others[0], Register):
                return others[0].name, constant if write.parts[0] == "add" else -constant
            case "or" if constant is not None and isinstance(others[0], Register):
                disjoint = 0 <= constant < 1 << self._zeros.get(others[0].name, 0)
                return (others[0].name, constant) if disjoint else None
            case "mad" if constant is not None and "lo" in write.parts:
                product = "*".join(registers_of(others[0]) + registers_of(others[1])) + f"*{others}"
                self._zeros[product] = self._zeros_of(others[0]) + self._zeros_of(others[1])
                return product, constant
        return None

    def _zeros_of(self, operand: Operand) -> int:
        if isinstance(operand, Immediate):
            return (operand.value & -operand.value).bit_length() - 1 if operand.value else _ABSOLUTE
        return self._zeros.get(operand.name, 0) if isinstance(operand, Register) else 0

    def _constant(self, operand: Operand) -> int | None:
        if isinstance(operand, Immediate):
            return operand.value
        if isinstance(operand, Symbol):
            return self._addresses.get(operand.name) if self._folds_symbols else None
        write = self._write.get(operand.name) if isinstance(operand, Register) else None
        if write is None or write.parts[0] != "mov" or isinstance(write.operands[1], Register):
            return None
        return self._constant(write.operands[1])
