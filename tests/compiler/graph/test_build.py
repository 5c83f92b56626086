"""What is left of a family's forward functions: graphs, and the sizes that their plans share."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgewise_compiler.graph.build import SharedSizes, build_graphs, shared_sizes
from edgewise_compiler.graph.nodes import GraphBuilder, Value
from edgewise_compiler.graph.operations import Heads
from edgewise_compiler.models.base import Family, LinearSpec, ModelConfig
from edgewise_compiler.models.llama import LLAMA
from edgewise_runtime.errors import CompileError
from tests.compiler.models.test_families import CONFIG

WIDTHS = {s.name: sum(s.rows) for s in LLAMA.params(CONFIG) if isinstance(s, LinearSpec)}


def test_shared_sizes_come_from_the_graphs() -> None:
    cfg = replace(CONFIG, vocab=300)
    graphs = build_graphs(LLAMA, cfg, {**WIDTHS, "lm_head": 320}, ())
    heads = Heads(query=4, kv=2, width=32)
    expected = SharedSizes(hidden=64, vocab=300, columns=320, layers=2, heads=heads)
    assert shared_sizes(graphs) == expected


def test_a_graph_without_an_embedding_has_no_vocabulary() -> None:
    graphs = build_graphs(LLAMA, CONFIG, WIDTHS, ())
    with pytest.raises(CompileError, match="0 tables"):
        shared_sizes({**graphs, "embed": graphs["head"]})


def test_a_forward_pass_that_reads_what_was_overwritten_is_refused() -> None:
    def layers(g: GraphBuilder, cfg: ModelConfig, x: Value) -> Value:
        h = g.linear(g.rms_norm(x, "layers.0.attn_norm", 1e-6), "layers.0.o")
        first = g.add(x, h)
        return g.add(first, g.linear(x, "layers.0.o"))

    family: Family = replace(LLAMA, layers=layers)
    with pytest.raises(CompileError, match=r"layers\.0\.o in 'layers' reads 'x'"):
        build_graphs(family, CONFIG, WIDTHS, ())
