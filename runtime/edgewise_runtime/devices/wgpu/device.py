"""WebGPU programs on this machine's GPUs, by wgpu-native: WGSL on Vulkan, Metal or Direct3D 12."""

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
from edgewise_runtime.devices.wgpu.adapter import Adapter, choose_adapter
from edgewise_runtime.devices.wgpu.binding import BoundPlan, Launch, bind_plans, read_shaders
from edgewise_runtime.devices.wgpu.buffers import Buffers, Counters, submit
from edgewise_runtime.devices.wgpu.gpu import Gpu, open_gpu
from edgewise_runtime.devices.wgpu.pages import GpuPages
from edgewise_runtime.devices.wgpu.transfer import Mailbox, Reader, upload
from edgewise_runtime.errors import DeviceError
from edgewise_runtime.format import expr as ex
from edgewise_runtime.format.abi import STEP_SYMBOLS
from edgewise_runtime.format.plan import Buffer
from edgewise_runtime.limits import available_memory

_calls = KernelThread(lambda threads: None)
"""A Ctrl-C is raised in the main thread only: here nothing tears a call of wgpu apart."""


class WgpuDevice:
    """Runs the ``webgpu`` programs of bundles on one adapter.

    Args:
        index: which adapter, as `wgpu_adapter.adapters` and ``edgewise doctor`` count them; None
            for the best.

    Raises:
        DeviceError: ``device.wgpu`` without the package wgpu, ``device.adapter`` for an index
            that is not there, or without any adapter.
    """

    target = "webgpu"
    host_memory = False
    load = loading.load

    def __init__(self, index: int | None = None) -> None:
        self.adapter: Adapter = choose_adapter(index)

    @property
    def name(self) -> str:
        return str(self.adapter)

    @property
    def identity(self) -> str:
        # Drivers compile the shaders, and are free to fuse and to reorder.
        return f"{self.adapter}, {self.adapter.driver}"

    def features(self) -> frozenset[str]:
        return self._ready().features

    def available_memory(self) -> int | None:
        # GPUs with memory of their own do not tell; the others share this machine's.
        shared = self.adapter.kind in ("integrated", "cpu")
        return available_memory() if shared else None

    def largest_buffer(self) -> int | None:
        return min(self.adapter.max_buffer, self.adapter.max_binding)

    def bind(self, checked: loading.Checked) -> WgpuProgram:
        """See `loading.Binds.bind`."""
        return WgpuProgram(self._ready(), checked)

    def _ready(self) -> Gpu:
        """The GPU, opened when first needed."""
        return open_gpu(self.adapter)


class WgpuProgram:
    """A program in a GPU's memory. Made by `WgpuDevice.load`; see `base.LoadedProgram`.

    Attributes:
        counters: what was made and done so far. Once loaded, a run makes nothing and submits once.
    """

    def __init__(self, gpu: Gpu, checked: loading.Checked) -> None:
        self.bundle = checked.bundle
        self.program = checked.program
        self.plans = checked.plans
        self.counters = Counters()
        _calls.expect(1)
        self._gpu = gpu
        self._process = os.getpid()
        self._closed = False
        self._step = [0] * len(STEP_SYMBOLS)
        self._buffers = checked.buffers
        sizes, load = checked.sizes, checked.load_symbols
        self._bytes = common.count_bytes(self.plans, sizes)
        self._shapes = {
            name: tuple(ex.evaluate(dim, load) for dim in buffer.shape)
            for name, buffer in self._buffers.items()
        }
        # What can be refused comes first: kernels and memory before gigabytes of weights.
        shaders = read_shaders(checked)
        self._memory = Buffers(gpu, self.counters, sizes)
        self._mail = {name: mail(plan, sizes) for name, plan in self.plans.items()}
        try:
            with gpu.errors(f"Loading {self.program.id!r}"):
                self._mailbox = Mailbox(gpu, self.counters, self._memory, self._mail.values())
                self._reader = Reader(gpu, self.counters)
                self._pages = GpuPages(
                    gpu, self.counters, self._memory, self._reader, checked.pages
                )
                self._bound = bind_plans(gpu, self._memory, shaders, self.plans, load)
            total, progress = self._bytes["param"], checked.progress
            upload(gpu, checked.params(), total, self._memory, self._reader, progress)
        except BaseException:
            self._memory.destroy()
            raise

    def write(self, buffer: str, array: Array, offset_elems: int = 0) -> None:
        self._open()
        target, values = common.find_buffer(self._buffers, buffer), np.asarray(array)
        common.check_write(target, math.prod(self._shapes[buffer]), values, offset_elems)
        start = offset_elems * values.itemsize
        if start % 4 or values.nbytes % 4:
            raise common.buffer_error(
                f"Bytes {start}..{start + values.nbytes} of {buffer!r}: a GPU's memory is written "
                "4 bytes at a time."
            )
        if not values.size:
            return
        flat = np.ascontiguousarray(values).reshape(-1)
        if buffer == "step":
            for at, value in enumerate(flat[: len(STEP_SYMBOLS)].tolist(), offset_elems):
                if at < len(STEP_SYMBOLS):
                    self._step[at] = value
        self._mailbox.forget(buffer)
        with self._gpu.errors(f"Writing {buffer!r}"):
            self._gpu.queue.write_buffer(self._memory[buffer], start, flat)

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
            data = self._reader.rectangle(self._memory[name], taken, pitch, within)
        return data.reshape(-1).view(dtype).reshape(len(taken), *inner)

    def view(self, buffer: str) -> Array:
        self._open()
        raise common.buffer_error(f"{buffer!r} is in a GPU's memory, where it cannot be viewed.")

    def run(self, plan: str, k: int = 1) -> None:
        _calls.call(self._run, self._plan(plan, k), k)

    def _run(self, bound: BoundPlan, k: int) -> None:
        name = bound.plan.name
        with self._gpu.errors(f"Running {name!r}"):
            encoder = self._gpu.device.create_command_encoder()
            work = encoder.begin_compute_pass()
            dispatches = bound.encode(work, tuple(self._step), k)
            work.end()
            self._mailbox.send(encoder, self._mail[name])
            submit(self._gpu, self.counters, encoder)
        self.counters.dispatches += dispatches

    def trace(self, plan: str) -> Iterator[TracedStep]:
        bound = self._plan(plan)
        grids = bound.grids.at(tuple(self._step))
        for name in self._mail[plan]:
            self._mailbox.forget(name)
        for launch in bound.launches:
            self._open()
            yield _calls.call(self._trace, plan, launch, grids[launch.grid])

    def _trace(self, plan: str, launch: Launch, grid: Grid) -> TracedStep:
        outputs = []
        with self._gpu.errors(f"Running {plan}/{launch.label or launch.kernel}"):
            encoder = self._gpu.device.create_command_encoder()
            work = encoder.begin_compute_pass()
            work.set_pipeline(launch.pipeline)
            work.set_bind_group(0, launch.group)
            work.dispatch_workgroups(*grid)
            work.end()
            submit(self._gpu, self.counters, encoder)
            for item in launch.outputs:
                data = self._reader.read(self._memory[item.buffer], item.offset, item.bytes)
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
        if os.getpid() == self._process:
            self._memory.destroy()
            self._mailbox.destroy()
            self._reader.destroy()
            self._pages.destroy()
        self._bound = {}

    def __enter__(self) -> WgpuProgram:
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
