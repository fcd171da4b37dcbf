"""The probes by roof: what to try, how to launch it, and what its machine code should hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ladder.ceilings import _dram, _l2, _pipes, _tensor
from ladder.ceilings._bench import Bench, Work
from ladder.ceilings._machine import Coded
from ladder.ceilings._types import Config
from ladder.counters.metrics import DRAM_READ, DRAM_WRITE, SHARED_LD, XBAR_READ
from ladder.model import Device

__all__ = ["PROBES", "Probe"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """How one roof is measured."""

    configs: Callable[[Device], Iterator[Config]]
    prepare: Callable[[Bench, Config, int], Work]
    code: Callable[[Config], Coded | None]
    counters: tuple[str, ...]
    """What its :class:`Work` has counted."""
    times_to_count: int = 1
    """How much longer the launch is that counters watch: what a copy leaves in L2 must not weigh."""
    times_as_long: float = 1.0
    """How much longer it is kept up than others: power and clock of the tensor cores settle slowly."""


def _tensor_probe(element: _tensor.Element) -> Probe:
    return Probe(
        configs=_tensor.tensor_configs(element),
        prepare=_tensor.tensor_prepare,
        code=_tensor.tensor_code,
        counters=(_tensor.OPS[element],),
        times_as_long=2.0,
    )


PROBES: dict[str, Probe] = {
    "fp32": Probe(
        configs=_pipes.fma_configs, prepare=_pipes.fma_prepare, code=_pipes.fma_code, counters=(_pipes.FFMA,)
    ),
    "sm": Probe(
        configs=_pipes.shared_configs, prepare=_pipes.shared_prepare, code=_pipes.shared_code, counters=(SHARED_LD,)
    ),
    "l2": Probe(
        configs=_l2.l2_configs,
        prepare=_l2.l2_prepare,
        code=_l2.l2_code,
        counters=(XBAR_READ, DRAM_READ),
        times_as_long=0.6,
    ),
    "dram": Probe(
        configs=_dram.copy_configs,
        prepare=_dram.copy_prepare,
        code=_dram.copy_code,
        counters=(DRAM_READ, DRAM_WRITE),
        times_to_count=4,
    ),
    "tf32": _tensor_probe("tf32"),
    "bf16": _tensor_probe("bf16"),
}
"""In the order in which they are measured: the tensor cores last, since they heat the card."""
