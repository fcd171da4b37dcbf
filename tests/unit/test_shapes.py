"""Shape classes: squares of a power of two lie in their middles, and neighbours are near."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ladder.errors import ShapeError
from ladder.model import Shape
from ladder.shapes import ShapeClass, distance, shape_class

H200_SMS = 132
sides = st.integers(0, 2**17)
shapes = st.builds(lambda m, n, k: Shape(m=m, n=n, k=k), sides, sides, sides)
sm_counts = st.integers(1, 200)


def square(n: int) -> Shape:
    return Shape(m=n, n=n, k=n)


@pytest.mark.parametrize(
    ("text", "tiles_log2", "depth_log2", "aligned"),
    [
        ("512x512x512", -3, 9, True),  # 16 tiles
        ("1024x1024x1024", -1, 10, True),  # 64 tiles
        ("2048x2048x2048", 1, 11, True),  # 256 tiles
        ("4096x4096x4096", 3, 12, True),  # 1024 tiles
        ("8192x8192x8192", 5, 13, True),  # 4096 tiles
        ("65536x65536x65536", 5, 13, True),
        ("4000x4000x4000", 3, 12, True),
        ("16384x1024x1024", 3, 10, True),
        ("1024x1024x16384", -1, 13, True),
        ("4096x4096x4095", 3, 12, False),
        ("4096x4095x4096", 3, 12, False),
        ("4095x4096x4096", 3, 12, True),
        ("1x1x1", -4, 6, False),
        ("0x7x0", -4, 6, False),
        ("0x0x0", -4, 6, True),
    ],
)
def test_the_class_of_a_shape_on_an_h200(text: str, tiles_log2: int, depth_log2: int, aligned: bool) -> None:
    expected = ShapeClass(tiles_log2=tiles_log2, depth_log2=depth_log2, aligned=aligned)
    assert shape_class(Shape.parse(text), H200_SMS) == expected


def test_a_smaller_gpu_is_full_sooner() -> None:
    assert shape_class(square(1024), 40).tiles_log2 == shape_class(square(2048), 160).tiles_log2 == 1


@given(shapes, sm_counts)
def test_every_shape_has_a_class(shape: Shape, sm_count: int) -> None:
    found = shape_class(shape, sm_count)
    assert found == ShapeClass(
        tiles_log2=found.tiles_log2, depth_log2=found.depth_log2, aligned=shape.n % 4 == 0 and shape.k % 4 == 0
    )


@given(shapes, shapes, sm_counts, sm_counts)
def test_distance_is_symmetric_and_zero_to_itself(one: Shape, other: Shape, sms: int, other_sms: int) -> None:
    assert distance(one, sms, other, other_sms) == distance(other, other_sms, one, sms)
    assert distance(one, sms, one, sms) == (False, 0, 0)


@pytest.mark.parametrize(
    ("asked", "nearest"),
    [
        ("4000x4000x4000", 4096), ("3000x3000x3000", 4096), ("600x600x600", 512), ("900x900x900", 1024),
        ("100x100x100", 512), ("10000x10000x10000", 8192), ("16384x1024x4096", 4096), ("1024x1024x16384", 1024),
    ],
)  # fmt: skip
def test_the_nearest_square(asked: str, nearest: int) -> None:
    shape = Shape.parse(asked)
    squares = (512, 1024, 2048, 4096, 8192)
    assert min(squares, key=lambda n: distance(shape, H200_SMS, square(n), H200_SMS)) == nearest


def test_alignment_counts_before_size_and_proportions_last() -> None:
    asked = Shape(m=1000, n=1500, k=777)
    ragged, aligned = Shape(m=4001, n=4001, k=4001), Shape(m=1000, n=1500, k=776)
    assert distance(asked, 132, ragged, 132) < distance(asked, 132, aligned, 132)
    tall, wide = Shape(m=16384, n=1024, k=1024), Shape(m=1024, n=16384, k=1024)
    assert distance(tall, 132, tall, 132)[:2] == distance(tall, 132, wide, 132)[:2]
    assert distance(tall, 132, tall, 132) < distance(tall, 132, wide, 132)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tiles_log2": 6}, "tiles_log2 is 6; it is an integer from -4 to 5"),
        ({"tiles_log2": 1.0}, "tiles_log2 is 1.0"),
        ({"depth_log2": 5}, "depth_log2 is 5"),
        ({"depth_log2": True}, "depth_log2 is True"),
        ({"aligned": 1}, "aligned is 1; it is true or false"),
    ],
)
def test_a_class_out_of_range_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ShapeError, match=words):
        ShapeClass(**({"tiles_log2": 0, "depth_log2": 10, "aligned": True} | changes))


def test_no_sms_are_refused() -> None:
    with pytest.raises(ShapeError, match="0 SMs"):
        shape_class(square(5), 0)


def test_a_class_reads_as_words() -> None:
    assert str(shape_class(square(1024), 132)) == "1/2 tiles an SM, K about 1024, rows aligned"
    assert str(shape_class(square(9999), 132)) == "32 or more tiles an SM, K about 8192 or more, rows not aligned"
    assert str(shape_class(square(1), 132)) == "1/16 or less tiles an SM, K about 64 or less, rows not aligned"
