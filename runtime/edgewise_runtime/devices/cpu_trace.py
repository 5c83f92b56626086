"""Running a CPU plan one kernel at a time, to look at what each one wrote."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgewise_runtime.devices import memory, tvm_library
from edgewise_runtime.devices.base import Array
from edgewise_runtime.devices.kernel_thread import KernelThread
from edgewise_runtime.plan import KernelArg, Plan, Step


@dataclass(frozen=True)
class TracedStep:
    """One step that ran: its label, its kernel and copies of the arguments the kernel wrote."""

    label: str
    kernel: str
    outputs: tuple[Array, ...]


def trace_plan(
    plan: Plan,
    library: Any,
    raw: Mapping[str, Array],
    arrays: Mapping[str, Array],
    kernels: KernelThread,
) -> Iterator[TracedStep]:
    """Run the steps of a plan in order; yield each with what it wrote, state buffers aside.

    Args:
        raw: every buffer as bytes; scratch has no other form.
        arrays: every other buffer in its dtype and shape.
    """
    from_dlpack = tvm_library.ffi().from_dlpack
    for step in plan.steps:
        kernel = plan.kernels[step.kernel]
        bound = _arguments(plan, step, kernel.args, raw, arrays)
        tensors = [from_dlpack(memory.exportable(array)) for array in bound]
        kernels.call(library[kernel.symbol], *tensors)
        written = [
            array.copy()
            for array, arg, binding in zip(bound, kernel.args, step.bindings, strict=True)
            if arg.writes and plan.buffer_table[binding.buffer].role != "state"
        ]
        yield TracedStep(step.label, step.kernel, tuple(written))


def _arguments(
    plan: Plan,
    step: Step,
    args: tuple[KernelArg, ...],
    raw: Mapping[str, Array],
    arrays: Mapping[str, Array],
) -> list[Array]:
    found = []
    for arg, binding in zip(args, step.bindings, strict=True):
        if plan.buffer_table[binding.buffer].role != "scratch":
            found.append(arrays[binding.buffer])
            continue
        shape = tuple(extent for extent in arg.shape if isinstance(extent, int))
        size = math.prod(shape) * np.dtype(arg.dtype).itemsize
        part = raw[binding.buffer][binding.offset : binding.offset + size]
        found.append(part.view(arg.dtype).reshape(shape))
    return found
