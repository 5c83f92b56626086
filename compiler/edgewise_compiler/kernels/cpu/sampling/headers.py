"""What a burst has changed of the first table, in those of the other state groups."""

from __future__ import annotations

import functools

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, PrimFunc

from edgewise_compiler.kernels.cpu.vector import store
from edgewise_compiler.kernels.function import block, kernel, table_arg
from edgewise_compiler.kernels.sampling import SamplingSpec
from edgewise_runtime.format.abi import TABLE_HEADER


@functools.cache
def headers(spec: SamplingSpec, others: int) -> PrimFunc:
    """Copies the header of every row of ``table`` to so many other tables.

    Arguments of the PrimFunc: table int32 [B, 8+MP]; then the others, alike, whose first 8 columns
    are written.
    """
    arguments = [table_arg(spec)._replace(name=f"table_{nth}") for nth in range(1 + others)]

    def body(table: Buffer, *rest: Buffer) -> None:
        with (
            block("headers"),
            T.serial(0, spec.batch) as row,
            T.serial(0, TABLE_HEADER) as column,
        ):
            for other in rest:
                store(other, table[row, column], row, column)

    return kernel(f"headers_{spec.batch}_{spec.pages}_{others}", arguments, body)
