"""The model as a graph of semantic operations: what a family writes and passes rewrite.

Values have a row domain instead of a dynamic shape: ``"n"`` for the token rows of a step and
``"r"`` for the rows whose logits are wanted. A family never sees batches, pages, dtypes or
quantization.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from edgewise_runtime.errors import CompileError

Rows = Literal["n", "r"]


@dataclass(frozen=True)
class Value:
    """One tensor of a step.

    Attributes:
        id: unique within a program: the graph's name and a number.
        rows: which step symbol counts its rows.
        width: elements per row.
        kind: ``"f32"``, or ``"a8"`` for activations quantized to int8 in groups of 32.
        name: set when the value lives in a buffer shared between plans (``x``, ``logits``).
    """

    id: str
    rows: Rows
    width: int
    kind: Literal["f32", "a8"] = "f32"
    name: str | None = None


@dataclass(frozen=True)
class Node:
    """One operation. ``inputs`` come before ``params`` in every kernel that implements it."""

    op: str
    inputs: tuple[Value, ...]
    output: Value
    params: tuple[str, ...] = ()
    attrs: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""

    def with_attrs(self, **attrs: Any) -> Node:
        """A copy with some attributes added or replaced."""
        return replace(self, attrs={**self.attrs, **attrs})


@dataclass(frozen=True)
class Graph:
    """Nodes in execution order. Only a ``linear`` with a residual writes a buffer a second time."""

    name: str
    nodes: tuple[Node, ...]

    def uses(self, value: Value) -> tuple[Node, ...]:
        """Every node that reads ``value``, in order."""
        return tuple(node for node in self.nodes if value in node.inputs)

    def producer(self, value: Value) -> Node | None:
        """The node that writes ``value``, or None for a value that another plan wrote."""
        for node in self.nodes:
            if node.output == value:
                return node
        return None

    def text(self) -> str:
        """One line a node, for people."""
        return "".join(f"{node.output.id} = {node.op} {node}\n" for node in self.nodes)

    def with_nodes(self, nodes: Iterable[Node]) -> Graph:
        """The same graph with other nodes."""
        return replace(self, nodes=tuple(nodes))


class GraphBuilder:
    """Records what a family's forward functions call, one plan at a time.

    Sizes come from the caller's model config: ``widths`` maps the name of each packed linear to its
    output width, ``hidden`` and ``attention_width`` (query heads x head dim) are elements per row.
    """

    def __init__(
        self, name: str, *, hidden: int, attention_width: int, widths: Mapping[str, int]
    ) -> None:
        self.name = name
        self._hidden = hidden
        self._attention_width = attention_width
        self._widths = widths
        self._nodes: list[Node] = []
        self._next = 0

    def _value(self, rows: Rows, width: int, name: str | None = None) -> Value:
        self._next += 1
        return Value(f"{self.name}.{self._next}", rows, width, name=name)

    def _emit(
        self,
        op: str,
        inputs: tuple[Value, ...],
        output: Value,
        params: tuple[str, ...] = (),
        **attrs: Any,
    ) -> Value:
        self._nodes.append(
            Node(op, inputs, output, params, attrs, label=params[0] if params else op)
        )
        return output

    def hidden(self) -> Value:
        """The residual stream as another plan left it, f32 ``[n, hidden]``."""
        return self._value("n", self._hidden, name="x")

    def embed(self, param: str) -> Value:
        """Rows of the embedding table for this step's tokens, f32 ``[n, hidden]``."""
        return self._emit("embed", (), self._value("n", self._hidden, name="x"), (param,))

    def rms_norm(self, x: Value, param: str, eps: float) -> Value:
        """RMSNorm over the last axis (Zhang and Sennrich 2019), same shape as ``x``."""
        return self._emit("rms_norm", (x,), self._value(x.rows, x.width), (param,), eps=eps)

    def linear(self, x: Value, param: str) -> Value:
        """``x @ W.T (+ bias)`` with the packed linear ``param``."""
        return self._emit("linear", (x,), self._value(x.rows, self._width(param)), (param,))

    def add(self, residual: Value, y: Value) -> Value:
        """``residual + y``; a named residual keeps its name, so the sum stays in its buffer."""
        if residual.width > y.width:
            raise CompileError(f"add: {y.width} columns onto {residual.width} in {self.name!r}.")
        output = self._value(residual.rows, residual.width, name=residual.name)
        return self._emit("add", (residual, y), output)

    def swiglu(self, gate_up: Value) -> Value:
        """``silu(gate) * up`` (Shazeer 2020) of interleaved panels, half the width."""
        return self._emit("swiglu", (gate_up,), self._value(gate_up.rows, gate_up.width // 2))

    def attention(
        self, qkv: Value, *, layer: int, q_norm: str | None = None, k_norm: str | None = None
    ) -> Value:
        """Rotate, append K and V to the pages of ``layer``, attend: ``[n, heads * head_dim]``."""
        if (q_norm is None) != (k_norm is None):
            raise CompileError(f"layer {layer}: q_norm and k_norm come together.")
        norms = () if q_norm is None or k_norm is None else (q_norm, k_norm)
        q = self._value("n", self._attention_width)
        self._nodes.append(
            Node("rope_append", (qkv,), q, norms, {"layer": layer}, f"layers.{layer}.rope_append")
        )
        out = self._value("n", self._attention_width)
        self._nodes.append(
            Node("attention", (q,), out, (), {"layer": layer}, f"layers.{layer}.attention")
        )
        return out

    def gather_logit_rows(self, x: Value) -> Value:
        """The rows whose logits are wanted, f32 ``[r, width]``."""
        return self._emit("gather", (x,), self._value("r", x.width))

    def logits(self, h: Value, param: str) -> Value:
        """The linear that ends a model; its output is the shared buffer ``logits``."""
        output = self._value(h.rows, self._width(param), name="logits")
        return self._emit("linear", (h,), output, (param,))

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
