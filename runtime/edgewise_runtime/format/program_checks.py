"""Whether a program's plans agree with each other and with the manifest that names them."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from edgewise_runtime.errors import BundleError
from edgewise_runtime.format.abi import shared_buffers
from edgewise_runtime.format.dtypes import DTYPES
from edgewise_runtime.format.manifest import BundleManifest, Entry, Program, StateGroup
from edgewise_runtime.format.plan import Buffer, Plan, check_shared
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.format.state import PAGES, page_rows, pages_for

OPTIONAL = ("logprobs", "logprob_ids", "hidden")
"""Shared buffers that a program may lack."""


def check_program(manifest: BundleManifest, program: Program, plans: Mapping[str, Plan]) -> None:
    """Check all plans of a program, by the names that the manifest gives them.

    Raises:
        BundleError: ``bundle.plan``, ``.tensor``, ``.shader``, ``.entry``, ``.state`` or
            ``.buffer``.
        PlanError: ``plan.shared``.
    """
    for name, plan in plans.items():
        _check_plan(manifest, program, name, plan)
    check_shared(plans.values())
    buffers = {b.name: b for plan in plans.values() for b in plan.buffers}
    _check_states(manifest, program, buffers)
    _check_buffers(manifest, program, buffers)


def _error(what: str, message: str) -> BundleError:
    remedy = "Copy or compile the bundle again."
    return BundleError(message, remedy=remedy, code=f"bundle.{what}")


def _check_plan(manifest: BundleManifest, program: Program, name: str, plan: Plan) -> None:
    where = f"Program {program.id!r}, plan {name!r}"
    if plan.name != name or plan.target != program.target:
        found = f"{plan.name!r} for {plan.target!r}"
        raise _error("plan", f"{where} for {program.target!r}: its file holds plan {found}.")
    tensors = manifest.layouts[program.layout]
    for buffer in plan.buffers:
        if buffer.role != "param":
            continue
        tensor = tensors.get(buffer.name)
        if tensor is None:
            layout = f"the layout {program.layout!r}"
            raise _error("tensor", f"{where}: {layout} has no tensor {buffer.name!r}.")
        declared = (buffer.dtype, buffer.shape, buffer.bytes)
        if declared != (tensor.dtype, tensor.shape, tensor.bytes):
            message = (
                f"{where}: the parameter {buffer.name!r} is {buffer.dtype} "
                f"{list(buffer.shape)}, its tensor {tensor.dtype} {list(tensor.shape)}."
            )
            raise _error("tensor", message)
    missing = sorted(plan.kernels.keys() - program.shaders.keys())
    if program.library is None and missing:
        raise _error("shader", f"{where}: there is no shader for the kernel {missing[0]!r}.")
    for operation, entries in program.entries.items():
        for entry in entries:
            if entry.plan == name:
                _check_entry(f"{where}, entry {operation!r}", entry, plan)


def _check_entry(where: str, entry: Entry, plan: Plan) -> None:
    for name, (low, high) in entry.when.items():
        if name not in plan.ranges:
            raise _error("entry", f"{where}: the plan has no symbol {name!r}.")
        least, most = plan.ranges[name]
        if low < least or high > most:
            raise _error("entry", f"{where}: {low}..{high} of {name!r} exceeds {least}..{most}.")


def _check_states(
    manifest: BundleManifest, program: Program, buffers: Mapping[str, Buffer]
) -> None:
    """Check that the state groups list all pages, and that the plans keep them as they say."""
    listed: set[str] = set()
    for group, declared in zip(manifest.state_groups, program.page_bytes, strict=True):
        found = _group_bytes(group, program, buffers)
        if found != declared:
            what = f"a page of the group of {shorten(group.buffers)} takes {found} bytes"
            raise _error("state", f"Program {program.id!r}: {what}, not {declared}.")
        listed |= {*group.buffers, *group.scales}
    for buffer in buffers.values():
        if buffer.role == "state" and buffer.shape[:1] == (PAGES,) and buffer.name not in listed:
            message = f"no state group lists the pages in {buffer.name!r}"
            raise _error("state", f"Program {program.id!r}: {message}.")


def _group_bytes(group: StateGroup, program: Program, buffers: Mapping[str, Buffer]) -> int:
    """Bytes that a page of a group takes in the program's plans."""
    where = f"Program {program.id!r}"
    if program.state_dtype == "int8" and len(group.scales) != len(group.buffers):
        message = f"its state is int8, and the group of {shorten(group.buffers)} has no scales"
        raise _error("state", f"{where}: {message}.")
    total = 0
    for name, (dtype, shape) in page_rows(group, program.state_dtype).items():
        buffer = buffers.get(name)
        if buffer is None or (buffer.role, buffer.dtype) != ("state", dtype):
            found = "missing" if buffer is None else f"{buffer.role} {buffer.dtype}"
            raise _error("state", f"{where}: {name!r} is {found}, not {dtype} state.")
        extents = [extent for extent in buffer.shape[1:] if isinstance(extent, int)]
        if len(extents) + 1 != len(buffer.shape) or (
            group.kind == "paged" and buffer.shape != (PAGES, *shape)
        ):
            found = shorten(list(buffer.shape))
            message = f"{name!r} is {found}, its group says {[PAGES, *shape]}"
            raise _error("state", f"{where}: {message}.")
        total += prod(extents) * DTYPES[dtype]
    return total


def _check_buffers(
    manifest: BundleManifest, program: Program, buffers: Mapping[str, Buffer]
) -> None:
    """Check that what the host writes and reads is as `abi` has it.

    A program that samples has all of it but log-probabilities, so that nothing the manifest says of
    the model stays unchecked."""
    model = manifest.model
    pages = [pages_for(model.context, group.page_tokens) for group in manifest.state_groups]
    shared = shared_buffers(
        rows=model.prefill_chunk,
        batch=model.max_batch,
        pages=max(pages, default=0),
        hidden=model.hidden,
        vocab=model.vocab,
        groups=max(len(manifest.state_groups), 1),
    )
    for name, expected in shared.items():
        buffer = buffers.get(name)
        if buffer is None and ("sample" not in program.entries or name in OPTIONAL):
            continue
        if buffer is not None and (buffer.role, buffer.dtype, buffer.shape) == expected:
            continue
        role, dtype, shape = expected
        found = "missing"
        if buffer is not None:
            found = f"{buffer.role} {buffer.dtype} {shorten(list(buffer.shape))}"
        message = f"{name!r} is {found}, not {role} {dtype} {list(shape)}"
        raise _error("buffer", f"Program {program.id!r}: {message}.")
