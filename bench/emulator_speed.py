"""How fast the emulator is: each rung on each engine, on one core, counting and watching for faults.

    python bench/emulator_speed.py [--shape 512x512x512] [--rung NAME ...] [--engine numpy] [--engine c]

A thread-instruction is one PTX instruction that one lane executes: the sum over executed basic blocks of their length
times the lanes that took part. Seconds are processor time, of the best of ``--repeat`` runs; compiling is not in them
and has a column of its own.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, get_args

import numpy as np

from ladder import catalog
from ladder.backends.emulated import EmulatedBackend, Engine
from ladder.errors import LadderError
from ladder.model import Shape
from ladder.nvrtc import Compiled, compile_rung
from ladder.profiles import load_profile
from ladder.ptx import Machine, Program
from ladder.ptx.c import CMachine

ENGINES = tuple(engine for engine in get_args(Engine) if engine != "auto")


class Tally:
    """Counts the thread-instructions of all that runs while it is open."""

    def __init__(self) -> None:
        self.count = 0
        self._undo: list[Callable[[], None]] = []

    def __enter__(self) -> Tally:
        self._replace(Machine, self._numpy_launch)
        self._replace(CMachine, self._c_launch)
        return self

    def __exit__(self, *_: object) -> None:
        while self._undo:
            self._undo.pop()()

    def _replace(self, machine: Any, make: Callable[[Any], Any]) -> None:
        launch = machine.launch
        machine.launch = make(launch)
        self._undo.append(lambda: setattr(machine, "launch", launch))

    def _c_launch(self, launch: Any) -> Any:
        def counted(machine: CMachine, **how: Any) -> None:
            before = machine.thread_instructions
            launch(machine, **how)
            self.count += machine.thread_instructions - before

        return counted

    def _numpy_launch(self, launch: Any) -> Any:
        def counted(machine: Machine, **how: Any) -> None:
            self._watch(machine.program)
            launch(machine, **how)

        return counted

    def _watch(self, program: Program) -> None:
        for block in program.blocks:
            self._undo.append(lambda b=block, run=block.run, masked=block.run_masked: _restore(b, run, masked))

            def run(m: Any, r: Any, length: int = len(block.instructions), run: Any = block.run) -> None:
                self.count += length * m.threads * m.blocks
                run(m, r)

            def masked(
                m: Any, r: Any, k: Any, length: int = len(block.instructions), run: Any = block.run_masked
            ) -> None:
                self.count += length * int(np.count_nonzero(k)) * (m.threads * m.blocks // k.size)
                run(m, r, k)

            block.run, block.run_masked = run, masked


def _restore(block: Any, run: Any, masked: Any) -> None:
    block.run, block.run_masked = run, masked


def measure(engine: Engine, kernel: Compiled, shape: Shape, repeat: int) -> tuple[float, float, int]:
    """Seconds to make the kernel ready, seconds of the fastest run, and thread-instructions of a run."""
    backend = EmulatedBackend(load_profile("h200").device, engine=engine)
    random = np.random.default_rng(1)
    a = random.standard_normal((shape.m, shape.k), dtype=np.float32)
    b = random.standard_normal((shape.k, shape.n), dtype=np.float32)
    start = time.perf_counter()
    rows, columns, _ = kernel.rung.multiple
    backend.run(kernel, a[:rows], b[:, :columns].copy())
    ready_s = time.perf_counter() - start
    fastest = np.inf
    tally = Tally()
    for _ in range(repeat):
        tally.count = 0
        with tally:
            start = time.process_time()
            backend.run(kernel, a, b, count=True)
            fastest = min(fastest, time.process_time() - start)
    return ready_s, float(fastest), tally.count


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description="Speed of the emulator's engines.")
    parser.add_argument("--shape", default="512x512x512", metavar="MxNxK")
    parser.add_argument("--rung", action="append", default=[], help="default all; may be repeated")
    parser.add_argument("--engine", action="append", choices=ENGINES, help="default both; may be repeated")
    parser.add_argument("--repeat", type=int, default=1)
    options = parser.parse_args(arguments)
    engines: list[Engine] = options.engine or list(ENGINES)
    try:
        shape = Shape.parse(options.shape)
        device = EmulatedBackend(load_profile("h200").device).device
        found = catalog.find(options.rung)
        rungs = [rung for rung in found if rung.supports(shape) is None and rung.why_not_on(device) is None]
        print(f"{shape}, processor seconds, M thread-instructions/s")
        print(f"{'':18}{'M':>7}" + "".join(f"{e:>10} s{'M/s':>7}" for e in engines) + f"{'ratio':>8}{'ready s':>9}")
        for rung in rungs:
            kernel = compile_rung(rung, arch="sm_90")
            rows = [measure(engine, kernel, shape, options.repeat) for engine in engines]
            speeds = "".join(f"{run_s:12.3f}{count / run_s / 1e6:7.0f}" for _, run_s, count in rows)
            ratio = f"{rows[0][1] / rows[-1][1]:8.1f}" if len(rows) > 1 else f"{'':8}"
            print(f"{rung.name:18}{rows[-1][2] / 1e6:7.0f}{speeds}{ratio}{rows[-1][0]:9.2f}", flush=True)
    except LadderError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"peak memory {peak_kib / 2**20:.2f} GiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
