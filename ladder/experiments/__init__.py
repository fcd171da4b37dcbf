"""The experiments: the law of the tile edge, the transition to shared memory, and asked against counted bytes."""

from ladder.experiments.model import EXPERIMENTS, AskedRow, Experiments
from ladder.experiments.store import SCHEMA, load, save

__all__ = ["EXPERIMENTS", "SCHEMA", "AskedRow", "Experiments", "load", "save"]
