"""What no kernel may do ends a launch on the emulator, with who did it and where."""

from __future__ import annotations

import numpy as np
import pytest

from tests.gpu_emulator.build import shader_of
from tests.gpu_emulator.execute import Array, EmulatorError, run_shader

THREADS = 64


def launched(body: str, grid: tuple[int, int] = (2, 1)) -> Array:
    """``y`` after a kernel over ``x`` = 0, 1, …, both of 128 floats."""
    text = f"""\
extern "C" __global__ void __launch_bounds__({THREADS}) kernel(
    const float* __restrict__ b0_x,
    float* __restrict__ b1_y) {{
  __shared__ float s1[{THREADS}];
  const int x = (int)blockIdx.x;
  const int t = (int)threadIdx.x;
  const int i = x * {THREADS} + t;
{body}
}}
"""
    arrays = [np.arange(2 * THREADS, dtype=np.float32), np.zeros(2 * THREADS, np.float32)]
    return run_shader(shader_of(text), arrays, grid)[1]


def test_threads_exchange_values_through_shared_memory_and_lanes() -> None:
    found = launched(
        """\
  s1[t] = b0_x[i];
  __syncthreads();
  b1_y[i] = s1[63 - t] + __shfl_xor_sync(0xffffffffu, b0_x[i], 1u);"""
    )
    i = np.arange(2 * THREADS)
    assert np.array_equal(found, i // 64 * 64 + 63 - i % 64 + (i ^ 1))


FAULTS = {
    "an element past the end": ("  b1_y[i + 1] = 0.0f;", r"b1_y\[128\], which has 128 elements"),
    "an element before the first": ("  b1_y[i] = b0_x[i - 1];", r"b0_x\[-1\]"),
    "shared memory past its end": ("  s1[t + 1] = 0.0f;", r"s1\[64\], which has 64 elements"),
    "shared memory that nobody has written": (
        "  b1_y[i] = s1[t];",
        r"reads s1\[\d+\], which nobody",
    ),
    "an own array that is not written": (
        "  float r1[2];\n  r1[0] = 1.0f;\n  b1_y[i] = r1[t % 2];",
        r"reads r1\[1\] before it is written",
    ),
    "a barrier that is missing after a store": (
        "  s1[t] = b0_x[i];\n  b1_y[i] = s1[t ^ 32];",
        r"(reads|writes) s1\[\d+\], which thread \d+ touches between the same barriers|nobody",
    ),
    "a barrier that is missing before a store": (
        "  s1[t] = b0_x[i];\n  __syncthreads();\n  b1_y[i] = s1[t ^ 1];\n  s1[t] = 0.0f;",
        r"s1\[\d+\], which thread \d+ touches between the same barriers",
    ),
    "two threads that store one element": ("  b1_y[x] = 0.0f;", r"writes b1_y\[\d\], which thread"),
    "two workgroups that store one element": (
        "  b1_y[t] = 0.0f;",
        "which another workgroup touched",
    ),
    "a read of what another workgroup stored": (
        "  if (x == 0) {\n    b1_y[t] = 1.0f;\n  } else {\n    b1_y[i] = b1_y[t];\n  }",
        "which another workgroup (wrote|touched)",
    ),
    "a barrier for some": (
        "  if (t < 32) {\n    __syncthreads();\n  }",
        "32 of 64 threads wait at the barrier in line 9",
    ),
    "two barriers at once": (
        "  if (t < 32) {\n    __syncthreads();\n  } else {\n    __syncthreads();\n  }",
        "comes to the barrier in line (9|11) while others wait at line (9|11)",
    ),
    "a thread that leaves before a barrier": (
        "  if (t == 5) {\n    return;\n  }\n  __syncthreads();",
        "63 of 64 threads wait at the barrier in line 11",
    ),
    "an exchange of some lanes": (
        "  if (t % 2 == 0) {\n    b1_y[i] = __shfl_xor_sync(0xffffffffu, b0_x[i], 2u);\n  }",
        r"thread \d+ waits in line 9 for lanes that do not come",
    ),
    "a lane outside the mask": (
        "  b1_y[i] = __shfl_xor_sync(0xffffu, b0_x[i], 1u);",
        "is not of the mask 0000ffff",
    ),
    "a buffer's element that a neighbour stores": (
        "  b1_y[i] = 1.0f;\n  b1_y[i] = b1_y[i ^ 1];",
        "argument 1 has other bits in order",
    ),
}


@pytest.mark.quick(cases=5)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named(fault: str) -> None:
    body, message = FAULTS[fault]
    with pytest.raises(EmulatorError, match=message):
        launched(body)


def test_a_buffers_element_that_a_neighbour_stores_may_be_read_for_nothing() -> None:
    found = launched(
        """\
  const float v1 = b1_y[x * 64 + min(t, 31)];
  if (t < 32) {
    b1_y[i] = v1 + 2.0f;
  }"""
    )
    assert np.array_equal(found, np.tile(np.repeat([2.0, 0.0], 32), 2))


def test_what_another_warp_would_have_is_no_number() -> None:
    found = launched("  b1_y[i] = __shfl_xor_sync(0xffffffffu, b0_x[i], 32u);")
    assert np.isnan(found).all()


def test_a_pointer_that_is_not_understood_is_refused() -> None:
    with pytest.raises(ValueError, match="pointer"):
        launched("  const float* p = 0;")
