"""Lowering for GPUs: which kernel implements each operation, with which tensors and grid."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from edgewise_compiler.graph.nodes import Graph, Node, Value
from edgewise_compiler.graph.operations import (
    Add,
    Attention,
    Embed,
    Gather,
    Heads,
    Linear,
    RmsNorm,
    RopeAppend,
    Swiglu,
)
from edgewise_compiler.kernels.attention import check_attention
from edgewise_compiler.kernels.gpu.attention.decode import (
    attention_decode,
    attention_merge,
    part_elements,
)
from edgewise_compiler.kernels.gpu.attention.prefill import attention_prefill
from edgewise_compiler.kernels.gpu.attention.serial import attention_serial
from edgewise_compiler.kernels.gpu.elementwise.embed import embed
from edgewise_compiler.kernels.gpu.elementwise.norm import rms_norm
from edgewise_compiler.kernels.gpu.elementwise.rope import rope_append
from edgewise_compiler.kernels.gpu.elementwise.unfused import add as add_rows
from edgewise_compiler.kernels.gpu.elementwise.unfused import gather, swiglu
from edgewise_compiler.kernels.gpu.limits import Limits
from edgewise_compiler.kernels.gpu.matmul.matmul import matmul
from edgewise_compiler.kernels.gpu.matmul.matmul_int8 import matmul_int8, quantize
from edgewise_compiler.kernels.gpu.matmul.matvec import matvec
from edgewise_compiler.kernels.gpu.matmul.serial import matmul_serial
from edgewise_compiler.kernels.gpu.thread import Launch
from edgewise_compiler.layouts.rows import Part
from edgewise_compiler.plan.calls import Argument, Call, PlanCalls, Tensor
from edgewise_compiler.targets.gpu.sampling import logprobs_calls, sampling_calls
from edgewise_compiler.targets.lowering import (
    Lowering,
    Table,
    add,
    attention_cost,
    lower_nodes,
    mul,
    param_bytes,
    read,
    to,
)
from edgewise_runtime.format.abi import GROUP, LOGIT_ROWS, ROWS
from edgewise_runtime.format.expr import Expr

FEW_ROWS = 16  # a prefill of so few rows has tiles of its own
MAX_BATCH_ROWS = 8  # rows one workgroup of a matvec handles at most
SHORT_TILE = "_few"


@dataclass(frozen=True)
class Variant:
    """One program of a GPU target: what it computes in.

    ``half`` means pages and the tiles of prefill in float16; ``subgroups`` that kernels may use
    them; ``int8`` that prefill multiplies integers instead, for integer weights; ``serial`` that no
    thread of a linear or of attention waits for another, for adapters to which barriers are dear;
    ``codes`` that pages hold int8 codes instead.
    """

    name: str
    half: bool
    subgroups: bool
    int8: bool = False
    serial: bool = False
    codes: bool = False

    def arithmetic(self, scheme: str) -> str:
        """As the bundle names it."""
        if self.int8:
            return {"q4": "w4a8", "q8": "w8a8"}[scheme]
        return "f16" if self.half else "f32"

    @property
    def kv_dtype(self) -> str:
        """What pages hold."""
        if self.codes:
            return "int8"
        return "float16" if self.half else "float32"


@dataclass(frozen=True)
class GpuLowering(Lowering):
    """A lowering that also knows its variant, the weight scheme and how linears are split.

    Attributes:
        parts: the parts of each packed linear by its name.
        limits: the target's.
        few: whether rows are few: decode with one sequence, prefill of a short chunk.
        aliases: values that live in another value's tensor (queries in the projection's output).
    """

    variant: Variant
    scheme: str
    parts: Mapping[str, tuple[Part, ...]]
    limits: Limits
    few: bool = False
    aliases: Mapping[str, Value] = field(default_factory=dict)

    def value(self, value: Value) -> Tensor:
        """The tensor that holds a graph value."""
        value = self.aliases.get(value.id, value)
        if value.name is not None:
            return self.step_tensor(value.name)
        return Tensor(value.id, "scratch", "float32", (self.row_bound(value), value.width))

    def heads_shape(self, heads: Heads) -> tuple[int, int, int, int, int, int, int, str]:
        """Rows, sequences, pages, heads, KV heads, head width, context and dtype of the pages."""
        bounds = self.bounds
        steps = bounds.rows, bounds.batch, bounds.pages
        return (*steps, heads.query, heads.kv, heads.width, bounds.context, self.kv_dtype)


def _call(
    launch: Launch, arguments: tuple[Argument, ...], label: str, moved: Expr, flops: Expr
) -> Call:
    return Call(launch.function, arguments, label, moved, flops, launch.grid)


def _count(value: Value) -> int:
    """The field of ``step`` that counts the rows of a value."""
    return ROWS if value.rows == "n" else LOGIT_ROWS


def _embed(low: GpuLowering, node: Node[Embed]) -> Iterator[Call]:
    width = node.output.width
    for part in low.parts[node.params[0]]:
        launch = embed(low.scheme, low.bounds.rows, width, part.rows, part.first)
        arguments = (
            *read(low.step_tensor("tokens"), *low.linear_params(part.name)),
            *to("write", low.value(node.output)),
            *read(low.step_tensor("step")),
        )
        yield _call(launch, arguments, part.name, mul("n", width * 8), 0)


def _rms_norm(low: GpuLowering, node: Node[RmsNorm]) -> Iterator[Call]:
    source, rows = node.inputs[0], node.output.rows
    gather = node.op.gather
    launch = rms_norm(
        low.row_bound(source),
        source.width,
        node.op.eps,
        subgroups=low.variant.subgroups,
        gather=low.bounds.batch if gather else 0,
        count=_count(source),
    )
    arguments = (
        *read(low.value(source), low.params[f"{node.params[0]}.weight"]),
        *(read(low.step_tensor("logit_rows")) if gather else ()),
        *to("write", low.value(node.output)),
        *read(low.step_tensor("step")),
    )
    moved, flops = mul(rows, source.width * 8), mul(rows, source.width * 4)
    yield _call(launch, arguments, node.label, moved, flops)


def _linear(low: GpuLowering, node: Node[Linear], *, many_rows: bool) -> Iterator[Call]:
    source, out = node.inputs[0], node.output
    epilogue, norm = node.op.epilogue, node.op.norm
    inputs: tuple[Tensor, ...] = (low.value(source),)
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
    for part in low.parts[node.params[0]]:
        params = low.linear_params(part.name)
        bias = params[-1].name.endswith(".bias")
        weights = params[:-1] if bias else params
        if many_rows and low.variant.int8:
            launch = matmul_int8(
                low.bounds.rows,
                part.rows,
                source.width,
                low.scheme,
                few=low.few,
                epilogue=epilogue,
                bias=bias,
                out_width=out.width,
                first=part.first,
            )
            extra: tuple[Tensor, ...] = ()
        elif low.variant.serial:
            launch = matmul_serial(
                low.row_bound(source),
                part.rows,
                source.width,
                low.scheme,
                single=low.few and not many_rows,
                bound=low.bounds.rows if out.rows == "n" else low.bounds.batch,
                epilogue=epilogue,
                bias=bias,
                rows=0 if out.rows == "n" else 2,
                out_width=out.width,
                first=part.first,
            )
            extra = ()
        elif many_rows:
            launch = matmul(
                low.bounds.rows,
                part.rows,
                source.width,
                low.scheme,
                few=low.few,
                half=low.variant.half,
                epilogue=epilogue,
                bias=bias,
                out_width=out.width,
                first=part.first,
            )
            extra = ()
        else:
            gather = node.op.gather
            launch = matvec(
                low.row_bound(source),
                part.rows,
                source.width,
                low.scheme,
                batch=1 if low.few else min(low.bounds.batch, MAX_BATCH_ROWS),
                rows=0 if out.rows == "n" else 2,
                bound=low.bounds.batch,
                epilogue=epilogue,
                bias=bias,
                norm=norm,
                gather=gather,
                out_width=out.width,
                first=part.first,
                subgroups=low.variant.subgroups,
            )
            norms = (low.params[f"{node.params[1]}.weight"],) if norm is not None else ()
            extra = (*norms, *((low.step_tensor("logit_rows"),) if gather else ()))
        arguments = (
            *read(*inputs, *weights, *extra, *params[len(weights) :]),
            *to("readwrite" if epilogue == "add" else "write", low.value(out)),
            *read(low.step_tensor("step")),
        )
        row_bytes = 4 * (source.width + (part.rows // 2 if epilogue == "swiglu" else part.rows))
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


def _rope_append(low: GpuLowering, node: Node[RopeAppend]) -> Iterator[Call]:
    op, qkv = node.op, low.value(node.output)
    launch = rope_append(
        *low.heads_shape(op.heads),
        0.0 if op.norm_eps is None else op.norm_eps,
        qk_norm=op.norm_eps is not None,
        subgroups=low.variant.subgroups,
    )
    names = ("row_seq", "table") if low.kv_dtype == "int8" else ("positions", "row_seq", "table")
    # The layout keeps both norms in one tensor.
    both = (f"{name.removesuffix('q_norm')}qk_norm.weight" for name in node.params[:1])
    norms = tuple(low.params[name] for name in both)
    arguments = (
        *to("readwrite", qkv),
        *read(low.params[op.rotation], *(low.step_tensor(name) for name in names), *norms),
        # Written only, but for the launches of other rows it is state.
        *to("readwrite", *low.kv_buffers(op)),
        *read(low.step_tensor("step")),
    )
    width = node.inputs[0].width
    yield _call(launch, arguments, node.label, mul("n", width * 8), mul("n", width * 6))


def _attention(low: GpuLowering, node: Node[Attention], *, many_rows: bool) -> Iterator[Call]:
    op, bounds, variant = node.op, low.bounds, low.variant
    check_attention(low.attention_spec(op))
    shape = (*low.heads_shape(op.heads), op.scale)
    qkv, out = low.value(node.inputs[0]), low.value(node.output)
    table, step = low.step_tensor("table"), low.step_tensor("step")
    kv = low.kv_buffers(op)
    moved, flops = attention_cost(op.heads, low.kv_dtype, decode=not many_rows)
    if variant.serial:
        launch = attention_serial(*shape)
        arguments = (
            *read(qkv, *kv, table, low.step_tensor("row_seq")),
            *to("write", out),
            *read(step),
        )
        yield _call(launch, arguments, node.label, moved, flops)
        return
    if many_rows:
        launch = attention_prefill(*shape, limits=low.limits, subgroups=variant.subgroups)
        arguments = (*read(qkv, *kv, table), *to("write", out), *read(step))
        yield _call(launch, arguments, node.label, moved, flops)
        return
    elements = part_elements(bounds.batch, op.heads.query, bounds.context, op.heads.width)
    part = Tensor(f"{node.output.id}.part", "scratch", "float32", (elements,))
    launch = attention_decode(*shape, limits=low.limits, subgroups=variant.subgroups)
    arguments = (*read(qkv, *kv, table), *to("write", part), *read(step))
    yield _call(launch, arguments, f"{node.label}.segments", moved, flops)
    launch = attention_merge(*shape, subgroups=variant.subgroups)
    arguments = (*read(part, table), *to("write", out), *read(step))
    yield _call(launch, arguments, node.label, mul("b", op.heads.query * op.heads.width * 8), 0)


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
    launch = swiglu(low.row_bound(out), out.width, count=_count(out))
    arguments = (
        *read(low.value(source)),
        *to("write", low.value(out)),
        *read(low.step_tensor("step")),
    )
    moved, flops = mul(out.rows, out.width * 12), mul(out.rows, out.width * 16)
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


Make = Callable[[str, GpuLowering], PlanCalls]

_OPERATIONS: Table[GpuLowering] = {
    Embed: _embed,
    RmsNorm: _rms_norm,
    Add: _add,
    Swiglu: _swiglu,
    Gather: _gather,
    RopeAppend: _rope_append,
}
_FEW_ROWS: Table[GpuLowering] = {
    **_OPERATIONS,
    Linear: partial(_linear, many_rows=False),
    Attention: partial(_attention, many_rows=False),
}
_MANY_ROWS: Table[GpuLowering] = {
    **_OPERATIONS,
    Linear: partial(_linear, many_rows=True),
    Attention: partial(_attention, many_rows=True),
}


def lower_graph(low: GpuLowering, graph: Graph, *, many_rows: bool) -> tuple[Call, ...]:
    """The launches of a graph, with kernels for a prefill's many rows or for one a sequence.

    Raises:
        CompileError: an operation has no kernel.
        UnsupportedError: attention with a trait that its kernels do not have.
    """
    aliases = {n.output.id: n.inputs[0] for n in graph.nodes if isinstance(n.op, RopeAppend)}
    low = replace(low, aliases=aliases)
    return lower_nodes("GPU", _MANY_ROWS if many_rows else _FEW_ROWS, low, graph.nodes)


@dataclass(frozen=True)
class PlanSet:
    """The plans of a program, and which serves which range of which symbol for each operation."""

    plans: tuple[PlanCalls, ...]
    entries: Mapping[str, tuple[tuple[str, tuple[int, int], str], ...]]


def plans(low: GpuLowering, many: Mapping[str, Graph], few: Mapping[str, Graph]) -> PlanSet:
    """The plans of a program.

    Args:
        many: the graphs ``embed`` and ``layers`` for a prefill's rows.
        few: all graphs for decoding, norms folded into linears.
    """
    rows, batch = low.bounds.rows, low.bounds.batch
    short, subgroups = replace(low, few=True), low.variant.subgroups
    embedding = lower_graph(low, many["embed"], many_rows=True)
    made = [PlanCalls("embed", embedding)]
    entries: dict[str, tuple[tuple[str, tuple[int, int], str], ...]] = {
        "embed": (("n", (1, rows), "embed"),),
        "sample": (("b", (1, batch), "sample"),),
        "logprobs": (("b", (1, batch), "logprobs"),),
    }

    def versions(operation: str, symbol: str, few_most: int, most: int, make: Make) -> None:
        """Two plans of one operation: for few rows, and where there can be more of them."""
        chosen = [(symbol, (1, min(few_most, most)), operation + SHORT_TILE)]
        made.append(make(operation + SHORT_TILE, short))
        if most > few_most:
            chosen.append((symbol, (1, most), operation))
            made.append(make(operation, low))
        entries[operation] = tuple(chosen)

    if low.variant.serial:
        # Its norms are launches of their own: every thread of a linear would repeat them.
        few = many

    def prefill(name: str, low: GpuLowering) -> PlanCalls:
        return PlanCalls(name, lower_graph(low, many["layers"], many_rows=True))

    def logits(name: str, low: GpuLowering) -> PlanCalls:
        return PlanCalls(name, lower_graph(low, few["head"], many_rows=False))

    def decode(name: str, low: GpuLowering) -> PlanCalls:
        layers = lower_graph(low, few["layers"], many_rows=False)
        head = lower_graph(low, few["head"], many_rows=False)
        calls = (*embedding, *layers, *head, *sampling_calls(low, subgroups, advance=True))
        return PlanCalls(name, calls, repeats=True)

    if low.variant.serial:
        made.append(prefill("prefill", low))
        entries["prefill"] = (("n", (1, rows), "prefill"),)
    else:
        versions("prefill", "n", FEW_ROWS, rows, prefill)
    versions("logits", "r", 1, batch, logits)
    versions("decode", "b", 1, batch, decode)
    made.append(PlanCalls("sample", sampling_calls(low, subgroups, advance=False)))
    made.append(PlanCalls("logprobs", logprobs_calls(low)))
    return PlanSet(tuple(made), entries)
