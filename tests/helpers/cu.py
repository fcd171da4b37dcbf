"""Small ``.cu`` files for tests of the catalogue and the compiler."""

from __future__ import annotations

from pathlib import Path

ARGUMENTS = "const float* A, const float* B, float* C, int M, int N, int K"

TILED = f"""template <int T, int NUM_THREADS>
__global__ void __launch_bounds__(NUM_THREADS) tiled({ARGUMENTS}) {{
  if (threadIdx.x < T && M > 0 && N > 0 && K > 0) C[0] = A[0] * B[0];
}}
"""
PLAIN = f"""__global__ void plain({ARGUMENTS}) {{
  if (M > 0 && N > 0 && K > 0) C[0] = A[0] * B[0];
}}
"""


def declaration(**keys: str | None) -> str:
    """The declaration block with each key's TOML text: ``declaration(title='"x"')``; a None leaves the key out."""
    lines = [f"// {key} = {value}" for key, value in keys.items() if value is not None]
    return "\n".join(["// /// rung", *lines, "// ///", ""])


def tiled(folder: Path, name: str = "tiled.cu", *, kernel_text: str = TILED, **keys: str | None) -> Path:
    """A valid two-parameter rung with ``keys`` changed (TOML text) or, when None, left out."""
    given: dict[str, str | None] = {
        "title": '"A tile"',
        "kernel": '"tiled"',
        "params": "{ T = 16, NUM_THREADS = 256 }",
    }
    return write(folder / name, declaration(**{**given, **keys}) + kernel_text)


def plain(folder: Path, name: str = "plain.cu", *, kernel_text: str = PLAIN, **keys: str | None) -> Path:
    """A valid rung without template parameters, with ``keys`` changed (TOML text) or, when None, left out."""
    given: dict[str, str | None] = {
        "title": '"Plain"',
        "kernel": '"plain"',
        "tile": "[16, 16]",
        "block": "[16, 16]",
    }
    return write(folder / name, declaration(**{**given, **keys}) + kernel_text)


def changed(text: str, **keys: str | None) -> str:
    """The text of a ``.cu`` file with keys of its declaration set to TOML text, or left out when None."""
    lines = text.splitlines()
    for key, value in keys.items():
        at = next((i for i, line in enumerate(lines) if line.startswith(f"// {key} ")), None)
        new = [] if value is None else [f"// {key} = {value}"]
        if at is None:
            lines[lines.index("// ///") : lines.index("// ///")] = new
        else:
            lines[at : at + 1] = new
    return "\n".join([*lines, ""])


def write(path: Path, text: str) -> Path:
    """``text`` at ``path``, which is returned."""
    path.write_text(text, encoding="utf-8")
    return path
