"""A kernel of the catalogue: its launch geometry, and what it needs beside A, B and C."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from ladder.model._basics import FP32_UNIT_ROUNDOFF, Device, Kind, Shape

__all__ = ["Matrix", "Pack", "Precision", "Rung", "TensorTile"]

Matrix = Literal["A", "B", "C"]
Precision = Literal["fp32", "fp32_split", "tf32"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorTile:
    """A tensor map that the kernel takes by value: the boxes in which the TMA unit copies one matrix.

    Attributes:
        of: the matrix.
        box: (rows, columns) of one copy, in elements.
        swizzle: bytes within which 16-byte pieces are permuted in shared memory; 0 for none.
    """

    of: Matrix
    box: tuple[int, int]
    swizzle: Literal[0, 32, 64, 128] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """A kernel that rearranges one operand into a workspace right before the rung's own kernel reads it there.

    Attributes:
        kernel: the ``__global__`` function's name; it has the template parameters of the rung's kernel.
        of: the operand, ``"A"`` or ``"B"``.
        tile: (rows, columns) of the operand that one threadblock packs.
        planes: float32 words that the workspace holds for each element.
        block: threads a block.
        overlap: the rung's kernel may start before this one ends, and waits itself (griddepcontrol.wait) where it reads
            what this one writes.
        room: (bytes, bytes for each threadblock of the rung's kernel) that follow the packed operand, for what those
            blocks tell one another; 16-byte aligned.
    """

    kernel: str
    of: Literal["A", "B"]
    tile: tuple[int, int]
    planes: int = 1
    block: int = 256
    overlap: bool = False
    room: tuple[int, int] = (0, 0)

    def room_bytes(self, blocks: int) -> int:
        """Bytes of the room, for a launch of ``blocks`` threadblocks."""
        fixed, each = self.room
        return fixed + each * blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One kernel of the catalogue with its launch geometry, as declared in its ``.cu`` file.

    Attributes:
        name: file name without number and ending, plus ``_VALUE`` of a swept parameter.
        number: the file's leading number, which orders the ladder (laws and user files: 0 when absent).
        kernel: the ``__global__`` function's name; ``name_expression`` adds its template arguments.
        params: template arguments in template order.
        tile: (BM, BN), the C tile of one threadblock; sets grid y and x.
        block: threads (x, y, z).
        grid_z_tile: BK when the grid's z walks K (``grid_z = "K/BK"``), else None.
        persistent: the grid is as many threadblocks as the device runs at once, and they share out the tiles of C.
        smem_bytes: dynamic shared memory.
        blocks_per_sm: the most blocks that share an SM, for a launch that asks for more shared memory than it uses;
            None for as many as fit.
        multiple: what M, N and K must be multiples of.
        c_init: what C holds before the launch: ``"poison"`` (NaN, the kernel must write all of C) or ``"zero"``
            (the kernel adds into C).
        ordered: each element of C is one fma chain in k order, so that all such rungs agree bit for bit.
        repeats: a second run on the same data has to give the same bits; every ordered rung does.
        law: the law its intensity obeys, if it declares one.
        unit_roundoff: u of the arithmetic that the error bound uses.
        precision: what its products are worth: float32's, float32's from split operands, or TF32's.
        arch: the only architecture it is compiled for and runs on, such as ``"sm_90a"``; None for any from ``min_cc``.
        align_bytes: what the addresses of A, B and C must be multiples of.
        tma: the tensor maps that the kernel takes after its other arguments.
        pack: the kernel that runs right before it, whose workspace it takes after K.
        tune: values that a tuner may try, by template parameter.
        source: the file's whole text; ``path`` where it came from.
    """

    name: str
    number: int
    kind: Kind
    title: str
    kernel: str
    params: Mapping[str, int]
    tile: tuple[int, int]
    block: tuple[int, int, int]
    path: Path
    source: str
    prose: str = ""
    grid_z_tile: int | None = None
    persistent: bool = False
    smem_bytes: int = 0
    blocks_per_sm: int | None = None
    multiple: tuple[int, int, int] = (1, 1, 1)
    min_cc: int = 75
    c_init: Literal["poison", "zero"] = "poison"
    ordered: bool = True
    repeats: bool = True
    law: Literal["tile_product", "c_stationary"] | None = None
    unit_roundoff: float = FP32_UNIT_ROUNDOFF
    precision: Precision = "fp32"
    arch: str | None = None
    align_bytes: int = 4
    tma: tuple[TensorTile, ...] = ()
    pack: Pack | None = None
    tune: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "params", MappingProxyType(dict(self.params)))
        object.__setattr__(self, "tune", MappingProxyType(dict(self.tune)))
        if min(self.tile) < 1 or min(self.block) < 1 or min(self.multiple) < 1:
            raise ValueError(
                f"rung {self.name}: tile {self.tile}, block {self.block}, multiple {self.multiple}: all >= 1"
            )
        if self.threads > 1024:
            raise ValueError(f"rung {self.name}: {self.threads} threads a block; the limit is 1024")

    @property
    def threads(self) -> int:
        """Threads a block."""
        x, y, z = self.block
        return x * y * z

    @property
    def name_expression(self) -> str:
        """What NVRTC instantiates: ``register_tile<128, 128, 8>``, or the bare name without a template."""
        return self.kernel + self._template_arguments

    @property
    def pack_expression(self) -> str | None:
        """The same of the kernel that packs; None without one."""
        return None if self.pack is None else self.pack.kernel + self._template_arguments

    @property
    def _template_arguments(self) -> str:
        return f"<{', '.join(str(v) for v in self.params.values())}>" if self.params else ""

    @property
    def needs(self) -> str:
        """The least architecture, or the only one: ``"sm_80"``, ``"sm_90a"``."""
        return self.arch or f"sm_{self.min_cc}"

    def arch_for(self, device: Device) -> str:
        """The architecture to compile for, so that it runs on ``device``."""
        return self.arch or device.arch

    def why_not_on(self, device: Device) -> str | None:
        """Why ``device`` cannot run it at any shape; None when it can."""
        only = None if self.arch is None else int(self.arch.removeprefix("sm_").rstrip("a"))
        beyond = "tma" if self.tma else self.arch if self.arch is not None and self.arch.endswith("a") else None
        if device.backend == "emulated" and beyond is not None:
            needed = f"{beyond} needs a GPU of compute capability {_dotted(only or self.min_cc)}"
            return f"the emulator runs PTX up to sm_80 features; {needed}"
        major, minor = device.compute_capability
        if only is not None and 10 * major + minor != only:
            return f"needs compute capability {_dotted(only)} exactly ({self.arch}); {device.name} has {major}.{minor}"
        if 10 * major + minor < self.min_cc:
            return f"needs compute capability {_dotted(self.min_cc)}; {device.name} has {major}.{minor}"
        return None

    def supports(self, shape: Shape) -> str | None:
        """Why ``shape`` cannot run, with the fix; None when it can."""
        for axis, value, step in zip("MNK", (shape.m, shape.n, shape.k), self.multiple, strict=True):
            if value % step:
                padded = -(-value // step) * step
                return (
                    f"rung {self.name} needs {axis} % {step} == 0; got {axis}={value} (shape {shape}). "
                    f"Pad {axis} to {padded} or use a rung without that limit."
                )
        return None


def _dotted(number: int) -> str:
    """``"9.0"`` for 90."""
    return f"{number // 10}.{number % 10}"
