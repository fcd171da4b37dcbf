"""Settings that every test runs under; helpers live in ``tests/helpers`` and are imported from there."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


@pytest.fixture(scope="session", autouse=True)
def kernel_cache(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache of compiled kernels that lives as long as the session: the user's own is neither read nor written.

    What one worker of a session has compiled, the others need not: entries are written whole or not at all.
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if hasattr(request.config, "workerinput") else base) / "kernel_cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LADDER_CACHE_DIR", str(folder))
        yield folder


@pytest.fixture
def interrupts() -> Iterator[None]:
    """Children can be interrupted, even where this process was started in the background, deaf to SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
