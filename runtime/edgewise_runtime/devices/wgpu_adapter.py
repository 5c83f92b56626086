"""WebGPU adapters of this machine, by wgpu-native: which there are and what programs get from them.

Everything about the package ``wgpu`` that is not about buffers and launches is here. It is
imported when a device is made, not before.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgewise_runtime.errors import DeviceError, EdgewiseError

BACKENDS = ("Metal", "Vulkan", "D3D12")
"""Ways to reach an adapter, the preferred first where one shows up in several."""

KINDS = {"DiscreteGPU": "discrete", "IntegratedGPU": "integrated", "Unknown": "virtual"}
"""Kinds of adapters, the preferred first; all others are processors that play a GPU."""

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

FEATURES = {"shader-f16": "shader-f16", "subgroup": "subgroups", "subgroups": "subgroups"}
"""What programs may need, by the names that wgpu-native gives it."""

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

LAST_LINES, MAX_TEXT = 3, 400
"""How much of wgpu's messages is quoted: lines and characters."""


@dataclass(frozen=True)
class Adapter:
    """One adapter. `index` is what people choose it by; the best one has 0.

    Attributes:
        kind: ``discrete``, ``integrated``, ``virtual`` or ``cpu`` (a driver that needs no GPU).
        backend: ``Metal``, ``Vulkan`` or ``D3D12``.
        features: what it says it has, by the names programs use.
        max_buffer: bytes of a buffer at most.
        max_binding: bytes of a buffer that a shader can see at most.
        handle: wgpu's object.
    """

    index: int
    name: str
    kind: str
    backend: str
    driver: str
    features: frozenset[str]
    max_buffer: int
    max_binding: int
    handle: Any

    def __str__(self) -> str:
        return f"{self.name} ({self.kind}, {self.backend})"


def package() -> Any:
    """The package ``wgpu``.

    Raises:
        DeviceError: ``device.wgpu`` where it is not installed, or its library does not load.
    """
    try:
        return importlib.import_module("wgpu")
    except ModuleNotFoundError as cause:
        message = f"Running WebGPU programs needs the package {cause.name!r}."
        remedy = "Install it: pip install edgewise[wgpu]."
        raise DeviceError(message, remedy=remedy, code="device.wgpu") from cause
    except (ImportError, OSError, RuntimeError) as cause:
        message = f"The package wgpu does not load: {cause}."
        remedy = "Install it anew: pip install --force-reinstall edgewise[wgpu]."
        raise DeviceError(message, remedy=remedy, code="device.wgpu") from cause


def adapters() -> tuple[Adapter, ...]:
    """The adapters of this machine, the best first, each once.

    Raises:
        DeviceError: ``device.wgpu``.
    """
    found = [a for a in package().gpu.enumerate_adapters_sync() if _backend(a) in BACKENDS]
    best: dict[tuple[int, int, str], str] = {}
    for name in BACKENDS:
        for adapter in found:
            if _backend(adapter) == name:
                best.setdefault(_identity(adapter), name)
    once = [adapter for adapter in found if _backend(adapter) == best[_identity(adapter)]]
    kinds = list(KINDS)
    once.sort(key=lambda a: kinds.index(_type(a)) if _type(a) in kinds else len(kinds))
    return tuple(_adapter(index, adapter) for index, adapter in enumerate(once))


def _backend(handle: Any) -> str:
    return str(handle.info["backend_type"])


def _type(handle: Any) -> str:
    return str(handle.info["adapter_type"])


def _identity(handle: Any) -> tuple[int, int, str]:
    """What an adapter is called alike by every backend. Two equal cards share it."""
    info = handle.info
    return info["vendor_id"], info["device_id"], "" if info["device_id"] else info["device"]


def _adapter(index: int, handle: Any) -> Adapter:
    info, limits = handle.info, handle.limits
    driver = " ".join(part for part in (info["vendor"], info["description"]) if part)
    return Adapter(
        index=index,
        name=info["device"] or info["description"] or "unnamed adapter",
        kind=KINDS.get(info["adapter_type"], "cpu"),
        backend=info["backend_type"],
        driver=driver,
        features=frozenset(FEATURES[name] for name in handle.features if name in FEATURES),
        max_buffer=limits["max-buffer-size"] & ~3,
        max_binding=limits["max-storage-buffer-binding-size"] & ~3,
        handle=handle,
    )


def choose_adapter(index: int | None) -> Adapter:
    """The adapter with an index, None for the best.

    Raises:
        DeviceError: ``device.adapter`` where there is none, listing those there are.
    """
    found = adapters()
    if not found:
        raise DeviceError(
            "This machine has no Vulkan, Metal or Direct3D 12 adapter.",
            remedy="Install the GPU's driver, or a software one such as Mesa's lavapipe "
            "(apt install mesa-vulkan-drivers).",
            code="device.adapter",
        )
    chosen = 0 if index is None else index
    if isinstance(chosen, bool) or not isinstance(chosen, int) or not 0 <= chosen < len(found):
        listed = "; ".join(f"{adapter.index} is {adapter}" for adapter in found)
        raise DeviceError(
            f"There is no WebGPU adapter {index!r}.",
            remedy=f"Adapters: {listed}.",
            code="device.adapter",
        )
    return found[chosen]


class Gpu:
    """A device of an adapter: everything it has that programs can use, and nothing else.

    Attributes:
        api: the package ``wgpu``.
        device, queue: wgpu's objects.
        features: what programs may count on; ``subgroups`` only if they proved to be linear.
    """

    def __init__(self, adapter: Adapter) -> None:
        self.api = package()
        self.adapter = adapter
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
            self.device.create_command_encoder().finish()
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
    """What wgpu says went wrong, in a line: the last of its tree of causes."""
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    text = " ".join(lines[-LAST_LINES:]) or type(cause).__name__
    return text[-MAX_TEXT:].rstrip(".")
