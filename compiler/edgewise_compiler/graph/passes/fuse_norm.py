"""rms_norm → linear becomes one linear that normalizes its input on the way in."""

from __future__ import annotations

from dataclasses import replace

from edgewise_compiler.graph.nodes import Graph, Node
from edgewise_compiler.graph.operations import Linear, Operation, RmsNorm


def fuse_norm(graph: Graph) -> Graph:
    """Fold each ``rms_norm`` into the linears that read it, when only linears do.

    A linear's row is a sum of products either way, and the norm's scale is common to all of them,
    so a kernel that reads the whole row anyway can apply it at the end. That pays where few rows
    are computed (decode); many rows would each be normalized again for every tile of columns.
    """
    norms = {
        node.output.id: (node.op, node) for node in graph.nodes if isinstance(node.op, RmsNorm)
    }
    foldable = {
        id_
        for id_, (_, node) in norms.items()
        if all(isinstance(use.op, Linear) for use in graph.uses(node.output))
    }

    def rewrite(node: Node[Operation]) -> Node[Operation]:
        if not isinstance(node.op, Linear) or node.inputs[0].id not in foldable:
            return node
        op, norm = norms[node.inputs[0].id]
        return replace(
            node,
            op=replace(node.op, norm=op.eps, gather=op.gather),
            inputs=(norm.inputs[0], *node.inputs[1:]),
            params=(*node.params, *norm.params),
        )

    return graph.with_nodes(rewrite(node) for node in graph.nodes if node.output.id not in foldable)
