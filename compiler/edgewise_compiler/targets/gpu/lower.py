"""Lowering for GPUs: which kernel implements each operation, with which tensors and grid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from edgewise_compiler.graph.nodes import Graph, Node, Value
from edgewise_compiler.graph.operations import (
    Add,
    Attention,
    Combine,
    Embed,
    Experts,
    Gather,
    Linear,
    NormRuns,
    RmsNorm,
    RopeAppend,
    Route,
    Softcap,
    Swiglu,
)
from edgewise_compiler.kernels.attention import AttentionSpec
from edgewise_compiler.kernels.gpu.attention.decode import attention_decode, attention_near
from edgewise_compiler.kernels.gpu.attention.joined import Joined
from edgewise_compiler.kernels.gpu.attention.merge import attention_merge, part_elements
from edgewise_compiler.kernels.gpu.attention.prefill import attention_prefill
from edgewise_compiler.kernels.gpu.attention.serial import attention_serial
from edgewise_compiler.kernels.gpu.attention.shares import Share, all_together, in_turn
from edgewise_compiler.kernels.gpu.attention.tensor import attention_fits, attention_tensor
from edgewise_compiler.kernels.gpu.elementwise.embed import embed
from edgewise_compiler.kernels.gpu.elementwise.norm import norm_runs, rms_norm
from edgewise_compiler.kernels.gpu.elementwise.rope import rope_append
from edgewise_compiler.kernels.gpu.elementwise.unfused import add as add_rows
from edgewise_compiler.kernels.gpu.elementwise.unfused import gather, softcap, swiglu
from edgewise_compiler.kernels.gpu.experts.combine import combine
from edgewise_compiler.kernels.gpu.experts.matmul import (
    ExpertsPart,
    experts_pairs,
    experts_tiles,
    tile_rows,
)
from edgewise_compiler.kernels.gpu.experts.route import order, route, tile_bound
from edgewise_compiler.kernels.gpu.limits import Limits
from edgewise_compiler.kernels.gpu.matmul.matmul import matmul
from edgewise_compiler.kernels.gpu.matmul.matmul_int8 import matmul_int8, quantize
from edgewise_compiler.kernels.gpu.matmul.matvec import matvec
from edgewise_compiler.kernels.gpu.matmul.serial import matmul_serial
from edgewise_compiler.kernels.gpu.matmul.spec import PartSpec
from edgewise_compiler.kernels.gpu.matmul.tensor import fits, matmul_tensor
from edgewise_compiler.kernels.gpu.thread import Launch
from edgewise_compiler.kernels.norm import NormSpec
from edgewise_compiler.layouts.rows import Part
from edgewise_compiler.plan.calls import Argument, Call, Tensor
from edgewise_compiler.targets.gpu.variant import Variant
from edgewise_compiler.targets.lowering import (
    Lowering,
    Table,
    add,
    attention_cost,
    by_pairs,
    experts_bytes,
    lower_nodes,
    mul,
    param_bytes,
    read,
    to,
)
from edgewise_runtime.format.abi import GROUP, LOGIT_ROWS, ROWS
from edgewise_runtime.format.expr import Expr

MAX_BATCH_ROWS = 8  # rows one workgroup of a matvec handles at most


@dataclass(frozen=True)
class GpuLowering(Lowering):
    """A lowering that also knows its variant and how linears are split.

    Attributes:
        parts: the parts of each packed linear by its name.
        limits: the target's.
        few: whether rows are few: decode with one sequence, prefill of a short chunk.
        near: whether no sequence has more than `NEAR_SEGMENTS` segments of keys, in decode.
        short: whether all have few enough for their partial results to be kept together.
        aliases: values that live in another value's tensor (queries in the projection's output).
        joined: of attention that the linears which read it join, by its value.
    """

    variant: Variant
    parts: Mapping[str, tuple[Part, ...]]
    limits: Limits
    few: bool = False
    near: bool = False
    short: bool = False
    aliases: Mapping[str, Value] = field(default_factory=dict)
    joined: Mapping[str, Attention] = field(default_factory=dict)

    @property
    def kv_seen(self) -> str:
        """How kernels see what pages hold."""
        return self.variant.kv_seen

    def share(self, spec: AttentionSpec) -> list[Share]:
        """Whose partial results are in memory together, those of the first sequences first."""
        parts = self.limits.attention_parts
        return [all_together(spec, parts)] if self.short else in_turn(spec, parts)

    def value(self, value: Value) -> Tensor:
        """The tensor that holds a graph value."""
        value = self.aliases.get(value.id, value)
        if value.name is not None:
            return self.step_tensor(value.name)
        return Tensor(value.id, "scratch", "float32", (self.row_bound(value), value.width))


def _call(
    launch: Launch, arguments: tuple[Argument, ...], label: str, moved: Expr, flops: Expr
) -> Call:
    return Call(launch.function, arguments, label, moved, flops, launch.grid)


def _count(value: Value) -> int:
    """The field of ``step`` that counts the rows of a value."""
    return ROWS if value.rows == "n" else LOGIT_ROWS


def _embed(low: GpuLowering, node: Node[Embed]) -> Iterator[Call]:
    width = node.output.width
    scheme = low.schemes[node.params[0]].name
    for part in low.parts[node.params[0]]:
        launch = embed(scheme, low.bounds.rows, width, part.rows, part.first, node.op.factor)
        arguments = (
            *read(low.step_tensor("tokens"), *low.linear_params(part.name)),
            *to("write", low.value(node.output)),
            *read(low.step_tensor("step")),
        )
        yield _call(launch, arguments, part.name, mul("n", width * 8), 0)


def _rms_norm(low: GpuLowering, node: Node[RmsNorm]) -> Iterator[Call]:
    source, rows = node.inputs[0], node.output.rows
    gather = node.op.gather
    gathered = low.bounds.batch if gather else None
    spec = NormSpec(low.row_bound(source), source.width, node.op.eps, gathered, _count(source))
    launch = rms_norm(spec, subgroups=low.variant.subgroups)
    arguments = (
        *read(low.value(source), low.param(f"{node.params[0]}.weight")),
        *(read(low.step_tensor("logit_rows")) if gather else ()),
        *to("write", low.value(node.output)),
        *read(low.step_tensor("step")),
    )
    moved, flops = mul(rows, source.width * 8), mul(rows, source.width * 4)
    yield _call(launch, arguments, node.label, moved, flops)


def _norm_runs(low: GpuLowering, node: Node[NormRuns]) -> Iterator[Call]:
    source, op = node.inputs[0], node.op
    launch = norm_runs(
        low.row_bound(source), source.width, op.runs, op.eps, subgroups=low.variant.subgroups
    )
    arguments = (
        *read(low.value(source), *(low.param(f"{name}.weight") for name in node.params)),
        *to("write", low.value(node.output)),
        *read(low.step_tensor("step")),
    )
    moved, flops = mul(source.rows, source.width * 8), mul(source.rows, sum(op.runs) * 4)
    yield _call(launch, arguments, node.label, moved, flops)


def _linear(low: GpuLowering, node: Node[Linear], *, many_rows: bool) -> Iterator[Call]:
    source, out = node.inputs[0], node.output
    epilogue, norm = node.op.epilogue, node.op.norm
    inputs: tuple[Tensor, ...] = (low.value(source),)
    joined = None
    if (attention := low.joined.get(source.id)) is not None:
        joined = _joined(low, attention)
        inputs = (_part(low, source, attention), low.table(attention), *low.sinks(attention))
    if many_rows and low.variant.int8:
        inputs = _quantized(low, source)
        arguments = (
            *read(low.value(source)),
            *to("write", *inputs),
            *read(low.step_tensor("step")),
        )
        moved = mul("n", source.width * 5 + source.width // GROUP * 4)
        launch = quantize(low.bounds.rows, source.width)
        flops: Expr = mul("n", source.width * 3)
        yield _call(launch, arguments, f"{node.label}.quantize", moved, flops)
    # Where a linear of few rows is not serial, it is decode's: one row a sequence.
    live = low.row_bound(out) if many_rows or low.variant.serial else low.bounds.batch
    for part in low.parts[node.params[0]]:
        params = low.linear_params(part.name)
        bias = params[-1].name.endswith(".bias")
        weights = params[:-1] if bias else params
        spec = PartSpec(
            rows=low.row_bound(source),
            outputs=part.rows,
            inputs=source.width,
            scheme=low.schemes[node.params[0]].name,
            epilogue=epilogue,
            bias=bias,
            count=_count(out),
            live=live,
            width=out.width,
            first=part.first,
        )
        extra: tuple[Tensor, ...] = ()
        if many_rows and low.variant.int8:
            launch = matmul_int8(spec, few=low.few)
        elif low.variant.serial:
            launch = matmul_serial(spec, single=low.few and not many_rows)
        elif many_rows and low.variant.tensor and fits(spec):
            launch = matmul_tensor(spec, few=low.few)
        elif many_rows:
            launch = matmul(spec, few=low.few, half=low.variant.half)
        else:
            gather = node.op.gather
            launch = matvec(
                spec,
                batch=1 if low.few else min(low.bounds.batch, MAX_BATCH_ROWS),
                norm=norm,
                gather=gather,
                subgroups=low.variant.subgroups,
                joined=joined,
            )
            norms = (low.param(f"{node.params[1]}.weight"),) if norm is not None else ()
            extra = (*norms, *((low.step_tensor("logit_rows"),) if gather else ()))
        arguments = (
            *read(*inputs, *weights, *extra, *params[len(weights) :]),
            *to("readwrite" if epilogue == "add" else "write", low.value(out)),
            *read(low.step_tensor("step")),
        )
        row_bytes = 4 * (source.width + (part.rows // 2 if spec.gated else part.rows))
        moved = add(param_bytes(params), mul(out.rows, row_bytes))
        flops = mul(out.rows, 2 * part.rows * source.width)
        # A split linear keeps its own label on the part that completes it.
        last = part.first + part.rows == sum(p.rows for p in low.parts[node.params[0]])
        yield _call(launch, arguments, node.label if last else part.name, moved, flops)


def _quantized(low: GpuLowering, value: Value) -> tuple[Tensor, ...]:
    """The tensors of a value's int8 codes, four a word, and their scales."""
    rows, width = low.row_bound(value), value.width
    return (
        Tensor(f"{value.id}.q", "scratch", "uint32", (rows, width // 4)),
        Tensor(f"{value.id}.s", "scratch", "float32", (rows, width // GROUP)),
    )


def _ids(low: GpuLowering, routed: Value, op: Route | Experts) -> Tensor:
    """The expert of each pair."""
    ids, _ = low.route_tensors(routed, op)
    return replace(ids, shape=(low.row_bound(routed) * op.chosen,))


def _tiles(low: GpuLowering, routed: Value, op: Route | Experts) -> tuple[Tensor, Tensor]:
    """Pairs by their experts, and the tiles that they are cut into."""
    pairs = low.row_bound(routed) * op.chosen
    count = tile_bound(pairs, op.experts, tile_rows(serial=low.variant.serial))
    return (
        Tensor(f"{routed.id}.order", "scratch", "int32", (pairs,)),
        Tensor(f"{routed.id}.tiles", "scratch", "int32", (count, 4)),
    )


def _route(low: GpuLowering, node: Node[Route], *, many_rows: bool) -> Iterator[Call]:
    source, out, op = node.inputs[0], node.output, node.op
    spec, router = low.router(node)
    ids, (_, weights) = _ids(low, out, op), low.route_tensors(out, op)
    arguments = (
        *read(low.value(source), *router),
        *to("write", ids, weights),
        *read(low.step_tensor("step")),
    )
    moved = add(param_bytes(router), mul("n", source.width * 4 + spec.chosen * 8))
    flops = mul("n", 2 * spec.columns * source.width)
    yield _call(route(spec), arguments, node.label, moved, flops)
    if not many_rows:
        return
    rows = tile_rows(serial=low.variant.serial)
    launch = order(low.row_bound(out), op.chosen, op.experts, rows)
    made = to("write", *_tiles(low, out, op))
    arguments = (*read(ids), *made, *read(low.step_tensor("step")))
    yield _call(launch, arguments, f"{node.label}.order", mul("n", op.chosen * 8), 0)


def _experts(low: GpuLowering, node: Node[Experts], *, many_rows: bool) -> Iterator[Call]:
    (source, routed), out, op = node.inputs, node.output, node.op
    pairs, serial = low.row_bound(out) * op.chosen, low.variant.serial
    x = by_pairs(low.value(source), op.chosen if op.each else 1)
    outputs = low.parts[node.params[0]]
    height = sum(part.rows for part in outputs) // op.experts
    for part in outputs:
        params = low.linear_params(part.name)
        bias = params[-1].name.endswith(".bias")
        spec = ExpertsPart(
            rows=low.row_bound(out),
            outputs=height,
            inputs=int(x.shape[-1]),
            scheme=low.schemes[node.params[0]].name,
            epilogue=op.epilogue,
            bias=bias,
            experts=op.experts,
            chosen=op.chosen,
            each=op.each,
            first=part.first // height,
            held=part.rows // height,
        )
        written = to("write", replace(low.value(out), shape=(pairs, spec.width)))
        if many_rows:
            launch = experts_tiles(spec, serial=serial, half=low.variant.half)
            arguments = (*read(x, *params, *_tiles(low, routed, op)), *written)
        else:
            launch = experts_pairs(spec, serial=serial, subgroups=low.variant.subgroups)
            named = read(x, *params, _ids(low, routed, op))
            arguments = (*named, *written, *read(low.step_tensor("step")))
        # As if a step's rows went through no experts but those of this part.
        moved = add(
            experts_bytes(params, spec.held, op.chosen, "n"),
            mul("n", 4 * (source.width + out.width)),
        )
        flops = mul("n", 2 * op.chosen * height * spec.inputs)
        last = part.first + part.rows == height * op.experts
        yield _call(launch, arguments, node.label if last else part.name, moved, flops)


def _combine(low: GpuLowering, node: Node[Combine]) -> Iterator[Call]:
    (y, routed, *others), op, out = node.inputs, node.op, node.output
    added, count = op.epilogue == "add", op.chosen + op.shared
    launch = combine(low.row_bound(out), out.width, op.chosen, shared=op.shared, added=added)
    _, weights = low.route_tensors(routed, op)
    arguments = (
        *read(low.value(y), *((low.value(others[0]),) if op.shared else ()), weights),
        *to("readwrite" if added else "write", low.value(out)),
        *read(low.step_tensor("step")),
    )
    moved = mul("n", out.width * 4 * (count + 1 + added))
    yield _call(launch, arguments, node.label, moved, mul("n", out.width * 2 * count))


def _rope_append(low: GpuLowering, node: Node[RopeAppend]) -> Iterator[Call]:
    op, qkv = node.op, low.value(node.output)
    launch = rope_append(low.rope_spec(op), subgroups=low.variant.subgroups)
    names = ("row_seq",) if low.kv_dtype == "int8" else ("positions", "row_seq")
    steps = (*(low.step_tensor(name) for name in names), low.table(op))
    arguments = (
        *to("readwrite", qkv),
        *read(*low.rotation(op), *steps, *_head_norms(low, node)),
        # Written only, but for the launches of other rows it is state.
        *to("readwrite", *low.kv_buffers(op)),
        *read(low.step_tensor("step")),
    )
    width = node.inputs[0].width
    yield _call(launch, arguments, node.label, mul("n", width * 8), mul("n", width * 6))


def _head_norms(low: GpuLowering, node: Node[RopeAppend] | Node[Attention]) -> tuple[Tensor, ...]:
    """The weights of the norms of heads, if there are any, which the layout has in one tensor."""
    names = (name for name in node.params if name.endswith("q_norm"))
    return tuple(low.param(f"{name.removesuffix('q_norm')}qk_norm.weight") for name in names)


def _attention(low: GpuLowering, node: Node[Attention], *, many_rows: bool) -> Iterator[Call]:
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
        yield _call(launch, arguments, node.label, moved, flops)
        return
    if many_rows:
        by_matrices = variant.tensor and attention_fits(spec)
        launch = attention_tensor(spec) if by_matrices else attention_prefill(spec, low.limits)
        arguments = (*read(qkv, *kv, table, *sinks), *to("write", out), *read(step))
        yield _call(launch, arguments, node.label, moved, flops)
        return
    rope = None if op.rope is None else low.rope_spec(op.rope)
    pages = read(*kv)
    if op.rope is not None:
        pages = (*read(*low.rotation(op.rope), *_head_norms(low, node)), *to("readwrite", *kv))
    taken = (*read(qkv), *pages, *read(table))
    if low.near:
        launch = attention_near(spec, low.limits, rope)
        arguments = (*taken, *read(*sinks), *to("write", out), *read(step))
        yield _call(launch, arguments, node.label, moved, flops)
        return
    part = _part(low, node.output, op)
    for share in low.share(spec)[: 1 if low.few else None]:
        costs = attention_cost(op.heads, low.kv_dtype, decode=True, sequences=share.live)
        launch = attention_decode(spec, low.limits, share, rope)
        arguments = (*taken, *to("write", part), *read(step))
        if node.output.id in low.joined:
            yield _call(launch, arguments, node.label, *costs)
            return
        yield _call(launch, arguments, f"{node.label}.parts", *costs)
        launch = attention_merge(spec, share)
        arguments = (*read(part, table, *sinks), *to("write", out), *read(step))
        moved = mul(share.live, op.heads.query * op.heads.width * 8)
        yield _call(launch, arguments, node.label, moved, 0)


def _part(low: GpuLowering, value: Value, op: Attention) -> Tensor:
    """The partial results of attention that is or becomes a value."""
    spec = low.attention_spec(op)
    return Tensor(
        f"{value.id}.part", "scratch", "float32", (part_elements(spec, low.share(spec)[0]),)
    )


def _joined(low: GpuLowering, op: Attention) -> Joined:
    """Attention that a linear joins: kernels of layers that differ in their scores are the same."""
    spec = low.attention_spec(op)
    return Joined(replace(spec, scale=1.0, softcap=None), low.share(spec)[0])


def _joins(low: GpuLowering, graph: Graph) -> Mapping[str, Attention]:
    """The attention that linears join: of one long sequence, where the target wants it and the
    linears that read it have buffers left."""
    if not (low.few and low.limits.joining) or low.near or low.variant.serial:
        return {}
    joined = {node.output.id: node.op for node in graph.nodes if isinstance(node.op, Attention)}
    for node in graph.nodes:
        for source in node.inputs:
            if source.id in joined and not _may_join(low, node, joined[source.id]):
                del joined[source.id]
    return joined


def _may_join(low: GpuLowering, node: Node[Any], op: Attention) -> bool:
    if not isinstance(node.op, Linear) or node.op.norm is not None or node.op.gather:
        return False
    names = (part.name for part in low.parts[node.params[0]])
    weights = max(len(low.linear_params(name)) for name in names)
    # Beside them parts and the table, then out and the step.
    return 2 + len(low.sinks(op)) + weights + 2 <= low.limits.buffers


def _add(low: GpuLowering, node: Node[Add]) -> Iterator[Call]:
    (x, y), out = node.inputs, node.output
    in_place = low.value(x) == low.value(out)
    launch = add_rows(low.row_bound(out), x.width, y.width, in_place=in_place, count=_count(out))
    arguments = (
        *(() if in_place else read(low.value(x))),
        *read(low.value(y)),
        *to("readwrite" if in_place else "write", low.value(out)),
        *read(low.step_tensor("step")),
    )
    moved, flops = mul(out.rows, x.width * 12), mul(out.rows, x.width)
    yield _call(launch, arguments, node.label, moved, flops)


def _swiglu(low: GpuLowering, node: Node[Swiglu]) -> Iterator[Call]:
    source, out = node.inputs[0], node.output
    activation = node.op.activation
    launch = swiglu(low.row_bound(out), out.width, count=_count(out), activation=activation)
    arguments = (
        *read(low.value(source)),
        *to("write", low.value(out)),
        *read(low.step_tensor("step")),
    )
    moved, flops = mul(out.rows, out.width * 12), mul(out.rows, out.width * 16)
    yield _call(launch, arguments, node.label, moved, flops)


def _softcap(low: GpuLowering, node: Node[Softcap]) -> Iterator[Call]:
    out = node.output
    launch = softcap(low.row_bound(out), out.width, node.op.cap, count=_count(out))
    arguments = (*to("readwrite", low.value(out)), *read(low.step_tensor("step")))
    moved, flops = mul(out.rows, out.width * 8), mul(out.rows, out.width * 16)
    yield _call(launch, arguments, node.label, moved, flops)


def _gather(low: GpuLowering, node: Node[Gather]) -> Iterator[Call]:
    source, out = node.inputs[0], node.output
    launch = gather(low.row_bound(source), low.row_bound(out), out.width)
    arguments = (
        *read(low.value(source), low.step_tensor("logit_rows")),
        *to("write", low.value(out)),
        *read(low.step_tensor("step")),
    )
    yield _call(launch, arguments, node.label, mul(out.rows, out.width * 8), 0)


_OPERATIONS: Table[GpuLowering] = {
    Embed: _embed,
    RmsNorm: _rms_norm,
    NormRuns: _norm_runs,
    Combine: _combine,
    Add: _add,
    Swiglu: _swiglu,
    Softcap: _softcap,
    Gather: _gather,
    RopeAppend: _rope_append,
}
_FEW_ROWS: Table[GpuLowering] = {
    **_OPERATIONS,
    Linear: partial(_linear, many_rows=False),
    Route: partial(_route, many_rows=False),
    Experts: partial(_experts, many_rows=False),
    Attention: partial(_attention, many_rows=False),
}
_MANY_ROWS: Table[GpuLowering] = {
    **_OPERATIONS,
    Linear: partial(_linear, many_rows=True),
    Route: partial(_route, many_rows=True),
    Experts: partial(_experts, many_rows=True),
    Attention: partial(_attention, many_rows=True),
}


def together_reach(low: GpuLowering, graph: Graph) -> int:
    """The most tokens of a sequence up to which a graph's attention keeps the partial results of
    all sequences together."""
    specs = (low.attention_spec(n.op) for n in graph.nodes if isinstance(n.op, Attention))
    parts = low.limits.attention_parts
    return min((all_together(spec, parts).reach for spec in specs), default=low.bounds.context)


def lower_graph(low: GpuLowering, graph: Graph, *, many_rows: bool) -> tuple[Call, ...]:
    """The launches of a graph, with kernels for a prefill's many rows or for one a sequence.

    Raises:
        CompileError: an operation has no kernel.
        UnsupportedError: attention with a trait that its kernels do not have.
    """
    aliases = {n.output.id: n.inputs[0] for n in graph.nodes if isinstance(n.op, RopeAppend)}
    low = replace(low, aliases=aliases)
    if not many_rows:
        low = replace(low, joined=_joins(low, graph))
    return lower_nodes("GPU", _MANY_ROWS if many_rows else _FEW_ROWS, low, graph.nodes)
