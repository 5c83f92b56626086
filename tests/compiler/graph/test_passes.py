"""Graph passes: what they fuse, and what they must leave alone."""

from __future__ import annotations

from edgewise_compiler.graph.nodes import Graph, GraphBuilder, Node, Value
from edgewise_compiler.graph.operations import Attention, Heads, Linear, Operation, RmsNorm
from edgewise_compiler.graph.passes import (
    fuse_gather,
    fuse_norm,
    fuse_residual,
    fuse_rope,
    fuse_swiglu,
    quantize_activations,
)


def builder(name: str = "layers") -> GraphBuilder:
    widths = {"qkv": 128, "o": 64, "gate_up": 256, "down": 64, "head": 320}
    return GraphBuilder(name, hidden=64, widths=widths)


def attend(g: GraphBuilder, qkv: Value) -> Value:
    return g.attention(qkv, Attention(Heads(4, 2, 16), 0.25, layer=0), rotation="rope")


def layer() -> Graph:
    g = builder()
    x = g.hidden()
    a = attend(g, g.linear(g.rms_norm(x, "n1", 1e-5), "qkv"))
    x = g.add(x, g.linear(a, "o"))
    g.add(x, g.linear(g.swiglu(g.linear(g.rms_norm(x, "n2", 1e-5), "gate_up")), "down"))
    return g.graph()


def ops(graph: Graph) -> list[str]:
    return [node.op.name for node in graph.nodes]


def linears(graph: Graph) -> list[tuple[Node[Operation], Linear]]:
    return [(node, node.op) for node in graph.nodes if isinstance(node.op, Linear)]


def test_a_layer_becomes_eight_kernels_for_floats() -> None:
    fused = fuse_residual(fuse_swiglu(layer()))
    assert ops(fused) == [
        "rms_norm",
        "linear",
        "rope_append",
        "attention",
        "linear",
        "rms_norm",
        "linear",
        "linear",
    ]
    assert [op.epilogue for _, op in linears(fused)] == ["store", "add", "swiglu", "add"]


def test_a_residual_read_again_later_is_not_overwritten() -> None:
    g = builder()
    x = g.hidden()
    y = g.add(x, g.linear(g.rms_norm(x, "n1", 1e-5), "o"))
    g.add(y, g.linear(g.rms_norm(x, "n2", 1e-5), "down"))
    assert ops(fuse_residual(g.graph())).count("add") == 1


def test_a_residual_without_a_buffer_of_its_own_is_not_written_in_place() -> None:
    g = builder()
    h = g.rms_norm(g.hidden(), "n1", 1e-5)
    g.add(h, g.linear(h, "o"))
    assert "add" in ops(fuse_residual(g.graph()))


def test_a_gate_read_twice_keeps_its_linear() -> None:
    g = builder()
    gate = g.linear(g.hidden(), "gate_up")
    g.swiglu(gate)
    g.linear(gate, "down")
    assert "swiglu" in ops(fuse_swiglu(g.graph()))


def test_the_head_gathers_inside_its_norm() -> None:
    g = builder("head")
    g.logits(g.rms_norm(g.gather_logit_rows(g.hidden()), "norm", 1e-5), "head")
    fused = fuse_gather(g.graph())
    assert ops(fused) == ["rms_norm", "linear"]
    assert fused.nodes[0].op == RmsNorm(1e-5, gather=True)
    assert fused.nodes[0].output.rows == "r"


def test_norms_and_swiglu_quantize_on_their_way_out_and_attention_gets_a_node() -> None:
    graph = quantize_activations(fuse_residual(fuse_swiglu(layer())))
    assert ops(graph) == [
        "rms_norm",
        "linear",
        "rope_append",
        "attention",
        "quantize",
        "linear",
        "rms_norm",
        "linear",
        "linear",
    ]
    assert all(node.inputs[0].kind == "a8" for node, _ in linears(graph))
    assert [op.epilogue for _, op in linears(graph)] == ["store", "add", "swiglu", "add"]
    assert [node.output.kind for node, _ in linears(graph)] == ["f32", "f32", "a8", "f32"]


def test_a_norm_read_by_something_other_than_a_linear_stays_float() -> None:
    g = builder()
    h = g.rms_norm(g.hidden(), "n1", 1e-5)
    g.linear(h, "o")
    g.swiglu(h)
    graph = quantize_activations(g.graph())
    assert ops(graph) == ["rms_norm", "quantize", "linear", "swiglu"]
    assert graph.nodes[0].output.kind == "f32"


def test_norms_that_only_linears_read_become_part_of_them() -> None:
    fused = fuse_norm(fuse_residual(fuse_swiglu(layer())))
    assert ops(fused) == ["linear", "rope_append", "attention", "linear", "linear", "linear"]
    normed = [node for node, op in linears(fused) if op.norm == 1e-5]
    assert [node.params for node in normed] == [("qkv", "n1"), ("gate_up", "n2")]
    assert all(node.inputs[0].name == "x" for node in normed)


def test_attention_takes_the_newest_token_in_by_itself() -> None:
    before = fuse_norm(fuse_residual(fuse_swiglu(layer())))
    fused = fuse_rope(before)
    assert ops(fused) == ["linear", "attention", "linear", "linear", "linear"]
    attention = fused.nodes[1]
    assert isinstance(attention.op, Attention)
    assert attention.op.rope == before.nodes[1].op
    assert attention.inputs == (fused.nodes[0].output,)


def test_queries_that_something_else_reads_are_rotated_apart() -> None:
    g = builder()
    q = attend(g, g.linear(g.hidden(), "qkv"))
    graph = g.graph()
    rope = graph.nodes[1]
    read_twice = Graph("layers", (*graph.nodes, Node(Linear(), (rope.output,), q, (), "again")))
    assert fuse_rope(read_twice) == read_twice


def test_a_rotation_that_nothing_reads_stays() -> None:
    g = builder()
    attend(g, g.linear(g.hidden(), "qkv"))
    graph = g.graph()
    unread = Graph("layers", graph.nodes[:-1])
    assert fuse_rope(unread) == unread


def test_a_gathering_norm_hands_the_gathering_on() -> None:
    g = builder("head")
    g.logits(g.rms_norm(g.gather_logit_rows(g.hidden()), "n", 1e-5), "head")
    (node,) = fuse_norm(fuse_gather(g.graph())).nodes
    assert node.op == Linear(norm=1e-5, gather=True)
    assert (node.inputs[0].name, node.inputs[0].rows, node.output.rows) == ("x", "n", "r")


def test_a_norm_that_something_else_reads_stays() -> None:
    g = builder()
    h = g.rms_norm(g.hidden(), "n", 1e-5)
    attend(g, h)
    g.linear(h, "qkv")
    assert "rms_norm" in ops(fuse_norm(g.graph()))
