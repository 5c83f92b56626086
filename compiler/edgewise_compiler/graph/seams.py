"""Seams: where the channels that one tensor makes are the columns of linears and of nothing else.

Between the two sides of a seam a channel may have any unit: the elements of a norm's weight, or the
rows of a linear, divided by what the columns that read them are multiplied with leave the model's
function as it is. Seams are found in nodes before any pass, so a family needs nothing for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgewise_compiler.graph.nodes import Graph, Node, Value
from edgewise_compiler.graph.operations import (
    Attention,
    Linear,
    Operation,
    RmsNorm,
    RopeAppend,
    Swiglu,
)
from edgewise_compiler.models.base import LinearSpec, ParamSpec, VectorSpec
from edgewise_compiler.weights.params import param_sources


@dataclass(frozen=True)
class Maker:
    """What makes channels.

    Attributes:
        tensor: of the checkpoint; a channel is an element of a norm's weight, or a row of a linear.
        vector: which of the two.
        channels: the channel that each column on the other side is, int64 ``[k]``.
        bias: the tensor of those rows' biases, if they have some.
        norm: the weight of the norm that the linear's input comes out of, if it does.
    """

    tensor: str
    vector: bool
    channels: NDArray[np.int64]
    bias: str | None = None
    norm: str | None = None

    @property
    def tensors(self) -> tuple[str, ...]:
        """Those of which each channel has an element or a row."""
        return (self.tensor,) if self.bias is None else (self.tensor, self.bias)


@dataclass(frozen=True)
class Seam:
    """A maker, and the tensors ``[rows, k]`` whose columns are its channels."""

    maker: Maker
    readers: tuple[str, ...]

    @property
    def tensors(self) -> frozenset[str]:
        """All that change with the unit of a channel."""
        return frozenset((*self.maker.tensors, *self.readers))


def find_seams(graphs: Iterable[Graph], params: Iterable[ParamSpec]) -> tuple[Seam, ...]:
    """Every seam of a model, in the order of execution.

    A tensor that something else uses as well, such as the table of tokens that is the head, too,
    has a part in none.

    Args:
        graphs: before any pass.
        params: what their nodes name.
    """
    specs = {spec.name: spec for spec in params}
    nodes = [(graph, node) for graph in graphs for node in graph.nodes]
    uses = Counter(
        source for _, node in nodes for name in node.params for source in param_sources(specs[name])
    )
    seams = []
    for graph, node in nodes:
        find = _MAKERS.get(type(node.op))
        maker = find(graph, node, specs) if find is not None else None
        readers = _readers(graph, node.output, specs, maker) if maker is not None else ()
        if maker is None or not readers:
            continue
        seam = Seam(maker, readers)
        if all(uses[tensor] == 1 for tensor in seam.tensors):
            seams.append(seam)
    return tuple(seams)


def find_kept(graphs: Iterable[Graph], params: Iterable[ParamSpec]) -> tuple[Maker, ...]:
    """What makes the keys and values that pages keep: matrices, or the norms that keys end with."""
    specs = {spec.name: spec for spec in params}
    makers: list[Maker] = []
    for graph in graphs:
        for node in graph.nodes:
            made = graph.producer(node.inputs[0]) if isinstance(node.op, RopeAppend) else None
            linear = _linear(made, specs)
            if made is None or linear is None or len(linear.sources) != 3:
                continue
            _, key, value = (
                _of_rows(graph, made, linear, specs, i, np.arange(linear.rows[i])) for i in range(3)
            )
            norm = specs[node.params[1]] if node.params else None
            if isinstance(norm, VectorSpec):
                key = Maker(norm.source, True, np.arange(norm.size))
            makers += [maker for maker in (key, value) if maker is not None]
    return tuple(makers)


Specs = Mapping[str, ParamSpec]


def _readers(graph: Graph, value: Value, specs: Specs, maker: Maker) -> tuple[str, ...]:
    """The tensors that multiply with ``value``; none where anything else may see it."""
    linears = [_linear(node, specs) for node in graph.uses(value)]
    if value.name is not None:
        return ()
    tensors: list[str] = []
    for linear in linears:
        if linear is None or linear.k != len(maker.channels):
            return ()
        tensors += linear.sources
    return tuple(tensors)


def _linear(node: Node[Operation] | None, specs: Specs) -> LinearSpec | None:
    """What a plain linear multiplies with; None for any other node."""
    if node is None or node.op != Linear():
        return None
    spec = specs[node.params[0]]
    return spec if isinstance(spec, LinearSpec) else None


def _norm_weight(graph: Graph, node: Node[Operation], specs: Specs) -> VectorSpec | None:
    """The weight of the norm that ``node`` is; None for any other node."""
    spec = specs[node.params[0]] if isinstance(node.op, RmsNorm) else None
    return spec if isinstance(spec, VectorSpec) else None


def _of_norm(graph: Graph, node: Node[Operation], specs: Specs) -> Maker | None:
    weight = _norm_weight(graph, node, specs)
    return None if weight is None else Maker(weight.source, True, np.arange(weight.size))


def _of_swiglu(graph: Graph, node: Node[Operation], specs: Specs) -> Maker | None:
    """The second of the two matrices: its rows only ever multiply."""
    made = graph.producer(node.inputs[0])
    linear = _linear(made, specs)
    if made is None or linear is None or not linear.interleave or len(linear.sources) != 2:
        return None
    return _of_rows(graph, made, linear, specs, 1, np.arange(linear.rows[1]))


def _of_attention(graph: Graph, node: Node[Operation], specs: Specs) -> Maker | None:
    """The values: what comes out is a mean of theirs."""
    rope = graph.producer(node.inputs[0])
    if rope is None or not isinstance(rope.op, RopeAppend) or not isinstance(node.op, Attention):
        return None
    made, heads = graph.producer(rope.inputs[0]), rope.op.heads
    linear = _linear(made, specs)
    readers = [other for other in graph.nodes if _reads_layer(other, rope.op.layer)]
    q, kv = heads.query * heads.width, heads.kv * heads.width
    if made is None or linear is None or linear.rows != (q, kv, kv) or readers != [node]:
        return None
    column = np.arange(q)
    head = column // heads.width // (heads.query // heads.kv)
    return _of_rows(graph, made, linear, specs, 2, head * heads.width + column % heads.width)


def _reads_layer(node: Node[Operation], layer: int) -> bool:
    return isinstance(node.op, Attention) and node.op.layer == layer


def _of_rows(
    graph: Graph,
    made: Node[Operation],
    linear: LinearSpec,
    specs: Specs,
    index: int,
    channels: NDArray[np.int64],
) -> Maker | None:
    """The rows of one source of ``linear``, which the node ``made`` computes."""
    if len(graph.uses(made.output)) != 1:
        return None
    before = graph.producer(made.inputs[0])
    weight = None if before is None else _norm_weight(graph, before, specs)
    return Maker(
        linear.sources[index],
        False,
        channels,
        None if linear.biases is None else linear.biases[index],
        None if weight is None else weight.source,
    )


_MAKERS: Mapping[type[Operation], Callable[[Graph, Node[Operation], Specs], Maker | None]] = {
    RmsNorm: _of_norm,
    Swiglu: _of_swiglu,
    Attention: _of_attention,
}
