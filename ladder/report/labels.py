"""Label placement without overlap, in one dimension. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["spread"]


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Positions at least ``gap`` apart, in the order of ``wanted``, as near to it as least squares allows.

    With the gaps subtracted the order constraint is a monotone one, so the answer is an isotonic regression, found by
    pooling neighbours that violate it. Everything stays within [low, high] when that is wide enough; otherwise the
    labels fill it evenly.

    Args:
        wanted: positions in any order; the result has the same order.
        gap: least distance of neighbours.
        low: lowest position allowed, and ``high`` the highest.
        high: see ``low``.
    """
    count = len(wanted)
    if count == 0:
        return []
    if count > 1 and gap * (count - 1) > high - low:
        gap = (high - low) / (count - 1)
    order = sorted(range(count), key=lambda i: (wanted[i], i))
    pools: list[tuple[float, int]] = []  # (mean, members)
    for rank, index in enumerate(order):
        mean, members = wanted[index] - gap * rank, 1
        while pools and pools[-1][0] > mean:
            earlier, n = pools.pop()
            mean, members = (earlier * n + mean * members) / (n + members), n + members
        pools.append((mean, members))
    flat = [mean for mean, members in pools for _ in range(members)]
    top = high - gap * (count - 1)
    out = [0.0] * count
    for rank, index in enumerate(order):
        out[index] = min(max(flat[rank], low), top) + gap * rank
    return out
