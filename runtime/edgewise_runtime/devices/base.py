"""The device protocol: how the engine runs plans, whatever launches the kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

import numpy.typing as npt

from edgewise_runtime.format.bundle import Bundle, Progress
from edgewise_runtime.format.manifest import Program
from edgewise_runtime.format.plan import Plan
from edgewise_runtime.trust import Trust

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class TracedStep:
    """A launch that was made: its label, its kernel and copies of the arguments it wrote."""

    label: str
    kernel: str
    outputs: tuple[Array, ...]


class LoadedProgram(Protocol):
    """A program bound to memory: its buffers exist and its plans can be run.

    Calls happen in their order, and a caller never sees a buffer half written: `read` waits for
    every `run` before it. Where the memory is elsewhere, `run` may return once the work is handed
    over, and what goes wrong with it may be raised by a later call. One thread uses a loaded
    program at a time. After `close`, everything raises `DeviceError` ``device.closed``.
    """

    @property
    def bundle(self) -> Bundle: ...

    @property
    def program(self) -> Program: ...

    @property
    def plans(self) -> Mapping[str, Plan]:
        """The program's plans by name."""
        ...

    def write(self, buffer: str, array: Array, offset_elems: int = 0) -> None:
        """Copy an array, flattened, into a buffer from an element offset on.

        Raises:
            DeviceError: ``device.buffer`` for an unknown buffer, one that may not be written
                (parameters, scratch), another dtype, or elements past its end; on devices with
                memory of their own also for a piece that does not begin and end at 4 bytes.
        """
        ...

    def read(self, buffer: str, rows: slice | None = None, columns: slice | None = None) -> Array:
        """A copy of a buffer, or of some of its rows, or of some columns of them, in the buffer's
        shape and dtype.

        Raises:
            DeviceError: ``device.buffer`` for an unknown buffer or scratch.
        """
        ...

    def view(self, buffer: str) -> Array:
        """The buffer's memory itself, where the device has it in this process (the CPU).

        Raises:
            DeviceError: ``device.buffer``, also on devices whose memory is elsewhere.
        """
        ...

    def run(self, plan: str, k: int = 1) -> None:
        """Run a plan, k times where it may be repeated.

        Step symbols have the values last written to ``step``: n, b, r and t in this order. A
        KeyboardInterrupt waits for the burst to end, so that buffers are never half written.

        Raises:
            DeviceError: ``device.plan`` for an unknown plan or a k it does not allow,
                ``device.kernel`` where a kernel refuses its arguments, ``device.lost``.
        """
        ...

    def trace(self, plan: str) -> Iterator[TracedStep]:
        """Run a plan once, launch by launch, and show what each wrote but for state.

        For debugging. A launch happens when the iterator is drawn, and nothing else may run the
        program in between; sequences' stops are not looked at.

        Raises:
            DeviceError: as `run` does.
        """
        ...

    @property
    def page_bytes(self) -> int:
        """Bytes of a page of state: a row of each buffer of the state group, as the bundle says."""
        ...

    def copy_page(self, source: int, target: int) -> None:
        """Make one page of state what another is.

        Raises:
            DeviceError: ``device.buffer`` for a page that is not there, ``device.lost``.
        """
        ...

    def read_page(self, page: int) -> bytes:
        """A page's state, `page_bytes` of them: its rows in the order of the group's buffers, then
        of their scales.

        Raises:
            DeviceError: ``device.buffer`` for a page that is not there, ``device.lost``.
        """
        ...

    def write_page(self, page: int, data: bytes) -> None:
        """Make a page what `read_page` of the same program, loaded now or before, gave.

        Raises:
            DeviceError: ``device.buffer`` for a page that is not there or another size than
                `page_bytes`, ``device.lost``.
        """
        ...

    def memory(self) -> dict[str, int]:
        """Bytes per role: ``param``, ``state``, ``input``, ``output`` and ``scratch``."""
        ...

    def close(self) -> None:
        """Release the memory. Closing twice is fine."""
        ...

    def __enter__(self) -> LoadedProgram: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Device(Protocol):
    """Something that launches the kernels of one target."""

    @property
    def name(self) -> str:
        """For people: which processor this is."""
        ...

    @property
    def target(self) -> str:
        """The target whose programs it runs."""
        ...

    @property
    def identity(self) -> str:
        """What, besides a program's code, decides the bits it computes; empty for nothing."""
        ...

    @property
    def host_memory(self) -> bool:
        """Whether programs' memory is this process's own, which costs what is written to it."""
        ...

    def features(self) -> frozenset[str]:
        """What programs may need: the machine's arch and its features by their names in bundles."""
        ...

    def available_memory(self) -> int | None:
        """Bytes that programs can still take, None where the device does not tell."""
        ...

    def largest_buffer(self) -> int | None:
        """Bytes of the largest buffer a program may have, None without a limit."""
        ...

    def load(
        self,
        bundle: Bundle,
        program: Program | str | None = None,
        *,
        load_symbols: Mapping[str, int],
        trust: Trust = False,
        progress: Progress | None = None,
    ) -> LoadedProgram:
        """Bind a program to memory.

        Args:
            bundle: the bundle it belongs to.
            program: which one, or its id; None for the best that fits this device.
            load_symbols: values of the load symbols, such as the number of pages.
            trust: load native code even if this user did not compile it; or digests of programs
                that may be loaded besides, see `trust.Trust`.
            progress: hears about parameter files being hashed, and copied where they must be.

        Raises:
            DeviceError: ``device.no_program``, ``device.memory``, ``device.runtime``,
                ``device.kernel``.
            UnsupportedError: ``unsupported.state`` for state that this version cannot run.
            TrustError: native code that is not this user's.
            BundleError: damaged files.
            PlanError: load symbols out of range.
        """
        ...
