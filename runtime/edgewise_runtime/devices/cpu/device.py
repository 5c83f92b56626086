"""The CPU: one compiled host function per plan, called in turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from edgewise_runtime.cpuid import (
    cpu_arch,
    cpu_features,
    cpu_name,
    cpu_system,
    default_threads,
)
from edgewise_runtime.devices import common, loading
from edgewise_runtime.devices.base import Array, TracedStep
from edgewise_runtime.devices.cpu import binding, tvm_library
from edgewise_runtime.devices.kernel_thread import KernelThread
from edgewise_runtime.devices.open_program import OpenProgram
from edgewise_runtime.errors import DeviceError
from edgewise_runtime.format.plan import Plan
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.limits import available_memory

MAX_THREADS = 1024

_kernels = KernelThread(tvm_library.configure_threads)


class CpuDevice:
    """Runs the ``cpu`` programs of bundles in this process.

    Args:
        threads: how many threads kernels use, all programs of the process alike: the device made
            last decides, but an engine keeps the number it began to compute with. None for one per
            physical core this process may use.
    """

    target = "cpu"
    host_memory = True
    load = loading.load

    def __init__(self, threads: int | None = None) -> None:
        self.threads = default_threads() if threads is None else threads
        if not isinstance(self.threads, int) or not 1 <= self.threads <= MAX_THREADS:
            raise DeviceError(
                f"{self.threads!r} threads is not in 1..{MAX_THREADS}.",
                remedy="Leave it out for one per physical core.",
                code="device.threads",
            )

    @property
    def name(self) -> str:
        return cpu_name()

    @property
    def identity(self) -> str:
        return ""  # A program is machine code for some feature set: it is the same everywhere.

    def features(self) -> frozenset[str]:
        return cpu_features() | {cpu_arch(), cpu_system()}

    def available_memory(self) -> int | None:
        return available_memory()

    def largest_buffer(self) -> int | None:
        return None

    def bind(self, checked: loading.Checked) -> CpuProgram:
        """See `loading.Binds.bind`."""
        ((path, data),) = checked.code.items()
        library = tvm_library.load_library(data, f"{checked.bundle.name}/{path}")
        _kernels.expect(self.threads)
        return CpuProgram(checked, library)


class CpuProgram(OpenProgram):
    """A program in memory. Made by `CpuDevice.load`; see `base.LoadedProgram`."""

    def __init__(self, checked: loading.Checked, library: Any) -> None:
        super().__init__(checked)
        self._library = library
        self._load = load = checked.load_symbols
        self._raw = binding.allocate(checked)
        self._arrays = {
            name: binding.shaped(self._raw[name], buffer, load)
            for name, buffer in self._buffers.items()
            if buffer.role != "scratch"
        }
        self._paging = checked.pages
        self._calls = {
            name: binding.bind_host(plan, library, self._raw, load)
            for name, plan in self.plans.items()
        }

    def write(self, buffer: str, array: Array, offset_elems: int = 0) -> None:
        flat, values = self._array(buffer).reshape(-1), np.asarray(array)
        common.check_write(self._buffers[buffer], flat.size, values, offset_elems)
        flat[offset_elems : offset_elems + values.size] = values.reshape(-1)

    def read(self, buffer: str, rows: slice | None = None, columns: slice | None = None) -> Array:
        return common.piece_of(self._array(buffer), rows, columns)

    def view(self, buffer: str) -> Array:
        return self._array(buffer)

    def run(self, plan: str, k: int = 1) -> None:
        self._plan(plan, k)
        _call_kernel(plan, self._calls[plan], k)

    def trace(self, plan: str) -> Iterator[TracedStep]:
        for step in binding.bind_steps(self._plan(plan), self._library, self._raw, self._load):
            _call_kernel(f"{plan}/{step.label or step.kernel}", step.call)
            outputs = tuple(np.array(output) for output in step.outputs)
            yield TracedStep(step.label, step.kernel, outputs)

    @property
    def page_bytes(self) -> int:
        return self._paging.page_bytes

    def copy_page(self, source: int, target: int) -> None:
        self._open()
        self._paging.check(source, target)
        for row in self._paging.rows:
            array = self._arrays[row.buffer]
            array[target] = array[source]

    def read_page(self, page: int) -> bytes:
        self._open()
        self._paging.check(page)
        return b"".join([self._arrays[row.buffer][page].data for row in self._paging.rows])

    def write_page(self, page: int, data: bytes) -> None:
        self._open()
        self._paging.check_data(page, len(data))
        for row in self._paging.rows:
            array = self._arrays[row.buffer]
            part = np.frombuffer(data, np.uint8, row.bytes, row.offset)
            array[page] = part.view(array.dtype).reshape(array.shape[1:])

    def close(self) -> None:
        self._closed = True
        self._raw = {}
        self._arrays = {}
        self._calls = {}
        self._library = None

    def _plan(self, name: str, k: int = 1) -> Plan:
        self._open()
        return common.find_plan(self.program, self.plans, name, k)

    def _array(self, buffer: str) -> Array:
        array = self._arrays.get(buffer)
        if array is None:
            # Closed, scratch or unknown.
            self._open()
            array = self._arrays[common.find_buffer(self._buffers, buffer).name]
        return array


def _call_kernel(what: str, function: Callable[..., Any], *args: int) -> None:
    try:
        _kernels.call(function, *args)
    except DeviceError:
        raise
    except Exception as cause:
        # What a kernel refuses arrives as one of several built-in exceptions.
        message = f"{what} failed: {shorten(str(cause))}."
        raise DeviceError(message, code="device.kernel") from cause
