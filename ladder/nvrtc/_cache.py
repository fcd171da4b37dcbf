"""A persistent store of what NVRTC made. It may be lost, damaged or unwritable: then the source is compiled again."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from ladder.errors import StoreError
from ladder.nvrtc._library import Product
from ladder.store import write_whole

__all__ = ["cache_dir", "key_of", "load", "save"]

FORMAT = 2
"""Part of every key: raise it when what an entry holds changes."""


def cache_dir() -> Path:
    """Where compiled kernels are kept: ``$LADDER_CACHE_DIR``, else ``matmul-ladder`` in the user's cache folder."""
    chosen = os.environ.get("LADDER_CACHE_DIR")
    if chosen:
        return Path(chosen)
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path("~/.cache").expanduser()) / "matmul-ladder"


def key_of(**inputs: Any) -> str:
    """A name for everything that decides the outcome: equal inputs, equal key. Values are JSON."""
    text = json.dumps({"format": FORMAT, **inputs}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def load(key: str) -> Product | None:
    """The entry of ``key``; None when there is none, or it is damaged."""
    try:
        entry = json.loads(_path(key).read_bytes())
        text = entry["product"]
        if entry["sha256"] != hashlib.sha256(text.encode()).hexdigest():
            return None
        fields = json.loads(text)
        cubin, names = base64.b64decode(fields["cubin"], validate=True), tuple(fields["lowered_names"])
        return Product(**{**fields, "cubin": cubin, "lowered_names": names})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def save(key: str, product: Product) -> None:
    """Keep ``product`` under ``key``, whole or not at all; a folder that cannot be written is passed over."""
    fields = {**dataclasses.asdict(product), "cubin": base64.b64encode(product.cubin).decode()}
    text = json.dumps(fields)
    entry = json.dumps({"sha256": hashlib.sha256(text.encode()).hexdigest(), "product": text})
    with contextlib.suppress(StoreError):
        write_whole(_path(key), entry)


def _path(key: str) -> Path:
    return cache_dir() / f"{key}.json"
