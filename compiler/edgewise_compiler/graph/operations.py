"""The operations a graph is made of, each with what a kernel must know to compute it.

What varies between models is an attribute here, so that lowering reads nodes and no configuration.
``None`` means that the model does without; a kernel refuses a value it does not implement.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

Epilogue = Literal["store", "add", "swiglu", "geglu", "clamped"]
Activation = Literal["silu", "gelu_tanh", "clamped_silu"]
"""What a gate goes through: of the second the approximation by tanh (arXiv 1606.08415). The third
is ``g * sigmoid(1.702 * g)`` of ``g = min(gate, 7)``, times ``1 + up`` of an up within -7 and 7."""


@dataclass(frozen=True)
class Heads:
    """Query heads, the KV heads that they share, and elements of each."""

    query: int
    kv: int
    width: int


@dataclass(frozen=True)
class Operation:
    """What a node does. ``name`` is how people and labels call it."""

    name: ClassVar[str]


@dataclass(frozen=True)
class Embed(Operation):
    """Rows of the embedding table, which has ``vocab`` of them, for this step's tokens, times
    ``factor``."""

    name = "embed"
    vocab: int
    factor: float = 1.0


@dataclass(frozen=True)
class Gather(Operation):
    """The rows whose logits are wanted."""

    name = "gather"


@dataclass(frozen=True)
class RmsNorm(Operation):
    """RMSNorm over the last axis; ``gather`` first takes the rows whose logits are wanted."""

    name = "rms_norm"
    eps: float
    gather: bool = False


@dataclass(frozen=True)
class NormRuns(Operation):
    """RMSNorm of runs of so many columns that follow each other, each by itself and with a
    parameter of its own; the columns after them stay as they are."""

    name = "norm_runs"
    runs: tuple[int, ...]
    eps: float


@dataclass(frozen=True)
class Linear(Operation):
    """A packed linear.

    Attributes:
        epilogue: ``add`` puts the result onto the last input, ``swiglu`` and ``geglu`` apply
            :class:`Swiglu` with one activation or the other.
        norm: the input goes through an RMSNorm of this eps first, with the last parameter.
        gather: of the input, the rows whose logits are wanted.
    """

    name = "linear"
    epilogue: Epilogue = "store"
    norm: float | None = None
    gather: bool = False


@dataclass(frozen=True)
class Route(Operation):
    """Chooses the experts of each row: those of the largest logits, of equal ones the first.

    A softmax grows with its logits, so it makes no difference whether it comes before the choice or
    after; what differs is over which of the experts it goes.

    Attributes:
        experts: how many there are.
        chosen: how many of them a row goes through.
        normalize: the softmax goes over the chosen ones; else over all.
        shared: the logit after those of the experts is a gate's, whose sigmoid is the weight of an
            expert that every row goes through.
    """

    name = "route"
    experts: int
    chosen: int
    normalize: bool
    shared: bool = False

    @property
    def weights(self) -> int:
        """Weights of a row: of its experts by the size of their logits, then of a shared one."""
        return self.chosen + self.shared


@dataclass(frozen=True)
class Experts(Operation):
    """A packed linear of experts: of each row those that the second input, a route, names.

    The output has ``chosen`` results beside each other in a row, in the order of the route.

    Attributes:
        each: the input has as many parts, one for each of a row's experts; else they all read the
            row.
        epilogue: as of :class:`Linear`, but for ``add``.
    """

    name = "experts"
    experts: int
    chosen: int
    each: bool
    epilogue: Epilogue = "store"


@dataclass(frozen=True)
class Combine(Operation):
    """The results of a row's experts times their weights, added up in the order of the route.

    Inputs: results, the route, with ``shared`` the result of the shared expert; with ``add`` the
    last is a residual onto which the sum goes.
    """

    name = "combine"
    chosen: int
    shared: bool = False
    epilogue: Literal["store", "add"] = "store"


@dataclass(frozen=True)
class Quantize(Operation):
    """Activations to int8 in groups of 32."""

    name = "quantize"


@dataclass(frozen=True)
class Add(Operation):
    """The first input plus the second, of whose columns those beyond the first's are padding."""

    name = "add"


@dataclass(frozen=True)
class Swiglu(Operation):
    """``silu(gate) * up``, or of another activation, of panels of 16 columns that alternate."""

    name = "swiglu"
    activation: Activation = "silu"


@dataclass(frozen=True)
class Softcap(Operation):
    """``cap * tanh(x / cap)`` of every element, in its buffer."""

    name = "softcap"
    cap: float


@dataclass(frozen=True)
class RopeAppend(Operation):
    """Rotates queries and keys, and appends keys and values to the pages.

    Attributes:
        rotation: the family's rotation whose table is used; None where nothing turns.
        layer: the layer whose pages are written.
        norm_eps: of an RMSNorm of every head before the rotation, with two parameters, the one of
            the queries and the one of the keys; None without them.
    """

    name = "rope_append"
    heads: Heads
    rotation: str | None
    layer: int
    norm_eps: float | None = None


@dataclass(frozen=True)
class Attention(Operation):
    """Attention of rotated queries over the pages of a layer.

    Attributes:
        scale: factor on the scores before the softmax.
        layer: the layer whose pages are read; it may be another one than the node stands in.
        window: tokens a row sees, itself included; None for all before it.
        softcap: scores become ``softcap * tanh(score / softcap)``; None leaves them.
        sinks: a parameter with a score for each head that takes part in the softmax; or None.
        rope: what the node does to its input first, with that operation's parameters before its
            own; None where the input went through it before.
    """

    name = "attention"
    heads: Heads
    scale: float
    layer: int
    window: int | None = None
    softcap: float | None = None
    sinks: str | None = None
    rope: RopeAppend | None = None
