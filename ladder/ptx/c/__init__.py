"""The C engine: the emulator's programs as C, built by the system's compiler. Optional; numpy needs no compiler."""

from ladder.ptx.c.build import EngineUnavailableError, find_compiler
from ladder.ptx.c.engine import CKernel, CMachine, SuspectError, compile_program, runtime

__all__ = [
    "CKernel",
    "CMachine",
    "EngineUnavailableError",
    "SuspectError",
    "compile_program",
    "find_compiler",
    "runtime",
]
