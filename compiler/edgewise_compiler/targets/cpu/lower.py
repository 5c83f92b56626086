"""Lowering for the CPU: which kernel implements each operation, with which tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from edgewise_compiler.graph.nodes import Graph, Node, Value
from edgewise_compiler.kernels.cpu.attention.decode import attention_decode
from edgewise_compiler.kernels.cpu.attention.prefill import attention_prefill
from edgewise_compiler.kernels.cpu.elementwise.embed import embed
from edgewise_compiler.kernels.cpu.elementwise.norm import rms_norm
from edgewise_compiler.kernels.cpu.elementwise.quantize import quantize
from edgewise_compiler.kernels.cpu.elementwise.rope import rope_append
from edgewise_compiler.kernels.cpu.matmul.floats import matmul_float
from edgewise_compiler.kernels.cpu.matmul.ints import matmul_int
from edgewise_compiler.kernels.numbers import SEGMENT
from edgewise_compiler.plan.calls import Call, PlanCalls, Tensor
from edgewise_compiler.targets.cpu.sampling import logprobs_calls, sampling_calls
from edgewise_compiler.targets.lowering import (
    Lowering,
    add,
    attention_cost,
    mul,
    param_bytes,
    read,
    to,
)
from edgewise_runtime.errors import CompileError
from edgewise_runtime.format.abi import GROUP


@dataclass(frozen=True)
class Arithmetic:
    """How a program computes.

    Attributes:
        name: as it appears in the program's id.
        kv_dtype: of the pages, unless they are asked for in int8.
        activation_bits_offset: zero point of the weights an int8 activation meets, None for floats.
        weight_bits: 4 or 8 for integer weights, None for floats.
    """

    name: str
    kv_dtype: str
    activation_offset: int | None = None
    weight_bits: int | None = None

    @property
    def exact(self) -> bool:
        """Whether dot products are sums of integers, so that decode gives the bits of prefill."""
        return self.weight_bits is not None


ARITHMETICS: Mapping[str, Arithmetic] = {
    "f32": Arithmetic("f32", "float32"),
    "w8a8": Arithmetic("w8a8", "float16", 128, 8),
    "w4a8": Arithmetic("w4a8", "float16", 7, 4),
}


@dataclass(frozen=True)
class CpuLowering(Lowering):
    """A lowering that also knows the numbers and the ISA path of its program."""

    arithmetic: Arithmetic
    isa: str

    def value(self, value: Value) -> tuple[Tensor, ...]:
        """The tensors that hold a graph value: one, or three (data, scales, corrections) for a8."""
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


def _embed(low: CpuLowering, node: Node) -> Call:
    cfg = low.config
    weights = low.linear_params(node.params[0])
    scheme = {None: weights[0].dtype.replace("float", "f"), 4: "q4", 8: "q8"}[
        low.arithmetic.weight_bits
    ]
    kernel = embed(scheme, low.bounds.rows, cfg.hidden, cfg.vocab, low.isa)
    arguments = (
        *read(low.step_tensor("tokens"), *weights),
        *to("write", *low.value(node.output)),
        *read(low.step_tensor("step")),
    )
    return Call(kernel, arguments, node.label, mul("n", cfg.hidden * 8), 0)


def _rms_norm(low: CpuLowering, node: Node) -> Call:
    source, out = node.inputs[0], node.output
    gather = bool(node.attrs.get("gather"))
    a8 = out.kind == "a8"
    kernel = rms_norm(
        low.row_bound(source),
        source.width,
        node.attrs["eps"],
        out="a8" if a8 else "f32",
        offset=low.arithmetic.activation_offset or 0,
        gather=gather,
        out_rows=low.row_bound(out),
        isa=low.isa,
    )
    rows = (low.step_tensor("logit_rows"),) if gather else ()
    arguments = (
        *read(*low.value(source), low.params[f"{node.params[0]}.weight"], *rows),
        *to("write", *low.value(out)),
        *read(low.step_tensor("step")),
    )
    moved = mul(out.rows, source.width * 4 + _row_bytes(out))
    return Call(kernel, arguments, node.label, moved, mul(out.rows, source.width * 4))


def _quantize(low: CpuLowering, node: Node) -> Call:
    source, out = node.inputs[0], node.output
    kernel = quantize(
        low.row_bound(source), source.width, low.arithmetic.activation_offset or 0, low.isa
    )
    arguments = (
        *read(*low.value(source)),
        *to("write", *low.value(out)),
        *read(low.step_tensor("step")),
    )
    moved = mul(out.rows, _row_bytes(source) + _row_bytes(out))
    return Call(kernel, arguments, node.label, moved, mul(out.rows, source.width * 3))


def _linear(low: CpuLowering, node: Node) -> Call:
    source, out = node.inputs[0], node.output
    params = low.linear_params(node.params[0])
    weight = params[0]
    columns = int(weight.shape[0]) * 16
    epilogue = node.attrs.get("epilogue", "store")
    rows_index = 0 if source.rows == "n" else 2
    bias = params[-1].name.endswith(".bias")
    if low.arithmetic.weight_bits is None:
        kernel = matmul_float(
            low.row_bound(source),
            columns,
            source.width,
            weight.dtype,
            epilogue=epilogue,
            bias=bias,
            rows=rows_index,
            isa=low.isa,
        )
    else:
        kernel = matmul_int(
            low.row_bound(source),
            columns,
            source.width,
            low.arithmetic.weight_bits,
            epilogue=epilogue,
            bias=bias,
            rows=rows_index,
            isa=low.isa,
        )
    arguments = (
        *read(*low.value(source), *params),
        *to("readwrite" if epilogue == "add" else "write", *low.value(out)),
        *read(low.step_tensor("step")),
    )
    moved = add(param_bytes(params), mul(source.rows, _row_bytes(source) + _row_bytes(out)))
    return Call(kernel, arguments, node.label, moved, mul(source.rows, 2 * columns * source.width))


def _rope_append(low: CpuLowering, node: Node) -> Call:
    cfg, bounds = low.config, low.bounds
    norms = tuple(low.params[f"{name}.weight"] for name in node.params)
    kernel = rope_append(
        bounds.rows,
        bounds.batch,
        bounds.pages,
        cfg.heads,
        cfg.kv_heads,
        cfg.head_dim,
        bounds.context,
        low.kv_dtype,
        cfg.rms_eps,
        qk_norm=bool(norms),
        isa=low.isa,
    )
    names = ("positions", "row_seq", "table")
    arguments = (
        *read(*low.value(node.inputs[0]), low.params["rope"]),
        *read(*(low.step_tensor(name) for name in names), *norms),
        *to("write", *low.value(node.output)),
        *to("readwrite", *low.kv_buffers(node.attrs["layer"])),
        *read(low.step_tensor("step")),
    )
    width = node.inputs[0].width
    return Call(kernel, arguments, node.label, mul("n", width * 8), mul("n", width * 6))


def _attention(low: CpuLowering, node: Node, *, decode: bool) -> Call:
    cfg, bounds = low.config, low.bounds
    kv_dtype = low.kv_dtype
    q, out = low.value(node.inputs[0]), low.value(node.output)
    shape = (bounds.rows, bounds.batch, bounds.pages, cfg.heads, cfg.kv_heads, cfg.head_dim)
    table, step = low.step_tensor("table"), low.step_tensor("step")
    reads = read(*q, *low.kv_buffers(node.attrs["layer"]), table)
    moved, flops = attention_cost(low, decode=decode)
    if decode:
        kernel = attention_decode(*shape, kv_dtype, cfg.sm_scale, isa=low.isa)
        segments = -(-bounds.context // SEGMENT)
        partials = bounds.batch * cfg.heads * segments * (cfg.head_dim + 16)
        part = Tensor(f"{node.output.id}.part", "scratch", "float32", (partials,))
        arguments = (*reads, *to("write", part, *out), *read(step))
        return Call(kernel, arguments, node.label, moved, flops)
    kernel = attention_prefill(*shape, kv_dtype, cfg.sm_scale, isa=low.isa)
    arguments = (*reads, *to("write", *out), *read(step))
    return Call(kernel, arguments, node.label, moved, flops)


def _attention_decode(low: CpuLowering, node: Node) -> Call:
    return _attention(low, node, decode=True)


def _attention_prefill(low: CpuLowering, node: Node) -> Call:
    return _attention(low, node, decode=False)


_OPS: Mapping[str, Callable[[CpuLowering, Node], Call]] = {
    "embed": _embed,
    "rms_norm": _rms_norm,
    "quantize": _quantize,
    "linear": _linear,
    "rope_append": _rope_append,
    "attention_decode": _attention_decode,
    "attention_prefill": _attention_prefill,
}


def lower_graph(low: CpuLowering, graph: Graph, *, decode: bool) -> tuple[Call, ...]:
    """One kernel call for each node; ``decode`` picks the attention kernel.

    Raises:
        CompileError: an operation has no CPU kernel.
    """
    calls = []
    for node in graph.nodes:
        op = node.op
        if op == "attention":
            op = "attention_decode" if decode else "attention_prefill"
        if op not in _OPS:
            raise CompileError(
                f"The CPU target has no kernel for {node.op!r} ({node.label}).",
                remedy=f"Operations it has: {', '.join(_OPS)}.",
                code="compile.kernel",
            )
        calls.append(_OPS[op](low, node))
    return tuple(calls)


def plans(low: CpuLowering, graphs: Mapping[str, Graph]) -> tuple[PlanCalls, ...]:
    """The plans of a CPU program from the graphs ``embed``, ``layers`` and ``head``."""
    embedding = lower_graph(low, graphs["embed"], decode=False)
    head = lower_graph(low, graphs["head"], decode=False)
    prefill = lower_graph(low, graphs["layers"], decode=False)
    decode = lower_graph(low, graphs["layers"], decode=True)
    return (
        PlanCalls("embed", embedding),
        PlanCalls("prefill", prefill),
        PlanCalls("logits", head),
        PlanCalls("sample", sampling_calls(low, low.isa, advance=False)),
        PlanCalls("logprobs", logprobs_calls(low, low.isa)),
        PlanCalls(
            "decode",
            (*embedding, *decode, *head, *sampling_calls(low, low.isa, advance=True)),
            repeats=True,
        ),
    )
