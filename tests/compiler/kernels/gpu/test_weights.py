"""Every scheme's words become the numbers they stand for, exactly."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import Arg
from edgewise_compiler.kernels.gpu.matmul.weights import GpuWeights
from edgewise_compiler.kernels.gpu.thread import Launch, Thread, bind, kernel, store
from edgewise_compiler.quantize import SCHEMES
from edgewise_runtime.format.abi import GROUP
from tests.compiler.kernels.gpu.packing import columns as packed_columns
from tests.compiler.kernels.gpu.packing import pack
from tests.gpu import run

ROWS = 32


@cache
def unpacking(scheme: str, columns: int) -> Launch:
    """A kernel that writes the matrix out, ``columns`` at a time: one thread a row and group."""
    K = packed_columns(scheme, 96)
    weights = GpuWeights(scheme, ROWS, K)

    def body(thread: Thread, *buffers: Buffer) -> None:
        row, place = bind(thread.t), bind(thread.x)
        if columns == GROUP:
            values = weights.begun().group(buffers[:-1], row, place)
        else:
            count = columns // 8
            begun = weights.begun(team=thread)
            values = begun.octets(buffers[:-1], row, bind(place * count), count)
        for i, value in enumerate(values):
            store(buffers[-1], value, row, place * len(values) + i)

    octets = weights.octet_arguments(columns // 8) if columns < GROUP else weights.arguments()
    arguments = [*octets, Arg("out", "float32x4", (ROWS, K // 4))]
    name, grid = f"unpack_{scheme}_{columns}", (K // columns, 1)
    return kernel(name, arguments, body, threads=ROWS, grid=grid, bounds={})


@pytest.mark.parametrize("columns", [8, 16, GROUP])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_weights_have_their_exact_values(scheme: str, columns: int) -> None:
    K = packed_columns(scheme, 96)
    w = np.random.default_rng(3).standard_normal((ROWS, K), dtype=np.float32)
    arrays, exact = pack(scheme, w)
    *_, out = run(unpacking(scheme, columns), [*arrays, np.zeros((ROWS, K), np.float32)])
    np.testing.assert_array_equal(out, exact)
