"""Kernels follow a target's limits, and are refused where they do not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from edgewise_compiler.kernels.attention import AttentionSpec
from edgewise_compiler.kernels.gpu.attention.decode import attention_decode
from edgewise_compiler.kernels.gpu.attention.prefill import attention_prefill
from edgewise_compiler.kernels.gpu.limits import LEAST, Limits, check_limits
from edgewise_compiler.kernels.gpu.thread import Launch
from edgewise_compiler.targets.webgpu.limits import LIMITS
from edgewise_runtime.errors import CompileError

SPEC = AttentionSpec(16, 2, 128, 40, 2, 128, "float16", 0.125)
LARGER = replace(LEAST, target="a larger one", shared=48 << 10)
each_kernel = pytest.mark.parametrize("make", [attention_decode, attention_prefill])
Make = Callable[[AttentionSpec, Limits], Launch]


@each_kernel
def test_attention_takes_the_shared_memory_that_there_is(make: Make) -> None:
    for limits in (LEAST, LARGER):
        check_limits(make(SPEC, limits).function, limits)
    with pytest.raises(CompileError, match="bytes of shared memory; every GPU target allows 16384"):
        check_limits(make(SPEC, LARGER).function, LEAST)


@pytest.mark.parametrize(
    ("limit", "named"),
    [("buffers", "5 buffers"), ("threads", "128 threads"), ("workgroups", "40 workgroups in y")],
)
def test_what_is_beyond_a_limit_is_named(limit: str, named: str) -> None:
    small = replace(LEAST, target="a small one", **{limit: 4})
    with pytest.raises(CompileError, match=f"{named}; a small one allows 4") as caught:
        check_limits(attention_prefill(SPEC, LEAST).function, small)
    assert caught.value.code == "compile.limits"


def test_webgpu_has_the_least_at_least() -> None:
    least, has = ({**vars(limits), "target": ""} for limits in (LEAST, LIMITS))
    assert all(has[name] >= most for name, most in least.items())
