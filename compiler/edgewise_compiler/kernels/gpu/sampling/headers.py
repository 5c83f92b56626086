"""What a burst has changed of the first table, in those of the other state groups."""

from __future__ import annotations

from functools import cache

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import table_arg
from edgewise_compiler.kernels.gpu.thread import Launch, Thread, bind, kernel, store
from edgewise_compiler.kernels.sampling import SamplingSpec
from edgewise_runtime.format.abi import TABLE_HEADER


@cache
def headers(spec: SamplingSpec, others: int) -> Launch:
    """Copies the header of every row of ``table`` to so many other tables.

    Arguments: table int32 [B, 8+MP]; then the others, alike, whose first 8 columns are written. A
    thread a column.
    """
    arguments = [table_arg(spec)._replace(name=f"table_{nth}") for nth in range(1 + others)]

    def body(thread: Thread, table: Buffer, *rest: Buffer) -> None:
        with T.serial(0, spec.batch) as row:
            value = bind(table[row, thread.t])
            for other in rest:
                store(other, value, row, thread.t)

    name = f"headers_{spec.batch}_{spec.pages}_{others}"
    return kernel(name, arguments, body, threads=TABLE_HEADER, grid=(1, 1), bounds={})
