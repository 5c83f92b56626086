"""GPU kernels to WGSL, one shader a kernel, by TVM's code generator for WebGPU."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import tvm
from tvm import s_tir, tirx
from tvm.target import Target
from tvm.tirx import PrimFunc

from edgewise_compiler.kernels.gpu.limits import check_limits
from edgewise_compiler.targets.gpu.spelling import spelled
from edgewise_compiler.targets.kept import kept
from edgewise_compiler.targets.webgpu.limits import LIMITS
from edgewise_compiler.targets.webgpu.spelling import WGSL
from edgewise_runtime.errors import CompileError

_DEVICE_FUNCTION = 2  # TVM's calling convention of what a GPU launches
_ENTRY = re.compile(r"@workgroup_size\((\d+), (\d+), (\d+)\)\s*fn (\w+)\(")
_BINDING = re.compile(r"@binding\((\d+)\) var<storage, (read|read_write)> b(\d+)_\w+ :")


@dataclass(frozen=True)
class Shader:
    """A kernel as text: WGSL source, entry point, threads a workgroup, access per argument.

    The arguments are the storage buffers 0, 1, … of group 0, in order. After them comes a uniform
    of one uint32, the last workgroup in x (TVM folds larger grids into z); 2**32 - 1 is right for
    every grid without z.
    """

    source: str
    entry: str
    workgroup: tuple[int, int, int]
    access: tuple[str, ...]


@cache
def _target(subgroups: bool) -> Target:
    # A warp of one thread keeps TVM from writing warp-synchronous code of its own.
    attributes = {
        "kind": "webgpu",
        "max_num_threads": LIMITS.threads,
        "max_shared_memory_per_block": LIMITS.shared,
        "thread_warp_size": 1,
        "supports_subgroups": subgroups,
    }
    return Target(attributes, host="llvm")


@lru_cache(maxsize=2048)
def shader(function: PrimFunc) -> Shader:
    """Generate the WGSL of one kernel; programs of one process that share a kernel do it once.

    Raises:
        CompileError: it is beyond WebGPU's default limits, asks for an operation that WGSL has no
            spelling for, or TVM cannot express it.
    """
    name = str(function.attrs["global_symbol"])
    check_limits(function, LIMITS)
    function = spelled(function, WGSL, "WGSL")
    target = _target(bool(function.attrs["edgewise.subgroups"]))
    module = tvm.IRModule({name: function})
    made = kept(lambda: _generate(name, module, target), module, target, Path(__file__))
    source = made.decode()
    entry = _ENTRY.search(source)
    bindings = _BINDING.findall(source)
    if entry is None or any(place != argument for place, _, argument in bindings):
        raise CompileError(f"The WGSL of kernel {name!r} does not keep its arguments in order.")
    if len(bindings) != len(function.params):
        raise CompileError(f"Kernel {name!r} does not use all of its arguments.")
    x, y, z = (int(size) for size in entry.groups()[:3])
    return Shader(source, entry[4], (x, y, z), tuple(access for _, access, _ in bindings))


def _generate(name: str, module: tvm.IRModule, target: Target) -> bytes:
    try:
        return _wgsl(module, target).encode()
    except Exception as cause:
        # The first line of TVM's errors says nothing; the last one does.
        why = str(cause).strip().splitlines()[-1:] or [type(cause).__name__]
        raise CompileError(f"Kernel {name!r} has no WGSL: {why[0]}") from cause


def _wgsl(module: tvm.IRModule, target: Target) -> str:
    passes = (
        tirx.transform.BindTarget(target),
        s_tir.transform.ConvertBlocksToOpaque(),
        s_tir.transform.LowerOpaqueBlock(),
        tirx.transform.FlattenBuffer(),
        tirx.transform.NarrowDataType(32),
        tirx.transform.VectorizeLoop(),
        tirx.transform.UnrollLoop(),
        # No simplifier: it inlines bound values and takes floats for real numbers. No ThreadSync:
        # kernels place their barriers.
        tirx.transform.AnnotateEntryFunc(),
        tirx.transform.SplitHostDevice(),
    )
    for step in passes:
        module = step(module)
    device = {
        symbol: lowered
        for symbol, lowered in module.functions.items()
        if int(lowered.attrs.get("calling_conv", 0)) == _DEVICE_FUNCTION
    }
    lowered = tirx.transform.LowerIntrin()(tvm.IRModule(device))
    built = tvm.get_global_func("target.build.webgpu")(lowered, target)
    # TVM repeats its comments and writes blank lines.
    lines = [line.rstrip() for line in str(built.inspect_source()).splitlines()]
    return "\n".join(line for line in lines if line and not line.startswith("//")) + "\n"
