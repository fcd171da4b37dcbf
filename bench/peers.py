"""Rungs and cuBLAS side by side: each rung, and cuBLAS TF32, timed in turn with cuBLAS SGEMM in one process.

    python bench/peers.py --rung register_tile --shape 4096x4096x4096 --json bench/results/nvidia-h200/fast.json
    python bench/peers.py --into results.json
    python bench/peers.py --rung register_tile --shape 4096x4096x4096 --errors

--rung and --shape may be repeated. Every row is proved first, on the GPU itself where the CPU would be slow, and has
the SM clock and the power while it runs alone, its time with cold caches, and a peer's the names of its kernels. Short
products are timed in CUDA graphs. ``beside`` in a row is SGEMM's time in turn with it, at the same clocks, which gives
the ratio to quote; the row ``cublas_sgemm`` is the fastest of those. ``--into`` adds the rows of cuBLAS to a results
file, at that file's own shapes if none is given, and does nothing where there is no GPU or no cuBLAS. ``--tuned`` gives
rungs the parameters of a tuner's record; ``--errors`` compares errors with cuBLAS's instead of times. Needs a GPU, and
nvmath-python with cuBLAS, or torch.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.accuracy import write_errors
from bench.cublas import MISSING, SGEMM, Library, Peer, library, plain_name
from bench.gpu_oracle import GpuOracle
from bench.side_by_side import Contestant, cold, in_turn, now, record_path, shapes_of
from ladder import catalog, store
from ladder.backends.cuda import CudaBackend, multiply_device
from ladder.backends.graphs import kernels_of
from ladder.check import inputs, prove
from ladder.climb import blank, why_skipped
from ladder.errors import BackendError, CompileError, DriverMissingError, InputError, LadderError
from ladder.model import Check, Rung, Shape, Timing
from ladder.nvrtc import compile_rung, nvrtc_version
from ladder.oracle import compare
from ladder.profiles import roofs_of
from ladder.shapes import shape_class
from ladder.store import Beside, Results, Run
from ladder.tuned import Tuned, load_tuned

F32 = NDArray[np.float32]

CPU_FLOP = 2 * 2048**3
"""Work up to which numpy is the judge; beyond, float64 on the GPU."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table; write the rows, the errors, or both."""
    parser = argparse.ArgumentParser(description="Time rungs and cuBLAS in turn, or compare their errors.")
    parser.add_argument("--rung", action="append", default=[], metavar="RUNG", help="a rung; may be repeated")
    parser.add_argument("--shape", action="append", metavar="MxNxK", help="default 4096x4096x4096, or those of --into")
    parser.add_argument("--json", type=Path, metavar="OUT.json", help="write all rows as a results file")
    parser.add_argument("--into", type=Path, metavar="RESULTS.json", help="add the rows of cuBLAS to this results file")
    parser.add_argument("--tuned", type=Path, metavar="TUNED.json", help="take parameters from this tuner's record")
    parser.add_argument(
        "--errors", nargs="?", type=Path, const=Path(), metavar="OUT.json",
        help="compare errors, in bench/results/CARD/errors.json if no file is given",
    )  # fmt: skip
    words = sys.argv[1:] if arguments is None else arguments
    options = parser.parse_args(words)
    only_into = options.into is not None and options.json is None and options.errors is None
    try:
        into = None if options.into is None else store.load(options.into)
        shapes = shapes_of(options.shape, default=_shapes_in(into) or ["4096x4096x4096"])
        rungs = catalog.find(options.rung) if options.rung else ()
        tuned = () if options.tuned is None else load_tuned(options.tuned)
        if only_into and into is not None and into.device.backend != "cuda":
            print(f"peers: none added: {options.into} was emulated, and cuBLAS is not", file=sys.stderr)
            return 0
        try:
            backend = CudaBackend()
        except DriverMissingError as error:
            if not only_into:
                raise
            print(f"peers: none added: {error}", file=sys.stderr)
            return 0
        if into is not None and into.device.name != backend.device.name:
            raise InputError(f"{options.into} is of {into.device.name}, and this is {backend.device.name}")
        with ExitStack() as held:
            held.callback(backend.close)
            try:
                lib = held.enter_context(library(backend))
            except InputError as error:
                if only_into:
                    print(f"peers: none added: {error}", file=sys.stderr)
                    return 0
                if not rungs or options.errors is not None:
                    raise
                print(f"peers: {MISSING}. The rungs are timed alone.", file=sys.stderr)
                lib = None
            bench = Bench(backend, lib, rungs, tuned)
            command = shlex.join(["python", "bench/peers.py", *words])
            failed = False
            if options.errors is not None and lib is not None:
                path = options.errors if options.errors.name else record_path(backend.device, "errors.json")
                write_errors(path, lib, backend, rungs, shapes, command=command)
            if options.errors is None or options.json is not None or into is not None:
                failed = bench.write(shapes, options.json, (options.into, into), command=command)
    except LadderError as error:
        print(f"peers: {error}", file=sys.stderr)
        return error.exit_code
    return int(failed)


class Bench:
    """What is timed, and where."""

    def __init__(
        self, backend: CudaBackend, lib: Library | None, rungs: Sequence[Rung], tuned: Sequence[Tuned] = ()
    ) -> None:
        self.backend, self.lib, self.rungs = backend, lib, rungs
        self._tuned = {entry.key: entry for entry in tuned}

    def write(
        self, shapes: Sequence[Shape], path: Path | None, into: tuple[Path | None, Results | None], *, command: str
    ) -> bool:
        """Measure at all ``shapes``, print, and save after each row; whether one failed."""
        device = replace(self.backend.device, nvrtc=nvrtc_version())
        roofs, _ = roofs_of(device)
        results = Results(created=now(), command=command, device=device, roofs=roofs)
        into_path, kept = into
        failed = False
        for shape in shapes:
            for row in self.rows(shape):
                _tell(row)
                failed |= row.failed
                results = results.with_run(row)
                if path is not None:
                    store.save(results, path)
                if kept is not None and into_path is not None and row.kind == "peer":
                    kept = kept.with_run(row)
                    store.save(kept, into_path)
        return failed

    def rows(self, shape: Shape) -> Iterator[Run]:
        """Peers and rungs at ``shape``, each proved, then timed in turn with SGEMM; SGEMM's own row comes last."""
        variants = [self._variant(rung, shape) for rung in self.rungs]
        peers = {} if self.lib is None else {peer.name: peer for peer in self.lib.peers}
        checks, broken = self._checks(shape, variants, peers)
        a, b = inputs(shape, kind="uniform")
        beside: list[Timing] = []
        base = None
        if self.lib is not None and checks[SGEMM].passed:
            base = self._contestant(peers[SGEMM], a, b)
        for peer in (peer for name, peer in peers.items() if name != SGEMM):
            row = replace(_peer_row(peer, shape), check=checks[peer.name])
            if not row.failed:
                own = self._contestant(peer, a, b)
                row = self._timed(replace(row, kernel=self._kernels(own)), own, base, beside)
            yield row
        for rung in variants:
            row = broken.get(rung.name) or replace(self._row(rung, shape), check=checks[rung.name])
            if row.skipped is None and not row.failed:
                row = self._timed_rung(row, rung, a, b, base, beside)
            yield row
        if SGEMM in peers:
            row = replace(_peer_row(peers[SGEMM], shape), check=checks[SGEMM])
            if base is not None:
                times = beside or in_turn(self.backend, [base])
                row = replace(row, kernel=self._kernels(base), time=min(times, key=lambda time: time.median))
                row = self._read(row, base)
            yield row

    def _contestant(self, peer: Peer, a: F32, b: F32) -> Contestant:
        if self.lib is None:
            raise InputError(MISSING)
        return Contestant(enqueue=self.lib.prepared(peer, a, b)[0])

    def _kernels(self, own: Contestant) -> str | None:
        """The names of the kernels that a library launches, each once; None where it cannot be captured."""
        own.enqueue()
        try:
            found = kernels_of(self.backend.gpu, own.enqueue)
        except BackendError:
            return None
        return " + ".join(dict.fromkeys(map(plain_name, found))) or None

    def _variant(self, rung: Rung, shape: Shape) -> Rung:
        """``rung`` with the parameters that the tuner's record has for the shape's class and this very code."""
        device = self.backend.device
        entry = self._tuned.get((device.name, rung.name, shape_class(shape, device.sm_count)))
        if entry is None or entry.code_sha256 != catalog.code_sha256(rung):
            return rung
        return catalog.with_params(rung, entry.params)

    def _row(self, rung: Rung, shape: Shape) -> Run:
        """A rung's row, before anything is known of it but its parameters."""
        (declared,) = (r for r in self.rungs if r.name == rung.name)
        changed = None if rung.params == declared.params else dict(rung.params)
        return replace(blank(rung, shape), params=changed)

    def _checks(
        self, shape: Shape, rungs: Sequence[Rung], peers: Mapping[str, Peer]
    ) -> tuple[dict[str, Check], dict[str, Run]]:
        """The proofs of all, by name, and the rows of rungs that were skipped or broke off in theirs."""
        torch = None if self.lib is None else self.lib.torch
        oracle = GpuOracle(torch, shape) if torch is not None and shape.flop > CPU_FLOP else None
        checks = {name: self._prove_peer(peer, shape, oracle) for name, peer in peers.items()}
        broken: dict[str, Run] = {}
        for rung in rungs:
            row = self._row(rung, shape)
            reason = why_skipped(rung, shape, self.backend.device)
            if reason is not None:
                broken[rung.name] = replace(row, skipped=reason)
                continue
            try:
                checks[rung.name] = self._prove_rung(rung, shape, oracle)
            except (BackendError, CompileError) as error:
                broken[rung.name] = replace(row, error=str(error))
        return checks, broken

    def _prove_rung(self, rung: Rung, shape: Shape, oracle: GpuOracle | None) -> Check:
        if oracle is None:
            return prove(self.backend, compile_rung(rung, arch=rung.arch_for(self.backend.device)), shape)
        return oracle.prove(
            lambda a, b, out: multiply_device(rung, a, b, out=out),
            unit_roundoff=rung.unit_roundoff,
            ordered=rung.ordered,
        )

    def _prove_peer(self, peer: Peer, shape: Shape, oracle: GpuOracle | None) -> Check:
        if oracle is not None:
            return oracle.prove(peer.multiply, unit_roundoff=peer.unit_roundoff, ordered=False)
        a, b = inputs(shape, kind="integers")
        exact = compare(self._product(peer, a, b), a, b, unit_roundoff=peer.unit_roundoff, exact=True)
        a, b = inputs(shape, kind="normal")
        close = compare(self._product(peer, a, b), a, b, unit_roundoff=peer.unit_roundoff, normal=True)
        failures = [str(verdict) for verdict in (exact, close) if not verdict.passed]
        return Check(
            passed=not failures,
            exact_integers=exact.passed,
            worst_error_over_bound=close.worst_error_over_bound if close.passed else None,
            failure="; ".join(failures) or None,
        )

    def _product(self, peer: Peer, a: F32, b: F32) -> F32:
        if self.lib is None:
            raise InputError(MISSING)
        enqueue, c = self.lib.prepared(peer, a, b)
        enqueue()
        return self.lib.host(c)

    def _timed_rung(self, row: Run, rung: Rung, a: F32, b: F32, base: Contestant | None, beside: list[Timing]) -> Run:
        kernel = compile_rung(rung, arch=rung.arch_for(self.backend.device))
        try:
            with self.backend.prepared(kernel, a, b) as (enqueue, launches):
                row = self._timed(row, Contestant(enqueue=enqueue, launches=launches), base, beside)
            return replace(row, resources=self.backend.resources(kernel))
        except BackendError as error:
            return replace(row, error=str(error))

    def _timed(self, row: Run, own: Contestant, base: Contestant | None, beside: list[Timing]) -> Run:
        """``row`` with its time in turn with ``base``, whose time then also goes to ``beside``."""
        if base is None:
            (time,) = in_turn(self.backend, [own])
            return self._read(replace(row, time=time), own)
        time, other = in_turn(self.backend, [own, base])
        beside.append(other)
        return self._read(replace(row, time=time, beside=Beside(rung=SGEMM, time=other)), own)

    def _read(self, row: Run, own: Contestant) -> Run:
        """``row`` with clock and power while it alone runs over and over, and its time with cold caches."""
        if row.time is None:
            return row
        reading = self.backend.reading(own.enqueue, seconds_each=row.time.median)
        late = cold(self.backend, own)
        return replace(row, time_cold=late, sm_clock_hz=reading.sm_clock_hz, power_w=reading.power_w)


def _peer_row(peer: Peer, shape: Shape) -> Run:
    return Run(rung=peer.name, title=peer.title, kind="peer", shape=shape)


def _shapes_in(results: Results | None) -> list[str]:
    """The shapes at which a results file has a time."""
    timed = [] if results is None else [str(run.shape) for run in results.runs if run.time is not None]
    return list(dict.fromkeys(timed))


def _tell(row: Run) -> None:
    head = f"{row.rung:<18} {row.shape!s:<18}"
    if row.time is None or row.flop_per_s is None:
        what = row.skipped or row.error or (row.check and row.check.failure)
        print(f"{head} {'skipped' if row.skipped else 'FAILED'}: {what}", flush=True)
        return
    ratio = "" if row.speedup is None else f"{row.speedup:6.3f} x SGEMM"
    clock = "?" if row.sm_clock_hz is None else f"{row.sm_clock_hz / 1e9:.3f}"
    power = "?" if row.power_w is None else f"{row.power_w:.0f}"
    params = "" if row.params is None else " ".join(f"{name}={value}" for name, value in row.params.items())
    print(
        f"{head} {row.flop_per_s / 1e12:8.2f} TFLOP/s {row.time.median * 1e6:11.1f} us {ratio:<15} "
        f"SM {clock} GHz {power:>4} W  {row.kernel or params}".rstrip(),
        flush=True,
    )
    if row.remark is not None:
        print(f"{head}   {row.remark}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
