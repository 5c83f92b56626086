"""Neighbouring threads combine their values, whatever the subgroup's width."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import Arg
from edgewise_compiler.kernels.gpu.reduce import combine_group
from edgewise_compiler.kernels.gpu.thread import Launch, Thread, kernel, shared, store
from tests.gpu import run

COMBINE = {"sum": lambda a, b: a + b, "max": T.max}
REFERENCE = {"sum": np.sum, "max": np.max}
THREADS = 256


@cache
def combined(what: str, lanes: int, subgroups: bool) -> Launch:
    """Each thread writes what its group's values combine to."""

    def body(thread: Thread, x: Buffer, y: Buffer) -> None:
        scratch = shared((THREADS,))
        total = combine_group(thread, x[thread.t], lanes, COMBINE[what], scratch)
        store(y, total, thread.t)

    arguments = [Arg("x", "float32", (THREADS,)), Arg("y", "float32", (THREADS,))]
    name = f"combine_{what}_{lanes}_{subgroups}"
    return kernel(
        name, arguments, body, threads=THREADS, grid=(1, 1), bounds={}, subgroups=subgroups
    )


@pytest.mark.parametrize("subgroups", [False, True])
@pytest.mark.parametrize("lanes", [2, 8, 32, 64, 256])
@pytest.mark.parametrize("what", COMBINE)
def test_every_thread_of_a_group_gets_the_result(what: str, lanes: int, subgroups: bool) -> None:
    x = np.random.default_rng(lanes).integers(-99, 99, THREADS).astype(np.float32)
    _, y = run(combined(what, lanes, subgroups), [x, np.zeros_like(x)])
    expected = REFERENCE[what](x.reshape(-1, lanes), axis=1)
    np.testing.assert_array_equal(y, expected.repeat(lanes))
