"""Today's roofs of a GPU, kept so that a day's runs share them. The file may be lost or damaged: then measure again."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path

from ladder import catalog
from ladder.backends.gpu import Gpu
from ladder.ceilings._record import load, save
from ladder.ceilings._types import Ceilings
from ladder.errors import StoreError
from ladder.nvrtc import cache_dir, nvrtc_version

__all__ = ["keep", "kept", "key_of"]


def key_of(gpu: Gpu, *, today: str | None = None) -> str:
    """What roofs hold for: this very card, its driver, NVRTC, the probes as they are, and the day in UTC."""
    return json.dumps(
        {
            "card": [gpu.device.name, gpu.pci_bus_id, str(gpu.handle.uuid)],
            "driver": gpu.device.driver,
            "nvrtc": nvrtc_version(),
            "day": today or f"{datetime.now(UTC):%Y-%m-%d}",
            "probes": _digest(),
        },
        sort_keys=True,
    )


def _digest() -> str:
    """Of the probes, what they include, and the code that launches and judges them."""
    source = catalog.cuda_src()
    files = [*source.joinpath("probes").glob("*.cu"), *source.joinpath("common").glob("*.cuh")]
    files += Path(__file__).parent.glob("*.py")
    every = hashlib.sha256()
    for path in sorted(files, key=lambda path: path.name):
        every.update(f"{path.name}\0".encode() + path.read_bytes())
    return every.hexdigest()[:16]


def kept(key: str) -> Ceilings | None:
    """What was measured for ``key``; None when nothing was, or the file is damaged."""
    try:
        path = _path(key)
        if json.loads(path.read_text(encoding="utf-8")).get("key") != key:
            return None
        return load(path)
    except (OSError, ValueError, AttributeError, StoreError):
        return None


def keep(key: str, ceilings: Ceilings) -> None:
    """Keep ``ceilings`` under ``key``; a folder that cannot be written is passed over."""
    try:
        save(ceilings, _path(key), key=key)
    except StoreError:
        return


def _path(key: str) -> Path:
    return cache_dir() / f"ceilings-{hashlib.sha256(key.encode()).hexdigest()[:24]}.json"
