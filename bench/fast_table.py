"""README's table of fast rungs beside cuBLAS, from the committed records: `python -m bench.fast_table` writes it anew.

A cell is the rung's rate and its ratio to cuBLAS SGEMM, timed in turn with it in one process. Of a sweep the fastest
variant is shown, and of all rungs of a precision the fastest at each size is in bold.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from ladder import catalog, store
from ladder.store import Run

HERE = Path(__file__).resolve().parent
RECORDS = sorted((HERE / "results" / "nvidia-h200").glob("*-fast-*.json"))
README = HERE.parent / "README.md"
BEGIN, END = "<!-- fast: made by python -m bench.fast_table -->", "<!-- end of fast -->"
SIZES = (512, 1024, 2048, 4096, 8192)
SGEMM = "cublas_sgemm"


def table(runs: Iterable[Run]) -> list[str]:
    """The table's lines, rungs in the ladder's order, cuBLAS last."""
    timed = [run for run in runs if run.flop_per_s and run.shape.m == run.shape.n == run.shape.k]
    precision = {rung.name: rung.precision for rung in catalog.load_catalog()}
    families = dict.fromkeys(re.sub(r"_\d+$", "", name) for name in precision)
    lines = [f"| rung | precision | {' | '.join(map(str, SIZES))} |", "|---|---|" + "---:|" * len(SIZES)]
    for family in families:
        rows = [run for run in timed if re.sub(r"_\d+$", "", run.rung) == family and run.kind == "rung"]
        if rows:
            cells = [_cell(_fastest(rows, n), timed, precision) for n in SIZES]
            lines.append(f"| `{family}` | {precision[rows[0].rung]} | {' | '.join(cells)} |")
    peers = [_fastest([run for run in timed if run.rung == SGEMM], n) for n in SIZES]
    lines.append(f"| cuBLAS SGEMM | fp32 | {' | '.join(_rate(peer) for peer in peers)} |")
    return lines


def _fastest(rows: Sequence[Run], n: int) -> Run | None:
    return max((run for run in rows if run.shape.n == n), key=lambda run: run.flop_per_s or 0, default=None)


def _rate(run: Run | None) -> str:
    return "" if run is None or run.flop_per_s is None else f"{run.flop_per_s / 1e12:.1f}"


def _cell(run: Run | None, timed: Sequence[Run], precision: dict[str, str]) -> str:
    if run is None:
        return ""
    rivals = [other for other in timed if precision.get(other.rung) == precision[run.rung]]
    text = _rate(run)
    if run.beside is not None and run.time is not None:
        text += f" ({run.beside.time.median / run.time.median:.2f})"
    return f"**{text}**" if _fastest(rivals, run.shape.n) is run else text


def replaced(text: str, lines: Sequence[str]) -> str:
    """``text`` with what stands between the markers replaced by ``lines``."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + "\n" + "\n".join(lines) + "\n" + END + after


def current() -> str:
    """README.md as it should read."""
    runs = [run for path in RECORDS for run in store.load(path).runs]
    return replaced(README.read_text(encoding="utf-8"), table(runs))


if __name__ == "__main__":
    README.write_text(current(), encoding="utf-8")
    print(f"wrote the table of {README}")
