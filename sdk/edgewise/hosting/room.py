"""How much memory a model is counted with before it is loaded."""

from __future__ import annotations

from pathlib import Path

from edgewise_runtime.devices.table import DEVICES
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.format.state import footprint
from edgewise_runtime.format.targets import TARGETS
from edgewise_runtime.kv.budget import USUAL_CONTEXT, weight_bytes

PROCESS_BYTES = 48 << 20
"""What a process has to itself beside weights and pages: 37 MiB were measured with a tiny model."""


def target_of(device: str | None, program: str | None) -> str | None:
    """The target that a device, or else a program, is for; None where neither tells.

    Unlike `edgewise.devices.target_for` it opens no device: that is for the model's process.
    """
    if device is not None:
        kind = DEVICES.get(device.partition(":")[0])
        return None if kind is None else kind.target
    return next((name for name in TARGETS if program and program.startswith(f"{name}-")), None)


def needed_bytes(bundle: Path, *, target: str | None = None, context: int | None = None) -> int:
    """Bytes of a bundle's weights, of the KV pages of one sequence, and of a process for them.

    Of its programs that take different weights or pages those count that take most.

    Args:
        target: whose programs count; None for all.
        context: tokens of the sequence. Default: the model's, or `USUAL_CONTEXT` if that is less.

    Raises:
        BundleError: whatever is wrong with it.
        UnsupportedError: ``unsupported.state``.
    """
    opened = Bundle.open(bundle, verify=False)
    try:
        tokens = min(context or USUAL_CONTEXT, opened.model.context)
        pages = footprint(opened.manifest).pages(tokens)
        programs = opened.manifest.programs
        found = [one for one in programs if target in (None, one.target)] or programs
        most = max(weight_bytes(opened, one) + pages * one.page_bytes[0] for one in found)
        return PROCESS_BYTES + most
    finally:
        opened.close()
