"""What Metal gives a kernel on every Mac with a processor of Apple's."""

from __future__ import annotations

from edgewise_compiler.kernels.gpu.limits import Limits

LIMITS = Limits(
    "Metal",
    buffers=31,
    threads=1024,
    shared=32 << 10,
    workgroups=65535,
    binding=256 << 20,
)
"""Buffer arguments, threads of a threadgroup and its memory as the Metal Feature Set Tables have
them for the family Apple7, which M1 is of. Devices say for themselves how large a buffer may be;
none says less than 256 MiB."""
