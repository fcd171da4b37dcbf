"""``ladder profile``: a card that was measured, recorded for those who have not got it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ladder import ceilings as measured
from ladder import store
from ladder.ceilings import limit
from ladder.cli.console import say
from ladder.cli.session import ensure_writable
from ladder.errors import InputError, StoreError
from ladder.model import Device, Origin, Roofs
from ladder.profiles import SCHEMA, load_profile, to_toml

__all__ = ["profile", "text_of"]

_PER_CLOCK = re.compile(r"; ([\d.]+) (?:B|FLOP) per clock per SM at [\d.]+ GHz")
_ABOVE = 1.01


def profile(
    record: Annotated[
        Path,
        typer.Argument(metavar="RECORD.json", help="What ladder run --json or ladder ceilings --json wrote on a GPU."),
    ],
    *,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="NAME.toml", help="The file to write. Default: the card's name, in this folder."),
    ] = None,
) -> None:
    """Make a profile of the GPU that a record is of.

    The file holds the device and its roofs, each with its origin and how it was measured. With it --profile NAME.toml
    places kernels on that card where there is none.
    """
    device, roofs, created = _read(record)
    if device.backend != "cuda":
        raise InputError(f"{record} was emulated: its roofs are a profile's already. Give a record of a GPU")
    path = out or Path(f"{re.sub(r'[^a-z0-9]+', '-', device.name.lower()).strip('-')}.toml")
    if path.suffix.lower() != ".toml":
        raise InputError(f"--out {path}: a profile's name ends in .toml")
    ensure_writable(path, "--out")
    store.write_whole(path, text_of(device, roofs, record=record, created=created))
    made = load_profile(path)
    say(f"{path}: {made.device.name}, roofs of {', '.join([*made.roofs.bytes_per_s, *made.roofs.flop_per_s])}.")
    say(f"Place kernels on it: ladder run --backend emulated --profile {path}")


def _read(record: Path) -> tuple[Device, Roofs, str]:
    """The card, its roofs and the day: of results, or of ceilings.

    Raises:
        StoreError: it cannot be read, or is neither.
    """
    try:
        schema = json.loads(record.read_text(encoding="utf-8")).get("schema")
    except OSError as error:
        raise StoreError(f"cannot read {record}: {error.strerror or error}") from error
    except (ValueError, AttributeError) as error:
        raise StoreError(f"{record} is not a JSON record: {error}") from error
    if schema == measured.SCHEMA:
        found = measured.load(record)
        busy = found["fp32"].best
        clock = busy.watched.sm_clock_hz or busy.clock_hz or found.device.sm_clock_hz
        return replace(found.device, sm_clock_hz=clock), found.roofs, found.created
    results = store.load(record)
    return results.device, results.roofs, results.created


def text_of(device: Device, roofs: Roofs, *, record: Path, created: str) -> str:
    """The profile's text; ``record`` is named as it was given, but for the folders of this machine."""
    day = created[:10]
    where = record.name if record.is_absolute() else record.as_posix()
    compiled = f", NVRTC {device.nvrtc}" if device.nvrtc else ""
    origin: dict[str, Origin] = {
        name: "modelled" if came == "modelled" else "recorded" for name, came in roofs.origin.items()
    }
    notes = {name: _note(name, note, roofs, device, day) for name, note in roofs.note.items()}
    return to_toml(
        device,
        replace(roofs, origin=origin, note=notes),
        schema=SCHEMA,
        comment=(
            f"Made by: ladder profile {where}",
            f"{device.name} on {day}, driver {device.driver or 'unknown'}{compiled}; roofs rounded to three digits.",
            "Recorded so that a kernel can be placed without the card; a run on a GPU measures its own.",
        ),
    )


def _note(name: str, note: str, roofs: Roofs, device: Device, day: str) -> str:
    """How the roof was got, and when. A rate per clock that no SM reaches was taken with a wrong clock: left out."""
    most = limit(name, device)
    told = _PER_CLOCK.search(note)
    if told is not None and most is not None and float(told[1]) > _ABOVE * most:
        note = note[: told.start()] + note[told.end() :]
    came = roofs.origin.get(name, "recorded")
    return f"{came} {day}: {note}" if came in {"measured", "counted"} else note
