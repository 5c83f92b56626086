"""Runs single GPU kernels as Vulkan programs have them: TIR to SPIR-V to a driver, in tests Mesa's
lavapipe."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt

from edgewise_compiler.kernels.gpu.thread import Launch
from edgewise_compiler.targets.gpu.shader import Shader
from edgewise_compiler.targets.vulkan.codegen import shader
from tests.suite import FULL

# More threads than one make lavapipe's times bimodal, and the suite no faster.
os.environ.setdefault("LP_NUM_THREADS", "1")

Array = npt.NDArray[Any]

ONE_IN = 8
"""Of the kernels that tests run, one in so many is run by Vulkan too, all in the full suite."""

EXTENSIONS = ("VK_KHR_shader_integer_dot_product", "VK_EXT_subgroup_size_control")


@dataclass(frozen=True)
class Driver:
    """A device with everything on that programs may need, and its queue of compute work."""

    device: Any
    queue: Any
    commands: Any
    memory_types: tuple[int, ...]


@cache
def driver() -> Driver:
    """The first device that is a software driver, or the first of all."""
    import vulkan as vk

    version = vk.VK_MAKE_VERSION(1, 2, 0)
    application = vk.VkApplicationInfo(pApplicationName="edgewise", apiVersion=version)
    instance = vk.vkCreateInstance(vk.VkInstanceCreateInfo(pApplicationInfo=application), None)
    found = list(vk.vkEnumeratePhysicalDevices(instance))
    software = vk.VK_PHYSICAL_DEVICE_TYPE_CPU
    found.sort(key=lambda one: vk.vkGetPhysicalDeviceProperties(one).deviceType != software)
    physical = found[0]
    dots = vk.ffi.new(
        "VkPhysicalDeviceShaderIntegerDotProductFeatures *",
        {
            "sType": vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES,
            "shaderIntegerDotProduct": 1,
        },
    )
    newer = vk.ffi.new(
        "VkPhysicalDeviceVulkan12Features *",
        {
            "sType": vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
            "pNext": dots,
            "shaderFloat16": 1,
        },
    )
    new = vk.ffi.new(
        "VkPhysicalDeviceVulkan11Features *",
        {
            "sType": vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
            "pNext": newer,
            "storageBuffer16BitAccess": 1,
        },
    )
    queue = vk.VkDeviceQueueCreateInfo(queueFamilyIndex=0, pQueuePriorities=[1.0], queueCount=1)
    device = vk.vkCreateDevice(
        physical,
        vk.VkDeviceCreateInfo(
            pNext=new,
            pQueueCreateInfos=[queue],
            ppEnabledExtensionNames=list(EXTENSIONS),
            pEnabledFeatures=vk.VkPhysicalDeviceFeatures(robustBufferAccess=1),
        ),
        None,
    )
    memory = vk.vkGetPhysicalDeviceMemoryProperties(physical)
    return Driver(
        device,
        vk.vkGetDeviceQueue(device, 0, 0),
        vk.vkCreateCommandPool(device, vk.VkCommandPoolCreateInfo(queueFamilyIndex=0), None),
        tuple(memory.memoryTypes[i].propertyFlags for i in range(memory.memoryTypeCount)),
    )


@dataclass(frozen=True)
class Pipeline:
    """A kernel as the driver compiled it."""

    descriptors: Any
    layout: Any
    handle: Any


@cache
def _pipeline(made: Shader) -> Pipeline:
    import vulkan as vk

    device, code = driver().device, made.file
    bindings = [
        vk.VkDescriptorSetLayoutBinding(
            binding=i,
            descriptorType=vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
            descriptorCount=1,
            stageFlags=vk.VK_SHADER_STAGE_COMPUTE_BIT,
        )
        for i in range(len(made.access))
    ]
    descriptors = vk.vkCreateDescriptorSetLayout(
        device, vk.VkDescriptorSetLayoutCreateInfo(pBindings=bindings), None
    )
    layout = vk.vkCreatePipelineLayout(
        device, vk.VkPipelineLayoutCreateInfo(pSetLayouts=[descriptors]), None
    )
    module = vk.vkCreateShaderModule(
        device, vk.VkShaderModuleCreateInfo(codeSize=len(code), pCode=code), None
    )
    stage = vk.VkPipelineShaderStageCreateInfo(
        stage=vk.VK_SHADER_STAGE_COMPUTE_BIT, module=module, pName=made.entry
    )
    info = vk.VkComputePipelineCreateInfo(stage=stage, layout=layout)
    handle = vk.vkCreateComputePipelines(device, vk.VK_NULL_HANDLE, 1, [info], None)[0]
    vk.vkDestroyShaderModule(device, module, None)
    return Pipeline(descriptors, layout, handle)


def chosen(name: str) -> bool:
    """Whether a kernel of this name is run as SPIR-V too: all in the full suite, else a sample."""
    return FULL or sha256(name.encode()).digest()[0] < 256 // ONE_IN


def run(launch: Launch, arrays: Sequence[Array], **symbols: int) -> list[Array]:
    """`tests.gpu.run` by Vulkan."""
    return run_shader(shader(launch.function), arrays, launch.workgroups(**symbols))


def run_shader(made: Shader, arrays: Sequence[Array], grid: tuple[int, int]) -> list[Array]:
    """Launch a kernel once over ``grid`` workgroups.

    Args:
        arrays: an array per argument, in order; any dtype, a multiple of 4 bytes each.

    Returns:
        The arrays afterwards: copies of those that the kernel may write, the others as they are.
    """
    import vulkan as vk

    device, pipeline, left = driver().device, _pipeline(made), ExitStack()
    with left:
        buffers = [_buffer(np.ascontiguousarray(array), left) for array in arrays]
        storage = vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER
        size = vk.VkDescriptorPoolSize(type=storage, descriptorCount=len(arrays))
        pool = vk.vkCreateDescriptorPool(
            device, vk.VkDescriptorPoolCreateInfo(maxSets=1, pPoolSizes=[size]), None
        )
        left.callback(vk.vkDestroyDescriptorPool, device, pool, None)
        (bound,) = vk.vkAllocateDescriptorSets(
            device,
            vk.VkDescriptorSetAllocateInfo(descriptorPool=pool, pSetLayouts=[pipeline.descriptors]),
        )
        ranges = [
            vk.VkDescriptorBufferInfo(buffer=buffer, offset=0, range=array.nbytes)
            for (buffer, _), array in zip(buffers, arrays, strict=True)
        ]
        writes = [
            vk.VkWriteDescriptorSet(
                dstSet=bound, dstBinding=i, descriptorType=storage, pBufferInfo=[one]
            )
            for i, one in enumerate(ranges)
        ]
        vk.vkUpdateDescriptorSets(device, len(writes), writes, 0, None)
        (work,) = vk.vkAllocateCommandBuffers(
            device,
            vk.VkCommandBufferAllocateInfo(commandPool=driver().commands, commandBufferCount=1),
        )
        left.callback(vk.vkFreeCommandBuffers, device, driver().commands, 1, [work])
        vk.vkBeginCommandBuffer(work, vk.VkCommandBufferBeginInfo())
        compute = vk.VK_PIPELINE_BIND_POINT_COMPUTE
        vk.vkCmdBindPipeline(work, compute, pipeline.handle)
        vk.vkCmdBindDescriptorSets(work, compute, pipeline.layout, 0, 1, [bound], 0, None)
        vk.vkCmdDispatch(work, *grid, 1)
        stored = vk.VkMemoryBarrier(
            srcAccessMask=vk.VK_ACCESS_SHADER_WRITE_BIT, dstAccessMask=vk.VK_ACCESS_HOST_READ_BIT
        )
        stages = vk.VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, vk.VK_PIPELINE_STAGE_HOST_BIT
        vk.vkCmdPipelineBarrier(work, *stages, 0, 1, [stored], 0, None, 0, None)
        vk.vkEndCommandBuffer(work)
        vk.vkQueueSubmit(driver().queue, 1, [vk.VkSubmitInfo(pCommandBuffers=[work])], None)
        vk.vkQueueWaitIdle(driver().queue)
        return [
            array
            if access == "read"
            else seen_by_host.view(array.dtype).reshape(array.shape).copy()
            for array, (_, seen_by_host), access in zip(arrays, buffers, made.access, strict=True)
        ]


def _buffer(array: Array, left: ExitStack) -> tuple[Any, Array]:
    """A buffer with an array's bytes, and these as the host sees them."""
    import vulkan as vk

    device = driver().device
    usage = vk.VK_BUFFER_USAGE_STORAGE_BUFFER_BIT
    buffer = vk.vkCreateBuffer(device, vk.VkBufferCreateInfo(size=array.nbytes, usage=usage), None)
    left.callback(vk.vkDestroyBuffer, device, buffer, None)
    needs = vk.vkGetBufferMemoryRequirements(device, buffer)
    wanted = vk.VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | vk.VK_MEMORY_PROPERTY_HOST_COHERENT_BIT
    kind = next(
        i
        for i, flags in enumerate(driver().memory_types)
        if needs.memoryTypeBits >> i & 1 and flags & wanted == wanted
    )
    info = vk.VkMemoryAllocateInfo(allocationSize=needs.size, memoryTypeIndex=kind)
    memory = vk.vkAllocateMemory(device, info, None)
    left.callback(vk.vkFreeMemory, device, memory, None)
    vk.vkBindBufferMemory(device, buffer, memory, 0)
    seen = np.frombuffer(vk.vkMapMemory(device, memory, 0, array.nbytes, 0), np.uint8)
    left.callback(partial(vk.vkUnmapMemory, device, memory))
    seen[:] = array.reshape(-1).view(np.uint8)
    return buffer, seen
