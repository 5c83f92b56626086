"""What every device does the same way: choosing a program, sizes, and what calls it refuses."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from edgewise_runtime.devices.base import Array
from edgewise_runtime.errors import DeviceError
from edgewise_runtime.format import expr as ex
from edgewise_runtime.format.bundle import Bundle, choose_program
from edgewise_runtime.format.manifest import Program
from edgewise_runtime.format.plan import ROLES, Buffer, Plan, check_extents
from edgewise_runtime.format.reading import shorten


def choose(
    bundle: Bundle, program: Program | str | None, features: frozenset[str], target: str, here: str
) -> Program:
    """The program asked for if a device can run it, or the best one it can.

    Args:
        program: which one, or its id; None for the best.
        features: what the device has.
        here: the device in a sentence, such as ``this CPU``.

    Raises:
        DeviceError: ``device.no_program`` with what is missing.
        BundleError: ``bundle.unknown_name``.
    """
    if not any(p.target == target for p in bundle.manifest.programs):
        has = ", ".join(p.id for p in bundle.manifest.programs)
        raise DeviceError(
            f"Bundle {bundle.name!r} has no {target} program; it has {has or 'none at all'}.",
            remedy=f"`edgewise compile MODEL --target {target} -o {bundle.path}` adds one.",
            code="device.no_program",
        )
    if program is None:
        return choose_program(bundle, features, target=target)
    chosen = bundle.manifest.program(program if isinstance(program, str) else program.id)
    missing = chosen.needs.missing(features)
    if chosen.target != target or missing:
        lacking = ", ".join(missing) or f"the target {chosen.target}"
        raise DeviceError(
            f"Program {chosen.id!r} needs {lacking}, which {here} does not have.",
            remedy="Leave the choice to the device, or compile the model on this machine.",
            code="device.no_program",
        )
    return chosen


def buffer_sizes(plans: Mapping[str, Plan], load_symbols: Mapping[str, int]) -> dict[str, int]:
    """Bytes of every buffer of a program by name; scratch is as large as any plan needs.

    Raises:
        PlanError: load symbols that are missing or out of range, or with which a launch would
            leave its buffers.
    """
    sizes: dict[str, int] = {}
    for plan in plans.values():
        load = plan.resolve(load_symbols)
        check_extents(plan, load)
        for buffer in plan.buffers:
            size = ex.evaluate(buffer.bytes, load)
            sizes[buffer.name] = max(size, sizes.get(buffer.name, 0))
    return sizes


def count_bytes(plans: Mapping[str, Plan], sizes: Mapping[str, int]) -> dict[str, int]:
    """Bytes per role; a buffer several plans name counts once."""
    roles = {buffer.name: buffer.role for plan in plans.values() for buffer in plan.buffers}
    per_role = dict.fromkeys(ROLES, 0)
    for name, role in roles.items():
        per_role[role] += sizes[name]
    return per_role


def find_plan(program: Program, plans: Mapping[str, Plan], name: str, k: int = 1) -> Plan:
    """A plan by name, if it may run `k` times a call.

    Raises:
        DeviceError: ``device.plan``.
    """
    plan = plans.get(name)
    if plan is None:
        known = ", ".join(plans)
        message = f"Program {program.id!r} has no plan {shorten(name)}; it has {known}."
        raise DeviceError(message, code="device.plan")
    if not 1 <= k <= plan.max_burst:
        message = f"Plan {name!r} runs 1..{plan.max_burst} times a call, not {shorten(k)}."
        raise DeviceError(message, code="device.plan")
    return plan


def find_buffer(buffers: Mapping[str, Buffer], name: str) -> Buffer:
    """A buffer by name that the host may look at.

    Raises:
        DeviceError: ``device.buffer``.
    """
    buffer = buffers.get(name)
    if buffer is None or buffer.role == "scratch":
        what = "no buffer of this program" if buffer is None else "scratch"
        raise buffer_error(f"{shorten(name)} is {what}.")
    return buffer


def check_write(buffer: Buffer, size: int, values: Array, offset_elems: int) -> None:
    """Refuse what cannot be written to a buffer of `size` elements.

    Raises:
        DeviceError: ``device.buffer``.
    """
    if buffer.role == "param":
        raise buffer_error(f"The parameter {buffer.name!r} cannot be written.")
    if values.dtype != buffer.dtype:
        raise buffer_error(f"{buffer.name!r} is {buffer.dtype}, not {values.dtype}.")
    end = offset_elems + values.size
    if not 0 <= offset_elems <= end <= size:
        raise buffer_error(
            f"Elements {offset_elems}..{end} are not in {buffer.name!r}, which has {size}."
        )


def piece_of(array: Array, rows: slice | None, columns: slice | None) -> Array:
    """A copy of some rows of an array, or of all, and of some of their columns."""
    if rows is not None:
        array = array[rows]
    return np.array(array if columns is None else array[:, columns])


def closed(program: Program) -> DeviceError:
    """The error of whatever is asked of a closed program."""
    return DeviceError(f"Program {program.id!r} is closed.", code="device.closed")


def buffer_error(message: str) -> DeviceError:
    """A refused use of a buffer."""
    return DeviceError(message, code="device.buffer")
