"""Lowering attention for GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from edgewise_compiler.graph.nodes import Graph, Node, Value
from edgewise_compiler.graph.operations import Attention, Linear
from edgewise_compiler.kernels.attention import AttentionSpec
from edgewise_compiler.kernels.gpu.attention.decode import attention_decode, attention_near
from edgewise_compiler.kernels.gpu.attention.joined import Joined, Joining
from edgewise_compiler.kernels.gpu.attention.merge import attention_merge, part_elements
from edgewise_compiler.kernels.gpu.attention.prefill import attention_prefill
from edgewise_compiler.kernels.gpu.attention.serial import attention_serial
from edgewise_compiler.kernels.gpu.attention.shares import Share, all_together, in_turn
from edgewise_compiler.kernels.gpu.attention.tensor import attention_fits, attention_tensor
from edgewise_compiler.kernels.gpu.matmul.shape import joining_workgroups
from edgewise_compiler.plan.calls import Call, Tensor
from edgewise_compiler.targets.gpu.lowering import GpuLowering, call_of
from edgewise_compiler.targets.lowering import attention_cost, mul, param_bytes, read, to


def lower_attention(low: GpuLowering, node: Node[Attention], *, many_rows: bool) -> Iterator[Call]:
    op, variant, spec = node.op, low.variant, low.attention_spec(node.op)
    qkv, out = low.value(node.inputs[0]), low.value(node.output)
    table, step = low.table(op), low.step_tensor("step")
    kv, sinks = low.kv_buffers(op), low.sinks(op)
    moved, flops = attention_cost(op.heads, low.kv_dtype, decode=not many_rows)
    if variant.serial:
        launch = attention_serial(spec)
        arguments = (
            *read(qkv, *kv, table, low.step_tensor("row_seq"), *sinks),
            *to("write", out),
            *read(step),
        )
        yield call_of(launch, arguments, node.label, moved, flops)
        return
    if many_rows:
        by_matrices = variant.tensor and attention_fits(spec)
        launch = attention_tensor(spec) if by_matrices else attention_prefill(spec, low.limits)
        arguments = (*read(qkv, *kv, table, *sinks), *to("write", out), *read(step))
        yield call_of(launch, arguments, node.label, moved, flops)
        return
    rope = None if op.rope is None else low.rope_spec(op.rope)
    pages = read(*kv)
    if op.rope is not None:
        pages = (*read(*low.rotation(op.rope), *low.head_norms(node)), *to("readwrite", *kv))
    taken = (*read(qkv), *pages, *read(table))
    if low.near:
        launch = attention_near(spec, low.limits, rope)
        arguments = (*taken, *read(*sinks), *to("write", out), *read(step))
        yield call_of(launch, arguments, node.label, moved, flops)
        return
    shares = _shares(low, spec)
    part = part_of(low, node.output, op)
    for share in shares[: 1 if low.few else None]:
        costs = attention_cost(op.heads, low.kv_dtype, decode=True, sequences=share.live)
        launch = attention_decode(spec, low.limits, share, rope)
        arguments = (*taken, *to("write", part), *read(step))
        if node.output.id in low.joined:
            yield call_of(launch, arguments, node.label, *costs)
            return
        yield call_of(launch, arguments, f"{node.label}.segments", *costs)
        launch = attention_merge(spec, share)
        arguments = (*read(part, table, *sinks), *to("write", out), *read(step))
        moved = mul(share.live, op.heads.query * op.heads.width * 8)
        yield call_of(launch, arguments, node.label, moved, 0)


def part_of(low: GpuLowering, value: Value, op: Attention) -> Tensor:
    """The segments of a value that is attention."""
    spec = low.attention_spec(op)
    elements = part_elements(spec, _shares(low, spec)[0])
    return Tensor(f"{value.id}.part", "scratch", "float32", (elements,))


def joined_of(low: GpuLowering, op: Attention, node: Node[Any]) -> Joined:
    """Attention as a linear joins it: layers that differ in their scores share a kernel."""
    spec = replace(low.attention_spec(op), scale=1.0, softcap=None)
    share = _shares(low, spec)[0]
    segments = _joining(low, node).segments(spec)
    return Joined(spec, share, min(segments, -(-share.reach // spec.segment)))


def _joining(low: GpuLowering, node: Node[Any]) -> Joining:
    parts = low.parts[node.params[0]]
    inputs = node.inputs[0].width
    return Joining(
        sum(joining_workgroups(part.rows, inputs, part.scheme.name) for part in parts),
        sum(param_bytes(low.linear_params(part.name)) for part in parts),
    )


def joined_by_linears(low: GpuLowering, graph: Graph) -> Mapping[str, Attention]:
    """The attention, by its value, that nothing but linears read, with room and buffers left."""
    joined = {node.output.id: node.op for node in graph.nodes if isinstance(node.op, Attention)}
    for node in graph.nodes:
        for source in node.inputs:
            if source.id in joined and not _may_join(low, node, joined[source.id]):
                del joined[source.id]
    return joined


def _may_join(low: GpuLowering, node: Node[Any], op: Attention) -> bool:
    if not isinstance(node.op, Linear) or node.op.norm is not None or node.op.gather:
        return False
    if not joined_of(low, op, node).fits:
        return False
    params = max(len(low.linear_params(part.name)) for part in low.parts[node.params[0]])
    # Beside them the segments and the table, then out and the step.
    return 2 + len(low.sinks(op)) + params + 2 <= low.limits.buffers


def _shares(low: GpuLowering, spec: AttentionSpec) -> list[Share]:
    return [all_together(spec)] if low.short else in_turn(spec)


def joinable_by(low: GpuLowering, graph: Graph, together: int) -> Mapping[int, int]:
    """By numbers of sequences the most tokens of each up to which linears join the segments of all
    attention that they can, of several no more than `together_reach`; empty where they can of none.
    """
    joined = joined_by_linears(low, graph)
    batch, context = low.bounds.batch, low.bounds.context
    readers = [
        (_joining(low, node), low.attention_spec(joined[source.id]))
        for node in graph.nodes
        for source in node.inputs
        if source.id in joined
    ]
    if not readers:
        return {}

    def reach(sequences: int) -> int:
        reaches = (of.segments(spec, sequences) * spec.segment for of, spec in readers)
        return min(context if sequences == 1 else together, *reaches)

    counts = range(1, batch + 1)
    return {n: reach(n) for n in counts if n < 8 or n.bit_count() == 1 or n == batch}


def together_reach(low: GpuLowering, graph: Graph) -> int:
    """The most tokens of a sequence up to which a graph's attention keeps the partial results of
    all sequences together."""
    specs = (low.attention_spec(n.op) for n in graph.nodes if isinstance(n.op, Attention))
    return min((all_together(spec).reach for spec in specs), default=low.bounds.context)
