"""Vulkan programs on this machine's GPUs: SPIR-V, recorded once and submitted ever after."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from types import TracebackType

import numpy as np

from edgewise_runtime.devices import common, loading
from edgewise_runtime.devices.base import Array, TracedStep
from edgewise_runtime.devices.grids import Grid
from edgewise_runtime.devices.kernel_thread import KernelThread
from edgewise_runtime.devices.mail import mail
from edgewise_runtime.devices.vulkan import cache
from edgewise_runtime.devices.vulkan.adapter import Adapter, choose_adapter
from edgewise_runtime.devices.vulkan.api import Objects
from edgewise_runtime.devices.vulkan.binding import BoundPlan, Launch, bind_plans
from edgewise_runtime.devices.vulkan.bursts import Bursts, record
from edgewise_runtime.devices.vulkan.commands import Commands
from edgewise_runtime.devices.vulkan.gpu import open_gpu
from edgewise_runtime.devices.vulkan.kernels import (
    check_features,
    check_limits,
    kept_pipelines,
    read_modules,
    wanted_features,
)
from edgewise_runtime.devices.vulkan.line import Line, of_array
from edgewise_runtime.devices.vulkan.memory import Buffers, Counters
from edgewise_runtime.devices.vulkan.pages import GpuPages
from edgewise_runtime.devices.vulkan.probe import linear_subgroups
from edgewise_runtime.devices.vulkan.transfer import Mailbox, Reader, upload
from edgewise_runtime.errors import DeviceError
from edgewise_runtime.format import expr as ex
from edgewise_runtime.format.abi import STEP_SYMBOLS
from edgewise_runtime.format.plan import Buffer
from edgewise_runtime.limits import available_memory

_calls = KernelThread(lambda threads: None)
"""A queue belongs to one thread at a time, and a Ctrl-C is raised in another one."""


class VulkanDevice:
    """Runs the ``vulkan`` programs of bundles on one physical device.

    Args:
        index: which one, as `adapter.adapters` and ``edgewise doctor`` count them; None for the
            best.

    Raises:
        DeviceError: ``device.vulkan`` without the package vulkan or a loader, ``device.adapter``
            for an index that is not there, or without any device.
    """

    target = "vulkan"
    host_memory = False
    load = loading.load

    def __init__(self, index: int | None = None) -> None:
        self.adapter: Adapter = choose_adapter(index)
        self._features: frozenset[str] | None = None

    @property
    def name(self) -> str:
        return str(self.adapter)

    @property
    def identity(self) -> str:
        # Drivers compile the modules, and are free where SPIR-V is.
        return f"{self.adapter}, {self.adapter.driver}"

    def features(self) -> frozenset[str]:
        if self._features is None:
            _calls.expect(1)
            self._features = _calls.call(_proven, self.adapter)
        return self._features

    def available_memory(self) -> int | None:
        # What is not the device's own is this machine's.
        shared = self.adapter.kind in ("integrated", "cpu")
        return available_memory() if shared else self.adapter.local_heap

    def largest_buffer(self) -> int | None:
        return min(self.adapter.limits.binding, self.adapter.limits.allocation)

    def bind(self, checked: loading.Checked) -> VulkanProgram:
        """See `loading.Binds.bind`."""
        return VulkanProgram(self.adapter, checked)


def _proven(adapter: Adapter) -> frozenset[str]:
    """What programs may count on: subgroups only where they proved to be linear."""
    if "subgroups" not in adapter.features:
        return adapter.features
    gpu = open_gpu(adapter, frozenset())
    if gpu.linear is None:
        gpu.linear = linear_subgroups(gpu)
    return adapter.features if gpu.linear else adapter.features - {"subgroups"}


class VulkanProgram:
    """A program in a device's memory. Made by `VulkanDevice.load`; see `base.LoadedProgram`.

    Attributes:
        counters: what was made and done so far. Once loaded, a run that was made before makes and
            records nothing, and submits once.
    """

    def __init__(self, adapter: Adapter, checked: loading.Checked) -> None:
        self.bundle = checked.bundle
        self.program = checked.program
        self.plans = checked.plans
        self.counters = Counters()
        self._process = os.getpid()
        self._closed = False
        self._step = [0] * len(STEP_SYMBOLS)
        self._buffers = checked.buffers
        self._bytes = common.count_bytes(self.plans, checked.sizes)
        self._shapes = {
            name: tuple(ex.evaluate(dim, checked.load_symbols) for dim in buffer.shape)
            for name, buffer in self._buffers.items()
        }
        self._objects: Objects | None = None
        self._bound: dict[str, BoundPlan] = {}
        _calls.expect(1)
        try:
            # What can be refused comes first: kernels and memory before gigabytes of weights, which
            # go piece by piece, so that a Ctrl-C need not wait for all of them.
            _calls.call(self._make, adapter, checked)
            total, progress = self._bytes["param"], checked.progress
            upload(self._gpu, self._line, checked.params(), total, progress, _calls.call)
            _calls.call(self._keep)
        except BaseException:
            self.close()
            raise

    def _make(self, adapter: Adapter, checked: loading.Checked) -> None:
        modules = read_modules(checked)
        wants = wanted_features(modules)
        check_features(adapter, wants, self.program.id)
        check_limits(adapter, self.plans, modules, checked.load_symbols)
        gpu = self._gpu = open_gpu(adapter, wants)
        gpu.programs += 1
        objects = self._objects = Objects(gpu.api, gpu.device)
        roles = {name: buffer.role for name, buffer in self._buffers.items()}
        names = {name: mail(plan, checked.sizes) for name, plan in self.plans.items()}
        counters, load = self.counters, checked.load_symbols
        memory = self._memory = Buffers(gpu, objects, counters, checked.sizes, roles)
        with gpu.errors(f"Loading {self.program.id!r}"):
            commands = self._commands = Commands(gpu, objects)
            line = self._line = Line(gpu, objects, counters, commands, memory)
            self._mailbox = Mailbox(gpu, objects, counters, memory, names)
            self._mail = names
            self._reader = Reader(gpu, objects, counters, line, memory)
            self._pages = GpuPages(gpu, memory, line, self._reader, checked.pages)
            self._bursts = Bursts(commands, counters, self._mailbox)
            self._bound = bind_plans(gpu, objects, counters, memory, modules, self.plans, load)
            line.clear()

    def _keep(self) -> None:
        """Keep what was compiled for the next process."""
        if self.counters.pipelines:
            cache.write(self._gpu.adapter, kept_pipelines(self._gpu))

    def write(self, buffer: str, array: Array, offset_elems: int = 0) -> None:
        self._open()
        target, values = common.find_buffer(self._buffers, buffer), np.asarray(array)
        common.check_write(target, math.prod(self._shapes[buffer]), values, offset_elems)
        if values.size:
            flat = np.ascontiguousarray(values).reshape(-1)
            _calls.call(self._write, buffer, flat, offset_elems)

    def _write(self, buffer: str, flat: Array, offset_elems: int) -> None:
        if buffer == "step":
            for at, value in enumerate(flat[: len(STEP_SYMBOLS)].tolist(), offset_elems):
                if at < len(STEP_SYMBOLS):
                    self._step[at] = value
        with self._gpu.errors(f"Writing {buffer!r}"):
            data = of_array(flat.view(np.uint8))
            self._line.write(buffer, offset_elems * flat.itemsize, flat.nbytes, data)
        self._mailbox.forget([buffer])

    def read(self, buffer: str, rows: slice | None = None, columns: slice | None = None) -> Array:
        self._open()
        found = common.find_buffer(self._buffers, buffer)
        array: Array = _calls.call(self._read, found, rows, columns)
        return array

    def _read(self, buffer: Buffer, rows: slice | None, columns: slice | None = None) -> Array:
        name, shape, dtype = buffer.name, self._shapes[buffer.name], np.dtype(buffer.dtype)
        with self._gpu.errors(f"Reading {name!r}"):
            mail = self._mailbox.look(name)
            if mail is not None:
                whole = mail[: math.prod(shape) * dtype.itemsize].view(dtype).reshape(shape)
                return common.piece_of(whole, rows, columns)
            first, end, stride = (rows or slice(None)).indices(shape[0])
            left, right, step = (columns or slice(None)).indices(shape[1] if columns else 0)
            if stride != 1 or step != 1:
                return common.piece_of(self._read(buffer, None), rows, columns)
            inner = shape[1:] if columns is None else (max(right - left, 0), *shape[2:])
            item = dtype.itemsize * math.prod(shape[2:])
            within = range(left * item, left * item + math.prod(inner) * dtype.itemsize)
            taken = range(first, max(end, first))
            pitch = math.prod(shape[1:]) * dtype.itemsize
            data = self._reader.rectangle(name, taken, pitch, within)
        return data.reshape(-1).view(dtype).reshape(len(taken), *inner)

    def view(self, buffer: str) -> Array:
        self._open()
        raise common.buffer_error(f"{buffer!r} is in a GPU's memory, where it cannot be viewed.")

    def run(self, plan: str, k: int = 1) -> None:
        _calls.call(self._run, self._plan(plan, k), k)

    def _run(self, bound: BoundPlan, k: int) -> None:
        name = bound.plan.name
        with self._gpu.errors(f"Running {name!r}"):
            recording = self._bursts.get(bound, tuple(self._step), k)
            recording.submission = self._line.submit(recording.commands)
            self._mailbox.sent(name, recording.submission)
        self.counters.dispatches += recording.dispatches

    def trace(self, plan: str) -> Iterator[TracedStep]:
        bound = self._plan(plan)
        grids = bound.grids.at(tuple(self._step))
        self._mailbox.forget(self._mail[plan])
        for launch in bound.launches:
            self._open()
            yield _calls.call(self._trace, plan, launch, grids)

    def _trace(self, plan: str, launch: Launch, grids: tuple[Grid, ...]) -> TracedStep:
        outputs = []
        with self._gpu.errors(f"Running {plan}/{launch.label or launch.kernel}"):
            commands = self._line.begin()
            record(self._commands, commands, [launch], grids, [False])
            self._commands.end(commands)
            self._line.submit(commands)
            for item in launch.outputs:
                data = self._reader.read(item.buffer, item.offset, item.bytes)
                outputs.append(item.array(data))
        self.counters.dispatches += 1
        return TracedStep(launch.label, launch.kernel, tuple(outputs))

    @property
    def page_bytes(self) -> int:
        return self._pages.paging.page_bytes

    def copy_page(self, source: int, target: int) -> None:
        self._open()
        self._pages.paging.check(source, target)
        _calls.call(self._pages.copy, source, target)

    def read_page(self, page: int) -> bytes:
        self._open()
        self._pages.paging.check(page)
        data: bytes = _calls.call(self._pages.read, page)
        return data

    def write_page(self, page: int, data: bytes) -> None:
        self._open()
        self._pages.paging.check_data(page, len(data))
        _calls.call(self._pages.write, page, data)

    def memory(self) -> dict[str, int]:
        self._open()
        return dict(self._bytes)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        # A forked process has none of it: the driver stayed with the other one.
        if os.getpid() == self._process:
            _calls.expect(1)
            _calls.call(self._release)

    def _release(self) -> None:
        """Give everything back, once the device does nothing with it any more."""
        objects, self._objects, self._bound = self._objects, None, {}
        if objects is not None:
            self._gpu.rest()
            objects.destroy()
            self._gpu.leave()

    def __enter__(self) -> VulkanProgram:
        self._open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _open(self) -> None:
        if self._closed:
            raise common.closed(self.program)
        if os.getpid() != self._process:
            raise DeviceError(
                "This process was forked from the one that loaded the program, and drivers do not "
                "survive a fork.",
                remedy="Start processes with 'spawn'.",
                code="device.fork",
            )

    def _plan(self, name: str, k: int = 1) -> BoundPlan:
        self._open()
        common.find_plan(self.program, self.plans, name, k)
        return self._bound[name]
