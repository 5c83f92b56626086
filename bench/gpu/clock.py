"""What takes how long on a GPU: its own clock where it has one, the host's around a submission."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from importlib import import_module
from statistics import median
from typing import Any

import numpy as np

from edgewise_runtime.devices.wgpu.adapter import FEATURES, Adapter
from edgewise_runtime.devices.wgpu.gpu import DEFAULT_LIMITS, Gpu

TIMESTAMPS = "timestamp-query"

COPY_BYTES = 128 << 20
"""Source and target together exceed the caches of most devices."""

SAMPLE_SECONDS = 0.2
"""A sample by the host's clock repeats its work until it takes about so long."""

_COPY = """
@group(0) @binding(0) var<storage, read> source: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> copied: array<vec4<f32>>;
@compute @workgroup_size(256, 1, 1)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  copied[id.x] = source[id.x];
}
"""

_READ = """
@group(0) @binding(0) var<storage, read> source: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> found: array<vec4<f32>>;
@compute @workgroup_size(256, 1, 1)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_id) id: vec3<u32>) {
  var sum = vec4<f32>();
  for (var i = 0u; i < 16u; i++) { sum += source[(group.x * 16u + i) * 256u + id.x]; }
  if (sum.x == 1e30) { found[group.x] = sum; }
}
"""


class TimedGpu(Gpu):
    """A `Gpu` whose device also has timestamps, where the adapter offers them."""

    def __init__(self, adapter: Adapter) -> None:
        super().__init__(adapter)
        self.timestamps = TIMESTAMPS in adapter.handle.features
        if not self.timestamps:
            return
        limits = {
            **DEFAULT_LIMITS,
            "max-buffer-size": adapter.max_buffer,
            "max-storage-buffer-binding-size": adapter.max_binding,
        }
        wanted = [name for name in adapter.handle.features if name in FEATURES]
        self.device = adapter.handle.request_device_sync(
            required_features=[*wanted, TIMESTAMPS], required_limits=limits
        )
        self.queue = self.device.queue


class Clock:
    """Times work on a GPU."""

    def __init__(self, gpu: TimedGpu) -> None:
        usage = gpu.api.BufferUsage
        self._gpu = gpu
        self._marker = gpu.device.create_buffer(size=4, usage=usage.COPY_SRC)
        if gpu.timestamps:
            self._queries = gpu.device.create_query_set(type="timestamp", count=2)
            flags = usage.QUERY_RESOLVE | usage.COPY_SRC
            self._ticks = gpu.device.create_buffer(size=16, usage=flags)
            self._tick = _tick_seconds(gpu)

    @property
    def source(self) -> str:
        """Whose clock times passes."""
        return "timestamps" if self._gpu.timestamps else "host"

    def pass_seconds(self, record: Callable[[Any, int], None], rounds: int) -> list[float]:
        """Seconds of a compute pass, a sample a round; the first of all is a warm-up's.

        Args:
            record: given a compute pass and how often to repeat its work in it.
        """
        if self._gpu.timestamps:
            return [self._stamped(record) for _ in range(rounds)]

        def encode(encoder: Any, times: int) -> None:
            work = encoder.begin_compute_pass()
            record(work, times)
            work.end()

        return self.wall_seconds(encode, rounds)

    def wall_seconds(self, encode: Callable[[Any, int], None], rounds: int) -> list[float]:
        """Seconds by the host's clock, less those of an empty submission, a sample a round.

        Args:
            encode: given a command encoder and how often to repeat its work in it.
        """
        self._submit(encode, 1)
        empty = min(self._submit(encode, 0) for _ in range(5))
        once = max(min(self._submit(encode, 1) for _ in range(2)) - empty, 1e-6)
        times = max(1, min(4096, int(SAMPLE_SECONDS / once)))
        return [max(self._submit(encode, times) - empty, 1e-9) / times for _ in range(rounds)]

    def finish(self) -> None:
        """Wait until everything submitted is done, by reading four bytes after it."""
        self._gpu.queue.read_buffer(self._marker)

    def _submit(self, encode: Callable[[Any, int], None], times: int) -> float:
        encoder = self._gpu.device.create_command_encoder()
        encode(encoder, times)
        commands = encoder.finish()
        self.finish()
        start = time.perf_counter()
        self._gpu.queue.submit([commands])
        self.finish()
        return time.perf_counter() - start

    def _stamped(self, record: Callable[[Any, int], None]) -> float:
        encoder = self._gpu.device.create_command_encoder()
        work = encoder.begin_compute_pass(
            timestamp_writes={
                "query_set": self._queries,
                "beginning_of_pass_write_index": 0,
                "end_of_pass_write_index": 1,
            }
        )
        record(work, 1)
        work.end()
        encoder.resolve_query_set(self._queries, 0, 2, self._ticks, 0)
        self._gpu.queue.submit([encoder.finish()])
        raw = np.frombuffer(self._gpu.queue.read_buffer(self._ticks), np.uint64)
        begin, end = (int(tick) for tick in raw)
        return max(end - begin, 1) * self._tick


def _tick_seconds(gpu: Gpu) -> float:
    """Seconds of one timestamp: wgpu-native leaves them in the device's own unit."""
    native = import_module("wgpu.backends.wgpu_native")
    return float(native.lib.wgpuQueueGetTimestampPeriod(gpu.queue._internal)) / 1e9


def bandwidth(gpu: TimedGpu, rounds: int, size: int = COPY_BYTES) -> dict[str, float]:
    """GB/s (1e9 bytes) of the device's memory; bytes read and bytes written both count; medians.

    ``copy_buffer`` is the driver's own copy, ``copy_shader`` moves one vector a thread,
    ``read_shader`` reads alone.
    """
    clock, device = Clock(gpu), gpu.device
    flags = gpu.api.BufferUsage
    usage = flags.STORAGE | flags.COPY_SRC | flags.COPY_DST
    source, target = (device.create_buffer(size=size, usage=usage) for _ in range(2))

    def copy_buffer(encoder: Any, times: int) -> None:
        for _ in range(times):
            encoder.copy_buffer_to_buffer(source, 0, target, 0, size)

    def shader(code: str, groups: int) -> Callable[[Any, int], None]:
        pipeline = compute_pipeline(device, code, "main")
        group = bind(device, pipeline, [source, target])

        def encode(encoder: Any, times: int) -> None:
            work = encoder.begin_compute_pass()
            work.set_pipeline(pipeline)
            work.set_bind_group(0, group)
            for _ in range(times):
                work.dispatch_workgroups(groups)
            work.end()

        return encode

    groups = size // 16 // 256
    moved = {
        "copy_buffer": (2 * size, copy_buffer),
        "copy_shader": (2 * size, shader(_COPY, groups)),
        "read_shader": (size, shader(_READ, groups // 16)),
    }
    found = {
        name: round(count / median(clock.wall_seconds(encode, rounds)) / 1e9, 2)
        for name, (count, encode) in moved.items()
    }
    source.destroy()
    target.destroy()
    return found


def compute_pipeline(device: Any, source: str, entry: str) -> Any:
    """A pipeline of one shader, its layout taken from the shader."""
    module = device.create_shader_module(code=source)
    return device.create_compute_pipeline(
        layout="auto", compute={"module": module, "entry_point": entry}
    )


def bind(device: Any, pipeline: Any, buffers: Sequence[Any]) -> Any:
    """The bind group of whole buffers, in the order of their bindings."""
    entries = [
        {"binding": i, "resource": {"buffer": b, "offset": 0, "size": b.size}}
        for i, b in enumerate(buffers)
    ]
    return device.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=entries)
