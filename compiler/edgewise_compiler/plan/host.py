"""The generated host function of a plan: every kernel in order, k times, in one call.

One call a burst releases the interpreter lock once, whatever another Python thread is doing. The
function only hands tensors on: it takes each typed view as an argument and makes none, which keeps
it small enough to compile without optimization.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tvm.script
from tvm.tirx import PrimFunc

CALLEE = "__tvm_ffi_{}"
"""How TVM names the function a library exports for a kernel."""


@dataclass(frozen=True)
class HostCall:
    """One kernel call: the kernel's symbol, and which arguments of the host function it gets."""

    symbol: str
    arguments: tuple[int, ...]


def host_function(
    symbol: str,
    count: int,
    calls: Sequence[HostCall],
    *,
    table: tuple[int, int, tuple[int, int]] | None = None,
) -> PrimFunc:
    """Generate ``symbol(tensor 0, …, tensor count - 1, k)``: the calls in order, k times.

    Args:
        table: arguments that are ``step`` and ``table``, and the table's shape. A repetition in
            which every live row has its stop field set then does nothing, so a burst ends early
            without asking anyone.
    """
    lines = [
        "@T.prim_func(s_tir=True)",
        "def host(" + "".join(f"h{i}: T.handle, " for i in range(count)) + "k: T.int32):",
        f'    T.func_attr({{"global_symbol": "{symbol}", "tirx.is_scheduled": True}})',
    ]
    names = [f"h{i}" for i in range(count)]
    indent = "        "
    if table is None:
        lines.append("    for repetition in T.serial(k):")
    else:
        step, rows, (height, width) = table
        # A handle that was matched with a buffer is its data from then on, no longer the tensor.
        names[step], names[rows] = "step", "table"
        lines += [
            f'    step = T.match_buffer(h{step}, (8,), "int32")',
            f'    table = T.match_buffer(h{rows}, ({height}, {width}), "int32")',
            '    live = T.sblock_alloc_buffer((1,), "int32")',
            "    for repetition in T.serial(k):",
            f"{indent}live[0] = 0",
            f"{indent}for s in T.serial(step[1]):",
            f'{indent}    live[0] = live[0] + T.Cast("int32", table[s, 3] == 0)',
            f"{indent}if live[0] > 0:",
        ]
        indent += "    "
    for call in calls:
        arguments = "".join(f", {names[i]}" for i in call.arguments)
        lines.append(
            f'{indent}T.evaluate(T.call_cpacked("{relay_symbol(call.symbol)}"{arguments}))'
        )
    return tvm.script.from_source("\n".join(lines) + "\n")


def relay_symbol(kernel: str) -> str:
    """The symbol of the relay of ``kernel``."""
    return f"call_{kernel}"


def relay_function(kernel: str, count: int) -> PrimFunc:
    """Generate ``call_<kernel>``, which hands its arguments to a kernel of another object file.

    TVM finds a callee among the functions of the module it compiles, or else declares it anew at
    every call. So each kernel is called from one place only, this one.
    """
    handles = [f"h{i}" for i in range(count)]
    return tvm.script.from_source(
        "@T.prim_func(s_tir=True)\n"
        f"def relay({', '.join(f'{h}: T.handle' for h in handles)}):\n"
        f'    T.func_attr({{"global_symbol": "{relay_symbol(kernel)}"}})\n'
        f'    T.evaluate(T.call_cpacked("{CALLEE.format(kernel)}", {", ".join(handles)}))\n'
    )
