"""CUDA programs on NVIDIA's GPUs: fatbins, one arena per role, and bursts as graphs."""

from __future__ import annotations

from edgewise_runtime.devices import loading
from edgewise_runtime.devices.base import Array
from edgewise_runtime.devices.cuda.binding import BoundPlan, Graphs, Kernels, Launch, launch
from edgewise_runtime.devices.cuda.gpu import Card, Gpu, choose_card, open_gpu
from edgewise_runtime.devices.cuda.memory import Counters, Memory, rectangle, to_device, to_host
from edgewise_runtime.devices.cuda.transfer import Mailbox, Pages, upload
from edgewise_runtime.devices.gpu_program import GpuProgram
from edgewise_runtime.devices.grids import Grid
from edgewise_runtime.devices.kernel_thread import KernelThread
from edgewise_runtime.devices.outputs import Output
from edgewise_runtime.errors import DeviceError

_calls = KernelThread(lambda threads: None)
"""A Ctrl-C is raised in the main thread only: here nothing comes between the calls of a burst."""

ARCHITECTURES = (75, 80, 86, 89, 90, 100, 120)
"""What programs may ask for, by compute capability: a GPU has its own and those before."""


class CudaDevice:
    """Runs the ``cuda`` programs of bundles on one GPU.

    Args:
        index: which GPU, as the driver and ``edgewise doctor`` count them; None for the first.

    Raises:
        DeviceError: ``device.driver`` without NVIDIA's driver, ``device.adapter`` for an index that
            is not there, or without any GPU.
    """

    target = "cuda"
    host_memory = False
    load = loading.load

    def __init__(self, index: int | None = None) -> None:
        self.card: Card = choose_card(index)

    @property
    def name(self) -> str:
        return str(self.card)

    @property
    def identity(self) -> str:
        # The driver compiles PTX where a GPU is newer than the machine code.
        return f"{self.card}, driver {self.card.driver}"

    def features(self) -> frozenset[str]:
        return frozenset(f"sm_{arch}" for arch in ARCHITECTURES if arch <= self.card.arch)

    def available_memory(self) -> int | None:
        return open_gpu(self.card).free_memory()

    def largest_buffer(self) -> int | None:
        return None

    def bind(self, checked: loading.Checked) -> CudaProgram:
        """See `loading.Binds.bind`."""
        return CudaProgram(open_gpu(self.card), checked)


class CudaProgram(GpuProgram[BoundPlan, Launch]):
    """A program in a GPU's memory. Made by `CudaDevice.load`; see `base.LoadedProgram`.

    Attributes:
        counters: what was made and done so far. Once loaded, a burst is one launch of a graph.
    """

    calls = _calls

    _gpu: Gpu
    _mailbox: Mailbox
    _pages: Pages

    def __init__(self, gpu: Gpu, checked: loading.Checked) -> None:
        super().__init__(checked)
        self.counters = Counters()
        self._gpu = gpu = gpu.lane()
        self._made: list[Kernels | Memory | Mailbox | Pages | Graphs] = []
        try:
            # What can be refused comes first: kernels and memory before gigabytes of weights.
            kernels = Kernels(gpu, self.counters, checked)
            self._made.append(kernels)
            self._memory = Memory(gpu, self.counters, self._buffers, checked.sizes)
            self._made.append(self._memory)
            with gpu.errors(f"Loading {self.program.id!r}"):
                self._mailbox = Mailbox(gpu, self.counters, self._memory, self._mail.values())
                self._made.append(self._mailbox)
                self._pages = Pages(gpu, self._memory, checked.pages)
                self._made.append(self._pages)
            self._graphs = Graphs(gpu, self.counters)
            self._made.append(self._graphs)
            self._bound = {
                name: BoundPlan(plan, kernels, self._memory, checked.load_symbols)
                for name, plan in self.plans.items()
            }
            upload(gpu, checked.params(), self._bytes["param"], self._memory, checked.progress)
        except BaseException:
            self._release()
            raise

    def _put(self, buffer: str, start: int, flat: Array) -> None:
        to_device(self._gpu, self._memory.addresses[buffer] + start, flat)

    def _rectangle(self, buffer: str, rows: range, pitch: int, within: range) -> Array:
        data = rectangle(self._gpu, self._memory.addresses[buffer], rows, pitch, within)
        self.counters.waits += 1
        return data

    def _piece(self, output: Output) -> Array:
        start = self._memory.addresses[output.buffer] + output.offset
        return to_host(self._gpu, start, output.bytes)

    def _run(self, bound: BoundPlan, k: int) -> None:
        mail, grids = self._mail[bound.plan.name], bound.grids.at(tuple(self._step))
        if bound.plan.max_burst > 1:
            # Its grids hardly change from burst to burst, so that the graph is there already.
            count = self._graphs.launch(bound, k, grids, lambda: self._mailbox.copy(mail))
        else:
            count = launch(self._gpu, bound.launches, grids)
            self._mailbox.copy(mail)
        self._mailbox.sent(mail)
        self.counters.launches += count

    def _launch(self, launched: Launch, grids: tuple[Grid, ...]) -> None:
        self.counters.launches += launch(self._gpu, [launched], grids)

    def _release(self) -> None:
        """Give everything back once nothing uses it, whatever state the GPU is in."""
        if self._gpu.fate.gone:
            return
        try:
            with self._gpu.errors("Closing"):
                self._gpu.quietly("cuStreamSynchronize", self._gpu.stream)
                for made in reversed(self._made):
                    made.destroy()
                self._gpu.end_lane()
        except DeviceError as error:
            if error.code != "device.lost":
                raise
        self._made = []
