"""An opened adapter: a device with the limits and features that programs count on."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from edgewise_runtime.devices.wgpu.adapter import FEATURES, Adapter, package
from edgewise_runtime.errors import DeviceError, EdgewiseError

DEFAULT_LIMITS = {
    "max-bind-groups": 4,
    "max-bindings-per-bind-group": 1000,
    "max-storage-buffers-per-shader-stage": 8,
    "max-uniform-buffers-per-shader-stage": 12,
    "max-uniform-buffer-binding-size": 64 << 10,
    "max-compute-workgroup-storage-size": 16 << 10,
    "max-compute-invocations-per-workgroup": 256,
    "max-compute-workgroup-size-x": 256,
    "max-compute-workgroup-size-y": 256,
    "max-compute-workgroup-size-z": 64,
    "max-compute-workgroups-per-dimension": 65535,
    "min-storage-buffer-offset-alignment": 256,
    "min-uniform-buffer-offset-alignment": 256,
}
"""The limits of every WebGPU adapter that compute shaders meet
(https://www.w3.org/TR/webgpu/#limits): what programs are compiled for, and all they get."""

PROBE = """
@group(0) @binding(0) var<storage, read_write> sizes: array<u32>;
@compute @workgroup_size({threads})
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(subgroup_invocation_id) place: u32,
) {{
    let size = subgroupAdd(1u);
    let first = subgroupMin(thread);
    let linear = thread % size == place && thread - first == place;
    sizes[thread] = select(0u, size, linear);
}}
"""
"""Writes the size of each thread's subgroup, 0 where threads are not numbered in their order."""

PROBE_THREADS = (64, 256)

MAX_TEXT = 400
"""Characters of wgpu's messages that are quoted."""

_NOISE = re.compile(r"Validation Error|Caused by:|In wgpu\w+|[│┌═]|\d+ │")


class Gpu:
    """A device of an adapter: everything it has that programs can use, and nothing else.

    Attributes:
        api: the package ``wgpu``.
        device, queue: wgpu's objects.
        features: what programs may count on; ``subgroups`` only if they proved to be linear.
        pipelines: kernels compiled so far by text, entry point and access of their arguments.
        layouts: bind group layouts made so far by access of the arguments.
    """

    def __init__(self, adapter: Adapter) -> None:
        self.api = package()
        self.adapter = adapter
        self.pipelines: dict[tuple[str, str, tuple[str, ...]], Any] = {}
        self.layouts: dict[tuple[str, ...], Any] = {}
        limits = {
            **DEFAULT_LIMITS,
            "max-buffer-size": adapter.max_buffer,
            "max-storage-buffer-binding-size": adapter.max_binding,
        }
        wanted = sorted(name for name in adapter.handle.features if name in FEATURES)
        try:
            self.device = adapter.handle.request_device_sync(
                label="edgewise", required_features=wanted, required_limits=limits
            )
        except Exception as cause:
            raise DeviceError(
                f"{adapter} gives no device with WebGPU's default limits: {explain(cause)}.",
                remedy="Update its driver, or choose another adapter (edgewise doctor lists them).",
                code="device.adapter",
            ) from cause
        self.queue = self.device.queue
        linear = "subgroups" in adapter.features and self._linear_subgroups()
        self.features = adapter.features if linear else adapter.features - {"subgroups"}

    def lost(self) -> bool:
        """Whether the device is gone, and nothing can be done with it any more."""
        try:
            # What was finished and never submitted, wgpu-native keeps for ever.
            self.queue.submit([self.device.create_command_encoder().finish()])
        except Exception:
            return True
        return False

    @contextmanager
    def errors(self, what: str, remedy: str = "") -> Iterator[None]:
        """Turn what wgpu raises inside into a DeviceError that begins with `what`.

        Raises:
            DeviceError: ``device.memory``, ``device.lost``, or ``device.kernel`` for the rest.
        """
        try:
            yield
        except EdgewiseError:
            raise
        except Exception as cause:
            # wgpu raises errors of its own, and several built-in ones where a device is destroyed.
            text = explain(cause)
            if "memory" in text and ("Not enough" in text or "Out of" in text):
                code, remedy = "device.memory", remedy or "Close other programs on the GPU."
            elif self.lost():
                code = "device.lost"
                remedy = "Load the model again. If it happens again, update the GPU's driver."
            else:
                code = "device.kernel"
            raise DeviceError(f"{what}: {text}.", remedy=remedy, code=code) from cause

    def _linear_subgroups(self) -> bool:
        """Whether subgroups are what kernels take them for: 4 to 128 consecutive threads, in order.

        Shaders cannot ask for that, so one looks.
        """
        try:
            return all(self._probe(threads) for threads in PROBE_THREADS)
        except Exception:
            return False  # a driver that cannot even run the probe has none to offer

    def _probe(self, threads: int) -> bool:
        flags = self.api.BufferUsage
        code = PROBE.format(threads=threads)
        pipeline = self.device.create_compute_pipeline(
            layout="auto",
            compute={
                "module": self.device.create_shader_module(code=code),
                "entry_point": "main",
            },
        )
        sizes = self.device.create_buffer(size=4 * threads, usage=flags.STORAGE | flags.COPY_SRC)
        group = self.device.create_bind_group(
            layout=pipeline.get_bind_group_layout(0),
            entries=[{"binding": 0, "resource": {"buffer": sizes}}],
        )
        encoder = self.device.create_command_encoder()
        work = encoder.begin_compute_pass()
        work.set_pipeline(pipeline)
        work.set_bind_group(0, group)
        work.dispatch_workgroups(1)
        work.end()
        self.queue.submit([encoder.finish()])
        found = set(np.frombuffer(self.queue.read_buffer(sizes), np.uint32).tolist())
        sizes.destroy()
        size = found.pop()
        return not found and 4 <= size <= 128 and size & (size - 1) == 0


def explain(cause: BaseException) -> str:
    """What wgpu says went wrong, in a line, without where in wgpu and without quoted source."""
    lines = [line.strip() for line in str(cause).splitlines()]
    telling = [line for line in lines if line and not _NOISE.match(line)]
    return ": ".join(telling)[:MAX_TEXT].rstrip(".") or type(cause).__name__


_open: dict[tuple[int, int], Gpu] = {}


def open_gpu(adapter: Adapter) -> Gpu:
    """The process's device of an adapter: opened once, and once more after it was lost.

    Programs share it, and with it the kernels it has compiled; compiling them takes longer than
    loading a small model, and drivers do not give all of that memory back.
    """
    key = (os.getpid(), adapter.index)
    found = _open.get(key)
    if found is None or found.lost():
        found = _open[key] = Gpu(adapter)
    return found
