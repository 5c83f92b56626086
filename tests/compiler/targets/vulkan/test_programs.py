"""Random kernels compute by Vulkan what NumPy computes, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

from edgewise_compiler.targets.vulkan.codegen import shader
from tests import vulkan
from tests.compiler.targets.vulkan.numpy_programs import computed
from tests.compiler.targets.vulkan.programs import (
    COUNT,
    FLOATS,
    ROW,
    Array,
    drawn,
    launch_of,
    words,
)
from tests.compiler.targets.vulkan.validator import complaints

QUICK, FULL = 12, 200
SIGN = 1 << 31
SEEDS = [
    *range(QUICK),
    *(pytest.param(seed, marks=pytest.mark.full) for seed in range(QUICK, FULL)),
]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_kernel_computes_what_numpy_does(seed: int) -> None:
    program, read = drawn(seed), words()
    launch = launch_of(program)
    assert complaints(shader(launch.function).file) == ""
    _, out = vulkan.run(launch, [read, np.zeros((COUNT, ROW), np.uint32)])
    np.testing.assert_array_equal(unsigned(out), unsigned(computed(program, read)))


def unsigned(out: Array) -> Array:
    """What registers hold, zeros of floats without their sign, which SPIR-V leaves open."""
    held = out.copy()
    for first, stop in FLOATS:
        floats = held[:, first:stop]
        floats[floats == SIGN] = 0
    return held
