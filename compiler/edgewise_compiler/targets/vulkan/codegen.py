"""GPU kernels to SPIR-V, one module a kernel, by a code generator of our own.

What a kernel's file (``.spv``) is, for whoever launches it:
  * one SPIR-V 1.3 module of little-endian words, for Vulkan 1.1 and later;
  * one entry point `ENTRY`, GLCompute, whose name is the kernel's ``symbol`` in plans too;
  * the size of a workgroup is a literal in it (execution mode LocalSize), x only;
  * argument i is a storage buffer: descriptor set 0, binding i, all of them, in order; those that
    the kernel only reads decorated NonWritable. There is no other binding, no push constant and no
    specialization constant;
  * a grid has x and y, each at most 65535, and z is 1. Nothing is folded;
  * no two arguments may overlap in memory (Restrict).

What it asks of a device is what its program says it needs (`variants.features_of`) and no more.
Subgroups are consecutive threads of the workgroup. As in WGSL, both arms of a choice may be loaded,
so robustBufferAccess has to be on.
"""

from __future__ import annotations

from functools import lru_cache

from tvm.tirx import PrimFunc

from edgewise_compiler.kernels.gpu.limits import check_limits
from edgewise_compiler.targets.gpu.passes import access_of, threads_of
from edgewise_compiler.targets.gpu.shader import Shader
from edgewise_compiler.targets.vulkan.limits import LIMITS
from edgewise_compiler.targets.vulkan.statements import assemble
from edgewise_runtime.errors import CompileError

ENTRY = "main"
"""The entry point of every module."""


@lru_cache(maxsize=2048)
def shader(function: PrimFunc) -> Shader:
    """Generate the SPIR-V of one kernel; programs of one process that share a kernel do it once.

    Raises:
        CompileError: it is beyond Vulkan's limits, asks for an operation that SPIR-V has no
            spelling for, or computes in what SPIR-V kernels do not.
    """
    check_limits(function, LIMITS)
    threads = threads_of(function)
    try:
        binary = assemble(function, ENTRY, threads)
    except CompileError as cause:
        name = str(function.attrs["global_symbol"])
        message = f"Kernel {name!r} has no SPIR-V: {cause}"
        raise CompileError(message, remedy=cause.remedy, code=cause.code) from cause
    return Shader("", ENTRY, threads, access_of(function), binary)
