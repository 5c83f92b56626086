"""The vocabulary of GPU kernels says what it means in WGSL, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import STEP, Arg
from edgewise_compiler.kernels.gpu.operations import f32, number
from edgewise_compiler.kernels.gpu.thread import Thread, kernel, shared, store
from edgewise_compiler.targets.webgpu.codegen import shader
from edgewise_runtime.errors import CompileError
from tests.gpu import run

NUMBERS = [0.0, 1.0, -2.5, 2.0**24, 1 / 3, 1e-5, 0.15353362e-3, 1.4426950408889634, 3.0e38, 1e-30]


def test_constants_keep_all_their_bits() -> None:
    def body(thread: Thread, y: Buffer) -> None:
        for i, value in enumerate(NUMBERS):
            store(y, f32(value), i)

    arguments = [Arg("y", "float32", (len(NUMBERS),))]
    launch = kernel("constants", arguments, body, threads=1, grid=(1, 1), bounds={})
    (y,) = run(launch, [np.zeros(len(NUMBERS), np.float32)])
    np.testing.assert_array_equal(y, np.float32(NUMBERS))


def test_vectors_of_a_constant_have_it_in_every_lane() -> None:
    def body(thread: Thread, y: Buffer) -> None:
        store(y, number(1 / 3, "float32x4"), 0)

    arguments = [Arg("y", "float32x4", (1,))]
    launch = kernel("splat", arguments, body, threads=1, grid=(1, 1), bounds={})
    (y,) = run(launch, [np.zeros((1, 4), np.float32)])
    np.testing.assert_array_equal(y[0], np.full(4, np.float32(1 / 3)))


def idle(thread: Thread, *buffers: Buffer) -> None:
    for buffer in buffers:
        store(buffer, 0, 0)


@pytest.mark.parametrize(
    ("buffers", "threads", "grid"),
    [(9, 64, (1, 1)), (1, 257, (1, 1)), (1, 64, ("n", 1)), (1, 64, (1, ("mul", "n", 2)))],
)
def test_kernels_beyond_the_default_limits_are_refused(
    buffers: int, threads: int, grid: tuple[object, object]
) -> None:
    arguments = [Arg(f"a{i}", "int32", (4,)) for i in range(buffers)]
    big = kernel("big", arguments, idle, threads=threads, grid=grid, bounds={"n": 1 << 16})  # type: ignore[arg-type]
    with pytest.raises(CompileError, match="WebGPU allows") as caught:
        shader(big.function)
    assert caught.value.code == "compile.limits"


def test_more_than_16_kib_of_shared_memory_is_refused() -> None:
    def body(thread: Thread, y: Buffer) -> None:
        big = shared((4097,))
        store(big, 1.0, thread.t)
        store(y, big[thread.t], 0)

    launch = kernel("big", [Arg("y", "float32", (4,))], body, threads=64, grid=(1, 1), bounds={})
    with pytest.raises(CompileError, match=r"16388 bytes .* allows 16384") as caught:
        shader(launch.function)
    assert caught.value.code == "compile.limits"


def test_a_buffer_that_is_not_used_is_refused() -> None:
    launch = kernel(
        "idle",
        [Arg("y", "float32", (4,)), STEP],
        lambda thread, y, step: store(y, 1.0, 0),
        threads=1,
        grid=(1, 1),
        bounds={},
    )
    with pytest.raises(CompileError, match="not use all"):
        shader(launch.function)
