"""An opened device: its queue in order, and what programs on it share."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from edgewise_runtime.devices.vulkan import cache
from edgewise_runtime.devices.vulkan.adapter import EXTENDED, Adapter, feature_structures
from edgewise_runtime.devices.vulkan.api import FOREVER, Objects, VulkanError, api
from edgewise_runtime.errors import DeviceError

ALWAYS = frozenset({"timelineSemaphore", "robustBufferAccess"})
"""Features that every device is opened with: as in WGSL, kernels may load an element that they then
do not use, and is not there."""

FULL_SUBGROUPS = "computeFullSubgroups"
"""The one that it has where there is such a thing."""

MEMORY_ERRORS = (
    "VK_ERROR_OUT_OF_HOST_MEMORY",
    "VK_ERROR_OUT_OF_DEVICE_MEMORY",
    "VK_ERROR_OUT_OF_POOL_MEMORY",
    "VK_ERROR_FRAGMENTATION",
    "VK_ERROR_TOO_MANY_OBJECTS",
)

LOST = "VK_ERROR_DEVICE_LOST"


class Gpu:
    """A device with one queue. Whatever is submitted counts a semaphore up by one when it is done.

    Args:
        wants: what programs on it ask for, of what the adapter has; nothing else is switched on.

    Attributes:
        objects: what lives as long as it does.
        device, queue: Vulkan's handles.
        pipelines: kernels compiled so far, by module, entry point and number of buffers.
        layouts: layouts made so far, by number of buffers.
        submitted: what the semaphore will have come to when everything submitted is done.
        programs: how many are loaded on it.
        linear: whether subgroups proved to be what kernels take them for; None: nobody looked yet.
        lost: whether the device is gone, and nothing can be done with it any more.
    """

    def __init__(self, adapter: Adapter, wants: frozenset[str]) -> None:
        self.api = api()
        self.adapter = adapter
        self.wants = wants
        self.pipelines: dict[tuple[bytes, str, int], Any] = {}
        self.layouts: dict[int, tuple[Any, Any]] = {}
        self.submitted = 0
        self.lost = False
        self.programs = 0
        self.linear: bool | None = None
        self._closed = False
        self.device = self._open()
        self.objects = Objects(self.api, self.device)
        ffi, out = self.api.ffi, self.api.ffi.new("VkQueue *")
        self.api.lib.vkGetDeviceQueue(self.device, adapter.family, 0, out)
        self.queue = out[0]
        try:
            with self.errors(f"Opening {adapter}"):
                kind = self.api.info("SemaphoreTypeCreateInfo", semaphoreType=1)
                made = self.api.info("SemaphoreCreateInfo", pNext=kind)
                self._semaphore = self.objects.create("Semaphore", made)
                kept = cache.read(adapter)
                made = self.api.info(
                    "PipelineCacheCreateInfo",
                    initialDataSize=len(kept),
                    pInitialData=ffi.from_buffer(kept) if kept else ffi.NULL,
                )
                self.cache = self.objects.create("PipelineCache", made)
        except BaseException:
            self.close()
            raise
        # What every submission and every wait hands over, made once.
        self._value, self._seen = ffi.new("uint64_t[1]"), ffi.new("uint64_t *")
        self._signal = ffi.new("VkSemaphore[1]", [self._semaphore])
        timeline = self.api.info(
            "TimelineSemaphoreSubmitInfo",
            signalSemaphoreValueCount=1,
            pSignalSemaphoreValues=self._value,
        )
        self._submit = self.api.info(
            "SubmitInfo", pNext=timeline, signalSemaphoreCount=1, pSignalSemaphores=self._signal
        )
        self._wait = self.api.info(
            "SemaphoreWaitInfo",
            semaphoreCount=1,
            pSemaphores=self._signal,
            pValues=self._value,
        )

    def _open(self) -> Any:
        vulkan = self.api
        queue = vulkan.info(
            "DeviceQueueCreateInfo",
            queueFamilyIndex=self.adapter.family,
            queueCount=1,
            pQueuePriorities=vulkan.ffi.new("float[1]", [1.0]),
        )
        wants = self.wants | ALWAYS | ({FULL_SUBGROUPS} & self.adapter.has)
        extended = [name for name in EXTENDED if name in wants]
        extensions = [vulkan.text(EXTENDED[name][0]) for name in extended]
        made = vulkan.info(
            "DeviceCreateInfo",
            pNext=feature_structures(vulkan, wants, extended),
            queueCreateInfoCount=1,
            pQueueCreateInfos=queue,
            enabledExtensionCount=len(extensions),
            ppEnabledExtensionNames=vulkan.ffi.new("char *[]", extensions),
        )
        out = vulkan.ffi.new("VkDevice *")
        try:
            vulkan.check(vulkan.lib.vkCreateDevice(self.adapter.handle, made, vulkan.ffi.NULL, out))
        except VulkanError as cause:
            raise DeviceError(
                f"{self.adapter} cannot be opened: {cause}.",
                remedy="Close other programs on it, update its driver, or choose another device "
                "(edgewise doctor lists them).",
                code="device.adapter",
            ) from cause
        with vulkan.lock:
            vulkan.made["Device"] += 1
        return out[0]

    def close(self) -> None:
        """Destroy the device and all that programs shared; programs are closed before."""
        if self._closed:
            return
        self._closed = True
        vulkan = self.api
        self.rest()
        self.objects.destroy()
        vulkan.lib.vkDestroyDevice(self.device, vulkan.ffi.NULL)
        with vulkan.lock:
            vulkan.gone["Device"] += 1

    def rest(self) -> None:
        """Wait until the device does nothing any more, be it that it was lost."""
        if self.api.lib.vkDeviceWaitIdle(self.device) < 0:
            self.lost = True

    def leave(self) -> None:
        """A program on it was closed; a lost device goes with its last one."""
        self.programs -= 1
        if self.lost and not self.programs:
            self.close()

    def submit(self, commands: Sequence[Any]) -> int:
        """Hand over command buffers, to run after all that was submitted before.

        Returns:
            What to `wait` for.

        Raises:
            VulkanError: the driver does not take them.
        """
        listed = self.api.ffi.new("VkCommandBuffer[]", commands)
        self._submit.commandBufferCount = len(commands)
        self._submit.pCommandBuffers = listed
        self._value[0] = self.submitted + 1
        self.check(
            self.api.lib.vkQueueSubmit(self.queue, 1, self._submit, self.api.ffi.NULL),
        )
        self.submitted += 1
        return self.submitted

    def wait(self, value: int) -> None:
        """Wait until a submission is done.

        Raises:
            VulkanError: the device was lost meanwhile.
        """
        self._value[0] = value
        self.check(self.api.lib.vkWaitSemaphores(self.device, self._wait, FOREVER))

    def done(self) -> int:
        """The last submission that is done."""
        self.check(
            self.api.lib.vkGetSemaphoreCounterValue(self.device, self._semaphore, self._seen)
        )
        return int(self._seen[0])

    def check(self, result: int) -> int:
        """A call's result, if it is no error; remembers that the device is lost.

        Raises:
            VulkanError: it is one.
        """
        try:
            return self.api.check(result)
        except VulkanError as error:
            self.lost = self.lost or error.name == LOST
            raise

    @contextmanager
    def errors(self, what: str, remedy: str = "") -> Iterator[None]:
        """Turn what Vulkan answers inside into a DeviceError that begins with `what`.

        Raises:
            DeviceError: ``device.memory``, ``device.lost``, or ``device.kernel`` for the rest.
        """
        try:
            if self.lost:
                raise VulkanError(LOST)
            yield
        except VulkanError as cause:
            if cause.name in MEMORY_ERRORS:
                code, remedy = "device.memory", remedy or "Close other programs on the GPU."
            elif cause.name == LOST:
                self.lost, code = True, "device.lost"
                remedy = "Load the model again. If it happens again, update the GPU's driver."
            else:
                code = "device.kernel"
            raise DeviceError(f"{what}: {cause}.", remedy=remedy, code=code) from cause


_open: dict[tuple[int, int, frozenset[str]], Gpu] = {}


def open_gpu(adapter: Adapter, wants: frozenset[str]) -> Gpu:
    """The process's device of an adapter with what programs want of it: opened once, and once more
    after it was lost.

    Programs that want the same share it, and with it the kernels it has compiled.
    """
    key = (os.getpid(), adapter.index, wants)
    found = _open.get(key)
    if found is not None and found.lost:
        del _open[key]
        if not found.programs:
            found.close()
        found = None
    if found is None:
        found = _open[key] = Gpu(adapter, wants)
    return found


def close_gpus() -> None:
    """Close every device of this process; their programs are closed before."""
    for key in [key for key in _open if key[0] == os.getpid()]:
        _open.pop(key).close()
