"""linear → swiglu becomes one linear whose epilogue applies silu(gate) * up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from edgewise_compiler.graph.nodes import Graph, Node
from edgewise_compiler.graph.operations import (
    Activation,
    Epilogue,
    Experts,
    Linear,
    Operation,
    Swiglu,
)

_EPILOGUES: Mapping[Activation, Epilogue] = {
    "silu": "swiglu",
    "gelu_tanh": "geglu",
    "clamped_silu": "clamped",
}


def fuse_swiglu(graph: Graph) -> Graph:
    """Fold each ``swiglu`` into the linear that feeds it, when nothing else reads that linear."""
    fused: dict[str, Node[Operation]] = {}
    for node in graph.nodes:
        if not isinstance(node.op, Swiglu):
            continue
        producer = graph.producer(node.inputs[0])
        if producer is None or not isinstance(producer.op, Linear | Experts):
            continue
        if len(graph.uses(producer.output)) != 1:
            continue
        fused[producer.output.id] = replace(
            producer,
            op=replace(producer.op, epilogue=_EPILOGUES[node.op.activation]),
            output=node.output,
        )
    replaced = {node.output.id for node in fused.values()}
    return graph.with_nodes(
        fused.get(node.output.id, node)
        for node in graph.nodes
        if not (isinstance(node.op, Swiglu) and node.output.id in replaced)
    )
