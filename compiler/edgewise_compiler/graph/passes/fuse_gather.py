"""gather → rms_norm becomes one norm that reads the rows it needs."""

from __future__ import annotations

from dataclasses import replace

from edgewise_compiler.graph.nodes import Graph, Node


def fuse_gather(graph: Graph) -> Graph:
    """Fold each ``gather`` into the norms that read it, when only norms do."""
    gathers = {node.output.id: node for node in graph.nodes if node.op == "gather"}
    foldable = {
        id_
        for id_, node in gathers.items()
        if all(use.op == "rms_norm" for use in graph.uses(node.output))
    }

    def rewrite(node: Node) -> Node:
        if node.op == "rms_norm" and node.inputs[0].id in foldable:
            source = gathers[node.inputs[0].id].inputs[0]
            return replace(node.with_attrs(gather=True), inputs=(source,))
        return node

    return graph.with_nodes(rewrite(node) for node in graph.nodes if node.output.id not in foldable)
