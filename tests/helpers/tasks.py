"""Tasks for the worker pool's tests; a spawned child imports them by name."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable

from ladder.errors import BackendError, InputError, NvrtcMissingError

Task = Callable[[str], str]


def start() -> Task:
    """A task that does what its job says: ``say WORD``, ``sleep S``, ``signal N``, ``fail``, ``refuse``, ``hog`` ..."""
    return _obey


def refuse_to_start() -> Task:
    raise NvrtcMissingError("no NVRTC here; install it")


def start_and_fail() -> Callable[[None], str]:
    """A task that fails whatever its job is."""
    return lambda _: _obey("fail")


def die_at_start() -> Task:
    os._exit(3)


def _obey(job: str) -> str:
    verb, _, rest = job.partition(" ")
    if verb == "sleep":
        time.sleep(float(rest))
    elif verb == "signal":
        os.kill(os.getpid(), int(rest))
    elif verb == "exit":
        os._exit(int(rest))
    elif verb == "segfault":
        ctypes.string_at(0)
    elif verb == "interrupt":
        os.kill(os.getpid(), signal.SIGINT)
    elif verb == "fail":
        raise BackendError("the launch failed")
    elif verb == "refuse":
        raise InputError("not like this")
    elif verb == "hog":
        kept = bytearray(int(rest))
        return str(len(kept))
    elif verb == "bug":
        raise ZeroDivisionError("a bug")
    elif verb == "env":
        return os.environ.get(rest, "")
    elif verb == "pid":
        return str(os.getpid())
    return rest
