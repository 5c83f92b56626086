"""gather → rms_norm becomes one norm that reads the rows it needs."""

from __future__ import annotations

from dataclasses import replace

from edgewise_compiler.graph.nodes import Graph, Node
from edgewise_compiler.graph.operations import Gather, Operation, RmsNorm


def fuse_gather(graph: Graph) -> Graph:
    """Fold each ``gather`` into the norms that read it, when only norms do."""
    gathers = {node.output.id: node for node in graph.nodes if isinstance(node.op, Gather)}
    foldable = {
        id_
        for id_, node in gathers.items()
        if all(isinstance(use.op, RmsNorm) for use in graph.uses(node.output))
    }

    def rewrite(node: Node[Operation]) -> Node[Operation]:
        if isinstance(node.op, RmsNorm) and node.inputs[0].id in foldable:
            source = gathers[node.inputs[0].id].inputs[0]
            return replace(node, op=replace(node.op, gather=True), inputs=(source,))
        return node

    return graph.with_nodes(rewrite(node) for node in graph.nodes if node.output.id not in foldable)
