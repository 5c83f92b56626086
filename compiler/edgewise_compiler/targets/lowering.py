"""What lowering shares on every target: bounds, the buffers plans agree on, cost expressions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgewise_compiler.graph.nodes import Value
from edgewise_compiler.layouts.base import Tensors
from edgewise_compiler.models.base import ModelConfig
from edgewise_compiler.plan.calls import Access, Argument, Tensor
from edgewise_runtime.errors import CompileError
from edgewise_runtime.format.dtypes import DTYPES
from edgewise_runtime.format.expr import Expr

PAGE = 16  # tokens in a KV page
TABLE_HEADER = 8  # int32 fields in front of the page ids of a table row
RING = 64  # tokens a burst can leave in the ring, at most
STOP_TOKENS = 16
MAX_BIASES = 320
LOGPROBS = 21  # tokens whose log-probability is told: the sampled one and the 20 likeliest
KV8_SUFFIX = "-kv8"  # of the ids of programs whose pages hold int8 codes
GROUP = 32  # columns of a weight that share one scale


@dataclass(frozen=True)
class Bounds:
    """Upper bounds of the step symbols: token rows, sequences, tokens of context."""

    rows: int
    batch: int
    context: int

    @property
    def pages(self) -> int:
        """Pages one sequence can hold."""
        return -(-self.context // PAGE)


@dataclass(frozen=True)
class Lowering:
    """What every operation of a program may ask for: the model, the bounds, the parameters.

    ``params`` are the tensors of the weight layout by name, ``kv_dtype`` what pages hold.
    """

    config: ModelConfig
    bounds: Bounds
    params: Mapping[str, Tensor]
    kv_dtype: str

    def step_tensor(self, name: str) -> Tensor:
        """A buffer that the host and the device share by name."""
        cfg, bounds = self.config, self.bounds
        rows, batch = bounds.rows, bounds.batch
        inputs: dict[str, tuple[str, tuple[int | str, ...]]] = {
            "step": ("int32", (8,)),
            "tokens": ("int32", (rows,)),
            # One position a token; models that rotate by several (M-RoPE) will have more columns.
            "positions": ("int32", (rows, 1)),
            "row_seq": ("int32", (rows,)),
            "logit_rows": ("int32", (batch,)),
            "table": ("int32", (batch, TABLE_HEADER + bounds.pages)),
            "ring": ("int32", (batch, RING)),
            "eos": ("int32", (STOP_TOKENS,)),
            "sampling_f": ("float32", (batch, 8)),
            "sampling_i": ("int32", (batch, 8)),
            "bias_ids": ("int32", (batch, MAX_BIASES)),
            "bias_values": ("float32", (batch, MAX_BIASES)),
        }
        if name in inputs:
            dtype, shape = inputs[name]
            return Tensor(name, "input", dtype, shape)
        outputs: dict[str, tuple[str, tuple[int | str, ...]]] = {
            "x": ("float32", (rows, cfg.hidden)),
            "logits": ("float32", (batch, self.vocab_padded)),
            "sampled": ("int32", (batch,)),
            "logprobs": ("float32", (batch, LOGPROBS)),
            "logprob_ids": ("int32", (batch, LOGPROBS)),
        }
        if name in outputs:
            dtype, shape = outputs[name]
            return Tensor(name, "output", dtype, shape)
        if name == "counts":
            return Tensor(name, "state", "int32", (batch, cfg.vocab), reset="slot")
        raise CompileError(f"No step buffer is called {name!r}.")

    @property
    def vocab_padded(self) -> int:
        """Columns of the logits: the vocabulary rounded up to whole panel pairs."""
        return -(-self.config.vocab // GROUP) * GROUP

    def kv(self, layer: int) -> Tensor:
        """The pages of one layer: [pages, K|V, kv heads, page tokens x head dim]."""
        shape = ("pages", 2, self.config.kv_heads, PAGE * self.config.head_dim)
        return Tensor(f"kv.{layer}", "state", self.kv_dtype, shape)

    def kv_buffers(self, layer: int) -> tuple[Tensor, ...]:
        """All that a layer's keys and values lie in: its pages, and the scales of int8 pages."""
        if self.kv_dtype != "int8":
            return (self.kv(layer),)
        shape = ("pages", self.config.kv_heads, PAGE)
        return self.kv(layer), Tensor(f"kv_scale.{layer}", "state", "uint32", shape)

    def row_bound(self, value: Value) -> int:
        """The most rows ``value`` can have."""
        return self.bounds.rows if value.rows == "n" else self.bounds.batch

    def linear_params(self, name: str) -> tuple[Tensor, ...]:
        """Weight, scale and bias of a packed linear, as far as the layout has them."""
        parts = (f"{name}.weight", f"{name}.scale", f"{name}.bias")
        return tuple(self.params[part] for part in parts if part in self.params)


def mul(*factors: Expr) -> Expr:
    """The product as an expression."""
    out = factors[0]
    for factor in factors[1:]:
        out = ("mul", out, factor)
    return out


def add(*terms: Expr) -> Expr:
    """The sum as an expression."""
    out = terms[0]
    for term in terms[1:]:
        out = ("add", out, term)
    return out


def read(*tensors: Tensor) -> tuple[Argument, ...]:
    """Arguments a kernel reads."""
    return tuple(Argument(tensor, "read") for tensor in tensors)


def to(access: Access, *tensors: Tensor) -> tuple[Argument, ...]:
    """Arguments with another access."""
    return tuple(Argument(tensor, access) for tensor in tensors)


def param_tensors(tensors: Tensors) -> dict[str, Tensor]:
    """The tensors of a weight layout as plans name them."""
    return {name: Tensor(name, "param", spec.dtype, spec.shape) for name, spec in tensors.items()}


def param_bytes(params: tuple[Tensor, ...]) -> int:
    """Bytes of parameters, whose shapes have no symbols."""
    return sum(param.bytes for param in params)


def attention_cost(low: Lowering, *, decode: bool) -> tuple[Expr, Expr]:
    """Bytes and operations of one layer's attention over ``n``, ``b`` and ``kv``."""
    cfg = low.config
    token_bytes = 2 * cfg.kv_heads * cfg.head_dim * DTYPES[low.kv_dtype]
    if low.kv_dtype == "int8":
        token_bytes += cfg.kv_heads * DTYPES["uint32"]
    row_bytes = cfg.heads * cfg.head_dim * 8
    row_flops = 4 * cfg.heads * cfg.head_dim
    if decode:
        context: Expr = add("kv", 1)
        moved = add(mul("b", token_bytes, context), mul("b", row_bytes))
        return moved, mul("b", row_flops, context)
    moved = add(mul(add("n", mul("b", "kv")), token_bytes), mul("n", row_bytes))
    return moved, mul("n", row_flops, add("kv", ("ceildiv", "n", ("mul", 2, "b"))))
