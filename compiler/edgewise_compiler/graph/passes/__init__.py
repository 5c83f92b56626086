"""Graph passes, one a file; `graph/build.py` lists which run for each target, in which order."""

from edgewise_compiler.graph.passes.fuse_gather import fuse_gather
from edgewise_compiler.graph.passes.fuse_norm import fuse_norm
from edgewise_compiler.graph.passes.fuse_residual import fuse_residual
from edgewise_compiler.graph.passes.fuse_rope import fuse_rope
from edgewise_compiler.graph.passes.fuse_swiglu import fuse_swiglu
from edgewise_compiler.graph.passes.quantize_activations import quantize_activations

__all__ = [
    "fuse_gather",
    "fuse_norm",
    "fuse_residual",
    "fuse_rope",
    "fuse_swiglu",
    "quantize_activations",
]
