"""What identifies a rung's code, so that what was found out about it holds as long as the code is the same."""

from __future__ import annotations

import hashlib

from ladder.catalog._cpp import without_comments
from ladder.model import Rung

__all__ = ["code_sha256", "source_sha256"]


def source_sha256(rung: Rung) -> str:
    """SHA-256 of the rung's whole file, comments and all: what the rows of a results file hold."""
    return hashlib.sha256(rung.source.encode()).hexdigest()


def code_sha256(rung: Rung) -> str:
    """SHA-256 of the rung's file without its comments and with runs of white space as one space.

    The prose above a kernel can be improved without a change of this number. The declaration is a comment too.
    """
    return hashlib.sha256(" ".join(without_comments(rung.source).split()).encode()).hexdigest()
