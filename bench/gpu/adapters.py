"""Adapters: which one to use, a device of it, and how fast it copies."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cache
from statistics import median
from typing import Any

import wgpu

KINDS = ("DiscreteGPU", "IntegratedGPU", "VirtualGPU", "Other", "CPU")
"""Kinds of adapters as wgpu names them, the best first."""

NATIVE = ("Vulkan", "Metal", "D3D12")
OPTIONAL = ("shader-f16", "subgroup", "timestamp-query")
LIMITS = (
    "max-buffer-size",
    "max-compute-invocations-per-workgroup",
    "max-compute-workgroup-storage-size",
    "max-storage-buffer-binding-size",
    "max-storage-buffers-per-shader-stage",
)

COPY_BYTES = 128 << 20
"""Source and target together should exceed any cache."""

SAMPLE_SECONDS = 0.2

_COPY = """
@group(0) @binding(0) var<storage, read> source: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> target_: array<vec4<f32>>;
@compute @workgroup_size(256, 1, 1)
fn copy(@builtin(global_invocation_id) id: vec3<u32>) {
  target_[id.x] = source[id.x];
}
"""

_READ = """
@group(0) @binding(0) var<storage, read> source: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> target_: array<vec4<f32>>;
@compute @workgroup_size(256, 1, 1)
fn copy(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_id) id: vec3<u32>) {
  var sum = vec4<f32>();
  for (var i = 0u; i < 16u; i++) { sum += source[(group.x * 16u + i) * 256u + id.x]; }
  if (sum.x == 1e30) { target_[group.x] = sum; }
}
"""


def native_adapters() -> list[Any]:
    """Every adapter with a driver of its own kind (no OpenGL), the best kind first."""
    found = [a for a in wgpu.gpu.enumerate_adapters_sync() if a.info["backend_type"] in NATIVE]
    return sorted(found, key=lambda adapter: KINDS.index(adapter.info["adapter_type"]))


def open_device(adapter: Any, wanted: Sequence[str] = OPTIONAL) -> Any:
    """A device with the wanted features that the adapter has, and its own limits on sizes."""
    features = [name for name in wanted if name in adapter.features]
    limits = {name: adapter.limits[name] for name in LIMITS if name in adapter.limits}
    return adapter.request_device_sync(required_features=features, required_limits=limits)


def finish(device: Any) -> None:
    """Wait until everything submitted is done, by reading four bytes after it."""
    device.queue.read_buffer(_marker(device))


@cache
def _marker(device: Any) -> Any:
    return device.create_buffer(size=4, usage=wgpu.BufferUsage.COPY_SRC)


def wall_seconds(device: Any, encode: Callable[[Any, int], None], rounds: int = 5) -> list[float]:
    """Seconds of one repetition, a sample a round, by the host's clock.

    Args:
        encode: given a command encoder and how often to repeat, records the repetitions.
    """

    def run(times: int) -> float:
        encoder = device.create_command_encoder()
        encode(encoder, times)
        commands = encoder.finish()
        finish(device)
        start = time.perf_counter()
        device.queue.submit([commands])
        finish(device)
        return time.perf_counter() - start

    run(1)
    empty = min(run(0) for _ in range(5))
    once = max(min(run(1) for _ in range(3)) - empty, 1e-6)
    times = max(1, min(4096, int(SAMPLE_SECONDS / once)))
    return [max(run(times) - empty, 0.0) / times for _ in range(rounds)]


def bandwidth(device: Any, size: int = COPY_BYTES, rounds: int = 5) -> dict[str, float]:
    """GB/s (1e9 bytes) of the device's memory, bytes read and bytes written both counted.

    ``copy_buffer`` is the driver's own copy, ``copy_shader`` one vector a thread, ``read_shader``
    reads alone; medians.
    """
    usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
    source, target = (device.create_buffer(size=size, usage=usage) for _ in range(2))

    def copy_buffer(encoder: Any, times: int) -> None:
        for _ in range(times):
            encoder.copy_buffer_to_buffer(source, 0, target, 0, size)

    def shader(code: str, groups: int) -> Callable[[Any, int], None]:
        pipeline = device.create_compute_pipeline(
            layout="auto",
            compute={"module": device.create_shader_module(code=code), "entry_point": "copy"},
        )
        group = bind(device, pipeline, [source, target])

        def encode(encoder: Any, times: int) -> None:
            work = encoder.begin_compute_pass()
            work.set_pipeline(pipeline)
            work.set_bind_group(0, group)
            for _ in range(times):
                work.dispatch_workgroups(groups)
            work.end()

        return encode

    vectors = size // 16 // 256
    moved = {
        "copy_buffer": (2 * size, copy_buffer),
        "copy_shader": (2 * size, shader(_COPY, vectors)),
        "read_shader": (size, shader(_READ, vectors // 16)),
    }
    return {
        name: round(count / median(wall_seconds(device, encode, rounds)) / 1e9, 2)
        for name, (count, encode) in moved.items()
    }


def bind(device: Any, pipeline: Any, buffers: Sequence[Any]) -> Any:
    """The bind group of whole buffers, in the order of their bindings."""
    entries = [
        {"binding": i, "resource": {"buffer": b, "offset": 0, "size": b.size}}
        for i, b in enumerate(buffers)
    ]
    return device.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=entries)
