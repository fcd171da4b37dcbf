"""Parse and execute the PTX that NVRTC emits, on the CPU, with a GPU's bits and a GPU's counters."""

from ladder.ptx.counting import Counters
from ladder.ptx.machine import Machine, Order
from ladder.ptx.memory import Buffer, GlobalMemory
from ladder.ptx.parse import parse
from ladder.ptx.program import Program, build
from ladder.ptx.syntax import Function

__all__ = ["Buffer", "Counters", "Function", "GlobalMemory", "Machine", "Order", "Program", "build", "parse"]
