"""What lowering shares on every target: bounds, the buffers plans agree on, cost expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

from edgewise_compiler.graph.build import SharedSizes
from edgewise_compiler.graph.nodes import Node, Value
from edgewise_compiler.graph.operations import (
    Attention,
    Combine,
    Experts,
    Heads,
    Operation,
    RopeAppend,
    Route,
)
from edgewise_compiler.kernels.attention import AttentionSpec, RopeSpec
from edgewise_compiler.kernels.experts import RouteSpec
from edgewise_compiler.kernels.sampling import SamplingSpec
from edgewise_compiler.layouts.base import Layout, Part, Tensors
from edgewise_compiler.layouts.schemes import Schemes, linears_of
from edgewise_compiler.models.base import ParamSpec
from edgewise_compiler.options import Bounds
from edgewise_compiler.plan.calls import Access, Argument, Call, Tensor
from edgewise_compiler.quantize import NUMBERS
from edgewise_compiler.state import state_group, state_groups
from edgewise_runtime.errors import CompileError
from edgewise_runtime.format.abi import TABLES, shared_buffers
from edgewise_runtime.format.dtypes import DTYPES
from edgewise_runtime.format.expr import Expr
from edgewise_runtime.format.manifest import StateGroup
from edgewise_runtime.format.state import PAGES, page_rows, row_bytes


@dataclass(frozen=True)
class Lowering:
    """What every operation of a program may ask for: shared sizes, the bounds, the parameters.

    ``params`` are the tensors of the weight layout by name, ``parts`` those of each linear,
    ``kv_dtype`` is what pages hold.
    """

    shared: SharedSizes
    bounds: Bounds
    params: Mapping[str, Tensor]
    parts: Mapping[str, tuple[Part, ...]]
    kv_dtype: str

    def step_tensor(self, name: str) -> Tensor:
        """A buffer that the host and the device share by name."""
        bounds, sizes = self.bounds, self.shared
        shared = shared_buffers(
            rows=bounds.rows,
            batch=bounds.batch,
            pages=bounds.pages,
            hidden=sizes.hidden,
            vocab=sizes.vocab,
            groups=len(self.groups),
        )
        if name not in shared:
            raise CompileError(f"No step buffer is called {name!r}.")
        return Tensor(name, *shared[name])

    def kv_buffers(self, op: RopeAppend | Attention) -> tuple[Tensor, ...]:
        """All that a layer's keys and values lie in: its pages, and the scales of int8 pages."""
        group = state_group((0,), op.heads.kv, op.heads.width, scales=self.kv_dtype == "int8")
        place = op.layer
        if self.shared.windows:
            place = self.groups[self._group_of(op)].layers.index(op.layer)
        return tuple(
            Tensor(f"{name.removesuffix('0')}{place}", "state", dtype, (PAGES, *shape))
            for name, (dtype, shape) in page_rows(group, self.kv_dtype).items()
        )

    def table(self, op: RopeAppend | Attention) -> Tensor:
        """The table with the pages of a layer's group."""
        return self.step_tensor(TABLES[self._group_of(op)])

    @property
    def other_tables(self) -> tuple[Tensor, ...]:
        """The tables of all groups but the first, to which a burst copies its rows' headers."""
        return tuple(self.step_tensor(name) for name in TABLES[1 : len(self.groups)])

    @cached_property
    def groups(self) -> tuple[StateGroup, ...]:
        """The state groups of the bundle."""
        shared = self.shared
        windows = shared.windows or (None,) * shared.layers
        return state_groups(
            windows,
            self.bounds.context,
            shared.heads.kv,
            shared.heads.width,
            scales=self.kv_dtype == "int8",
        )

    def _group_of(self, op: RopeAppend | Attention) -> int:
        if not self.shared.windows:
            return 0
        return next(nth for nth, group in enumerate(self.groups) if op.layer in group.layers)

    @property
    def kv_seen(self) -> str:
        """How kernels see what pages hold, one of `KV_DTYPES`."""
        return self.kv_dtype

    @property
    def page_bytes(self) -> tuple[int, ...]:
        """Bytes of a page of all layers of each group."""
        rows = (page_rows(group, self.kv_dtype).values() for group in self.groups)
        return tuple(sum(map(row_bytes, each)) for each in rows)

    def rope_spec(self, op: RopeAppend) -> RopeSpec:
        """What a kernel for ``op`` is made for."""
        tables = self.rotation(op)
        apart = any(table.shape[1] == 4 for table in tables)
        return RopeSpec(
            *self._heads(op.heads), norm_eps=op.norm_eps, turns=bool(tables), apart=apart
        )

    def attention_spec(self, op: Attention) -> AttentionSpec:
        """What a kernel for ``op`` is made for."""
        return AttentionSpec(
            *self._heads(op.heads),
            scale=op.scale,
            # A window that no sequence of the program leaves is none.
            window=None if self._sees_all(op) else op.window,
            softcap=op.softcap,
            sinks=op.sinks is not None,
        )

    def router(self, node: Node[Route]) -> tuple[RouteSpec, tuple[Tensor, ...]]:
        """What a kernel for ``node`` is made for, and the router's tensors.

        Raises:
            CompileError: a router of other columns than the node's logits.
        """
        name, op, source = node.params[0], node.op, node.inputs[0]
        biases = [self.params[f"{name}.bias"]] if f"{name}.bias" in self.params else []
        shape = op.experts, op.chosen, op.normalize, op.shared, bool(biases)
        spec = RouteSpec(self.row_bound(source), source.width, *shape)
        weight = self.param(f"{name}.weight")
        if weight.shape != (spec.inputs, spec.columns):
            raise CompileError(
                f"The router {name!r} is {list(weight.shape)}; {op.experts} experts of "
                f"{source.width} columns need {[spec.inputs, spec.columns]}."
            )
        return spec, (weight, *biases)

    def route_tensors(self, route: Value, op: Route | Experts | Combine) -> tuple[Tensor, Tensor]:
        """Which experts each row has, and their weights."""
        rows = self.row_bound(route)
        weights = route.width - op.chosen
        return (
            Tensor(f"{route.id}.ids", "scratch", "int32", (rows, op.chosen)),
            Tensor(f"{route.id}.weights", "scratch", "float32", (rows, weights)),
        )

    def _sees_all(self, op: Attention) -> bool:
        return op.window is None or op.window >= self.bounds.context

    def _heads(self, heads: Heads) -> tuple[int, int, int, int, int, int, str]:
        bounds = self.bounds
        steps = bounds.rows, bounds.batch, bounds.context
        return (*steps, heads.query, heads.kv, heads.width, self.kv_seen)

    @property
    def sampling_spec(self) -> SamplingSpec:
        """What the kernels after the logits are made for."""
        bounds, shared = self.bounds, self.shared
        return SamplingSpec(bounds.rows, bounds.batch, bounds.pages, shared.vocab, shared.columns)

    def row_bound(self, value: Value) -> int:
        """The most rows ``value`` can have."""
        return self.bounds.rows if value.rows == "n" else self.bounds.batch

    def param(self, name: str) -> Tensor:
        """A tensor of the weight layout: a norm's weight, a rotation's table.

        Raises:
            CompileError: no parameter of the family made one of that name.
        """
        if name not in self.params:
            raise CompileError(
                f"The forward pass uses {name!r}, which the family does not declare.",
                remedy="Every norm and every rotation needs a spec among the family's params.",
            )
        return self.params[name]

    def rotation(self, op: RopeAppend) -> tuple[Tensor, ...]:
        """The table of the rotation that ``op`` names; none where nothing turns.

        Raises:
            CompileError: the family does not declare it, or for heads of another width.
        """
        if op.rotation is None:
            return ()
        table = self.param(op.rotation)
        width = 2 * int(table.shape[-1])
        if width != op.heads.width:
            raise CompileError(
                f"The rotation {op.rotation!r} is {width} wide, the heads of layer {op.layer} "
                f"{op.heads.width}.",
                remedy="Kernels rotate whole heads: declare a rotation of their width.",
            )
        return (table,)

    def sinks(self, op: Attention) -> tuple[Tensor, ...]:
        """The learned scores of the sinks; none where there are no sinks."""
        return () if op.sinks is None else (self.param(f"{op.sinks}.weight"),)

    def linear_params(self, name: str) -> tuple[Tensor, ...]:
        """Weight, groups' numbers and bias of a part of a linear, as far as the layout has them."""
        parts = (f"{name}.{part}" for part in ("weight", *NUMBERS, "bias"))
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


def parts_of(
    layout: Layout, schemes: Schemes, params: Iterable[ParamSpec]
) -> dict[str, tuple[Part, ...]]:
    """The parts of every linear in a layout."""
    return {spec.name: layout.parts(schemes[spec.name], spec) for spec in linears_of(params)}


def param_bytes(params: tuple[Tensor, ...]) -> int:
    """Bytes of parameters, whose shapes have no symbols."""
    return sum(param.bytes for param in params)


def by_pairs(tensor: Tensor, chosen: int) -> Tensor:
    """A tensor with a row for each of a row's experts, which lie beside each other in it."""
    rows, width = (int(extent) for extent in tensor.shape)
    return replace(tensor, shape=(rows * chosen, width // chosen))


def experts_bytes(params: tuple[Tensor, ...], experts: int, chosen: int, rows: Expr) -> Expr:
    """Bytes of the experts that so many rows go through at most: others are not read."""
    return mul(param_bytes(params) // experts, ("min", mul(rows, chosen), experts))


def attention_cost(
    heads: Heads, kv_dtype: str, *, decode: bool, sequences: Expr = "b"
) -> tuple[Expr, Expr]:
    """Bytes and operations of one layer's attention over ``n``, ``b`` and ``kv``; in ``decode`` of
    so many of the sequences."""
    token_bytes = 2 * heads.kv * heads.width * DTYPES[kv_dtype]
    if kv_dtype == "int8":
        token_bytes += heads.kv * DTYPES["uint32"]
    row_bytes = heads.query * heads.width * 8
    row_flops = 4 * heads.query * heads.width
    if decode:
        context: Expr = add("kv", 1)
        moved = add(mul(sequences, token_bytes, context), mul(sequences, row_bytes))
        return moved, mul(sequences, row_flops, context)
    moved = add(mul(add("n", mul("b", "kv")), token_bytes), mul("n", row_bytes))
    return moved, mul("n", row_flops, add("kv", ("ceildiv", "n", ("mul", 2, "b"))))


L = TypeVar("L", bound=Lowering)
Table = Mapping[type[Operation], Callable[[L, Any], Iterator[Call]]]
"""What lowers a node of each operation: a target's list of what it can do."""


def lower_nodes(
    target: str, table: Table[L], low: L, nodes: Iterable[Node[Operation]]
) -> tuple[Call, ...]:
    """The kernel calls of ``nodes``, in order.

    Raises:
        CompileError: an operation that ``table`` does not have.
    """
    calls: list[Call] = []
    for node in nodes:
        if type(node.op) not in table:
            raise CompileError(
                f"The {target} target has no kernel for {node.op.name!r} ({node.label}).",
                remedy=f"Operations it has: {', '.join(op.name for op in table)}.",
                code="compile.kernel",
            )
        calls += table[type(node.op)](low, node)
    return tuple(calls)
