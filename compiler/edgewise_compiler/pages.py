"""Keys and values that pages of float16 cannot hold are refused before anything is packed."""

from __future__ import annotations

from edgewise_compiler.checkpoint import Checkpoint
from edgewise_compiler.graph.build import build_graphs
from edgewise_compiler.graph.seams import find_kept
from edgewise_compiler.layouts.order import linear_widths
from edgewise_compiler.smoothing import expected
from edgewise_runtime.errors import CheckpointError

LARGEST = 65504 / 4
"""What a key or a value may typically be: of many tokens some are four times that."""


def check_pages(checkpoint: Checkpoint) -> None:
    """Raise CheckpointError for a layer whose keys or values are beyond float16 as a rule."""
    family, cfg, reader = checkpoint.family, checkpoint.model, checkpoint.weights
    params = family.params(cfg)
    graphs = build_graphs(family, cfg, linear_widths(params), ())
    for maker in find_kept(graphs.values(), params):
        largest = float(expected(reader, maker).max())
        if largest > LARGEST:
            raise CheckpointError(
                f"{maker.tensor} makes keys or values of about {largest:g}, which pages of float16 "
                "do not hold.",
                remedy="Compile with --kv f32, for pages of float32.",
                code="checkpoint.range",
            )
