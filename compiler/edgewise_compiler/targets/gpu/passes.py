"""From a kernel as it is written to the function that a device runs: what printers begin with."""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.target import Target
from tvm.tirx import AttrStmt, Buffer, BufferStore, PrimFunc

_DEVICE_FUNCTION = 2  # TVM's calling convention of what a GPU launches


def device_module(module: tvm.IRModule, target: Target) -> tvm.IRModule:
    """The device's part of a module of kernels: opaque statements over flat buffers, with TIR's
    own functions as the target's kind calls them."""
    passes = (
        tirx.transform.BindTarget(target),
        s_tir.transform.ConvertBlocksToOpaque(),
        s_tir.transform.LowerOpaqueBlock(),
        tirx.transform.FlattenBuffer(),
        tirx.transform.NarrowDataType(32),
        tirx.transform.VectorizeLoop(),
        tirx.transform.UnrollLoop(),
        # No simplifier: it inlines bound values and takes floats for real numbers. No
        # ThreadSync: kernels place their barriers.
        tirx.transform.AnnotateEntryFunc(),
        tirx.transform.SplitHostDevice(),
    )
    for step in passes:
        module = step(module)
    device = {
        symbol: lowered
        for symbol, lowered in module.functions.items()
        if int(lowered.attrs.get("calling_conv", 0)) == _DEVICE_FUNCTION
    }
    return tirx.transform.LowerIntrin()(tvm.IRModule(device))


def threads_of(function: PrimFunc) -> tuple[int, int, int]:
    """Threads of a kernel's workgroup in x, y and z."""
    extents: dict[str, int] = {}

    def note(statement: AttrStmt) -> None:
        if statement.attr_key == "thread_extent":
            extents[str(statement.node.thread_tag)] = int(statement.value)

    tvm_ffi.structural_walk(function.body, (AttrStmt, note))
    x, y, z = (extents.get(f"threadIdx.{axis}", 1) for axis in "xyz")
    return x, y, z


def access_of(function: PrimFunc) -> tuple[str, ...]:
    """``read_write`` for every argument that a kernel stores to, ``read`` for the others."""
    stored: list[Buffer] = []
    tvm_ffi.structural_walk(function.body, (BufferStore, lambda store: stored.append(store.buffer)))
    return tuple(
        "read_write" if any(buffer.same_as(argument) for buffer in stored) else "read"
        for argument in function.params
    )
