"""The CPU: one compiled host function per plan, called on the kernel thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any

import numpy as np

from edgewise_runtime import expr as ex
from edgewise_runtime.bundle import Bundle, Progress, choose_program
from edgewise_runtime.cpuid import cpu_arch, cpu_features, cpu_name, default_threads
from edgewise_runtime.devices import cpu_binding as binding
from edgewise_runtime.devices import memory, tvm_library
from edgewise_runtime.devices.base import Array
from edgewise_runtime.devices.cpu_binding import TracedStep
from edgewise_runtime.devices.kernel_thread import KernelThread
from edgewise_runtime.errors import DeviceError
from edgewise_runtime.limits import available_memory
from edgewise_runtime.manifest import Program
from edgewise_runtime.plan import ROLES, Plan, check_extents
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
        if not isinstance(self.threads, int) or not 1 <= self.threads <= MAX_THREADS:
            raise DeviceError(
                f"{self.threads!r} threads is not in 1..{MAX_THREADS}.",
                remedy="Leave it out for one per physical core.",
                code="device.threads",
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
        self._library = library
        self._load = load
        self._raw = binding.allocate(bundle, program, self._roles, sizes)
        self._arrays = {
            buffer.name: binding.shaped(self._raw[buffer.name], buffer, load)
            for plan in plans.values()
            for buffer in plan.buffers
            if buffer.role != "scratch"
        }
        self._calls = {
            name: binding.bind_host(plan, library, self._raw, load) for name, plan in plans.items()
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
        loop = self._plan(plan).loop
        most = 1 if loop is None else loop.max_burst
        if not 1 <= k <= most:
            message = f"Plan {plan!r} runs 1..{most} times a call, not {shorten(k)}."
            raise DeviceError(message, code="device.plan")
        _call_kernel(plan, self._calls[plan], k)

    def trace(self, plan: str) -> Iterator[TracedStep]:
        """Run a plan once, launch by launch, and show what each wrote but for state.

        For debugging. A launch happens when the iterator is drawn, and nothing else may run the
        program in between; a plan's loop and its stop are not looked at.

        Raises:
            DeviceError: as `run` does.
        """
        for step in binding.bind_steps(self._plan(plan), self._library, self._raw, self._load):
            _call_kernel(f"{plan}/{step.label or step.kernel}", step.call)
            outputs = tuple(np.array(output) for output in step.outputs)
            yield TracedStep(step.label, step.kernel, outputs)

    def memory(self) -> dict[str, int]:
        self._open()
        return dict(self._memory)

    def close(self) -> None:
        self._closed = True
        self._raw = {}
        self._arrays = {}
        self._calls = {}

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

    def _plan(self, name: str) -> Plan:
        self._open()
        plan = self.plans.get(name)
        if plan is None:
            known = ", ".join(self.plans)
            message = f"Program {self.program.id!r} has no plan {shorten(name)}; it has {known}."
            raise DeviceError(message, code="device.plan")
        return plan

    def _array(self, buffer: str) -> Array:
        self._open()
        array = self._arrays.get(buffer)
        if array is None:
            what = (
                "scratch" if self._roles.get(buffer) == "scratch" else "no buffer of this program"
            )
            raise _buffer_error(f"{shorten(buffer)} is {what}.")
        return array


def _call_kernel(what: str, function: Callable[..., Any], *args: int) -> None:
    try:
        _kernels.call(function, *args)
    except DeviceError:
        raise
    except Exception as cause:
        # What a kernel refuses arrives as one of several built-in exceptions.
        message = f"{what} failed: {shorten(str(cause))}."
        raise DeviceError(message, code="device.kernel") from cause


def _buffer_error(message: str) -> DeviceError:
    return DeviceError(message, code="device.buffer")
