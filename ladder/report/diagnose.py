"""What binds a run and which lever helps, from its placement, wavefronts and law. Rules, not a list of known rungs.

The same rules judge the catalogue and a user's own kernel: nothing here looks at a name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ladder.laws import compulsory
from ladder.model import Level, Placement, Roofs
from ladder.report.causes import Cause, Launch, causes, counted
from ladder.report.signals import CONFLICTING, conflict_degree, peakless, scattered
from ladder.report.text import ROOF_NAMES, listing, number, percent, tflops, the
from ladder.roofline import IMPOSSIBLE, above, pipe_level, ridge
from ladder.store import Run

__all__ = ["Reading", "read"]

NEAR_COMPULSORY = 0.75
"""Share of the compulsory intensity from which blocking has little left to give."""

ON_THE_ROOF, FAR_BELOW = 0.8, 0.5
"""Fractions of the roof that count as reached, and as not limited by it."""

MOSTLY_USEFUL = 0.7
"""Part of the tiles' volume inside the shape below which what hangs over the edge deserves a word."""

NEARLY = 1.1
"""Ratio of two roofs below which they count as one height."""

_PIPE = frozenset({"sm", "shared"})


@dataclass(frozen=True, slots=True)
class Reading:
    """``binds`` says what holds the run back, ``lever`` what to try next; ``rule`` names the rule that spoke.

    ``counted`` is what the counters of its warps say, and ``cause`` what keeps it below its roof, by the kind of
    :class:`ladder.report.causes.Cause`; both are empty where nothing tells.
    """

    rule: str
    binds: str
    lever: str
    counted: str = ""
    cause: str = ""

    @property
    def sentence(self) -> str:
        """Both, as one text."""
        return f"{self.binds} {self.lever}".strip()


def read(
    run: Run,
    roofs: Roofs,
    *,
    sm_count: int | None = None,
    blocks: int | None = None,
    blocks_per_sm: int | None = None,
    roof_clock_hz: float | None = None,
    useful: float | None = None,
) -> Reading:
    """The sentences for one run: its place, how far it is from its roof, then what its counters add.

    Args:
        run: a row of the results.
        roofs: the ceilings it was placed under.
        sm_count: the device's SMs.
        blocks: threadblocks of the launch; beside ``sm_count`` they tell an idle machine from a slow one.
        blocks_per_sm: how many of them an SM holds at once.
        roof_clock_hz: the SM clock at which the ceilings were taken.
        useful: part of the tiles' volume that lies inside the shape.
    """
    if run.skipped is not None and run.placement is None:
        return Reading("skipped", f"Skipped: {run.skipped}.".replace("..", "."), "")
    if run.error is not None:
        return Reading("error", f"Broke off: {run.error}".rstrip("."), "Nothing was counted or timed.")
    if run.failed:
        failure = run.check.failure if run.check else None
        return Reading("wrong", f"Wrong: {failure or 'its product is not A @ B'}.", "A wrong kernel is not placed.")
    if run.placement is None:
        if run.flop_per_s is not None:
            return Reading("uncounted", f"Timed at {tflops(run.flop_per_s)}; its traffic was not counted.", "")
        why = "there is no work at this shape" if run.shape.flop == 0 else "its traffic was not counted"
        return Reading("unplaced", f"Not placed: {why}.", "")

    reading = _bound(run, run.placement, roofs)
    level = _next(run.placement)
    binds = [reading.binds] if run.skipped is None else [f"Not run here: {run.skipped}.", reading.binds]
    lever = reading.lever
    if level is not None and run.placement.bounds_flop_per_s[level] < NEARLY * run.placement.roof_flop_per_s:
        twin = replace(run.placement, bound_by=pipe_level(run.intensity) if level in _PIPE else level)
        lever = f"{lever} {_bound(run, twin, roofs).lever}"
    fraction = run.placement.fraction
    found: tuple[Cause, ...] = ()
    if fraction is not None:
        scatters = reading.rule == "scattered" and fraction < FAR_BELOW
        binds.append(_reached(run, fraction, scatters=scatters))
        if fraction < ON_THE_ROOF and not scatters:
            launch = Launch(sm_count=sm_count, blocks=blocks, blocks_per_sm=blocks_per_sm, roof_clock_hz=roof_clock_hz)
            found = causes(run, launch)
        if fraction < FAR_BELOW and not scatters:
            lever = f"{_suspects(found)} For the roof itself: {lever[0].lower()}{lever[1:]}"
        elif found:
            lever = f"{lever} What is missing to the roof: {found[0].text}."
    binds.append(_next_roof(run.placement, level))
    if peakless(run, roofs):
        binds.append("The peak of its own arithmetic is not known here, so a lower roof may be missing.")
    if useful is not None and useful < MOSTLY_USEFUL:
        binds.append(f"Only {percent(useful)} of its tiles' volume lies inside this shape.")
        lever = f"Use smaller tiles here, so that less of each hangs over the edge. {lever}"
    said = counted(run.activity, run.shape.flop)
    cause = found[0].kind if found else ""
    return Reading(reading.rule, " ".join(part for part in binds if part), lever, counted=said, cause=cause)


def _bound(run: Run, placement: Placement, roofs: Roofs) -> Reading:
    limit = tflops(placement.roof_flop_per_s)
    apart = scattered(run)
    coalesce = "Let consecutive lanes read consecutive addresses."
    bound_by = placement.bound_by

    if bound_by == "dram":
        head = _memory_head(run, roofs, "dram", limit)
        if apart:
            return Reading("scattered", f"{head} {apart}", coalesce)
        if run.intensity["dram"] >= NEAR_COMPULSORY * compulsory(run.shape):
            return Reading(
                "compulsory",
                f"{head} The matrices cross the interface about once already.",
                "Blocking has little left to give, so fuse a neighbouring kernel or store narrower elements.",
            )
        return Reading(
            "dram", head, "Block more, by a larger tile or by an order of blocks that shares tiles through L2."
        )
    if bound_by == "l2":
        head = _memory_head(run, roofs, "l2", limit)
        if apart:
            return Reading("scattered", f"{head} {apart}", coalesce)
        return Reading("l2", head, "Enlarge the block tile, since intensity here grows with its edge.")
    if bound_by == "shared":
        return _shared(run, placement, limit)
    if bound_by == "sm":
        head = f"The SM's data pipe binds at {limit}, filled mostly by global accesses."
        if apart:
            return Reading("scattered", f"{head} {apart}", coalesce)
        return Reading(
            "operands",
            head,
            "Keep a tile of C in registers, so that each operand fetched feeds several FMAs. A shared-memory tile "
            "alone spares L2 but passes through the same pipe.",
        )
    return Reading(
        "pipe",
        f"The {ROOF_NAMES.get(bound_by, bound_by)} pipe binds at {limit}{_of_products(placement, roofs)}: no memory "
        "level counted is lower.",
        "Only the instruction mix is left (fewer loads, integer and copy instructions beside the FMAs), or a faster "
        "pipe such as the tensor cores."
        if bound_by == "fp32"
        else "Only the instruction mix is left (fewer instructions beside the matrix products), or fewer products for "
        "each element.",
    )


def _of_products(placement: Placement, roofs: Roofs) -> str:
    """That the pipe multiplies more than once for each product, as split operands need."""
    peak = roofs.flop_per_s.get(placement.bound_by, 0.0)
    products = round(peak / placement.roof_flop_per_s) if placement.roof_flop_per_s > 0 else 1
    return f", {products} products for each" if products > 1 else ""


def _shared(run: Run, placement: Placement, limit: str) -> Reading:
    per_request = run.traffic.wavefronts_per_request if run.traffic else None
    degree = conflict_degree(run)
    if degree is not None and degree >= CONFLICTING and per_request is not None and per_request >= CONFLICTING:
        freed = min(placement.roof_flop_per_s * degree, *_others(placement).values())
        known = run.law is not None and "shared" in run.law.predicted
        excess = (
            f"{number(degree)} times the bytes that the lanes ask for" if known else "and no clean access needs over 4"
        )
        return Reading(
            "conflicts",
            f"Shared memory binds at {limit} through bank conflicts: {number(per_request)} wavefronts a request"
            f"{_loads_and_stores(run)}, {excess}.",
            f"Pad the tile's rows by a word or swizzle its columns, which lifts the bound to at least {tflops(freed)}.",
        )
    head = f"Shared memory binds at {limit}: {number(run.intensity.get('sm', run.intensity.get('shared')))} FLOP/byte."
    lever = "Give each thread a larger tile of C in registers, so that every shared load feeds more FMAs."
    if degree is None and per_request is not None and per_request >= CONFLICTING:
        lever += (
            f" Its {number(per_request)} wavefronts a request come from wide accesses (8 bytes a lane need 2, 16 need "
            "4) or from conflicts; if every access is 4 bytes wide they are conflicts, and padding helps."
        )
    return Reading("shared", head, lever)


def _loads_and_stores(run: Run) -> str:
    traffic = run.traffic
    if traffic is None or not traffic.requests_ld or not traffic.requests_st:
        return ""
    loads, stores = traffic.wavefronts_ld / traffic.requests_ld, traffic.wavefronts_st / traffic.requests_st
    return f" ({number(loads)} a load, {number(stores)} a store)"


def _memory_head(run: Run, roofs: Roofs, level: Level, limit: str) -> str:
    # The ridge is FP32's: what does not run on that pipe may be bound by a memory far to the right of it.
    corner = ridge(roofs, level)
    below = f", below the ridge at {number(corner)}" if corner is not None and run.intensity[level] < corner else ""
    traffic = run.traffic
    modelled = traffic is not None and level in traffic.levels and traffic.levels[level].origin == "modelled"
    return (
        f"{ROOF_NAMES[level]} binds at {limit}: {number(run.intensity[level])} FLOP/byte"
        f"{' (modelled)' if modelled else ''}{below}."
    )


def _next(placement: Placement) -> str | None:
    """The second lowest roof; None when there is no other, or no work."""
    others = _others(placement)
    return min(others, key=others.__getitem__) if others and placement.roof_flop_per_s > 0 else None


def _next_roof(placement: Placement, level: str | None) -> str:
    if level is None:
        return ""
    bound = placement.bounds_flop_per_s[level]
    times = bound / placement.roof_flop_per_s
    if times < NEARLY:
        return f"The bound of {the(level)} is nearly as low, {tflops(bound)}, so both must move."
    return f"Next comes {the(level)} at {tflops(bound)}, {number(times, 2)} times higher."


def _others(placement: Placement) -> dict[str, float]:
    """Bounds beside the binding one; sm and shared are one pipe, so neither is the other's next roof."""
    used = _PIPE if placement.bound_by in _PIPE else {placement.bound_by}
    return {name: bound for name, bound in placement.bounds_flop_per_s.items() if name not in used}


def _reached(run: Run, fraction: float, *, scatters: bool) -> str:
    if fraction > IMPOSSIBLE:
        over = above(run.placement, run.flop_per_s) if run.placement is not None else {}
        roofs = listing([f"{percent(share)} of the bound of {the(name)}" for name, share in over.items()])
        where = f", and at {roofs}" if len(over) > 1 else ""
        return (
            f"It runs at {percent(fraction)} of that{where}, which no kernel can: the ceiling or the bytes are wrong."
        )
    if fraction >= ON_THE_ROOF:
        return f"It reaches {percent(fraction)} of this bound: it sits on its roof."
    if fraction >= FAR_BELOW:
        return f"It reaches {percent(fraction)} of this bound, not all of it."
    if scatters:
        return f"It reaches only {percent(fraction)} of this bound: so many sectors cost time that no roof here counts."
    return f"It reaches only {percent(fraction)} of this bound, so latency holds it, not this roof."


def _suspects(found: tuple[Cause, ...]) -> str:
    """What keeps a run far below its roof, as far as the results tell."""
    if not found:
        return "Overlap loads with arithmetic, and look at the stall reasons in a profiler."
    return f"First suspect {'; then '.join(cause.text for cause in found)}."
