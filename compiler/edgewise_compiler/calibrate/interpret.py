"""A model's graph computed in NumPy float32, one operation at a time.

It reads nodes only, before any pass, so a family needs nothing for it. Weights are read in the
order and padding that a bundle has (`layouts.order`), a block at a time: what is held in memory is
the activations of a layer, whatever the size of the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise_compiler.graph.build import build_graphs
from edgewise_compiler.graph.nodes import Graph, Node
from edgewise_compiler.graph.operations import (
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
from edgewise_compiler.kernels.numbers import CLAMP, CLAMPED_ALPHA
from edgewise_compiler.layouts.order import (
    BLOCK_ELEMENTS,
    coded_blocks,
    linear_widths,
    ordered_bias,
    output_rows,
    padded_k,
)
from edgewise_compiler.layouts.packing import quantized
from edgewise_compiler.models.base import (
    Family,
    LinearSpec,
    ModelConfig,
    ParamSpec,
    RotationSpec,
    RouterSpec,
    VectorSpec,
)
from edgewise_compiler.models.rotation import rotation_table
from edgewise_compiler.quantize.codes import Floats, RowSource
from edgewise_compiler.quantize.floats import F32
from edgewise_compiler.weights.base import WeightReader
from edgewise_runtime.errors import CompileError, UnsupportedError
from edgewise_runtime.format.abi import PANEL

Tokens = NDArray[np.integer[Any]]
Observe = Callable[[LinearSpec, Floats], None]
"""Told every linear that is computed, and its input, float32 ``[rows, k]`` without padding."""


Stored = Callable[[LinearSpec, int, int], Floats]
"""Packed rows from and to of a linear as a bundle has them, float32 ``[rows, K padded]``."""


def ignore(spec: LinearSpec, x: Floats) -> None:
    """An :data:`Observe` that looks at nothing."""


@dataclass(frozen=True)
class Step:
    """Texts on their way through a model.

    Attributes:
        tokens: ids ``[texts, length]``; every text starts at position 0 and sees only itself.
        kept: rotated keys and values of each layer, ``[texts, length, heads, width]``.
        codes: tensors that are computed with other weights, as rows of ``f32``.
        stored: where linears come from, if not from ``reader``; vectors and biases always do.
    """

    params: dict[str, ParamSpec]
    reader: WeightReader
    tokens: Tokens
    observe: Observe
    kept: dict[int, tuple[Floats, Floats]] = field(default_factory=dict)
    codes: Mapping[str, RowSource] = field(default_factory=dict)
    stored: Stored | None = None

    def linear(self, name: str) -> LinearSpec:
        """The linear called ``name``."""
        spec = self.params[name]
        if not isinstance(spec, LinearSpec):
            raise CompileError(f"The parameter {name!r} is no linear.")
        return spec

    def vector(self, name: str) -> Floats:
        """The vector called ``name``."""
        spec = self.params[name]
        if not isinstance(spec, VectorSpec):
            raise CompileError(f"The parameter {name!r} is no vector.")
        return self.reader.read(spec.source)

    def router(self, name: str) -> tuple[Floats, Floats | None]:
        """The router called ``name``: its matrix ``[logits, k]``, and its biases if it has some."""
        spec = self.params[name]
        if not isinstance(spec, RouterSpec):
            raise CompileError(f"The parameter {name!r} is no router.")
        matrix = np.concatenate([self.reader.read(source) for source in spec.sources])
        if spec.biases is None:
            return matrix, None
        return matrix, np.concatenate([self.reader.read(source) for source in spec.biases])

    def rotation(self, name: str) -> Floats:
        """The table of the rotation called ``name`` for the texts' positions."""
        spec = self.params[name]
        if not isinstance(spec, RotationSpec):
            raise CompileError(f"The parameter {name!r} is no rotation.")
        return rotation_table(spec, self.tokens.shape[1])

    def heads(self, x: Floats, count: int) -> Floats:
        """``[rows, heads * width]`` as ``[texts, length, heads, width]``."""
        return x.reshape(*self.tokens.shape, count, -1)


def forward(
    family: Family,
    cfg: ModelConfig,
    reader: WeightReader,
    tokens: Tokens,
    *,
    observe: Observe = ignore,
    logits: bool = True,
    stored: Stored | None = None,
) -> Floats:
    """Compute a model for texts of one length.

    Args:
        tokens: ids ``[texts, length]``, from 0 to ``cfg.vocab - 1``.
        observe: told what every linear is given.
        logits: compute the last linear too, which takes more memory than all others: a float32 for
            each token of the text and of the vocabulary.
        stored: has the weights of linears; None for those of ``reader``.

    Returns:
        The logits, float32 ``[texts * length, vocab]``; without ``logits`` the last linear's input.

    Raises:
        CheckpointError: a value that is not finite.
        UnsupportedError: an operation or a trait of one that is not implemented here.
    """
    params = family.params(cfg)
    graphs = build_graphs(family, cfg, linear_widths(params), ())
    step = Step({spec.name: spec for spec in params}, reader, tokens, observe, stored=stored)
    x = np.zeros((0, 0), np.float32)
    for name in ("embed", "layers"):
        x = execute(graphs[name], step, x)
    head = graphs["head"].nodes
    at = max(i for i, node in enumerate(head) if isinstance(node.op, Linear))
    last, nodes = head[at], head[:at]
    h = execute(graphs["head"].with_nodes(nodes), step, x)
    if not logits:
        observe(step.linear(last.params[0]), h)
        return h
    return execute(graphs["head"].with_nodes(head[at:]), step, h)[:, : cfg.vocab]


def execute(graph: Graph, step: Step, given: Floats) -> Floats:
    """Run the nodes of ``graph`` in order; ``given`` is what they read of another graph.

    Returns:
        The last node's output.
    """
    last = {value.id: node for node in graph.nodes for value in node.inputs}
    values: dict[str, Floats] = {}
    y = given
    for node in graph.nodes:
        compute = _OPERATIONS.get(type(node.op))
        if compute is None:
            raise UnsupportedError(
                f"{node.label}: the operation {node.op.name!r} cannot be computed in NumPy.",
                remedy="Compile with --no-calibrate.",
                code="unsupported.operation",
            )
        inputs = [values.get(value.id, given) for value in node.inputs]
        y = _checked(compute(step, node, inputs), node)
        values[node.output.id] = y
        for value in node.inputs:
            if last[value.id] is node:
                values.pop(value.id, None)
    return y


def _checked(y: Floats, node: Node[Any]) -> Floats:
    """Refuse what does not fit the node: an interpreter that guesses shapes hides mistakes."""
    if y.shape[1] != node.output.width:
        raise CompileError(
            f"{node.label} made {y.shape[1]} columns where the graph says {node.output.width}."
        )
    return y


def _blocks(
    step: Step, spec: LinearSpec, expert: int | None = None
) -> Iterator[tuple[int, Floats]]:
    """Rows of the packed linear, or of one of its experts, in order, in float32: the first of each
    block, and the block."""
    if step.stored is not None:
        total, count = output_rows(spec), max(1, BLOCK_ELEMENTS // padded_k(spec))
        base = total * (expert or 0)
        for first in range(0, total, count):
            yield first, step.stored(spec, base + first, base + min(first + count, total))
        return
    if expert is not None:
        spec = spec.expert(expert)
    for first, rows in coded_blocks(F32, spec, quantized(F32, spec, step.reader, step.codes)):
        yield first, rows.codes


def _embed(step: Step, node: Node[Embed], inputs: list[Floats]) -> Floats:
    spec, tokens = step.linear(node.params[0]), step.tokens.reshape(-1)
    if step.stored is not None:
        found = [step.stored(spec, t, t + 1)[:, : spec.k] for t in tokens.tolist()]
        return np.concatenate(found) * np.float32(node.op.factor)
    y = np.zeros((len(tokens), spec.k), np.float32)
    for first, rows in _blocks(step, spec):
        here = (tokens >= first) & (tokens < first + len(rows))
        y[here] = rows[tokens[here] - first, : spec.k]
    return y * np.float32(node.op.factor)


def _gather(step: Step, node: Node[Gather], inputs: list[Floats]) -> Floats:
    return inputs[0]  # The logits of every row are wanted.


def _normalized(x: Floats, weight: Floats, eps: float) -> Floats:
    mean = np.square(x).mean(axis=-1, keepdims=True)
    y: Floats = x / np.sqrt(mean + np.float32(eps)) * weight
    return y


def _rms_norm(step: Step, node: Node[RmsNorm], inputs: list[Floats]) -> Floats:
    return _normalized(inputs[0], step.vector(node.params[0]), node.op.eps)


def _norm_runs(step: Step, node: Node[NormRuns], inputs: list[Floats]) -> Floats:
    y, first = inputs[0].copy(), 0
    for run, name in zip(node.op.runs, node.params, strict=True):
        columns = slice(first, first + run)
        y[:, columns] = _normalized(y[:, columns], step.vector(name), node.op.eps)
        first += run
    return y


def _linear(step: Step, node: Node[Linear], inputs: list[Floats]) -> Floats:
    if node.op != Linear():
        raise UnsupportedError(
            f"{node.label}: {node.op} is fused; the graph before any pass is computed here.",
            remedy="Build the graph without passes.",
            code="unsupported.operation",
        )
    spec = step.linear(node.params[0])
    x = inputs[0][:, : spec.k]
    step.observe(spec, x)
    y = np.empty((len(x), node.output.width), np.float32)
    for first, rows in _blocks(step, spec):
        np.matmul(x, rows[:, : spec.k].T, out=y[:, first : first + len(rows)])
    bias = ordered_bias(spec, step.reader)
    return y if bias is None else y + bias


def _route(step: Step, node: Node[Route], inputs: list[Floats]) -> Floats:
    """Numbers of experts, then weights, beside each other as floats."""
    op = node.op
    matrix, bias = step.router(node.params[0])
    logits = inputs[0] @ matrix.T
    if bias is not None:
        logits = logits + bias
    scores = logits[:, : op.experts]
    ids = np.argsort(-scores, axis=1, kind="stable")[:, : op.chosen]
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights = np.take_along_axis(powers, ids, axis=1)
    weights = weights / (weights if op.normalize else powers).sum(axis=1, keepdims=True)
    with np.errstate(over="ignore"):
        gates = 1 / (1 + np.exp(-logits[:, op.experts :]))
    found: Floats = np.concatenate([ids, weights, gates], axis=1).astype(np.float32)
    return found


def _experts(step: Step, node: Node[Experts], inputs: list[Floats]) -> Floats:
    """Expert by expert, of those that some row goes through."""
    op, spec = node.op, step.linear(node.params[0])
    _check_plain(node, op.epilogue)
    x, ids = inputs[0], inputs[1][:, : op.chosen].astype(np.int64)
    parts = x.reshape(len(x) * op.chosen, -1) if op.each else x.repeat(op.chosen, axis=0)
    height = output_rows(spec)
    y = np.empty((len(parts), height), np.float32)
    for expert in np.unique(ids).tolist():
        mine, one = (ids == expert).reshape(-1), spec.expert(expert)
        given = parts[mine, : spec.k]
        step.observe(one, given)
        found = np.empty((len(given), height), np.float32)
        for first, rows in _blocks(step, spec, expert):
            np.matmul(given, rows[:, : spec.k].T, out=found[:, first : first + len(rows)])
        bias = ordered_bias(one, step.reader)
        y[mine] = found if bias is None else found + bias
    return y.reshape(len(x), -1)


def _combine(step: Step, node: Node[Combine], inputs: list[Floats]) -> Floats:
    op, (y, route, *others) = node.op, inputs
    _check_plain(node, op.epilogue)
    weights = route[:, op.chosen :]
    results = y.reshape(len(y), op.chosen, -1)
    total: Floats = np.einsum("ns,nsh->nh", weights[:, : op.chosen], results)
    return total + weights[:, op.chosen :] * others[0] if op.shared else total


def _check_plain(node: Node[Any], epilogue: str) -> None:
    if epilogue != "store":
        raise UnsupportedError(
            f"{node.label}: {node.op} is fused; the graph before any pass is computed here.",
            remedy="Build the graph without passes.",
            code="unsupported.operation",
        )


def _add(step: Step, node: Node[Add], inputs: list[Floats]) -> Floats:
    residual, y = inputs
    return residual + y[:, : residual.shape[1]]


def _swiglu(step: Step, node: Node[Swiglu], inputs: list[Floats]) -> Floats:
    panels = inputs[0].reshape(len(inputs[0]), -1, 2, PANEL)
    gate, up = panels[:, :, 0], panels[:, :, 1]
    slope = gate
    if node.op.activation == "gelu_tanh":
        slope = np.float32(math.sqrt(8 / math.pi)) * (gate + np.float32(0.044715) * gate**3)
    if node.op.activation == "clamped_silu":
        gate, up = np.minimum(gate, np.float32(CLAMP)), np.clip(up, -CLAMP, CLAMP) + np.float32(1)
        slope = gate * np.float32(CLAMPED_ALPHA)
    # Of a very negative x, x / (1 + exp(-x)) is x / inf, which is the right 0.
    with np.errstate(over="ignore"):
        gated: Floats = gate / (1 + np.exp(-slope)) * up
    return gated.reshape(len(inputs[0]), -1)


def _softcap(step: Step, node: Node[Softcap], inputs: list[Floats]) -> Floats:
    return _capped(inputs[0], node.op.cap)


def _capped(x: Floats, cap: float) -> Floats:
    y: Floats = np.tanh(x / np.float32(cap)) * np.float32(cap)
    return y


def _rope_append(step: Step, node: Node[RopeAppend], inputs: list[Floats]) -> Floats:
    op, heads = node.op, node.op.heads
    wanted = (heads.query + 2 * heads.kv) * heads.width
    qkv = step.heads(inputs[0][:, :wanted], heads.query + 2 * heads.kv)
    q, k, v = np.split(qkv, (heads.query, heads.query + heads.kv), axis=2)
    if op.norm_eps is not None:
        weights = [step.vector(name) for name in node.params]
        q, k = (_normalized(x, w, op.norm_eps) for x, w in zip((q, k), weights, strict=True))
    if op.rotation is not None:
        table = step.rotation(op.rotation)
        q, k = _rotated(q, table[:, -2:]), _rotated(k, table[:, :2])
    step.kept[op.layer] = (k, v)
    return q.reshape(len(inputs[0]), -1)


def _rotated(x: Floats, table: Floats) -> Floats:
    """Each pair (i, i + width / 2) of ``[texts, length, heads, width]`` turned by its angle."""
    cos, sin = table[:, None, 0], table[:, None, 1]
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def _attention(step: Step, node: Node[Attention], inputs: list[Floats]) -> Floats:
    op = node.op
    sinks = None if op.sinks is None else step.vector(op.sinks)
    q, (k, v) = step.heads(inputs[0], op.heads.query), step.kept[op.layer]
    share = op.heads.query // op.heads.kv
    length = q.shape[1]
    seen = np.tri(length, dtype=bool)
    if op.window is not None:
        seen &= ~np.tri(length, k=-op.window, dtype=bool)
    later = np.where(seen, np.float32(0), np.float32(-np.inf))
    y = np.empty_like(q)
    for text in range(len(q)):
        for head in range(op.heads.query):
            scores = q[text, :, head] @ k[text, :, head // share].T * np.float32(op.scale)
            if op.softcap is not None:
                scores = _capped(scores, op.softcap)
            scores += later
            most = scores.max(axis=1, keepdims=True)
            if sinks is not None:
                most = np.maximum(most, sinks[head])
            np.exp(scores - most, out=scores)
            total = scores.sum(axis=1, keepdims=True)
            scores /= total if sinks is None else total + np.exp(sinks[head] - most)
            y[text, :, head] = scores @ v[text, :, head // share]
    return y.reshape(len(inputs[0]), -1)


Compute = Callable[[Step, Node[Any], list[Floats]], Floats]

_OPERATIONS: dict[type[Operation], Compute] = {
    Embed: _embed,
    Gather: _gather,
    RmsNorm: _rms_norm,
    NormRuns: _norm_runs,
    Linear: _linear,
    Route: _route,
    Experts: _experts,
    Combine: _combine,
    Add: _add,
    Swiglu: _swiglu,
    Softcap: _softcap,
    RopeAppend: _rope_append,
    Attention: _attention,
}
