"""What identifies a rung's code, so that what was found out about it holds as long as the code is the same."""

from __future__ import annotations

import hashlib

from ladder.catalog._cpp import without_comments
from ladder.model import Rung

__all__ = ["code_sha256"]


def code_sha256(rung: Rung) -> str:
    """SHA-256 of the rung's file without its comments and with runs of white space as one space.

    The prose above a kernel can be improved without a change of this number. The declaration is a comment too.
    """
    return hashlib.sha256(" ".join(without_comments(rung.source).split()).encode()).hexdigest()
