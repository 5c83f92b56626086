"""Whether what ``bundle.json`` says about the model is so of the tensors and the state it lists.

Sizes that plans have in their buffers are compared with those (`program_checks`): vocabulary,
hidden width, context, batch, rows of a step, heads and elements of a page. Here it is the tensors:
a linear by its rows, which every layout rounds up to whole panels, a norm and a table by their
shape. Tensors of other names are another family's, of which nothing is known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from edgewise_runtime.errors import BundleError
from edgewise_runtime.format.abi import GROUP, PANEL
from edgewise_runtime.format.manifest import BundleManifest, ModelInfo, StateGroup, TensorEntry
from edgewise_runtime.format.reading import shorten

NAME = re.compile(r"(?:layers\.(?P<layer>\d+)\.)?(?P<what>\w+)(?:\.\d+)?\.weight")
"""A linear's weights or one part of them, or a norm's; of a layer or of the model."""

ROTATIONS = ("rope", "rope_local")
"""Tables of the angles that heads turn by."""


def _up(rows: int) -> int:
    return -(-rows // GROUP) * GROUP


ROWS: Mapping[str, Callable[[ModelInfo], int]] = {
    "embed": lambda model: _up(model.vocab),
    "lm_head": lambda model: _up(model.vocab),
    "qkv": lambda model: _up((model.heads + 2 * model.kv_heads) * model.head_dim),
    "o": lambda model: _up(model.hidden),
    # Rows of both lie in turns, a panel each, and each is rounded up by itself.
    "gate_up": lambda model: 2 * _up(model.intermediate),
    "down": lambda model: _up(model.hidden),
}
"""Rows of a linear, by the last part of its name."""

SHAPES: Mapping[str, Callable[[ModelInfo], tuple[int, ...]]] = {
    "norm": lambda model: (model.hidden,),
    "attn_norm": lambda model: (model.hidden,),
    "mlp_norm": lambda model: (model.hidden,),
    "q_norm": lambda model: (model.head_dim,),
    "k_norm": lambda model: (model.head_dim,),
    "qk_norm": lambda model: (2, model.head_dim),
    "q_row_norm": lambda model: (model.heads * model.head_dim,),
    "k_row_norm": lambda model: (model.kv_heads * model.head_dim,),
    "attn_post_norm": lambda model: (model.hidden,),
    "mlp_post_norm": lambda model: (model.hidden,),
}
"""Shape of a norm."""


def check_facts(manifest: BundleManifest) -> None:
    """Compare the model with every layout and with the state groups.

    Raises:
        BundleError: ``bundle.model`` naming what disagrees.
    """
    model, groups = manifest.model, manifest.state_groups
    kept = sorted(layer for group in groups for layer in group.layers)
    if groups and kept != [*range(model.layers)]:
        raise _error(f"{model.layers} layers, and state groups of the layers {shorten(kept)}")
    for group in groups:
        _check_group(model, group)
    for name, tensors in manifest.layouts.items():
        _check_layout(model, f"the layout {name!r}", tensors)


def _check_group(model: ModelInfo, group: StateGroup) -> None:
    said, found = (model.kv_heads, model.head_dim), (group.kv_heads, group.head_dim)
    if said != found:
        raise _error(f"kv_heads and head_dim of {said}, and a state group of {found}")


def _check_layout(model: ModelInfo, where: str, tensors: Mapping[str, TensorEntry]) -> None:
    rows: dict[str, int] = {}
    layers: set[int] = set()
    for name, tensor in tensors.items():
        parts = NAME.fullmatch(name)
        if parts is None:
            continue
        layer, what = parts["layer"], parts["what"]
        if layer is not None:
            layers.add(int(layer))
        if what in SHAPES and tensor.shape != SHAPES[what](model):
            raise _differs(where, name, tensor.shape, SHAPES[what](model))
        if what in ROWS:
            linear = what if layer is None else f"layers.{layer}.{what}"
            high = PANEL if len(tensor.shape) > 2 else 1
            rows[linear] = rows.get(linear, 0) + tensor.shape[0] * high
    for linear, found in rows.items():
        expected = ROWS[linear.rpartition(".")[2]](model)
        if found != expected:
            raise _differs(where, linear, found, expected)
    if layers and layers != {*range(model.layers)}:
        raise _error(f"{model.layers} layers, and {where} has {shorten(sorted(layers))}")
    for rotation in ROTATIONS:
        table = tensors.get(rotation)
        # Queries may have numbers of their own, behind those of the keys.
        own = table is not None and table.shape[1:2] == (4,)
        wanted = (model.context, 4 if own else 2, model.head_dim // 2)
        if table is not None and table.shape != wanted:
            raise _differs(where, rotation, table.shape, wanted)


def _differs(where: str, name: str, found: object, expected: object) -> BundleError:
    return _error(f"{name!r} of {expected}, and in {where} it is of {found}")


def _error(message: str) -> BundleError:
    return BundleError(
        f"bundle.json, model: it says {message}.",
        remedy="Copy or compile the bundle again.",
        code="bundle.model",
    )
