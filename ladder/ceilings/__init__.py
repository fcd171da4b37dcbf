"""The roofs of a GPU, measured by probes, never from a datasheet: DRAM copy, L2 read, data pipe, FP32, tensor cores.

Each probe is tried in several configurations; what the best one keeps up is the roof. Its machine code and, where ncu
can read them, its counters are compared with what was meant, and a roof that is not as meant says so.
"""

from __future__ import annotations

from ladder.ceilings._cache import keep, kept, key_of
from ladder.ceilings._counters import with_counters
from ladder.ceilings._limits import limit
from ladder.ceilings._measure import measure_ceilings, todays_ceilings
from ladder.ceilings._record import SCHEMA, load, save
from ladder.ceilings._types import MEMORIES, ROOFS, Ceiling, Ceilings, Config, Finding, Sustained, Trial, finding_text

__all__ = [
    "MEMORIES",
    "ROOFS",
    "SCHEMA",
    "Ceiling",
    "Ceilings",
    "Config",
    "Finding",
    "Sustained",
    "Trial",
    "finding_text",
    "keep",
    "kept",
    "key_of",
    "limit",
    "load",
    "measure_ceilings",
    "save",
    "todays_ceilings",
    "with_counters",
]
