"""What a device whose memory is elsewhere sends to the host unasked, with the run that wrote it."""

from __future__ import annotations

from collections.abc import Mapping

from edgewise_runtime.format.plan import Plan

MAX_MAIL = {"input": 1 << 20, "output": 64 << 10}
"""Bytes of a buffer, by its role, that is still worth sending along with every run that writes it:
of an input the host wants a little after each, of an output all of it, and not always."""


def mail(plan: Plan, sizes: Mapping[str, int]) -> list[str]:
    """The small buffers a plan writes that the host may want after a run."""
    written = {name for step in plan.steps for name in step.writes}
    return [
        b.name
        for b in plan.buffers
        if b.name in written and sizes[b.name] <= MAX_MAIL.get(b.role, -1)
    ]
