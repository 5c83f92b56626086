"""linear → add(residual, ·) becomes one linear that adds onto the residual; so does combine."""

from __future__ import annotations

from dataclasses import replace

from edgewise_compiler.graph.nodes import Graph, Node
from edgewise_compiler.graph.operations import Add, Combine, Linear, Operation


def fuse_residual(graph: Graph) -> Graph:
    """Fold each ``add`` into its linear where the old residual is read by nothing afterwards.

    The fused node reads and writes the residual's buffer, so a later reader of the old value would
    see the sum; such adds are left alone.
    """
    fused: dict[str, Node[Operation]] = {}
    dropped: set[str] = set()
    position = {node.output.id: i for i, node in enumerate(graph.nodes)}
    for index, node in enumerate(graph.nodes):
        if not isinstance(node.op, Add):
            continue
        residual, y = node.inputs
        producer = graph.producer(y)
        if producer is None or not isinstance(producer.op, Linear | Combine):
            continue
        if producer.op.epilogue != "store":
            continue
        last_use = max(position[use.output.id] for use in graph.uses(residual))
        if len(graph.uses(y)) != 1 or last_use > index or residual.name is None:
            continue
        if any(
            position[producer.output.id] < position[use.output.id] < index
            for use in graph.uses(residual)
        ):
            continue
        fused[producer.output.id] = replace(
            producer,
            op=replace(producer.op, epilogue="add"),
            inputs=(*producer.inputs, residual),
            output=node.output,
        )
        dropped.add(node.output.id)
    return graph.with_nodes(
        fused.get(node.output.id, node)
        for node in graph.nodes
        if not (isinstance(node.op, Add) and node.output.id in dropped)
    )
