"""CUDA programs on NVIDIA's GPUs: fatbins, one arena per role, and bursts as graphs."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from types import TracebackType

import numpy as np

from edgewise_runtime.devices import common, loading
from edgewise_runtime.devices.base import Array, TracedStep
from edgewise_runtime.devices.cuda.binding import BoundPlan, Graphs, Kernels, Launch, launch
from edgewise_runtime.devices.cuda.gpu import Card, Gpu, choose_card, open_gpu
from edgewise_runtime.devices.cuda.memory import Counters, Memory, rectangle, to_device, to_host
from edgewise_runtime.devices.cuda.transfer import Mailbox, Pages, upload
from edgewise_runtime.devices.grids import Grid
from edgewise_runtime.devices.kernel_thread import KernelThread
from edgewise_runtime.devices.mail import mail
from edgewise_runtime.errors import DeviceError
from edgewise_runtime.format import expr as ex
from edgewise_runtime.format.abi import STEP_SYMBOLS
from edgewise_runtime.format.plan import Buffer

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


class CudaProgram:
    """A program in a GPU's memory. Made by `CudaDevice.load`; see `base.LoadedProgram`.

    Attributes:
        counters: what was made and done so far. Once loaded, a burst is one launch of a graph.
    """

    def __init__(self, gpu: Gpu, checked: loading.Checked) -> None:
        self.bundle = checked.bundle
        self.program = checked.program
        self.plans = checked.plans
        self.counters = Counters()
        _calls.expect(1)
        self._gpu = gpu = gpu.lane()
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
        self._mail = {name: mail(plan, sizes) for name, plan in self.plans.items()}
        self._made: list[Kernels | Memory | Mailbox | Pages | Graphs] = []
        try:
            # What can be refused comes first: kernels and memory before gigabytes of weights.
            kernels = Kernels(gpu, self.counters, checked)
            self._made.append(kernels)
            self._memory = Memory(gpu, self.counters, self._buffers, sizes)
            self._made.append(self._memory)
            with gpu.errors(f"Loading {self.program.id!r}"):
                self._mailbox = Mailbox(gpu, self.counters, self._memory, self._mail.values())
                self._made.append(self._mailbox)
                self._pages = Pages(gpu, self._memory, checked.pages)
                self._made.append(self._pages)
            self._graphs = Graphs(gpu, self.counters)
            self._made.append(self._graphs)
            self._bound = {
                name: BoundPlan(plan, kernels, self._memory, load)
                for name, plan in self.plans.items()
            }
            upload(gpu, checked.params(), self._bytes["param"], self._memory, checked.progress)
        except BaseException:
            self._destroy()
            raise

    def write(self, buffer: str, array: Array, offset_elems: int = 0) -> None:
        self._open()
        target, values = common.find_buffer(self._buffers, buffer), np.asarray(array)
        common.check_write(target, math.prod(self._shapes[buffer]), values, offset_elems)
        start = offset_elems * values.itemsize
        if not values.size:
            return
        flat = np.ascontiguousarray(values).reshape(-1)
        if buffer == "step":
            for at, value in enumerate(flat[: len(STEP_SYMBOLS)].tolist(), offset_elems):
                if at < len(STEP_SYMBOLS):
                    self._step[at] = value
        self._mailbox.forget(buffer)
        with self._gpu.errors(f"Writing {buffer!r}"):
            to_device(self._gpu, self._memory.addresses[buffer] + start, flat)

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
            data = rectangle(self._gpu, self._memory.addresses[name], taken, pitch, within)
            self.counters.waits += 1
        return data.reshape(-1).view(dtype).reshape(len(taken), *inner)

    def view(self, buffer: str) -> Array:
        self._open()
        raise common.buffer_error(f"{buffer!r} is in a GPU's memory, where it cannot be viewed.")

    def run(self, plan: str, k: int = 1) -> None:
        _calls.call(self._run, self._plan(plan, k), k)

    def _run(self, bound: BoundPlan, k: int) -> None:
        name = bound.plan.name
        mail, grids = self._mail[name], bound.grids.at(tuple(self._step))
        with self._gpu.errors(f"Running {name!r}"):
            if bound.plan.max_burst > 1:
                # Its grids hardly change from burst to burst, so that the graph is there already.
                count = self._graphs.launch(bound, k, grids, lambda: self._mailbox.copy(mail))
            else:
                count = launch(self._gpu, bound.launches, grids)
                self._mailbox.copy(mail)
            self._mailbox.sent(mail)
        self.counters.launches += count

    def trace(self, plan: str) -> Iterator[TracedStep]:
        bound = self._plan(plan)
        grids = bound.grids.at(tuple(self._step))
        for name in self._mail[plan]:
            self._mailbox.forget(name)
        for item in bound.launches:
            self._open()
            yield _calls.call(self._trace, plan, item, grids)

    def _trace(self, plan: str, item: Launch, grids: tuple[Grid, ...]) -> TracedStep:
        outputs = []
        with self._gpu.errors(f"Running {plan}/{item.label or item.kernel}"):
            self.counters.launches += launch(self._gpu, [item], grids)
            for output in item.outputs:
                data = to_host(
                    self._gpu, self._memory.addresses[output.buffer] + output.offset, output.bytes
                )
                outputs.append(output.array(data))
        return TracedStep(item.label, item.kernel, tuple(outputs))

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
            self._destroy()
        self._bound = {}

    def _destroy(self) -> None:
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

    def __enter__(self) -> CudaProgram:
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
