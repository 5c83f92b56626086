"""The model as a graph of semantic operations: what a family writes and passes rewrite.

Values have a row domain instead of a dynamic shape: ``"n"`` for the token rows of a step and
``"r"`` for the rows whose logits are wanted. A family never sees batches, pages, dtypes or
quantization.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeVar

from edgewise_compiler.graph.operations import (
    Activation,
    Add,
    Attention,
    Combine,
    Embed,
    Experts,
    Gather,
    Linear,
    NormRuns,
    Operation,
    RmsNorm,
    RopeAppend,
    Route,
    Softcap,
    Swiglu,
)
from edgewise_runtime.errors import CompileError

Rows = Literal["n", "r"]
Op = TypeVar("Op", bound=Operation, covariant=True)


@dataclass(frozen=True)
class Value:
    """One tensor of a step.

    Attributes:
        id: unique within a program: the graph's name and a number.
        rows: which step symbol counts its rows.
        width: elements per row.
        kind: ``"f32"``, ``"a8"`` for activations quantized to int8 in groups of 32, or ``"route"``:
            which experts a row goes through, and their weights.
        name: set when the value lives in a buffer shared between plans (``x``, ``logits``).
    """

    id: str
    rows: Rows
    width: int
    kind: Literal["f32", "a8", "route"] = "f32"
    name: str | None = None


@dataclass(frozen=True)
class Node(Generic[Op]):
    """One operation. ``inputs`` come before ``params`` in every kernel that implements it."""

    op: Op
    inputs: tuple[Value, ...]
    output: Value
    params: tuple[str, ...] = ()
    label: str = ""


@dataclass(frozen=True)
class Graph:
    """Nodes in execution order. Only a ``linear`` with a residual writes a buffer a second time."""

    name: str
    nodes: tuple[Node[Operation], ...]

    def uses(self, value: Value) -> tuple[Node[Operation], ...]:
        """Every node that reads ``value``, in order."""
        return tuple(node for node in self.nodes if value in node.inputs)

    def producer(self, value: Value) -> Node[Operation] | None:
        """The node that writes ``value``, or None for a value that another plan wrote."""
        for node in self.nodes:
            if node.output == value:
                return node
        return None

    def text(self) -> str:
        """One line a node, for people."""
        return "".join(f"{node.output.id} = {node.op.name} {node}\n" for node in self.nodes)

    def with_nodes(self, nodes: Iterable[Node[Operation]]) -> Graph:
        """The same graph with other nodes."""
        return replace(self, nodes=tuple(nodes))


class GraphBuilder:
    """Records what a family's forward functions call, one plan at a time.

    ``widths`` maps the name of each packed linear to its output width; ``hidden`` is elements per
    row of the residual stream.
    """

    def __init__(self, name: str, *, hidden: int, widths: Mapping[str, int]) -> None:
        self.name = name
        self._hidden = hidden
        self._widths = widths
        self._nodes: list[Node[Operation]] = []
        self._next = 0

    def _value(self, rows: Rows, width: int, name: str | None = None) -> Value:
        self._next += 1
        return Value(f"{self.name}.{self._next}", rows, width, name=name)

    def _emit(
        self,
        op: Operation,
        inputs: tuple[Value, ...],
        output: Value,
        params: tuple[str, ...] = (),
        label: str = "",
    ) -> Value:
        label = label or (params[0] if params else op.name)
        self._nodes.append(Node(op, inputs, output, params, label))
        return output

    def hidden(self) -> Value:
        """The residual stream as another plan left it, f32 ``[n, hidden]``."""
        return self._value("n", self._hidden, name="x")

    def embed(self, param: str, *, vocab: int, factor: float = 1.0) -> Value:
        """Rows of the embedding table for this step's tokens, times ``factor``: f32
        ``[n, hidden]``."""
        output = self._value("n", self._hidden, name="x")
        return self._emit(Embed(vocab, factor), (), output, (param,))

    def rms_norm(self, x: Value, param: str, eps: float) -> Value:
        """RMSNorm over the last axis (Zhang and Sennrich 2019), same shape as ``x``."""
        return self._emit(RmsNorm(eps), (x,), self._value(x.rows, x.width), (param,))

    def norm_runs(self, x: Value, params: Mapping[str, int], eps: float) -> Value:
        """RMSNorm of runs of columns, by the parameter of each and its columns; same shape."""
        op = NormRuns(tuple(params.values()), eps)
        return self._emit(op, (x,), self._value(x.rows, x.width), tuple(params))

    def linear(self, x: Value, param: str) -> Value:
        """``x @ W.T (+ bias)`` with the packed linear ``param``."""
        return self._emit(Linear(), (x,), self._value(x.rows, self._width(param)), (param,))

    def add(self, residual: Value, y: Value) -> Value:
        """``residual + y``; a named residual keeps its name, so the sum stays in its buffer."""
        if residual.width > y.width:
            raise CompileError(f"add: {y.width} columns onto {residual.width} in {self.name!r}.")
        output = self._value(residual.rows, residual.width, name=residual.name)
        return self._emit(Add(), (residual, y), output)

    def swiglu(self, gate_up: Value, activation: Activation = "silu") -> Value:
        """``silu(gate) * up`` (Shazeer 2020) of interleaved panels, half the width."""
        output = self._value(gate_up.rows, gate_up.width // 2)
        return self._emit(Swiglu(activation), (gate_up,), output)

    def route(self, x: Value, param: str, op: Route) -> Value:
        """The experts of each row by the router ``param``: their numbers, then their weights."""
        output = replace(self._value(x.rows, op.chosen + op.weights), kind="route")
        return self._emit(op, (x,), output, (param,))

    def experts(self, x: Value, route: Value, param: str, op: Experts) -> Value:
        """The packed linear ``param`` of each row's experts, whose results lie beside each other:
        ``[n, chosen * columns of one]``."""
        output = self._value(x.rows, op.chosen * self._width(param))
        return self._emit(op, (x, route), output, (param,))

    def combine(
        self, y: Value, route: Value, chosen: int, label: str, shared: Value | None = None
    ) -> Value:
        """The results of a row's experts times their weights, added up with that of the shared
        expert if there is one: ``[n, columns of one]``."""
        others = () if shared is None else (shared,)
        output = self._value(y.rows, y.width // chosen)
        op = Combine(chosen, shared is not None)
        return self._emit(op, (y, route, *others), output, label=label)

    def softcap(self, x: Value, cap: float) -> Value:
        """``cap * tanh(x / cap)``, in the buffer of ``x``, which has a name."""
        output = self._value(x.rows, x.width, name=x.name)
        return self._emit(Softcap(cap), (x,), output, label=f"{x.name}.softcap")

    def attention(
        self,
        qkv: Value,
        attention: Attention,
        *,
        rotation: str | None,
        qk_norm: tuple[str, str, float] | None = None,
    ) -> Value:
        """Rotate, append K and V to the pages, attend: ``[n, heads * head width]``.

        Args:
            qkv: queries, keys and values of each row beside each other.
            rotation: the name of one of the family's rotations, or None.
            qk_norm: of an RMSNorm of every head before the rotation: the parameters of queries and
                keys, and its eps.
        """
        heads, layer = attention.heads, attention.layer
        *norms, eps = qk_norm or (None,)
        rope = RopeAppend(heads, rotation, layer, eps)
        width = heads.query * heads.width
        q = self._emit(
            rope, (qkv,), self._value("n", width), tuple(norms), f"layers.{layer}.rope_append"
        )
        sinks = () if attention.sinks is None else (attention.sinks,)
        out = self._value("n", width)
        return self._emit(attention, (q,), out, sinks, f"layers.{layer}.attention")

    def gather_logit_rows(self, x: Value) -> Value:
        """The rows whose logits are wanted, f32 ``[r, width]``."""
        return self._emit(Gather(), (x,), self._value("r", x.width))

    def logits(self, h: Value, param: str) -> Value:
        """The linear that ends a model; its output is the shared buffer ``logits``."""
        output = self._value(h.rows, self._width(param), name="logits")
        return self._emit(Linear(), (h,), output, (param,))

    def graph(self) -> Graph:
        """What was recorded."""
        return Graph(self.name, tuple(self._nodes))

    def _width(self, param: str) -> int:
        if param not in self._widths:
            raise CompileError(
                f"{self.name!r} uses the linear {param!r}, which the family does not declare.",
                remedy=f"Declared: {', '.join(sorted(self._widths))}.",
            )
        return self._widths[param]
