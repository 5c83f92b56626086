"""Every linear reads int8 activations; whoever produces them quantizes where it can."""

from __future__ import annotations

from dataclasses import replace

from edgewise_compiler.graph.nodes import Graph, Node, Value
from edgewise_compiler.graph.operations import Experts, Linear, Operation, Quantize, RmsNorm


def _absorbs(op: Operation | None) -> bool:
    """Whether its kernel can write a8 directly."""
    return isinstance(op, RmsNorm) or (
        isinstance(op, Linear | Experts) and op.epilogue in ("swiglu", "geglu", "clamped")
    )


def quantize_activations(graph: Graph) -> Graph:
    """Turn the activation input of each linear into int8 in groups of 32 (w4a8, w5a8, w6a8, w8a8).

    A norm or a SwiGLU read only by linears quantizes on its way out; anything else gets a
    ``quantize`` node in front of the linear.
    """
    to_a8: dict[str, Value] = {}
    absorbed: set[str] = set()
    for node in graph.nodes:
        if not isinstance(node.op, Linear | Experts) or node.inputs[0].id in to_a8:
            continue
        value = node.inputs[0]
        producer = graph.producer(value)
        uses = graph.uses(value)
        absorbs = producer is not None and _absorbs(producer.op)
        if absorbs and all(isinstance(use.op, Linear | Experts) for use in uses):
            to_a8[value.id] = replace(value, kind="a8")
            absorbed.add(value.id)
        else:
            to_a8[value.id] = Value(f"{value.id}.a8", value.rows, value.width, kind="a8")

    nodes: list[Node[Operation]] = []
    done: set[str] = set()
    for original in graph.nodes:
        node = original
        if isinstance(node.op, Linear | Experts):
            value = node.inputs[0]
            if value.id not in absorbed and value.id not in done:
                nodes.append(
                    Node(Quantize(), (value,), to_a8[value.id], label=f"{node.label}.quantize")
                )
                done.add(value.id)
            node = replace(node, inputs=(to_a8[value.id], *node.inputs[1:]))
        if node.output.id in absorbed:
            node = replace(node, output=to_a8[node.output.id])
        nodes.append(node)
    return graph.with_nodes(nodes)
