"""Results as schema ``ladder/1``: the one thing that every consumer reads. Written atomically."""

from __future__ import annotations

from ladder.store._files import load, read_as, save, write_whole
from ladder.store._json import SCHEMA, from_json, to_json
from ladder.store._rows import Beside, Results, Run

__all__ = ["SCHEMA", "Beside", "Results", "Run", "from_json", "load", "read_as", "save", "to_json", "write_whole"]
