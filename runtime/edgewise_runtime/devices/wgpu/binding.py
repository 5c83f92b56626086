"""A program's plans bound to a GPU: shaders, pipelines, and launches ready to be encoded.

All of it is made once, when a program is loaded. Running a plan makes nothing but a command buffer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgewise_runtime.devices.grids import Grids
from edgewise_runtime.devices.loading import Checked
from edgewise_runtime.devices.outputs import Output, outputs_of
from edgewise_runtime.devices.wgpu.buffers import LAST_UNIFORM, Buffers, Counters
from edgewise_runtime.devices.wgpu.gpu import Gpu
from edgewise_runtime.devices.wgpu.wgsl import check_shader
from edgewise_runtime.format import expr as ex
from edgewise_runtime.format.plan import Kernel, Plan, Step

_ENABLE_SUBGROUPS = re.compile(r"^\s*enable\s+subgroups\s*;", re.MULTILINE)


@dataclass(frozen=True)
class Shader:
    """A kernel's WGSL and the function in it to launch."""

    kernel: str
    code: str
    entry: str


def read_shaders(checked: Checked) -> Mapping[tuple[str, str], Shader]:
    """The shaders of a program's kernels by plan and kernel.

    Raises:
        BundleError: ``bundle.shader`` for one that `check_shader` refuses.
    """
    # wgpu-native has subgroup operations and does not know the line that WebGPU asks for them with.
    texts = {
        path: _ENABLE_SUBGROUPS.sub("", check_shader(path, data))
        for path, data in checked.code.items()
    }
    return {
        (plan.name, name): Shader(name, texts[checked.program.shaders[name]], kernel.symbol)
        for plan in checked.plans.values()
        for name, kernel in plan.kernels.items()
    }


@dataclass(frozen=True)
class Pipeline:
    """A compiled kernel and the layout of what it binds."""

    compiled: Any
    layout: Any


class Pipelines:
    """Compiles kernels, each text once a device, and binds them, each set of buffers once."""

    def __init__(self, gpu: Gpu, buffers: Buffers, counters: Counters) -> None:
        self._gpu = gpu
        self._buffers = buffers
        self._counters = counters
        self._groups: dict[tuple[Any, ...], Any] = {}

    def pipeline(self, shader: Shader, kernel: Kernel) -> Pipeline:
        """The compiled kernel.

        Raises:
            DeviceError: ``device.kernel`` where the driver refuses it, or where it binds anything
                else than the plan says.
        """
        access = tuple(arg.access for arg in kernel.args)
        key = (shader.code, shader.entry, access)
        compiled = self._gpu.pipelines.get(key)
        if compiled is None:
            device = self._gpu.device
            remedy = "Compile the model again with this version of edgewise."
            with self._gpu.errors(f"The kernel {shader.kernel!r} does not compile", remedy):
                layouts = [self._layout(access)]
                whole = device.create_pipeline_layout(bind_group_layouts=layouts)
                module = device.create_shader_module(label=shader.kernel, code=shader.code)
                stage = {"module": module, "entry_point": shader.entry}
                compiled = device.create_compute_pipeline(layout=whole, compute=stage)
            self._counters.pipelines += 1
            self._gpu.pipelines[key] = compiled
        return Pipeline(compiled, self._layout(access))

    def _layout(self, access: tuple[str, ...]) -> Any:
        layouts = self._gpu.layouts
        if access not in layouts:
            kinds = ["read-only-storage" if a == "read" else "storage" for a in access]
            entries = [
                {
                    "binding": binding,
                    "visibility": self._gpu.api.ShaderStage.COMPUTE,
                    "buffer": {"type": kind},
                }
                for binding, kind in enumerate([*kinds, "uniform"])
            ]
            layouts[access] = self._gpu.device.create_bind_group_layout(entries=entries)
        return layouts[access]

    def bind(self, pipeline: Pipeline, ranges: tuple[tuple[str, int, int], ...]) -> Any:
        """The bind group of buffers, each as name, offset and bytes."""
        key = (id(pipeline.layout), ranges)
        if key not in self._groups:
            bound = [
                {"buffer": self._buffers[name], "offset": offset, "size": size}
                for name, offset, size in ranges
            ]
            bound.append({"buffer": self._buffers.last, "offset": 0, "size": len(LAST_UNIFORM)})
            entries = [{"binding": i, "resource": item} for i, item in enumerate(bound)]
            with self._gpu.errors(f"Binding {', '.join(name for name, _, _ in ranges)}"):
                self._groups[key] = self._gpu.device.create_bind_group(
                    layout=pipeline.layout, entries=entries
                )
            self._counters.bind_groups += 1
        return self._groups[key]


@dataclass(frozen=True)
class Launch:
    """One launch of a plan; `grid` is its place among the plan's grids."""

    label: str
    kernel: str
    pipeline: Any
    group: Any
    grid: int
    outputs: tuple[Output, ...]


class BoundPlan:
    """A plan whose launches are bound."""

    def __init__(
        self,
        plan: Plan,
        shaders: Mapping[tuple[str, str], Shader],
        pipelines: Pipelines,
        load: Mapping[str, int],
    ) -> None:
        self.plan = plan
        self.grids = Grids(plan, load)
        self._ranges = plan.ranges | {name: (value, value) for name, value in load.items()}
        self.launches = tuple(
            self._launch(step, shaders, pipelines, place)
            for step, place in zip(plan.steps, self.grids.places, strict=True)
        )

    def _launch(
        self,
        step: Step,
        shaders: Mapping[tuple[str, str], Shader],
        pipelines: Pipelines,
        grid: int,
    ) -> Launch:
        kernel = self.plan.kernels[step.kernel]
        pipeline = pipelines.pipeline(shaders[self.plan.name, step.kernel], kernel)
        pairs = list(zip(kernel.args, step.bindings, strict=True))
        sizes = [ex.bounds(arg.bytes, self._ranges)[1] for arg in kernel.args]
        ranges = tuple(
            (binding.buffer, binding.offset, -(-size // 4) * 4)
            for (_, binding), size in zip(pairs, sizes, strict=True)
        )
        outputs = outputs_of(self.plan, step, self._ranges)
        group = pipelines.bind(pipeline, ranges)
        return Launch(step.label, step.kernel, pipeline.compiled, group, grid, outputs)

    def encode(self, work: Any, step: tuple[int, ...], k: int) -> int:
        """Encode all launches `k` times into a compute pass; return how many there are."""
        grids = self.grids.at(step)
        calls = [(launch.pipeline, launch.group, grids[launch.grid]) for launch in self.launches]
        set_pipeline, set_group = work.set_pipeline, work.set_bind_group
        dispatch = work.dispatch_workgroups
        pipeline = group = None
        for _ in range(k):
            for call in calls:
                # Setting what is set already costs as much as setting something else.
                if call[0] is not pipeline:
                    pipeline = call[0]
                    set_pipeline(pipeline)
                if call[1] is not group:
                    group = call[1]
                    set_group(0, group)
                dispatch(*call[2])
        return len(calls) * k


def bind_plans(
    gpu: Gpu,
    buffers: Buffers,
    shaders: Mapping[tuple[str, str], Shader],
    plans: Mapping[str, Plan],
    load: Mapping[str, int],
) -> dict[str, BoundPlan]:
    """Every plan of a program, bound."""
    pipelines = Pipelines(gpu, buffers, buffers.counters)
    return {name: BoundPlan(plan, shaders, pipelines, load) for name, plan in plans.items()}
