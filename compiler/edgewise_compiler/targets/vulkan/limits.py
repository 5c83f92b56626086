"""What Vulkan gives a kernel on the devices that programs are made for."""

from __future__ import annotations

from edgewise_compiler.kernels.gpu.limits import Limits

LIMITS = Limits(
    "Vulkan",
    buffers=8,
    threads=256,
    shared=16 << 10,
    workgroups=65535,
    binding=128 << 20,
)
"""``maxPerStageDescriptorStorageBuffers``, ``maxComputeWorkGroupInvocations`` and
``maxComputeWorkGroupSize`` in x, ``maxComputeSharedMemorySize``, ``maxComputeWorkGroupCount`` and
``maxStorageBufferRange``. Vulkan itself promises 4 buffers and 128 threads; a device without the 8
and 256 that WebGPU asks of all is no target."""
