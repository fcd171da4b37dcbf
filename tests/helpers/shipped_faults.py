"""Faults that matmul projects have shipped: where each is tested, and kernels that are broken that way on purpose."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from helpers.kernels import compiled, emulator, mutant
from ladder.backends.emulated import EmulatedBackend
from ladder.catalog import load_catalog, parse_file
from ladder.check import DataKind
from ladder.check._prove import Attempt, attempt
from ladder.model import Rung, Shape
from ladder.nvrtc import Compiled, compile_rung
from ladder.profiles import load_profile

__all__ = ["EMULATOR", "FAULTS", "NUMPY", "broken", "mutant", "of_file", "sound", "tried"]

SHIPPED = Path(__file__).parent / "shipped"
# Shared, since a backend keeps the programs that it has read.
EMULATOR = emulator()
# A kernel that runs once is not worth a C compiler's time.
NUMPY = EmulatedBackend(load_profile("h200").device, engine="numpy")

_SHAPES = "tests/emulated/test_shipped_faults_shapes.py::"
_MEMORY = "tests/emulated/test_shipped_faults_memory.py::"
_CHECKER = "tests/emulated/test_shipped_faults_checker.py::"
_HOST = "tests/emulated/test_shipped_faults_host.py::"

FAULTS: dict[str, tuple[str, ...]] = {
    "NaN passes the checker": (
        f"{_CHECKER}test_nan_passes_the_checker",
        "tests/unit/test_oracle.py::test_nan_never_passes",
    ),
    "ragged shapes, and one past a tile": (
        f"{_SHAPES}test_ragged_shapes_and_one_past_a_tile",
        "tests/emulated/test_prove.py::test_every_rung_is_proved",
        "tests/gpu/test_rungs_on_gpu.py::test_every_rung_is_proved_at_ragged_shapes",
    ),
    "reads past the end that only fail at 100x100x100": (
        f"{_SHAPES}test_reads_past_the_end_that_only_fail_at_100",
        "tests/unit/test_check.py::test_search_passes_a_right_rung_and_tries_what_matters",
    ),
    "last rows unwritten at 30000x64x64": (
        f"{_SHAPES}test_last_rows_unwritten_at_30000",
        "tests/emulated/test_mutants.py::test_square_products_of_whole_tiles_hide_mutants",
    ),
    "M and N swapped": (
        f"{_SHAPES}test_m_and_n_swapped_so_that_only_square_works",
        "tests/emulated/test_mutants.py::test_square_products_of_whole_tiles_hide_mutants",
    ),
    "an odd number of k-tiles with two buffers": (f"{_SHAPES}test_an_odd_number_of_k_tiles_with_two_buffers",),
    "unsigned wrap of K - BK": (
        f"{_SHAPES}test_unsigned_wrap_of_k_minus_bk",
        "tests/emulated/test_mutants.py::test_prove_refuses_every_mutant_at_a_ragged_shape",
    ),
    "a missing barrier": (
        f"{_MEMORY}test_a_missing_barrier",
        f"{_MEMORY}test_a_race_that_shows_only_as_other_bits",
        "tests/unit/test_check.py::test_bits_that_change_between_runs_fail_a_rung_that_promises_them",
    ),
    "tile parameters that compile but do not fit together": (
        f"{_SHAPES}test_tile_parameters_that_do_not_fit_together",
        "tests/emulated/test_mutants.py::test_search_finds_and_shrinks_every_mutant",
    ),
    "an int32 index past 2^31 elements": (
        f"{_MEMORY}test_an_int32_index_past_two_to_the_31",
        "tests/gpu/test_huge_on_gpu.py::test_a_huge_a",
        "tests/gpu/test_huge_on_gpu.py::test_a_huge_b",
        "tests/gpu/test_huge_on_gpu.py::test_a_huge_c",
    ),
    "gridDim.y past 65535": (
        f"{_SHAPES}test_grid_y_past_65535",
        "tests/unit/test_geometry.py::test_rows_past_the_limit_of_grid_y_are_launched_apart",
        "tests/gpu/test_rungs_on_gpu.py::test_more_tile_rows_than_a_grid_holds",
    ),
    "misaligned vector loads": (
        f"{_MEMORY}test_misaligned_vector_loads",
        "tests/gpu/test_rungs_on_gpu.py::test_pointers_may_be_shifted_by_single_elements",
    ),
    "K = 0 must give zeros": (
        f"{_SHAPES}test_k_0_must_give_zeros",
        "tests/unit/test_geometry.py::test_k_zero_still_launches_for_c_must_become_zeros",
    ),
    "M or N = 0: no launch": (
        f"{_SHAPES}test_m_or_n_0_must_not_launch",
        "tests/unit/test_geometry.py::test_an_empty_c_needs_no_launch",
    ),
    "C is NaN before the launch": (
        f"{_CHECKER}test_c_is_nan_before_the_launch",
        "tests/unit/test_oracle.py::test_poison_is_told_apart_from_a_computed_nan",
    ),
    "transposed or strided numpy views taken as contiguous": (
        f"{_HOST}test_views_of_numpy_taken_as_contiguous",
        "tests/unit/test_api.py::test_a_view_is_multiplied_as_what_it_shows",
    ),
    "more than 48 KiB of shared memory without the opt-in": (
        f"{_MEMORY}test_more_than_48_kib_of_shared_memory",
        "tests/unit/test_cuda_backend.py::test_shared_memory_over_48_kib_is_opted_into_once",
        "tests/gpu/test_backend_on_gpu.py::test_dynamic_shared_memory_is_all_there",
        "tests/gpu/test_backend_on_gpu.py::test_one_static_byte_over_48_kib_of_dynamic_shared_memory",
    ),
    "NVRTC cannot find cuda_fp16.h": (f"{_HOST}test_nvrtc_cannot_find_cuda_fp16",),
    "wgmma built for sm_90 instead of sm_90a": (f"{_HOST}test_wgmma_built_for_sm_90",),
    "TMA strides that are not multiples of 16 bytes": (
        f"{_HOST}test_tma_strides_that_are_no_multiples_of_16_bytes",
        "tests/unit/test_catalog_extras.py::test_what_the_tma_unit_cannot_serve_is_refused",
        "tests/gpu/test_tma_and_pack_on_gpu.py::test_maps_of_misaligned_operands_are_refused",
    ),
    "TF32 compared with an FP32 tolerance": (f"{_CHECKER}test_tf32_compared_with_an_fp32_tolerance",),
    "a fixed tolerance under cancellation": (f"{_CHECKER}test_a_fixed_tolerance_under_cancellation",),
    "infinities turned into NaN by a split": (
        f"{_CHECKER}test_infinities_turned_into_nan_by_a_split",
        "tests/emulated/test_split.py::test_specials_reach_their_row_or_column_and_no_other",
        "tests/gpu/test_split_on_gpu.py::test_the_ends_of_the_range_are_those_of_float32",
    ),
    "FLOP or byte counts past int32": (f"{_HOST}test_flop_and_byte_counts_past_int32",),
    "a Python float passed to a float parameter": (f"{_HOST}test_a_python_float_passed_to_a_float_parameter",),
    "recycled memory that still holds the right answer": (
        f"{_CHECKER}test_recycled_memory_that_still_holds_the_right_answer",
        f"{_CHECKER}test_memory_of_the_product_before_is_no_answer_to_this_one",
    ),
}
"""Each kind of fault with the tests that prove it is caught, the one that is named after it first."""


def sound(name: str) -> Compiled:
    """A rung of the catalogue as it stands."""
    return compiled(_rung(name))


@cache
def broken(name: str, *changes: tuple[str, str], arch: str = "sm_90") -> Compiled:
    """A rung with pieces of its source replaced, each of which stands there once."""
    rung = _rung(name)
    source = rung.source
    for old, new in changes:
        assert source.count(old) == 1, f"{name}: {old!r} stands there {source.count(old)} times"
        source = source.replace(old, new)
    return compile_rung(replace(rung, source=source), arch=arch)


@cache
def of_file(name: str, **params: int) -> Compiled:
    """``tests/helpers/shipped/NAME.cu``, with some of its parameters changed."""
    (rung,) = parse_file(SHIPPED / f"{name}.cu")
    return compile_rung(replace(rung, params={**rung.params, **params}), arch="sm_90")


def tried(
    kernel: Compiled,
    shape: str,
    *,
    kind: DataKind = "integers",
    offsets: tuple[int, int, int] = (0, 0, 0),
    backend: EmulatedBackend = NUMPY,
) -> Attempt:
    """One product in the emulator, judged."""
    return attempt(backend, kernel, Shape.parse(shape), kind=kind, offsets=offsets)


@cache
def _catalogue() -> dict[str, Rung]:
    return {rung.name: rung for rung in load_catalog()}


def _rung(name: str) -> Rung:
    return _catalogue()[name]
