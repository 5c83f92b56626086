"""What a config.json of Llama's shape may ask for that is not that shape, and how it is found."""

from __future__ import annotations

from edgewise_compiler.models.fields import ConfigFields
from edgewise_compiler.models.traits import PAGE, Trait, other, said
from edgewise_runtime.errors import CheckpointError, UnsupportedError
from edgewise_runtime.format.reading import shorten

ACTIVATIONS = ("silu", "swish")
"""What an MLP's gate may go through: two names of one function."""

WINDOWS = ("sliding_window", "attention_chunk_size", "local_attention")
"""Keys that ask for windows."""

GATED = "another activation"

EXPERTS, SHARED_EXPERTS = "mixtures of experts", "shared experts"
"""Names of traits, for families that know them; the second is found by none of its own."""

_MANY = 1 << 17
_MOST = 1 << 22
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
_RECURRENT = ("state_size", "mamba_d_state", "ssm_state_size", "ssm_cfg", "conv_L_cache")
_QUANTIZED = ("quantization", "quantization_config", "compression_config")
_GATES = ("hidden_activation", "hidden_act", "activation_function")
_FULL = ("full_attention", "attention")
LOCAL, FULL = "sliding_attention", "full_attention"
"""Kinds of layers with a window and without."""

_WINDOWS = (LOCAL, "chunked_attention")


def _activation(fields: ConfigFields) -> str | None:
    """The first key that is set counts: Gemma leaves another one with a wrong value."""
    for key in _GATES:
        if fields.has(key):
            name = fields.text(key)
            return None if name in ACTIVATIONS else said(key, name)
    return None


def _quantized(fields: ConfigFields) -> str | None:
    """By ``quant_method``, which MLX does not write in its ``quantization``."""
    for key in _QUANTIZED:
        if fields.has(key):
            found = fields.values[key]
            method = found.get("quant_method") if isinstance(found, dict) else None
            by = "MLX's " if key == "quantization" else ""
            return f"{by}{said(key, found)}" if method is None else said("quant_method", method)
    return None


def _windowed(fields: ConfigFields) -> str | None:
    """A window as long as the context leaves nothing out."""
    window, kinds = fields.values.get("sliding_window"), fields.values.get("layer_types")
    if isinstance(kinds, list):
        count = sum(kind in _WINDOWS for kind in kinds)
        where = f"in {count} of {len(kinds)} layers"
        what = "windows" if window is None else said("sliding_window", window)
        return f"{what} {where}" if count else None
    context = fields.values.get("max_position_embeddings")
    if window is None or not fields.flag("use_sliding_window", True):
        return other(*WINDOWS[1:])(fields)
    if isinstance(window, int) and isinstance(context, int) and window >= context:
        return None
    if not fields.has("max_window_layers"):
        return said("sliding_window", window)
    layers = fields.integer("num_hidden_layers", 1, _MANY)
    count = max(0, layers - fields.integer("max_window_layers", 0, _MANY))
    return f"{said('sliding_window', window)} in {count} of {layers} layers" if count else None


WINDOWED = "sliding windows"
"""The trait's name, for families that know it."""


def layer_kinds(layers: int, period: int) -> list[str]:
    """``layer_types`` where of so many layers the last one has no window; of 0 all have one."""
    return [FULL if period and (i + 1) % period == 0 else LOCAL for i in range(layers)]


def read_windows(
    fields: ConfigFields, layers: int, context: int, *, apart: bool = False
) -> tuple[int | None, tuple[int, ...]]:
    """The window of some layers, tokens, and these layers: by ``layer_types``, or all of them.

    Args:
        apart: these layers differ in more, so that a window that leaves nothing out is one, too.

    Raises:
        UnsupportedError: layers that attend to chunks.
    """
    kinds = fields.values.get("layer_types")
    local = tuple(range(layers))
    if isinstance(kinds, list):
        if len(kinds) != layers or not all(isinstance(kind, str) for kind in kinds):
            raise CheckpointError(
                f"layer_types of config.json has {len(kinds)} entries for {layers} layers.",
                remedy="Correct config.json.",
                code="checkpoint.config",
            )
        if "chunked_attention" in kinds:
            raise UnsupportedError(
                "Not implemented: attention to chunks (layer_types has 'chunked_attention').",
                remedy=f"Use a model with windows or without; see {PAGE}.",
                code="unsupported.attention",
            )
        local = tuple(i for i, kind in enumerate(kinds) if kind == LOCAL)
    if not fields.has("sliding_window") or not fields.flag("use_sliding_window", True):
        return None, ()
    window = fields.integer("sliding_window", 1, _MOST)
    hides = window < context or apart
    return (window, local) if hides and local else (None, ())


def _recurrent(fields: ConfigFields) -> str | None:
    kinds = fields.values.get("layer_types")
    if not isinstance(kinds, list):
        return other(*_RECURRENT)(fields)
    found = [kind for kind in kinds if kind not in (*_FULL, *_WINDOWS)]
    return f"layer_types has {shorten(found[0], 40)}" if found else None


SHAPE = (
    Trait(
        EXPERTS,
        _EXPERTS,
        "one MLP in each layer",
        "unsupported.experts",
        other(*_EXPERTS),
        gguf=("expert_count",),
    ),
    Trait(
        "other kinds of layers",
        ("layer_types", *_RECURRENT),
        "attention in every layer",
        "unsupported.attention",
        _recurrent,
        gguf=("ssm.state_size", "shortconv.l_cache", "wkv.head_size"),
    ),
    Trait(
        WINDOWED,
        (*WINDOWS, "layer_types"),
        "layers that attend to the whole context, or windows as long as it",
        "unsupported.attention",
        _windowed,
        gguf=("attention.sliding_window",),
    ),
    Trait(
        GATED,
        _GATES,
        f"hidden_act {' or '.join(ACTIVATIONS)}",
        "unsupported.activation",
        _activation,
    ),
    Trait(
        "weights that are quantized already",
        _QUANTIZED,
        "float weights (the checkpoint that it was made from; --quant quantizes it), or a GGUF "
        "file of it",
        "unsupported.quantized",
        _quantized,
    ),
)
"""In the order in which messages name them."""
