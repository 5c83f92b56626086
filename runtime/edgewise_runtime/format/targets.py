"""The targets that bundles have programs for: what both sides of a bundle must know of each.

A target is one entry here. How its programs are made is an entry in the compiler's own table, what
runs them one in the table of devices; both refer to this one by name. A bundle may have programs
for targets that are not here: their part of the manifest is read, and nothing ever chooses them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KernelLimits:
    """What a kernel may have at most: buffer arguments, and workgroups in x, y and z."""

    buffers: int
    workgroups: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Target:
    """What code is generated for.

    Attributes:
        name: in manifests, in plans and on the command line.
        about: what its programs are, for help texts.
        processor: the kind of processor that runs them, as people call it.
        native: nothing but the code itself keeps it inside its buffers, so it is loaded only when
            trusted (`trust`).
        one_library: all kernels of a program are its ``library``; else each kernel has a file of
            its own in ``shaders``.
        same_bits: its programs of one arithmetic and one kind of pages promise the same bits.
        host: every plan has a compiled function that launches all of it.
        largest_file: bytes of the library, or of a kernel's file, at most.
        limits: what its kernels may have at most, None where the code generator knows.
    """

    name: str
    about: str
    processor: str
    native: bool
    one_library: bool = False
    host: bool = False
    same_bits: bool = False
    largest_file: int = 1 << 26
    limits: KernelLimits | None = None


TARGETS: Mapping[str, Target] = {
    target.name: target
    for target in (
        Target(
            "cpu",
            "libraries for processors",
            "CPU",
            native=True,
            one_library=True,
            host=True,
            same_bits=True,
            largest_file=1 << 30,
        ),
        # Compilers of WGSL keep every access inside its buffer: its programs are data. The limits
        # are WebGPU's defaults; the longest kernel has 70 KB.
        Target(
            "webgpu",
            "WGSL, for browsers and for GPUs by Vulkan, Metal or Direct3D 12",
            "GPU",
            native=False,
            largest_file=128 << 10,
            limits=KernelLimits(buffers=8, workgroups=(65535, 65535, 1)),
        ),
        # The longest kernel has 52 KB.
        Target("vulkan", "SPIR-V, for GPUs by Vulkan", "GPU", native=True, largest_file=1 << 20),
        Target("cuda", "fatbins, for NVIDIA's GPUs", "GPU", native=True),
        # MSL is text, but its pointers reach whatever they are made to point at.
        Target("metal", "MSL, for Apple's GPUs", "GPU", native=True),
    )
}
"""By name, in the order in which texts list them."""


def is_native(name: str) -> bool:
    """Whether a target's programs load only when trusted; those of unknown targets would, too."""
    return name not in TARGETS or TARGETS[name].native


def processor_of(name: str) -> str:
    """The kind of processor that runs a target's programs; of an unknown target, its name."""
    return TARGETS[name].processor if name in TARGETS else name
