"""Loads, stores and atomics: one PTX instruction -> lines of Python over numpy arrays."""

from __future__ import annotations

from ladder.ptx.checks import BITS, BYTES, FLOATS, NUMBERS, SPACES, WORDS, only, operands_of, type_of
from ladder.ptx.emit import Emitter
from ladder.ptx.site import DTYPE
from ladder.ptx.syntax import Address, Instruction, Operand, Symbol, Vector

__all__ = ["ATOMIC_OPERATIONS", "atomic", "load", "store"]

CACHE_HINTS = frozenset(
    ["ca", "cg", "cs", "cv", "lu", "wb", "wt", "nc", "volatile", "relaxed", "acquire", "release", "weak"]
) | {"gpu", "cta", "sys"}
_HINT_PREFIXES = ("L1::evict", "L1::no_allocate", "L2::evict", "L2::64B", "L2::128B", "L2::256B")
_VECTORS = frozenset(["v2", "v4"])


def _space(e: Emitter, i: Instruction) -> tuple[str, int]:
    """The state space and vector length of a load or store; refuses other modifiers."""
    for part in i.parts[1:-1]:
        if part not in CACHE_HINTS | SPACES | _VECTORS and not part.startswith(_HINT_PREFIXES):
            raise e.unsupported(i, f"modifier .{part}")
    spaces = [part.split("::")[0] for part in i.parts if part.split("::")[0] in SPACES]
    vectors = [int(part[1:]) for part in i.parts if part in _VECTORS]
    if len(spaces) > 1 or len(vectors) > 1:
        raise e.unsupported(i, "two state spaces or vector lengths")
    return (spaces[0] if spaces else "generic"), (vectors[0] if vectors else 1)


def _items(e: Emitter, i: Instruction, operand: Operand, elements: int) -> tuple[Operand, ...]:
    """The registers of a scalar or of a vector of ``elements``."""
    items = operand.items if isinstance(operand, Vector) else (operand,)
    if len(items) != elements or isinstance(operand, Vector) != (elements > 1):
        raise e.unsupported(i, f"{len(items)} registers, not {elements}")
    return items


def load(e: Emitter, i: Instruction) -> None:
    """``ld``, of kernel parameters too."""
    kind = type_of(e, i, NUMBERS | BITS | FLOATS | BYTES)
    target, source = operands_of(e, i, 2)
    if "param" in i.parts:
        e.write(target, f"m.param({_parameter(e, i, source, kind)}, {DTYPE[kind]})", kind)
        return
    space, elements = _space(e, i)
    base, offset = e.address(source)
    site = e.site(i, "ld", space, kind, elements, offset)
    e.lines.append(f"_v = m.load({site}, {base}, {e.mask})")
    for position, item in enumerate(_items(e, i, target, elements)):
        e.write(item, f"_v[{position}]", kind)


def _parameter(e: Emitter, i: Instruction, source: Operand, kind: str) -> int:
    """The offset of a kernel parameter that is loaded whole."""
    if len(i.parts) == 3 and isinstance(source, Address) and isinstance(source.base, Symbol) and not source.offset:
        for parameter in e.function.params:
            if parameter.name == source.base.name and parameter.size == int(kind[1:]) // 8:
                return parameter.offset
    raise e.unsupported(i, "parameter access")


def store(e: Emitter, i: Instruction) -> None:
    """``st``."""
    kind = type_of(e, i, NUMBERS | BITS | FLOATS | BYTES)
    space, elements = _space(e, i)
    target, source = operands_of(e, i, 2)
    base, offset = e.address(target)
    site = e.site(i, "st", space, kind, elements, offset)
    values = "".join(e.read(o, kind) + ", " for o in _items(e, i, source, elements))
    e.lines.append(f"m.store({site}, {base}, ({values}), {e.mask})")


_ATOMIC_TYPES = {
    "add": frozenset(["u32", "s32", "u64", "f32", "f64"]),
    "min": NUMBERS - {"s16", "u16"},
    "max": NUMBERS - {"s16", "u16"},
    "and": WORDS,
    "or": WORDS,
    "xor": WORDS,
    "exch": WORDS,
    "cas": WORDS,
    "inc": frozenset(["u32"]),
    "dec": frozenset(["u32"]),
}
ATOMIC_OPERATIONS = frozenset(_ATOMIC_TYPES)
_ATOMIC_HINTS = frozenset(["relaxed", "acquire", "release", "acq_rel", "gpu", "cta", "sys"])


def atomic(e: Emitter, i: Instruction) -> None:
    """``atom`` and ``red``."""
    is_red = i.parts[0] == "red"
    known = ATOMIC_OPERATIONS - {"exch", "cas"} if is_red else ATOMIC_OPERATIONS
    operation = next((part for part in i.parts[1:-1] if part in known), None)
    if operation is None:
        raise e.unsupported(i, "no known operation")
    kind = type_of(e, i, _ATOMIC_TYPES[operation])
    only(e, i, _ATOMIC_HINTS | SPACES | {"shared::cta", operation})
    spaces = [part.split("::")[0] for part in i.parts if part.split("::")[0] in SPACES]
    operands = operands_of(e, i, (2 if is_red else 3) + (operation == "cas"))
    *result, place = operands[:1] if is_red else operands[:2]
    base, offset = e.address(place)
    kept = "atom" if result and e.is_used(result[0]) else "red"
    site = e.site(i, kept, spaces[0] if spaces else "generic", kind, 1, offset, operation=operation)
    values = "".join(e.read(o, kind) + ", " for o in operands[len(result) + 1 :])
    e.lines.append(f"_v = m.atomic({site}, {base}, ({values}), {e.mask})")
    if result:
        e.write(result[0], "_v", kind)
