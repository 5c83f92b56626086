"""Vulkan programs on this machine's GPUs: SPIR-V, recorded once and submitted ever after."""

from __future__ import annotations

import numpy as np

from edgewise_runtime.devices import loading
from edgewise_runtime.devices.base import Array
from edgewise_runtime.devices.gpu_program import GpuProgram
from edgewise_runtime.devices.grids import Grid
from edgewise_runtime.devices.kernel_thread import KernelThread
from edgewise_runtime.devices.outputs import Output
from edgewise_runtime.devices.vulkan import cache
from edgewise_runtime.devices.vulkan.adapter import Adapter, choose_adapter
from edgewise_runtime.devices.vulkan.api import Objects
from edgewise_runtime.devices.vulkan.binding import BoundPlan, Launch, bind_plans
from edgewise_runtime.devices.vulkan.bursts import Bursts, record
from edgewise_runtime.devices.vulkan.commands import Commands
from edgewise_runtime.devices.vulkan.gpu import Gpu, open_gpu
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


class VulkanProgram(GpuProgram[BoundPlan, Launch]):
    """A program in a device's memory. Made by `VulkanDevice.load`; see `base.LoadedProgram`.

    Attributes:
        counters: what was made and done so far. Once loaded, a run that was made before makes and
            records nothing, and submits once.
    """

    calls = _calls

    _gpu: Gpu
    _mailbox: Mailbox
    _pages: GpuPages

    def __init__(self, adapter: Adapter, checked: loading.Checked) -> None:
        super().__init__(checked)
        self.counters = Counters()
        self._objects: Objects | None = None
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
        counters, load = self.counters, checked.load_symbols
        memory = self._memory = Buffers(gpu, objects, counters, checked.sizes, roles)
        with gpu.errors(f"Loading {self.program.id!r}"):
            commands = self._commands = Commands(gpu, objects)
            line = self._line = Line(gpu, objects, counters, commands, memory)
            self._mailbox = Mailbox(gpu, objects, counters, memory, self._mail)
            self._reader = Reader(gpu, objects, counters, line, memory)
            self._pages = GpuPages(gpu, memory, line, self._reader, checked.pages)
            self._bursts = Bursts(commands, counters, self._mailbox)
            self._bound = bind_plans(gpu, objects, counters, memory, modules, self.plans, load)
            line.clear()

    def _keep(self) -> None:
        """Keep what was compiled for the next process."""
        if self.counters.pipelines:
            cache.write(self._gpu.adapter, kept_pipelines(self._gpu))

    def _put(self, buffer: str, start: int, flat: Array) -> None:
        self._line.write(buffer, start, flat.nbytes, of_array(flat.view(np.uint8)))

    def _rectangle(self, buffer: str, rows: range, pitch: int, within: range) -> Array:
        return self._reader.rectangle(buffer, rows, pitch, within)

    def _piece(self, output: Output) -> Array:
        return self._reader.read(output.buffer, output.offset, output.bytes)

    def _run(self, bound: BoundPlan, k: int) -> None:
        recording = self._bursts.get(bound, tuple(self._step), k)
        recording.submission = self._line.submit(recording.commands)
        self._mailbox.sent(bound.plan.name, recording.submission)
        self.counters.dispatches += recording.dispatches

    def _launch(self, launch: Launch, grids: tuple[Grid, ...]) -> None:
        commands = self._line.begin()
        record(self._commands, commands, [launch], grids, [False])
        self._commands.end(commands)
        self._line.submit(commands)
        self.counters.dispatches += 1

    def _release(self) -> None:
        """Give everything back, once the device does nothing with it any more."""
        objects, self._objects = self._objects, None
        if objects is not None:
            self._gpu.rest()
            objects.destroy()
            self._gpu.leave()
