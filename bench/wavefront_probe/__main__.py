"""`python -m bench.wavefront_probe --out FILE.json` on a GPU: count every launch and write the record."""

from __future__ import annotations

import argparse
import datetime as dt
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.wavefront_probe.groups import GROUPS, dumped, record_of
from bench.wavefront_probe.session import child, count


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the groups asked for; 0 when all were counted."""
    parser = argparse.ArgumentParser(prog="python -m bench.wavefront_probe", description=__doc__)
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="where to write the record")
    parser.add_argument("--groups", default=",".join(GROUPS), help="only these: %(default)s")
    parser.add_argument("--arch", default="sm_90", help="what to compile for (%(default)s)")
    parser.add_argument("--limit", type=float, default=120.0, metavar="S", help="seconds a group (%(default)s)")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        child(options.child)
        return 0
    if options.out is None:
        parser.error("give --out FILE.json")
    failed = 0
    record: dict[str, list[dict[str, object]]] = {}
    for name in options.groups.split(","):
        cases = GROUPS[name]()
        try:
            rows = count(cases, arch=options.arch, cold=name == "cold", limit_s=options.limit)
        except RuntimeError as error:
            print(f"{name}: {error}", flush=True)
            failed += 1
            continue
        record[name] = [record_of(case, row) for case, row in zip(cases, rows, strict=True)]
        made = f"{dt.date.today()}, {options.arch}; sums over all SMs of one launch each"
        options.out.write_text(dumped(made, record), encoding="utf-8")
        print(f"{name}: {len(rows)} launches", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
