"""Binding a program's plans to memory: one call per plan, or one per launch to look at each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from edgewise_runtime.devices import arrays
from edgewise_runtime.devices.base import Array
from edgewise_runtime.devices.cpu import tvm_library
from edgewise_runtime.devices.cpu.weights import read_files
from edgewise_runtime.devices.loading import Checked
from edgewise_runtime.errors import DeviceError
from edgewise_runtime.format import expr as ex
from edgewise_runtime.format.plan import Buffer, KernelArg, Plan


@dataclass(frozen=True)
class BoundStep:
    """One launch of a plan: `call` makes it, `outputs` are what it writes besides state."""

    label: str
    kernel: str
    call: Callable[[], Any]
    outputs: tuple[Array, ...]


def allocate(checked: Checked) -> dict[str, Array]:
    """Memory of every buffer by name, uint8: parameters as their files have them, zeros else.

    Raises:
        BundleError: damaged parameters.
        DeviceError: ``device.memory``.
    """
    raw: dict[str, Array] = {}
    for tensors, files in checked.params():
        read = read_files(files)
        for name, entry in tensors.items():
            raw[name] = read[entry.file][entry.offset : entry.offset + entry.bytes]
    return raw | {n: arrays.zeros(size) for n, size in checked.sizes.items() if n not in raw}


def shaped(raw: Array, buffer: Buffer, load: Mapping[str, int]) -> Array:
    """A buffer's memory in its dtype and shape."""
    return _view(raw, buffer.dtype, tuple(ex.evaluate(dim, load) for dim in buffer.shape))


def bind_host(
    plan: Plan, library: Any, raw: Mapping[str, Array], load: Mapping[str, int]
) -> Callable[[int], None]:
    """The plan's host function with its tensors bound; the call takes k.

    Raises:
        DeviceError: ``device.symbol`` where the library lacks the function.
    """
    if plan.host is None:
        raise DeviceError(f"Plan {plan.name!r} has no host function.", code="device.symbol")
    function = _function(library, plan, plan.host)
    tensors = tuple(
        _tensor(
            _view(
                raw[view.buffer][view.offset :],
                view.dtype,
                tuple(ex.evaluate(dim, load) for dim in view.shape),
            )
        )
        for view in plan.views
    )

    def call(k: int) -> None:
        function(*tensors, k)

    return call


def bind_steps(
    plan: Plan, library: Any, raw: Mapping[str, Array], load: Mapping[str, int]
) -> Iterator[BoundStep]:
    """The plan's launches one by one, each bound to the memory the host function gives it.

    Raises:
        DeviceError: ``device.symbol`` where the library lacks a kernel.
    """
    ranges = plan.ranges | {name: (value, value) for name, value in load.items()}
    states = {buffer.name for buffer in plan.buffers if buffer.role == "state"}
    for step in plan.steps:
        kernel = plan.kernels[step.kernel]
        bound = [
            (arg, binding.buffer, _argument(arg, raw[binding.buffer][binding.offset :], ranges))
            for arg, binding in zip(kernel.args, step.bindings, strict=True)
        ]
        tensors = [_tensor(array) for _, _, array in bound]
        yield BoundStep(
            label=step.label,
            kernel=step.kernel,
            call=partial(_function(library, plan, kernel.symbol), *tensors),
            outputs=tuple(a for arg, name, a in bound if arg.writes and name not in states),
        )


def _argument(arg: KernelArg, raw: Array, ranges: Mapping[str, ex.Range]) -> Array:
    """The start of a buffer as the kernel sees it, at the largest its shape may get."""
    shape = tuple(ex.bounds(dim, ranges)[1] for dim in arg.shape)
    return _view(raw, arg.dtype, shape)


def _function(library: Any, plan: Plan, symbol: str) -> Callable[..., Any]:
    try:
        function: Callable[..., Any] = library[symbol]
    except (AttributeError, KeyError, RuntimeError) as cause:
        message = f"The library has no function {symbol!r} for plan {plan.name!r}."
        raise DeviceError(message, code="device.symbol") from cause
    return function


def _tensor(array: Array) -> Any:
    return tvm_library.ffi().from_dlpack(arrays.exportable(array))


def _view(raw: Array, dtype: str, shape: tuple[int, ...]) -> Array:
    size = math.prod(shape) * np.dtype(dtype).itemsize
    array: Array = raw[:size].view(dtype).reshape(shape)
    return array
