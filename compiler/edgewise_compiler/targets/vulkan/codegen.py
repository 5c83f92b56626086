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

What it asks of a device, by the names of Vulkan's features (`variants.features_of`), is what its
program says and no more: shaderFloat16 with storageBuffer16BitAccess, shaderIntegerDotProduct, and
shuffles and arithmetic of subgroups in compute shaders, where subgroups are consecutive threads of
the workgroup (VK_EXT_subgroup_size_control: full subgroups). As in WGSL, the arms of a choice may
be loaded both, so robustBufferAccess has to be on.
"""

from __future__ import annotations

ENTRY = "main"
"""The entry point of every module."""
