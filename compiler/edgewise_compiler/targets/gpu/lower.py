"""Lowering for GPUs: which kernel implements each operation, with which tensors and grid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

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
from edgewise_compiler.kernels.gpu.elementwise.embed import TablePart, embed
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
from edgewise_compiler.kernels.gpu.matmul.matmul import matmul
from edgewise_compiler.kernels.gpu.matmul.matmul_int8 import matmul_int8, quantize
from edgewise_compiler.kernels.gpu.matmul.matvec import matvec
from edgewise_compiler.kernels.gpu.matmul.serial import matmul_serial
from edgewise_compiler.kernels.gpu.matmul.spec import PartSpec
from edgewise_compiler.kernels.gpu.matmul.tensor import fits, matmul_tensor
from edgewise_compiler.kernels.norm import NormSpec
from edgewise_compiler.layouts.base import Part
from edgewise_compiler.plan.calls import Call, Tensor
from edgewise_compiler.targets.gpu.attention import (
    joined_by_linears,
    joined_of,
    lower_attention,
    part_of,
)
from edgewise_compiler.targets.gpu.lowering import GpuLowering, call_of
from edgewise_compiler.targets.lowering import (
    Table,
    add,
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

MAX_BATCH_ROWS = 4
"""Rows that one workgroup of a matvec handles at most. Twice as many would read a matrix half as
often, and x, which keeps them waiting, more often for each sum (docs/decisions/0102-*)."""


def _count(value: Value) -> int:
    """The field of ``step`` that counts the rows of a value."""
    return ROWS if value.rows == "n" else LOGIT_ROWS


def _embed(low: GpuLowering, node: Node[Embed]) -> Iterator[Call]:
    width, parts = node.output.width, low.parts[node.params[0]]
    launches = [*_bound_together(low, parts)]
    for several in launches:
        tables = tuple(TablePart(part.scheme.name, part.rows, part.first) for part in several)
        launch = embed(tables, low.bounds.rows, width, node.op.factor)
        params = (param for part in several for param in low.linear_params(part.name))
        arguments = (
            *read(low.step_tensor("tokens"), *params),
            *to("write", low.value(node.output)),
            *read(low.step_tensor("step")),
        )
        label = node.label if len(launches) == 1 else several[0].name
        yield call_of(launch, arguments, label, mul("n", width * 8), 0)


def _bound_together(low: GpuLowering, parts: Sequence[Part]) -> Iterator[tuple[Part, ...]]:
    """The parts of a table, as many at a time as a kernel has buffers for."""
    room = low.limits.buffers - 3  # tokens, x and step
    several: list[Part] = []
    for part in parts:
        if sum(len(low.linear_params(p.name)) for p in (*several, part)) > room:
            yield tuple(several)
            several = []
        several.append(part)
    yield tuple(several)


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
    yield call_of(launch, arguments, node.label, moved, flops)


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
    yield call_of(launch, arguments, node.label, moved, flops)


def _linear(low: GpuLowering, node: Node[Linear], *, many_rows: bool) -> Iterator[Call]:
    source, out = node.inputs[0], node.output
    epilogue, norm = node.op.epilogue, node.op.norm
    inputs: tuple[Tensor, ...] = (low.value(source),)
    joined = None
    if (attention := low.joined.get(source.id)) is not None:
        joined = joined_of(low, attention, node)
        inputs = (part_of(low, source, attention), low.table(attention), *low.sinks(attention))
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
        yield call_of(launch, arguments, f"{node.label}.quantize", moved, flops)
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
            scheme=part.scheme.name,
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
                batch=1 if low.few or joined else min(low.bounds.batch, MAX_BATCH_ROWS),
                norm=norm,
                gather=gather,
                subgroups=low.variant.subgroups,
                source=joined,
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
        yield call_of(launch, arguments, node.label if last else part.name, moved, flops)


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
    yield call_of(route(spec), arguments, node.label, moved, flops)
    if not many_rows:
        return
    rows = tile_rows(serial=low.variant.serial)
    launch = order(low.row_bound(out), op.chosen, op.experts, rows)
    made = to("write", *_tiles(low, out, op))
    arguments = (*read(ids), *made, *read(low.step_tensor("step")))
    yield call_of(launch, arguments, f"{node.label}.order", mul("n", op.chosen * 8), 0)


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
            scheme=part.scheme.name,
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
        yield call_of(launch, arguments, node.label if last else part.name, moved, flops)


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
    yield call_of(launch, arguments, node.label, moved, mul("n", out.width * 2 * count))


def _rope_append(low: GpuLowering, node: Node[RopeAppend]) -> Iterator[Call]:
    op, qkv = node.op, low.value(node.output)
    launch = rope_append(low.rope_spec(op), subgroups=low.variant.subgroups)
    names = ("row_seq",) if low.kv_dtype == "int8" else ("positions", "row_seq")
    steps = (*(low.step_tensor(name) for name in names), low.table(op))
    arguments = (
        *to("readwrite", qkv),
        *read(*low.rotation(op), *steps, *low.head_norms(node)),
        # Written only, but for the launches of other rows it is state.
        *to("readwrite", *low.kv_buffers(op)),
        *read(low.step_tensor("step")),
    )
    width = node.inputs[0].width
    yield call_of(launch, arguments, node.label, mul("n", width * 8), mul("n", width * 6))


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
    yield call_of(launch, arguments, node.label, moved, flops)


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
    yield call_of(launch, arguments, node.label, moved, flops)


def _softcap(low: GpuLowering, node: Node[Softcap]) -> Iterator[Call]:
    out = node.output
    launch = softcap(low.row_bound(out), out.width, node.op.cap, count=_count(out))
    arguments = (*to("readwrite", low.value(out)), *read(low.step_tensor("step")))
    moved, flops = mul(out.rows, out.width * 8), mul(out.rows, out.width * 16)
    yield call_of(launch, arguments, node.label, moved, flops)


def _gather(low: GpuLowering, node: Node[Gather]) -> Iterator[Call]:
    source, out = node.inputs[0], node.output
    launch = gather(low.row_bound(source), low.row_bound(out), out.width)
    arguments = (
        *read(low.value(source), low.step_tensor("logit_rows")),
        *to("write", low.value(out)),
        *read(low.step_tensor("step")),
    )
    yield call_of(launch, arguments, node.label, mul(out.rows, out.width * 8), 0)


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
    Attention: partial(lower_attention, many_rows=False),
}
_MANY_ROWS: Table[GpuLowering] = {
    **_OPERATIONS,
    Linear: partial(_linear, many_rows=True),
    Route: partial(_route, many_rows=True),
    Experts: partial(_experts, many_rows=True),
    Attention: partial(lower_attention, many_rows=True),
}


def lower_graph(low: GpuLowering, graph: Graph, *, many_rows: bool) -> tuple[Call, ...]:
    """The launches of a graph, with kernels for a prefill's many rows or for one a sequence.

    Raises:
        CompileError: an operation has no kernel.
        UnsupportedError: attention with a trait that its kernels do not have.
    """
    aliases = {n.output.id: n.inputs[0] for n in graph.nodes if isinstance(n.op, RopeAppend)}
    joining = low.joining and not (many_rows or low.near or low.variant.serial)
    joined = joined_by_linears(low, graph) if joining else {}
    low = replace(low, aliases=aliases, joined=joined)
    return lower_nodes("GPU", _MANY_ROWS if many_rows else _FEW_ROWS, low, graph.nodes)
