"""Folders that others have quantized: AWQ's, GPTQ's, compressed-tensors', MXFP4's and MLC LLM's."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np

from edgewise_compiler.checkpoint import Checkpoint, open_checkpoint
from edgewise_compiler.quantize import SCHEMES
from edgewise_compiler.weights.safetensors import SINGLE
from tests.compiler.gguf.tiny import write_tiny
from tests.compiler.mlc.writing import write_mlc
from tests.compiler.packed.mxfp4 import E2M1, write_both
from tests.compiler.packed.writing import Kind, write_packed
from tests.fuzz.case import Files, Format, WrongAnswerError, read_files
from tests.fuzz.formats.checkpoints import ROWS
from tests.fuzz.mutate import raw, values
from tests.parity.cases import CASES
from tests.parity.make_checkpoints import write_case, write_checkpoint

CASE = "llama-gqa2-tied-linear"
CACHE, CHAT = "tensor-cache.json", "mlc-chat-config.json"
KINDS = (
    Kind("awq"),
    Kind("gptq", symmetric=True),
    Kind("gptq_v2", group=-1),
    Kind("pack", dtype="BF16"),
    Kind("int8", bits=8, group=-1, symmetric=True),
)
_WORDS = (
    *("awq", "gptq", "gptq_v2", "compressed-tensors", "gemm", "gemv", "pack-quantized", "I32"),
    *("int-quantized", "group", "channel", "int", "float", "static", "F16", "I8", "I64", "BF16"),
    *("quant_method", "bits", "group_size", "zero_point", "checkpoint_format", "config_groups"),
    *("model.layers.0.self_attn.q_proj.qweight", "model.layers.0.mlp.up_proj.weight_packed"),
)
_MLC_WORDS = (
    *("uint32", "float16", "float32", "bfloat16", "raw", "f32-to-bf16", "raw-shard", "llama"),
    *(
        "params_shard_0.bin",
        "../x",
        "qwen2_moe",
        "num_experts",
        "model.layers.0.mlp.gate_up_proj.q_scale",
        "q4f16_1",
        "qwen3",
    ),
    *("q0f16", "{system_message}", "{user_message}", "{function_string}", "user", "assistant"),
)
_EXPERTS = replace(
    CASES["gptoss-window"],
    config=CASES["gptoss-window"].config
    | {"num_hidden_layers": 1, "layer_types": ["sliding_attention"], "num_local_experts": 3}
    | {"hidden_size": 32, "intermediate_size": 32, "num_attention_heads": 16},
)
_EXPERT = re.compile(r"(.*\.experts)\.([0-9]+)\.(gate|up|down)_proj\.weight")
_PLACES = {
    "gate": ("gate_up_proj", 0, 2),
    "up": ("gate_up_proj", 1, 2),
    "down": ("down_proj", 0, 1),
}
_EXPERT_WORDS = (
    *("mxfp4", "awq", "quant_method", "modules_to_not_convert", "GptOssForCausalLM", "gpt_oss"),
    *("num_local_experts", "num_experts", "num_experts_per_tok", "intermediate_size", "U8", "I8"),
    *("swiglu_limit", "swiglu_alpha", "layer_types", "sliding_window", "full_attention", "BF16"),
    *(f"model.layers.0.mlp.experts.down_proj_{end}" for end in ("blocks", "scales", "bias")),
)
CLOSE = 2.0**-7
"""Steps by which a minimum of at most fifteen of them may be off: float16 has eleven bits."""
TINY = 2.0**-17
"""How far a weight may be off where scales are below what float16 has."""


def _packed_seeds() -> Sequence[Files]:
    with TemporaryDirectory() as place:
        folder = write_checkpoint(CASE, Path(place))
        found = []
        for i, kind in enumerate(KINDS):
            write_packed(folder, Path(place) / str(i), kind)
            found.append(read_files(Path(place) / str(i)))
        return found


def _mutate_packed(rng: Random, files: Files) -> Files:
    if rng.random() < 0.4:
        value = json.loads(files["config.json"])
        value["quantization_config"] = values.changed(rng, value["quantization_config"], _WORDS)
        return {**files, "config.json": values.written(rng, value)}
    return _mutate_tensors(rng, files, _WORDS)


def _mutate_tensors(rng: Random, files: Files, words: Sequence[str]) -> Files:
    data = files[SINGLE]
    size = int.from_bytes(data[:8], "little")
    if rng.random() < 0.4:
        # Anywhere: what is packed is numbers, and so are scales, zeros and shapes.
        return {**files, SINGLE: raw.changed(rng, data, head=rng.choice((size + 8, len(data))))}
    text = values.written(rng, values.changed(rng, json.loads(data[8 : 8 + size]), words))
    return {**files, SINGLE: len(text).to_bytes(8, "little") + text + data[8 + size :]}


def _expert_seeds() -> Sequence[Files]:
    with TemporaryDirectory() as place:
        folder = write_case(_EXPERTS, Path(place) / "case")
        (Path(place) / "both").mkdir()
        packed, _ = write_both(folder, Path(place) / "both")
        return [read_files(packed)]


def _mutate_experts(rng: Random, files: Files) -> Files:
    if rng.random() < 0.3:
        value = values.changed(rng, json.loads(files["config.json"]), _EXPERT_WORDS)
        return {**files, "config.json": values.written(rng, value)}
    return _mutate_tensors(rng, files, _EXPERT_WORDS)


def _use_experts(folder: Path, files: Files) -> None:
    """As others are, and compares floats with what the format says that they are."""
    with open_checkpoint(folder) as checkpoint:
        _compare(checkpoint)
        data = files[SINGLE]
        start = 8 + int.from_bytes(data[:8], "little")
        header = json.loads(data[8:start])

        def stored(name: str) -> np.ndarray:
            first, last = header[name]["data_offsets"]
            raw = np.frombuffer(data[start + first : start + last], np.uint8)
            return raw.reshape(header[name]["shape"])

        for name in checkpoint.held:
            found = _EXPERT.fullmatch(name)
            if found is None:
                raise WrongAnswerError(f"{name} is no expert")
            module, index, part = found.groups()
            tensor, first, step = _PLACES[part]
            mine = slice(first, first + step * ROWS, step)
            blocks = stored(f"{module}.{tensor}_blocks")[int(index), mine]
            scales = stored(f"{module}.{tensor}_scales")[int(index), mine]
            codes = np.stack([blocks % 16, blocks // 16], axis=-1)
            steps = np.array([*E2M1, *(-step for step in E2M1)])[codes]
            floats = steps * 2.0 ** (scales[..., None, None].astype(float) - 127)
            read = checkpoint.weights.read(name, 0, len(floats))
            if not np.array_equal(read, floats.reshape(len(floats), -1)):
                raise WrongAnswerError(f"{name} is not what its blocks say")


def _mlc_seeds() -> Sequence[Files]:
    with TemporaryDirectory() as place:
        folder = write_checkpoint(CASE, Path(place))
        found = []
        mixed = write_tiny("qwen2moe", Path(place) / "mixed")
        for model, quantization in (
            *((folder, kind) for kind in ("q4f16_1", "q4f32_1", "q0f32")),
            (mixed, "q4f16_1"),
        ):
            out = Path(place) / f"{model.name}-{quantization}"
            write_mlc(model, out, quantization)
            found.append(read_files(out))
        return found


def _mutate_mlc(rng: Random, files: Files) -> Files:
    name = rng.choice((CACHE, CACHE, CHAT, "params_shard_0.bin"))
    if name != "params_shard_0.bin":
        value = values.changed(rng, json.loads(files[name]), _MLC_WORDS)
        return {**files, name: values.written(rng, value)}
    data = raw.changed(rng, files[name])
    if rng.random() < 0.2:
        return {**files, name: data}
    # With its sizes and MD5 mended: what is in it counts then.
    listed = json.loads(files[CACHE])
    shard = listed["records"][0]
    shard |= {"nbytes": len(data), "md5sum": hashlib.md5(data).hexdigest()}
    return {**files, name: data, CACHE: json.dumps(listed).encode()}


def _use(folder: Path, files: Files) -> None:
    with open_checkpoint(folder) as checkpoint:
        _compare(checkpoint)


def _compare(checkpoint: Checkpoint) -> None:
    """Reads some of every tensor, and compares its codes in every scheme with its floats."""
    for name in checkpoint.weights.names():
        shape = checkpoint.weights.shape(name)
        rows = min(ROWS, shape[0] if shape else 0)
        floats = checkpoint.weights.read(name, 0, rows)
        if floats.shape != (rows, *shape[1:]):
            raise WrongAnswerError(f"{name} of {shape} is read as {floats.shape}")
        for scheme, codes in checkpoint.held.get(name, {}).items():
            if codes is None:
                continue
            coded = codes(0, rows)
            found = SCHEMES[scheme].dequantize(coded)[:, : shape[1]]
            steps = np.abs(coded.groups["scale"].astype(np.float32)).max(axis=1)
            far = np.abs(found - floats).max(axis=1)
            if (far > (CLOSE * steps if scheme == "q4a" else 0) + TINY).any():
                raise WrongAnswerError(f"{name} in {scheme} is {far.max()} off")


PACKED = Format(_packed_seeds, _mutate_packed, _use)
MXFP4 = Format(_expert_seeds, _mutate_experts, _use_experts)
MLC = Format(_mlc_seeds, _mutate_mlc, _use)
