"""One exception family: every message says what was wrong, where, and how to fix it."""

from __future__ import annotations

__all__ = [
    "BackendError",
    "CatalogError",
    "CompileError",
    "DisassemblerMissingError",
    "DriverMissingError",
    "InputError",
    "KernelFaultError",
    "LadderError",
    "NvrtcMissingError",
    "ProfileError",
    "ShapeError",
    "StoreError",
    "UnknownRungError",
    "UnsupportedPtxError",
]


class LadderError(Exception):
    """Base of everything this package raises on purpose.

    ``exit_code`` is what the command line returns: 2 when the user asked for something that cannot be done (usage),
    1 when a rung failed.
    """

    exit_code = 1


class UnknownRungError(LadderError):
    """No rung has that name; the message offers the closest ones."""

    exit_code = 2


class CatalogError(LadderError):
    """A rung's declaration is malformed; the message gives file, line and key."""

    exit_code = 2


class ShapeError(LadderError):
    """A shape that cannot be parsed, is negative, or that a rung does not support."""

    exit_code = 2


class InputError(LadderError):
    """An array, option or path that cannot be used as given."""

    exit_code = 2


class ProfileError(LadderError):
    """A recorded GPU profile is unknown or malformed."""

    exit_code = 2


class StoreError(LadderError):
    """A results file that cannot be read, written, or is not of this schema."""

    exit_code = 2


class NvrtcMissingError(LadderError):
    """NVRTC's library cannot be loaded; the message gives the package to install."""

    exit_code = 2


class DriverMissingError(LadderError):
    """The ``cuda`` backend was asked for and there is no driver or no GPU."""

    exit_code = 2


class DisassemblerMissingError(LadderError):
    """nvdisasm cannot be found; the message gives the package to install."""

    exit_code = 2


class CompileError(LadderError):
    """NVRTC refused the source; the message holds its log with file and line."""


class BackendError(LadderError):
    """A launch failed on its backend: the driver's error, or a resource that the device lacks."""


class UnsupportedPtxError(LadderError):
    """The emulator met PTX it does not know; it is named, never skipped."""


class KernelFaultError(LadderError):
    """A kernel did something undefined, found while it was emulated.

    Attributes:
        kind: the fault in compute-sanitizer's words, such as ``"race"`` or ``"out of bounds"``.
        where: ``FILE.cu:LINE`` of the access, or the PTX opcode when there is no line information.
    """

    def __init__(self, kind: str, where: str, detail: str) -> None:
        super().__init__(f"{where}: {kind}: {detail}")
        self.kind = kind
        self.where = where
        self.detail = detail
