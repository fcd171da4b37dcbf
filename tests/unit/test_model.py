"""The traffic of several launches together."""

from __future__ import annotations

import pytest

from ladder.model import Quantity, Traffic, added

ONE = Traffic(
    levels={"l1": Quantity(bytes=5, origin="emulated"), "dram": Quantity(bytes=7, origin="modelled")},
    wavefronts_ld=1, wavefronts_st=2, requests_ld=3, requests_st=4, global_wavefronts=5, global_requests=6,
)  # fmt: skip


def test_launches_add_up_level_by_level_and_keep_their_origins() -> None:
    assert added([ONE]) == ONE
    assert added([ONE, ONE, ONE]) == Traffic(
        levels={"l1": Quantity(bytes=15, origin="emulated"), "dram": Quantity(bytes=21, origin="modelled")},
        wavefronts_ld=3, wavefronts_st=6, requests_ld=9, requests_st=12, global_wavefronts=15, global_requests=18,
    )  # fmt: skip


def test_launches_that_were_counted_differently_have_no_sum() -> None:
    other = Traffic(levels={"l1": Quantity(bytes=5, origin="emulated")})
    with pytest.raises(ValueError, match=r"no sum of 2 launches that counted \[\['dram', 'l1'\], \['l1'\]\]"):
        added([ONE, other])
    with pytest.raises(ValueError, match="no sum of 0 launches"):
        added([])
