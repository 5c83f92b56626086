"""A family's forward functions as graphs, after the passes a target asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from edgewise_compiler.graph.nodes import Graph, GraphBuilder
from edgewise_compiler.graph.passes import (
    fuse_gather,
    fuse_norm,
    fuse_residual,
    fuse_swiglu,
    quantize_activations,
)
from edgewise_compiler.models.base import Family, ModelConfig

Pass = Callable[[Graph], Graph]

FUSE: tuple[Pass, ...] = (fuse_gather, fuse_swiglu, fuse_residual)
"""What every target's kernels can do in one."""

CPU_FLOAT: tuple[Pass, ...] = FUSE
CPU_INTEGER: tuple[Pass, ...] = (*FUSE, quantize_activations)
GPU_MANY_ROWS: tuple[Pass, ...] = FUSE
GPU_FEW_ROWS: tuple[Pass, ...] = (*FUSE, fuse_norm)


def build_graphs(
    family: Family, cfg: ModelConfig, widths: Mapping[str, int], passes: Sequence[Pass]
) -> dict[str, Graph]:
    """The family's three graphs, ``embed``, ``layers`` and ``head``, after ``passes``.

    Args:
        widths: output columns of each packed linear.
    """

    def builder(name: str) -> GraphBuilder:
        return GraphBuilder(
            name, hidden=cfg.hidden, attention_width=cfg.heads * cfg.head_dim, widths=widths
        )

    embed, layers, head = builder("embed"), builder("layers"), builder("head")
    family.embed(embed, cfg)
    family.layers(layers, cfg, layers.hidden())
    family.head(head, cfg, head.hidden())
    graphs = {}
    for recorded in (embed, layers, head):
        graph = recorded.graph()
        for apply in passes:
            graph = apply(graph)
        graphs[graph.name] = graph
    return graphs
