"""Lowering for the CPU: which kernel implements each operation, with which tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tvm.tirx import PrimFunc

from edgewise_compiler.graph.hidden import HIDDEN, hidden_graph
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
    Quantize,
    RmsNorm,
    RopeAppend,
    Route,
    Softcap,
    Swiglu,
)
from edgewise_compiler.kernels.cpu.attention.decode import attention_decode, part_elements
from edgewise_compiler.kernels.cpu.attention.prefill import attention_prefill
from edgewise_compiler.kernels.cpu.elementwise.embed import embed
from edgewise_compiler.kernels.cpu.elementwise.norm import norm_runs, rms_norm
from edgewise_compiler.kernels.cpu.elementwise.quantize import quantize
from edgewise_compiler.kernels.cpu.elementwise.rope import rope_append
from edgewise_compiler.kernels.cpu.elementwise.unfused import add as add_rows
from edgewise_compiler.kernels.cpu.elementwise.unfused import gather, softcap, swiglu
from edgewise_compiler.kernels.cpu.experts.combine import combine
from edgewise_compiler.kernels.cpu.experts.matmul import experts
from edgewise_compiler.kernels.cpu.experts.route import route
from edgewise_compiler.kernels.cpu.matmul.floats import matmul_float
from edgewise_compiler.kernels.cpu.matmul.ints import matmul_int
from edgewise_compiler.kernels.experts import ExpertsSpec
from edgewise_compiler.kernels.matmul import MatmulSpec
from edgewise_compiler.kernels.norm import NormSpec
from edgewise_compiler.plan.calls import Call, PlanCalls, Tensor
from edgewise_compiler.targets.cpu.sampling import header_calls, logprobs_calls, sampling_calls
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
from edgewise_runtime.format.abi import GROUP, LOGIT_ROWS, PANEL, ROWS


@dataclass(frozen=True)
class Arithmetic:
    """How a program computes.

    Attributes:
        name: as it appears in the program's id.
        kv_dtype: of the pages, unless they are asked for in int8.
        exact: integer weights meet int8 activations: dot products are sums of integers, so that
            decode gives the bits of prefill.
    """

    name: str
    kv_dtype: str
    exact: bool = False


ARITHMETICS: Mapping[str, Arithmetic] = {
    "f32": Arithmetic("f32", "float32"),
    "w8a8": Arithmetic("w8a8", "float16", exact=True),
    "w6a8": Arithmetic("w6a8", "float16", exact=True),
    "w5a8": Arithmetic("w5a8", "float16", exact=True),
    "w4a8": Arithmetic("w4a8", "float16", exact=True),
}


@dataclass(frozen=True)
class CpuLowering(Lowering):
    """A lowering that also knows the numbers and the ISA path of its program."""

    arithmetic: Arithmetic
    isa: str

    def value(self, value: Value) -> tuple[Tensor, ...]:
        """The tensors that hold a graph value: one, or three (codes, scales, sums) for a8."""
        rows = self.row_bound(value)
        if value.name is not None:
            return (self.step_tensor(value.name),)
        if value.kind == "f32":
            return (Tensor(value.id, "scratch", "float32", (rows, value.width)),)
        groups = value.width // GROUP
        return (
            Tensor(f"{value.id}.q", "scratch", "int8", (rows, value.width)),
            Tensor(f"{value.id}.s", "scratch", "float32", (rows, groups)),
            Tensor(f"{value.id}.c", "scratch", "int32", (rows, groups)),
        )


def _row_bytes(value: Value) -> int:
    return value.width * 4 if value.kind == "f32" else value.width + value.width // GROUP * 8


def _count(value: Value) -> int:
    """The field of ``step`` that counts the rows of a value."""
    return ROWS if value.rows == "n" else LOGIT_ROWS


def _embed(low: CpuLowering, node: Node[Embed]) -> Iterator[Call]:
    width, vocab = node.output.width, node.op.vocab
    parts = low.parts[node.params[0]]
    for part in parts:
        kernel = embed(
            part.scheme.name,
            low.bounds.rows,
            width,
            vocab,
            low.isa,
            node.op.factor,
            (part.first, part.rows) if len(parts) > 1 else None,
        )
        arguments = (
            *read(low.step_tensor("tokens"), *low.linear_params(part.name)),
            *to("write", *low.value(node.output)),
            *read(low.step_tensor("step")),
        )
        # Of several all read a step's ids, but one reads the row of each.
        moved = mul("n", 4 if part.first else width * 8)
        yield Call(kernel, arguments, part.name, moved, 0)


def _rms_norm(low: CpuLowering, node: Node[RmsNorm]) -> Iterator[Call]:
    source, out, gathers = node.inputs[0], node.output, node.op.gather
    spec = NormSpec(
        low.row_bound(source),
        source.width,
        node.op.eps,
        gathered=low.row_bound(out) if gathers else None,
        count=_count(source),
    )
    kernel = rms_norm(spec, low.isa, quantized=out.kind == "a8")
    rows = (low.step_tensor("logit_rows"),) if gathers else ()
    arguments = (
        *read(*low.value(source), low.param(f"{node.params[0]}.weight"), *rows),
        *to("write", *low.value(out)),
        *read(low.step_tensor("step")),
    )
    moved = mul(out.rows, source.width * 4 + _row_bytes(out))
    yield Call(kernel, arguments, node.label, moved, mul(out.rows, source.width * 4))


def _norm_runs(low: CpuLowering, node: Node[NormRuns]) -> Iterator[Call]:
    source, op = node.inputs[0], node.op
    kernel = norm_runs(low.row_bound(source), source.width, op.runs, op.eps, low.isa)
    arguments = (
        *read(*low.value(source), *(low.param(f"{name}.weight") for name in node.params)),
        *to("write", *low.value(node.output)),
        *read(low.step_tensor("step")),
    )
    moved, flops = mul(source.rows, source.width * 8), mul(source.rows, sum(op.runs) * 4)
    yield Call(kernel, arguments, node.label, moved, flops)


def _quantize(low: CpuLowering, node: Node[Quantize]) -> Iterator[Call]:
    source, out = node.inputs[0], node.output
    kernel = quantize(low.row_bound(source), source.width, low.isa, _count(source))
    arguments = (
        *read(*low.value(source)),
        *to("write", *low.value(out)),
        *read(low.step_tensor("step")),
    )
    moved = mul(out.rows, _row_bytes(source) + _row_bytes(out))
    yield Call(kernel, arguments, node.label, moved, mul(out.rows, source.width * 3))


def _linear(low: CpuLowering, node: Node[Linear]) -> Iterator[Call]:
    source, out = node.inputs[0], node.output
    if low.arithmetic.exact and source.kind == "f32":
        codes = replace(source, id=f"{source.id}.a8", kind="a8", name=None)
        yield from _quantize(low, Node(Quantize(), (source,), codes, (), f"{node.label}.quantize"))
        source = codes
    parts = low.parts[node.params[0]]
    total = sum(part.rows for part in parts)
    for part in parts:
        params = low.linear_params(part.name)
        spec = MatmulSpec(
            low.row_bound(source),
            part.rows,
            source.width,
            part.scheme.name,
            epilogue=node.op.epilogue + ("_a8" if out.kind == "a8" else ""),
            bias=params[-1].name.endswith(".bias"),
            count=_count(source),
            first=part.first,
            total=total if len(parts) > 1 else None,
        )
        kernel = (matmul_int if low.arithmetic.exact else matmul_float)(spec, low.isa)
        arguments = (
            *read(*low.value(source), *params),
            *to("readwrite" if spec.epilogue == "add" else "write", *low.value(out)),
            *read(low.step_tensor("step")),
        )
        made = _row_bytes(out) * part.rows // total
        moved = add(param_bytes(params), mul(source.rows, _row_bytes(source) + made))
        flops = mul(source.rows, 2 * part.rows * source.width)
        # A linear in parts keeps its own label on the one that completes it.
        yield Call(kernel, arguments, node.label if part is parts[-1] else part.name, moved, flops)


def _ordered(low: CpuLowering, route_value: Value, op: Route | Experts) -> tuple[Tensor, Tensor]:
    """Pairs of rows and experts by expert, and where those of each begin."""
    pairs = low.row_bound(route_value) * op.chosen
    return (
        Tensor(f"{route_value.id}.order", "scratch", "int32", (pairs,)),
        Tensor(f"{route_value.id}.groups", "scratch", "int32", (2, op.experts + 1)),
    )


def _route(low: CpuLowering, node: Node[Route]) -> Iterator[Call]:
    source, out = node.inputs[0], node.output
    spec, router = low.router(node)
    made = *low.route_tensors(out, node.op), *_ordered(low, out, node.op)
    arguments = (
        *read(*low.value(source), *router),
        *to("write", *made),
        *read(low.step_tensor("step")),
    )
    moved = add(param_bytes(router), mul("n", source.width * 4 + spec.chosen * 12))
    flops = mul("n", 2 * spec.columns * source.width)
    yield Call(route(spec, low.isa), arguments, node.label, moved, flops)


def _experts(low: CpuLowering, node: Node[Experts]) -> Iterator[Call]:
    (source, routed), out, op = node.inputs, node.output, node.op
    if low.arithmetic.exact and source.kind == "f32":
        codes = replace(source, id=f"{source.id}.a8", kind="a8", name=None)
        yield from _quantize(low, Node(Quantize(), (source,), codes, (), f"{node.label}.quantize"))
        source = codes
    params = low.linear_params(node.params[0])
    inputs = source.width // op.chosen if op.each else source.width
    spec = ExpertsSpec(
        rows=low.row_bound(out),
        outputs=int(params[0].shape[0]) * PANEL // op.experts,
        inputs=inputs,
        scheme=low.parts[node.params[0]][0].scheme.name,
        epilogue=op.epilogue + ("_a8" if out.kind == "a8" else ""),
        bias=params[-1].name.endswith(".bias"),
        experts=op.experts,
        chosen=op.chosen,
        each=op.each,
    )
    arguments = (
        *read(*(by_pairs(x, op.chosen if op.each else 1) for x in low.value(source)), *params),
        *read(*_ordered(low, routed, op)),
        *to("write", *(by_pairs(y, op.chosen) for y in low.value(out))),
    )
    moved = add(
        experts_bytes(params, op.experts, op.chosen, "n"),
        mul("n", _row_bytes(source) + _row_bytes(out)),
    )
    flops = mul("n", 2 * op.chosen * spec.outputs * inputs)
    yield Call(experts(spec, low.isa), arguments, node.label, moved, flops)


def _combine(low: CpuLowering, node: Node[Combine]) -> Iterator[Call]:
    y, routed, *others = node.inputs
    op, out = node.op, node.output
    added = op.epilogue == "add"
    _, weights = low.route_tensors(routed, op)
    shared = low.value(others[0]) if op.shared else ()
    kernel = combine(
        low.row_bound(out), out.width, op.chosen, low.isa, shared=op.shared, added=added
    )
    arguments = (
        *read(*low.value(y), *shared, weights),
        *to("readwrite" if added else "write", *low.value(out)),
        *read(low.step_tensor("step")),
    )
    count = op.chosen + op.shared
    moved = mul("n", out.width * 4 * (count + 1 + added))
    yield Call(kernel, arguments, node.label, moved, mul("n", out.width * 2 * count))


def _add(low: CpuLowering, node: Node[Add]) -> Iterator[Call]:
    (x, y), out = node.inputs, node.output
    in_place = low.value(x) == low.value(out)
    rows = low.row_bound(out)
    kernel = add_rows(rows, x.width, y.width, in_place=in_place, count=_count(out))
    arguments = (
        *(() if in_place else read(*low.value(x))),
        *read(*low.value(y)),
        *to("readwrite" if in_place else "write", *low.value(out)),
        *read(low.step_tensor("step")),
    )
    yield Call(kernel, arguments, node.label, mul(out.rows, x.width * 12), mul(out.rows, x.width))


def _swiglu(low: CpuLowering, node: Node[Swiglu]) -> Iterator[Call]:
    source, out = node.inputs[0], node.output
    rows, activation = low.row_bound(out), node.op.activation
    kernel = swiglu(rows, out.width, low.isa, count=_count(out), activation=activation)
    arguments = (
        *read(*low.value(source)),
        *to("write", *low.value(out)),
        *read(low.step_tensor("step")),
    )
    moved, flops = mul(out.rows, out.width * 12), mul(out.rows, out.width * 16)
    yield Call(kernel, arguments, node.label, moved, flops)


def _softcap(low: CpuLowering, node: Node[Softcap]) -> Iterator[Call]:
    out = node.output
    kernel = softcap(low.row_bound(out), out.width, node.op.cap, low.isa, count=_count(out))
    arguments = (*to("readwrite", *low.value(out)), *read(low.step_tensor("step")))
    yield Call(
        kernel, arguments, node.label, mul(out.rows, out.width * 8), mul(out.rows, out.width * 16)
    )


def _gather(low: CpuLowering, node: Node[Gather]) -> Iterator[Call]:
    source, out = node.inputs[0], node.output
    kernel = gather(low.row_bound(source), low.row_bound(out), out.width)
    arguments = (
        *read(*low.value(source), low.step_tensor("logit_rows")),
        *to("write", *low.value(out)),
        *read(low.step_tensor("step")),
    )
    yield Call(kernel, arguments, node.label, mul(out.rows, out.width * 8), 0)


def _rope_append(low: CpuLowering, node: Node[RopeAppend]) -> Iterator[Call]:
    norms = tuple(low.param(f"{name}.weight") for name in node.params)
    steps = (low.step_tensor("positions"), low.step_tensor("row_seq"), low.table(node.op))
    arguments = (
        *read(*low.value(node.inputs[0]), *low.rotation(node.op)),
        *read(*steps, *norms),
        *to("write", *low.value(node.output)),
        *to("readwrite", *low.kv_buffers(node.op)),
        *read(low.step_tensor("step")),
    )
    kernel, width = rope_append(low.rope_spec(node.op), low.isa), node.inputs[0].width
    yield Call(kernel, arguments, node.label, mul("n", width * 8), mul("n", width * 6))


def _attention_decode(low: CpuLowering, node: Node[Attention]) -> Iterator[Call]:
    spec = low.attention_spec(node.op)
    part = Tensor(f"{node.output.id}.part", "scratch", "float32", (part_elements(spec),))
    yield _attention(low, node, attention_decode(spec, low.isa), part, decode=True)


def _attention_prefill(low: CpuLowering, node: Node[Attention]) -> Iterator[Call]:
    # Sequences that decode have decode's kernel here, too. How many do stands in the table, not in
    # a symbol: the cost of chunks is that of all rows.
    yield from (replace(call, bytes=0, flops=0) for call in _attention_decode(low, node))
    kernel = attention_prefill(low.attention_spec(node.op), low.isa)
    yield _attention(low, node, kernel, decode=False)


def _attention(
    low: CpuLowering, node: Node[Attention], kernel: PrimFunc, *scratch: Tensor, decode: bool
) -> Call:
    moved, flops = attention_cost(node.op.heads, low.kv_dtype, decode=decode)
    q, out = low.value(node.inputs[0]), low.value(node.output)
    arguments = (
        *read(*q, *low.kv_buffers(node.op), low.table(node.op), *low.sinks(node.op)),
        *to("write", *scratch, *out),
        *read(low.step_tensor("step")),
    )
    return Call(kernel, arguments, node.label, moved, flops)


_OPERATIONS: Table[CpuLowering] = {
    Embed: _embed,
    RmsNorm: _rms_norm,
    NormRuns: _norm_runs,
    Quantize: _quantize,
    Linear: _linear,
    Route: _route,
    Experts: _experts,
    Combine: _combine,
    Add: _add,
    Swiglu: _swiglu,
    Softcap: _softcap,
    Gather: _gather,
    RopeAppend: _rope_append,
    Attention: _attention_prefill,
}
_DECODING: Table[CpuLowering] = {**_OPERATIONS, Attention: _attention_decode}


def lower_graph(low: CpuLowering, graph: Graph, *, decode: bool) -> tuple[Call, ...]:
    """The kernel calls of a graph; ``decode`` picks the attention kernel.

    Raises:
        CompileError: an operation has no CPU kernel.
        UnsupportedError: attention with a trait that its kernel does not have.
    """
    return lower_nodes("CPU", _DECODING if decode else _OPERATIONS, low, graph.nodes)


def plans(low: CpuLowering, graphs: Mapping[str, Graph]) -> tuple[PlanCalls, ...]:
    """The plans of a CPU program from the graphs ``embed``, ``layers`` and ``head``."""
    embedding = lower_graph(low, graphs["embed"], decode=False)
    head = lower_graph(low, graphs["head"], decode=False)
    hidden = lower_graph(low, hidden_graph(graphs["head"]), decode=False)
    prefill = lower_graph(low, graphs["layers"], decode=False)
    decode = lower_graph(low, graphs["layers"], decode=True)
    forward = (*embedding, *decode, *head)
    sampled = sampling_calls(low, low.isa, advance=True)
    return (
        PlanCalls("embed", embedding),
        PlanCalls("prefill", prefill),
        PlanCalls("logits", head),
        PlanCalls(HIDDEN, hidden),
        PlanCalls("sample", sampling_calls(low, low.isa, advance=False)),
        PlanCalls("logprobs", logprobs_calls(low, low.isa)),
        PlanCalls("forward", forward),
        PlanCalls("decode", (*forward, *sampled, *header_calls(low)), repeats=True),
    )
