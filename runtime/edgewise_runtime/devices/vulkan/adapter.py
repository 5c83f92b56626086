"""Physical devices of this machine, by Vulkan: which there are, and what programs get from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from edgewise_runtime.devices.index import by_index
from edgewise_runtime.devices.vulkan.api import VERSION, Api, api
from edgewise_runtime.errors import DeviceError
from edgewise_runtime.format.abi import MAX_BINDING

KINDS = {2: "discrete", 1: "integrated", 3: "virtual", 0: "virtual", 4: "cpu"}
"""Kinds of devices by ``VkPhysicalDeviceType``, the preferred first; a ``cpu`` is a driver that
needs no GPU."""

COMPUTE = 2
"""Of a queue family's flags, and of the shader stages that have subgroup operations: 32."""
COMPUTE_STAGE = 32

SUBGROUP_OPERATIONS = {
    1: "subgroup basic",
    2: "subgroup vote",
    4: "subgroup arithmetic",
    8: "subgroup ballot",
    16: "subgroup shuffle",
    32: "subgroup shuffle relative",
}
"""``VkSubgroupFeatureFlagBits``, by the names of `spirv.CAPABILITIES`."""

FEATURES: Mapping[str, str] = {
    "robustBufferAccess": "",
    "shaderInt16": "",
    "shaderInt64": "",
    "storageBuffer16BitAccess": "Vulkan11",
    "storageBuffer8BitAccess": "Vulkan12",
    "shaderFloat16": "Vulkan12",
    "shaderInt8": "Vulkan12",
    "vulkanMemoryModel": "Vulkan12",
    "timelineSemaphore": "Vulkan12",
}
"""Features that modules ask for, by the structure that has them, the oldest without a name."""

EXTENDED: Mapping[str, tuple[str, str]] = {
    "shaderIntegerDotProduct": (
        "VK_KHR_shader_integer_dot_product",
        "PhysicalDeviceShaderIntegerDotProductFeatures",
    ),
    "computeFullSubgroups": (
        "VK_EXT_subgroup_size_control",
        "PhysicalDeviceSubgroupSizeControlFeatures",
    ),
}
"""Features of extensions, which Vulkan 1.3 made a part of itself: the extension and the
structure."""

PROPERTIES = {
    "shaderSignedZeroInfNanPreserveFloat32": "shaderSignedZeroInfNanPreserve",
    "shaderRoundingModeRTEFloat32": "shaderRoundingModeRTE",
}
"""Promises about floats that modules ask for, which no device has to be asked to keep."""

PROGRAM_FEATURES: Mapping[str, frozenset[str]] = {
    "shader-f16": frozenset({"shaderFloat16", "storageBuffer16BitAccess"}),
    "subgroups": frozenset({"subgroup basic", "subgroup arithmetic", "subgroup shuffle"}),
    "packed_4x8_integer_dot_product": frozenset({"shaderIntegerDotProduct"}),
}
"""What programs may need, and what of a device that takes."""


@dataclass(frozen=True)
class Limits:
    """What a device allows.

    Attributes:
        binding: bytes of a buffer that a kernel can see.
        allocation: bytes of memory taken at once.
        buffers: of a kernel.
        threads: of a workgroup; `size` of them in x, y and z.
        groups: workgroups of a launch in x, y and z.
        shared: bytes of a workgroup's memory.
        alignment: of what a kernel sees of a buffer, in bytes.
        atom: bytes that memory is made visible by where that is not done for us.
        subgroup: threads of a subgroup.
    """

    binding: int
    allocation: int
    buffers: int
    threads: int
    size: tuple[int, int, int]
    groups: tuple[int, int, int]
    shared: int
    alignment: int
    atom: int
    subgroup: int


@dataclass(frozen=True)
class MemoryType:
    """A kind of memory: its ``VkMemoryPropertyFlags`` and the bytes of its heap."""

    flags: int
    heap: int


@dataclass(frozen=True)
class Adapter:
    """One physical device. `index` is what people choose it by; the best one has 0.

    Attributes:
        kind: ``discrete``, ``integrated``, ``virtual`` or ``cpu``.
        driver: its name and version.
        has: what it has of what modules ask for, see `spirv.CAPABILITIES`.
        memory: its types, in its order.
        family: the queue family that computes.
        cache: vendor, device and id that a pipeline cache of it begins with.
        handle: the ``VkPhysicalDevice``.
    """

    index: int
    name: str
    kind: str
    driver: str
    has: frozenset[str]
    limits: Limits
    memory: tuple[MemoryType, ...]
    family: int
    cache: tuple[int, int, bytes]
    handle: Any

    def __str__(self) -> str:
        return f"{self.name} ({self.kind}, Vulkan)"

    @property
    def features(self) -> frozenset[str]:
        """What it has by the names programs use; subgroups have to prove themselves yet."""
        return frozenset(name for name, wants in PROGRAM_FEATURES.items() if wants <= self.has)

    @property
    def local_heap(self) -> int:
        """Bytes of the largest heap that is the device's own."""
        return max((kind.heap for kind in self.memory if kind.flags & 1), default=0)


def adapters() -> tuple[Adapter, ...]:
    """The devices of this machine that can run programs, the best first.

    Raises:
        DeviceError: ``device.vulkan``, ``device.adapter`` without a Vulkan loader or instance.
    """
    vulkan = api()
    handles = vulkan.listed("vkEnumeratePhysicalDevices", "PhysicalDevice", vulkan.instance)
    return in_order(found for handle in handles if (found := _looked_at(vulkan, handle)))


def in_order(found: Iterable[Adapter]) -> tuple[Adapter, ...]:
    """The best kind first, otherwise as the system has them; counted anew."""
    kinds = list(dict.fromkeys(KINDS.values()))
    ordered = sorted(found, key=lambda adapter: kinds.index(adapter.kind))
    return tuple(replace(adapter, index=index) for index, adapter in enumerate(ordered))


def _looked_at(vulkan: Api, handle: Any) -> Adapter | None:
    """A physical device, or None where it is too old or does not compute."""
    ffi, lib = vulkan.ffi, vulkan.lib
    old = ffi.new("VkPhysicalDeviceProperties *")
    lib.vkGetPhysicalDeviceProperties(handle, old)
    if (old.apiVersion >> 22, old.apiVersion >> 12 & 1023) < VERSION:
        return None
    families = vulkan.listed(
        "vkGetPhysicalDeviceQueueFamilyProperties", "QueueFamilyProperties", handle
    )
    computing = [at for at, family in enumerate(families) if family.queueFlags & COMPUTE]
    if not computing:
        return None
    new = vulkan.info("PhysicalDeviceVulkan11Properties")
    newer = vulkan.info("PhysicalDeviceVulkan12Properties", pNext=new)
    lib.vkGetPhysicalDeviceProperties2(
        handle, vulkan.info("PhysicalDeviceProperties2", pNext=newer)
    )
    memory = ffi.new("VkPhysicalDeviceMemoryProperties *")
    lib.vkGetPhysicalDeviceMemoryProperties(handle, memory)
    driver = (ffi.string(part).decode() for part in (newer.driverName, newer.driverInfo))
    return Adapter(
        index=0,
        name=ffi.string(old.deviceName).decode() or "unnamed device",
        kind=KINDS.get(old.deviceType, "virtual"),
        driver=" ".join(part for part in (*driver, f"({old.driverVersion:#x})") if part),
        has=_features(vulkan, handle) | _promises(new, newer),
        limits=_limits(old.limits, new),
        memory=tuple(
            MemoryType(kind.propertyFlags, memory.memoryHeaps[kind.heapIndex].size)
            for kind in (memory.memoryTypes[at] for at in range(memory.memoryTypeCount))
        ),
        family=computing[0],
        cache=(old.vendorID, old.deviceID, bytes(old.pipelineCacheUUID)),
        handle=handle,
    )


def feature_structures(vulkan: Api, wanted: Iterable[str], extended: Iterable[str]) -> Any:
    """``VkPhysicalDeviceFeatures2`` with some of `FEATURES` set, and what follows it: among them a
    structure for each of some of `EXTENDED`, set where it is wanted."""
    fields: dict[str, dict[str, int]] = {"": {}, "Vulkan11": {}, "Vulkan12": {}}
    wishes = set(wanted)
    for name in wishes & FEATURES.keys():
        fields[FEATURES[name]][name] = 1
    last = vulkan.ffi.NULL
    for name in extended:
        _, kind = EXTENDED[name]
        last = vulkan.info(kind, pNext=last, **{name: int(name in wishes)})
    newer = vulkan.info("PhysicalDeviceVulkan12Features", pNext=last, **fields["Vulkan12"])
    new = vulkan.info("PhysicalDeviceVulkan11Features", pNext=newer, **fields["Vulkan11"])
    return vulkan.info("PhysicalDeviceFeatures2", pNext=new, features=fields[""])


def _features(vulkan: Api, handle: Any) -> frozenset[str]:
    null = vulkan.ffi.NULL
    extensions = {
        vulkan.ffi.string(item.extensionName).decode()
        for item in vulkan.listed(
            "vkEnumerateDeviceExtensionProperties", "ExtensionProperties", handle, null
        )
    }
    offered = [name for name, (extension, _) in EXTENDED.items() if extension in extensions]
    found = feature_structures(vulkan, (), offered)
    vulkan.lib.vkGetPhysicalDeviceFeatures2(handle, found)
    new = vulkan.ffi.cast("VkPhysicalDeviceVulkan11Features *", found.pNext)
    newer = vulkan.ffi.cast("VkPhysicalDeviceVulkan12Features *", new.pNext)
    holders = {"": found.features, "Vulkan11": new, "Vulkan12": newer}
    has = {name for name, of in FEATURES.items() if getattr(holders[of], name)}
    following = newer.pNext
    for name in reversed(offered):
        structure = vulkan.ffi.cast(f"Vk{EXTENDED[name][1]} *", following)
        has |= {name} if getattr(structure, name) else set()
        following = structure.pNext
    return frozenset(has)


def _promises(new: Any, newer: Any) -> frozenset[str]:
    """Subgroup operations and float controls."""
    stage = new.subgroupSupportedStages & COMPUTE_STAGE
    operations = new.subgroupSupportedOperations if stage else 0
    return frozenset(
        name for bit, name in SUBGROUP_OPERATIONS.items() if operations & bit
    ) | frozenset(name for field, name in PROPERTIES.items() if getattr(newer, field))


def _limits(old: Any, new: Any) -> Limits:
    x, y, z = old.maxComputeWorkGroupSize
    across, down, deep = old.maxComputeWorkGroupCount
    return Limits(
        binding=min(old.maxStorageBufferRange, MAX_BINDING) & ~3,
        allocation=new.maxMemoryAllocationSize,
        buffers=min(old.maxPerStageDescriptorStorageBuffers, old.maxDescriptorSetStorageBuffers),
        threads=old.maxComputeWorkGroupInvocations,
        size=(x, y, z),
        groups=(across, down, deep),
        shared=old.maxComputeSharedMemorySize,
        alignment=old.minStorageBufferOffsetAlignment,
        atom=old.nonCoherentAtomSize,
        subgroup=new.subgroupSize,
    )


def some_adapters() -> tuple[Adapter, ...]:
    """The devices of this machine, at least one.

    Raises:
        DeviceError: ``device.vulkan``; ``device.adapter`` where there is none.
    """
    found = adapters()
    if not found:
        raise DeviceError(
            "This machine has no device with Vulkan 1.2 that computes.",
            remedy="Install or update the GPU's driver, or a software one such as Mesa's "
            "lavapipe (apt install mesa-vulkan-drivers).",
            code="device.adapter",
        )
    return found


def choose_adapter(index: int | None) -> Adapter:
    """The device with an index, None for the best.

    Raises:
        DeviceError: ``device.adapter`` where there is none, listing those there are.
    """
    return by_index(some_adapters(), index, "Vulkan device", "Devices")
