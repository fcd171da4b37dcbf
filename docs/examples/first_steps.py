# ruff: noqa: T201
"""First steps with the ladder from Python, cell by cell; no GPU needed.

Run it whole, ``python docs/examples/first_steps.py``, or cell by cell in an editor that knows percent cells (VS Code,
PyCharm, Spyder; jupytext makes a notebook of it).
"""

# %% [markdown]
# # A product, and which rung computed it
#
# `matmul` takes numpy arrays anywhere, and CUDA arrays (torch, cupy) on a GPU. `backend="emulated"` stays on the CPU:
# the kernel's PTX is executed there, to the same bits.

# %%
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

import ladder

rng = np.random.default_rng(0)
a = rng.standard_normal((100, 300), dtype=np.float32)
b = rng.standard_normal((300, 70), dtype=np.float32)

c = ladder.matmul(a, b, backend="emulated")
print(f"C is {c.shape[0]} x {c.shape[1]}, the largest error {abs(c - a @ b.astype(np.float64)).max():.1e}")
print(ladder.choose((100, 70, 300), backend="emulated"))

# %% [markdown]
# Name a rung to get that one. Rungs that add in k order agree to the last bit; a slice or a transposed view is
# multiplied as what it shows.

# %%
by_tile = ladder.matmul(a, b, rung="tiled_32", backend="emulated")
print("same bits from tiled_32:", np.array_equal(c, by_tile))
views = ladder.matmul(b.T, a.T, rung="tiled_32", backend="emulated")
print("transposed views:", np.array_equal(views, c.T))

# %% [markdown]
# # What a rung moves, and what binds it
#
# `run` proves a rung at a shape, counts its bytes at every level and places it under the roofs of a GPU: the one in the
# machine, or a recorded one.

# %%
shape = "128x128x128"
runs = [ladder.run(rung, shape, backend="emulated", profile="h200") for rung in ("coalesced", "tiled_32", "padded")]
print(f"\n{'rung':<12}{'right':>6}{'L1':>8}{'shared':>8}{'binds':>8}   FLOP/byte at {shape}")
for run in runs:
    l1, shared = run.intensity["l1"], run.intensity.get("shared", 0)
    print(f"{run.rung:<12}{run.check.passed!s:>6}{l1:>8.2f}{shared:>8.3f}{run.placement.bound_by:>8}")

# %% [markdown]
# # The same rung on three GPUs
#
# Its bytes stay; the roofs above them do not.

# %%
print(f"\n{'tiled_32 on':<12}{'binds':>8}{'TFLOP/s':>9}{'of FP32':>9}")
for name in ("t4", "a100", "h200"):
    roofs = ladder.load_profile(name).roofs
    bound = ladder.run("tiled_32", shape, backend="emulated", profile=name).placement
    share = bound.roof_flop_per_s / roofs.flop_per_s["fp32"]
    print(f"{name:<12}{bound.bound_by:>8}{bound.roof_flop_per_s / 1e12:>9.2f}{share:>9.0%}")

# %% [markdown]
# # Keep, load, and make a table
#
# `load` reads what `ladder run --json` or `save` wrote: dataclasses, which `rows` makes flat. `pandas.DataFrame(rows)`
# is then a table, if you have pandas.

# %%
profile = ladder.load_profile("h200")
results = ladder.Results(
    created=datetime.now(UTC).isoformat(timespec="seconds"),
    command="first_steps.py",
    device=profile.device,
    roofs=profile.roofs,
    runs=tuple(runs),
)
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "mine.json"
    ladder.save(results, path)
    assert ladder.load(path) == results

rows = ladder.rows(results)
print(f"\n{len(rows)} rows of {len(rows[0])} columns, among them:")
for row in rows:
    print({key: row[key] for key in ("rung", "m", "n", "k", "passed", "l1_bytes", "l1_origin", "bound_by")})

# %% [markdown]
# # What a real card did
#
# The repository has results of an H200. These rows have a time.

# %%
here = Path(globals().get("__file__", "docs/examples/first_steps.py")).resolve()  # a notebook starts in the checkout
record = here.parents[2] / "bench" / "results" / "nvidia-h200" / "2026-11-30-ladder.json"
measured = [row for row in ladder.rows(ladder.load(record)) if row["n"] == row["k"] == 4096 and row["share_of_bound"]]
print(f"\n{'rung':<18}{'TFLOP/s':>8}{'of its bound':>14}   {measured[0]['device']}, N = 4096")
for row in sorted(measured, key=lambda row: row["flop_per_s"]):
    print(f"{row['rung']:<18}{row['flop_per_s'] / 1e12:>8.2f}{row['share_of_bound']:>14.0%}")
