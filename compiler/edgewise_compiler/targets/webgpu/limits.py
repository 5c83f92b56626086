"""What WebGPU gives a kernel on every device: its default limits, and no more is asked for."""

from __future__ import annotations

from edgewise_compiler.kernels.gpu.limits import Limits

LIMITS = Limits(
    "WebGPU",
    buffers=8,
    threads=256,
    shared=16 << 10,
    workgroups=65535,
    binding=128 << 20,
)
"""``maxStorageBuffersPerShaderStage``, ``maxComputeInvocationsPerWorkgroup``,
``maxComputeWorkgroupStorageSize``, ``maxComputeWorkgroupsPerDimension`` and
``maxStorageBufferBindingSize``."""
