"""Who holds which tile: read off the parameters, said in words, and drawn without one label on another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.figures import assert_legible, texts
from matplotlib.figure import Figure

from ladder.catalog import load_catalog
from ladder.model import Rung
from ladder.report import tile_figure
from ladder.report.draw import Drawing
from ladder.report.tiles import alt, tiles

RUNGS = [rung for rung in load_catalog() if rung.kind == "rung"]


def rung(tile: tuple[int, int], threads: int, *, grid_z_tile: int | None = None, **params: int) -> Rung:
    return Rung(
        name="mine", number=1, kind="rung", title="Mine", kernel="mine", params=params, tile=tile,
        block=(threads, 1, 1), path=Path("01_mine.cu"), source="", grid_z_tile=grid_z_tile,
    )  # fmt: skip


CASES = {
    "nothing said": rung((32, 32), 1024),
    "square": rung((64, 64), 1024, T=64, NUM_THREADS=1024),
    "odd share": rung((128, 256), 384, BM=128, BN=256, BK=64, STAGES=5),
    "thread": rung((128, 128), 256, BM=128, BN=128, BK=8, TM=8, TN=8),
    "column": rung((64, 64), 512, BM=64, BN=64, BK=8, TM=8),
    "warp": rung((128, 128), 256, BM=128, BN=128, BK=16, WM=64, WN=32, TM=8, TN=8, STAGES=4),
    "mma": rung((128, 256), 384, BM=128, BN=256, BK=32, WM=64, WN=64, MMA_M=16, MMA_N=8, MMA_K=8, STAGES=3),
    "mma without k": rung((128, 256), 256, BM=128, BN=256, MMA_M=64, MMA_N=256),
    "tall": rung((256, 64), 128, BM=256, BN=64, BK=8, TM=16, TN=8, WM=32, WN=64, STAGES=8),
    "wide": rung((16, 256), 128, BM=16, BN=256, BK=32, TM=2, TN=16),
    "huge": rung((1024, 1024), 64, BM=1024, BN=1024, BK=128, TM=128, TN=128, STAGES=12),
    "does not divide": rung((96, 80), 96, BM=96, BN=80, BK=8, WM=40, WN=48, TM=7, TN=9),
    "many parameters": rung(
        (128, 128), 256, BM=128, BN=128, BK=16, WM=64, WN=32, TM=8, TN=8, STAGES=4,
        **{f"A_PARAMETER_OF_MANY_{i}": 1000 * i for i in range(1, 9)},
    ),
    "grid z": rung((16, 16), 256, grid_z_tile=16, T=16),
}  # fmt: skip


@pytest.fixture
def figure(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Figure]]:
    seen: list[Figure] = []

    def keep(drawn: Figure, **words: str) -> Drawing:
        seen.append(drawn)
        return Drawing(svg="", png=b"", **words)

    monkeypatch.setattr(tile_figure, "finish", keep)
    return iter([seen])


@pytest.mark.parametrize("each", [*CASES.values(), *RUNGS], ids=[*CASES, *(found.name for found in RUNGS)])
def test_no_text_covers_another_or_leaves_the_page(each: Rung, figure: Iterator[list[Figure]]) -> None:
    tile_figure.draw(each)
    (drawn,) = next(figure)
    assert_legible(drawn)


@pytest.mark.parametrize("each", [*CASES.values(), *RUNGS], ids=[*CASES, *(found.name for found in RUNGS)])
def test_every_parameter_stands_in_the_figure_and_in_its_words(each: Rung, figure: Iterator[list[Figure]]) -> None:
    drawing = tile_figure.draw(each)
    (drawn,) = next(figure)
    shown = " ".join(text.get_text() for text in texts(drawn)).replace("\N{NO-BREAK SPACE}", " ")
    for name, value in each.params.items():
        assert f"{name} = {value}" in shown
        assert f"{name} = {value}" in drawing.alt


@pytest.mark.parametrize(
    ("case", "parts"),
    [
        ("nothing said", ("1 sum a thread",)),
        ("square", ("4 sums a thread",)),
        ("odd share", ()),
        ("thread", ("256 thread tiles of 8 x 8",)),
        ("column", ("512 thread tiles of 8 x 1",)),
        ("warp", ("8 warp tiles of 64 x 32", "256 thread tiles of 8 x 8")),
        ("mma", ("8 warp tiles of 64 x 64", "matrix instructions of 16 x 8 x 8")),
        ("does not divide", ("warp tiles of 40 x 48", "thread tiles of 7 x 9")),
    ],
)
def test_what_a_block_is_cut_into(case: str, parts: tuple[str, ...]) -> None:
    assert tiles(CASES[case]).parts == parts


def test_the_words_say_who_computes_what_and_how_k_is_walked() -> None:
    assert alt(CASES["warp"]) == (
        "A block of 256 threads, 8 warps computes a tile of C of 128 x 128: 8 warp tiles of 64 x 32 and 256 thread "
        "tiles of 8 x 8. It walks K in k tiles of 16, 4 of them in shared memory at once. Parameters: BM = 128, "
        "BN = 128, BK = 16, WM = 64, WN = 32, TM = 8, TN = 8, STAGES = 4."
    )
    assert "walks K" not in alt(CASES["nothing said"])
    assert "The grid's z shares out the k tiles." in alt(CASES["grid z"])
    assert alt(rung((8, 8), 48)) == "A block of 48 threads computes a tile of C of 8 x 8."


def test_stages_are_drawn_as_so_many_k_tiles_of_a_and_of_b(figure: Iterator[list[Figure]]) -> None:
    for stages in (1, 3):
        tile_figure.draw(rung((128, 128), 256, BM=128, BN=128, BK=16, STAGES=stages))
    one, three = (len(drawn.axes[0].patches) for drawn in next(figure))
    key = 2  # the shade of the k tiles on their way has a place in the key
    assert three - one == 2 * 2 + key


def test_the_same_rung_gives_the_same_bytes_and_says_what_it_shows() -> None:
    one, two = tile_figure.draw(CASES["thread"]), tile_figure.draw(CASES["thread"])
    assert one.svg == two.svg
    assert f"<desc>{alt(CASES['thread'])}</desc>" in one.svg
    assert "<title>mine: who holds which tile</title>" in one.svg
