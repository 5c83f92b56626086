"""Every operation that shipped kernels use has a spelling in SPIR-V; what has none is refused."""

from __future__ import annotations

import pytest
from tvm import tirx
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import Arg
from edgewise_compiler.kernels.gpu.limits import LEAST
from edgewise_compiler.kernels.gpu.operations import OPERATIONS
from edgewise_compiler.kernels.gpu.thread import Launch, Thread, kernel, store
from edgewise_compiler.targets.vulkan.codegen import shader
from edgewise_compiler.targets.vulkan.spelling import SPIRV
from edgewise_runtime.errors import CompileError


def test_spirv_spells_every_operation() -> None:
    assert set(SPIRV) == set(OPERATIONS)


def written(value: object, dtype: str = "float32", threads: int = 1) -> Launch:
    """A kernel that stores what ``value`` makes of its first element."""

    def body(thread: Thread, y: Buffer) -> None:
        store(y, value(y[0]), 0)  # type: ignore[operator]

    arguments = [Arg("y", dtype, (4,))]
    return kernel("odd", arguments, body, threads=threads, grid=(1, 1), bounds={})


REFUSED = {
    "ew.unknown": lambda y: tirx.call_pure_extern("float32", "ew.unknown", y),
    "exp2": lambda y: tirx.call_pure_extern("float32", "exp2", y),
    "tirx.exp": T.exp,
    "float64": lambda y: T.Cast("float32", T.Cast("float64", y)),
    "BitwiseNot": lambda y: T.Cast("float32", ~T.Cast("int32", y)),
    "Mod of float32": lambda y: tirx.Mod(y, y),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_has_no_spelling_is_refused_by_name(what: str) -> None:
    with pytest.raises(CompileError, match=f"'odd' has no SPIR-V: .*{what}") as caught:
        shader(written(REFUSED[what]).function)
    assert caught.value.code in ("compile.operation", "compile.dtype")
    assert caught.value.remedy


def test_elements_that_no_kernel_computes_in_are_refused() -> None:
    with pytest.raises(CompileError, match="'int8'") as caught:
        shader(written(lambda y: y, "int8").function)
    assert caught.value.code == "compile.dtype"


def test_a_kernel_beyond_the_limits_is_refused_by_the_targets_name() -> None:
    with pytest.raises(CompileError, match="Vulkan allows") as caught:
        shader(written(lambda y: y, threads=LEAST.threads * 2).function)
    assert caught.value.code == "compile.limits"
