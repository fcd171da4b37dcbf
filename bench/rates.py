"""Make what is packaged of a card's committed records: rates, from which ``ladder.matmul`` picks its rung, and counts.

    python bench/rates.py --profile h200 bench/results/nvidia-h200/fast.json bench/results/nvidia-h200/tuned.json

Each file is a results file (``ladder/1``, made on a GPU) or a record of tuned parameters (``ladder-tuned/1``); where
two results files have the same rung at the same shape, the later one counts. Writes
``ladder/profiles/PROFILE_rates.json`` and, of rungs that the emulator cannot run, ``PROFILE_counts.json``; a test fails
while they are not what their sources give.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from ladder import profiles, store
from ladder.errors import LadderError, ProfileError, StoreError
from ladder.rates import SUFFIX, Rates, rates_from, to_text
from ladder.recorded import SUFFIX as COUNTS
from ladder.recorded import counts_from
from ladder.store import Results
from ladder.tuned import SCHEMA as TUNED
from ladder.tuned import load_tuned

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "ladder" / "profiles"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the table of one card."""
    parser = argparse.ArgumentParser(description="Make the table of rates that ladder.matmul picks from.")
    parser.add_argument("records", nargs="+", type=Path, metavar="RECORD.json")
    parser.add_argument("--profile", required=True, metavar="NAME", help="the card's packaged profile, such as h200")
    options = parser.parse_args(arguments)
    try:
        profile = profiles.load_profile(options.profile)
        rates = made_from([_from_root(path) for path in options.records])
        if rates.card != profile.device.name:
            raise ProfileError(f"the records are of {rates.card}; profile {profile.name} is {profile.device.name}")
        path = FOLDER / f"{profile.name}{SUFFIX}"
        store.write_whole(path, to_text(rates))
        counts = counts_made_from(rates.sources)
        store.save(counts, FOLDER / f"{profile.name}{COUNTS}")
    except LadderError as error:
        print(f"rates: {error}", file=sys.stderr)
        return error.exit_code
    print(f"{path}: {len(rates.rows)} rates, {len(rates.tuned)} tuned; beside it {len(counts.runs)} counts")
    return 0


def made_from(sources: Sequence[str]) -> Rates:
    """The table that the records at ``sources``, paths from the root of the checkout, give.

    Raises:
        StoreError: a file cannot be read or is of another schema, or the files are of different cards.
    """
    paths = {source: ROOT / source for source in sources}
    tuned = {source: load_tuned(path) for source, path in paths.items() if _schema(path) == TUNED}
    return rates_from({source: store.load(paths[source]) for source in sources if source not in tuned}, tuned)


def counts_made_from(sources: Sequence[str]) -> Results:
    """The counts that the results files among ``sources`` give, as :func:`made_from` takes them.

    Raises:
        StoreError: as :func:`made_from`.
    """
    paths = [ROOT / source for source in sources]
    return counts_from(store.load(path) for path in paths if _schema(path) != TUNED)


def _schema(path: Path) -> object:
    """What the file says it is; None where it cannot be read, which its reader will tell."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return data.get("schema") if isinstance(data, dict) else None


def _from_root(path: Path) -> str:
    if not path.resolve().is_relative_to(ROOT):
        raise StoreError(f"{path} is outside {ROOT}; the table names its sources, so commit them under bench/results")
    return path.resolve().relative_to(ROOT).as_posix()


if __name__ == "__main__":
    sys.exit(main())
