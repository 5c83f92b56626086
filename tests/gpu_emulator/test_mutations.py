"""Texts of kernels with one thing wrong: each is caught where the kernel as it is passes."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from edgewise_compiler.kernels.gpu.elementwise.norm import rms_norm
from edgewise_compiler.kernels.gpu.matmul.matvec import matvec
from edgewise_compiler.kernels.gpu.matmul.spec import PartSpec
from edgewise_compiler.kernels.norm import NormSpec
from edgewise_compiler.targets.cuda.codegen import shader
from edgewise_compiler.targets.gpu.shader import Shader
from edgewise_runtime.engine.step_buffers import step_array
from tests.compiler.kernels.gpu.packing import pack
from tests.gpu_emulator.execute import Array, EmulatorError, run_shader

ROWS, WIDTH, LIVE = 4, 256, 3


def normalized(change: tuple[str, str] = ("", "")) -> None:
    """Run the norm of rows, whose text is changed in one place, and compare with NumPy."""
    launch = rms_norm(NormSpec(ROWS, WIDTH, 1e-5, None, 0), subgroups=True)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((ROWS, WIDTH), dtype=np.float32)
    weight = rng.standard_normal(WIDTH, dtype=np.float32)
    before = np.full((ROWS, WIDTH), 7, np.float32)
    arrays = [x, weight, before, step_array(LIVE, 1, 0, 0)]
    made = changed(shader(launch.function), *change)
    found = run_shader(made, arrays, launch.workgroups(n=LIVE))[2]
    exact = x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-5) * weight
    np.testing.assert_allclose(found[:LIVE], exact[:LIVE], rtol=1e-5)
    assert np.array_equal(found[LIVE:], before[LIVE:])


def multiplied(change: tuple[str, str] = ("", "")) -> None:
    """The same of a linear of 4-bit weights for one row."""
    outputs, inputs = 64, 256
    spec = PartSpec(
        rows=1,
        outputs=outputs,
        inputs=inputs,
        scheme="q4",
        epilogue="store",
        bias=False,
        count=0,
        live=1,
        width=outputs,
        first=0,
    )
    launch = matvec(spec, batch=1, norm=None, gather=False, subgroups=True)
    rng = np.random.default_rng(1)
    x = rng.standard_normal((1, inputs), dtype=np.float32)
    packed, weight = pack("q4", rng.standard_normal((outputs, inputs), dtype=np.float32))
    arrays: list[Array] = [x, *packed, np.zeros((1, outputs), np.float32), step_array(1, 1, 0, 0)]
    made = changed(shader(launch.function), *change)
    found = run_shader(made, arrays, launch.workgroups(n=1, b=1))[-2]
    exact = x.astype(np.float64) @ weight.astype(np.float64).T
    sizes = np.abs(x).astype(np.float64) @ np.abs(weight).astype(np.float64).T
    assert (np.abs(found - exact) / sizes).max() < 1e-6


def changed(made: Shader, pattern: str, other: str) -> Shader:
    """A kernel whose text has something else in the first place that matches, if one is named."""
    if not pattern:
        return made
    source, count = re.subn(pattern, other, made.source, count=1)
    assert count == 1
    return replace(made, source=source)


def test_the_kernels_as_they_are_pass() -> None:
    normalized()
    multiplied()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ((r"  __syncthreads\(\);\n", ""), "between the same barriers|nobody has written"),
        ((r"__shfl_xor_sync\(0xffffffffu", "__shfl_xor_sync(0xffffu"), "mask 0000ffff"),
        ((r"b0_x\[\(x \* 64\)", "b0_x[((x + 2) * 64)"), "b0_x.*which has 256 elements"),
    ],
    ids=["missing barrier", "wrong mask", "row out of bounds"],
)
def test_what_no_kernel_may_do_is_found(change: tuple[str, str], message: str) -> None:
    with pytest.raises(EmulatorError, match=message):
        normalized(change)


@pytest.mark.quick(cases=5)
@pytest.mark.parametrize(
    ("kernel", "change"),
    [
        (normalized, (r"b0_x\[\(x \* 64\)", "b0_x[((x ^ 1) * 64)")),
        (normalized, (r"(r1 = __fmaf_rn\(v\d+)\.z", r"\1.x")),
        (normalized, (r"0\.00390625f", "0.0078125f")),
        (multiplied, (r"make_float4\((\d+\.0f), (\d+\.0f)", r"make_float4(\2, \1")),
        (multiplied, (r", 2u\);", ", 1u);")),
    ],
    ids=["another row", "a lane twice", "wrong scale", "swapped lanes", "another partner"],
)
def test_what_is_computed_wrong_is_not_numpys(kernel: object, change: tuple[str, str]) -> None:
    with pytest.raises(AssertionError, match=r"Mismatched elements|assert np\.float64\("):
        kernel(change)  # type: ignore[operator]
