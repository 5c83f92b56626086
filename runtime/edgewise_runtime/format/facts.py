"""Whether what ``bundle.json`` says about the model is so of the tensors and the state it lists.

Sizes that plans have in their buffers are compared with those (`program_checks`): vocabulary,
hidden width, context, batch, rows of a step, heads and elements of a page. Here it is the tensors:
a linear by its rows, which every layout rounds up to whole panels, and by its columns, a norm and a
table by their shape. Of experts the model says nothing: how many there are and how wide is what
their tensors and their router have to agree on, in every layer alike. Tensors of other names are
another family's, of which nothing is known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from edgewise_runtime.errors import BundleError
from edgewise_runtime.format.abi import GROUP, PANEL
from edgewise_runtime.format.manifest import BundleManifest, ModelInfo, StateGroup, TensorEntry
from edgewise_runtime.format.reading import shorten

NAME = re.compile(
    r"(?:(?P<layer>layers\.\d+)\.)?(?P<what>(?:(?:experts|shared)\.)?\w+)(?:\.\d+)?"
    r"\.(?P<end>weight|bias)"
)
"""The weights or biases of a linear or of one part of it, or a norm's; of a layer or of the
model."""

BITS = (4, 5, 6, 8, 16, 32)
"""What a weight takes in the schemes that there are."""

ROTATIONS = ("rope", "rope_local")
"""Tables of the angles that heads turn by."""


class Linear(NamedTuple):
    """Rows of each of a linear's parts, and the bytes of its weights."""

    parts: tuple[tuple[int, int], ...] = ()

    @property
    def rows(self) -> int:
        """Of all parts together."""
        return sum(rows for rows, _ in self.parts)


NONE = Linear()


class Mixture(NamedTuple):
    """Experts of a layer, the width of each, and that of the one for every row, or 0."""

    experts: int
    width: int
    shared: int

    def __str__(self) -> str:
        beside = f" and one of {self.shared}" if self.shared else ""
        return f"{self.experts} experts of {self.width}{beside}"


def _up(rows: int, step: int = GROUP) -> int:
    return -(-rows // step) * step


LINEARS: Mapping[str, Callable[[ModelInfo], tuple[int, int]]] = {
    "embed": lambda model: (_up(model.vocab), model.hidden),
    "lm_head": lambda model: (_up(model.vocab), model.hidden),
    "qkv": lambda model: (_up((model.heads + 2 * model.kv_heads) * model.head_dim), model.hidden),
    "o": lambda model: (_up(model.hidden), model.heads * model.head_dim),
    # Rows of both lie in turns, a panel each, and each is rounded up by itself.
    "gate_up": lambda model: (2 * _up(model.intermediate), model.hidden),
    "down": lambda model: (_up(model.hidden), model.intermediate),
}
"""Rows and columns of a linear, by the last part of its name."""

ROUTER = "router"
EXPERTS = ("experts.gate_up", "experts.down", "shared.gate_up", "shared.down")
"""What a mixture has beside its router; the last two only where there is an expert for all rows."""

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
    "sinks": lambda model: (model.heads,),
}
"""Shape of a vector, of norms or of sinks."""


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
    mixtures: dict[Mixture, str] = {}
    for name, tensors in manifest.layouts.items():
        where = f"the layout {name!r}"
        for layer, mixture in _check_layout(model, where, tensors).items():
            mixtures.setdefault(mixture, f"{layer} in {where}")
    if len(mixtures) > 1:
        (one, first), (other, second), *_ = mixtures.items()
        raise _error(f"{first} has {one}, and {second} {other}")


def _check_group(model: ModelInfo, group: StateGroup) -> None:
    said, found = (model.kv_heads, model.head_dim), (group.kv_heads, group.head_dim)
    if said != found:
        raise _error(f"kv_heads and head_dim of {said}, and a state group of {found}")


def _check_layout(
    model: ModelInfo, where: str, tensors: Mapping[str, TensorEntry]
) -> dict[str, Mixture]:
    """Returns the experts of each layer that has some."""
    linears: dict[tuple[str | None, str], Linear] = {}
    layers: set[str] = set()
    mixed: dict[str, None] = {}
    for name, tensor in tensors.items():
        parts = NAME.fullmatch(name)
        if parts is None:
            continue
        layer, what = parts["layer"], parts["what"]
        if layer is not None:
            layers.add(layer)
        if parts["end"] == "bias":
            _check_bias(where, name, what, tensors)
            continue
        if what in SHAPES and tensor.shape != SHAPES[what](model):
            raise _differs(where, name, tensor.shape, SHAPES[what](model))
        if layer is not None and what in (ROUTER, *EXPERTS):
            mixed[layer] = None
        if what in LINEARS or what in EXPERTS:
            before = linears.get((layer, what), NONE)
            part = _rows(tensor.shape), tensor.bytes
            linears[layer, what] = Linear((*before.parts, part))
    for (layer, what), linear in linears.items():
        if what in LINEARS:
            name = what if layer is None else f"{layer}.{what}"
            _check_linear(where, name, linear, *LINEARS[what](model))
    if layers and layers != {f"layers.{i}" for i in range(model.layers)}:
        listed = shorten(sorted(int(layer.rpartition(".")[2]) for layer in layers))
        raise _error(f"{model.layers} layers, and {where} has {listed}")
    for rotation in ROTATIONS:
        table = tensors.get(rotation)
        # Queries may have numbers of their own, behind those of the keys.
        own = table is not None and table.shape[1:2] == (4,)
        wanted = (model.context, 4 if own else 2, model.head_dim // 2)
        if table is not None and table.shape != wanted:
            raise _differs(where, rotation, table.shape, wanted)
    found: dict[str, Mixture] = {}
    for layer in mixed:
        router = tensors.get(f"{layer}.{ROUTER}.weight")
        shape = () if router is None else router.shape
        parts_of = {what: linears.get((layer, what), NONE) for what in EXPERTS}
        found[layer] = _check_mixture(model, where, layer, shape, parts_of)
    return found


def _check_mixture(
    model: ModelInfo,
    where: str,
    layer: str,
    router: tuple[int, ...],
    linears: Mapping[str, Linear],
) -> Mixture:
    """Of a layer's experts; of ``linears`` those that it lacks have no rows."""

    def width(what: str, experts: int) -> int:
        rows = linears[f"{what}.gate_up"].rows
        each, rest = divmod(rows, 2 * experts)
        if not each or rest or each % GROUP:
            panels = f"a multiple of {2 * GROUP} for each of {experts}"
            raise _differs(where, f"{layer}.{what}.gate_up", rows, panels)
        for part, high, columns in (
            ("gate_up", 2 * each, model.hidden),
            ("down", _up(model.hidden), each),
        ):
            name = f"{what}.{part}"
            _check_linear(where, f"{layer}.{name}", linears[name], experts * high, columns)
        return each

    down, high = linears["experts.down"].rows, _up(model.hidden)
    if not down or down % high:
        raise _differs(where, f"{layer}.experts.down", down, f"a multiple of {high}")
    experts = down // high
    gated = any(linears[what].rows for what in EXPERTS if what.startswith("shared"))
    mixture = Mixture(experts, width("experts", experts), width("shared", 1) if gated else 0)
    wanted = (model.hidden, _up(experts + gated, PANEL))
    if router != wanted:
        raise _differs(where, f"{layer}.{ROUTER}.weight", router, wanted)
    return mixture


def _check_linear(where: str, name: str, found: Linear, rows: int, columns: int) -> None:
    if found.rows != rows:
        raise _differs(where, name, found.rows, rows)
    # Each part has a scheme of its own.
    for high, taken in found.parts:
        if taken * 8 not in [high * _up(columns) * bits for bits in BITS]:
            raise _differs(where, name, f"{taken} bytes", f"{high} rows of {columns}")


def _check_bias(where: str, name: str, what: str, tensors: Mapping[str, TensorEntry]) -> None:
    """Compare biases with the rows, or a router's columns, that they are for."""
    weight = tensors.get(f"{name.removesuffix('.bias')}.weight")
    if weight is None:
        return
    rows = weight.shape[-1:] if what == ROUTER else (_rows(weight.shape),)
    if tensors[name].shape != rows:
        raise _differs(where, name, tensors[name].shape, rows)


def _rows(shape: tuple[int, ...]) -> int:
    """Rows of a part of a linear: of panels, in the layout that has those, 16 each."""
    return shape[0] * (PANEL if len(shape) > 2 else 1) if shape else 0


def _differs(where: str, name: str, found: object, expected: object) -> BundleError:
    return _error(f"{name!r} of {expected}, and in {where} it is of {found}")


def _error(message: str) -> BundleError:
    return BundleError(
        f"bundle.json, model: it says {message}.",
        remedy="Copy or compile the bundle again.",
        code="bundle.model",
    )
