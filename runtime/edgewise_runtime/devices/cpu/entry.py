"""The CPU for the table of devices, see `table.Entry`."""

from __future__ import annotations

from edgewise_runtime.cpuid import cpu_arch, cpu_features, cpu_name, default_threads
from edgewise_runtime.devices.cpu.device import CpuDevice
from edgewise_runtime.devices.cpu.tvm_library import runtime_path
from edgewise_runtime.devices.table import Found
from edgewise_runtime.errors import DeviceError


def make(index: int | None, threads: int | None) -> CpuDevice:
    """The CPU; there is only one."""
    return CpuDevice(threads)


def find() -> list[Found]:
    """The CPU."""
    about = f"{cpu_name()}, {cpu_arch()}, {default_threads()} threads"
    try:
        runtime_path()
    except DeviceError as error:
        return [Found("cpu", about, trouble=error.said)]
    return [Found("cpu", about, cpu_features())]
