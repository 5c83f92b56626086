"""What a target does not implement is refused by name, on every target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from tvm.tirx import PrimFunc

from edgewise_compiler.graph.build import SharedSizes
from edgewise_compiler.graph.nodes import Graph, Node, Value
from edgewise_compiler.graph.operations import Attention, Heads, Operation, RmsNorm, RopeAppend
from edgewise_compiler.options import Bounds
from edgewise_compiler.plan.calls import Call, Tensor
from edgewise_compiler.targets.cpu import lower as cpu
from edgewise_compiler.targets.gpu import lower as gpu
from edgewise_compiler.targets.webgpu.limits import LIMITS
from edgewise_compiler.targets.webgpu.variants import VARIANTS
from edgewise_runtime.errors import CompileError

HEADS, BOUNDS = Heads(4, 2, 16), Bounds(16, 2, 64)
SHARED = SharedSizes(hidden=64, vocab=320, columns=320, layers=1, heads=HEADS)
VALUE, RESULT = Value("v", "n", 64), Value("w", "n", 64)
PLAIN = Attention(HEADS, 0.25, layer=0)
PARAMS = {
    "norm.weight": Tensor("norm.weight", "param", "float32", (64,)),
    "rope": Tensor("rope", "param", "float32", (64, 2, 8)),
}

Lower = Callable[[Graph, bool], tuple[Call, ...]]


def on_cpu(graph: Graph, prefill: bool) -> tuple[Call, ...]:
    low = cpu.CpuLowering(SHARED, BOUNDS, PARAMS, {}, "float32", cpu.ARITHMETICS["f32"], "portable")
    return cpu.lower_graph(low, graph, decode=not prefill)


def on_webgpu(graph: Graph, prefill: bool) -> tuple[Call, ...]:
    variant = next(v for v in VARIANTS if v.name == "webgpu-f32")
    low = gpu.GpuLowering(SHARED, BOUNDS, PARAMS, {}, variant.kv_dtype, variant, LIMITS)
    return gpu.lower_graph(low, graph, many_rows=prefill)


each_target = pytest.mark.parametrize("lower", [on_cpu, on_webgpu])


def graph_of(op: Operation) -> Graph:
    return Graph("layers", (Node(op, (VALUE,), RESULT, label="here"),))


@each_target
@pytest.mark.parametrize("prefill", [False, True])
def test_sinks_that_the_family_does_not_declare_are_refused(prefill: bool, lower: Lower) -> None:
    assert lower(graph_of(PLAIN), prefill)
    op = replace(PLAIN, sinks="layers.0.snik")
    with pytest.raises(CompileError, match=r"'layers.0.snik.weight', which the family does not"):
        lower(graph_of(op), prefill)


@each_target
def test_an_operation_without_a_kernel_is_refused(lower: Lower) -> None:
    @dataclass(frozen=True)
    class Telepathy(Operation):
        name = "telepathy"

    with pytest.raises(CompileError, match=r"no kernel for 'telepathy' \(here\)"):
        lower(graph_of(Telepathy()), True)


@each_target
@pytest.mark.parametrize(
    ("op", "params", "words"),
    [
        (RmsNorm(1e-6), ("nrom",), "'nrom.weight', which the family does not declare"),
        (RopeAppend(HEADS, "rope_local", 0), (), "'rope_local', which the family does not"),
        (RopeAppend(HEADS, "rope", 0, 1e-6), ("layers.0.q_norm", "layers.0.k_norm"), "_norm.wei"),
        (RopeAppend(Heads(4, 2, 32), "rope", 3), (), "16 wide, the heads of layer 3 32"),
    ],
)
def test_parameters_that_do_not_fit_the_forward_pass_are_refused_by_name(
    op: Operation, params: tuple[str, ...], words: str, lower: Lower
) -> None:
    assert lower(Graph("layers", (Node(RopeAppend(HEADS, "rope", 0), (VALUE,), RESULT),)), True)
    with pytest.raises(CompileError, match=words):
        lower(Graph("layers", (Node(op, (VALUE,), RESULT, params),)), True)


@each_target
def test_pages_and_scratch_are_as_wide_as_the_heads_of_the_node(lower: Lower) -> None:
    wide = Attention(Heads(2, 1, 32), 0.25, layer=5)
    shapes = {
        argument.tensor.name: argument.tensor.shape
        for call in lower(graph_of(wide), True)
        for argument in call.arguments
    }
    assert shapes["kv.5"] == ("pages", 2, 1, 16 * 32)


@each_target
@pytest.mark.parametrize("prefill", [False, True])
def test_layers_may_differ_in_scale_query_heads_and_eps(prefill: bool, lower: Lower) -> None:
    nodes = (
        *(Node(Attention(HEADS, scale, 0), (VALUE,), RESULT) for scale in (0.25, 0.5)),
        Node(Attention(Heads(2, 2, 16), 0.25, 0), (VALUE,), RESULT),
        *(Node(RmsNorm(eps), (VALUE,), RESULT, ("norm",)) for eps in (1e-6, 1e-5)),
    )
    kernels: dict[str, PrimFunc] = {}
    for call in lower(Graph("layers", nodes), prefill):
        name = str(call.kernel.attrs["global_symbol"])
        assert kernels.setdefault(name, call.kernel) is call.kernel, f"two are called {name}"
