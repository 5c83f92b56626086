"""A checkpoint as a folder of MLC LLM and WebLLM, under the names that these give its tensors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from edgewise_compiler.checkpoint import Checkpoint, open_checkpoint
from edgewise_compiler.layouts.order import BLOCK_ELEMENTS
from edgewise_compiler.mlc.codes import from_floats, from_q4, stored, words
from edgewise_compiler.mlc.config import KINDS, Kind
from edgewise_compiler.mlc.names import CONFIG, EXPORTED
from edgewise_compiler.mlc.reader import WORDS
from edgewise_compiler.mlc.shards import Written, write_shards
from edgewise_compiler.models.base import LinearSpec, ModelConfig, RouterSpec, VectorSpec
from edgewise_compiler.quantize.codes import Floats
from edgewise_compiler.weights.files import Bytes
from edgewise_runtime.errors import UnsupportedError
from edgewise_runtime.files import write_bytes, write_json
from edgewise_runtime.folders import new_folder
from edgewise_runtime.format.abi import GROUP
from edgewise_runtime.format.reading import shorten

TOKENIZER = ("tokenizer.json", "tokenizer_config.json")
"""Files that are copied."""

PREFILL_CHUNK = 2048
"""Tokens that MLC reads at a time unless told otherwise."""

HEAD = "lm_head"
MOST_ROUTED = 256
"""Rows of a matrix that chooses among experts up to which MLC leaves it floats."""

Progress = Callable[[int, int], None]


def export_mlc(
    path: str | Path,
    out: str | Path,
    conversation: Mapping[str, Any],
    *,
    quantization: str = "q4f16_1",
    progress: Progress = lambda done, total: None,
) -> Path:
    """Write the checkpoint at ``path`` as a folder of MLC LLM.

    Codes of ``q4`` that the checkpoint has (of MLC, symmetric GPTQ and compressed-tensors, Q4_0)
    are kept, in ``q4f32_1`` with scales of bfloat16; all else is quantized by MLC's own rule. What
    is in memory is a block of a matrix, and the scales of one.

    Args:
        out: appears whole or not at all, where nothing is yet.
        conversation: the ``conv_template`` of mlc-chat-config.json.
        quantization: one of `names.EXPORTED`.
        progress: told how many parameters of how many are written.

    Raises:
        CheckpointError: the checkpoint cannot be read, or a weight is beyond float16.
        UnsupportedError: a quantization or family that is not written, or heads that are padded.
        StorageError: ``out`` exists, or cannot be written.
    """
    if quantization not in EXPORTED:
        raise UnsupportedError(
            f"There is no quantization {shorten(quantization)} to export.",
            remedy=f"Choose one of {', '.join(EXPORTED)}.",
            code="unsupported.quantized",
        )
    with new_folder(Path(out)) as folder, open_checkpoint(path) as checkpoint:
        model_type, kind = _kind(checkpoint)
        weights = sum(
            p.size if isinstance(p, VectorSpec) else sum(p.rows) * p.k
            for p in _params(checkpoint, kind)
        )
        write_shards(folder, _tensors(checkpoint, kind, quantization, progress), weights)
        for name in TOKENIZER:
            if name in checkpoint.files:
                write_bytes(folder / name, checkpoint.files[name])
        files = [name for name in TOKENIZER if name in checkpoint.files]
        config = _chat_config(checkpoint, model_type, quantization, files, conversation)
        write_json(folder / CONFIG, config, indent=2)
    return Path(out)


def _kind(checkpoint: Checkpoint) -> tuple[str, Kind]:
    """How models of the checkpoint's family are stored."""
    model = checkpoint.model
    for model_type, kind in KINDS.items():
        if kind.architecture in checkpoint.family.architectures:
            if model.head_dim != model.stored_head_dim:
                raise UnsupportedError(
                    f"Heads of {model.stored_head_dim} elements are not exported.",
                    remedy="Use a model whose heads have a multiple of 32.",
                    code="unsupported.shape",
                )
            for has, what in _others(model, kind):
                if has:
                    raise UnsupportedError(
                        f"MLC's {model_type} has no {what}, and this model has some.",
                        remedy="Use a model without, or run it with edgewise.",
                        code="unsupported.option",
                    )
            return model_type, kind
    raise UnsupportedError(
        f"Models of the family {model.family} are not exported to MLC LLM.",
        remedy=f"Exported are {', '.join(KINDS)}.",
        code="unsupported.architecture",
    )


def _others(model: ModelConfig, kind: Kind) -> Iterator[tuple[bool, str]]:
    """What a model may have that MLC's models of its kind have not."""
    yield model.mlp_bias or model.attention_bias > kind.biases, "biases"
    yield model.attention_bias < kind.biases, "queries and keys without biases"
    layers = model.mixture.layers if model.mixture is not None else ()
    yield bool(kind.mixture) and len(layers) < model.layers, "layers without experts"
    yield model.rope.kind != "default" and not kind.stretched, "stretched rotations"
    # Where there are biases, MLC's configuration asserts it.
    others = model.heads * model.head_dim != model.hidden
    yield kind.biases and others, "heads that together are not as wide as a state"


def _params(checkpoint: Checkpoint, kind: Kind) -> list[LinearSpec | RouterSpec | VectorSpec]:
    """What is written; a mixture of experts has a head of its own there, if only as a copy."""
    model = checkpoint.model
    found = [
        spec
        for spec in checkpoint.family.params(model)
        if isinstance(spec, LinearSpec | RouterSpec | VectorSpec)
    ]
    if kind.mixture and model.tied:
        table = ("model.embed_tokens.weight",)
        found.append(LinearSpec(HEAD, table, (model.vocab,), model.hidden))
    return found


def _tensors(
    checkpoint: Checkpoint, kind: Kind, quantization: str, progress: Progress
) -> Iterator[Written]:
    """Every tensor, matrices that are one in MLC one after the other."""
    half = "f16" in quantization
    params = _params(checkpoint, kind)

    def plain(name: str, sources: Sequence[str], shape: tuple[int, ...]) -> Written:
        values = (stored(checkpoint.weights.read(source), half) for source in sources)
        return Written(name, _float(half), shape, values)

    for done, param in enumerate(params):
        progress(done, len(params))
        if isinstance(param, VectorSpec):
            yield plain(param.source, (param.source,), (param.size,))
            continue
        if isinstance(param, RouterSpec):
            for source, rows in zip(param.sources, param.rows, strict=True):
                one = LinearSpec(source, (source,), (rows,), param.k)
                if quantization.startswith("q4") and rows > MOST_ROUTED:
                    yield from _coded(checkpoint, one, source.removesuffix(".weight"), half)
                else:
                    yield plain(source, (source,), (rows, param.k))
            continue
        module = _module(param, kind)
        if quantization.startswith("q4"):
            yield from _coded(checkpoint, param, module, half)
        else:
            blocks = (stored(rows, half) for rows in _floats(checkpoint, param))
            yield Written(f"{module}.weight", _float(half), (*_lead(param), param.k), blocks)
        if param.biases is not None:
            yield plain(f"{module}.bias", param.biases, (sum(param.rows),))
    progress(len(params), len(params))


def _float(half: bool) -> str:
    return "float16" if half else "float32"


def _lead(param: LinearSpec) -> tuple[int, ...]:
    """Dimensions before the columns."""
    experts = param.experts
    return (sum(param.rows),) if experts is None else (experts, sum(param.rows) // experts)


def _module(param: LinearSpec, kind: Kind) -> str:
    """What MLC calls a linear."""
    if param.name == HEAD:
        return HEAD
    first = param.sources[0].removesuffix(".weight")
    place, _, name = first.rpartition(".")
    if param.experts is not None:
        inside = place.removesuffix(".experts.0")
        return f"{inside}.{'moe_gate_up_proj' if name == 'gate_proj' else 'moe_down_proj'}"
    fused = {"q_proj": kind.qkv, "gate_proj": "gate_up_proj"}
    return f"{place}.{fused[name]}" if len(param.sources) > 1 else first


def _floats(checkpoint: Checkpoint, param: LinearSpec) -> Iterator[Floats]:
    for name, start, stop in _blocks(param):
        yield checkpoint.weights.read(name, start, stop)


def _blocks(param: LinearSpec) -> Iterator[tuple[str, int, int]]:
    """Rows of a linear's tensors, in their order."""
    step = max(1, BLOCK_ELEMENTS // param.k)
    for name, rows in zip(param.sources, param.rows, strict=True):
        for start in range(0, rows, step):
            yield name, start, min(start + step, rows)


def _coded(checkpoint: Checkpoint, param: LinearSpec, module: str, half: bool) -> Iterator[Written]:
    """The words of a matrix, and the scales that were found on the way."""
    lead, groups = _lead(param), -(-param.k // GROUP)
    scales: list[Bytes] = []

    def pieces() -> Iterator[Bytes]:
        for name, start, stop in _blocks(param):
            own = checkpoint.held.get(name, {}).get("q4")
            if own is None:
                codes, numbers = from_floats(checkpoint.weights.read(name, start, stop), half)
            else:
                codes, numbers = from_q4(own(start, stop))
            codes[:, param.k :] = 0
            scales.append(stored(numbers, half))
            yield words(codes)

    yield Written(f"{module}.q_weight", "uint32", (*lead, groups * WORDS), pieces())
    yield Written(f"{module}.q_scale", _float(half), (*lead, groups), iter(scales))


def _chat_config(
    checkpoint: Checkpoint,
    model_type: str,
    quantization: str,
    files: list[str],
    conversation: Mapping[str, Any],
) -> dict[str, Any]:
    """mlc-chat-config.json."""
    model, theirs = checkpoint.model, checkpoint.config
    rope = theirs.get("rope_parameters") or {}
    chunk = min(PREFILL_CHUNK, model.context)
    sizes: dict[str, Any] = {
        "hidden_size": model.hidden,
        "intermediate_size": model.intermediate,
        "num_attention_heads": model.heads,
        "num_hidden_layers": model.layers,
        "num_key_value_heads": model.kv_heads,
        "head_dim": model.head_dim,
        "rms_norm_eps": model.rms_eps,
        "vocab_size": model.vocab,
        "tie_word_embeddings": model.tied,
        "context_window_size": model.context,
        "prefill_chunk_size": chunk,
        "tensor_parallel_shards": 1,
        "max_batch_size": 128,
    }
    theta = theirs.get("rope_theta", rope.get("rope_theta", 10000.0))
    scaling = theirs.get("rope_scaling") or {k: v for k, v in rope.items() if k != "rope_theta"}
    scaled = scaling if scaling.get("rope_type", scaling.get("type")) != "default" else {}
    if model_type == "llama":
        sizes |= {"position_embedding_base": theta}
    else:
        sizes |= {"rope_theta": theta, "hidden_act": "silu"}
        sizes |= {"attention_bias": False}
    if KINDS[model_type].mixture and (mixture := model.mixture) is not None:
        sizes |= {
            "tie_word_embeddings": False,
            "num_experts": mixture.experts,
            "num_experts_per_tok": mixture.chosen,
            "moe_intermediate_size": mixture.intermediate,
            "norm_topk_prob": mixture.normalize,
            "decoder_sparse_step": 1,
        }
        if mixture.shared is not None:
            sizes["shared_expert_intermediate_size"] = mixture.shared
    more = json.loads(checkpoint.files.get("generation_config.json", b"{}"))
    sampling = {key: more.get(key) for key in ("temperature", "top_p", "repetition_penalty")}
    return {
        "version": "0.1.0",
        "model_type": model_type,
        "quantization": quantization,
        "model_config": {**sizes, "rope_scaling": scaled or None},
        "vocab_size": model.vocab,
        "active_vocab_size": checkpoint.tokens,
        "context_window_size": model.context,
        "sliding_window_size": -1,
        "prefill_chunk_size": chunk,
        "attention_sink_size": -1,
        "tensor_parallel_shards": 1,
        "pipeline_parallel_stages": 1,
        "model_task": "chat",
        **{key: 1.0 if value is None else value for key, value in sampling.items()},
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "tokenizer_files": files,
        "tokenizer_info": tokenizer_info(checkpoint.files["tokenizer.json"]),
        "conv_template": dict(conversation),
        "pad_token_id": 0,
        "bos_token_id": model.bos,
        "eos_token_id": list(model.eos),
    }


def tokenizer_info(raw: bytes) -> dict[str, Any]:
    """How MLC's runtime makes text of tokens, from a tokenizer.json that was opened already."""
    found = json.loads(raw)
    kinds = set(_kinds(found.get("decoder")))
    prepends = "Prepend" in set(_kinds(found.get("normalizer")))
    return {
        "token_postproc_method": "byte_fallback" if "ByteFallback" in kinds else "byte_level",
        "prepend_space_in_encode": prepends,
        "strip_space_in_decode": "Strip" in kinds,
    }


def _kinds(step: Any) -> Iterator[str]:
    """The types of a step of a tokenizer, and of those that it consists of."""
    if not isinstance(step, dict):
        return
    yield str(step.get("type"))
    for key in ("decoders", "normalizers"):
        for inner in step.get(key) or ():
            yield from _kinds(inner)
