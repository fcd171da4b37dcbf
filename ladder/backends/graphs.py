"""What a function enqueues, captured into a CUDA graph: launched as a whole, without the host's pace in between."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from ladder.backends.driver import translated
from ladder.backends.gpu import Gpu
from ladder.errors import BackendError

__all__ = ["Graph", "captured", "kernels_of"]


class Graph:
    """A captured piece of work that is ready to launch, and freed with this object.

    Attributes:
        kernels: the names of its kernels, mangled as the driver has them, in the order of its nodes.
    """

    def __init__(
        self, gpu: Gpu, handle: Any, executable: Any, kernels: tuple[str, ...], enqueue: Callable[[], None]
    ) -> None:
        self._gpu, self._executable, self.kernels = gpu, executable, kernels
        self._operands = enqueue  # which keeps the memory alive that the graph has the addresses of
        self._freed = weakref.finalize(self, _free, handle, executable)
        self._freed.atexit = False  # the driver frees it with the process

    def launch(self) -> None:
        """Enqueue it on the GPU's stream.

        Raises:
            BackendError: the driver does not launch it.
        """
        driver = _driver()
        (status,) = driver.cuGraphLaunch(self._executable, self._gpu.stream.handle)
        _require(status, f"launching a CUDA graph on {self._gpu.device.name}")

    def close(self) -> None:
        """Free it; work that is under way ends first."""
        self._freed()


def captured(gpu: Gpu, enqueue: Callable[[], None]) -> Graph:
    """What ``enqueue`` puts on the GPU's stream, as a graph; nothing is executed.

    A kernel that may start before the one ahead of it ends keeps that: the capture makes a programmatic edge of it
    (CUDA Driver API 12.3 and later, CUgraphKernelNodePortType).

    Args:
        gpu: where.
        enqueue: has run once before, so that all that it needs is loaded and allocated.

    Raises:
        BackendError: something in it cannot be captured, or the driver makes no graph of it.
    """
    driver = _driver()
    what = f"capturing launches into a CUDA graph on {gpu.device.name}"
    # Relaxed: libraries may allocate or ask the driver things meanwhile, which no graph needs.
    (status,) = driver.cuStreamBeginCapture(
        gpu.stream.handle, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    )
    _require(status, what)
    try:
        with translated(what):
            enqueue()
    except RuntimeError as error:  # what torch and cupy raise
        raise BackendError(f"{what}: {str(error).partition(chr(10))[0]}") from error
    finally:
        status, handle = driver.cuStreamEndCapture(gpu.stream.handle)
    _require(status, what)
    status, executable = driver.cuGraphInstantiate(handle, 0)
    if status != driver.CUresult.CUDA_SUCCESS:
        driver.cuGraphDestroy(handle)
    _require(status, what)
    graph = Graph(gpu, handle, executable, _kernels(driver, handle, what), enqueue)
    (status,) = driver.cuGraphUpload(executable, gpu.stream.handle)
    _require(status, what)
    return graph


def kernels_of(gpu: Gpu, enqueue: Callable[[], None]) -> tuple[str, ...]:
    """The names of the kernels that ``enqueue`` launches, mangled, in order.

    Raises:
        BackendError: as :func:`captured`.
    """
    graph = captured(gpu, enqueue)
    try:
        return graph.kernels
    finally:
        graph.close()


def _kernels(driver: Any, handle: Any, what: str) -> tuple[str, ...]:
    status, _, count = driver.cuGraphGetNodes(handle, 0)
    _require(status, what)
    status, nodes, count = driver.cuGraphGetNodes(handle, count)
    _require(status, what)
    names = []
    for node in nodes[:count]:
        status, kind = driver.cuGraphNodeGetType(node)
        _require(status, what)
        if kind != driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL:
            continue
        status, params = driver.cuGraphKernelNodeGetParams(node)
        _require(status, what)
        # The node has a function of a context, or a kernel of none.
        if int(params.func):
            status, name = driver.cuFuncGetName(params.func)
        else:
            status, name = driver.cuKernelGetName(params.kern)
        _require(status, what)
        names.append(name.decode())
    return tuple(names)


def _free(handle: Any, executable: Any) -> None:
    driver = _driver()
    driver.cuGraphExecDestroy(executable)
    driver.cuGraphDestroy(handle)


def _require(status: Any, what: str) -> None:
    if status != _driver().CUresult.CUDA_SUCCESS:
        raise BackendError(f"{what}: {status.name}")


def _driver() -> Any:
    from cuda.bindings import driver  # noqa: PLC0415 -- loads the CUDA bindings

    return driver
