"""A program's plans bound to a GPU: kernels loaded, launches with their arguments, and graphs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from ctypes import c_uint64, c_void_p
from dataclasses import dataclass
from typing import Any

from edgewise_runtime.devices.cuda.driver import CudaError
from edgewise_runtime.devices.cuda.gpu import Gpu
from edgewise_runtime.devices.cuda.memory import Counters, Memory
from edgewise_runtime.devices.grids import Grid, Grids
from edgewise_runtime.devices.loading import Checked
from edgewise_runtime.devices.outputs import Output, outputs_of
from edgewise_runtime.errors import DeviceError
from edgewise_runtime.format.fatbin import read_images, read_uses
from edgewise_runtime.format.plan import Kernel, Plan, Step

MAX_GRAPHS = 64
"""Graphs that a program keeps: of a plan, its grids and how often it is repeated."""

_CAPTURE_HERE = 2
"""A mode of capturing: other threads may use the driver as they like."""

Threads = tuple[int, int, int]


@dataclass(frozen=True)
class Launch:
    """One launch of a plan; `grid` is its place among the plan's grids.

    Attributes:
        function: the driver's kernel.
        arguments: addresses of the buffers, as the driver takes them.
    """

    label: str
    kernel: str
    function: c_void_p
    threads: Threads
    arguments: Any
    grid: int
    outputs: tuple[Output, ...]


class Kernels:
    """The kernels of a program, each fatbin loaded once.

    Raises:
        BundleError: ``bundle.fatbin`` for a file that is none.
        DeviceError: ``device.kernel`` where a file has no code for the GPU, or not the kernel, or
            the driver refuses it.
    """

    def __init__(self, gpu: Gpu, counters: Counters, checked: Checked) -> None:
        self._gpu = gpu
        self._counters = counters
        self._modules: dict[str, c_void_p] = {}
        self._functions: dict[tuple[str, str], tuple[c_void_p, Threads]] = {}
        self._of_plans: dict[tuple[str, str], tuple[c_void_p, Threads]] = {}
        try:
            for plan in checked.plans.values():
                for name, kernel in plan.kernels.items():
                    path = checked.program.shaders[name]
                    if (path, kernel.symbol) not in self._functions:
                        self._load(name, path, checked.code[path], kernel)
                    self._of_plans[plan.name, name] = self._functions[path, kernel.symbol]
        except BaseException:
            self.destroy()
            raise

    def _load(self, name: str, path: str, data: bytes, kernel: Kernel) -> None:
        images, card = read_images(path, data), self._gpu.card
        if not any(image.runs_on(card.arch) for image in images):
            has = ", ".join(map(str, images)) or "nothing"
            raise DeviceError(
                f"The kernel {name!r} has code for {has}, and none that runs on {card}.",
                remedy="Choose another device (edgewise doctor lists them), or compile the model "
                "again with this version of edgewise.",
                code="device.kernel",
            )
        uses = [read_uses(path, image) for image in images if image.kind == "cubin"]
        use = next((found[kernel.symbol] for found in uses if kernel.symbol in found), None)
        if use is None:
            raise DeviceError(
                f"The kernel {name!r} is not in {path}: it has no {kernel.symbol!r}.",
                remedy="Compile the model again with this version of edgewise.",
                code="device.kernel",
            )
        with self._gpu.errors(f"The kernel {name!r} does not load"):
            if path not in self._modules:
                self._modules[path] = self._gpu.driver.handle("cuModuleLoadData", data)
                self._counters.modules += 1
            function = self._gpu.driver.handle(
                "cuModuleGetFunction", self._modules[path], kernel.symbol.encode()
            )
        self._functions[path, kernel.symbol] = function, use.threads

    def __getitem__(self, key: tuple[str, str]) -> tuple[c_void_p, Threads]:
        """A kernel of a plan and the threads of its blocks."""
        return self._of_plans[key]

    def destroy(self) -> None:
        """Unload them."""
        for module in self._modules.values():
            self._gpu.quietly("cuModuleUnload", module)
        self._modules = {}


class BoundPlan:
    """A plan whose launches are bound."""

    def __init__(
        self, plan: Plan, kernels: Kernels, memory: Memory, load: Mapping[str, int]
    ) -> None:
        self.plan = plan
        self.grids = Grids(plan, load)
        self._ranges = plan.ranges | {name: (value, value) for name, value in load.items()}
        self.launches = tuple(
            self._launch(step, kernels, memory, place)
            for step, place in zip(plan.steps, self.grids.places, strict=True)
        )

    def _launch(self, step: Step, kernels: Kernels, memory: Memory, grid: int) -> Launch:
        function, threads = kernels[self.plan.name, step.kernel]
        values = [c_uint64(memory.addresses[b.buffer] + b.offset) for b in step.bindings]
        pointers: Any = (c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        pointers.values = values  # which it points to
        outputs = outputs_of(self.plan, step, self._ranges)
        return Launch(step.label, step.kernel, function, threads, pointers, grid, outputs)


def launch(gpu: Gpu, launches: Sequence[Launch], grids: Sequence[Grid]) -> int:
    """Hand launches to the GPU's stream; return how many there were: an empty grid is none.

    Raises:
        CudaError: the driver refuses one.
    """
    call, stream, count = gpu.driver.function("cuLaunchKernel"), gpu.stream, 0
    for item in launches:
        grid = grids[item.grid]
        if 0 not in grid:
            count += 1
            if error := call(item.function, *grid, *item.threads, 0, stream, item.arguments, None):
                raise gpu.driver.error("cuLaunchKernel", error)
    return count


class Graphs:
    """Bursts captured as graphs: one call of the driver launches all of one, and sends its mail."""

    def __init__(self, gpu: Gpu, counters: Counters) -> None:
        self._gpu = gpu
        self._counters = counters
        self._made: dict[tuple[str, int, tuple[Grid, ...]], tuple[c_void_p, int]] = {}

    def launch(
        self, bound: BoundPlan, k: int, grids: tuple[Grid, ...], after: Callable[[], None]
    ) -> int:
        """Launch a plan `k` times; return how many kernels that were.

        Args:
            after: asks for what is copied at the end.

        Raises:
            CudaError: the driver refuses.
        """
        key = bound.plan.name, k, grids
        found = self._made.get(key)
        if found is None:
            if len(self._made) >= MAX_GRAPHS:
                self._gpu.wait()  # one of them may be running
                self.destroy()
            found = self._made[key] = self._capture(bound, k, grids, after)
        self._gpu.driver.call("cuGraphLaunch", found[0], self._gpu.stream)
        self._counters.graph_launches += 1
        return found[1]

    def _capture(
        self, bound: BoundPlan, k: int, grids: tuple[Grid, ...], after: Callable[[], None]
    ) -> tuple[c_void_p, int]:
        gpu = self._gpu
        gpu.driver.call("cuStreamBeginCapture_v2", gpu.stream, _CAPTURE_HERE)
        try:
            count = sum(launch(gpu, bound.launches, grids) for _ in range(k))
            after()
        except CudaError:
            abandoned = c_void_p()
            gpu.quietly("cuStreamEndCapture", gpu.stream, ctypes.byref(abandoned))
            if abandoned:
                gpu.quietly("cuGraphDestroy", abandoned)
            raise
        graph = c_void_p()
        gpu.driver.call("cuStreamEndCapture", gpu.stream, ctypes.byref(graph))
        try:
            made = gpu.driver.handle("cuGraphInstantiateWithFlags", graph, 0)
        finally:
            gpu.quietly("cuGraphDestroy", graph)
        self._counters.graphs += 1
        return made, count

    def destroy(self) -> None:
        """Give them back."""
        for graph, _ in self._made.values():
            self._gpu.quietly("cuGraphExecDestroy", graph)
        self._made = {}
