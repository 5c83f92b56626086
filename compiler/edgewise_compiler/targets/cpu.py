"""Lowering for the CPU: which kernel implements each operation, with which tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

from edgewise_compiler.graph import Graph, Node, Value
from edgewise_compiler.kernels.attention.decode import attention_decode
from edgewise_compiler.kernels.attention.prefill import attention_prefill
from edgewise_compiler.kernels.elementwise.embed import embed
from edgewise_compiler.kernels.elementwise.norm import rms_norm
from edgewise_compiler.kernels.elementwise.quantize import quantize
from edgewise_compiler.kernels.elementwise.rope import rope_append
from edgewise_compiler.kernels.matmul.floats import matmul_float
from edgewise_compiler.kernels.matmul.ints import matmul_int
from edgewise_compiler.kernels.sampling.record import record
from edgewise_compiler.kernels.sampling.sample import sample
from edgewise_compiler.kernels.sampling.scratch import sample_scratch
from edgewise_compiler.models.base import ModelConfig
from edgewise_compiler.plan.calls import ITEMSIZE, Access, Argument, Call, PlanCalls, Tensor
from edgewise_runtime.errors import CompileError
from edgewise_runtime.expr import Expr

PAGE = 16  # tokens in a KV page
TABLE_HEADER = 8  # int32 fields in front of the page ids of a table row
RING = 64  # tokens a burst can leave in the ring, at most
STOP_TOKENS = 16
MAX_BIASES = 320
SEGMENT = 64  # tokens whose attention is computed before partial results are merged
GROUP = 32  # activations and weights sharing one scale


@dataclass(frozen=True)
class Bounds:
    """Upper bounds of the step symbols: token rows, sequences, tokens of context."""

    rows: int
    batch: int
    context: int

    @property
    def pages(self) -> int:
        """Pages one sequence can hold."""
        return -(-self.context // PAGE)


@dataclass(frozen=True)
class Arithmetic:
    """How a program computes.

    Attributes:
        name: as it appears in the program's id.
        kv_dtype: of the pages.
        activation_bits_offset: zero point of the weights an int8 activation meets, None for floats.
        weight_bits: 4 or 8 for integer weights, None for floats.
    """

    name: str
    kv_dtype: str
    activation_offset: int | None = None
    weight_bits: int | None = None


ARITHMETICS: Mapping[str, Arithmetic] = {
    "f32": Arithmetic("f32", "float32"),
    "w8a8": Arithmetic("w8a8", "float16", 128, 8),
    "w4a8": Arithmetic("w4a8", "float16", 7, 4),
}


@dataclass(frozen=True)
class CpuLowering:
    """Everything a kernel factory may ask for: the model, the bounds, the numbers, the ISA path.

    ``params`` are the tensors of the weight layout by name; ``padded_width`` the output columns of
    each packed linear.
    """

    config: ModelConfig
    bounds: Bounds
    arithmetic: Arithmetic
    isa: str
    params: Mapping[str, Tensor]

    def step_tensor(self, name: str) -> Tensor:
        """A buffer that the host and the device share by name."""
        cfg, bounds = self.config, self.bounds
        rows, batch = bounds.rows, bounds.batch
        inputs: dict[str, tuple[str, tuple[int | str, ...]]] = {
            "step": ("int32", (8,)),
            "tokens": ("int32", (rows,)),
            # One position a token; models that rotate by several (M-RoPE) will have more columns.
            "positions": ("int32", (rows, 1)),
            "row_seq": ("int32", (rows,)),
            "logit_rows": ("int32", (batch,)),
            "table": ("int32", (batch, TABLE_HEADER + bounds.pages)),
            "ring": ("int32", (batch, RING)),
            "eos": ("int32", (STOP_TOKENS,)),
            "sampling_f": ("float32", (batch, 8)),
            "sampling_i": ("int32", (batch, 8)),
            "bias_ids": ("int32", (batch, MAX_BIASES)),
            "bias_values": ("float32", (batch, MAX_BIASES)),
        }
        if name in inputs:
            dtype, shape = inputs[name]
            return Tensor(name, "input", dtype, shape)
        outputs: dict[str, tuple[str, tuple[int | str, ...]]] = {
            "x": ("float32", (rows, cfg.hidden)),
            "logits": ("float32", (batch, self.vocab_padded)),
            "sampled": ("int32", (batch,)),
        }
        if name in outputs:
            dtype, shape = outputs[name]
            return Tensor(name, "output", dtype, shape)
        if name == "counts":
            return Tensor(name, "state", "int32", (batch, cfg.vocab), reset="slot")
        raise CompileError(f"No step buffer is called {name!r}.")

    @property
    def vocab_padded(self) -> int:
        """Columns of the logits: the vocabulary rounded up to whole panel pairs."""
        return -(-self.config.vocab // GROUP) * GROUP

    def kv(self, layer: int) -> Tensor:
        """The pages of one layer: [pages, K|V, kv heads, page tokens x head dim]."""
        shape = ("pages", 2, self.config.kv_heads, PAGE * self.config.head_dim)
        return Tensor(f"kv.{layer}", "state", self.arithmetic.kv_dtype, shape)

    def row_bound(self, value: Value) -> int:
        """The most rows ``value`` can have."""
        return self.bounds.rows if value.rows == "n" else self.bounds.batch

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

    def linear_params(self, name: str) -> tuple[Tensor, ...]:
        """Weight, scale and bias of a packed linear, as far as the layout has them."""
        parts = (f"{name}.weight", f"{name}.scale", f"{name}.bias")
        return tuple(self.params[part] for part in parts if part in self.params)


def _mul(*factors: Expr) -> Expr:
    out = factors[0]
    for factor in factors[1:]:
        out = ("mul", out, factor)
    return out


def _add(*terms: Expr) -> Expr:
    out = terms[0]
    for term in terms[1:]:
        out = ("add", out, term)
    return out


def _read(*tensors: Tensor) -> tuple[Argument, ...]:
    return tuple(Argument(tensor, "read") for tensor in tensors)


def _to(access: Access, *tensors: Tensor) -> tuple[Argument, ...]:
    return tuple(Argument(tensor, access) for tensor in tensors)


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
        *_read(low.step_tensor("tokens"), *weights),
        *_to("write", *low.value(node.output)),
        *_read(low.step_tensor("step")),
    )
    return Call(kernel, arguments, node.label, _mul("n", cfg.hidden * 8), 0)


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
        *_read(*low.value(source), low.params[f"{node.params[0]}.weight"], *rows),
        *_to("write", *low.value(out)),
        *_read(low.step_tensor("step")),
    )
    moved = _mul(out.rows, source.width * 4 + _row_bytes(out))
    return Call(kernel, arguments, node.label, moved, _mul(out.rows, source.width * 4))


def _quantize(low: CpuLowering, node: Node) -> Call:
    source, out = node.inputs[0], node.output
    kernel = quantize(
        low.row_bound(source), source.width, low.arithmetic.activation_offset or 0, low.isa
    )
    arguments = (
        *_read(*low.value(source)),
        *_to("write", *low.value(out)),
        *_read(low.step_tensor("step")),
    )
    moved = _mul(out.rows, _row_bytes(source) + _row_bytes(out))
    return Call(kernel, arguments, node.label, moved, _mul(out.rows, source.width * 3))


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
        *_read(*low.value(source), *params),
        *_to("readwrite" if epilogue == "add" else "write", *low.value(out)),
        *_read(low.step_tensor("step")),
    )
    weight_bytes = sum(prod(int(extent) for extent in p.shape) * ITEMSIZE[p.dtype] for p in params)
    moved = _add(weight_bytes, _mul(source.rows, _row_bytes(source) + _row_bytes(out)))
    return Call(kernel, arguments, node.label, moved, _mul(source.rows, 2 * columns * source.width))


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
        low.arithmetic.kv_dtype,
        cfg.rms_eps,
        qk_norm=bool(norms),
        isa=low.isa,
    )
    names = ("positions", "row_seq", "table")
    arguments = (
        *_read(*low.value(node.inputs[0]), low.params["rope"]),
        *_read(*(low.step_tensor(name) for name in names), *norms),
        *_to("write", *low.value(node.output)),
        *_to("readwrite", low.kv(node.attrs["layer"])),
        *_read(low.step_tensor("step")),
    )
    width = node.inputs[0].width
    return Call(kernel, arguments, node.label, _mul("n", width * 8), _mul("n", width * 6))


def _attention(low: CpuLowering, node: Node, *, decode: bool) -> Call:
    cfg, bounds = low.config, low.bounds
    kv_dtype = low.arithmetic.kv_dtype
    q, out = low.value(node.inputs[0]), low.value(node.output)
    shape = (bounds.rows, bounds.batch, bounds.pages, cfg.heads, cfg.kv_heads, cfg.head_dim)
    table, step = low.step_tensor("table"), low.step_tensor("step")
    read = _read(*q, low.kv(node.attrs["layer"]), table)
    token_bytes = 2 * cfg.kv_heads * cfg.head_dim * (2 if kv_dtype == "float16" else 4)
    row_bytes = cfg.heads * cfg.head_dim * 8
    row_flops = 4 * cfg.heads * cfg.head_dim
    if decode:
        kernel = attention_decode(*shape, kv_dtype, cfg.sm_scale, isa=low.isa)
        segments = -(-bounds.context // SEGMENT)
        partials = bounds.batch * cfg.heads * segments * (cfg.head_dim + 16)
        part = Tensor(f"{node.output.id}.part", "scratch", "float32", (partials,))
        arguments = (*read, *_to("write", part, *out), *_read(step))
        context: Expr = _add("kv", 1)
        moved = _add(_mul("b", token_bytes, context), _mul("b", row_bytes))
        return Call(kernel, arguments, node.label, moved, _mul("b", row_flops, context))
    kernel = attention_prefill(*shape, kv_dtype, cfg.sm_scale, isa=low.isa)
    arguments = (*read, *_to("write", *out), *_read(step))
    moved = _add(_mul(_add("n", _mul("b", "kv")), token_bytes), _mul("n", row_bytes))
    flops = _mul("n", row_flops, _add("kv", ("ceildiv", "n", ("mul", 2, "b"))))
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


def sampling_calls(low: CpuLowering, *, advance: bool) -> tuple[Call, ...]:
    """Sample one token a sequence from ``logits`` and write it where the next step reads it."""
    cfg, bounds = low.config, low.bounds
    t = low.step_tensor
    sample_kernel = sample(
        bounds.batch, cfg.vocab, low.vocab_padded, low.isa, MP=bounds.pages, advance=advance
    )
    work = (
        Tensor(f"sample.{arg.name}", "scratch", arg.dtype, arg.shape)
        for arg in sample_scratch(bounds.batch, low.vocab_padded)
    )
    names = ("logits", "table", "sampling_f", "sampling_i", "bias_ids", "bias_values", "counts")
    record_kernel = record(
        bounds.rows, bounds.batch, bounds.pages, cfg.vocab, advance=advance, isa=low.isa
    )
    changed = ("table", "tokens", "positions", "ring")
    return (
        Call(
            sample_kernel,
            (
                *_read(*(t(name) for name in names)),
                *_to("write", t("sampled"), *work),
                *_read(t("step")),
            ),
            "sample",
            _mul("b", cfg.vocab * 4),
            _mul("b", cfg.vocab),
        ),
        Call(
            record_kernel,
            (
                *_read(t("sampled")),
                *_to("readwrite", *(t(name) for name in changed)),
                *_read(t("eos")),
                *_to("readwrite", t("counts")),
                *_read(t("sampling_f"), t("sampling_i"), t("step")),
            ),
            "record",
            _mul("b", 64),
            0,
        ),
    )


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
        PlanCalls("sample", sampling_calls(low, advance=False)),
        PlanCalls(
            "decode", (*embedding, *decode, *head, *sampling_calls(low, advance=True)), repeats=True
        ),
    )
