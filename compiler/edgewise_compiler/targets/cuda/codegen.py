"""CUDA C of one kernel.

A text is one kernel by itself, without ``#include``:

    [functions of vectors, of float16]                        # `prelude`, where they are used
    extern "C" __global__ void __launch_bounds__(THREADS) NAME(
        const float4* __restrict__ b0_x,                      # an argument that is only read
        float* __restrict__ b1_y) {                           # one that is written
      __shared__ float s1[128];
      const int x = (int)blockIdx.x;                          # workgroup in x and y, thread
      const int y = (int)blockIdx.y;
      const int t = (int)threadIdx.x;
      ...
    }

NAME is the kernel's own. It is launched with a grid of two dimensions and THREADS x 1 x 1 threads,
no dynamic shared memory, and a pointer for each argument in order. It has to be compiled without
contraction of floats, fast math or flushing (``-fmad=false``, and the defaults otherwise): what is
one operation is `__fmaf_rn`, and sums are rounded where the text has them.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from tvm.tirx import PrimFunc

from edgewise_compiler.targets.cuda import limits, prelude, spelling
from edgewise_compiler.targets.cuda.limits import LIMITS, WARP
from edgewise_compiler.targets.cuda.spelling import CUDA
from edgewise_compiler.targets.gpu.clike.printer import ClikePrinter
from edgewise_compiler.targets.gpu.shader import Shader
from edgewise_runtime.errors import CompileError

_DRIVERS = tuple(Path(file) for file in (limits.__file__, prelude.__file__, spelling.__file__))

PRINTER = ClikePrinter(CUDA, LIMITS, _DRIVERS)


@lru_cache(maxsize=2048)
def shader(function: PrimFunc) -> Shader:
    """Generate the CUDA C of one kernel; programs of one process that share a kernel do it once.

    Raises:
        CompileError: it is beyond CUDA's limits, asks for what CUDA C has no spelling for, or uses
            subgroups where its threads are no whole warps.
    """
    made = PRINTER.shader(function)
    if function.attrs["edgewise.subgroups"] and made.workgroup[0] % WARP:
        raise CompileError(
            f"Kernel {made.entry!r} has {made.workgroup[0]} threads, which are no whole warps.",
            remedy=f"Give kernels with subgroups a multiple of {WARP} threads.",
            code="compile.limits",
        )
    return made
