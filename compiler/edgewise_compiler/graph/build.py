"""A family's forward functions as graphs, after the passes a target asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from edgewise_compiler.graph.nodes import Graph, GraphBuilder, Value
from edgewise_compiler.graph.operations import Attention, Embed, Heads
from edgewise_compiler.graph.passes import (
    fuse_gather,
    fuse_norm,
    fuse_residual,
    fuse_rope,
    fuse_swiglu,
    quantize_activations,
)
from edgewise_compiler.models.base import Family, ModelConfig
from edgewise_runtime.errors import CompileError

Pass = Callable[[Graph], Graph]

FUSE: tuple[Pass, ...] = (fuse_gather, fuse_swiglu, fuse_residual)
"""What every target's kernels can do in one."""

CPU_FLOAT: tuple[Pass, ...] = FUSE
CPU_INTEGER: tuple[Pass, ...] = (*FUSE, quantize_activations)
GPU_MANY_ROWS: tuple[Pass, ...] = FUSE
GPU_FEW_ROWS: tuple[Pass, ...] = (*FUSE, fuse_norm, fuse_rope)


def build_graphs(
    family: Family, cfg: ModelConfig, widths: Mapping[str, int], passes: Sequence[Pass]
) -> dict[str, Graph]:
    """The family's three graphs, ``embed``, ``layers`` and ``head``, after ``passes``.

    Args:
        widths: output columns of each packed linear.

    Raises:
        CompileError: a forward function that no plan can compute.
    """

    def builder(name: str) -> GraphBuilder:
        return GraphBuilder(name, hidden=cfg.hidden, widths=widths)

    embed, layers, head = builder("embed"), builder("layers"), builder("head")
    family.embed(embed, cfg)
    family.layers(layers, cfg, layers.hidden())
    family.head(head, cfg, head.hidden())
    graphs = {}
    for recorded in (embed, layers, head):
        graph = recorded.graph()
        for apply in passes:
            graph = apply(graph)
        _check_overwrites(graph)
        graphs[graph.name] = graph
    return graphs


def _check_overwrites(graph: Graph) -> None:
    """Refuse a graph that reads a named value after its buffer has got another."""
    holds: dict[str, Value] = {}
    for node in graph.nodes:
        for value in node.inputs:
            if value.name is not None and holds.setdefault(value.name, value) != value:
                raise CompileError(
                    f"{node.label} in {graph.name!r} reads {value.name!r} as it was before "
                    f"{holds[value.name].id} was written over it."
                )
        if node.output.name is not None:
            holds[node.output.name] = node.output


@dataclass(frozen=True)
class SharedSizes:
    """The sizes of what a program's plans share: everything else is in their nodes.

    Attributes:
        hidden: width of the residual stream.
        vocab: tokens there are.
        columns: of the logits, padding included.
        layers: how many keep keys and values.
        heads: of every one of them.
        windows: of each layer, tokens that a row sees, itself included; None for all before it.
            Empty where no layer has one.
    """

    hidden: int
    vocab: int
    columns: int
    layers: int
    heads: Heads
    windows: tuple[int | None, ...] = ()


def shared_sizes(graphs: Mapping[str, Graph]) -> SharedSizes:
    """The shared sizes of a model, from its graphs.

    Raises:
        CompileError: several tables of tokens; layers that would need state groups of their own.
    """
    tables = [node.op for node in graphs["embed"].nodes if isinstance(node.op, Embed)]
    if len(tables) != 1:
        raise CompileError(f"The graph 'embed' looks up {len(tables)} tables of tokens, not one.")
    hidden, logits = (graphs[name].nodes[-1].output for name in ("embed", "head"))
    attention = [node.op for node in graphs["layers"].nodes if isinstance(node.op, Attention)]
    kept = {(op.heads.kv, op.heads.width) for op in attention}
    if len(kept) != 1 or sorted(op.layer for op in attention) != list(range(len(attention))):
        raise CompileError(
            f"The layers keep {len(kept)} kinds of keys and values, which is not one for each "
            "layer and the same for all.",
            remedy="Several state groups are not implemented: describe a model with one.",
        )
    heads, windows = attention[0].heads, {op.layer: op.window for op in attention}
    return SharedSizes(
        hidden.width,
        tables[0].vocab,
        logits.width,
        len(attention),
        heads,
        tuple(windows[layer] for layer in sorted(windows)) if any(windows.values()) else (),
    )
