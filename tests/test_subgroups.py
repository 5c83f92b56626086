"""Emulated subgroups answer as real ones of the same width do."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import Arg
from edgewise_compiler.kernels.gpu.operations import i32
from edgewise_compiler.kernels.gpu.reduce import combine_group
from edgewise_compiler.kernels.gpu.thread import (
    Launch,
    Thread,
    kernel,
    shared,
    shuffle_xor,
    store,
    subgroup_size,
)
from edgewise_compiler.targets.webgpu.codegen import shader
from tests import gpu
from tests.subgroups import ELSEWHERE, WIDTHS, emulate, run

THREADS = 64
MASKS = (1, 4, 8, 32)


@cache
def shuffling() -> Launch:
    """Each thread writes its subgroup's width and what it gets for each mask, by float and int."""

    def body(thread: Thread, x: Buffer, floats: Buffer, ints: Buffer) -> None:
        store(ints, i32(subgroup_size()), len(MASKS), thread.t)
        for row, mask in enumerate(MASKS):
            store(floats, shuffle_xor(x[thread.t], mask), row, thread.t)
            store(ints, shuffle_xor(thread.t, mask), row, thread.t)

    arguments = [
        Arg("x", "float32", (THREADS,)),
        Arg("floats", "float32", (len(MASKS), THREADS)),
        Arg("ints", "int32", (len(MASKS) + 1, THREADS)),
    ]
    return kernel(
        "shuffling", arguments, body, threads=THREADS, grid=(1, 1), bounds={}, subgroups=True
    )


def inputs() -> list[np.ndarray]:
    x = np.random.default_rng(1).standard_normal(THREADS, dtype=np.float32)
    ints = np.zeros((len(MASKS) + 1, THREADS), np.int32)
    return [x, np.zeros((len(MASKS), THREADS), np.float32), ints]


@pytest.mark.parametrize("width", WIDTHS)
def test_shuffles_reach_the_subgroup_and_no_further(width: int) -> None:
    arrays = inputs()
    x, floats, ints = run(shuffling(), arrays, width=width)
    t = np.arange(THREADS)
    np.testing.assert_array_equal(ints[-1], min(width, THREADS))
    for row, mask in enumerate(MASKS):
        reached = mask < width
        np.testing.assert_array_equal(ints[row], t ^ mask if reached else ELSEWHERE)
        np.testing.assert_array_equal(floats[row], x[t ^ mask] if reached else ELSEWHERE)


def test_the_adapters_own_width_gives_the_same() -> None:
    _, floats, ints = gpu.run(shuffling(), inputs())
    width = int(ints[-1, 0])
    _, emulated_floats, emulated_ints = run(shuffling(), inputs(), width=width)
    within = [row for row, mask in enumerate(MASKS) if mask < width]
    np.testing.assert_array_equal(emulated_ints[[*within, -1]], ints[[*within, -1]])
    np.testing.assert_array_equal(emulated_floats[within], floats[within])


def test_other_subgroup_operations_are_refused() -> None:
    made = shader(shuffling().function)
    other = replace(made, source=made.source.replace("subgroupShuffleXor", "subgroupShuffleUp"))
    with pytest.raises(ValueError, match="subgroupShuffleUp"):
        emulate(other, 32)


@cache
def combining(lanes: int) -> Launch:
    """Each thread writes the sum and the largest of its group."""

    def body(thread: Thread, x: Buffer, y: Buffer) -> None:
        scratch = shared((THREADS,))
        total = combine_group(thread, x[thread.t], lanes, lambda a, b: a + b, scratch)
        most = combine_group(thread, x[thread.t], lanes, T.max, scratch)
        store(y, total, 0, thread.t)
        store(y, most, 1, thread.t)

    arguments = [Arg("x", "float32", (THREADS,)), Arg("y", "float32", (2, THREADS))]
    return kernel(
        f"combining_{lanes}",
        arguments,
        body,
        threads=THREADS,
        grid=(1, 1),
        bounds={},
        subgroups=True,
    )


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("lanes", [2, 16, 64])
def test_groups_combine_at_every_width(lanes: int, width: int) -> None:
    x = np.random.default_rng(lanes).integers(-99, 99, THREADS).astype(np.float32)
    _, y = run(combining(lanes), [x, np.zeros((2, THREADS), np.float32)], width=width)
    groups = x.reshape(-1, lanes)
    np.testing.assert_array_equal(y[0], groups.sum(1).repeat(lanes))
    np.testing.assert_array_equal(y[1], groups.max(1).repeat(lanes))
