"""Seams are found where one tensor makes what linears read, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgewise_compiler.checkpoint import Checkpoint, open_checkpoint
from edgewise_compiler.graph.build import build_graphs
from edgewise_compiler.graph.nodes import Graph, GraphBuilder
from edgewise_compiler.graph.operations import Attention, Heads
from edgewise_compiler.graph.seams import Seam, find_seams
from edgewise_compiler.layouts.order import linear_widths
from edgewise_compiler.models.base import LinearSpec, ParamSpec, VectorSpec

Checkpoints = Callable[[str], Path]

HIDDEN = 64
HEADS = Heads(4, 2, 16)
PARAMS: tuple[ParamSpec, ...] = (
    VectorSpec("norm", "norm.w", HIDDEN),
    LinearSpec("qkv", ("q", "k", "v"), (64, 32, 32), HIDDEN),
    LinearSpec("o", ("o.w",), (HIDDEN,), 64),
    LinearSpec("gate_up", ("gate", "up"), (96, 96), HIDDEN, interleave=True),
    LinearSpec("down", ("down.w",), (HIDDEN,), 96),
)


def seams_of(record: Callable[[GraphBuilder], object]) -> dict[str, tuple[str, ...]]:
    """The readers of what each tensor makes."""
    g = GraphBuilder("layers", hidden=HIDDEN, widths=linear_widths(PARAMS))
    record(g)
    return {seam.maker.tensor: seam.readers for seam in find_seams([g.graph()], PARAMS)}


def seams_of_checkpoint(checkpoint: Checkpoint) -> tuple[Seam, ...]:
    params = checkpoint.family.params(checkpoint.model)
    graphs = build_graphs(checkpoint.family, checkpoint.model, linear_widths(params), ())
    return find_seams(graphs.values(), params)


@pytest.mark.parametrize("case", ["llama-gqa4-bias-llama3", "qwen3-gqa2-tied"])
def test_a_layer_has_four_and_an_untied_head_one(checkpoints: Checkpoints, case: str) -> None:
    with open_checkpoint(checkpoints(case)) as checkpoint:
        cfg, seams = checkpoint.model, seams_of_checkpoint(checkpoint)
    readers = {seam.maker.tensor: seam.readers for seam in seams}
    layer = "model.layers.1"
    assert len(seams) == 4 * cfg.layers + (not cfg.tied)
    assert readers[f"{layer}.input_layernorm.weight"] == tuple(
        f"{layer}.self_attn.{p}_proj.weight" for p in "qkv"
    )
    assert readers[f"{layer}.self_attn.v_proj.weight"] == (f"{layer}.self_attn.o_proj.weight",)
    assert readers[f"{layer}.post_attention_layernorm.weight"] == tuple(
        f"{layer}.mlp.{p}_proj.weight" for p in ("gate", "up")
    )
    assert readers[f"{layer}.mlp.up_proj.weight"] == (f"{layer}.mlp.down_proj.weight",)
    assert readers.get("model.norm.weight") == (None if cfg.tied else ("lm_head.weight",))


def test_every_head_that_shares_values_reads_their_channels(checkpoints: Checkpoints) -> None:
    with open_checkpoint(checkpoints("llama-gqa4-bias-llama3")) as checkpoint:
        cfg, seams = checkpoint.model, seams_of_checkpoint(checkpoint)
    maker = next(seam.maker for seam in seams if "v_proj" in seam.maker.tensor)
    heads = maker.channels.reshape(cfg.heads, cfg.head_dim)
    for head, channels in enumerate(heads):
        first = head // (cfg.heads // cfg.kv_heads) * cfg.head_dim
        np.testing.assert_array_equal(channels, np.arange(first, first + cfg.head_dim))
    assert maker.tensors == tuple(
        f"model.layers.0.self_attn.v_proj.{kind}" for kind in ("weight", "bias")
    )
    assert maker.norm == "model.layers.0.input_layernorm.weight"


def test_what_a_sum_reads_as_well_has_no_seam() -> None:
    def apart(g: GraphBuilder) -> None:
        g.linear(g.rms_norm(g.hidden(), "norm", 1e-6), "qkv")

    def added(g: GraphBuilder) -> None:
        h = g.rms_norm(g.hidden(), "norm", 1e-6)
        g.add(h, g.linear(h, "o"))

    assert seams_of(apart) == {"norm.w": ("q", "k", "v")}
    assert seams_of(added) == {}


def test_a_tensor_used_twice_has_no_seam() -> None:
    def twice(g: GraphBuilder) -> None:
        x = g.hidden()
        for _ in range(2):
            x = g.add(x, g.linear(g.swiglu(g.linear(x, "gate_up")), "down"))

    def once(g: GraphBuilder) -> None:
        g.linear(g.swiglu(g.linear(g.hidden(), "gate_up")), "down")

    assert seams_of(once) == {"up": ("down.w",)}
    assert seams_of(twice) == {}


@pytest.mark.parametrize(("other", "found"), [(0, {}), (1, {"v": ("o.w",)})])
def test_values_that_a_second_attention_reads_have_no_seam(
    other: int, found: dict[str, tuple[str, ...]]
) -> None:
    g = GraphBuilder("layers", hidden=HIDDEN, widths=linear_widths(PARAMS))
    attention = Attention(HEADS, 0.25, layer=0)
    g.linear(g.attention(g.linear(g.hidden(), "qkv"), attention, rotation="rope"), "o")
    graph = g.graph()
    last = next(node for node in graph.nodes if node.op == attention)
    again = replace(last, op=replace(attention, layer=other), output=replace(last.output, id="y"))
    seams = find_seams([Graph(graph.name, (*graph.nodes, again))], PARAMS)
    assert {seam.maker.tensor: seam.readers for seam in seams} == found
