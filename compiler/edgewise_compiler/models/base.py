"""What every model family describes: its configuration, its parameters and its forward pass.

Canonical parameter names (``layers.3.qkv``) are the only names the rest of the compiler sees; the
names of a checkpoint's tensors appear in the specs of this module and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from edgewise_compiler.graph.nodes import GraphBuilder, Value
from edgewise_compiler.graph.operations import Activation
from edgewise_compiler.models.rope import RopeConfig
from edgewise_compiler.weights.views import View


@dataclass(frozen=True)
class Mixture:
    """A mixture of experts in the place of an MLP.

    Attributes:
        layers: those that have one.
        experts: how many there are in each.
        chosen: how many of them a row goes through.
        intermediate: width of each.
        normalize: the weights of a row's experts add up to one; else they are what the softmax over
            all experts gave.
        shared: width of an expert that every row goes through, times the sigmoid of a gate of its
            own; None without one.
    """

    layers: tuple[int, ...]
    experts: int
    chosen: int
    intermediate: int
    normalize: bool
    shared: int | None = None


@dataclass(frozen=True)
class ModelConfig:
    """The sizes and constants of one decoder-only model.

    Attributes:
        family: name of the :class:`Family` that read it.
        hidden: width of the residual stream, a multiple of 32.
        heads: query heads; a multiple of ``kv_heads``.
        head_dim: elements per head in programs, a multiple of 16.
        stored_head_dim: elements per head in the checkpoint; programs have zeros for the rest
            (`weights.padded`).
        intermediate: width of the MLP.
        vocab: rows of the embedding table.
        context: most positions the model was configured for, tokens.
        tied: the head uses the embedding table.
        qk_norm: queries and keys are RMS-normalized per head before the rotation.
        attention_bias: the four attention projections have biases.
        mlp_bias: the three MLP projections have biases.
        sm_scale: factor on the attention scores before the softmax.
        bos: id of the token that begins a text, if the model has one.
        eos: ids that end a text, in order of preference; may be empty.
        activation: what the gate of the MLP goes through.
        softcap: of attention's scores, ``cap * tanh(score / cap)``; None leaves them.
        logit_softcap: of logits.
        window: tokens that a row of the layers ``local`` sees, itself included.
        local: layers with the window.
        local_rope: the rotary embedding of those; None for that of the others.
        norms: where a layer's norms are: before its two branches, after them, or around both.
        row_norm: all queries of a row are RMS-normalized together, and all keys.
        embed_factor: multiplies the rows of the embedding table, as they enter the residual stream.
        logit_factor: multiplies the logits.
        rotated: elements of a head that turn; None for all.
        still: layers whose queries and keys do not turn.
        mixture: the experts of some layers.
        sinks: every head has a learned score that takes part in the softmax without a value.
        temperature: beta and original context, tokens, where queries at position p are times
            ``1 + beta * log(1 + floor(p / original))``.
    """

    family: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    stored_head_dim: int
    intermediate: int
    vocab: int
    context: int
    rms_eps: float
    rope: RopeConfig
    tied: bool
    qk_norm: bool
    attention_bias: bool
    mlp_bias: bool
    sm_scale: float
    bos: int | None
    eos: tuple[int, ...]
    activation: Activation = "silu"
    softcap: float | None = None
    logit_softcap: float | None = None
    window: int | None = None
    local: tuple[int, ...] = ()
    local_rope: RopeConfig | None = None
    norms: Literal["before", "after", "around"] = "before"
    row_norm: bool = False
    embed_factor: float = 1.0
    logit_factor: float = 1.0
    rotated: int | None = None
    still: tuple[int, ...] = ()
    mixture: Mixture | None = None
    sinks: bool = False
    temperature: tuple[float, int] | None = None

    @property
    def windows(self) -> tuple[int | None, ...]:
        """The window of each layer; empty where none has one."""
        if self.window is None or not self.local:
            return ()
        return tuple(self.window if i in self.local else None for i in range(self.layers))


@dataclass(frozen=True)
class LinearSpec:
    """A packed linear ``y = x @ W.T + b``: checkpoint tensors stacked along the output rows.

    Attributes:
        name: canonical name.
        sources: checkpoint tensors, each ``[rows[i], k]``, in stacking order.
        rows: output rows of each source.
        k: input columns.
        biases: checkpoint tensors of shape ``[rows[i]]``, or None without biases.
        interleave: two sources of equal height alternate by panels of 16 rows (gate and up).
        experts: of a linear of experts how many there are, each of as many sources of the same
            heights, one expert after the other; None for a linear that all rows go through.
    """

    name: str
    sources: tuple[str, ...]
    rows: tuple[int, ...]
    k: int
    biases: tuple[str, ...] | None = None
    interleave: bool = False
    experts: int | None = None

    @property
    def weights(self) -> int:
        """How many there are, biases apart."""
        return sum(self.rows) * self.k

    def expert(self, index: int) -> LinearSpec:
        """The linear of one of the experts, by the name of them all."""
        each = len(self.sources) // (self.experts or 1)
        mine = slice(index * each, (index + 1) * each)
        biases = None if self.biases is None else self.biases[mine]
        return replace(
            self, sources=self.sources[mine], rows=self.rows[mine], biases=biases, experts=None
        )


@dataclass(frozen=True)
class RouterSpec:
    """What chooses among experts: a matrix that stays float32, with biases or without.

    Its tensors are float32 ``<name>.weight`` ``[k, rows padded to 16]``, each column one of the
    sources' rows, and ``<name>.bias``.

    Attributes:
        sources: checkpoint tensors, each ``[rows[i], k]``: the experts', then the gate of a shared
            expert if there is one.
        biases: checkpoint tensors of shape ``[rows[i]]``, or None without biases.
    """

    name: str
    sources: tuple[str, ...]
    rows: tuple[int, ...]
    k: int
    biases: tuple[str, ...] | None = None


@dataclass(frozen=True)
class VectorSpec:
    """A parameter of shape ``[size]`` that stays float32, such as a norm's weight."""

    name: str
    source: str
    size: int


@dataclass(frozen=True)
class RotationSpec:
    """A rotation's table, which is computed: cosines and sines of every position of the context.

    Its tensor is float32 ``[context, 2, width / 2]``; operations name it.

    Attributes:
        width: elements of a head.
        rotated: how many of them turn, in pairs; what a head was padded with stays as it is. None
            for all.
        temperature: `ModelConfig.temperature`. In a context where that is not 1 for all, queries
            have a table of their own after that of the keys: ``[context, 4, width / 2]``.
    """

    name: str
    rope: RopeConfig
    width: int
    rotated: int | None = None
    temperature: tuple[float, int] | None = None

    def rows(self, context: int) -> int:
        """Rows of the table for each position: cosines and sines, of keys and of queries if these
        differ."""
        return 4 if self.temperature is not None and context > self.temperature[1] else 2


ParamSpec = LinearSpec | RouterSpec | VectorSpec | RotationSpec


@dataclass(frozen=True)
class Family:
    """One model family: how to read its config, what it stores, what it computes.

    Attributes:
        architectures: values of ``architectures`` in config.json that mean this family.
        model_types: values of ``model_type`` that do, for a config without ``architectures``.
        read_config: a parsed config.json to :class:`ModelConfig`. Raises CheckpointError for values
            of the wrong type or out of bounds, UnsupportedError for what is not implemented.
        params: every parameter, in the order of execution, then the rotations.
        embed: tokens to the residual stream ``[n, hidden]``.
        layers: all layers on the residual stream.
        head: the residual stream to logits ``[r, vocab]``.
        views: the tensors that checkpoints store otherwise than ``params`` names them, by the names
            in ``params``.
    """

    name: str
    architectures: tuple[str, ...]
    model_types: tuple[str, ...]
    read_config: Callable[[Mapping[str, Any]], ModelConfig]
    params: Callable[[ModelConfig], tuple[ParamSpec, ...]]
    embed: Callable[[GraphBuilder, ModelConfig], Value]
    layers: Callable[[GraphBuilder, ModelConfig, Value], Value]
    head: Callable[[GraphBuilder, ModelConfig, Value], Value]
    views: Callable[[ModelConfig], Mapping[str, View]] = lambda cfg: {}
