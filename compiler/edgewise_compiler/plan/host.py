"""The generated host function of a plan: every kernel in order, k times, in one call.

One call a burst releases the interpreter lock once; FACTS of the CPU runtime show why that matters
when another Python thread is busy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tvm.script
from tvm.tirx import PrimFunc


@dataclass(frozen=True)
class HostBuffer:
    """A buffer argument of the host function. ``shape`` may name load symbols."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


@dataclass(frozen=True)
class HostArgument:
    """One argument of a kernel call: a whole buffer, or a typed view of scratch at ``offset``."""

    buffer: str
    view: tuple[str, tuple[int | str, ...]] | None = None
    offset: int = 0


@dataclass(frozen=True)
class HostCall:
    """One kernel call."""

    symbol: str
    arguments: tuple[HostArgument, ...]


def _view(name: str, argument: HostArgument) -> str:
    if argument.view is None:
        return name
    dtype, shape = argument.view
    data = f"T.address_of({name}[{argument.offset}])" if argument.offset else f"{name}.data"
    extents = ", ".join(str(extent) for extent in shape)
    return (
        f"T.tvm_stack_make_array({data}, T.tvm_stack_make_shape({extents}), 0, {len(shape)},"
        f" T.{dtype}(0), 0)"
    )


def host_function(
    symbol: str,
    buffers: Sequence[HostBuffer],
    calls: Sequence[HostCall],
    *,
    stop_on_table: bool,
) -> PrimFunc:
    """Generate ``symbol(*buffers, k)``: the calls in order, k times.

    With ``stop_on_table`` a repetition in which every live row of ``table`` has its stop field set
    does nothing, so a burst ends early without asking anyone.
    """
    names = {buffer.name: f"b{i}" for i, buffer in enumerate(buffers)}
    symbols = sorted({dim for buffer in buffers for dim in buffer.shape if isinstance(dim, str)})
    lines = [
        "@T.prim_func(s_tir=True)",
        "def host(" + "".join(f"h{i}: T.handle, " for i in range(len(buffers))) + "k: T.int32):",
        f'    T.func_attr({{"global_symbol": "{symbol}", "tirx.is_scheduled": True}})',
    ]
    lines += [f"    {name} = T.int32()" for name in symbols]
    for i, buffer in enumerate(buffers):
        extents = "".join(f"{extent}, " for extent in buffer.shape)
        lines.append(f'    b{i} = T.match_buffer(h{i}, ({extents}), "{buffer.dtype}")')
    indent = "        "
    if stop_on_table:
        step, table = names["step"], names["table"]
        lines += [
            '    live = T.sblock_alloc_buffer((1,), "int32")',
            "    for repetition in T.serial(k):",
            f"{indent}live[0] = 0",
            f"{indent}for s in T.serial({step}[1]):",
            f'{indent}    live[0] = live[0] + T.Cast("int32", {table}[s, 3] == 0)',
            f"{indent}if live[0] > 0:",
        ]
        indent += "    "
    else:
        lines.append("    for repetition in T.serial(k):")
    for call in calls:
        arguments = "".join(f", {_view(names[a.buffer], a)}" for a in call.arguments)
        lines.append(f'{indent}T.evaluate(T.call_cpacked("{call.symbol}"{arguments}))')
    return tvm.script.from_source("\n".join(lines) + "\n")
