"""What Llama-shaped decoders share: pre-norm attention and a SwiGLU MLP around a residual stream.

A family is this module plus its :class:`Traits`; a family that departs from the shape writes its
own functions instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from edgewise_compiler.graph.nodes import GraphBuilder, Value
from edgewise_compiler.graph.operations import Attention, Heads
from edgewise_compiler.models.base import (
    Family,
    LinearSpec,
    ModelConfig,
    ParamSpec,
    RotationSpec,
    VectorSpec,
)
from edgewise_compiler.models.experts import expert_mlp, expert_params, read_mixture
from edgewise_compiler.models.fields import ConfigFields
from edgewise_compiler.models.rope import MAX_CONTEXT, PARTIAL, RopeConfig, read_rope
from edgewise_compiler.models.shape import (
    EXPERTS,
    SHAPE,
    SHARED_EXPERTS,
    WINDOWED,
    read_windows,
)
from edgewise_compiler.models.traits import refuse
from edgewise_runtime.errors import CheckpointError, UnsupportedError

MAX_WIDTH = 1 << 17
MAX_VOCAB = 1 << 22
MAX_LAYERS = 1 << 10
MAX_HEADS = 1 << 10
MAX_HEAD_DIM = 512
MAX_EOS = 16
"""A step's buffer of end tokens has this many entries."""
MULTIPLES = {"hidden_size": 32, "head_dim": 2}
"""What widths have to be multiples of, in elements: kernels need it, and rotations turn pairs."""
HEAD_STEP, HEADS_STEP = 16, 32
"""What kernels need of a head, and of all heads together; narrower ones are padded with zeros."""
ROTATION, LOCAL_ROTATION = "rope", "rope_local"
"""The rotation of these models, and that of layers with a window where it is another one."""
_BEFORE, _AFTER = "input_layernorm", "post_attention_layernorm"
NORMS: Mapping[str, Mapping[str, str]] = {
    "before": {"attn_norm": _BEFORE, "mlp_norm": _AFTER},
    "after": {"attn_post_norm": _AFTER, "mlp_post_norm": "post_feedforward_layernorm"},
    "around": {
        "attn_norm": _BEFORE,
        "attn_post_norm": _AFTER,
        "mlp_norm": "pre_feedforward_layernorm",
        "mlp_post_norm": "post_feedforward_layernorm",
    },
}
"""The norms of a layer by where they are, and what transformers calls them."""


@dataclass(frozen=True)
class Traits:
    """How one Llama-shaped family differs from another.

    Attributes:
        head_dim: a head's width where config.json names none; None divides ``hidden`` by the heads.
        qk_norm: queries and keys are normalized per head.
        has_mlp_bias: config.json may ask for biases in the MLP.
        bos, eos: token ids where config.json names none.
        says: what config.json means where it says nothing, by key, as in transformers.
        ignores: keys of config.json that mean nothing to models of the family.
        has: traits that are refused elsewhere and known here, by their names.
        turns_apart: layers with a window have a rotation of their own.
    """

    family: str
    architectures: tuple[str, ...]
    model_types: tuple[str, ...]
    head_dim: int | None = None
    qk_norm: bool = False
    has_mlp_bias: bool = False
    rms_eps: float = 1e-6
    rope_theta: float = 10000.0
    bos: int | None = None
    eos: tuple[int, ...] = ()
    says: Mapping[str, object] = field(default_factory=dict)
    ignores: tuple[str, ...] = ()
    has: tuple[str, ...] = ()
    turns_apart: bool = False


def family(traits: Traits) -> Family:
    """The family with these traits."""
    return Family(
        name=traits.family,
        architectures=traits.architectures,
        model_types=traits.model_types,
        read_config=partial(read_config, traits),
        params=lambda cfg: tuple(params(cfg)),
        embed=embed,
        layers=layers,
        head=head,
    )


def fields_of(traits: Traits, hf: Mapping[str, Any]) -> ConfigFields:
    """What config.json says, and means where it says nothing."""
    read = {key: value for key, value in hf.items() if key not in traits.ignores}
    said = {key: value for key, value in read.items() if value is not None}
    return ConfigFields({**read, **traits.says, **said})


def read_config(traits: Traits, hf: Mapping[str, Any]) -> ModelConfig:
    """A parsed config.json as :class:`ModelConfig`; see :class:`Family` for the errors."""
    fields = fields_of(traits, hf)
    hidden = fields.integer("hidden_size", 1, MAX_WIDTH)
    layer_count = fields.integer("num_hidden_layers", 1, MAX_LAYERS)
    heads = fields.integer("num_attention_heads", 1, MAX_HEADS)
    kv_heads = fields.integer("num_key_value_heads", 1, MAX_HEADS, heads)
    stored = fields.integer("head_dim", 1, MAX_WIDTH, traits.head_dim or max(1, hidden // heads))
    vocab = fields.integer("vocab_size", 1, MAX_VOCAB)
    context = fields.integer("max_position_embeddings", 1, MAX_CONTEXT)
    bos = fields.token_ids("bos_token_id", vocab, () if traits.bos is None else (traits.bos,))
    eos = fields.token_ids("eos_token_id", vocab, traits.eos)
    rope = read_rope(hf, context=context, theta=traits.rope_theta, has=traits.has)
    rotated = rotated_width(hf, stored) if PARTIAL in traits.has else stored
    _check_shape(hidden, heads, kv_heads, stored)
    _check_divisors(rope, rotated)
    window: int | None = None
    local: tuple[int, ...] = ()
    mixture = None
    if EXPERTS in traits.has:
        mixture = read_mixture(fields, layer_count, shared=SHARED_EXPERTS in traits.has)
    if WINDOWED in traits.has:
        window, local = read_windows(fields, layer_count, context, apart=traits.turns_apart)
    refuse((trait for trait in SHAPE if trait.name not in traits.has), fields)
    check_eos_count(eos)
    return ModelConfig(
        family=traits.family,
        hidden=hidden,
        layers=layer_count,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=padded_head_dim(heads, stored),
        stored_head_dim=stored,
        intermediate=fields.integer("intermediate_size", 1, MAX_WIDTH * 8),
        vocab=vocab,
        context=context,
        rms_eps=fields.number("rms_norm_eps", 0.0, 1.0, traits.rms_eps),
        rope=rope,
        tied=fields.flag("tie_word_embeddings", False),
        qk_norm=traits.qk_norm,
        attention_bias=fields.flag("attention_bias", False),
        mlp_bias=traits.has_mlp_bias and fields.flag("mlp_bias", False),
        sm_scale=stored**-0.5,
        bos=bos[0] if bos else None,
        eos=eos,
        window=window,
        local=local,
        rotated=None if rotated == stored else rotated,
        mixture=mixture,
    )


def rotated_width(hf: Mapping[str, Any], head_dim: int) -> int:
    """How many elements of a head turn, by ``partial_rotary_factor``: transformers rounds down."""
    top = ConfigFields(hf)
    inner = ConfigFields(top.mapping("rope_parameters") or {})
    factor = top.number("partial_rotary_factor", 0.0, 1.0, 1.0)
    rotated = int(head_dim * inner.number("partial_rotary_factor", 0.0, 1.0, factor))
    if rotated < 2 or rotated % 2:
        raise CheckpointError(
            f"partial_rotary_factor lets {rotated} of a head's {head_dim} elements turn, which are "
            "no pairs.",
            remedy="Correct config.json.",
            code="checkpoint.config",
        )
    return rotated


def padded_head_dim(heads: int, stored: int) -> int:
    """Elements of a head in programs, for heads of ``stored`` elements in the checkpoint."""
    padded = -(-stored // HEAD_STEP) * HEAD_STEP
    return padded if heads * padded % HEADS_STEP == 0 else -(-stored // HEADS_STEP) * HEADS_STEP


def check_eos_count(eos: tuple[int, ...]) -> None:
    """Refuse more end tokens than a step can hold."""
    if len(eos) > MAX_EOS:
        raise UnsupportedError(
            f"{len(eos)} end-of-text tokens; a program holds {MAX_EOS}.",
            remedy="Shorten eos_token_id in config.json or generation_config.json.",
            code="unsupported.eos",
        )


def _check_shape(hidden: int, heads: int, kv_heads: int, head_dim: int) -> None:
    if heads % kv_heads:
        raise CheckpointError(
            f"num_attention_heads {heads} is not a multiple of num_key_value_heads {kv_heads}.",
            remedy="Correct config.json.",
            code="checkpoint.config",
        )
    for (name, step), value in zip(MULTIPLES.items(), (hidden, head_dim), strict=True):
        if value % step:
            raise UnsupportedError(
                f"{name} is {value}; it has to be a multiple of {step}.",
                remedy=f"Use a model whose {name} is one.",
                code="unsupported.shape",
            )
    if head_dim > MAX_HEAD_DIM:
        raise UnsupportedError(
            f"head_dim is {head_dim}; kernels go up to {MAX_HEAD_DIM}.",
            remedy="Use a model with smaller heads.",
            code="unsupported.shape",
        )


def _check_divisors(rope: RopeConfig, rotated: int) -> None:
    for divisors in (rope.divisors, rope.short_divisors or rope.divisors):
        if rope.kind == "longrope" and len(divisors) != rotated // 2:
            raise CheckpointError(
                f"longrope has {len(divisors)} divisors for heads of {rotated // 2} pairs.",
                remedy="Correct config.json.",
                code="checkpoint.config",
            )


def params(cfg: ModelConfig) -> Iterator[ParamSpec]:
    """Every parameter under the names that transformers gives Llama-shaped checkpoints."""
    q, kv = cfg.heads * cfg.head_dim, cfg.kv_heads * cfg.head_dim
    yield LinearSpec("embed", ("model.embed_tokens.weight",), (cfg.vocab,), cfg.hidden)
    norms = NORMS[cfg.norms]
    for i in range(cfg.layers):
        ours, theirs = f"layers.{i}", f"model.layers.{i}"
        attention, mlp = f"{theirs}.self_attn", f"{theirs}.mlp"

        def norm(which: str, ours: str = ours, theirs: str = theirs) -> Iterator[VectorSpec]:
            if which in norms:
                yield VectorSpec(f"{ours}.{which}", f"{theirs}.{norms[which]}.weight", cfg.hidden)

        yield from norm("attn_norm")
        stacked = {f"{attention}.{p}_proj": rows for p, rows in (("q", q), ("k", kv), ("v", kv))}
        yield _linear(f"{ours}.qkv", stacked, cfg.hidden, cfg.attention_bias)
        if cfg.row_norm:
            yield VectorSpec(f"{ours}.q_row_norm", f"{attention}.q_norm.weight", q)
            yield VectorSpec(f"{ours}.k_row_norm", f"{attention}.k_norm.weight", kv)
        if cfg.qk_norm:
            yield VectorSpec(f"{ours}.q_norm", f"{attention}.q_norm.weight", cfg.head_dim)
            yield VectorSpec(f"{ours}.k_norm", f"{attention}.k_norm.weight", cfg.head_dim)
        if cfg.sinks:
            yield VectorSpec(f"{ours}.sinks", f"{attention}.sinks", cfg.heads)
        yield _linear(f"{ours}.o", {f"{attention}.o_proj": cfg.hidden}, q, cfg.attention_bias)
        yield from norm("attn_post_norm")
        yield from norm("mlp_norm")
        if cfg.mixture is not None and i in cfg.mixture.layers:
            yield from expert_params(cfg, cfg.mixture, i)
        else:
            stacked = {f"{mlp}.{p}_proj": cfg.intermediate for p in ("gate", "up")}
            yield _linear(f"{ours}.gate_up", stacked, cfg.hidden, cfg.mlp_bias, interleave=True)
            yield _linear(
                f"{ours}.down", {f"{mlp}.down_proj": cfg.hidden}, cfg.intermediate, cfg.mlp_bias
            )
        yield from norm("mlp_post_norm")
    yield VectorSpec("norm", "model.norm.weight", cfg.hidden)
    if not cfg.tied:
        yield LinearSpec("lm_head", ("lm_head.weight",), (cfg.vocab,), cfg.hidden)
    rotated = cfg.rotated or cfg.stored_head_dim
    tables = {ROTATION: cfg.rope, LOCAL_ROTATION: cfg.local_rope or cfg.rope}
    used = dict.fromkeys(rotation_of(cfg, i) for i in range(cfg.layers))
    for name, rope in tables.items():
        if name in used:
            yield RotationSpec(name, rope, cfg.head_dim, rotated, cfg.temperature)


def rotation_of(cfg: ModelConfig, layer: int) -> str | None:
    """The rotation of a layer, if it has one."""
    if layer in cfg.still:
        return None
    return LOCAL_ROTATION if cfg.local_rope is not None and layer in cfg.local else ROTATION


def _linear(
    name: str, modules: Mapping[str, int], k: int, bias: bool, interleave: bool = False
) -> LinearSpec:
    """Checkpoint modules and their output rows, stacked."""
    weights = tuple(f"{module}.weight" for module in modules)
    biases = tuple(f"{module}.bias" for module in modules) if bias else None
    return LinearSpec(name, weights, tuple(modules.values()), k, biases, interleave)


def embed(g: GraphBuilder, cfg: ModelConfig) -> Value:
    """Token embeddings, times the model's factor."""
    return g.embed("embed", vocab=cfg.vocab, factor=cfg.embed_factor)


def layers(g: GraphBuilder, cfg: ModelConfig, x: Value) -> Value:
    """Every layer: ``x += o(attention(norm(x)))``, then ``x += down(swiglu(norm(x)))``; norms may
    also come after a branch."""
    heads = Heads(cfg.heads, cfg.kv_heads, cfg.head_dim)
    # The mean of squares is over the zeros of a padded head, too, which makes it smaller by this.
    # So is eps; the root of it is in the norms' weights (`weights.padded`).
    eps = cfg.rms_eps * (cfg.stored_head_dim / cfg.head_dim)
    norms = NORMS[cfg.norms]
    rows = {"q": heads.query * heads.width, "k": heads.kv * heads.width}

    def normed(x: Value, layer: str, which: str) -> Value:
        return g.rms_norm(x, f"{layer}.{which}", cfg.rms_eps) if which in norms else x

    for i in range(cfg.layers):
        p = f"layers.{i}"
        qkv = g.linear(normed(x, p, "attn_norm"), f"{p}.qkv")
        if cfg.row_norm:
            qkv = g.norm_runs(qkv, {f"{p}.{of}_row_norm": n for of, n in rows.items()}, eps)
        head_norms = (f"{p}.q_norm", f"{p}.k_norm", eps) if cfg.qk_norm else None
        window = cfg.window if i in cfg.local else None
        sinks = f"{p}.sinks" if cfg.sinks else None
        attention = Attention(heads, cfg.sm_scale, i, window, cfg.softcap, sinks)
        rotation = rotation_of(cfg, i)
        attended = g.attention(qkv, attention, rotation=rotation, qk_norm=head_norms)
        x = g.add(x, normed(g.linear(attended, f"{p}.o"), p, "attn_post_norm"))
        h = normed(x, p, "mlp_norm")
        if cfg.mixture is not None and i in cfg.mixture.layers:
            y = expert_mlp(g, cfg, cfg.mixture, i, h)
        else:
            gate_up = g.linear(h, f"{p}.gate_up")
            y = g.linear(g.swiglu(gate_up, cfg.activation), f"{p}.down")
        x = g.add(x, normed(y, p, "mlp_post_norm"))
    return x


def head(g: GraphBuilder, cfg: ModelConfig, x: Value) -> Value:
    """Final norm and logits of the wanted rows only."""
    h = g.rms_norm(g.gather_logit_rows(x), "norm", cfg.rms_eps)
    logits = g.logits(h, "embed" if cfg.tied else "lm_head")
    return logits if cfg.logit_softcap is None else g.softcap(logits, cfg.logit_softcap)
