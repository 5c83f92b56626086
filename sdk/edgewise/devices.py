"""Which device runs a bundle, and how much of its memory a program gets."""

from __future__ import annotations

from edgewise_runtime.devices.base import Device, LoadedProgram
from edgewise_runtime.devices.common import choose
from edgewise_runtime.devices.table import DEVICES, device_for_target, named_device
from edgewise_runtime.engine.prove import prove
from edgewise_runtime.errors import DeviceError
from edgewise_runtime.format.bundle import Bundle, Progress
from edgewise_runtime.format.proof import read_proof
from edgewise_runtime.format.state import footprint
from edgewise_runtime.format.targets import TARGETS, is_native
from edgewise_runtime.kv.budget import LEAST_CONTEXT, pool_pages
from edgewise_runtime.trust import Trust


def target_for(device: Device | None, program: str | None) -> str | None:
    """The target that a checkpoint is to be compiled for: the device's, or else the program's,
    whose id begins with it; None where neither is asked for."""
    if device is not None:
        return device.target
    return next((name for name in TARGETS if program and program.startswith(f"{name}-")), None)


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
            first kind in the table that the bundle has a program for, which begins with the CPU.
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
    has = {p.target for p in bundle.manifest.programs}
    targets = [kind.target for kind in DEVICES.values()]
    fitting = (target for target in targets if target in has)
    return device_for_target(next(fitting, targets[0]), threads=threads)


def load_program(
    bundle: Bundle,
    device: Device,
    program: str | None,
    *,
    context: int | None,
    beside: int = 0,
    trust: Trust = False,
    progress: Progress | None = None,
) -> tuple[LoadedProgram, int]:
    """Load a program with KV pages for as many sequences of `context` tokens as fit.

    Args:
        program: its id; None for the best for the device.
        context: tokens of a sequence; None for as many as the bundle allows and memory has room
            for, which may be pages for fewer than one such sequence.
        beside: bytes of pages more than those need.

    Returns:
        The program, and how many pages it has.

    Raises:
        EdgewiseError: as `Device.load` does.
    """
    chosen = choose(bundle, program, device.features(), device.target, device.name)
    most = bundle.model.context if context is None else context
    shortest = min(most, LEAST_CONTEXT) if context is None else context
    least = footprint(bundle.manifest).pages(shortest)
    pages = pool_pages(
        bundle,
        chosen,
        most,
        device.available_memory(),
        device.largest_buffer(),
        beside,
        least=shortest,
    )
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
            continue
        try:
            _prove(loaded, pages)
        except BaseException:
            loaded.close()
            raise
        return loaded, pages


def _prove(program: LoadedProgram, pages: int) -> None:
    """Where a driver compiles the kernels, see that it got them right."""
    proof = None if is_native(program.program.target) else read_proof(program.bundle)
    if proof is not None:
        prove(program, proof, pages)
