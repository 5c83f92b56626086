"""Runs subgroup kernels as if subgroups had another width than the test adapter's.

How it works: the kernel's WGSL is rewritten so that it has no subgroup operations left.
``subgroupAdd(1u)`` (`thread.subgroup_size`) becomes the wanted width, at most the workgroup's
threads as on a device whose subgroups are larger than that. ``subgroupShuffleXor``
(`thread.shuffle_xor`) becomes a function that exchanges values through workgroup memory, with a
barrier before and after the read; a thread beyond the subgroup is answered with `ELSEWHERE`, which
no result may depend on.

What it cannot show: the barriers of the exchange also order the kernel's own shared memory, so a
barrier that the kernel lacks may go unnoticed here. Run kernels by `tests.gpu.run` as well. The
exchange takes 4 to 16 bytes a thread of the 16 KiB of workgroup memory.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from edgewise_compiler.kernels.gpu.thread import Launch
from edgewise_compiler.targets.gpu.shader import Shader
from edgewise_compiler.targets.webgpu.codegen import shader
from tests.gpu import run_shader, runs_elsewhere

WIDTHS = (4, 8, 16, 32, 64, 128)
"""Every width that WebGPU allows a subgroup."""

ELSEWHERE = 12345
"""What a shuffle gives where WGSL leaves its result open."""

_SHUFFLE = re.compile(r"let (\w+) : ([\w<>]+) = subgroupShuffleXor\((.+), (\d+)u\);")
_BODY = re.compile(r"(@compute [^{]*\) \{\n)")

_EXCHANGE = """\
var<workgroup> exchange_{name} : array<{type}, {threads}>;
fn exchanged_{name}(value : {type}, mask : u32) -> {type} {{
  let other = (exchange_thread % {width}u) ^ mask;
  exchange_{name}[exchange_thread] = value;
  workgroupBarrier();
  var result = {type}({elsewhere});
  if (other < {width}u) {{
    result = exchange_{name}[exchange_thread - exchange_thread % {width}u + other];
  }}
  workgroupBarrier();
  return result;
}}
"""


def emulate(made: Shader, width: int) -> Shader:
    """``made`` without subgroup operations, computing as subgroups of ``width`` threads would.

    Raises:
        ValueError: it uses a subgroup operation that has no emulation here.
    """
    threads = made.workgroup[0]
    width = min(width, threads)
    source = made.source.replace("enable subgroups;\n", "").replace("subgroupAdd(1u)", f"{width}u")
    types = sorted({match[1] for match in _SHUFFLE.findall(source)})
    source = _SHUFFLE.sub(
        lambda m: f"let {m[1]} : {m[2]} = exchanged_{_name(m[2])}({m[3]}, {m[4]}u);", source
    )
    left = re.search(r"\bsubgroup[A-Z]\w*|\bsubgroup_\w+", source)
    if left:
        raise ValueError(f"{made.entry} uses {left[0]}, which has no emulation.")
    exchanges = "".join(
        _EXCHANGE.format(
            name=_name(kind), type=kind, threads=threads, width=width, elsewhere=ELSEWHERE
        )
        for kind in types
    )
    helpers = f"var<private> exchange_thread : u32;\n{exchanges}"
    source = _BODY.sub(lambda m: f"{helpers}{m[1]}  exchange_thread = threadIdx.x;\n", source)
    # Directives stand before anything else, which is why the helpers come in the middle.
    return Shader(source, made.entry, made.workgroup, made.access)


def run(
    launch: Launch, arrays: Sequence[npt.NDArray[Any]], *, width: int, **symbols: int
) -> list[npt.NDArray[Any]]:
    """`tests.gpu.run` on a device whose subgroups have ``width`` threads.

    Args:
        arrays: an array per argument, in order; any dtype, a multiple of 4 bytes each.
        width: threads of a subgroup, see `WIDTHS`. What `tests.gpu.elsewhere` names has its own.

    Returns:
        The arrays afterwards: copies of those that the kernel may write, the others as they are.
    """
    runner = runs_elsewhere()
    if runner is not None:
        return runner(launch, arrays, launch.workgroups(**symbols))
    made = emulate(shader(launch.function), width)
    return run_shader(made, arrays, launch.workgroups(**symbols))


def _name(kind: str) -> str:
    """A WGSL type as part of a name."""
    return re.sub(r"\W", "", kind)
