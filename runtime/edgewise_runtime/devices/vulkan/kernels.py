"""A program's kernels on a device: looked at, held to its limits, compiled, bound to buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgewise_runtime.devices.loading import Checked
from edgewise_runtime.devices.vulkan.adapter import Adapter
from edgewise_runtime.devices.vulkan.api import Objects, VulkanError
from edgewise_runtime.devices.vulkan.gpu import FULL_SUBGROUPS, Gpu
from edgewise_runtime.devices.vulkan.memory import Buffers, Counters
from edgewise_runtime.devices.vulkan.spirv import Module, check_module
from edgewise_runtime.errors import DeviceError
from edgewise_runtime.format import expr as ex
from edgewise_runtime.format.plan import Kernel, Plan

COMPUTE = 0x20
"""The shader stage, and"""
STORAGE_BUFFER = 7
"""the kind of descriptor of every argument."""

FULL = 2
"""``VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT``."""

SHOWN = 120
"""Characters of a kernel's name that are quoted."""

Modules = Mapping[tuple[str, str], Module]
"""Modules by plan and kernel."""

Ranges = tuple[tuple[str, int, int], ...]
"""What a launch binds: of each argument the buffer, the first byte and how many."""


def read_modules(checked: Checked) -> Modules:
    """The modules of a program's kernels.

    Raises:
        BundleError: ``bundle.shader`` for one that `check_module` refuses.
    """
    found: dict[tuple[str, str, tuple[bool, ...]], Module] = {}
    modules: dict[tuple[str, str], Module] = {}
    for plan in checked.plans.values():
        for name, kernel in plan.kernels.items():
            path = checked.program.shaders[name]
            writes = tuple(arg.writes for arg in kernel.args)
            key = path, kernel.symbol, writes
            if key not in found:
                found[key] = check_module(path, checked.code[path], kernel.symbol, writes)
            modules[plan.name, name] = found[key]
    return modules


def check_limits(
    adapter: Adapter, plans: Mapping[str, Plan], modules: Modules, load: Mapping[str, int]
) -> None:
    """Refuse kernels and launches that are more than a device allows, before anything is made.

    Raises:
        DeviceError: ``device.limit`` with both numbers.
    """
    limits = adapter.limits
    for plan in plans.values():
        ranges = plan.ranges | {name: (value, value) for name, value in load.items()}
        for name, kernel in plan.kernels.items():
            module = modules[plan.name, name]
            x, y, z = module.threads
            held = (
                ("buffers", len(kernel.args), limits.buffers),
                ("threads in x", x, limits.size[0]),
                ("threads in y", y, limits.size[1]),
                ("threads in z", z, limits.size[2]),
                ("threads in a workgroup", x * y * z, limits.threads),
                ("bytes of shared memory", module.shared, limits.shared),
                *(
                    (f"bytes of its argument {arg.name!r}", size, limits.binding)
                    for arg, size in _extents(kernel, ranges)
                ),
            )
            _hold(adapter, name, held)
        for step in plan.steps:
            grid = [ex.bounds(extent, ranges)[1] for extent in step.grid]
            axes = zip("xyz", grid, limits.groups, strict=True)
            _hold(adapter, step.kernel, tuple((f"workgroups in {a}", g, m) for a, g, m in axes))


def _extents(kernel: Kernel, ranges: Mapping[str, ex.Range]) -> list[tuple[Any, int]]:
    return [(arg, ex.bounds(arg.bytes, ranges)[1]) for arg in kernel.args]


def _hold(adapter: Adapter, kernel: str, held: tuple[tuple[str, int, int], ...]) -> None:
    for what, wanted, most in held:
        if wanted > most:
            raise DeviceError(
                f"The kernel {kernel[:SHOWN]!r} has {wanted:,} {what}; {adapter} allows {most:,}.",
                remedy="Choose another device (edgewise doctor lists them), or a smaller context "
                "(--context).",
                code="device.limit",
            )


def wanted_features(modules: Modules) -> frozenset[str]:
    """What a program's modules ask of a device."""
    return frozenset().union(*(module.wants for module in modules.values()))


def check_features(adapter: Adapter, wants: frozenset[str], program: str) -> None:
    """Refuse a program whose modules ask for what a device does not have.

    Raises:
        DeviceError: ``device.no_program`` with what is missing.
    """
    missing = sorted(wants - adapter.has)
    if missing:
        raise DeviceError(
            f"Kernels of the program {program!r} ask for {', '.join(missing)}, which {adapter} "
            "does not have.",
            remedy="Leave the choice of the program to the device, or choose another device "
            "(edgewise doctor lists them).",
            code="device.no_program",
        )


@dataclass(frozen=True)
class Pipeline:
    """A compiled kernel, and the layouts of what it binds."""

    compiled: Any
    layout: Any
    sets: Any


class Pipelines:
    """Compiles kernels, each module once a device, and binds them, each set of buffers once.

    Args:
        most: descriptor sets, and descriptors in them, at most.
    """

    def __init__(
        self,
        gpu: Gpu,
        objects: Objects,
        buffers: Buffers,
        counters: Counters,
        most: tuple[int, int],
    ) -> None:
        self._gpu = gpu
        self._buffers = buffers
        self._counters = counters
        self._sets: dict[Ranges, Any] = {}
        vulkan, (sets, descriptors) = gpu.api, most
        size = {"type": STORAGE_BUFFER, "descriptorCount": max(descriptors, 1)}
        made = vulkan.info(
            "DescriptorPoolCreateInfo",
            maxSets=max(sets, 1),
            poolSizeCount=1,
            pPoolSizes=vulkan.array("DescriptorPoolSize", [size]),
        )
        self._pool = objects.create("DescriptorPool", made)

    def pipeline(self, name: str, module: Module, count: int) -> Pipeline:
        """The compiled kernel of `count` buffers.

        Raises:
            DeviceError: ``device.kernel`` where the driver refuses it.
        """
        remedy = "Compile the model again with this version of edgewise."
        key = (module.code, module.entry, count)
        with self._gpu.errors(f"The kernel {name[:SHOWN]!r} does not compile", remedy):
            sets, layout = self._layouts(count)
            if key not in self._gpu.pipelines:
                self._gpu.pipelines[key] = self._compiled(module, layout)
                self._counters.pipelines += 1
        return Pipeline(self._gpu.pipelines[key], layout, sets)

    def _layouts(self, count: int) -> tuple[Any, Any]:
        layouts, vulkan = self._gpu.layouts, self._gpu.api
        if count not in layouts:
            bindings = [
                {
                    "binding": at,
                    "descriptorType": STORAGE_BUFFER,
                    "descriptorCount": 1,
                    "stageFlags": COMPUTE,
                }
                for at in range(count)
            ]
            made = vulkan.info(
                "DescriptorSetLayoutCreateInfo",
                bindingCount=count,
                pBindings=vulkan.array("DescriptorSetLayoutBinding", bindings),
            )
            sets = self._gpu.objects.create("DescriptorSetLayout", made)
            made = vulkan.info(
                "PipelineLayoutCreateInfo",
                setLayoutCount=1,
                pSetLayouts=vulkan.array("DescriptorSetLayout", [sets]),
            )
            layouts[count] = sets, self._gpu.objects.create("PipelineLayout", made)
        return layouts[count]

    def _compiled(self, module: Module, layout: Any) -> Any:
        gpu, vulkan = self._gpu, self._gpu.api
        words = vulkan.ffi.from_buffer("uint32_t[]", module.code)
        shader = gpu.objects.create(
            "ShaderModule",
            vulkan.info("ShaderModuleCreateInfo", codeSize=len(module.code), pCode=words),
        )
        try:
            stage = vulkan.info(
                "PipelineShaderStageCreateInfo",
                flags=self._subgroups(module),
                stage=COMPUTE,
                module=shader,
                pName=vulkan.text(module.entry),
            )
            made = vulkan.info(
                "ComputePipelineCreateInfo", stage=stage[0], layout=layout, basePipelineIndex=-1
            )
            out = vulkan.ffi.new("VkPipeline[1]")
            result = vulkan.lib.vkCreateComputePipelines(
                gpu.device, gpu.cache, 1, made, vulkan.ffi.NULL, out
            )
            # Kept alive until here, since the stage was copied out of its structure.
            del stage
            gpu.check(result)
        finally:
            gpu.objects.drop("ShaderModule", shader)
        return gpu.objects.adopt("Pipeline", out[0])

    def _subgroups(self, module: Module) -> int:
        """Flags of a stage: all threads of its subgroups are there, where that can be asked for."""
        adapter = self._gpu.adapter
        asked = "subgroup basic" in module.wants and FULL_SUBGROUPS in adapter.has
        return FULL if asked and module.threads[0] % adapter.limits.subgroup == 0 else 0

    def bind(self, pipeline: Pipeline, ranges: Ranges) -> Any:
        """The descriptor set of buffers, as an array of one.

        Raises:
            DeviceError: what Vulkan refuses.
        """
        if ranges not in self._sets:
            with self._gpu.errors(f"Binding {', '.join(name for name, _, _ in ranges)}"):
                self._sets[ranges] = self._bound(pipeline, ranges)
            self._counters.descriptor_sets += 1
        return self._sets[ranges]

    def _bound(self, pipeline: Pipeline, ranges: Ranges) -> Any:
        vulkan, device = self._gpu.api, self._gpu.device
        made = vulkan.info(
            "DescriptorSetAllocateInfo",
            descriptorPool=self._pool,
            descriptorSetCount=1,
            pSetLayouts=vulkan.array("DescriptorSetLayout", [pipeline.sets]),
        )
        out = vulkan.ffi.new("VkDescriptorSet[1]")
        vulkan.check(vulkan.lib.vkAllocateDescriptorSets(device, made, out))
        pieces = vulkan.array(
            "DescriptorBufferInfo",
            [
                {"buffer": self._buffers[name], "offset": start, "range": size}
                for name, start, size in ranges
            ],
        )
        write = vulkan.info(
            "WriteDescriptorSet",
            dstSet=out[0],
            dstBinding=0,
            descriptorCount=len(ranges),
            descriptorType=STORAGE_BUFFER,
            pBufferInfo=pieces,
        )
        vulkan.lib.vkUpdateDescriptorSets(device, 1, write, 0, vulkan.ffi.NULL)
        return out


def kept_pipelines(gpu: Gpu) -> bytes:
    """What the driver has compiled so far, as it keeps it."""
    vulkan = gpu.api
    size = vulkan.ffi.new("size_t *")
    try:
        gpu.check(vulkan.lib.vkGetPipelineCacheData(gpu.device, gpu.cache, size, vulkan.ffi.NULL))
        data = vulkan.ffi.new("char[]", size[0])
        gpu.check(vulkan.lib.vkGetPipelineCacheData(gpu.device, gpu.cache, size, data))
    except VulkanError:
        return b""
    return bytes(vulkan.ffi.buffer(data, size[0]))
