"""WebGPU programs on this machine's GPUs, by wgpu-native: WGSL on Vulkan, Metal or Direct3D 12."""

from __future__ import annotations

from edgewise_runtime.devices import common, loading
from edgewise_runtime.devices.base import Array
from edgewise_runtime.devices.gpu_program import GpuProgram
from edgewise_runtime.devices.grids import Grid
from edgewise_runtime.devices.kernel_thread import KernelThread
from edgewise_runtime.devices.outputs import Output
from edgewise_runtime.devices.wgpu.adapter import Adapter, choose_adapter
from edgewise_runtime.devices.wgpu.binding import BoundPlan, Launch, bind_plans, read_shaders
from edgewise_runtime.devices.wgpu.buffers import Buffers, Counters, submit
from edgewise_runtime.devices.wgpu.gpu import Gpu, open_gpu
from edgewise_runtime.devices.wgpu.pages import GpuPages
from edgewise_runtime.devices.wgpu.transfer import Mailbox, Reader, upload
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


class WgpuProgram(GpuProgram[BoundPlan, Launch]):
    """A program in a GPU's memory. Made by `WgpuDevice.load`; see `base.LoadedProgram`.

    Attributes:
        counters: what was made and done so far. Once loaded, a run makes nothing and submits once.
    """

    calls = _calls

    _gpu: Gpu
    _mailbox: Mailbox
    _pages: GpuPages

    def __init__(self, gpu: Gpu, checked: loading.Checked) -> None:
        super().__init__(checked)
        self.counters = Counters()
        self._gpu = gpu
        # What can be refused comes first: kernels and memory before gigabytes of weights.
        shaders = read_shaders(checked)
        self._memory = Buffers(gpu, self.counters, checked.sizes)
        try:
            with gpu.errors(f"Loading {self.program.id!r}"):
                self._mailbox = Mailbox(gpu, self.counters, self._memory, self._mail.values())
                self._reader = Reader(gpu, self.counters)
                self._pages = GpuPages(
                    gpu, self.counters, self._memory, self._reader, checked.pages
                )
                load = checked.load_symbols
                self._bound = bind_plans(gpu, self._memory, shaders, self.plans, load)
            total, progress = self._bytes["param"], checked.progress
            upload(gpu, checked.params(), total, self._memory, self._reader, progress)
        except BaseException:
            self._memory.destroy()
            raise

    def _check_put(self, buffer: str, start: int, size: int) -> None:
        if start % 4 or size % 4:
            raise common.buffer_error(
                f"Bytes {start}..{start + size} of {buffer!r}: a GPU's memory is written "
                "4 bytes at a time."
            )

    def _put(self, buffer: str, start: int, flat: Array) -> None:
        self._gpu.queue.write_buffer(self._memory[buffer], start, flat)

    def _rectangle(self, buffer: str, rows: range, pitch: int, within: range) -> Array:
        return self._reader.rectangle(self._memory[buffer], rows, pitch, within)

    def _piece(self, output: Output) -> Array:
        return self._reader.read(self._memory[output.buffer], output.offset, output.bytes)

    def _run(self, bound: BoundPlan, k: int) -> None:
        encoder = self._gpu.device.create_command_encoder()
        work = encoder.begin_compute_pass()
        dispatches = bound.encode(work, tuple(self._step), k)
        work.end()
        self._mailbox.send(encoder, self._mail[bound.plan.name])
        submit(self._gpu, self.counters, encoder)
        self.counters.dispatches += dispatches

    def _launch(self, launch: Launch, grids: tuple[Grid, ...]) -> None:
        encoder = self._gpu.device.create_command_encoder()
        work = encoder.begin_compute_pass()
        work.set_pipeline(launch.pipeline)
        work.set_bind_group(0, launch.group)
        work.dispatch_workgroups(*grids[launch.grid])
        work.end()
        submit(self._gpu, self.counters, encoder)
        self.counters.dispatches += 1

    def _release(self) -> None:
        self._memory.destroy()
        self._mailbox.destroy()
        self._reader.destroy()
        self._pages.destroy()
