"""Writes the tiny checkpoints of tests/parity as AWQ, GPTQ and compressed-tensors store them.

Packed here from the formats' descriptions, one code at a time: nothing is shared with the readers.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise_compiler.weights.safetensors import SafetensorsReader
from tests.parity.storing import write_safetensors

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]
Stored = tuple[str, tuple[int, ...], bytes]
"""Dtype, shape and bytes of a tensor."""


@dataclass(frozen=True)
class Kind:
    """How matrices are quantized.

    Attributes:
        method: ``awq``, ``gptq``, ``gptq_v2``, ``pack`` or ``int8``.
        group: columns that share a scale; -1 for all of a row.
        symmetric: every zero is the middle; else each group has its own.
        dtype: of scales.
        exact: scales are powers of two, so that ``zero * scale`` is a float16, too.
    """

    method: str
    bits: int = 4
    group: int = 32
    symmetric: bool = False
    dtype: str = "F16"
    exact: bool = False


@dataclass(frozen=True)
class Quantized:
    """A matrix: codes and zeros ``[n, k]``, scales float32 ``[n, groups]``, and its floats."""

    codes: Integers
    zeros: Integers
    scales: Floats
    floats: Floats


def quantized(values: Floats, kind: Kind) -> Quantized:
    """Codes for a matrix ``[n, k]``, which are the nearest ones; zeros ``[n, groups]``."""
    n, k = values.shape
    size = k if kind.group == -1 else kind.group
    groups = values.astype(np.float64).reshape(n, k // size, size)
    most, middle = (1 << kind.bits) - 1, 1 << (kind.bits - 1)
    low, high = np.minimum(groups.min(axis=2), 0), np.maximum(groups.max(axis=2), 0)
    wide = np.abs(groups).max(axis=2) / (middle - 1) if kind.symmetric else (high - low) / most
    scales = rounded(2.0 ** np.ceil(np.log2(wide)) if kind.exact else wide, kind.dtype)
    zeros = np.full(scales.shape, middle)
    if not kind.symmetric:
        zeros = np.clip(np.rint(-low / scales), 0, most).astype(np.int64)
    codes = np.rint(groups / scales[:, :, None]) + zeros[:, :, None]
    codes = np.clip(codes, 0, most).astype(np.int64)
    floats = (codes - zeros[:, :, None]).astype(np.float32) * scales[:, :, None]
    return Quantized(codes.reshape(n, k), zeros, scales, floats.reshape(n, k))


def rounded(values: NDArray[np.float64], dtype: str) -> Floats:
    if dtype == "BF16":
        bits = values.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
        return bits.view(np.float32)
    return values.astype({"F16": np.float16, "F32": np.float32}[dtype]).astype(np.float32)


def stored_floats(values: Floats, dtype: str) -> Stored:
    if dtype == "BF16":
        halves = (np.ascontiguousarray(values).view(np.uint32) >> 16).astype("<u2")
        return dtype, values.shape, halves.tobytes()
    raw = values.astype({"F16": "<f2", "F32": "<f4"}[dtype])
    return dtype, values.shape, raw.tobytes()


def stored_words(words: Integers) -> Stored:
    return "I32", words.shape, words.astype("<u4").tobytes()


def packed(codes: Integers, bits: int, axis: int, order: list[int] | None = None) -> Integers:
    """Words of 32 bits along an axis: word ``w`` has code ``w * each + order[i]`` at bit ``i *
    bits``."""
    each = 32 // bits
    codes = np.moveaxis(codes, axis, 0)
    more = -len(codes) % each
    codes = np.concatenate([codes, np.zeros((more, *codes.shape[1:]), np.int64)])
    words = np.zeros((len(codes) // each, *codes.shape[1:]), np.int64)
    for word in range(len(words)):
        for i, place in enumerate(order or range(each)):
            words[word] |= codes[word * each + place] << (i * bits)
    return np.moveaxis(words, 0, axis)


def awq(module: str, own: Quantized, kind: Kind) -> dict[str, Stored]:
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    return {
        f"{module}.qweight": stored_words(packed(own.codes.T, 4, 1, order)),
        f"{module}.qzeros": stored_words(packed(own.zeros.T, 4, 1, order)),
        f"{module}.scales": stored_floats(own.scales.T, kind.dtype),
    }


def gptq(module: str, own: Quantized, kind: Kind) -> dict[str, Stored]:
    k = own.codes.shape[1]
    words = packed(own.zeros.T, kind.bits, 1)
    if kind.method == "gptq":
        # What GPTQModel does, and AutoGPTQ where no zero is 0: one off every code, by the word.
        words = (words - sum(1 << i for i in range(0, 32, kind.bits))) % (1 << 32)
    index = np.arange(k, dtype="<i4") // (k // own.scales.shape[1])
    return {
        f"{module}.g_idx": ("I32", (k,), index.astype("<i4").tobytes()),
        f"{module}.qweight": stored_words(packed(own.codes.T, kind.bits, 0)),
        f"{module}.qzeros": stored_words(words),
        f"{module}.scales": stored_floats(own.scales.T, kind.dtype),
    }


def compressed(module: str, own: Quantized, kind: Kind) -> dict[str, Stored]:
    shape = np.array(own.codes.shape, "<i8")
    tensors = {f"{module}.weight_scale": stored_floats(own.scales, kind.dtype)}
    if kind.method == "int8":
        tensors[f"{module}.weight"] = (
            "I8", own.codes.shape, (own.codes - 128).astype(np.int8).tobytes(),
        )  # fmt: skip
        return tensors
    tensors[f"{module}.weight_packed"] = stored_words(packed(own.codes, kind.bits, 1))
    tensors[f"{module}.weight_shape"] = ("I64", (2,), shape.tobytes())
    if not kind.symmetric:
        tensors[f"{module}.weight_zero_point"] = stored_words(packed(own.zeros, kind.bits, 0))
    return tensors


STORE: dict[str, Callable[[str, Quantized, Kind], dict[str, Stored]]] = {
    "awq": awq,
    "gptq": gptq,
    "gptq_v2": gptq,
    "pack": compressed,
    "int8": compressed,
}


def description(kind: Kind) -> dict[str, Any]:
    """``quantization_config`` of config.json."""
    if kind.method == "awq":
        return {
            "quant_method": "awq",
            "bits": kind.bits,
            "group_size": kind.group,
            "zero_point": True,
            "version": "gemm",
            "modules_to_not_convert": ["lm_head"],
        }
    if kind.method.startswith("gptq"):
        return {
            "quant_method": "gptq",
            "bits": kind.bits,
            "group_size": kind.group,
            "sym": kind.symmetric,
            "desc_act": False,
            "checkpoint_format": kind.method,
        }
    weights = {
        "num_bits": kind.bits,
        "type": "int",
        "symmetric": kind.symmetric,
        "strategy": "channel" if kind.group == -1 else "group",
        "group_size": None if kind.group == -1 else kind.group,
        "dynamic": False,
        "actorder": None,
    }
    layout = "int-quantized" if kind.method == "int8" else "pack-quantized"
    return {
        "quant_method": "compressed-tensors",
        "format": layout,
        "quantization_status": "compressed",
        "ignore": ["lm_head"],
        "kv_cache_scheme": None,
        "config_groups": {
            "group_0": {"targets": ["Linear"], "weights": weights, "input_activations": None}
        },
    }


def write_packed(
    folder: Path,
    out: Path,
    kind: Kind,
    *,
    left: tuple[str, ...] = ("lm_head", "embed_tokens"),
    change: Callable[[dict[str, Stored]], None] = lambda tensors: None,
    says: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Floats]:
    """Write the checkpoint in ``folder`` to the new folder ``out``, its matrices quantized.

    Args:
        left: words in names of matrices that stay float16.
        change: given the tensors before they are written.
        says: more of ``quantization_config``.

    Returns:
        What each of its tensors is in float32.
    """
    shutil.copytree(folder, out, ignore=shutil.ignore_patterns("*.safetensors*"))
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {**description(kind), **says}
    (out / "config.json").write_text(json.dumps(config))
    tensors: dict[str, Stored] = {}
    floats: dict[str, Floats] = {}
    with SafetensorsReader(folder) as reader:
        for name in reader.names():
            values = reader.read(name)
            if values.ndim == 2 and not any(word in name for word in left):
                own = quantized(values, kind)
                floats[name] = own.floats
                tensors |= STORE[kind.method](name.removesuffix(".weight"), own, kind)
            else:
                floats[name] = values.astype(np.float16).astype(np.float32)
                tensors[name] = stored_floats(values, "F16")
    change(tensors)
    write_safetensors(out / "model.safetensors", tensors)
    return floats
