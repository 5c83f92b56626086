"""Which device runs a program: by its name, by the program's target, or what a bundle is for."""

from __future__ import annotations

from edgewise_runtime.devices.base import Device, LoadedProgram
from edgewise_runtime.devices.common import choose
from edgewise_runtime.devices.cpu.device import CpuDevice
from edgewise_runtime.devices.wgpu.device import WgpuDevice
from edgewise_runtime.errors import DeviceError, InputError
from edgewise_runtime.format.bundle import Bundle, Progress
from edgewise_runtime.format.state import paged_state, pages_for
from edgewise_runtime.kv.budget import pool_pages

FORMS = "cpu, wgpu (the best GPU) or wgpu:N (`edgewise doctor` lists them)"


def named_device(name: str, *, threads: int | None = None) -> Device:
    """The device that ``cpu``, ``wgpu`` or ``wgpu:N`` means.

    Raises:
        InputError: ``input.device`` for another name.
        DeviceError: it cannot be had, see `WgpuDevice` and `CpuDevice`.
    """
    kind, colon, index = name.partition(":")
    if kind == "cpu" and not colon:
        return CpuDevice(threads)
    if kind == "wgpu" and (index.isdecimal() if colon else True):
        return WgpuDevice(int(index) if colon else None)
    raise InputError(
        f"There is no device {name!r}.", remedy=f"Devices are {FORMS}.", code="input.device"
    )


def device_for_target(target: str, *, threads: int | None = None) -> Device:
    """The best device for programs of a target.

    Raises:
        InputError: ``input.device`` for a target nothing here runs.
        DeviceError: it cannot be had.
    """
    if target == "webgpu":
        return WgpuDevice()
    if target == "cpu":
        return CpuDevice(threads)
    raise InputError(
        f"Nothing here runs programs for {target}.",
        remedy="Targets that run here are cpu and webgpu.",
        code="input.device",
    )


def device_for(
    bundle: Bundle,
    device: Device | str | None = None,
    program: str | None = None,
    *,
    threads: int | None = None,
) -> Device:
    """The device to run a bundle on.

    Args:
        device: a device or its name; None for the one that `program` is for, or without that the
            CPU if the bundle has a program for it, else the best GPU.
        program: id of the program that is wanted.
        threads: of the CPU.

    Raises:
        InputError: ``input.device``.
        DeviceError: it cannot be had.
        BundleError: ``bundle.unknown_name`` for a program the bundle does not have.
    """
    if isinstance(device, str):
        return named_device(device, threads=threads)
    if device is not None:
        return device
    if program is not None:
        return device_for_target(bundle.manifest.program(program).target, threads=threads)
    targets = {p.target for p in bundle.manifest.programs}
    only_gpu = "webgpu" in targets and "cpu" not in targets
    return device_for_target("webgpu" if only_gpu else "cpu", threads=threads)


def load_program(
    bundle: Bundle,
    device: Device,
    program: str | None,
    *,
    context: int,
    trust: bool = False,
    progress: Progress | None = None,
) -> tuple[LoadedProgram, int]:
    """Load a program with KV pages for as many sequences of `context` tokens as fit.

    Args:
        program: its id; None for the best for the device.

    Returns:
        The program, and how many pages it has.

    Raises:
        EdgewiseError: as `Device.load` does.
    """
    chosen = choose(bundle, program, device.features(), device.target, device.name)
    least = pages_for(context, paged_state(bundle.manifest).page_tokens)
    pages = pool_pages(bundle, chosen, context, device.available_memory(), device.largest_buffer())
    while True:
        symbols = {"pages": pages}
        try:
            loaded = device.load(
                bundle, chosen, load_symbols=symbols, trust=trust, progress=progress
            )
        except DeviceError as error:
            # GPUs do not tell what they have left: one can only try.
            if error.code != "device.memory" or pages == least:
                raise
            pages = max(least, pages // 2)
        else:
            return loaded, pages
