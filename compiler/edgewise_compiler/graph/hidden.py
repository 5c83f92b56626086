"""What a head is given before its last linear: hidden states, for embeddings."""

from __future__ import annotations

from dataclasses import replace

from edgewise_compiler.graph.nodes import Graph
from edgewise_compiler.graph.operations import Linear, Quantize, Softcap
from edgewise_runtime.errors import CompileError

HIDDEN = "hidden"
"""The graph, the plan and the buffer of them."""


def hidden_graph(head: Graph) -> Graph:
    """A head, after a target's passes, up to what its last linear reads: the hidden states of the
    wanted rows, in float32 even where that linear reads int8.

    Raises:
        CompileError: a head that does not end in a linear of something that it computes.
    """
    # What is done to logits comes after hidden states.
    *nodes, last = (node for node in head.nodes if not isinstance(node.op, Softcap))
    if nodes and isinstance(nodes[-1].op, Quantize):
        nodes.pop()
    if (
        not nodes
        or not isinstance(last.op, Linear)
        or nodes[-1].output.width != last.inputs[0].width
    ):
        raise CompileError(f"The graph {head.name!r} does not end in a linear of hidden states.")
    *before, states = nodes
    named = replace(states.output, kind="f32", name=HIDDEN)
    return Graph(HIDDEN, (*before, replace(states, output=named)))
