"""Hidden states: what a head computes before its last linear, after the passes of each target."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from edgewise_compiler.graph.build import (
    CPU_FLOAT,
    CPU_INTEGER,
    GPU_MANY_ROWS,
    Pass,
    build_graphs,
)
from edgewise_compiler.graph.hidden import HIDDEN, hidden_graph
from edgewise_compiler.graph.nodes import Graph, GraphBuilder
from edgewise_compiler.graph.operations import Linear, RmsNorm
from edgewise_compiler.graph.passes import quantize_activations
from edgewise_compiler.models.llama import LLAMA
from edgewise_runtime.errors import CompileError
from tests.compiler.graph.test_build import WIDTHS
from tests.compiler.models.test_families import CONFIG


@pytest.mark.parametrize("passes", [CPU_FLOAT, CPU_INTEGER, GPU_MANY_ROWS])
def test_they_are_the_final_norm_of_the_wanted_rows_in_float32(passes: Sequence[Pass]) -> None:
    head = build_graphs(LLAMA, CONFIG, WIDTHS, passes)["head"]
    graph = hidden_graph(head)
    [norm] = graph.nodes
    assert norm.op == RmsNorm(CONFIG.rms_eps, gather=True)
    assert (norm.output.name, norm.output.kind) == (HIDDEN, "f32")
    assert (norm.output.rows, norm.output.width) == ("r", CONFIG.hidden)
    assert isinstance(head.nodes[-1].op, Linear)


def test_a_linear_that_quantizes_for_itself_is_left_out_with_its_quantization() -> None:
    g = GraphBuilder("head", hidden=64, widths={"lm_head": 320})
    g.logits(g.gather_logit_rows(g.hidden()), "lm_head")
    quantized = quantize_activations(g.graph())
    assert [node.op.name for node in quantized.nodes] == ["gather", "quantize", "linear"]
    assert [node.op.name for node in hidden_graph(quantized).nodes] == ["gather"]


def test_a_head_without_states_is_refused() -> None:
    g = GraphBuilder("head", hidden=64, widths={"lm_head": 320})
    g.gather_logit_rows(g.hidden())
    for graph in (
        g.graph(),
        Graph("head", build_graphs(LLAMA, CONFIG, WIDTHS, ())["head"].nodes[-1:]),
    ):
        with pytest.raises(CompileError, match="does not end in a linear"):
            hidden_graph(graph)
