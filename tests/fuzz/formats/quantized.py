"""Folders that others have quantized: AWQ's, GPTQ's, compressed-tensors' and MLC LLM's."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np

from edgewise_compiler.checkpoint import open_checkpoint
from edgewise_compiler.quantize import SCHEMES
from edgewise_compiler.weights.safetensors import SINGLE
from tests.compiler.gguf.tiny import write_tiny
from tests.compiler.mlc.writing import write_mlc
from tests.compiler.packed.writing import Kind, write_packed
from tests.fuzz.case import Files, Format, WrongAnswerError, read_files
from tests.fuzz.formats.checkpoints import ROWS
from tests.fuzz.mutate import raw, values
from tests.parity.make_checkpoints import write_checkpoint

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
    data = files[SINGLE]
    size = int.from_bytes(data[:8], "little")
    if rng.random() < 0.4:
        # Anywhere: what is packed is numbers, and so are scales, zeros and shapes.
        return {**files, SINGLE: raw.changed(rng, data, head=rng.choice((size + 8, len(data))))}
    text = values.written(rng, values.changed(rng, json.loads(data[8 : 8 + size]), _WORDS))
    return {**files, SINGLE: len(text).to_bytes(8, "little") + text + data[8 + size :]}


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
    """Reads some of every tensor, and compares its codes in every scheme with its floats."""
    with open_checkpoint(folder) as checkpoint:
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
MLC = Format(_mlc_seeds, _mutate_mlc, _use)
