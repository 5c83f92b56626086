"""WebGPU adapters for the table of devices, see `table.Entry`."""

from __future__ import annotations

from edgewise_runtime.devices.table import Found
from edgewise_runtime.devices.wgpu.adapter import Adapter, some_adapters
from edgewise_runtime.devices.wgpu.device import WgpuDevice
from edgewise_runtime.errors import DeviceError


def make(index: int | None, threads: int | None) -> WgpuDevice:
    """The adapter with an index."""
    return WgpuDevice(index)


def find() -> list[Found]:
    """Every adapter.

    Raises:
        DeviceError: ``device.wgpu``, ``device.adapter``.
    """
    return [_found(adapter) for adapter in some_adapters()]


def _found(adapter: Adapter) -> Found:
    name = f"wgpu:{adapter.index}"
    about = f"{adapter}, driver {adapter.driver}" if adapter.driver else str(adapter)
    try:
        features = WgpuDevice(adapter.index).features()
    except DeviceError as error:
        return Found(name, about, trouble=error.said)
    limits = {"buffers up to": adapter.max_buffer, "bound up to": adapter.max_binding}
    return Found(name, about, features, limits)
