"""A program whose tokens are right only if every page was: what tests of the engine run.

It does with the step buffers what compiled programs do, but computes hashes (`toy_model`). Pages
begin as poison. A wrong page, a stale one, one that was shared and written, or a copy that was not
made gives other tokens than `toy_model.answer`; what no correct caller asks for is a
`FaultError`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType

import numpy as np
import numpy.typing as npt

from edgewise_runtime.devices import common
from edgewise_runtime.devices.base import Array, TracedStep
from edgewise_runtime.errors import DeviceError
from edgewise_runtime.format.abi import PAGE_TOKENS
from edgewise_runtime.format.bundle import Bundle, Program
from edgewise_runtime.format.plan import Plan
from tests.runtime.engine.toy_bundle import Bounds, toy_bundle, toy_plans
from tests.runtime.engine.toy_kernels import POISON, FaultError, ToyKernels


@dataclass(slots=True)
class Failure:
    """A device that fails.

    Attributes:
        code: ``device.lost``, after which everything fails, or ``device.kernel``.
        calls: launches and page movements until it does; 1 is the next one.
        pieces: parts of that call's work done before it fails, such as sequences of a step.
        late: the call returns, and the next one or the next read raises.
    """

    code: str = "device.lost"
    calls: int = 1
    pieces: int = 0
    late: bool = False


class ToyProgram:
    """A `LoadedProgram` in this process.

    Attributes:
        calls: plans run, each with its k, and page movements as their name and the page.
    """

    def __init__(self, bounds: Bounds | None = None) -> None:
        self.bounds = bounds or Bounds()
        self.calls: list[tuple[str, int]] = []
        self._plans = toy_plans(self.bounds)
        self._declared = {b.name: b for plan in self._plans.values() for b in plan.buffers}
        self._arrays: dict[str, Array] = {
            name: np.zeros(
                tuple(self.bounds.pages if dim == "pages" else int(str(dim)) for dim in b.shape),
                b.dtype,
            )
            for name, b in self._declared.items()
        }
        self._kernels = ToyKernels(self.bounds, self._arrays)
        self._kv: npt.NDArray[np.uint64] = self._kernels.kv
        self._failure: Failure | None = None
        self._pending: DeviceError | None = None
        self._lost = False
        self._closed = False

    def fail(self, failure: Failure) -> None:
        """Fail at a later call, or at the next."""
        self._failure = failure

    def guard(self, may_write: Callable[[int], bool]) -> None:
        """From now on a page may only be written where this says so."""
        self._kernels.may_write = may_write

    def decoded(self, page: int) -> npt.NDArray[np.bool_]:
        """Which tokens of a page were written by decode, where that writes something else."""
        words: npt.NDArray[np.uint64] = self._kv[page]
        decoded: npt.NDArray[np.bool_] = ((words & 1) == 1) & (words != POISON)
        return decoded

    @property
    def failing(self) -> bool:
        """Whether something went wrong that nobody has heard of yet."""
        return self._pending is not None

    @property
    def bundle(self) -> Bundle:
        return toy_bundle(self.bounds)

    @property
    def program(self) -> Program:
        return self.bundle.manifest.programs[0]

    @property
    def plans(self) -> Mapping[str, Plan]:
        return self._plans

    def write(self, buffer: str, array: Array, offset_elems: int = 0) -> None:
        flat, values = self._array(buffer).reshape(-1), np.asarray(array)
        common.check_write(self._declared[buffer], flat.size, values, offset_elems)
        flat[offset_elems : offset_elems + values.size] = values.reshape(-1)

    def read(self, buffer: str, rows: slice | None = None, columns: slice | None = None) -> Array:
        array = self._array(buffer)
        self._settle()
        return common.piece_of(array, rows, columns)

    def view(self, buffer: str) -> Array:
        return self._array(buffer)

    def run(self, plan: str, k: int = 1) -> None:
        self._open()
        found = common.find_plan(self.program, self._plans, plan, k)
        self.calls.append((plan, k))
        self._do(self._kernels.work(found, k))

    def trace(self, plan: str) -> Iterator[TracedStep]:
        raise FaultError("Nobody traces a toy.")

    @property
    def page_bytes(self) -> int:
        return PAGE_TOKENS * 8

    def copy_page(self, source: int, target: int) -> None:
        def work() -> Iterator[None]:
            yield
            self._kv[target] = self._kv[source]

        self._move("copy_page", source)
        self._move("copy_page", target, written=True)
        self._do(work())

    def read_page(self, page: int) -> bytes:
        self._move("read_page", page)
        self._do(iter([None]))
        self._settle()
        data: bytes = self._kv[page].tobytes()
        return data

    def write_page(self, page: int, data: bytes) -> None:
        def work() -> Iterator[None]:
            self._kv[page][: PAGE_TOKENS // 2] = np.frombuffer(data, np.uint64)[: PAGE_TOKENS // 2]
            yield
            self._kv[page] = np.frombuffer(data, np.uint64)

        self._move("write_page", page, written=True)
        if len(data) != self.page_bytes:
            raise common.buffer_error(f"A page has {self.page_bytes} bytes, not {len(data)}.")
        self._do(work())

    def memory(self) -> dict[str, int]:
        self._open()
        return dict.fromkeys(("param", "state", "input", "output", "scratch"), 0)

    def close(self) -> None:
        self._closed = True

    def __enter__(self) -> ToyProgram:
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
        if self._lost:
            raise DeviceError("The toy is lost.", code="device.lost")

    def _settle(self) -> None:
        """Raise what went wrong with earlier work."""
        if self._pending is not None:
            error, self._pending = self._pending, None
            self._lost = error.code == "device.lost"
            raise error

    def _do(self, work: Iterator[None]) -> None:
        """Do the parts of some work, or as many as a failure lets."""
        self._settle()
        failure = self._failure
        if failure is None or failure.calls > 1:
            if failure is not None:
                failure.calls -= 1
            for _ in work:
                pass
            return
        self._failure = None
        for _ in zip(range(failure.pieces), work, strict=False):
            pass
        self._kernels.forget()
        self._pending = DeviceError("The toy failed.", code=failure.code)
        if not failure.late:
            self._settle()

    def _array(self, buffer: str) -> Array:
        self._open()
        return self._arrays[common.find_buffer(self._declared, buffer).name]

    def _move(self, what: str, page: int, written: bool = False) -> None:
        self._open()
        if not 0 <= page < self.bounds.pages:
            raise common.buffer_error(f"Page {page} is not one of {self.bounds.pages}.")
        self.calls.append((what, page))
        if written:
            self._kernels.check_page(page)
