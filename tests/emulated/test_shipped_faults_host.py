"""Faults around the kernel: arrays, headers, architectures, declarations, and the arithmetic of the host."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import cu
from helpers.fake_cuda import installed
from helpers.kernels import emulator
from helpers.shipped_faults import NUMPY, sound

import ladder
from ladder.backends.cuda import CudaBackend
from ladder.catalog import find, parse_file
from ladder.check import inputs
from ladder.errors import BackendError, CatalogError, CompileError, InputError
from ladder.model import Shape
from ladder.nvrtc import compile_rung
from ladder.profiles import load_profile

WHOLE = inputs(Shape.parse("12x10x14"), kind="integers")[0]


@pytest.mark.parametrize(
    "view", [WHOLE.T, WHOLE[::2], WHOLE[:, ::3], WHOLE[::-1], WHOLE[1:, 1:], np.asfortranarray(WHOLE)],
    ids=["transposed", "every second row", "every third column", "reversed", "a corner", "by columns"],
)  # fmt: skip
def test_views_of_numpy_taken_as_contiguous(view: Any) -> None:
    b = inputs(Shape(m=1, n=9, k=view.shape[1]), kind="integers")[1]
    as_it_lies = np.resize(WHOLE, view.shape)  # what its first address holds, row after row
    if view.flags.f_contiguous:
        as_it_lies = view.ravel(order="K").reshape(view.shape)
    elif view.base is not None and view.strides[0] < 0:
        as_it_lies = WHOLE
    right = np.array(view, order="C") @ b
    assert not np.array_equal(as_it_lies @ b, right), "a product of what lies there would be another one"
    np.testing.assert_array_equal(ladder.matmul(view, b, rung="tiled_16", backend="emulated"), right)
    with pytest.raises(InputError, match="C-contiguous"):
        NUMPY.run(sound("tiled_16"), view, b)


INCLUDING = f"""#include <cuda_fp16.h>
extern "C" __global__ void plain({cu.ARGUMENTS}) {{
  const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
  if (row < M && col < N) C[size_t(row) * N + col] = ZERO;
}}
"""


def test_nvrtc_cannot_find_cuda_fp16(tmp_path: Path) -> None:
    """NVRTC is a compiler without a toolkit. It is told which header, where it was looked for, and what to do."""
    path = cu.plain(tmp_path, kernel_text=INCLUDING)
    with pytest.raises(CompileError) as error:
        compile_rung(parse_file(path)[0], arch="sm_80")
    told = str(error.value)
    assert re.search(r"plain\.cu\(7\): (catastrophic )?error: .*cuda_fp16\.h", told)
    assert "cuda_fp16.h is neither beside plain.cu nor in cuda_src/common, and NVRTC comes without" in told
    assert "by its whole path" in told

    toolkit = tmp_path / "toolkit" / "include"
    toolkit.mkdir(parents=True)
    cu.write(toolkit / "cuda_fp16.h", '#include "cuda_fp16.hpp"\n')
    cu.write(toolkit / "cuda_fp16.hpp", "#define ZERO 0.0f\n")
    whole = INCLUDING.replace("<cuda_fp16.h>", f'"{(toolkit / "cuda_fp16.h").as_posix()}"')
    (rung,) = parse_file(cu.plain(tmp_path, kernel_text=whole))
    assert compile_rung(rung, arch="sm_80").resources.registers > 0


def test_wgmma_built_for_sm_90(tmp_path: Path) -> None:
    """Without ``arch`` a rung is compiled for the device's plain architecture, which has no wgmma."""
    (rung,) = find(["split_tensor_128"])
    h200 = load_profile("h200").device
    assert rung.arch_for(h200) == "sm_90a"
    assert ".target sm_90a" in compile_rung(rung, arch=rung.arch_for(h200)).ptx
    plain = replace(rung, arch=None)
    with pytest.raises(CompileError, match=r"wgmma.* not supported on .target 'sm_90'"):
        compile_rung(plain, arch=plain.arch_for(h200))
    later = replace(h200, compute_capability=(10, 0), backend="cuda")
    assert "needs compute capability 9.0 exactly (sm_90a)" in str(rung.why_not_on(later))


@pytest.mark.parametrize("multiple", [None, "{ N = 2 }", "{ K = 4 }"])
def test_tma_strides_that_are_no_multiples_of_16_bytes(multiple: str | None, tmp_path: Path) -> None:
    """Refused in the declaration, before there is a shape; and with the shape, before there is a launch."""
    (rung,) = find(["tma_pipeline"])
    path = cu.write(tmp_path / "tma.cu", cu.changed(rung.source, multiple=multiple))
    with pytest.raises(CatalogError, match=r"rows of B are 4 \* N bytes, which must be a multiple of 16"):
        parse_file(path)
    assert rung.supports(Shape.parse("512x512x63")) is None
    assert rung.supports(Shape.parse("512x510x64")) == (
        "rung tma_pipeline needs N % 4 == 0; got N=510 (shape 512x510x64). "
        "Pad N to 512 or use a rung without that limit."
    )


def test_flop_and_byte_counts_past_int32() -> None:
    """4096^3: 137 GFLOP and 34 GB, in numbers that neither the engine nor numpy cuts to 32 bits."""
    shape = Shape.parse("4096x4096x4096")
    traffic = emulator().replay(sound("tiled_32"), shape)
    tiles, edge = 4096 // 32, 4 * 4096 * 4096
    assert shape.flop == 2 * 4096**3 > 2**31
    assert traffic.levels["asked"].bytes == 2 * tiles * edge + edge > 2**31
    assert traffic.intensity(shape.flop)["asked"] == pytest.approx(8 / (1 + 32 / 8192), rel=1e-12)
    with np.errstate(over="ignore"):
        assert int(np.int32(2) * np.int32(4096) * np.int32(4096) * np.int32(4096)) == 0, "what int32 makes of it"
    assert all(isinstance(quantity.bytes, int) for quantity in traffic.levels.values())


def test_a_python_float_passed_to_a_float_parameter(tmp_path: Path) -> None:
    """It would go as a double: 8 bytes, whose lower half the kernel takes for its float."""
    assert np.array([1.5]).view(np.float32)[0] == 0.0
    scaled = cu.PLAIN.replace("int K)", "int K, float alpha)")
    with pytest.raises(
        CatalogError, match=r"plain \(line \d+\) takes \(.*float alpha\).*takes \(const float\* A, .*int K"
    ):
        parse_file(cu.plain(tmp_path, kernel_text=scaled))
    with installed() as world:
        backend = CudaBackend()
        backend.run(sound("tiled_16"), *inputs(Shape.parse("5x6x7")))
        (launch,) = world.rung_launches
        assert [type(argument) for argument in launch.arguments] == [int] * 3 + [np.int32] * 3
        gpu = backend.gpu
        kernel = gpu.load(sound("tiled_16"))
        with pytest.raises(BackendError, match=r"1\.5 is a Python float, .* give numpy\.float32\(1\.5\)"):
            gpu.launcher(kernel, (1, 1, 1), (1, 1, 1), 1.5)
        gpu.launcher(kernel, (1, 1, 1), (1, 1, 1), np.float32(1.5))
