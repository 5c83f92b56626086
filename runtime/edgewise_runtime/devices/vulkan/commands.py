"""Command buffers: what is recorded once, and what a device is told to wait for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from edgewise_runtime.devices.vulkan.api import WHOLE, Objects
from edgewise_runtime.devices.vulkan.gpu import Gpu

RESETTABLE = 2
"""Of a command pool: its buffers are recorded anew one by one."""

AGAIN = 4
"""Of a recording: it may be submitted again before the last submission is done."""

COMPUTE, TRANSFER, HOST = 0x800, 0x1000, 0x4000
"""Stages, and how they access memory:"""
SHADER_READ, SHADER_WRITE = 0x20, 0x40
COPY_READ, COPY_WRITE, HOST_READ = 0x800, 0x1000, 0x2000


class Commands:
    """A program's command pool, and the barriers that it records."""

    def __init__(self, gpu: Gpu, objects: Objects) -> None:
        self.gpu = gpu
        vulkan = gpu.api
        made = vulkan.info(
            "CommandPoolCreateInfo", flags=RESETTABLE, queueFamilyIndex=gpu.adapter.family
        )
        self.pool = objects.create("CommandPool", made)
        self._launches = self._barrier(SHADER_WRITE, SHADER_READ | SHADER_WRITE)
        self._all = self._barrier(
            SHADER_WRITE | COPY_WRITE, SHADER_READ | SHADER_WRITE | COPY_READ | COPY_WRITE
        )
        self._home = self._barrier(COPY_WRITE, HOST_READ)

    def _barrier(self, before: int, after: int) -> Any:
        return self.gpu.api.info("MemoryBarrier", srcAccessMask=before, dstAccessMask=after)

    def make(self) -> Any:
        """A new command buffer."""
        vulkan = self.gpu.api
        made = vulkan.info(
            "CommandBufferAllocateInfo", commandPool=self.pool, level=0, commandBufferCount=1
        )
        out = vulkan.ffi.new("VkCommandBuffer[1]")
        vulkan.check(vulkan.lib.vkAllocateCommandBuffers(self.gpu.device, made, out))
        return out[0]

    def free(self, commands: Any) -> None:
        """Give a command buffer back that is not under way any more."""
        listed = self.gpu.api.ffi.new("VkCommandBuffer[1]", [commands])
        self.gpu.api.lib.vkFreeCommandBuffers(self.gpu.device, self.pool, 1, listed)

    def begin(self, commands: Any, flags: int) -> None:
        """Begin a recording, with everything that was submitted before it done and seen."""
        made = self.gpu.api.info("CommandBufferBeginInfo", flags=flags)
        self.gpu.api.check(self.gpu.api.lib.vkBeginCommandBuffer(commands, made))
        self.after_all(commands)

    def end(self, commands: Any) -> None:
        """End a recording."""
        self.gpu.api.check(self.gpu.api.lib.vkEndCommandBuffer(commands))

    def after_launches(self, commands: Any) -> None:
        """Let launches wait for those before, and see what they wrote."""
        self._order(commands, COMPUTE, COMPUTE, self._launches)

    def after_all(self, commands: Any) -> None:
        """Let launches and copies wait for those before, and see what they wrote."""
        self._order(commands, COMPUTE | TRANSFER, COMPUTE | TRANSFER, self._all)

    def bring_home(self, commands: Any) -> None:
        """Let the host see what was copied."""
        self._order(commands, TRANSFER, HOST, self._home)

    def _order(self, commands: Any, before: int, after: int, barrier: Any) -> None:
        null = self.gpu.api.ffi.NULL
        self.gpu.api.lib.vkCmdPipelineBarrier(
            commands, before, after, 0, 1, barrier, 0, null, 0, null
        )

    def copy(
        self, commands: Any, source: Any, target: Any, pieces: Iterable[tuple[int, int, int]]
    ) -> None:
        """Copy pieces from a buffer to another or within it: from where, to where, how many bytes.

        Pieces of one call must not lie on each other.
        """
        regions = self.gpu.api.ffi.new("VkBufferCopy[]", list(pieces))
        self.gpu.api.lib.vkCmdCopyBuffer(commands, source, target, len(regions), regions)

    def clear(self, commands: Any, buffer: Any) -> None:
        """Make a whole buffer zero."""
        self.gpu.api.lib.vkCmdFillBuffer(commands, buffer, 0, WHOLE, 0)
