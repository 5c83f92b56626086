"""Vulkan's devices for the table of devices, see `table.Entry`."""

from __future__ import annotations

from edgewise_runtime.devices.table import Found
from edgewise_runtime.devices.vulkan.adapter import Adapter, some_adapters
from edgewise_runtime.devices.vulkan.device import VulkanDevice
from edgewise_runtime.errors import DeviceError


def make(index: int | None, threads: int | None) -> VulkanDevice:
    """The device with an index."""
    return VulkanDevice(index)


def find() -> list[Found]:
    """Every device.

    Raises:
        DeviceError: ``device.vulkan``, ``device.adapter``.
    """
    return [_found(adapter) for adapter in some_adapters()]


def _found(adapter: Adapter) -> Found:
    name = f"vulkan:{adapter.index}"
    about = f"{adapter}, driver {adapter.driver}"
    try:
        features = VulkanDevice(adapter.index).features()
    except DeviceError as error:
        return Found(name, about, trouble=error.said)
    limits = {
        "bound up to": adapter.limits.binding,
        "allocated up to": adapter.limits.allocation,
    }
    return Found(name, about, features, limits)
