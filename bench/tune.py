"""Try the parameters that a rung declares in ``tune`` on the card in hand, and keep the best for each class of shapes.

    python bench/tune.py register_tile --shape 1024x1024x1024 --shape 4096x4096x4096

A candidate that does not compile, spills or does not fit is left out and counted; each other one is proved, with guards
around its buffers at a small ragged shape and then at the shape itself, before it is timed. All are timed in turn with
the declared parameters; the best few again, with cuBLAS SGEMM beside them, until the times have settled. The record
(``ladder-tuned/1``, see ``ladder/tuned.py``) is merged into ``--out``; no source is changed. Needs a GPU; torch for the
ratio to cuBLAS, and to prove large shapes in no time.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.candidates import NO_TIME, UNSUPPORTED, WRONG, Candidates, Judge, tell_wrong, tuned_values
from bench.cublas import MISSING, SGEMM, Library, library
from bench.side_by_side import Contestant, in_turn, now, record_path, sampler, shapes_of
from ladder import catalog
from ladder.backends.cuda import CudaBackend
from ladder.check import inputs
from ladder.climb import why_skipped
from ladder.errors import BackendError, InputError, LadderError, ShapeError
from ladder.model import Rung, Shape
from ladder.nvrtc import Compiled, nvrtc_version
from ladder.shapes import shape_class
from ladder.stats import percentile
from ladder.tuned import Tuned, merge_tuned

F32 = NDArray[np.float32]

FIRST_SAMPLES = 5
FINALISTS = 3
LEAST_GAIN = 1.005
"""What a candidate has to win by: below half a percent it is noise, and the declared parameters stay."""

ENDS_S = 8.0
"""Kept back of a shape's time for the finals: some five things, each warmed up and sampled for about a second."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Tune at every shape asked for; 1 when a candidate gave a wrong product."""
    parser = argparse.ArgumentParser(description="Find a rung's best parameters for each class of shapes.")
    parser.add_argument("rung", metavar="RUNG", help="a rung that declares `tune`")
    parser.add_argument("--shape", action="append", metavar="MxNxK", help="default 4096x4096x4096; may be repeated")
    parser.add_argument("--out", type=Path, metavar="OUT.json", help="default bench/results/CARD/tuned.json")
    parser.add_argument("--limit-s", type=float, default=60, metavar="S", help="seconds in all, compilation included")
    options = parser.parse_args(arguments)
    deadline = time.monotonic() + options.limit_s
    wrong = False
    try:
        shapes = shapes_of(options.shape, default=["4096x4096x4096"])
        declared = _one(options.rung)
        backend = CudaBackend()
        path = options.out or record_path(backend.device, "tuned.json")
        with ExitStack() as held:
            try:
                lib = held.enter_context(library(backend))
            except InputError:
                print(f"tune: {MISSING}. No ratio to it is recorded.", file=sys.stderr)
                lib = None
            tuner = Tuner(backend, declared, lib, deadline=deadline)
            for left, shape in zip(range(len(shapes), 0, -1), shapes, strict=True):
                entry = tuner.tune(shape, share=1 / left)
                merge_tuned(path, [entry])
                _tell(entry)
                wrong |= WRONG in entry.left_out
    except LadderError as error:
        print(f"tune: {error}", file=sys.stderr)
        return error.exit_code
    print(f"the record is {path}")
    return int(wrong)


def _one(name: str) -> Rung:
    found = catalog.find([name])
    if len(found) != 1:
        raise InputError(f"{name} is {len(found)} rungs; name one: {', '.join(rung.name for rung in found)}")
    return found[0]


class Tuner:
    """One rung's candidates on one GPU: compiled once, then proved and timed shape by shape.

    Args:
        backend: the GPU.
        declared: the rung as its file has it, the one to beat.
        lib: cuBLAS, or None.
        deadline: of ``time.monotonic``; what is not reached by then is left out.

    Raises:
        InputError: the rung declares nothing to tune, or cannot run here.
        CompileError, BackendError: it does not work as it is declared.
    """

    def __init__(self, backend: CudaBackend, declared: Rung, lib: Library | None, *, deadline: float) -> None:
        self.backend, self.declared, self.lib, self.deadline = backend, declared, lib, deadline
        self.candidates = Candidates.of(backend, declared, deadline=deadline)

    def tune(self, shape: Shape, *, share: float = 1.0) -> Tuned:
        """The best parameters at ``shape``, found within ``share`` of the time that is left.

        Raises:
            ShapeError: the rung does not support the shape.
            BackendError: it is wrong there as it is declared, or a launch failed.
        """
        device, incumbent = self.backend.device, self.candidates.incumbent
        reason = why_skipped(self.declared, shape, device)
        if reason is not None:
            raise ShapeError(reason)
        begun = time.monotonic()
        until = begun + share * (self.deadline - begun) - ENDS_S
        judge = Judge(self.backend, None if self.lib is None else self.lib.torch, shape)
        check = judge(incumbent)
        if not check.passed:
            raise BackendError(f"rung {self.declared.name} is wrong as it is declared: {check.failure}")
        left_out = Counter(self.candidates.left_out)
        a, b = inputs(shape, kind="uniform")
        ranked: list[tuple[float, Compiled]] = []
        with self.backend.prepared(incumbent, a, b) as (enqueue, launches):
            to_beat = Contestant(enqueue=enqueue, launches=launches)
            in_turn(self.backend, [to_beat])  # warms the GPU up
            for kernel in self.candidates.others:
                if why_skipped(kernel.rung, shape, device) is not None:
                    left_out[UNSUPPORTED] += 1
                elif time.monotonic() > until:
                    left_out[NO_TIME] += 1
                elif not (check := judge(kernel)).passed:
                    left_out[WRONG] += 1
                    tell_wrong(kernel.rung, check)
                else:
                    ranked.append((self._first_pass(kernel, to_beat, a, b), kernel))
        ranked.sort(key=lambda pair: pair[0])
        finalists = [kernel for _, kernel in ranked[:FINALISTS]]
        return self._finals(shape, [incumbent, *finalists], (a, b), tried=len(ranked), left_out=left_out)

    def _first_pass(self, kernel: Compiled, to_beat: Contestant, a: F32, b: F32) -> float:
        """The candidate's time over the declared one's: medians of a few samples in turn."""
        with self.backend.prepared(kernel, a, b) as (enqueue, launches):
            contestant = Contestant(enqueue=enqueue, launches=launches)
            samples = [sampler(self.backend, each) for each in (contestant, to_beat)]
            rounds = [[sample() for sample in samples] for _ in range(FIRST_SAMPLES)]
        own, other = (percentile(times, 50) for times in zip(*rounds, strict=True))
        return own / other

    def _finals(
        self,
        shape: Shape,
        entrants: Sequence[Compiled],
        operands: tuple[F32, F32],
        *,
        tried: int,
        left_out: Counter[str],
    ) -> Tuned:
        """The best of the entrants, the first of which is the declared one, all timed in turn with cuBLAS SGEMM."""
        a, b = operands
        with ExitStack() as held:
            ready = [held.enter_context(self.backend.prepared(kernel, a, b)) for kernel in entrants]
            contestants = [Contestant(enqueue=enqueue, launches=launches) for enqueue, launches in ready]
            if self.lib is not None:
                (sgemm,) = (peer for peer in self.lib.peers if peer.name == SGEMM)
                contestants.append(Contestant(enqueue=self.lib.prepared(sgemm, a, b)[0]))
            times = in_turn(self.backend, contestants)
        rates = [shape.flop / each.median for each in times]
        best = max(range(len(entrants)), key=rates.__getitem__)
        if rates[best] < LEAST_GAIN * rates[0]:
            best = 0
        device, rung = self.backend.device, self.declared
        return Tuned(
            card=device.name,
            driver=device.driver,
            nvrtc=nvrtc_version(),
            date=now(),
            rung=rung.name,
            source_sha256=catalog.source_sha256(rung),
            code_sha256=catalog.code_sha256(rung),
            shape=shape,
            shape_class=shape_class(shape, device.sm_count),
            params=tuned_values(entrants[best].rung),
            flop_per_s=rates[best],
            samples=times[best].samples,
            declared=tuned_values(rung),
            declared_flop_per_s=rates[0],
            peer_flop_per_s=None if self.lib is None else rates[-1],
            tried=tried,
            left_out={reason: count for reason, count in left_out.items() if count},
        )


def _tell(entry: Tuned) -> None:
    values = " ".join(f"{name}={value}" for name, value in entry.params.items())
    cublas = "" if entry.ratio_to_cublas is None else f", {entry.ratio_to_cublas:.3f} x cuBLAS"
    left_out = ", ".join(f"{count} {reason}" for reason, count in entry.left_out.items()) or "none"
    print(
        f"{entry.rung} at {entry.shape} ({entry.shape_class}): {values}, {entry.flop_per_s / 1e12:.2f} TFLOP/s, "
        f"{entry.gain:.3f} x declared{cublas}; {entry.tried} tried, left out: {left_out}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
