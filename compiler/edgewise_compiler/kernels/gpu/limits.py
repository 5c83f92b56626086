"""What a target lets a GPU kernel have, and whether a kernel is content with it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from edgewise_runtime.errors import CompileError

if TYPE_CHECKING:
    from tvm.tirx import PrimFunc


@dataclass(frozen=True)
class Limits:
    """The most that a kernel of a target may have.

    Attributes:
        target: whose limits they are, as errors name it.
        buffers: that a kernel is given.
        threads: of a workgroup.
        shared: bytes of memory that the threads of a workgroup share.
        workgroups: of a launch in x, and in y.
        binding: bytes of a buffer.
    """

    target: str
    buffers: int
    threads: int
    shared: int
    workgroups: int
    binding: int


LEAST = Limits(
    "every GPU target", buffers=8, threads=256, shared=16 << 10, workgroups=65535, binding=128 << 20
)
"""What every target has: kernels whose sizes do not follow from limits are written for these."""


def check_limits(function: PrimFunc, limits: Limits) -> None:
    """Hold a kernel to the limits of a target.

    Raises:
        CompileError: it has more buffers, threads, workgroups or shared memory.
    """
    # Here: the limits themselves are read before TVM is needed.
    import tvm_ffi
    from tvm import DataType
    from tvm.s_tir.stmt import SBlock
    from tvm.tirx import AttrStmt

    extents: dict[str, int] = {}
    blocks: list[SBlock] = []

    def note(statement: AttrStmt) -> None:
        if statement.attr_key == "thread_extent":
            extents[str(statement.node.thread_tag)] = int(statement.value)

    tvm_ffi.structural_walk(function.body, [(AttrStmt, note), (SBlock, blocks.append)])
    memory = sum(
        prod(int(extent) for extent in buffer.shape) * DataType(buffer.dtype).itemsize
        for block in blocks
        for buffer in block.alloc_buffers
        if buffer.scope() == "shared"
    )
    needs = {
        "buffers": (len(function.params), limits.buffers),
        "threads": (extents["threadIdx.x"], limits.threads),
        "bytes of shared memory": (memory, limits.shared),
        "workgroups in x": (extents["blockIdx.x"], limits.workgroups),
        "workgroups in y": (extents["blockIdx.y"], limits.workgroups),
    }
    for what, (needed, most) in needs.items():
        if needed > most:
            name = str(function.attrs["global_symbol"])
            raise CompileError(
                f"Kernel {name!r} has {needed} {what}; {limits.target} allows {most}.",
                code="compile.limits",
            )
