"""A ladder of CUDA matmul kernels on a measured, nested roofline, with a GPU and without.

``ladder.matmul(a, b)`` multiplies, with the fastest known rung or the one you name; ``ladder.choose("512x512x512")``
says which that is and why; ``ladder.run("tiled_32", "256x256x256")`` proves, counts and places one rung;
``ladder.load("results.json")`` reads what was kept, and ``ladder.rows`` makes flat rows of it. Names are loaded when
they are first used, so that ``import ladder`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ladder.api import choose, matmul, run
    from ladder.catalog import load_catalog
    from ladder.choice import Choice
    from ladder.errors import LadderError
    from ladder.flat import rows
    from ladder.model import Rung, Shape
    from ladder.profiles import load_profile
    from ladder.store import Results, Run, load, save

    __version__: str

__all__ = [
    "Choice",
    "LadderError",
    "Results",
    "Run",
    "Rung",
    "Shape",
    "__version__",
    "choose",
    "load",
    "load_catalog",
    "load_profile",
    "matmul",
    "rows",
    "run",
    "save",
]

_HOME = {
    "Choice": ("ladder.choice", "Choice"),
    "LadderError": ("ladder.errors", "LadderError"),
    "Results": ("ladder.store", "Results"),
    "Run": ("ladder.store", "Run"),
    "Rung": ("ladder.model", "Rung"),
    "Shape": ("ladder.model", "Shape"),
    "choose": ("ladder.api", "choose"),
    "load": ("ladder.store", "load"),
    "load_catalog": ("ladder.catalog", "load_catalog"),
    "load_profile": ("ladder.profiles", "load_profile"),
    "matmul": ("ladder.api", "matmul"),
    "rows": ("ladder.flat", "rows"),
    "run": ("ladder.api", "run"),
    "save": ("ladder.store", "save"),
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value: Any = _version()
    elif name in _HOME:
        module, attribute = _HOME[name]
        value = getattr(import_module(module), attribute)
    else:
        raise AttributeError(f"module 'ladder' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 -- slow to load, seldom needed

    try:
        return version("matmul-ladder")
    except PackageNotFoundError:
        return "0+checkout"
