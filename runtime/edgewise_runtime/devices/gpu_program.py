"""What programs in a GPU's memory have in common, whichever API launches their kernels."""

from __future__ import annotations

import math
import os
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import ClassVar, Generic, Protocol, TypeVar

import numpy as np

from edgewise_runtime.devices import common
from edgewise_runtime.devices.base import Array, TracedStep
from edgewise_runtime.devices.grids import Grid, Grids
from edgewise_runtime.devices.kernel_thread import KernelThread
from edgewise_runtime.devices.loading import Checked
from edgewise_runtime.devices.mail import mail
from edgewise_runtime.devices.open_program import OpenProgram
from edgewise_runtime.devices.outputs import Output
from edgewise_runtime.devices.paging import Paging
from edgewise_runtime.errors import DeviceError
from edgewise_runtime.format import expr as ex
from edgewise_runtime.format.abi import STEP_SYMBOLS
from edgewise_runtime.format.plan import Buffer, Plan


class Gpu(Protocol):
    """An open GPU."""

    def errors(self, what: str) -> AbstractContextManager[None]:
        """Turn what the API reports inside into a DeviceError that begins with `what`."""


class Mailbox(Protocol):
    """The small buffers that plans write, copied to the host with the launches that did."""

    def forget(self, names: Iterable[str]) -> None:
        """Buffers are written otherwise: what was sent of them is old."""

    def look(self, name: str) -> Array | None:
        """A buffer's bytes, uint8, once they are there; None if it was not sent."""


class Pages(Protocol):
    """Moves pages of a program's state, in order with the runs before and after."""

    paging: Paging

    def copy(self, source: int, target: int) -> None: ...
    def read(self, page: int) -> bytes: ...
    def write(self, page: int, data: bytes) -> None: ...


class Launch(Protocol):
    """One launch of a plan, bound to its buffers."""

    @property
    def label(self) -> str: ...
    @property
    def kernel(self) -> str: ...
    @property
    def outputs(self) -> tuple[Output, ...]: ...


LaunchT = TypeVar("LaunchT", bound=Launch)
LaunchIn = TypeVar("LaunchIn", bound=Launch, covariant=True)


class BoundPlan(Protocol[LaunchIn]):
    """A plan whose launches are bound."""

    @property
    def plan(self) -> Plan: ...
    @property
    def grids(self) -> Grids: ...
    @property
    def launches(self) -> Sequence[LaunchIn]: ...


PlanT = TypeVar("PlanT", bound=BoundPlan[Launch])


class GpuProgram(OpenProgram, Generic[PlanT, LaunchT]):
    """A program in a GPU's memory; see `base.LoadedProgram`.

    A device's own class makes `_gpu`, `_mailbox`, `_pages` and `_bound` when it is made, and says
    how bytes get there and back and how a launch is made.

    Attributes:
        calls: the thread that makes calls of the API, which no Ctrl-C tears apart.
    """

    calls: ClassVar[KernelThread]

    _gpu: Gpu
    _mailbox: Mailbox
    _pages: Pages
    _bound: Mapping[str, PlanT]

    def __init__(self, checked: Checked) -> None:
        super().__init__(checked)
        self.calls.expect(1)
        self._process = os.getpid()
        self._step = [0] * len(STEP_SYMBOLS)
        self._shapes = {
            name: tuple(ex.evaluate(dim, checked.load_symbols) for dim in buffer.shape)
            for name, buffer in self._buffers.items()
        }
        self._mail = {name: mail(plan, checked.sizes) for name, plan in self.plans.items()}

    @abstractmethod
    def _put(self, buffer: str, start: int, flat: Array) -> None:
        """Write a buffer from a byte on, after all runs before."""

    @abstractmethod
    def _rectangle(self, buffer: str, rows: range, pitch: int, within: range) -> Array:
        """Bytes of a buffer, uint8, once all runs before are done: those `within` each of its rows
        of `pitch` bytes, one row after the other."""

    @abstractmethod
    def _piece(self, output: Output) -> Array:
        """Bytes that a launch wrote, uint8, once it is done."""

    @abstractmethod
    def _run(self, bound: PlanT, k: int) -> None:
        """Run a plan k times, by the symbols in `_step`."""

    @abstractmethod
    def _launch(self, launch: LaunchT, grids: tuple[Grid, ...]) -> None:
        """Make one launch by itself."""

    @abstractmethod
    def _release(self) -> None:
        """Give everything back, in the process that loaded the program."""

    def write(self, buffer: str, array: Array, offset_elems: int = 0) -> None:
        self._open()
        target, values = common.find_buffer(self._buffers, buffer), np.asarray(array)
        common.check_write(target, math.prod(self._shapes[buffer]), values, offset_elems)
        self._check_put(buffer, offset_elems * values.itemsize, values.nbytes)
        if values.size:
            flat = np.ascontiguousarray(values).reshape(-1)
            self.calls.call(self._write, buffer, flat, offset_elems)

    def _check_put(self, buffer: str, start: int, size: int) -> None:
        """Refuse bytes that the API cannot write.

        Raises:
            DeviceError: ``device.buffer``.
        """

    def _write(self, buffer: str, flat: Array, offset_elems: int) -> None:
        if buffer == "step":
            for at, value in enumerate(flat[: len(STEP_SYMBOLS)].tolist(), offset_elems):
                if at < len(STEP_SYMBOLS):
                    self._step[at] = value
        self._mailbox.forget([buffer])
        with self._gpu.errors(f"Writing {buffer!r}"):
            self._put(buffer, offset_elems * flat.itemsize, flat)

    def read(self, buffer: str, rows: slice | None = None, columns: slice | None = None) -> Array:
        self._open()
        found = common.find_buffer(self._buffers, buffer)
        array: Array = self.calls.call(self._read, found, rows, columns)
        return array

    def _read(self, buffer: Buffer, rows: slice | None, columns: slice | None = None) -> Array:
        name, shape, dtype = buffer.name, self._shapes[buffer.name], np.dtype(buffer.dtype)
        with self._gpu.errors(f"Reading {name!r}"):
            sent = self._mailbox.look(name)
            if sent is not None:
                whole = sent[: math.prod(shape) * dtype.itemsize].view(dtype).reshape(shape)
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
            data = self._rectangle(name, taken, pitch, within)
        return data.reshape(-1).view(dtype).reshape(len(taken), *inner)

    def view(self, buffer: str) -> Array:
        self._open()
        raise common.buffer_error(f"{buffer!r} is in a GPU's memory, where it cannot be viewed.")

    def run(self, plan: str, k: int = 1) -> None:
        self.calls.call(self._run_bound, self._plan(plan, k), k)

    def _run_bound(self, bound: PlanT, k: int) -> None:
        with self._gpu.errors(f"Running {bound.plan.name!r}"):
            self._run(bound, k)

    def trace(self, plan: str) -> Iterator[TracedStep]:
        bound = self._plan(plan)
        grids = bound.grids.at(tuple(self._step))
        self._mailbox.forget(self._mail[plan])
        for launch in bound.launches:
            self._open()
            yield self.calls.call(self._trace, plan, launch, grids)

    def _trace(self, plan: str, launch: LaunchT, grids: tuple[Grid, ...]) -> TracedStep:
        with self._gpu.errors(f"Running {plan}/{launch.label or launch.kernel}"):
            self._launch(launch, grids)
            outputs = tuple(output.array(self._piece(output)) for output in launch.outputs)
        return TracedStep(launch.label, launch.kernel, outputs)

    @property
    def page_bytes(self) -> int:
        return self._pages.paging.page_bytes

    def copy_page(self, source: int, target: int) -> None:
        self._open()
        self._pages.paging.check(source, target)
        self.calls.call(self._pages.copy, source, target)

    def read_page(self, page: int) -> bytes:
        self._open()
        self._pages.paging.check(page)
        data: bytes = self.calls.call(self._pages.read, page)
        return data

    def write_page(self, page: int, data: bytes) -> None:
        self._open()
        self._pages.paging.check_data(page, len(data))
        self.calls.call(self._pages.write, page, data)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        # A forked process has none of it: the driver stayed with the other one.
        if os.getpid() == self._process:
            self.calls.expect(1)
            self.calls.call(self._release)
        self._bound = {}

    def _open(self) -> None:
        super()._open()
        if os.getpid() != self._process:
            raise DeviceError(
                "This process was forked from the one that loaded the program, and drivers do not "
                "survive a fork.",
                remedy="Start processes with 'spawn'.",
                code="device.fork",
            )

    def _plan(self, name: str, k: int = 1) -> PlanT:
        self._open()
        common.find_plan(self.program, self.plans, name, k)
        return self._bound[name]
