"""CUDA programs timed: launches, steps as graphs, copies, and recorded calls, by CudaDevice."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from ctypes import byref, c_float, c_uint64, c_void_p
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from edgewise_runtime.devices.cuda.binding import Graphs, Launch, launch
from edgewise_runtime.devices.cuda.device import CudaDevice, CudaProgram
from edgewise_runtime.devices.cuda.gpu import Gpu, open_gpu
from edgewise_runtime.devices.cuda.memory import to_device, to_host
from edgewise_runtime.devices.grids import Grid
from edgewise_runtime.devices.loading import Checked
from edgewise_runtime.format.fatbin import read_images, read_uses
from gpu.kernels import LEAST_SECONDS, MOST_LAUNCHES, KernelTime, Work, kernel_times, write_step
from gpu.kernels import plan_of as plan_for
from gpu.recording import Array, Call, load_call
from gpu.replay import Outcome, judged

COPY_BYTES = 1 << 30
"""Source and target are far larger than the caches of any GPU."""

MATMUL = 4096
"""Rows and columns of the square matrices whose product is timed."""


class Stopwatch:
    """Times what a GPU's stream does, by two of its events."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self._begin, self._end = (gpu.driver.handle("cuEventCreate", 0) for _ in range(2))

    def seconds(self, work: Callable[[], object]) -> float:
        """Seconds that the GPU takes for what ``work`` asks of it."""
        driver, stream = self._gpu.driver, self._gpu.stream
        driver.call("cuEventRecord", self._begin, stream)
        work()
        driver.call("cuEventRecord", self._end, stream)
        driver.call("cuEventSynchronize", self._end)
        milliseconds = c_float()
        driver.call("cuEventElapsedTime", byref(milliseconds), self._begin, self._end)
        return max(milliseconds.value / 1e3, 1e-9)


class TimedCuda(CudaDevice):
    """A GPU whose programs can be timed."""

    def bind(self, checked: Checked) -> TimedCudaProgram:
        return TimedCudaProgram(open_gpu(self.card), checked)


class TimedCudaProgram(CudaProgram):
    """A program whose launches can be made in any order, and timed."""

    clock_source = "events"

    def kernel_times(self, work: Work, rounds: int) -> list[KernelTime]:
        """Every kernel of a step's plan, in the order of first use."""
        plan = plan_for(self, work)
        bound = self._bound[plan.name]
        write_step(self, work)
        grids = bound.grids.at(tuple(self._step))

        def seconds_of_one(launches: Sequence[Launch]) -> list[float]:
            write_step(self, work)
            return self._seconds_of_one(launches, grids, rounds)

        return kernel_times(plan, work, bound.launches, seconds_of_one)

    def device_seconds(self, work: Work, rounds: int) -> list[float]:
        """Seconds of a whole step as a graph on the device, a sample a round."""
        bound = self._bound[plan_for(self, work).name]
        write_step(self, work)
        grids = bound.grids.at(tuple(self._step))
        graphs = Graphs(self._gpu, self.counters)
        with self._gpu.errors("Timing a step"):
            watch = Stopwatch(self._gpu)

            def once() -> None:
                graphs.launch(bound, 1, grids, lambda: None)

            once()
            found = [watch.seconds(once) for _ in range(rounds)]
            self._gpu.wait()
            graphs.destroy()
        return found

    def encode_seconds(self, work: Work, k: int, rounds: int) -> list[float]:
        """CPU seconds of this thread to hand a step over, a sample a round.

        Args:
            k: how often the step is repeated; seconds are of one repetition.
        """
        plan = plan_for(self, work)
        write_step(self, work)
        found = []
        for _ in range(rounds + 1):
            with self._gpu.errors("Timing a step"):
                self._gpu.wait()
            write_step(self, work)
            start = time.thread_time()
            self._run(self._bound[plan.name], k)
            found.append((time.thread_time() - start) / k)
        return found[1:]

    def _seconds_of_one(
        self, launches: Sequence[Launch], grids: tuple[Grid, ...], rounds: int
    ) -> list[float]:
        with self._gpu.errors("Timing kernels"):
            watch = Stopwatch(self._gpu)

            def sample(count: int) -> float:
                some = [launches[i % len(launches)] for i in range(count)]
                return watch.seconds(lambda: launch(self._gpu, some, grids)) / count

            sample(len(launches))
            few = sample(len(launches))
            count = min(MOST_LAUNCHES, max(len(launches), int(LEAST_SECONDS / few)))
            return [few] if rounds == 1 else [sample(count) for _ in range(rounds)]


def bandwidth(device: CudaDevice, rounds: int, size: int = COPY_BYTES) -> dict[str, float]:
    """GB/s (1e9 bytes) of the GPU's memory by the driver's own copy, whose bytes read and bytes
    written both count; and of torch's matrix product, TFLOP/s, where torch can use the GPU."""
    gpu = open_gpu(device.card)
    with gpu.errors("Copying"), ExitStack() as stack:
        source, target = (_taken(stack, gpu, size) for _ in range(2))
        watch, copy = Stopwatch(gpu), "cuMemcpyDtoDAsync_v2"

        def once() -> None:
            gpu.driver.call(copy, target, source, size, gpu.stream)

        once()
        seconds = [watch.seconds(once) for _ in range(rounds)]
    found = {"copy_buffer": round(2 * size / median(seconds) / 1e9, 2)}
    return found | matmul_rate(rounds)


def matmul_rate(rounds: int) -> dict[str, float]:
    """TFLOP/s of torch's product of float16 matrices; nothing where torch has no GPU."""
    try:
        torch = import_module("torch")
    except ImportError:
        return {}
    if not torch.cuda.is_available():
        return {}
    a, b = (torch.randn(MATMUL, MATMUL, dtype=torch.float16, device="cuda") for _ in range(2))
    seconds = []
    for _ in range(rounds + 1):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(10):
            torch.matmul(a, b)
        end.record()
        end.synchronize()
        seconds.append(begin.elapsed_time(end) / 1e4)
    return {"torch_matmul_tflops": round(2 * MATMUL**3 / median(seconds[1:]) / 1e12, 1)}


def _taken(stack: ExitStack, gpu: Gpu, size: int) -> int:
    """Memory of the GPU until the stack ends."""
    base = c_uint64()
    gpu.driver.call("cuMemAlloc_v2", byref(base), max(size, 1))
    stack.callback(gpu.quietly, "cuMemFree_v2", base.value)
    return base.value


def replay_all(device: CudaDevice, paths: Iterable[Path]) -> Iterator[Outcome]:
    """Every recorded call that has a fatbin."""
    gpu = open_gpu(device.card)
    for path in paths:
        call = load_call(path)
        if call.fatbin:
            yield judged(call, lambda call=call: run_call(gpu, call))  # type: ignore[misc]


def run_call(gpu: Gpu, call: Call) -> dict[int, Array]:
    """The arguments that a call may write, afterwards."""
    images = read_images(call.kernel, call.fatbin)
    cubins = [image for image in images if image.kind == "cubin"]
    threads = read_uses(call.kernel, cubins[0])[call.fatbin_entry].threads
    with gpu.errors(call.kernel), ExitStack() as stack:
        module = gpu.driver.handle("cuModuleLoadData", call.fatbin)
        stack.callback(gpu.quietly, "cuModuleUnload", module)
        function = gpu.driver.handle("cuModuleGetFunction", module, call.fatbin_entry.encode())
        addresses = [_taken(stack, gpu, array.nbytes) for array in call.before]
        for address, array in zip(addresses, call.before, strict=True):
            to_device(gpu, address, np.ascontiguousarray(array).reshape(-1))
        values = [c_uint64(address) for address in addresses]
        pointers: Any = (c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        shape = (*call.grid, 1, *threads)
        gpu.driver.call("cuLaunchKernel", function, *shape, 0, gpu.stream, pointers, None)
        after = {}
        for i, expected in call.after.items():
            data = to_host(gpu, addresses[i], expected.nbytes)
            after[i] = data.view(expected.dtype).reshape(expected.shape)
        return after
