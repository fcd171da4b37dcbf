"""The tables by which the runtime knows a segment: its groups of addresses, its sites, its warp requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ladder.ptx.c.afterwards import after_row
from ladder.ptx.c.segments import Segment
from ladder.ptx.site import Site

__all__ = ["Tables", "array"]

_SPACES = {"global": "GLOBAL", "shared": "SHARED", "local": "LOCAL", "generic": "GENERIC"}
_ACCESSES = {
    "ld": "LOAD",
    "ldmatrix": "MATRIX",
    "st": "STORE",
    "copy": "COPY",
    "red": "REDUCE",
    "atom": "ATOMIC",
}
_WATCHED = frozenset(["shared", "generic"])
_BANK_BYTES = 4


class Tables:
    """Collects the tables of one segment after another, and the numbers that run through the whole kernel."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.segments = 0
        self._requests = 0
        self._groups = 0
        self._most_groups = 1

    def totals(self) -> dict[str, int]:
        """What ``struct kernel`` holds of them."""
        return {
            "group_rows": self._most_groups,
            "request_memos": self._requests,
            "group_memos": self._groups,
            "segment_total": self.segments,
        }

    def add(self, segment: Segment, *, has_code: bool) -> str:
        """Add the tables of the next segment; its own row."""
        number = self.segments
        self.segments += 1
        members = sorted(
            ((index, site) for index, group in enumerate(segment.groups) for site in group.sites),
            key=lambda member: member[1].index,
        )
        groups = [
            f"{_SPACES[group.space]}, {int(group.guarded)}, {int(group.space in _WATCHED)}, "
            f"{int(any(site.kind == 'copy' for site in group.sites))}, {self._groups + index}"
            for index, group in enumerate(segment.groups)
        ]
        watched = [
            f"{_access(site)}, {group}, {site.offset}, {site.width_bytes}"
            for group, site in members
            if site.space in _WATCHED
        ]
        requests = [
            f"{text}, {self._requests + index}" for index, text in enumerate(_requests(members, segment.source_of))
        ]
        self._groups += len(groups)
        self._requests += len(requests)
        self._most_groups = max(self._most_groups, len(groups))
        row = [f"segment_{number}" if has_code else "0"]
        kinds = {"site": watched, "request": requests, "group": groups}
        for kind, rows in kinds.items():
            name = f"{kind}s_of_{number}"
            if rows:
                self.texts.append(array(f"struct {kind}", name, [f"{{{text}}}" for text in rows]))
            row.append(name if rows else "0")
        row += [str(len(rows)) for rows in kinds.values()]
        row += [str(number), *after_row(segment.after)]
        return f"{{{', '.join(row)}}}"


def _access(site: Site) -> str:
    return "MATRIX_TRANSPOSED" if site.kind == "ldmatrix" and ".trans" in site.op else _ACCESSES[site.kind]


def _requests(members: Iterable[tuple[int, Site]], source_of: Mapping[int, int]) -> list[str]:
    """Warp requests by group, those of shared memory that cost the same taken together."""
    times: dict[tuple[str, str, int, int, int, int], int] = {}
    for group, site in members:
        width, offset, access, source = site.width_bytes, site.offset, _ACCESSES[site.kind], 0
        if site.space == "shared":
            if site.fusion is not None:
                width, offset = site.fusion.width_bytes, site.fusion.offset
            # A shift by whole banks changes no count, and all that is no load counts as a store.
            offset %= _BANK_BYTES
            if site.kind == "copy" and ".cg" in site.op:
                continue  # takes no wavefront
            if site.kind == "copy":
                offset, source = 0, source_of[site.index]
            elif site.kind not in {"ld", "ldmatrix"}:
                access = "STORE"
        if width and site.space != "local":
            key = (_SPACES[site.space], access, group, width, offset, source)
            times[key] = times.get(key, 0) + 1
    return [
        f"{space}, {access}, {group}, {width}, {count}, {offset}, {source}"
        for (space, access, group, width, offset, source), count in times.items()
    ]


def array(kind: str, name: str, rows: Sequence[str]) -> str:
    """A static table."""
    return f"static const {kind} {name}[] = {{\n" + "".join(f"    {row},\n" for row in rows) + "};"
