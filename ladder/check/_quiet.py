"""Keep hypothesis from leaving a ``.hypothesis`` folder where the user happens to be."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis.configuration import set_hypothesis_home_dir

__all__ = ["no_hypothesis_files"]


@contextmanager
def no_hypothesis_files() -> Iterator[None]:
    """Hypothesis caches what it reads of the caller's source; inside this context it does so in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="ladder-") as folder:
        set_hypothesis_home_dir(folder)
        try:
            yield
        finally:
            set_hypothesis_home_dir(None)
