"""A program's plans bound to a device: launches ready to be recorded, and their grids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgewise_runtime.devices.grids import Grids
from edgewise_runtime.devices.outputs import Output, outputs_of
from edgewise_runtime.devices.vulkan.api import Objects
from edgewise_runtime.devices.vulkan.gpu import Gpu
from edgewise_runtime.devices.vulkan.hazards import Touched, barriers
from edgewise_runtime.devices.vulkan.kernels import Modules, Pipeline, Pipelines, Ranges
from edgewise_runtime.devices.vulkan.memory import Buffers, Counters
from edgewise_runtime.format import expr as ex
from edgewise_runtime.format.plan import Plan, Step


@dataclass(frozen=True)
class Launch:
    """One launch of a plan; `grid` is its place among the plan's grids, `sets` what it binds."""

    label: str
    kernel: str
    pipeline: Pipeline
    sets: Any
    grid: int
    touched: Touched
    outputs: tuple[Output, ...]


class BoundPlan:
    """A plan whose launches are bound."""

    def __init__(
        self, plan: Plan, modules: Modules, pipelines: Pipelines, load: Mapping[str, int]
    ) -> None:
        self.plan = plan
        self.grids = Grids(plan, load)
        self._ranges = plan.ranges | {name: (value, value) for name, value in load.items()}
        self.launches = tuple(
            self._launch(step, modules, pipelines, place)
            for step, place in zip(plan.steps, self.grids.places, strict=True)
        )

    def _launch(self, step: Step, modules: Modules, pipelines: Pipelines, grid: int) -> Launch:
        kernel = self.plan.kernels[step.kernel]
        pipeline = pipelines.pipeline(
            step.kernel, modules[self.plan.name, step.kernel], len(kernel.args)
        )
        ranges = bound_ranges(self.plan, step, self._ranges)
        pairs = list(zip(kernel.args, step.bindings, strict=True))
        outputs = outputs_of(self.plan, step, self._ranges)
        pieces = [(name, start, start + size) for name, start, size in ranges]
        touched = Touched(
            tuple(piece for (arg, _), piece in zip(pairs, pieces, strict=True) if arg.reads),
            tuple(piece for (arg, _), piece in zip(pairs, pieces, strict=True) if arg.writes),
        )
        sets = pipelines.bind(pipeline, ranges)
        return Launch(step.label, step.kernel, pipeline, sets, grid, touched, outputs)

    def waits(self, k: int) -> list[bool]:
        """Whether each launch of `k` repetitions needs a barrier before it."""
        return barriers([launch.touched for launch in self.launches] * k)


def bound_ranges(plan: Plan, step: Step, symbols: Mapping[str, ex.Range]) -> Ranges:
    """What a launch binds, in whole words, at most."""
    args = plan.kernels[step.kernel].args
    return tuple(
        (binding.buffer, binding.offset, -(-ex.bounds(arg.bytes, symbols)[1] // 4) * 4)
        for arg, binding in zip(args, step.bindings, strict=True)
    )


def bind_plans(
    gpu: Gpu,
    objects: Objects,
    counters: Counters,
    buffers: Buffers,
    modules: Modules,
    plans: Mapping[str, Plan],
    load: Mapping[str, int],
) -> dict[str, BoundPlan]:
    """Every plan of a program, bound; its descriptors come from a pool that holds just them."""
    wanted = {ranges for plan in plans.values() for ranges in _all_ranges(plan, load)}
    most = len(wanted), sum(map(len, wanted))
    pipelines = Pipelines(gpu, objects, buffers, counters, most)
    return {name: BoundPlan(plan, modules, pipelines, load) for name, plan in plans.items()}


def _all_ranges(plan: Plan, load: Mapping[str, int]) -> Sequence[Ranges]:
    symbols = plan.ranges | {name: (value, value) for name, value in load.items()}
    return [bound_ranges(plan, step, symbols) for step in plan.steps]
