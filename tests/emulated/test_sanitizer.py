"""What is undefined is reported with its place, and what is right is not: one small kernel each.

A kernel marks the line that must be reported with ``HERE`` and, for two accesses that collide, the other with
``THERE``. With ``-DRIGHT`` the same file is correct.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.kernels import emulator, mutant
from helpers.ptx import compile_snippet, program_of, run
from numpy.typing import NDArray

from ladder.check import prove
from ladder.errors import KernelFaultError
from ladder.model import Shape
from ladder.ptx import Order

FOLDER = Path(__file__).parents[1] / "helpers" / "faulty"
ORDERS: tuple[Order, ...] = ("lockstep", "warp_serial", "warp_serial_reversed")
ELEMENTS = 256
A = np.arange(ELEMENTS, dtype=np.float32)
B = 1000 + A


@dataclass(frozen=True)
class Fault:
    """What a file's kernel must be told: kind of fault, thread, threadblock, and more of the message."""

    kind: str
    thread: str = ""
    block: str = "(0, 0, 0)"
    says: str = ""
    grid: int = 1


FAULTS = {
    "read_before": Fault("out of bounds", "(0, 0, 0)", says="4-byte access.* 4 bytes before A ", grid=2),
    "read_past": Fault("out of bounds", "(63, 0, 0)", "(1, 0, 0)", says=" 0 bytes past the end of A ", grid=2),
    "write_before": Fault("out of bounds", "(0, 0, 0)", says=" 4 bytes before C ", grid=2),
    "write_past": Fault("out of bounds", "(63, 0, 0)", "(1, 0, 0)", says=" 0 bytes past the end of C ", grid=2),
    "shared_out_of_bounds": Fault("out of bounds", "(63, 0, 0)", says="4-byte shared access at byte 256 of 256"),
    "misaligned": Fault("misaligned", "(0, 0, 0)", says="16-byte access .*A"),
    "misaligned_shared": Fault("misaligned", "(0, 0, 0)", says=r"8-byte shared access at byte 4 \(s\+4 bytes\)"),
    "uninitialised": Fault("uninitialised", "(63, 0, 0)", says=r"nobody wrote, Ts\+256 bytes"),
    "race_write_read": Fault("race", says=r"As\+\d+ bytes is written .* and read .*Add __syncthreads\(\)"),
    "race_read_write": Fault("race", says=r"As\+\d+ bytes is read .* and written .*Add __syncthreads\(\)"),
    "race_write_write": Fault("race", says=r"total\+0 bytes is written .* and written"),
    "race_within_a_warp": Fault("race", says=r"As\+\d+ bytes is written .* and read .*Add __syncwarp\(\)"),
    "race_with_an_atomic": Fault("race", says=r"count\+0 bytes is updated .* and read by thread \(40, 0, 0\)"),
    "divergent_barrier": Fault("divergent barrier", "(0, 0, 0)", says=r"thread \(16, 0, 0\) at "),
    "endless": Fault("endless loop", says="still running after 2000 instructions"),
    "trap": Fault("trap", "(6, 0, 0)", "(1, 0, 0)", grid=2),
}
RIGHT = {path.stem for path in FOLDER.glob("*.cu")} - {*FAULTS}
OUT_OF_ORDER = {
    # One warp at a time, a value that has not come yet is one that nobody wrote.
    "race_write_read": "uninitialised",
}


def launch(name: str, *, right: bool, grid: int = 1, order: Order) -> NDArray[Any]:
    """C after the kernel of a file; the elements that it left alone hold -1."""
    kernel = compile_snippet(FOLDER / f"{name}.cu", "faulty", options=("-DRIGHT",) if right else ())
    program = program_of(kernel.ptx, kernel.lowered_name)
    elements = 64 * grid
    a = A[:elements] if name.startswith(("read", "write")) else A
    c = np.full(elements, -1, np.float32)
    sizes = {"grid": (grid, 1, 1), "block": (64, 1, 1), "scalars": (len(a), 1, 4)}
    return run(program, [a, B, c], **sizes, order=order, step_limit=2000)[2]


def marked(name: str, mark: str) -> int:
    lines = (FOLDER / f"{name}.cu").read_text(encoding="utf-8").splitlines()
    (number,) = (n for n, line in enumerate(lines, 1) if re.search(rf"// .*\b{mark}\b", line))
    return number


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_reported_with_its_place(name: str, order: Order) -> None:
    expected = FAULTS[name]
    with pytest.raises(KernelFaultError) as caught:
        launch(name, right=False, grid=expected.grid, order=order)
    fault, text = caught.value, str(caught.value)
    if order != "lockstep" and fault.kind == OUT_OF_ORDER.get(name):
        return
    path, line = fault.where.rsplit(":", 1)
    assert Path(path).name == f"{name}.cu"
    assert text.startswith(f"{fault.where}: {fault.kind}: ")
    assert fault.kind == expected.kind
    here = marked(name, "HERE")
    if expected.kind == "race":
        # Which of the two comes first depends on the order; both are named.
        both = {here, marked(name, "THERE")}
        assert {int(n) for n in re.findall(rf"{name}\.cu:(\d+)", text)} == both
        assert int(line) in both
    elif expected.kind == "divergent barrier":
        assert int(line) == here
        assert f"{name}.cu:{marked(name, 'THERE')}" in text
    elif expected.kind == "endless loop":
        assert abs(int(line) - here) <= 3
    else:
        assert int(line) == here
    assert expected.thread in text
    assert f"block {expected.block}" in text
    if order == "lockstep":
        assert re.search(expected.says, text), text


@pytest.mark.parametrize(
    ("name", "partner"), [("race_write_read", 32), ("race_read_write", 32), ("race_within_a_warp", 1)]
)
def test_a_race_names_two_threads_that_do_collide(name: str, partner: int) -> None:
    with pytest.raises(KernelFaultError) as caught:
        launch(name, right=False, order="lockstep")
    one, other = (int(x) for x in re.findall(r"by thread \((\d+), 0, 0\)", str(caught.value)))
    assert one ^ other == partner


def test_threads_and_blocks_are_named_in_three_dimensions() -> None:
    kernel = compile_snippet(
        'extern "C" __global__ void faulty(const float* A, const float* B, float* C, int M, int N, int K) {\n'
        "  int thread = (threadIdx.z * 4 + threadIdx.y) * 8 + threadIdx.x;\n"
        "  int i = ((blockIdx.z * 3 + blockIdx.y) * 2 + blockIdx.x) * 64 + thread;\n"
        "  C[i] = A[i == 5 * 64 + 45 ? M : 0];\n}\n",
        "faulty",
    )
    program = program_of(kernel.ptx, kernel.lowered_name)
    c = np.zeros(12 * 64, np.float32)
    with pytest.raises(KernelFaultError, match=r"by thread \(5, 1, 1\) of block \(1, 2, 0\)"):
        run(program, [A, B, c], scalars=(ELEMENTS, 1, 4), grid=(2, 3, 2), block=(8, 4, 2))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", FAULTS)
def test_the_corrected_kernel_runs(name: str, order: Order) -> None:
    expected = launch(name, right=True, grid=FAULTS[name].grid, order="lockstep")
    np.testing.assert_array_equal(launch(name, right=True, grid=FAULTS[name].grid, order=order), expected)
    assert (expected != -1).any()


LANE = np.arange(64)
RESULTS: dict[str, NDArray[Any]] = {
    "double_buffer": A[LANE ^ 32] * 4 + 3,
    "disjoint_halves": A[LANE // 32 * 32 + (LANE + 1) % 32],
    "half_words": 3 * (LANE ^ 33) + (LANE ^ 7),
    "own_words": 2 * A[:64],
    "same_word_read": np.full(64, 5),
    "early_return": np.where(LANE < 20, 39 - LANE, -1),
    "early_return_of_a_warp": np.where(LANE < 32, 31 - LANE, -1),
    "atomics": np.full(64, LANE.sum()),
}


def test_every_kernel_of_the_folder_is_expected() -> None:
    assert {*RESULTS} == RIGHT
    for name in FAULTS:
        assert "#ifdef RIGHT" in (FOLDER / f"{name}.cu").read_text(encoding="utf-8")


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", RESULTS)
def test_what_is_right_is_not_reported(name: str, order: Order) -> None:
    grid = 2 if name == "early_return_of_a_warp" else 1
    np.testing.assert_array_equal(launch(name, right=False, grid=grid, order=order)[:64], RESULTS[name])


def test_a_missing_warp_barrier_shows_between_lanes_and_not_between_warps() -> None:
    """``disjoint_halves`` without its ``__syncwarp()`` is a race that ``__syncwarp()`` would cure."""
    source = (FOLDER / "disjoint_halves.cu").read_text(encoding="utf-8")
    assert source.count("  __syncwarp();\n") == 1
    kernel = compile_snippet(source.replace("  __syncwarp();\n", ""), "faulty")
    with pytest.raises(KernelFaultError, match=r"race: .*Add __syncwarp\(\)"):
        run(program_of(kernel.ptx, kernel.lowered_name), [A, B, A], scalars=(ELEMENTS, 1, 4), block=(64, 1, 1))


def test_an_element_that_nobody_wrote_is_found() -> None:
    check = prove(emulator(), mutant("last_rows_unwritten"), Shape(m=12, n=9, k=3))
    assert not check.passed
    assert check.failure is not None
    assert re.search(r"C\[row 8, column 0\].*never written", check.failure)
