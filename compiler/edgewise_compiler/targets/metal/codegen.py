"""Metal Shading Language of one kernel.

A text is one kernel by itself:

    #include <metal_stdlib>
    using namespace metal;
    [fast math off]                                           # `prelude`, for Metal 3.2
    [functions]                                               # where they are used
    [[max_total_threads_per_threadgroup(THREADS)]] kernel void NAME(
        device const float4* b0_x [[buffer(0)]],              # an argument that is only read
        device float* b1_y [[buffer(1)]],                     # one that is written
        uint3 group [[threadgroup_position_in_grid]],
        uint index [[thread_index_in_threadgroup]]) {
      threadgroup float s1[128];
      const int x = int(group.x);                             # workgroup in x and y, thread
      ...
    }

NAME is the kernel's own. It is dispatched with a grid of two dimensions and THREADS x 1 x 1
threads, no threadgroup memory of the encoder's, and a buffer for each argument in order. Whoever
compiles it before Metal 3.2 turns fast math off.

No text was ever compiled by Apple's compiler: there was no Mac. The tests execute them by an
emulator, and hold the numbers to those of the other languages.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from tvm.tirx import PrimFunc

from edgewise_compiler.targets.gpu.clike.printer import ClikePrinter
from edgewise_compiler.targets.gpu.shader import Shader
from edgewise_compiler.targets.metal import limits, prelude, spelling
from edgewise_compiler.targets.metal.limits import LIMITS
from edgewise_compiler.targets.metal.spelling import MSL

_DRIVERS = tuple(Path(file) for file in (limits.__file__, prelude.__file__, spelling.__file__))

PRINTER = ClikePrinter(MSL, LIMITS, _DRIVERS)


@lru_cache(maxsize=2048)
def shader(function: PrimFunc) -> Shader:
    """Generate the MSL of one kernel; programs of one process that share a kernel do it once.

    Raises:
        CompileError: it is beyond Metal's limits, or asks for what MSL has no spelling for.
    """
    return PRINTER.shader(function)
