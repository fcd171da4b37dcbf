"""Prove a rung right at one shape (:func:`prove`), or search for the smallest that breaks it (:func:`search`)."""

from ladder.check._cases import Case
from ladder.check._inputs import DATA_KINDS, SEED, DataKind, inputs
from ladder.check._prove import crc32_of, prove
from ladder.check._search import Counterexample, search

__all__ = ["DATA_KINDS", "SEED", "Case", "Counterexample", "DataKind", "crc32_of", "inputs", "prove", "search"]
