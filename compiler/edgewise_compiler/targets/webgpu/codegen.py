"""GPU kernels to WGSL, one shader a kernel, by TVM's code generator for WebGPU."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from tvm.tirx import PrimFunc

from edgewise_compiler.targets.gpu.codegen import Printer
from edgewise_compiler.targets.gpu.registers import MARK
from edgewise_compiler.targets.gpu.shader import Shader
from edgewise_compiler.targets.webgpu.limits import LIMITS
from edgewise_compiler.targets.webgpu.spelling import WGSL
from edgewise_runtime.errors import CompileError

_ONCE = rf"{MARK}(?:_\d+)?"
_DECLARED = re.compile(rf"^ *var ({_ONCE}) : array<(.+), 1>;\n", re.M)
_WRITTEN = re.compile(rf"^( *)({_ONCE})\[0i\] = ", re.M)
_READ = re.compile(rf"\b({_ONCE})\[0i\]")


def bind(text: str) -> str:
    """``text`` with a ``let`` in place of every array that `registers.marked` has marked.

    Raises:
        CompileError: one is not declared and written once each.
    """
    types = dict(_DECLARED.findall(text))
    written = [name for _, name in _WRITTEN.findall(text)]
    if sorted(written) != sorted(types):
        raise CompileError("Registers of a kernel are not written once each in its WGSL.")
    text = _WRITTEN.sub(lambda m: f"{m[1]}let {m[2]} : {types[m[2]]} = ", _DECLARED.sub("", text))
    return _READ.sub(r"\1", text)


PRINTER = Printer("WGSL", "webgpu", WGSL, LIMITS, bind, (Path(__file__),))

_BINDING = re.compile(r"@binding\((\d+)\) var<storage, (read|read_write)> b(\d+)_\w+ :")


@lru_cache(maxsize=2048)
def shader(function: PrimFunc) -> Shader:
    """Generate the WGSL of one kernel; programs of one process that share a kernel do it once.

    The arguments are the storage buffers 0, 1, … of group 0, in order. After them comes a uniform
    of one uint32, the last workgroup in x (TVM folds larger grids into z); 2**32 - 1 is right for
    every grid without z.

    Raises:
        CompileError: it is beyond WebGPU's default limits, asks for an operation that WGSL has no
            spelling for, or TVM cannot express it.
    """
    name = str(function.attrs["global_symbol"])
    subgroups = bool(function.attrs["edgewise.subgroups"])
    made = PRINTER.shader(function, supports_subgroups=subgroups)
    bindings = _BINDING.findall(made.source)
    if any(place != argument for place, _, argument in bindings):
        raise CompileError(f"The WGSL of kernel {name!r} does not keep its arguments in order.")
    if len(bindings) != len(function.params):
        raise CompileError(f"Kernel {name!r} does not use all of its arguments.")
    entry = "@compute @workgroup_size({}, {}, {})\nfn {}(".format(*made.workgroup, made.entry)
    if entry not in made.source or made.access != tuple(access for _, access, _ in bindings):
        raise CompileError(f"The WGSL of kernel {name!r} declares another kernel.")
    return made
