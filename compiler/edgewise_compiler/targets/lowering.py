"""What lowering shares on every target: bounds, the buffers plans agree on, cost expressions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from edgewise_compiler.graph.nodes import Value
from edgewise_compiler.models.base import ModelConfig
from edgewise_compiler.plan.calls import ITEMSIZE, Access, Argument, Tensor
from edgewise_runtime.errors import CompileError
from edgewise_runtime.format.abi import PAGE_TOKENS, padded_vocab, shared_buffers
from edgewise_runtime.format.expr import Expr
from edgewise_runtime.format.manifest import StateGroup
from edgewise_runtime.format.state import PAGES, page_rows, pages_for, row_bytes

KV8_SUFFIX = "-kv8"  # of the ids of programs whose pages hold int8 codes


@dataclass(frozen=True)
class Bounds:
    """Upper bounds of the step symbols: token rows, sequences, tokens of context."""

    rows: int
    batch: int
    context: int

    @property
    def pages(self) -> int:
        """Pages one sequence can hold."""
        return pages_for(self.context, PAGE_TOKENS)


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
        shared = shared_buffers(
            rows=bounds.rows,
            batch=bounds.batch,
            pages=bounds.pages,
            hidden=cfg.hidden,
            vocab=cfg.vocab,
        )
        if name not in shared:
            raise CompileError(f"No step buffer is called {name!r}.")
        return Tensor(name, *shared[name])

    @property
    def vocab_padded(self) -> int:
        """Columns of the logits."""
        return padded_vocab(self.config.vocab)

    def kv_buffers(self, layer: int) -> tuple[Tensor, ...]:
        """All that a layer's keys and values lie in: its pages, and the scales of int8 pages."""
        group, names = self.state_group, (f"kv.{layer}", f"kv_scale.{layer}")
        rows = page_rows(group, self.kv_dtype)
        return tuple(
            Tensor(name, "state", rows[name][0], (PAGES, *rows[name][1]))
            for name in names
            if name in rows
        )

    @property
    def state_group(self) -> StateGroup:
        """The pages of all layers, as the bundle describes them."""
        cfg = self.config
        return state_group(cfg.layers, cfg.kv_heads, cfg.head_dim, scales=self.kv_dtype == "int8")

    @property
    def page_bytes(self) -> int:
        """Bytes of a page of all layers."""
        return sum(map(row_bytes, page_rows(self.state_group, self.kv_dtype).values()))

    def row_bound(self, value: Value) -> int:
        """The most rows ``value`` can have."""
        return self.bounds.rows if value.rows == "n" else self.bounds.batch

    def linear_params(self, name: str) -> tuple[Tensor, ...]:
        """Weight, scale and bias of a packed linear, as far as the layout has them."""
        parts = (f"{name}.weight", f"{name}.scale", f"{name}.bias")
        return tuple(self.params[part] for part in parts if part in self.params)


def state_group(layers: int, kv_heads: int, head_dim: int, *, scales: bool) -> StateGroup:
    """What a bundle says about pages; `scales`: with the buffers that only int8 pages have."""
    return StateGroup(
        kind="paged",
        layers=tuple(range(layers)),
        window=None,
        page_tokens=PAGE_TOKENS,
        kv_heads=kv_heads,
        head_dim=head_dim,
        buffers=tuple(f"kv.{i}" for i in range(layers)),
        scales=tuple(f"kv_scale.{i}" for i in range(layers)) if scales else (),
    )


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


def param_bytes(params: tuple[Tensor, ...]) -> int:
    """Bytes of parameters, whose shapes have no symbols."""
    return sum(prod(int(extent) for extent in p.shape) * ITEMSIZE[p.dtype] for p in params)


def attention_cost(low: Lowering, *, decode: bool) -> tuple[Expr, Expr]:
    """Bytes and operations of one layer's attention over ``n``, ``b`` and ``kv``."""
    cfg = low.config
    token_bytes = 2 * cfg.kv_heads * cfg.head_dim * ITEMSIZE[low.kv_dtype]
    if low.kv_dtype == "int8":
        token_bytes += cfg.kv_heads * ITEMSIZE["uint32"]
    row_bytes = cfg.heads * cfg.head_dim * 8
    row_flops = 4 * cfg.heads * cfg.head_dim
    if decode:
        context: Expr = add("kv", 1)
        moved = add(mul("b", token_bytes, context), mul("b", row_bytes))
        return moved, mul("b", row_flops, context)
    moved = add(mul(add("n", mul("b", "kv")), token_bytes), mul("n", row_bytes))
    return moved, mul("n", row_flops, add("kv", ("ceildiv", "n", ("mul", 2, "b"))))
