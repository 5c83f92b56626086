"""Memory of a device: one arena for each role, divided among the buffers of that role."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgewise_runtime.devices.base import Array
from edgewise_runtime.devices.vulkan.api import WHOLE, Objects
from edgewise_runtime.devices.vulkan.gpu import Gpu
from edgewise_runtime.errors import DeviceError

MIB = 1 << 20

LOCAL, VISIBLE, COHERENT, CACHED = 1, 2, 4, 8
"""``VkMemoryPropertyFlags``."""

OWN = (LOCAL, 0)
TO_DEVICE = (VISIBLE | COHERENT,)
TO_HOST = (VISIBLE | COHERENT | CACHED, VISIBLE | CACHED, VISIBLE | COHERENT)
"""What memory should be, the best first: the device's own; what the host writes; what it reads."""

COPIED_FROM, COPIED_TO, STORAGE = 1, 2, 32
"""``VkBufferUsageFlags``."""

STEP = 16
"""Bytes that sizes of buffers are rounded up to: kernels read vectors of four."""

ARENAS = {
    "param": "params",
    "state": "state",
    "scratch": "scratch",
    "input": "staging",
    "output": "staging",
}
"""The arena of a buffer, by its role. What host and device hand each other is small."""


@dataclass
class Counters:
    """How often a program did what costs time: made things, recorded, submitted, read back.

    Attributes:
        recordings: plans recorded into a command buffer; `copies` those of pieces of memory.
        barriers: between launches, in what was recorded.
        dispatches: launches that were submitted.
    """

    buffers: int = 0
    allocations: int = 0
    pipelines: int = 0
    descriptor_sets: int = 0
    recordings: int = 0
    copies: int = 0
    barriers: int = 0
    submits: int = 0
    dispatches: int = 0
    readbacks: int = 0


def divide(needs: Iterable[tuple[int, int]], most: int) -> tuple[list[tuple[int, int]], list[int]]:
    """Lay pieces of memory one after another into as few blocks as a limit allows.

    Args:
        needs: bytes and alignment of each piece.
        most: bytes of a block.

    Returns:
        The block and the byte in it where each piece begins, and the bytes of each block.
    """
    places: list[tuple[int, int]] = []
    blocks: list[int] = []
    for size, alignment in needs:
        start = -(-blocks[-1] // alignment) * alignment if blocks else 0
        if not blocks or start + size > most:
            blocks.append(0)
            start = 0
        places.append((len(blocks) - 1, start))
        blocks[-1] = start + size
    return places, blocks


def memory_type(types: Sequence[int], allowed: int, wishes: Iterable[int]) -> int | None:
    """The type of memory to take.

    Args:
        types: flags of each type.
        allowed: a bit for each type that will do.
        wishes: flags that it should have, the best first.
    """
    for wish in wishes:
        for at, flags in enumerate(types):
            if allowed >> at & 1 and flags & wish == wish:
                return at
    return None


class Arena:
    """Buffers that were allocated together.

    Args:
        sizes: bytes of each buffer by name.
        usage: what they are used for.
        wishes: what their memory should be, the best first.

    Attributes:
        blocks: the ``VkDeviceMemory`` of each block, and the flags of its type.
        places: the block and the byte in it where each buffer begins.

    Raises:
        VulkanError: the memory is not there.
    """

    def __init__(
        self,
        gpu: Gpu,
        objects: Objects,
        counters: Counters,
        sizes: Mapping[str, int],
        usage: int,
        wishes: Sequence[int],
    ) -> None:
        vulkan, device = gpu.api, gpu.device
        self.buffers: dict[str, Any] = {}
        needs: list[tuple[int, int]] = []
        allowed = ~0
        for name, size in sizes.items():
            made = vulkan.info("BufferCreateInfo", size=size, usage=usage)
            self.buffers[name] = objects.create("Buffer", made)
            counters.buffers += 1
            need = vulkan.ffi.new("VkMemoryRequirements *")
            vulkan.lib.vkGetBufferMemoryRequirements(device, self.buffers[name], need)
            needs.append((need.size, max(need.alignment, gpu.adapter.limits.alignment)))
            allowed &= need.memoryTypeBits
        places, blocks = divide(needs, gpu.adapter.limits.allocation)
        flags = [kind.flags for kind in gpu.adapter.memory]
        kind = memory_type(flags, allowed, wishes)
        if kind is None:
            raise DeviceError(
                f"{gpu.adapter} has no memory that is {' or '.join(f'{w:#x}' for w in wishes)}.",
                remedy="Update its driver, or choose another device (edgewise doctor lists them).",
                code="device.memory",
            )
        self.flags = flags[kind]
        self.blocks = []
        for size in blocks:
            made = vulkan.info("MemoryAllocateInfo", allocationSize=size, memoryTypeIndex=kind)
            self.blocks.append(objects.create("DeviceMemory", made))
            counters.allocations += 1
        self.places = dict(zip(sizes, places, strict=True))
        for name, (block, start) in self.places.items():
            vulkan.check(
                vulkan.lib.vkBindBufferMemory(device, self.buffers[name], self.blocks[block], start)
            )


class Buffers:
    """A program's buffers by name; sizes are rounded up to whole vectors.

    Attributes:
        sizes: bytes of each.
        allocations: of each arena, bytes of its blocks.

    Raises:
        DeviceError: ``device.memory`` where the device's memory does not hold them all.
    """

    def __init__(
        self,
        gpu: Gpu,
        objects: Objects,
        counters: Counters,
        sizes: Mapping[str, int],
        roles: Mapping[str, str],
    ) -> None:
        self.sizes = {name: -(-size // STEP) * STEP for name, size in sizes.items()}
        self.arenas: dict[str, Arena] = {}
        self._buffers: dict[str, Any] = {}
        total = sum(self.sizes.values())
        usage = STORAGE | COPIED_FROM | COPIED_TO
        remedy = "Choose a smaller context (--context), so that fewer KV pages are kept, or a "
        remedy += "smaller model or quantization."
        what = f"{gpu.adapter} does not hold the program's {total / MIB:,.0f} MiB"
        with gpu.errors(what, remedy):
            for arena in dict.fromkeys(ARENAS.values()):
                named = {n: s for n, s in self.sizes.items() if ARENAS[roles[n]] == arena}
                if named:
                    made = Arena(gpu, objects, counters, named, usage, OWN)
                    self.arenas[arena] = made
                    self._buffers |= made.buffers

    def __getitem__(self, name: str) -> Any:
        return self._buffers[name]

    def __iter__(self) -> Any:
        return iter(self._buffers.items())


class Window:
    """A buffer of memory that this process sees, too.

    Attributes:
        buffer: the ``VkBuffer``.
        bytes: the memory, uint8.
        coherent: host and device see each other's bytes without being told.

    Raises:
        VulkanError: the memory is not there.
    """

    def __init__(
        self, gpu: Gpu, objects: Objects, counters: Counters, size: int, wishes: Sequence[int]
    ) -> None:
        self._gpu = gpu
        self._objects = objects
        # So that what is made visible is whole pieces of the memory.
        self.size = -(-size // gpu.adapter.limits.atom) * gpu.adapter.limits.atom
        usage = COPIED_FROM | COPIED_TO
        arena = Arena(gpu, objects, counters, {"": self.size}, usage, wishes)
        self.buffer, (self._memory,) = arena.buffers[""], arena.blocks
        self.coherent = bool(arena.flags & COHERENT)
        vulkan, out = gpu.api, gpu.api.ffi.new("void **")
        vulkan.check(vulkan.lib.vkMapMemory(gpu.device, self._memory, 0, WHOLE, 0, out))
        self.bytes: Array = np.frombuffer(vulkan.ffi.buffer(out[0], self.size), np.uint8)

    def show(self, start: int, size: int) -> None:
        """Let the device see what the host wrote."""
        self._tell("vkFlushMappedMemoryRanges", start, size)

    def look(self, start: int, size: int) -> Array:
        """What the device wrote, in place: uint8 [size]."""
        self._tell("vkInvalidateMappedMemoryRanges", start, size)
        return self.bytes[start : start + size]

    def _tell(self, function: str, start: int, size: int) -> None:
        if self.coherent or not size:
            return
        first, count = whole_atoms(start, size, self._gpu.adapter.limits.atom)
        piece = self._gpu.api.info(
            "MappedMemoryRange", memory=self._memory, offset=first, size=count
        )
        self._gpu.check(getattr(self._gpu.api.lib, function)(self._gpu.device, 1, piece))

    def destroy(self) -> None:
        """Give the memory back; nothing may use it any more."""
        self._objects.drop("Buffer", self.buffer)
        self._objects.drop("DeviceMemory", self._memory)


def whole_atoms(start: int, size: int, atom: int) -> tuple[int, int]:
    """The first byte and the bytes of the whole pieces of memory that a range lies in."""
    first = start // atom * atom
    return first, -(-(start + size - first) // atom) * atom
