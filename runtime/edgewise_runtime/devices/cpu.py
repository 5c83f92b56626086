"""The CPU: one compiled host function per plan, called on the kernel thread."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any

import numpy as np

from edgewise_runtime import expr as ex
from edgewise_runtime.bundle import Bundle, Progress, choose_program
from edgewise_runtime.cpuid import cpu_arch, cpu_features, cpu_name, default_threads
from edgewise_runtime.devices import memory, tvm_library
from edgewise_runtime.devices.base import Array
from edgewise_runtime.devices.cpu_trace import TracedStep, trace_plan
from edgewise_runtime.devices.kernel_thread import KernelThread
from edgewise_runtime.errors import DeviceError
from edgewise_runtime.limits import available_memory
from edgewise_runtime.manifest import Program, TensorEntry
from edgewise_runtime.plan import ROLES, Buffer, Plan, check_extents
from edgewise_runtime.reading import shorten
from edgewise_runtime.trust import verify

MAX_THREADS = 1024

_kernels = KernelThread(tvm_library.configure_threads)


class CpuDevice:
    """Runs the ``cpu`` programs of bundles in this process.

    Args:
        threads: how many threads kernels use, all programs of the process alike: the device made
            last decides. None for one per physical core this process may use.
    """

    target = "cpu"

    def __init__(self, threads: int | None = None) -> None:
        self.threads = default_threads() if threads is None else threads
        if not 1 <= self.threads <= MAX_THREADS:
            raise DeviceError(
                f"{self.threads} threads is not in 1..{MAX_THREADS}.", code="device.threads"
            )

    @property
    def name(self) -> str:
        return cpu_name()

    def features(self) -> frozenset[str]:
        return cpu_features() | {cpu_arch()}

    def load(
        self,
        bundle: Bundle,
        program: Program | str | None = None,
        *,
        load_symbols: Mapping[str, int],
        trust: bool = False,
        progress: Progress | None = None,
    ) -> CpuProgram:
        """See `base.Device.load`."""
        chosen = self._choose(bundle, program)
        plans = bundle.plans(chosen.id)
        sizes: dict[str, int] = {}
        for plan in plans.values():
            load = plan.resolve(load_symbols)
            check_extents(plan, load)
            for buffer in plan.buffers:
                size = ex.evaluate(buffer.bytes, load)
                sizes[buffer.name] = max(size, sizes.get(buffer.name, 0))
        check_memory(plans, sizes, available_memory())
        if chosen.library is None:
            message = f"Program {chosen.id!r} has no library."
            raise DeviceError(message, code="device.library")
        what = f"{bundle.name}/{chosen.library}"

        def trusted(sha256: str) -> None:
            if not trust:
                verify(sha256, chosen.signature, what=what)

        expected = bundle.manifest.files[chosen.library].sha256
        library = tvm_library.load_library(bundle.file(chosen.library), expected, trusted)
        bundle.verify_params(chosen.layout, progress)
        _kernels.start(self.threads)
        return CpuProgram(bundle, chosen, plans, library, sizes, dict(load_symbols))

    def _choose(self, bundle: Bundle, program: Program | str | None) -> Program:
        if program is None:
            return choose_program(bundle, self.features(), target=self.target)
        chosen = bundle.manifest.program(program if isinstance(program, str) else program.id)
        missing = chosen.needs.missing(self.features())
        if chosen.target != self.target or missing:
            lacking = ", ".join(missing) or f"the target {chosen.target}"
            raise DeviceError(
                f"Program {chosen.id!r} needs {lacking}, which this CPU does not have.",
                remedy="Leave the choice to the device, or compile the model on this machine.",
                code="device.no_program",
            )
        return chosen


def check_memory(
    plans: Mapping[str, Plan], sizes: Mapping[str, int], available: int | None
) -> None:
    """Refuse a program that does not fit before anything is allocated.

    Parameters count too: mapped files need no allocation, but every token reads all of them.

    Raises:
        DeviceError: ``device.memory`` with the bytes per role.
    """
    per_role = count_bytes(plans, sizes)
    total = sum(per_role.values())
    if available is not None and total > available:
        parts = ", ".join(f"{role} {size / memory.GIB:.2f}" for role, size in per_role.items())
        raise DeviceError(
            f"The program needs {total / memory.GIB:.2f} GiB of memory ({parts}), and "
            f"{available / memory.GIB:.2f} GiB are available.",
            remedy="Ask for fewer KV pages, choose a smaller model or quantization, or free some.",
            code="device.memory",
        )


def count_bytes(plans: Mapping[str, Plan], sizes: Mapping[str, int]) -> dict[str, int]:
    """Bytes per role; a buffer several plans name counts once."""
    roles = {buffer.name: buffer.role for plan in plans.values() for buffer in plan.buffers}
    per_role = dict.fromkeys(ROLES, 0)
    for name, role in roles.items():
        per_role[role] += sizes[name]
    return per_role


class CpuProgram:
    """A program in memory. Made by `CpuDevice.load`; see `base.LoadedProgram`."""

    def __init__(
        self,
        bundle: Bundle,
        program: Program,
        plans: Mapping[str, Plan],
        library: Any,
        sizes: Mapping[str, int],
        load: Mapping[str, int],
    ) -> None:
        self.bundle = bundle
        self.program = program
        self.plans = plans
        self._closed = False
        self._memory = count_bytes(plans, sizes)
        self._roles = {b.name: b.role for plan in plans.values() for b in plan.buffers}
        raw = _allocate(bundle, program, self._roles, sizes)
        self._raw = raw
        self._library = library
        self._arrays = {
            buffer.name: _shaped(raw[buffer.name], buffer, load)
            for plan in plans.values()
            for buffer in plan.buffers
            if buffer.role != "scratch"
        }
        self._calls = {
            name: _bind(plan, library, raw, self._arrays) for name, plan in plans.items()
        }

    def write(self, buffer: str, array: Array, offset_elems: int = 0) -> None:
        target = self._array(buffer)
        if not target.flags.writeable:
            raise _buffer_error(f"The parameter {buffer!r} cannot be written.")
        flat, values = target.reshape(-1), np.asarray(array)
        if values.dtype != flat.dtype:
            raise _buffer_error(f"{buffer!r} is {flat.dtype}, not {values.dtype}.")
        end = offset_elems + values.size
        if not 0 <= offset_elems <= end <= flat.size:
            message = (
                f"Elements {offset_elems}..{end} are not in {buffer!r}, which has {flat.size}."
            )
            raise _buffer_error(message)
        flat[offset_elems:end] = values.reshape(-1)

    def read(self, buffer: str, rows: slice | None = None) -> Array:
        array = self._array(buffer)
        return np.array(array if rows is None else array[rows])

    def view(self, buffer: str) -> Array:
        return self._array(buffer)

    def run(self, plan: str, k: int = 1) -> None:
        self._open()
        call = self._calls.get(plan)
        if call is None:
            known = ", ".join(self._calls)
            message = f"Program {self.program.id!r} has no plan {shorten(plan)}; it has {known}."
            raise DeviceError(message, code="device.plan")
        loop = self.plans[plan].loop
        most = 1 if loop is None else loop.max_burst
        if not 1 <= k <= most:
            message = f"Plan {plan!r} runs 1..{most} times a call, not {shorten(k)}."
            raise DeviceError(message, code="device.plan")
        try:
            _kernels.call(call, k)
        except DeviceError:
            raise
        except Exception as cause:
            message = f"Plan {plan!r} failed: {shorten(str(cause))}."
            raise DeviceError(message, code="device.kernel") from cause

    def trace(self, plan: str) -> Iterator[TracedStep]:
        """Run a plan once, one kernel at a time, and yield what each wrote.

        For debugging: between two kernels nothing else may run the program.

        Raises:
            DeviceError: as `run` does.
        """
        self._open()
        if plan not in self.plans:
            raise DeviceError(f"There is no plan {shorten(plan)}.", code="device.plan")
        yield from trace_plan(self.plans[plan], self._library, self._raw, self._arrays, _kernels)

    def memory(self) -> dict[str, int]:
        self._open()
        return dict(self._memory)

    def close(self) -> None:
        self._closed = True
        self._arrays = {}
        self._calls = {}
        self._raw = {}

    def __enter__(self) -> CpuProgram:
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
            raise DeviceError(f"Program {self.program.id!r} is closed.", code="device.closed")

    def _array(self, buffer: str) -> Array:
        self._open()
        array = self._arrays.get(buffer)
        if array is None:
            what = (
                "scratch" if self._roles.get(buffer) == "scratch" else "no buffer of this program"
            )
            raise _buffer_error(f"{shorten(buffer)} is {what}.")
        return array


def _buffer_error(message: str) -> DeviceError:
    return DeviceError(message, code="device.buffer")


def _allocate(
    bundle: Bundle, program: Program, roles: Mapping[str, str], sizes: Mapping[str, int]
) -> dict[str, Array]:
    """Memory of every buffer by name, uint8: parameters in place in their files, zeros else."""
    tensors: Mapping[str, TensorEntry] = bundle.manifest.layouts[program.layout]
    used = {tensors[name].file for name, role in roles.items() if role == "param"}
    files = {
        name: memory.map_file(bundle.file(name), bundle.manifest.files[name].bytes)
        for name in sorted(used)
    }
    raw: dict[str, Array] = {}
    for name, role in roles.items():
        if role == "param":
            entry = tensors[name]
            raw[name] = files[entry.file][entry.offset : entry.offset + entry.bytes]
        else:
            raw[name] = memory.zeros(sizes[name])
    return raw


def _shaped(raw: Array, buffer: Buffer, load: Mapping[str, int]) -> Array:
    """A buffer's memory in its dtype and shape."""
    shape = tuple(ex.evaluate(dim, load) for dim in buffer.shape)
    dtype = np.dtype(buffer.dtype)
    array: Array = raw[: math.prod(shape) * dtype.itemsize].view(dtype).reshape(shape)
    return array


def _bind(
    plan: Plan, library: Any, raw: Mapping[str, Array], arrays: Mapping[str, Array]
) -> Callable[[int], None]:
    """The plan's host function with its buffers bound; the call takes k.

    Scratch is as large as the largest plan needs; each plan sees the size it declares.

    Raises:
        DeviceError: ``device.symbol`` where the library lacks the function.
    """
    host = plan.host
    if host is None:
        raise DeviceError(f"Plan {plan.name!r} has no host function.", code="device.symbol")
    try:
        function = library[host.symbol]
    except (AttributeError, KeyError, RuntimeError) as cause:
        message = f"The library has no function {host.symbol!r} for plan {plan.name!r}."
        raise DeviceError(message, code="device.symbol") from cause
    from_dlpack = tvm_library.ffi().from_dlpack
    tensors = []
    for name in host.buffers:
        buffer = plan.buffer_table[name]
        if buffer.role == "scratch":
            array = raw[name][: ex.evaluate(buffer.bytes, {})]
        else:
            array = arrays[name]
        tensors.append(from_dlpack(memory.exportable(array)))
    bound = tuple(tensors)

    def call(k: int) -> None:
        function(*bound, k)

    return call
