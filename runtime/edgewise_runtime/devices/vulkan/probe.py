"""Whether subgroups are what kernels take them for: 4 to 128 consecutive threads, in order.

Modules cannot ask for that, so one looks. It is written here by hand, since what runs bundles has
no compiler; opcodes and enumerants as in `spirv`.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from edgewise_runtime.devices.vulkan.api import Objects, VulkanError
from edgewise_runtime.devices.vulkan.binding import Launch
from edgewise_runtime.devices.vulkan.bursts import record
from edgewise_runtime.devices.vulkan.commands import Commands
from edgewise_runtime.devices.vulkan.gpu import Gpu
from edgewise_runtime.devices.vulkan.hazards import Touched
from edgewise_runtime.devices.vulkan.kernels import Pipelines
from edgewise_runtime.devices.vulkan.line import Line
from edgewise_runtime.devices.vulkan.memory import Buffers, Counters
from edgewise_runtime.devices.vulkan.spirv import MAGIC, Module
from edgewise_runtime.devices.vulkan.transfer import Reader
from edgewise_runtime.errors import DeviceError

THREADS = (64, 256)

_IDS = 40
_MAIN = int.from_bytes(b"main", "little")


def module(threads: int) -> bytes:
    """SPIR-V that writes the size of each thread's subgroup into its element of a buffer of uint32,
    and 0 where threads of a subgroup are not consecutive and in order."""
    (main, index, place, void, function, uint, boolean, reads, array, block, blocks, elements) = (
        range(1, 13)
    )
    (sizes, zero, one, subgroup, begin, thread, lane, size, first, rest, ahead) = range(13, 24)
    (same, also, both, told, element) = range(24, 29)
    code: tuple[tuple[int, ...], ...] = (
        (17, 1),  # capabilities: Shader,
        (17, 61),  # GroupNonUniform,
        (17, 63),  # GroupNonUniformArithmetic
        (14, 0, 1),  # memory model: logical, GLSL450
        (15, 5, main, _MAIN, 0, index, place),
        (16, main, 17, threads, 1, 1),
        (71, index, 11, 29),  # built-in LocalInvocationIndex
        (71, place, 11, 41),  # built-in SubgroupLocalInvocationId
        (71, array, 6, 4),  # elements of 4 bytes
        (72, block, 0, 35, 0),
        (71, block, 2),
        (71, sizes, 34, 0),
        (71, sizes, 33, 0),
        (19, void),
        (33, function, void),
        (21, uint, 32, 0),
        (20, boolean),
        (32, reads, 1, uint),
        (29, array, uint),
        (30, block, array),
        (32, blocks, 12, block),
        (32, elements, 12, uint),
        (43, uint, zero, 0),
        (43, uint, one, 1),
        (43, uint, subgroup, 3),
        (59, reads, index, 1),
        (59, reads, place, 1),
        (59, blocks, sizes, 12),
        (54, void, main, 0, function),
        (248, begin),
        (61, uint, thread, index),
        (61, uint, lane, place),
        (349, uint, size, subgroup, 0, one),  # how many threads it has
        (354, uint, first, subgroup, 0, thread),  # the lowest of them
        (137, uint, rest, thread, size),
        (130, uint, ahead, thread, first),
        (170, boolean, same, rest, lane),
        (170, boolean, also, ahead, lane),
        (167, boolean, both, same, also),
        (169, uint, told, both, size, zero),
        (65, elements, element, sizes, zero, thread),
        (62, element, told),
        (253,),
        (56,),
    )
    return assembled(code)


def assembled(code: Iterable[tuple[int, ...]]) -> bytes:
    """A module of SPIR-V 1.3 from its instructions: opcode and operands of each, ids below 40."""
    words = [MAGIC, 0x00010300, 0, _IDS, 0]
    for instruction in code:
        words += [len(instruction) << 16 | instruction[0], *instruction[1:]]
    return np.array(words, "<u4").tobytes()


def linear_subgroups(gpu: Gpu) -> bool:
    """Whether a device's subgroups are 4 to 128 consecutive threads, in order."""
    try:
        return all(is_linear(subgroup_sizes(gpu, threads)) for threads in THREADS)
    except (DeviceError, VulkanError):
        return False  # a driver that cannot even run the probe has none to offer


def is_linear(sizes: list[int]) -> bool:
    """Whether what each thread wrote is one size that kernels can use."""
    found = set(sizes)
    size = found.pop()
    return not found and 4 <= size <= 128 and size & (size - 1) == 0


def subgroup_sizes(gpu: Gpu, threads: int) -> list[int]:
    """What each thread of one workgroup of `module` wrote.

    Raises:
        DeviceError: what Vulkan refuses.
        VulkanError: as well.
    """
    objects, counters = Objects(gpu.api, gpu.device), Counters()
    gpu.programs += 1
    try:
        buffers = Buffers(gpu, objects, counters, {"sizes": 4 * threads}, {"sizes": "scratch"})
        commands = Commands(gpu, objects)
        line = Line(gpu, objects, counters, commands, buffers)
        pipelines = Pipelines(gpu, objects, buffers, counters, (1, 1))
        wants = frozenset({"subgroup basic"})
        code = Module(module(threads), "main", wants, (threads, 1, 1), 0)
        pipeline = pipelines.pipeline("subgroups", code, 1)
        sets = pipelines.bind(pipeline, (("sizes", 0, 4 * threads),))
        launch = Launch("", "subgroups", pipeline, sets, 0, Touched((), ()), ())
        recorded = line.begin()
        record(commands, recorded, [launch], [(1, 1, 1)], [False])
        commands.end(recorded)
        line.submit(recorded)
        data = Reader(gpu, objects, counters, line, buffers).read("sizes", 0, 4 * threads)
        return [int(size) for size in data.view(np.uint32)]
    finally:
        gpu.rest()
        objects.destroy()
        gpu.leave()
