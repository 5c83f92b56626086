"""Plans recorded into command buffers: once for what is launched, submitted ever after.

A recording is of a plan, of its grids, and of how often it is repeated. It ends with copies of what
the host looks at, so that a burst and its answer are one submission.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgewise_runtime.devices.grids import Grid
from edgewise_runtime.devices.vulkan.binding import BoundPlan, Launch
from edgewise_runtime.devices.vulkan.commands import AGAIN, Commands
from edgewise_runtime.devices.vulkan.memory import Counters
from edgewise_runtime.devices.vulkan.transfer import Mailbox

MAX_RECORDINGS = 64
"""Recordings that a program keeps. A step of a prompt has one for each number of its rows."""

COMPUTE_POINT = 1
"""``VK_PIPELINE_BIND_POINT_COMPUTE``."""

Key = tuple[str, tuple[Grid, ...], int]


@dataclass
class Recording:
    """A command buffer, how many launches it has, and its last submission."""

    commands: Any
    dispatches: int
    submission: int = 0


class Bursts:
    """A program's recordings; those used last are kept."""

    def __init__(self, commands: Commands, counters: Counters, mailbox: Mailbox) -> None:
        self._commands = commands
        self._counters = counters
        self._mailbox = mailbox
        self._kept: OrderedDict[Key, Recording] = OrderedDict()

    def get(self, bound: BoundPlan, step: tuple[int, ...], k: int) -> Recording:
        """The recording of a plan with the grids it has at these values of ``step``, `k` times.

        Raises:
            VulkanError: what the driver answers.
        """
        grids = bound.grids.at(step)
        key = bound.plan.name, grids, k
        found = self._kept.get(key)
        if found is None:
            if len(self._kept) >= MAX_RECORDINGS:
                self._forget()
            found = self._kept[key] = self._recorded(bound, grids, k)
        self._kept.move_to_end(key)
        return found

    def _forget(self) -> None:
        """Give back the recording that was not used for longest, once it is done."""
        _, oldest = self._kept.popitem(last=False)
        self._commands.gpu.wait(oldest.submission)
        self._commands.free(oldest.commands)

    def _recorded(self, bound: BoundPlan, grids: Sequence[Grid], k: int) -> Recording:
        commands = self._commands.make()
        try:
            self._commands.begin(commands, AGAIN)
            waits = bound.waits(k)
            record(self._commands, commands, bound.launches * k, grids, waits)
            self._mailbox.record(self._commands, commands, bound.plan.name)
            self._commands.end(commands)
        except BaseException:
            self._commands.free(commands)
            raise
        self._counters.recordings += 1
        self._counters.barriers += sum(waits)
        return Recording(commands, len(bound.launches) * k)


def record(
    at: Commands,
    commands: Any,
    launches: Sequence[Launch],
    grids: Sequence[Grid],
    waits: Sequence[bool],
) -> None:
    """Record launches, those that `waits` names behind a barrier."""
    lib, null = at.gpu.api.lib, at.gpu.api.ffi.NULL
    bind_pipeline, bind_sets = lib.vkCmdBindPipeline, lib.vkCmdBindDescriptorSets
    dispatch = lib.vkCmdDispatch
    compiled = sets = layout = None
    for launch, wait in zip(launches, waits, strict=True):
        if wait:
            at.after_launches(commands)
        pipeline = launch.pipeline
        if pipeline.compiled is not compiled:
            compiled = pipeline.compiled
            bind_pipeline(commands, COMPUTE_POINT, compiled)
        if launch.sets is not sets or pipeline.layout is not layout:
            sets, layout = launch.sets, pipeline.layout
            bind_sets(commands, COMPUTE_POINT, layout, 0, 1, sets, 0, null)
        dispatch(commands, *grids[launch.grid])
