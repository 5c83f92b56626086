"""Two programs side by side on the same tokens: which kernel departs first, and by how much.

Both run one teacher-forced prefill; every kernel's output is compared under the label it has in
both plans. A reference may also be the checkpoint itself, run by transformers in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from collections.abc import Sequence as Rows
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgewise_runtime.devices.base import Device
from edgewise_runtime.devices.table import device_for_target
from edgewise_runtime.engine.batch import Batch, Span, plan_for
from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.engine.sequence import Request, Sequence
from edgewise_runtime.errors import InputError
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.format.state import paged_state, pages_for
from edgewise_runtime.installed import TORCH, TRANSFORMERS, need
from edgewise_runtime.kv.holding import Holding
from edgewise_runtime.text import Tokenizer

Floats = npt.NDArray[np.float32]
Outputs = dict[str, Floats]

DECADES = tuple(range(-8, 2))
"""Powers of ten at which the histogram of errors, relative to the reference's RMS, is cut."""


@dataclass(frozen=True)
class Difference:
    """How one kernel's output differs from the reference's.

    Attributes:
        label: plan and step, such as ``prefill/layers.3.qkv``.
        max_abs: largest absolute difference.
        rms_error: root mean square of the differences.
        rms: root mean square of the reference.
        histogram: elements by decade of error over ``rms``: equal, below 1e-8, below 1e-7, … and
            from 10 on.
    """

    label: str
    max_abs: float
    rms_error: float
    rms: float
    histogram: tuple[int, ...]

    @property
    def relative(self) -> float:
        """``rms_error`` over ``rms``; infinite where the reference is all zero and this is not."""
        if self.max_abs == 0:
            return 0.0
        return self.rms_error / self.rms if self.rms else float("inf")


@dataclass(frozen=True)
class Report:
    """Every kernel compared, in the order of execution.

    Attributes:
        names: the program and its reference.
        tokens: how many tokens both ran.
        tolerance: largest ``relative`` that still counts as the same.
        first: the first difference beyond it, None if there is none.
        top1: share of compared logit rows whose largest logit is the same token.
    """

    names: tuple[str, str]
    tokens: int
    tolerance: float
    differences: tuple[Difference, ...]
    top1: float

    @property
    def first(self) -> Difference | None:
        """Where the two depart."""
        return next((d for d in self.differences if not d.relative <= self.tolerance), None)


def compare(label: str, value: Floats, reference: Floats) -> Difference:
    """Compare two outputs of equal rows; columns beyond the narrower one are padding."""
    width = min(value.shape[-1], reference.shape[-1])
    a = value[..., :width].astype(np.float64)
    b = reference[..., :width].astype(np.float64)
    error = np.abs(a - b)
    rms = float(np.sqrt(np.mean(b * b)))
    edges = [0.0, *(10.0**power for power in DECADES), np.inf]
    relative = error / rms if rms else np.where(error > 0, np.inf, 0.0)
    unequal = relative[error > 0]
    # The last bin of numpy.histogram is closed, so infinity and NaN are counted by hand.
    finite = np.histogram(unequal[np.isfinite(unequal)], bins=[*edges[:-1], np.finfo(float).max])[0]
    counts = [int(error.size - unequal.size), *(int(count) for count in finite)]
    counts[-1] += int(unequal.size - np.isfinite(unequal).sum())
    sane = bool(np.isfinite(error).all())
    largest = float(error.max()) if sane else float("inf")
    rms_error = float(np.sqrt(np.mean(error * error))) if sane else float("inf")
    return Difference(label, largest, rms_error, rms, tuple(counts))


def report(
    names: tuple[str, str], value: Outputs, reference: Outputs, tokens: int, tolerance: float
) -> Report:
    """Compare every output that both sides have under one label."""
    shared = [label for label in value if label in reference]
    if not shared:
        raise InputError(
            f"{names[0]} and {names[1]} have no kernel output in common.",
            remedy="Compare programs of the same model.",
            code="input.diff",
        )
    differences = tuple(compare(label, value[label], reference[label]) for label in shared)
    best = [side["logits"].argmax(-1) for side in (value, reference)]
    return Report(names, tokens, tolerance, differences, float(np.mean(best[0] == best[1])))


def run_program(
    bundle: Bundle,
    program_id: str,
    tokens: Rows[int],
    *,
    rows: int,
    trust: bool = False,
    device: Device | None = None,
) -> Outputs:
    """Prefill ``tokens`` kernel by kernel, then the logits of the last ``rows``.

    Args:
        device: what runs it; None for the best for the program's target.

    Returns:
        Outputs by label: float32 ``[tokens, width]``, quantized activations multiplied out, and
        ``logits`` of the last rows.
    """
    model, count = bundle.model, len(tokens)
    if not 1 <= count <= model.prefill_chunk:
        raise InputError(
            f"{count} tokens; a comparison takes 1 to {model.prefill_chunk}, one chunk.",
            remedy="Pass a shorter text.",
            code="input.diff",
        )
    _check_vocabulary(bundle.name, tokens, model.vocab)
    outputs: Outputs = {}
    chosen = device or device_for_target(bundle.manifest.program(program_id).target)
    pages = pages_for(count, paged_state(bundle.manifest).page_tokens)
    groups = len(bundle.manifest.state_groups)
    with chosen.load(
        bundle, program_id, load_symbols={"pages": pages * groups}, trust=trust
    ) as program:
        request = Request(tuple(tokens), SamplingParams(max_tokens=1))
        sequence = Sequence(request, Tokenizer.from_bundle(bundle), (), model.context)
        own, *beside = (list(range(g * pages, (g + 1) * pages)) for g in range(groups))
        sequence.holding = Holding(sequence.chain, own, tuple(beside))
        batch = Batch(program)
        batch.prefill([Span(sequence, 0, request.prompt)])
        for operation, live in (("embed", count), ("prefill", count), ("logits", rows)):
            if operation == "logits":
                batch.logit_rows(range(count - rows, count))
            plan = plan_for(program, operation, n=count, b=1, r=rows)
            for step in program.trace(plan):
                label = f"{operation}/{step.label}"
                if (output := _as_floats(step.outputs)) is not None:
                    outputs[label] = output[:live]
        outputs["logits"] = program.read("logits")[:rows, : model.vocab]
    return outputs


def _check_vocabulary(name: str, tokens: Rows[int], vocab: int) -> None:
    """Refuse tokens of another model's tokenizer: an embedding has no row for them."""
    if max(tokens) >= vocab:
        raise InputError(
            f"The text has token {max(tokens)}, and {name} knows 0 to {vocab - 1}.",
            remedy="Compare programs of the same model.",
            code="input.diff",
        )


def _as_floats(outputs: Rows[npt.NDArray[Any]]) -> Floats | None:
    """A kernel's output as float32 rows; int8 data with its scales is multiplied out."""
    data = next((o for o in outputs if o.dtype == np.int8), None)
    if data is not None:
        scales = next(o for o in outputs if o.dtype == np.float32)
        groups = data.astype(np.float32).reshape(*scales.shape, -1)
        floats: Floats = (groups * scales[..., None]).reshape(data.shape)
        return floats
    return next((o for o in outputs if o.dtype == np.float32 and o.ndim == 2), None)


def run_transformers(checkpoint: Path, tokens: Rows[int], *, rows: int, head_dim: int) -> Outputs:
    """The same outputs from transformers, in float32 on the CPU.

    Args:
        head_dim: elements of a head in the program it is compared with, which may have zeros after
            each half of a narrower one.

    Raises:
        UnsupportedError: transformers or torch is not installed.
    """
    need(TORCH)
    need(TRANSFORMERS)
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(
        checkpoint, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    _check_vocabulary(str(checkpoint), tokens, model.config.get_text_config().vocab_size)
    outputs: Outputs = {}
    handles = [
        module.register_forward_hook(_hook(outputs, label, pick))
        for label, module, pick in _taps(model)
    ]
    try:
        with torch.no_grad():
            logits = model(torch.tensor([list(tokens)])).logits[0]
    finally:
        for handle in handles:
            handle.remove()
    outputs["logits"] = logits[-rows:].numpy()
    config = model.config.get_text_config()
    outputs["logits/norm"] = outputs["logits/norm"][-rows:]
    for ends, factor in FACTORS.items():
        for label in [label for label in outputs if label.endswith(ends)]:
            outputs[label] = outputs[label] / getattr(config, factor, 1.0)
    stored = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    for label in [label for label in outputs if ".qkv" in label or label.endswith(".attention")]:
        outputs[label] = _padded(outputs[label], stored, head_dim)
    return _join_qkv(outputs)


def _padded(value: Floats, stored: int, width: int) -> Floats:
    """Heads of ``stored`` columns as a program has them that are ``width`` wide."""
    halves = value.reshape(len(value), -1, 2, stored // 2)
    more = (width - stored) // 2
    return np.pad(halves, ((0, 0), (0, 0), (0, 0), (0, more))).reshape(len(value), -1)


Pick = Callable[[tuple[Any, ...], Any], Any]


def _output(inputs: tuple[Any, ...], output: Any) -> Any:
    return output[0] if isinstance(output, tuple) else output


def _input(inputs: tuple[Any, ...], output: Any) -> Any:
    return inputs[0]


def _weights(inputs: tuple[Any, ...], output: Any) -> Any:
    """Of a router, which gives logits, weights of those that it chose, and which they are."""
    return output[1]


Tap = tuple[str, str, Pick]
"""What ours is called in a layer, the module there, and what of it is compared."""

TAPS: tuple[Tap, ...] = (
    ("attn_norm", "input_layernorm", _output),
    ("qkv", "self_attn.qkv_proj", _output),
    *((f"qkv.{part}", f"self_attn.{part}_proj", _output) for part in ("q", "k", "v")),
    ("attention", "self_attn.o_proj", _input),
    ("gate_up", "mlp.down_proj", _input),
    ("gate_up", "shared_mlp.output_linear", _input),
    ("router", "mlp.gate", _weights),
    ("router", "mlp.router", _weights),
    ("shared.gate_up", "mlp.shared_expert.down_proj", _input),
    ("shared.down", "mlp.shared_expert.down_proj", _output),
)
"""What all layers have, of these, wherever their norms are. What is between a router and the sum of
its experts is in another order there."""

BEFORE: tuple[Tap, ...] = (
    ("o", "post_attention_layernorm", _input),
    ("mlp_norm", "post_attention_layernorm", _output),
)
"""Of layers whose norms are before their branches: linears add onto the residual."""

AFTER: tuple[Tap, ...] = (
    ("o", "self_attn.o_proj", _output),
    ("attn_post_norm", "post_attention_layernorm", _output),
    ("mlp_norm", "pre_feedforward_layernorm", _output),
    ("down", "mlp.down_proj", _output),
    ("mlp_post_norm", "post_feedforward_layernorm", _output),
)
"""Of layers that have norms after their branches, or around them."""


FACTORS = {
    ("/embed", ".o", ".down"): "residual_multiplier",
    ("logits/norm",): "logits_scaling",
}
"""What Granite has, by ends of labels: our stream is divided by the factor of its branches, and the
weights of the last norm by that of the logits."""


def _taps(model: Any) -> Iterator[tuple[str, Any, Pick]]:
    """Where our kernels' outputs appear in a model of transformers."""
    text = getattr(model.model, "language_model", model.model)
    turned = _turned(text.config)
    # With the factor that some have on it.
    yield "embed/embed", text.layers[0], _input
    for i, layer in enumerate(text.layers):
        after = hasattr(layer, "post_feedforward_layernorm")
        for label, name, pick in (*TAPS, *(AFTER if after else BEFORE)):
            module = _module(layer, name)
            # Heads of which a part turns have their elements in another order here.
            if module is not None and (turned == 1.0 or not label.startswith("qkv")):
                yield f"prefill/layers.{i}.{label}", module, pick
        if not after:
            mixed = _module(layer, "mlp.experts") is not None
            yield f"prefill/layers.{i}.{'combine' if mixed else 'down'}", layer, _output
    yield "logits/norm", text.norm, _output


def _turned(config: Any) -> float:
    """Which part of a head turns."""
    rope = getattr(config, "rope_parameters", None) or {}
    found = rope.get("partial_rotary_factor") or getattr(config, "partial_rotary_factor", None)
    return float(found or 1.0)


def _module(layer: Any, name: str) -> Any:
    """A module of a layer by its path, None where it has none of that name."""
    for part in name.split("."):
        layer = getattr(layer, part, None)
    return layer


def _hook(outputs: Outputs, label: str, pick: Pick) -> Callable[[Any, tuple[Any, ...], Any], None]:
    def hook(module: Any, inputs: tuple[Any, ...], output: Any) -> None:
        value = pick(inputs, output).detach().float()
        outputs[label] = value.reshape(-1, value.shape[-1]).numpy().copy()

    return hook


def _join_qkv(outputs: Outputs) -> Outputs:
    """Ours is one packed linear where transformers has three."""
    joined: dict[str, list[Floats]] = {}
    for label, value in outputs.items():
        base = label.rsplit(".qkv.", 1)[0] + ".qkv" if ".qkv." in label else label
        joined.setdefault(base, []).append(value)
    return {
        label: np.concatenate(values, axis=-1) if len(values) > 1 else values[0]
        for label, values in joined.items()
    }


def default_tolerance(computes_in: Set[str], *, same_bits: bool = False) -> float:
    """How much two sides may differ per kernel: bits, rounding, or quantization.

    Args:
        computes_in: the arithmetics of both sides (``transformers`` computes in f32), ``int8``
            for such pages, and how their weights are stored where that differs.
        same_bits: whether they are the same class of programs, which agree bit for bit.

    Float against float differs by the order of sums, and float16 by its 11 bits. With quantized
    weights, activations or pages, outputs are off by parts in ten.
    """
    if same_bits:
        return 0.0
    if computes_in <= {"f32", "transformers"}:
        return 1e-4
    return 2e-2 if computes_in <= {"f32", "f16", "transformers"} else 0.5
