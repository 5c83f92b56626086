"""Launches kernels on the emulator, under several orders of threads and workgroups."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from edgewise_compiler.targets.gpu.shader import Shader
from tests.gpu_emulator.build import CUDA, STACKS, Dialect, library

Array = npt.NDArray[Any]

SEEDS = (0, 1, 2)
"""Orders in which threads and workgroups take turns: 0 takes the lowest first, 1 the highest,
others any."""

_ROOM = 500
_SHADOW = 12  # bytes, of native/memory.h


class EmulatorError(AssertionError):
    """A kernel did what no kernel may do."""


def run_shader(
    made: Shader,
    arrays: Sequence[Array],
    grid: tuple[int, int],
    seeds: Sequence[int] = SEEDS,
    dialect: Dialect = CUDA,
) -> list[Array]:
    """Launch a kernel once over ``grid`` workgroups, for each order from the same arrays.

    Args:
        arrays: an array per argument, in order.

    Returns:
        The arrays afterwards: copies of those that the kernel may write, the others as they are.

    Raises:
        EmulatorError: an index out of bounds, a race, memory that nobody has written, a barrier or
            an exchange that not all come to; or another order gives other bits.
    """
    results = [_launched(made, arrays, grid, seed, dialect) for seed in seeds]
    for seed, result in zip(seeds[1:], results[1:], strict=True):
        for i, (first, other) in enumerate(zip(results[0], result, strict=True)):
            if first is not other and first.tobytes() != other.tobytes():
                raise EmulatorError(f"{made.entry}: argument {i} has other bits in order {seed}")
    return results[0]


def _launched(
    made: Shader, arrays: Sequence[Array], grid: tuple[int, int], seed: int, dialect: Dialect
) -> list[Array]:
    after = [
        array if access == "read" else np.array(array, order="C")
        for array, access in zip(arrays, made.access, strict=True)
    ]
    contiguous = [np.ascontiguousarray(array) for array in after]
    launch_in_place(made, contiguous, grid, seed, dialect)
    return after


def launch_in_place(
    made: Shader,
    arrays: Sequence[Array],
    grid: tuple[int, int],
    seed: int = 0,
    dialect: Dialect = CUDA,
) -> None:
    """Launch a kernel on contiguous arrays, which it writes.

    Raises:
        EmulatorError: as `run_shader` has it.
    """
    count = len(arrays)
    shadows = [
        None if access == "read" else np.zeros(array.nbytes // 2 * _SHADOW, np.uint8)
        for array, access in zip(arrays, made.access, strict=True)
    ]
    data = (ctypes.c_void_p * count)(*(array.ctypes.data for array in arrays))
    sizes = (ctypes.c_uint64 * count)(*(array.nbytes for array in arrays))
    behind = (ctypes.c_void_p * count)(*(s if s is None else s.ctypes.data for s in shadows))
    message = ctypes.create_string_buffer(_ROOM)
    seed_value = ctypes.c_uint64(seed)
    failed = library(made, dialect).launch(
        data, sizes, behind, *grid, seed_value, _stacks(), message, ctypes.c_size_t(_ROOM)
    )
    if failed:
        raise EmulatorError(f"{made.entry}: {message.value.decode()}")


@cache
def _stacks() -> ctypes.Array[ctypes.c_char]:
    """Memory for the stacks of all threads, which takes room only where they use it."""
    return (ctypes.c_char * STACKS).from_buffer(mmap.mmap(-1, STACKS))
