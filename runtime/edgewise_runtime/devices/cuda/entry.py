"""NVIDIA's GPUs for the table of devices, see `table.Entry`."""

from __future__ import annotations

from edgewise_runtime.devices.cuda.device import CudaDevice
from edgewise_runtime.devices.cuda.gpu import Card, cards
from edgewise_runtime.devices.table import Found


def make(index: int | None, threads: int | None) -> CudaDevice:
    """The GPU with an index."""
    return CudaDevice(index)


def find() -> list[Found]:
    """Every GPU.

    Raises:
        DeviceError: ``device.driver``, ``device.adapter``.
    """
    return [_found(card) for card in cards()]


def _found(card: Card) -> Found:
    about = f"{card}, driver {card.driver}"
    return Found(
        f"cuda:{card.index}", about, CudaDevice(card.index).features(), {"memory": card.memory}
    )
