"""Every scheme's words become the numbers they stand for, exactly."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import Arg
from edgewise_compiler.kernels.gpu import Launch, Thread, bind, gpu_kernel, store
from edgewise_compiler.kernels.matmul.gpu_weights import GpuWeights
from edgewise_compiler.quantize import SCHEMES
from tests.compiler.kernels.gpu_packing import pack
from tests.gpu import run

ROWS, K = 32, 96


@cache
def unpacking(scheme: str) -> Launch:
    """A kernel that writes the matrix out: one thread a row and group."""
    weights = GpuWeights(scheme, ROWS, K)

    def body(thread: Thread, *buffers: Buffer) -> None:
        row, g = bind(thread.t), bind(thread.x)
        vectors, scale = weights.group(buffers[:-1], row, g)
        for i, vector in enumerate(vectors):
            value = vector if scale is None else vector * scale
            store(buffers[-1], value, row, g * 8 + i)

    arguments = [*weights.arguments(), Arg("out", "float32x4", (ROWS, K // 4))]
    return gpu_kernel(f"unpack_{scheme}", arguments, body, threads=ROWS, grid=(3, 1), bounds={})


@pytest.mark.parametrize("scheme", SCHEMES)
def test_groups_hold_the_exact_values(scheme: str) -> None:
    w = np.random.default_rng(3).standard_normal((ROWS, K), dtype=np.float32)
    arrays, exact = pack(scheme, w)
    *_, out = run(unpacking(scheme), [*arrays, np.zeros((ROWS, K), np.float32)])
    np.testing.assert_array_equal(out, exact)
