"""What CUDA gives a kernel on every device that CUDA 12 knows, and no more is asked for."""

from __future__ import annotations

from edgewise_compiler.kernels.gpu.limits import Limits

LIMITS = Limits(
    "CUDA",
    buffers=64,
    threads=1024,
    shared=48 << 10,
    workgroups=65535,
    binding=(1 << 31) - 1,
)
"""Threads of a block, its static shared memory and blocks in y as the CUDA C++ Programming Guide
has them (in x there may be more). A pointer takes eight of the 4096 bytes of arguments; a buffer
has no bound but that kernels count its elements in 32 bits."""

WARP = 32
"""Threads of a warp."""
