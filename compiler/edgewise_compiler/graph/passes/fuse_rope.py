"""rope_append → attention becomes one attention that takes in the newest token by itself."""

from __future__ import annotations

from dataclasses import replace

from edgewise_compiler.graph.nodes import Graph, Node
from edgewise_compiler.graph.operations import Attention, Operation, RopeAppend


def fuse_rope(graph: Graph) -> Graph:
    """Fold each ``rope_append`` into the attention over the same pages, if nothing else reads it.

    That pays where a sequence has one row (decode): who attends for a head rotates its queries as
    they are read, and the newest key and value are written by whoever attends to them. Rows of a
    prompt would be rotated again by everybody who reads them.
    """
    ropes = {}
    for node in graph.nodes:
        if not isinstance(node.op, RopeAppend):
            continue
        readers = [use.op for use in graph.uses(node.output)]
        if len(readers) != 1 or not isinstance(readers[0], Attention):
            continue
        if readers[0].layer == node.op.layer:
            ropes[node.output.id] = (node.op, node)

    def rewrite(node: Node[Operation]) -> Node[Operation]:
        if not isinstance(node.op, Attention) or node.inputs[0].id not in ropes:
            return node
        op, rope = ropes[node.inputs[0].id]
        return replace(
            node,
            op=replace(node.op, rope=op),
            inputs=(rope.inputs[0], *node.inputs[1:]),
            params=(*rope.params, *node.params),
        )

    return graph.with_nodes(rewrite(node) for node in graph.nodes if node.output.id not in ropes)
